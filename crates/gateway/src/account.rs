//! Accounts at servers that want an access token: whose they are, and where they are kept.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use switchboard_net::auth::person::SignInPerson;
use switchboard_net::auth::store::RecordStore;
use switchboard_net::auth::{Account, Authorizer, OauthCredential, SignInOptions};
use switchboard_net::http::fetch::Fetch;
use switchboard_net::upstream::{Credential, Target};

use crate::plan::ServerPlan;

/// Where the accounts of servers are kept, and how people are asked for them.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// Where tokens are.
    pub store: Arc<dyn RecordStore>,
    /// Who is asked to sign in.
    pub person: Arc<dyn SignInPerson>,
    /// How they are asked.
    pub options: SignInOptions,
    /// Which account is used at servers whose file names none.
    pub account: Option<String>,
}

impl Accounts {
    /// What a server is shown: what it is shown anyway, and the token of its account. Nothing
    /// else if it is a command, if its file says that it wants no token, or if the file has an
    /// `Authorization` of its own.
    pub fn credential(
        &self,
        server: &ServerPlan,
        others: Option<Arc<dyn Credential>>,
        fetch: Fetch,
    ) -> Option<Arc<dyn Credential>> {
        let Target::Url { url, headers, .. } = &server.target else { return others };
        let wanted = server.oauth.is_wanted;
        if wanted == Some(false) || wanted.is_none() && headers.contains_key(AUTHORIZATION) {
            return others;
        }
        let settings = server.oauth.settings.clone();
        let (store, person) = (Arc::clone(&self.store), Arc::clone(&self.person));
        let mut options = SignInOptions { name: server.name.clone(), ..self.options.clone() };
        options.reach.allowed.extend_from_slice(&server.oauth.allow_private);
        let account = server.oauth.account_name.clone().or_else(|| self.account.clone());
        let account = Account { account, ..Account::of(url) };
        let authorizer = Authorizer::new(account, settings, store, fetch, person, options);
        Some(match others {
            Some(others) => Arc::new(OauthCredential::beside(authorizer, others, wanted.is_none())),
            None => Arc::new(OauthCredential::new(authorizer, headers.clone())),
        })
    }
}
