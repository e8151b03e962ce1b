//! Who we are at an authorization server: configured, a document of ours, or registered.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Discovered, Flow};
use crate::auth::AuthError;
use crate::auth::machine::{AuthBody, AuthRequest, AuthResponse, Step};
use crate::auth::metadata::ServerMetadata;
use crate::auth::record::{AuthMethod, Registration, Secret};
use crate::auth::settings::GrantType;
use crate::auth::token_answer::describe_error;

impl Flow {
    /// How a client that the user names shows who it is.
    pub(super) fn own_method(&self, metadata: &ServerMetadata, has_secret: bool) -> AuthMethod {
        let by_key = self.goal.settings.private_key.as_ref().map(|_| AuthMethod::PrivateKeyJwt);
        by_key.unwrap_or_else(|| choose_method(metadata, has_secret))
    }

    pub(super) async fn identify(&self, found: &Discovered) -> Result<Registration, AuthError> {
        let (settings, metadata) = (&self.goal.settings, &found.metadata);
        let issuer = metadata.issuer.clone();
        if let Some(client_id) = &settings.client_id {
            let client_secret = settings.client_secret.clone();
            let auth_method = Some(self.own_method(metadata, client_secret.is_some()));
            let redirect_uris = vec![self.goal.redirect.uri.clone()];
            let client_id = client_id.clone();
            let known = Registration {
                issuer,
                client_id,
                client_secret,
                private_key: settings.private_key.clone(),
                auth_method,
                ..Registration::default()
            };
            return Ok(Registration { redirect_uris, ..known });
        }
        let needs_id = matches!(
            settings.grant,
            GrantType::ClientCredentials | GrantType::Enterprise(_) | GrantType::Exchange { .. }
        );
        if needs_id || matches!(settings.grant, GrantType::Workload { .. }) {
            let text = "this way of signing in needs a client id: set oauth.clientId";
            return if needs_id {
                Err(AuthError::Settings(text.to_owned()))
            } else {
                Ok(Registration { issuer, ..Registration::default() })
            };
        }
        if let Some(url) = &settings.client_metadata_url
            && metadata.client_id_metadata_document_supported
        {
            let redirect_uris = vec![self.goal.redirect.uri.clone()];
            let public = settings.public_metadata_url.as_ref();
            let public = public.filter(|_| !metadata.takes_signatures());
            let private_key = settings.private_key.clone().filter(|_| public.is_none());
            let auth_method = private_key.as_ref().map(|_| AuthMethod::PrivateKeyJwt);
            let client_id = public.unwrap_or(url).clone();
            return Ok(Registration {
                issuer,
                client_id,
                private_key,
                auth_method,
                redirect_uris,
                ..Registration::default()
            });
        }
        let now = self.tools.now();
        let stored = self.desk.find_registration(&issuer).await?;
        let is_of_use = |stored: &Registration| {
            stored.issuer == issuer
                && !stored.is_in_doubt
                && stored.secret_expires_at.is_none_or(|end| end > now)
                && self.redirect_of(stored).is_some()
        };
        if let Some(stored) = stored.filter(is_of_use) {
            return Ok(stored);
        }
        let Some(endpoint) = &metadata.registration_endpoint else {
            let redirect = self.goal.redirect.uri.clone();
            return Err(AuthError::NotRegistered { issuer, redirect });
        };
        let registered = self.register(endpoint, found).await?;
        self.desk.act(Step::KeepRegistration(Box::new(registered.clone()))).await?;
        Ok(registered)
    }

    /// Where people come back to with this registration, if they come back to us.
    pub(super) fn redirect_of(&self, client: &Registration) -> Option<String> {
        let own = &self.goal.redirect.uri;
        if own.is_empty() {
            // Nobody comes back from another machine.
            return client.redirect_uris.is_empty().then(String::new);
        }
        let other = own.replacen("//127.0.0.1:", "//localhost:", 1);
        client.redirect_uris.iter().find(|uri| *uri == own || **uri == other).cloned()
    }

    async fn register(
        &self,
        endpoint: &str,
        found: &Discovered,
    ) -> Result<Registration, AuthError> {
        let own = &self.goal.redirect.uri;
        let response = self.send_registration(endpoint, found, own).await?;
        if matches!(response.status, 200 | 201) {
            return read_registration(&response, found, own);
        }
        let other = own.replacen("//127.0.0.1:", "//localhost:", 1);
        if other != *own && describe_error(&response).contains("redirect") {
            let second = self.send_registration(endpoint, found, &other).await?;
            if matches!(second.status, 200 | 201) {
                return read_registration(&second, found, &other);
            }
        }
        if found.is_guess {
            return Err(AuthError::NoOauth);
        }
        let issuer = found.metadata.issuer.clone();
        Err(AuthError::RegistrationRefused { issuer, why: describe_error(&response) })
    }

    async fn send_registration(
        &self,
        endpoint: &str,
        found: &Discovered,
        redirect: &str,
    ) -> Result<AuthResponse, AuthError> {
        let listed = found.metadata.token_endpoint_auth_methods_supported.as_deref();
        let order = [AuthMethod::None, AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost];
        let is_taken = |method: &AuthMethod| {
            listed.is_none_or(|listed| listed.iter().any(|name| name == method.name()))
        };
        let method = order.into_iter().find(is_taken).unwrap_or_default();
        let (grants, responses, redirects) = if self.goal.settings.grant == GrantType::Device {
            (["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"], vec![], vec![])
        } else {
            (["authorization_code", "refresh_token"], vec!["code"], vec![redirect])
        };
        let kind = if self.goal.redirect.is_native { "native" } else { "web" };
        let mut about = json!({"client_name": self.goal.redirect.client_name});
        let must = json!({
            "redirect_uris": redirects,
            "grant_types": grants,
            "response_types": responses,
            "token_endpoint_auth_method": method.name(),
            "application_type": kind,
        });
        if let (Some(about), Value::Object(must)) = (about.as_object_mut(), must) {
            about.extend(self.goal.settings.client_metadata.clone());
            about.extend(must);
        }
        let body = Some(AuthBody::Json(about.to_string()));
        let url = endpoint.to_owned();
        self.desk.fetch(AuthRequest { url, body, authorization: None, dpop: None }).await
    }
}

/// What an authorization server knows us by that has registered us.
fn read_registration(
    response: &AuthResponse,
    found: &Discovered,
    redirect: &str,
) -> Result<Registration, AuthError> {
    #[derive(Deserialize)]
    struct Registered {
        client_id: String,
        client_secret: Option<Secret>,
        client_secret_expires_at: Option<u64>,
        token_endpoint_auth_method: Option<String>,
        redirect_uris: Option<Vec<String>>,
    }
    let issuer = found.metadata.issuer.clone();
    let Ok(new) = serde_json::from_slice::<Registered>(&response.body) else {
        let why = "its answer has no client id".to_owned();
        return Err(AuthError::RegistrationRefused { issuer, why });
    };
    let has_secret = new.client_secret.is_some();
    // What comes back counts, also where it differs from what was asked for.
    let given = new.token_endpoint_auth_method.as_deref().and_then(AuthMethod::from_name);
    let given = given.filter(|method| has_secret || *method == AuthMethod::None);
    let method = given.unwrap_or_else(|| choose_method(&found.metadata, has_secret));
    Ok(Registration {
        private_key: None,
        issuer,
        client_id: new.client_id,
        client_secret: new.client_secret,
        secret_expires_at: new.client_secret_expires_at.filter(|end| *end != 0),
        auth_method: Some(method),
        redirect_uris: new.redirect_uris.unwrap_or_else(|| {
            Some(redirect.to_owned()).into_iter().filter(|uri| !uri.is_empty()).collect()
        }),
        is_dynamic: true,
        is_in_doubt: false,
    })
}

/// How a client without a key shows who it is.
fn choose_method(metadata: &ServerMetadata, has_secret: bool) -> AuthMethod {
    let listed = metadata.token_endpoint_auth_methods_supported.as_deref();
    let takes = |method: AuthMethod| {
        listed.is_none_or(|listed| listed.iter().any(|name| name == method.name()))
    };
    if !has_secret {
        AuthMethod::None
    } else if takes(AuthMethod::ClientSecretBasic) || !takes(AuthMethod::ClientSecretPost) {
        AuthMethod::ClientSecretBasic
    } else {
        AuthMethod::ClientSecretPost
    }
}
