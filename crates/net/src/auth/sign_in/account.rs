//! Whose tokens they are, and what their records are called.

use http::Uri;
use switchboard_proto::auth::{AuthError, GrantType, IdentityProvider, OauthSettings, TokenRecord};

use super::drive::read;
use crate::auth::store::{RecordId, RecordKind, RecordStore};

/// Whose tokens they are, and for which server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// The URL of the server, as the user wrote it.
    pub server: String,
    /// Tells several accounts at one server apart.
    pub account: Option<String>,
    /// The user of a gateway whose account it is.
    pub principal: Option<String>,
    /// Who is signed in, where it is not a person who says yes to us.
    pub grant: Option<String>,
}

impl Account {
    /// The account of whoever runs us, at the server with this URL.
    pub fn of(server: &Uri) -> Self {
        let mut server = server.to_string();
        // The type of URLs adds a slash to a bare origin, which none of the rules has.
        if server.matches('/').count() == 3 && server.ends_with('/') {
            server.pop();
        }
        Self { server, ..Self::default() }
    }

    /// The account of a record of this name; none for records that have no account.
    pub fn from_name(name: &str) -> Option<Self> {
        let parts: Vec<_> = name.split('\n').collect();
        let ([server, account, principal], rest) = parts.split_first_chunk()?;
        let part = |part: &str| Some(part.to_owned()).filter(|part| !part.is_empty());
        let grant = match rest {
            [] => None,
            [grant] => part(grant),
            _ => return None,
        };
        let (account, principal) = (part(account), part(principal));
        Some(Self { server: (*server).to_owned(), account, principal, grant })
    }

    /// The account that these settings lead to. A client that is known by itself is not the
    /// person who signs in at the same server, nor another client.
    #[must_use]
    pub fn signing_in_by(self, settings: &OauthSettings) -> Self {
        let client = settings.client_id.as_deref().unwrap_or_default();
        let grant = match &settings.grant {
            GrantType::Code | GrantType::Device => None,
            GrantType::ClientCredentials => Some(format!("client-credentials {client}")),
            GrantType::Workload { .. } => Some(format!("workload {client}")),
            GrantType::Exchange { .. } => Some(format!("exchange {client}")),
            GrantType::Enterprise(provider) => {
                let issuer = match provider {
                    IdentityProvider::SignIn { issuer, .. } => issuer,
                    IdentityProvider::Token(token) => &token.source.issuer,
                };
                Some(format!("enterprise {client} {issuer}"))
            }
        };
        Self { grant, ..self }
    }

    /// The tokens that are kept of it, as they are.
    pub async fn tokens(&self, store: &dyn RecordStore) -> Result<Option<TokenRecord>, AuthError> {
        read(store.read(&self.record(RecordKind::Tokens)).await)
    }

    /// What its record of a kind is called.
    pub fn record(&self, kind: RecordKind) -> RecordId {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let (account, principal) = (part(&self.account), part(&self.principal));
        let grant = self.grant.as_ref().map(|grant| format!("\n{grant}")).unwrap_or_default();
        RecordId { kind, name: format!("{}\n{account}\n{principal}{grant}", self.server) }
    }
}
