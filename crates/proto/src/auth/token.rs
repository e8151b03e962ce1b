//! What goes to the token endpoint.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::json;

use super::challenge::split_scopes;
use super::machine::{AuthBody, AuthRequest, AuthResponse, Desk, Step, Tools};
use super::metadata::check_endpoint;
use super::record::{
    AuthMethod, LONGEST_SIGN_IN, PendingSignIn, Secret, TokenRecord, TokenSource, join_scopes,
};
use super::settings::{OauthSettings, ProviderToken};
use super::token_answer::{error_code, read_json, read_tokens, refusal};
use super::{AuthError, encode, form};

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ASSERTION: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const REFRESH_TOKEN: &str = "urn:ietf:params:oauth:token-type:refresh_token";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The token endpoint of one authorization server, and who we are there.
pub(super) struct TokenEndpoint<'f> {
    desk: &'f Desk,
    tools: &'f dyn Tools,
    settings: &'f OauthSettings,
    source: &'f TokenSource,
    /// The scopes of the source, as requests have them.
    scope: String,
}

type Parameters<'p> = Vec<(&'p str, &'p str)>;

impl<'f> TokenEndpoint<'f> {
    pub(super) fn new(
        desk: &'f Desk,
        tools: &'f dyn Tools,
        settings: &'f OauthSettings,
        source: &'f TokenSource,
    ) -> Self {
        Self { desk, tools, settings, source, scope: join_scopes(&source.scopes) }
    }

    /// Tokens for the code that a person came back with.
    pub(super) async fn redeem(
        &self,
        pending: &PendingSignIn,
        code: &Secret,
    ) -> Result<TokenRecord, AuthError> {
        let parameters = vec![
            ("grant_type", "authorization_code"),
            ("code", code.reveal()),
            ("redirect_uri", &pending.redirect_uri),
            ("code_verifier", pending.verifier.reveal()),
        ];
        self.get_tokens(parameters).await
    }

    /// Another access token. A refresh token that comes with it replaces the old one (OC-44).
    pub(super) async fn refresh(&self, record: &TokenRecord) -> Result<TokenRecord, AuthError> {
        let Some(refresh_token) = &record.refresh_token else {
            let (error, description) = ("invalid_grant".to_owned(), None);
            return Err(AuthError::Refused { error, description });
        };
        let parameters =
            vec![("grant_type", "refresh_token"), ("refresh_token", refresh_token.reveal())];
        let mut renewed = self.get_tokens(parameters).await?;
        renewed.refresh_token = renewed.refresh_token.or_else(|| record.refresh_token.clone());
        renewed.id_token = renewed.id_token.or_else(|| record.id_token.clone());
        if renewed.granted.is_empty() {
            renewed.granted.clone_from(&record.granted);
        }
        Ok(renewed)
    }

    /// Tokens for ourselves (OX-1).
    pub(super) async fn use_own_credentials(&self) -> Result<TokenRecord, AuthError> {
        self.get_tokens(self.with_scope(vec![("grant_type", "client_credentials")])).await
    }

    /// Tokens for what somebody else says of us or of our user (OX-2, OX-4).
    pub(super) async fn use_assertion(&self, assertion: &Secret) -> Result<TokenRecord, AuthError> {
        let parameters = vec![("grant_type", ASSERTION), ("assertion", assertion.reveal())];
        self.get_tokens(self.with_scope(parameters)).await
    }

    /// Tokens for what the identity provider of the company says of its user (OX-2).
    pub(super) async fn exchange(
        &self,
        provider: &ProviderToken,
        server: &str,
    ) -> Result<TokenRecord, AuthError> {
        let endpoint = &provider.source.token_endpoint;
        check_endpoint(endpoint)?;
        let parameters = vec![
            ("grant_type", EXCHANGE),
            ("requested_token_type", ID_JAG),
            ("audience", self.source.issuer.as_str()),
            ("resource", server),
            ("subject_token", provider.token.reveal()),
            (
                "subject_token_type",
                if provider.is_refresh_token { REFRESH_TOKEN } else { ID_TOKEN },
            ),
        ];
        let there = TokenEndpoint::new(self.desk, self.tools, self.settings, &provider.source);
        let response = there.send(endpoint, self.with_scope(parameters)).await?;
        let given = read_tokens(endpoint, &response)?;
        self.use_assertion(&given.access_token).await
    }

    /// A token for the bearer of another one, with an audience of its own (OX-6).
    pub(super) async fn exchange_access_token(
        &self,
        subject: &Secret,
    ) -> Result<TokenRecord, AuthError> {
        let mut parameters = vec![
            ("grant_type", EXCHANGE),
            ("subject_token", subject.reveal()),
            ("subject_token_type", ACCESS_TOKEN),
            ("requested_token_type", ACCESS_TOKEN),
        ];
        parameters.extend(self.settings.audience.iter().map(|it| ("audience", it.as_str())));
        match self.get_tokens(self.with_scope(parameters)).await {
            Err(AuthError::Refused { error, description }) => {
                // What a server says is logged; a token that it repeats is not.
                let is_tame = |text: &String| !text.contains(subject.reveal());
                let error = Some(error).filter(is_tame).unwrap_or_default();
                let description = description.filter(is_tame);
                let issuer = self.source.issuer.clone();
                let client = self.source.client.client_id.clone();
                Err(AuthError::ExchangeRefused { issuer, client, error, description })
            }
            Ok(record) if record.access_token == *subject => {
                Err(AuthError::OddToken { found: "the user's own".to_owned() })
            }
            other => other,
        }
    }

    /// Shows a person a code to type elsewhere, and asks until they have (RFC 8628).
    pub(super) async fn ask_device(&self, endpoint: &str) -> Result<TokenRecord, AuthError> {
        #[derive(Deserialize)]
        struct DeviceAnswer {
            device_code: Secret,
            user_code: String,
            verification_uri: String,
            verification_uri_complete: Option<String>,
            expires_in: Option<u64>,
            interval: Option<u64>,
        }
        let mut parameters = self.with_scope(Vec::new());
        parameters.extend(self.source.resource.as_deref().map(|resource| ("resource", resource)));
        let response = self.send(endpoint, parameters).await?;
        let device: DeviceAnswer = read_json(endpoint, &response)?;
        check_endpoint(&device.verification_uri)?;
        device.verification_uri_complete.iter().try_for_each(|url| check_endpoint(url))?;
        let (url, code) = (device.verification_uri, device.user_code);
        let complete_url = device.verification_uri_complete;
        self.desk.act(Step::ShowDevice { url, complete_url, code }).await?;
        let life = device.expires_in.unwrap_or(LONGEST_SIGN_IN).min(2 * LONGEST_SIGN_IN);
        let end = self.tools.now().saturating_add(life);
        let mut interval = device.interval.unwrap_or(5).clamp(1, 60);
        while self.tools.now() < end {
            self.desk.act(Step::Wait(Duration::from_secs(interval))).await?;
            let parameters =
                vec![("grant_type", DEVICE), ("device_code", device.device_code.reveal())];
            match self.get_tokens(parameters).await {
                Err(error) if error.code() == Some("authorization_pending") => {}
                Err(error) if error.code() == Some("slow_down") => interval += 5,
                Err(error) if error.is_temporary() => {}
                other => return other,
            }
        }
        Err(AuthError::TimedOut)
    }

    /// Leaves the parameters of a request with the server; gives what stands for them (RFC 9126).
    pub(super) async fn push(
        &self,
        endpoint: &str,
        parameters: &[(&str, &str)],
    ) -> Result<String, AuthError> {
        #[derive(Deserialize)]
        struct Pushed {
            request_uri: String,
        }
        let response = self.send(endpoint, parameters.to_vec()).await?;
        Ok(read_json::<Pushed>(endpoint, &response)?.request_uri)
    }

    /// Has tokens taken back, the refresh token first. A server that cannot is not asked.
    pub(super) async fn revoke(&self, record: &TokenRecord) -> Result<(), AuthError> {
        let Some(endpoint) = &self.source.revocation_endpoint else { return Ok(()) };
        let refresh = record.refresh_token.iter().map(|token| (token, "refresh_token"));
        for (token, kind) in refresh.chain([(&record.access_token, "access_token")]) {
            let parameters = vec![("token", token.reveal()), ("token_type_hint", kind)];
            let response = self.send(endpoint, parameters).await?;
            if !(200..300).contains(&response.status) {
                return Err(refusal(endpoint, &response));
            }
        }
        Ok(())
    }

    fn with_scope<'p>(&'p self, mut parameters: Parameters<'p>) -> Parameters<'p> {
        if !self.scope.is_empty() {
            parameters.push(("scope", &self.scope));
        }
        parameters
    }

    async fn get_tokens(&self, mut parameters: Parameters<'_>) -> Result<TokenRecord, AuthError> {
        let resource = self.source.resource.as_deref();
        parameters.extend(resource.map(|resource| ("resource", resource)));
        let endpoint = &self.source.token_endpoint;
        let response = self.send(endpoint, parameters).await?;
        let tokens = read_tokens(endpoint, &response)?;
        let wanted = if self.source.dpop_key.is_some() { "dpop" } else { "bearer" };
        let found = tokens.token_type.unwrap_or_default();
        // A server that takes no proofs issues what it issues to all.
        if !found.eq_ignore_ascii_case(wanted) && !found.eq_ignore_ascii_case("bearer") {
            return Err(AuthError::OddToken { found: found.chars().take(50).collect() });
        }
        let mut source = self.source.clone();
        if !found.eq_ignore_ascii_case("dpop") {
            source.dpop_key = None;
        }
        let issued_at = self.tools.now();
        let granted = tokens.scope.as_deref().map(split_scopes);
        Ok(TokenRecord {
            granted: granted.unwrap_or_else(|| source.scopes.clone()),
            source,
            access_token: tokens.access_token,
            refresh_token: tokens.refresh_token,
            id_token: tokens.id_token,
            issued_at,
            expires_at: tokens.expires_in.map(|life| issued_at.saturating_add(life)),
        })
    }

    /// Sends a form, and shows who we are.
    async fn send(
        &self,
        endpoint: &str,
        mut parameters: Parameters<'_>,
    ) -> Result<AuthResponse, AuthError> {
        let client = &self.source.client;
        let secret = client.client_secret.as_ref().map(Secret::reveal).unwrap_or_default();
        let mut authorization = None;
        let assertion;
        match client.auth_method.unwrap_or_default() {
            AuthMethod::None if client.client_id.is_empty() => {}
            AuthMethod::None => parameters.push(("client_id", &client.client_id)),
            AuthMethod::ClientSecretBasic => {
                authorization = Some(basic_authorization(&client.client_id, secret));
            }
            AuthMethod::ClientSecretPost => {
                parameters
                    .extend([("client_id", client.client_id.as_str()), ("client_secret", secret)]);
            }
            AuthMethod::PrivateKeyJwt => {
                assertion = self.client_assertion()?;
                parameters.extend([
                    ("client_id", client.client_id.as_str()),
                    ("client_assertion_type", CLIENT_ASSERTION),
                    ("client_assertion", &assertion),
                ]);
            }
        }
        // A parameter that is there already is not said twice.
        let mut seen = Vec::new();
        parameters.retain(|(name, _)| {
            !seen.contains(name) && {
                seen.push(*name);
                true
            }
        });
        let body = form(parameters);
        let proof = |nonce: Option<&str>| {
            let key = self.source.dpop_key.as_ref();
            key.map(|key| dpop_proof(self.tools, key, "POST", endpoint, nonce, None)).transpose()
        };
        let first = self.post(endpoint, body.clone(), authorization.clone(), proof(None)?).await?;
        match &first.dpop_nonce {
            Some(nonce)
                if self.source.dpop_key.is_some()
                    && error_code(&first) == Some("use_dpop_nonce".into()) =>
            {
                self.post(endpoint, body, authorization, proof(Some(nonce))?).await
            }
            _ => Ok(first),
        }
    }

    async fn post(
        &self,
        endpoint: &str,
        body: String,
        authorization: Option<Secret>,
        dpop: Option<String>,
    ) -> Result<AuthResponse, AuthError> {
        let body = Some(AuthBody::Form(body));
        self.desk.fetch(AuthRequest { url: endpoint.to_owned(), body, authorization, dpop }).await
    }

    /// A JWT of ours that shows who we are (RFC 7523).
    fn client_assertion(&self) -> Result<String, AuthError> {
        let missing = || AuthError::Settings("no private key is configured".to_owned());
        let stored = self.source.client.private_key.as_ref();
        let key = self.settings.private_key.as_ref().or(stored).ok_or_else(missing)?;
        let (_, algorithm) = self.tools.public_key(key)?;
        let (id, now) = (&self.source.client.client_id, self.tools.now());
        let claims = json!({
            "iss": id, "sub": id, "aud": self.source.issuer,
            "iat": now, "exp": now + 60, "jti": URL_SAFE_NO_PAD.encode(self.tools.random()),
        });
        self.tools.sign(key, &json!({"alg": algorithm, "typ": "JWT"}), &claims)
    }
}

/// A proof that we have the key of a token, for one request (RFC 9449). `token` is the one
/// that goes with it.
pub fn dpop_proof(
    tools: &dyn Tools,
    key: &Secret,
    method: &str,
    url: &str,
    nonce: Option<&str>,
    token: Option<&Secret>,
) -> Result<String, AuthError> {
    let (jwk, algorithm) = tools.public_key(key)?;
    let place = url.split(['?', '#']).next().unwrap_or_default();
    let jti = URL_SAFE_NO_PAD.encode(tools.random());
    let mut claims = json!({"htm": method, "htu": place, "iat": tools.now(), "jti": jti});
    if let Some(nonce) = nonce {
        claims["nonce"] = nonce.into();
    }
    if let Some(token) = token {
        let hash = tools.sha256(token.reveal().as_bytes());
        claims["ath"] = URL_SAFE_NO_PAD.encode(hash).into();
    }
    tools.sign(key, &json!({"typ": "dpop+jwt", "alg": algorithm, "jwk": jwk}), &claims)
}

/// The `Authorization` of a client with a secret: both are encoded like a form first (OC-40).
pub fn basic_authorization(client_id: &str, secret: &str) -> Secret {
    let pair = format!("{}:{}", encode(client_id), encode(secret));
    Secret::new(format!("Basic {}", STANDARD.encode(pair)))
}
