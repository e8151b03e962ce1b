//! Who the gateway is at authorization servers: its documents, and the key that it shows (OC-21).

use std::net::IpAddr;

use bytes::Bytes;
use http::{Method, Response, Uri};
use serde_json::json;
use switchboard_net::auth::SystemTools;
use switchboard_net::http::page::PageVisit;
use switchboard_proto::auth::{GrantType, Secret, Tools as _};

use super::{CALLBACK_PATH, DOCUMENT_PATH, PUBLIC_DOCUMENT_PATH, UserConnector};
use crate::facade::{self, FacadeError, document, nothing, unavailable};
use crate::plan::ServerPlan;
use crate::read;

/// Whether a URL leads to the machine of whoever reads it.
fn is_local(url: &str) -> bool {
    let Some(host) = url.parse::<Uri>().ok().and_then(|url| url.host().map(str::to_owned)) else {
        return true;
    };
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl UserConnector {
    /// Where the documents are that say who we are, if others can read them there: by https, and
    /// not on this machine, where every gateway has the same address.
    pub(super) fn document_base(&self) -> Option<String> {
        read(&self.base).clone().filter(|base| base.starts_with("https://") && !is_local(base))
    }

    /// What we show who we are by, at authorization servers that take signatures.
    async fn client_key(&self) -> Result<&Secret, FacadeError> {
        self.client_key.get_or_try_init(|| facade::client_key(&*self.accounts.store)).await
    }

    /// The server, to sign in to: our documents say who we are there, unless the file says
    /// something else.
    pub(super) async fn described(&self, server: &ServerPlan) -> Result<ServerPlan, FacadeError> {
        let mut server = server.clone();
        let settings = &mut server.oauth.settings;
        let is_ours = settings.grant == GrantType::Code
            && settings.client_id.is_none()
            && settings.private_key.is_none()
            && settings.client_metadata_url.is_none();
        if let Some(base) = self.document_base().filter(|_| is_ours) {
            settings.private_key = Some(self.client_key().await?.clone());
            settings.client_metadata_url = Some(format!("{base}{DOCUMENT_PATH}"));
            settings.public_metadata_url = Some(format!("{base}{PUBLIC_DOCUMENT_PATH}"));
        }
        Ok(server)
    }

    /// Who we are, for authorization servers that read it (OC-22): a client with a key, or one
    /// that has nothing to show.
    pub(super) async fn visit_document(&self, visit: &PageVisit) -> Response<Bytes> {
        let is_read = matches!(visit.method, Method::GET | Method::HEAD);
        let Some(base) = self.document_base().filter(|_| is_read) else { return nothing() };
        let method = match &*visit.path {
            DOCUMENT_PATH => "private_key_jwt",
            PUBLIC_DOCUMENT_PATH => "none",
            _ => return nothing(),
        };
        // A gateway whose users sign in nowhere has no key, and needs no store.
        let has_users = self.client_key.initialized() || !self.servers_with_accounts().is_empty();
        if !has_users {
            return nothing();
        }
        let mut about = json!({
            "client_id": format!("{base}{}", visit.path),
            "client_name": "Switchboard",
            "redirect_uris": [format!("{base}{CALLBACK_PATH}")],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            // The form of SEP-3149.
            "token_endpoint_auth_methods_supported": [method],
        });
        if visit.path == DOCUMENT_PATH {
            let key = match self.client_key().await {
                Ok(key) => SystemTools.public_key(key),
                Err(failed) => return unavailable(&failed),
            };
            // The store has a key that can be used, or it was changed by hand.
            let Ok((public, algorithm)) = key else { return nothing() };
            about["token_endpoint_auth_signing_alg"] = algorithm.into();
            about["jwks"] = json!({"keys": [public]});
        }
        document(&about)
    }
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn a_loopback_address_says_nothing_to_others() {
        for url in ["https://127.0.0.1:3001", "https://localhost", "https://[::1]:3001", "no url"] {
            assert!(is_local(url), "{url}");
        }
        for url in ["https://gateway.example", "https://192.0.2.1:3001"] {
            assert!(!is_local(url), "{url}");
        }
    }
}
