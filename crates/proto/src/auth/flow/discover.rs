//! Finding out: who issues the tokens that a server takes, and where they are to be had.

use http::Uri;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Discovered, Flow};
use crate::auth::AuthError;
use crate::auth::machine::AuthRequest;
use crate::auth::metadata::{
    ResourceMetadata, ServerMetadata, check_endpoint, origin_of, resource_of, resource_places,
    server_places,
};
use crate::auth::settings::{GrantType, ResourceParameter};

/// Authorization servers of one resource that are tried.
const MOST_ISSUERS: usize = 8;

impl Flow {
    pub(super) async fn discover(&self) -> Result<Discovered, AuthError> {
        let (server, settings) = (self.server()?, &self.goal.settings);
        let exchanges = matches!(settings.grant, GrantType::Exchange { .. });
        if exchanges && !settings.names_issuer() {
            let text = "a token exchange needs to know where: set oauth.issuer or oauth.tokenUrl";
            return Err(AuthError::Settings(text.to_owned()));
        }
        // The server has no say in who gets the token of a user (OX-6).
        let resource =
            if settings.is_local || exchanges { None } else { self.find_resource(&server).await? };
        let mut is_guess = false;
        let mut metadata = match (&resource, &settings.issuer, &settings.metadata_url) {
            _ if settings.names_all_endpoints() => ServerMetadata::default(),
            (_, _, Some(url)) => self.read_server_metadata(url).await?,
            (Some(resource), ..) => self.find_issuer(resource).await?,
            (None, Some(issuer), _) => self.read_issuer(issuer).await?,
            (None, None, None) => {
                let origin = origin_of(&server);
                let url = format!("{origin}/.well-known/oauth-authorization-server");
                let found = self.read::<ServerMetadata>(&url).await?;
                is_guess = found.is_none();
                let found = found.unwrap_or_else(|| ServerMetadata::of_origin(&origin));
                // The revision that has this did not say which path issuers have: the server
                // itself is the authorization server, by whatever name of its own.
                let is_own = found.issuer.parse().is_ok_and(|it: Uri| origin_of(&it) == origin);
                if is_own { found } else { self.check_issuer(&origin, found)? }
            }
        };
        if let Some(endpoint) = &settings.endpoints.authorization {
            metadata.authorization_endpoint = Some(endpoint.clone());
        }
        if let Some(endpoint) = &settings.endpoints.token {
            metadata.token_endpoint = Some(endpoint.clone());
            if metadata.issuer.is_empty() {
                let bad = |_| AuthError::BadEndpoint { endpoint: endpoint.clone() };
                let url: Uri = endpoint.parse().map_err(bad)?;
                metadata.issuer = settings.issuer.clone().unwrap_or_else(|| origin_of(&url));
            }
        }
        metadata.check_endpoints()?;
        let own = resource.as_ref().map(|found| found.resource.clone());
        let own = own.unwrap_or_else(|| resource_of(&server, &self.goal.server));
        let parameter = match &settings.resource {
            ResourceParameter::OfServer => Some(own),
            ResourceParameter::Given(given) => Some(given.clone()),
            ResourceParameter::LeftOut => None,
        };
        Ok(Discovered {
            metadata,
            resource: parameter,
            wants_dpop: resource.as_ref().is_some_and(|it| it.dpop_bound_access_tokens_required),
            scopes: resource.and_then(|resource| resource.scopes_supported),
            is_guess,
        })
    }

    async fn find_resource(&self, server: &Uri) -> Result<Option<ResourceMetadata>, AuthError> {
        // Somebody signs in at the authorization server itself, to say who they are.
        if self.goal.settings.issuer.as_ref() == Some(&self.goal.server) {
            return Ok(None);
        }
        for place in resource_places(server, self.goal.challenge.as_ref()) {
            check_endpoint(&place)?;
            if let Some(found) = self.read::<ResourceMetadata>(&place).await? {
                found.check_covers(server)?;
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The metadata of the authorization server to use: the one that our tokens are from, the
    /// one that the user names, else the first that answers (OC-5).
    async fn find_issuer(&self, resource: &ResourceMetadata) -> Result<ServerMetadata, AuthError> {
        let listed = &resource.authorization_servers;
        if let Some(named) = &self.goal.settings.issuer {
            let first = listed.first().ok_or(AuthError::NoIssuer)?;
            if !listed.contains(named) {
                let (configured, found) = (named.clone(), first.clone());
                return Err(AuthError::OtherClientIssuer { configured, found });
            }
            return self.read_issuer(named).await;
        }
        let before = self.goal.before.as_ref().map(|before| &before.source.issuer);
        let mut issuers: Vec<_> = listed.iter().take(MOST_ISSUERS).collect();
        issuers.sort_by_key(|issuer| Some(*issuer) != before);
        let mut failure = AuthError::NoIssuer;
        for issuer in issuers {
            match self.read_issuer(issuer).await {
                Err(error) if error.is_temporary() => failure = error,
                other => return other,
            }
        }
        Err(failure)
    }

    async fn read_issuer(&self, issuer: &str) -> Result<ServerMetadata, AuthError> {
        let places = server_places(issuer)?;
        for place in &places {
            if let Some(found) = self.read::<ServerMetadata>(place).await? {
                return self.check_issuer(issuer, found);
            }
        }
        let url = places.into_iter().next().unwrap_or_default();
        Err(AuthError::BadAnswer { url, problem: "has no metadata".to_owned() })
    }

    /// The document must be that of the issuer it was looked for (OC-7).
    fn check_issuer(
        &self,
        asked: &str,
        found: ServerMetadata,
    ) -> Result<ServerMetadata, AuthError> {
        let is_trusted = self.goal.settings.trusted_issuer.as_ref() == Some(&found.issuer);
        if found.issuer == asked || is_trusted {
            return Ok(found);
        }
        Err(AuthError::OtherIssuer { asked: asked.to_owned(), found: found.issuer })
    }

    /// The document of an authorization server that the user names.
    async fn read_server_metadata(&self, url: &str) -> Result<ServerMetadata, AuthError> {
        check_endpoint(url)?;
        let missing =
            || AuthError::BadAnswer { url: url.to_owned(), problem: "has no metadata".into() };
        self.read::<ServerMetadata>(url).await?.ok_or_else(missing)
    }

    /// A document; none if it is not there.
    async fn read<T: DeserializeOwned>(&self, url: &str) -> Result<Option<T>, AuthError> {
        let request =
            AuthRequest { url: url.to_owned(), body: None, authorization: None, dpop: None };
        let response = self.desk.fetch(request).await?;
        let bad = |problem: String| AuthError::BadAnswer { url: url.to_owned(), problem };
        match response.status {
            200 => {
                // Some servers have one page for all that they do not know.
                let Ok(object) = serde_json::from_slice::<Map<String, Value>>(&response.body)
                else {
                    return Ok(None);
                };
                let read = serde_json::from_value(Value::Object(object));
                read.map(Some)
                    .map_err(|error| bad(format!("has metadata that cannot be used: {error}")))
            }
            400..=499 if response.status != 429 => Ok(None),
            status => Err(bad(format!("answers with HTTP {status}"))),
        }
    }
}
