//! From a refused request to tokens: find out who issues them, be somebody there, ask.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Uri;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::challenge::Challenge;
use super::machine::{AuthBody, AuthRequest, AuthResponse, Desk, SignIn, Step, Tools};
use super::metadata::{
    ResourceMetadata, ServerMetadata, check_endpoint, origin_of, resource_of, resource_places,
    server_places,
};
use super::record::{
    AuthMethod, PendingSignIn, Registration, Secret, TokenRecord, TokenSource, join_scopes, union,
};
use super::settings::{GrantType, IdentityProvider, OauthSettings, ResourceParameter};
use super::token::{TokenEndpoint, describe_error};
use super::{AuthError, form};

/// What a sign-in is for.
#[derive(Clone, Debug)]
pub struct Goal {
    /// The URL of the server, as the user wrote it.
    pub server: String,
    /// What the server asked for.
    pub challenge: Option<Challenge>,
    /// What the user says.
    pub settings: OauthSettings,
    /// The tokens that were there before.
    pub before: Option<TokenRecord>,
    /// Where people come back to.
    pub redirect: Redirect,
}

/// Where people come back to from the authorization server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Redirect {
    /// The URL.
    pub uri: String,
    /// Whether it is a port of this machine, and not a web page.
    pub is_native: bool,
    /// What we are called when we register.
    pub client_name: String,
}

/// Authorization servers of one resource that are tried.
const MOST_ISSUERS: usize = 8;

impl SignIn {
    /// Signs in, from the beginning.
    pub fn new(goal: Goal, tools: Arc<dyn Tools>) -> Self {
        Self::run(|desk| async move { Flow { desk, goal, tools }.sign_in().await })
    }

    /// Goes on with a sign-in that another process began: its page is open already.
    pub fn resume(pending: PendingSignIn, settings: OauthSettings, tools: Arc<dyn Tools>) -> Self {
        Self::run(|desk| async move {
            let code = desk.authorize(&pending).await?;
            let endpoint = TokenEndpoint::new(&desk, &*tools, &settings, &pending.source);
            endpoint.redeem(&pending, &code).await
        })
    }

    /// Gets another access token for the refresh token of `record`. Where that goes is found
    /// out first if the record does not say it.
    pub fn renew(record: TokenRecord, goal: Goal, tools: Arc<dyn Tools>) -> Self {
        Self::run(|desk| async move {
            let flow = Flow { desk, goal, tools };
            let record = flow.complete(record).await?;
            let Flow { desk, goal, tools } = &flow;
            let endpoint = TokenEndpoint::new(desk, &**tools, &goal.settings, &record.source);
            endpoint.refresh(&record).await
        })
    }

    /// Has the tokens of `record` taken back, where that can be done (OC-49).
    pub fn revoke(record: TokenRecord, settings: OauthSettings, tools: Arc<dyn Tools>) -> Self {
        Self::run(|desk| async move {
            TokenEndpoint::new(&desk, &*tools, &settings, &record.source).revoke(&record).await?;
            Ok(record)
        })
    }
}

/// What was found out about a server.
struct Discovered {
    metadata: ServerMetadata,
    /// The `resource` of requests; none if it is not to be said.
    resource: Option<String>,
    /// The scopes of the resource's own metadata.
    scopes: Option<Vec<String>>,
    wants_dpop: bool,
    /// Nobody said that there is OAuth at all.
    is_guess: bool,
}

struct Flow {
    desk: Desk,
    goal: Goal,
    tools: Arc<dyn Tools>,
}

impl Flow {
    async fn sign_in(&self) -> Result<TokenRecord, AuthError> {
        let found = self.discover().await?;
        let first = self.get_tokens(&found).await;
        match first {
            // The server has forgotten us. It is told once more who we are (OC-26).
            Err((error, client))
                if client.as_ref().is_some_and(|client| client.is_dynamic)
                    && matches!(error.code(), Some("invalid_client" | "unauthorized_client")) =>
            {
                let issuer = found.metadata.issuer.clone();
                let none = Registration { issuer, ..Registration::default() };
                self.desk.act(Step::KeepRegistration(Box::new(none))).await?;
                self.get_tokens(&found).await.map_err(|(error, _)| error)
            }
            other => other.map_err(|(error, _)| error),
        }
    }

    /// Tokens, or why there are none, and who we were.
    async fn get_tokens(
        &self,
        found: &Discovered,
    ) -> Result<TokenRecord, (AuthError, Option<Registration>)> {
        let client = self.identify(found).await.map_err(|error| (error, None))?;
        let known = Some(client.clone());
        self.use_grant(found, client).await.map_err(|error| (error, known))
    }

    async fn use_grant(
        &self,
        found: &Discovered,
        client: Registration,
    ) -> Result<TokenRecord, AuthError> {
        let settings = &self.goal.settings;
        let metadata = &found.metadata;
        let missing = |what| AuthError::NoEndpoint { issuer: metadata.issuer.clone(), what };
        let token_endpoint = metadata.token_endpoint.clone();
        let wants_dpop = settings.dpop || found.wants_dpop;
        let can_dpop =
            metadata.dpop_signing_alg_values_supported.iter().any(|name| name == "ES256");
        let dpop_key = if wants_dpop && can_dpop { Some(self.tools.new_key()?) } else { None };
        let source = TokenSource {
            issuer: metadata.issuer.clone(),
            token_endpoint: token_endpoint.ok_or_else(|| missing("token endpoint"))?,
            revocation_endpoint: metadata.revocation_endpoint.clone(),
            client,
            resource: found.resource.clone(),
            scopes: self.choose_scopes(found),
            dpop_key,
        };
        let endpoint = TokenEndpoint::new(&self.desk, &*self.tools, settings, &source);
        match &settings.grant {
            GrantType::Code => self.ask_person(found, source).await,
            GrantType::Device => {
                let url = metadata.device_authorization_endpoint.as_deref();
                endpoint.ask_device(url.ok_or_else(|| missing("endpoint for devices"))?).await
            }
            GrantType::ClientCredentials => endpoint.use_own_credentials().await,
            GrantType::Enterprise(IdentityProvider::SignIn { issuer, .. }) => {
                let text = format!("nobody has signed in at {issuer}");
                Err(AuthError::NoPerson(text))
            }
            GrantType::Enterprise(IdentityProvider::Token(provider)) => {
                let server = resource_of(&self.server()?, &self.goal.server);
                endpoint.exchange(provider, source.resource.as_deref().unwrap_or(&server)).await
            }
            GrantType::Workload { assertion } => endpoint.use_assertion(assertion).await,
            GrantType::Exchange { subject: Some(subject) } => {
                endpoint.exchange_access_token(subject).await
            }
            GrantType::Exchange { subject: None } => {
                let text = "tokens are exchanged for the users of `switchboard serve` alone";
                Err(AuthError::Settings(text.to_owned()))
            }
        }
    }

    /// The record with where its tokens come from. One that another program wrote may lack it.
    async fn complete(&self, mut record: TokenRecord) -> Result<TokenRecord, AuthError> {
        let source = &mut record.source;
        if !source.token_endpoint.is_empty() {
            return Ok(record);
        }
        let Discovered { metadata, resource, .. } = self.discover().await?;
        // A refresh token is shown to nobody but the one who issued it (OC-24).
        if !source.issuer.is_empty() && source.issuer != metadata.issuer {
            let (configured, found) = (source.issuer.clone(), metadata.issuer);
            return Err(AuthError::OtherClientIssuer { configured, found });
        }
        let missing =
            || AuthError::NoEndpoint { issuer: metadata.issuer.clone(), what: "token endpoint" };
        source.token_endpoint = metadata.token_endpoint.clone().ok_or_else(missing)?;
        let has_secret = source.client.client_secret.is_some();
        let method = source.client.auth_method;
        let method = method.unwrap_or_else(|| self.own_method(&metadata, has_secret));
        source.client.auth_method = Some(method);
        source.issuer.clone_from(&metadata.issuer);
        source.client.issuer = metadata.issuer;
        source.revocation_endpoint = metadata.revocation_endpoint;
        source.resource = resource;
        Ok(record)
    }

    fn server(&self) -> Result<Uri, AuthError> {
        let bad = || AuthError::BadUrl { url: self.goal.server.clone() };
        let server: Uri = self.goal.server.parse().map_err(|_| bad())?;
        if server.host().is_none() { Err(bad()) } else { Ok(server) }
    }

    // --- finding out -------------------------------------------------------------

    async fn discover(&self) -> Result<Discovered, AuthError> {
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
                let url: Uri = endpoint.parse().map_err(|_| bad_endpoint(endpoint))?;
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

    // --- who we are --------------------------------------------------------------

    /// How a client that the user names shows who it is.
    fn own_method(&self, metadata: &ServerMetadata, has_secret: bool) -> AuthMethod {
        let by_key = self.goal.settings.private_key.as_ref().map(|_| AuthMethod::PrivateKeyJwt);
        by_key.unwrap_or_else(|| choose_method(metadata, has_secret))
    }

    async fn identify(&self, found: &Discovered) -> Result<Registration, AuthError> {
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
    fn redirect_of(&self, client: &Registration) -> Option<String> {
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

    // --- asking ------------------------------------------------------------------

    /// What to ask for: what the user says, else what the server's challenge names, else what
    /// its metadata lists, else nothing in particular (OC-32). More scope comes on top of what
    /// was asked for before (OC-50).
    fn choose_scopes(&self, found: &Discovered) -> Vec<String> {
        let challenge = self.goal.challenge.clone().unwrap_or_default();
        let before = self.goal.before.as_ref().filter(|_| challenge.asks_for_more_scope());
        let named = challenge.scopes();
        let own = self.goal.settings.scopes.clone();
        let scopes = match (own, before) {
            (Some(own), None) => own,
            (own, Some(before)) => {
                union(&union(&own.unwrap_or_default(), &before.source.scopes), &named)
            }
            (None, None) if !named.is_empty() => named,
            (None, None) => found.scopes.clone().unwrap_or_default(),
        };
        let offline = "offline_access".to_owned();
        let has_offline = found.metadata.scopes_supported.contains(&offline);
        let is_persons = matches!(self.goal.settings.grant, GrantType::Code | GrantType::Device);
        let is_wanted = is_persons && !self.goal.settings.is_brief;
        if has_offline && is_wanted { union(&scopes, &[offline]) } else { scopes }
    }

    async fn ask_person(
        &self,
        found: &Discovered,
        source: TokenSource,
    ) -> Result<TokenRecord, AuthError> {
        let pending = self.prepare(found, source).await?;
        let client = &pending.source.client;
        let doubted = |is_in_doubt| {
            Step::KeepRegistration(Box::new(Registration { is_in_doubt, ..client.clone() }))
        };
        // A server that does not know us may tell the person alone, who then never comes back.
        if client.is_dynamic {
            self.desk.act(doubted(true)).await?;
        }
        let code = self.desk.authorize(&pending).await;
        if client.is_dynamic && !matches!(code, Err(AuthError::TimedOut)) {
            self.desk.act(doubted(false)).await?;
        }
        let settings = &self.goal.settings;
        let endpoint = TokenEndpoint::new(&self.desk, &*self.tools, settings, &pending.source);
        endpoint.redeem(&pending, &code?).await
    }

    /// The page to open, and what its answer is judged by.
    async fn prepare(
        &self,
        found: &Discovered,
        source: TokenSource,
    ) -> Result<PendingSignIn, AuthError> {
        let (settings, metadata) = (&self.goal.settings, &found.metadata);
        let missing = |what| AuthError::NoEndpoint { issuer: metadata.issuer.clone(), what };
        let page = metadata.authorization_endpoint.clone();
        let page = page.ok_or_else(|| missing("page to sign in at"))?;
        let has_pkce = metadata.code_challenge_methods_supported.iter().any(|name| name == "S256");
        if !has_pkce && !settings.assume_pkce && !settings.names_all_endpoints() {
            return Err(AuthError::NoPkce { issuer: metadata.issuer.clone() });
        }
        let random = || URL_SAFE_NO_PAD.encode(self.tools.random());
        let (state, verifier) = (random(), random());
        let challenge = URL_SAFE_NO_PAD.encode(self.tools.sha256(verifier.as_bytes()));
        let own = self.goal.redirect.uri.clone();
        let redirect_uri = self.redirect_of(&source.client).unwrap_or(own);
        let scope = join_scopes(&source.scopes);
        let extra = |name: &str| settings.authorize_params.iter().any(|(other, _)| other == name);
        let mut parameters = vec![
            ("response_type", "code"),
            ("client_id", &source.client.client_id),
            ("redirect_uri", &redirect_uri),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("state", &state),
        ];
        if !scope.is_empty() && !extra("scope") {
            parameters.push(("scope", &scope));
        }
        if let Some(resource) = source.resource.as_deref().filter(|_| !extra("resource")) {
            parameters.push(("resource", resource));
        }
        if source.scopes.iter().any(|scope| scope == "offline_access") && !extra("prompt") {
            parameters.push(("prompt", "consent"));
        }
        for (name, value) in &settings.authorize_params {
            // None of ours can be replaced.
            if !parameters.iter().any(|(ours, _)| ours == name) {
                parameters.push((name, value));
            }
        }
        let endpoint = TokenEndpoint::new(&self.desk, &*self.tools, settings, &source);
        let query = match &metadata.pushed_authorization_request_endpoint {
            Some(push) if metadata.require_pushed_authorization_requests => {
                let request_uri = endpoint.push(push, &parameters).await?;
                form([
                    ("client_id", source.client.client_id.as_str()),
                    ("request_uri", &request_uri),
                ])
            }
            _ => form(parameters),
        };
        let sign = if page.contains('?') { '&' } else { '?' };
        Ok(PendingSignIn {
            url: format!("{page}{sign}{query}"),
            redirect_uri,
            state: Secret::new(state),
            verifier: Secret::new(verifier),
            is_issuer_promised: metadata.authorization_response_iss_parameter_supported,
            began_at: self.tools.now(),
            failure: None,
            source,
        })
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

fn bad_endpoint(endpoint: &str) -> AuthError {
    AuthError::BadEndpoint { endpoint: endpoint.to_owned() }
}
