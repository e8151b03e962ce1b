//! What the user says about signing in to one server.

use serde_json::{Map, Value};

use super::record::{AuthMethod, Registration, Secret, TokenSource};

/// What the user says; nothing of it has to be said.
#[expect(clippy::struct_excessive_bools, reason = "each is a word of its own in files")]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OauthSettings {
    /// How a token is got.
    pub grant: GrantType,
    /// The id that the authorization server knows us by.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<Secret>,
    /// The private key that shows who we are in the place of a secret, as PEM.
    pub private_key: Option<Secret>,
    /// The authorization server to use; `client_id` belongs to it.
    pub issuer: Option<String>,
    /// What the metadata of the authorization server may call itself beside its own name.
    pub trusted_issuer: Option<String>,
    /// Where the metadata of the authorization server is, if not where the rules say.
    pub metadata_url: Option<String>,
    /// Endpoints that are used in the place of those that the metadata names.
    pub endpoints: Endpoints,
    /// The scopes to ask for, whatever the server names.
    pub scopes: Option<Vec<String>>,
    /// What the token is for.
    pub resource: ResourceParameter,
    /// Whom a token exchange is for, beside the resource.
    pub audience: Option<String>,
    /// More parameters of the authorization request. They replace none of ours.
    pub authorize_params: Vec<(String, String)>,
    /// The authorization server has PKCE, though it does not say so.
    pub assume_pkce: bool,
    /// A document that describes us; its URL is our id where that is understood.
    pub client_metadata_url: Option<String>,
    /// The same without a key, for authorization servers that take no signatures of ours.
    pub public_metadata_url: Option<String>,
    /// What is registered of us beside what must be.
    pub client_metadata: Map<String, Value>,
    /// The ID token goes to the server in the place of the access token.
    pub use_id_token: bool,
    /// Tokens are bound to a key of ours.
    pub dpop: bool,
    /// The tokens are for no server at a URL: there is no metadata of one, and `issuer` says
    /// who issues them.
    pub is_local: bool,
    /// The person is only asked who they are: no refresh token is asked for.
    pub is_brief: bool,
}

impl OauthSettings {
    /// Whether the user says who issues tokens.
    pub fn names_issuer(&self) -> bool {
        self.issuer.is_some() || self.metadata_url.is_some() || self.endpoints.token.is_some()
    }

    /// Whether nothing has to be found out about the authorization server.
    pub(super) fn names_all_endpoints(&self) -> bool {
        let needs_page = self.grant == GrantType::Code;
        let device = self.grant == GrantType::Device;
        let has_page = self.endpoints.authorization.is_some() || !needs_page;
        self.endpoints.token.is_some() && has_page && !device
    }
}

/// Endpoints of an authorization server that the user names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names are those of RFC 8414")]
pub struct Endpoints {
    pub authorization: Option<String>,
    pub token: Option<String>,
}

/// How a token is got.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum GrantType {
    /// A person says yes in a browser.
    #[default]
    Code,
    /// A person says yes in a browser of another machine.
    Device,
    /// We are known, and nobody has to say yes.
    ClientCredentials,
    /// The identity provider of the company says yes.
    Enterprise(IdentityProvider),
    /// The platform that we run on has told us who we are.
    Workload {
        /// The JWT of the platform.
        assertion: Secret,
    },
    /// The access token of a user of the gateway is exchanged for one of the server (OX-6).
    Exchange {
        /// The token of the user, which no file has.
        subject: Option<Secret>,
    },
}

impl GrantType {
    /// The extension of the protocol that this grant is, if it is one (OX-7).
    pub fn extension(&self) -> Option<&'static str> {
        match self {
            Self::ClientCredentials => Some("io.modelcontextprotocol/oauth-client-credentials"),
            Self::Enterprise(_) => Some("io.modelcontextprotocol/enterprise-managed-authorization"),
            Self::Code | Self::Device | Self::Workload { .. } | Self::Exchange { .. } => None,
        }
    }
}

/// The identity provider of a company.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum IdentityProvider {
    /// The user signs in there, once for all servers.
    SignIn {
        /// The identity provider.
        issuer: String,
        /// What it knows us by.
        client_id: String,
        /// The secret of that.
        client_secret: Option<Secret>,
    },
    /// What shows who the user is is at hand.
    Token(Box<ProviderToken>),
}

/// A token of an identity provider.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ProviderToken {
    /// Where the token comes from, and who we are there.
    pub source: TokenSource,
    /// What shows who the user is.
    pub token: Secret,
    /// It is a refresh token, and no ID token.
    pub is_refresh_token: bool,
}

impl ProviderToken {
    /// An ID token that was got elsewhere.
    pub fn given(
        token_endpoint: String,
        client_id: String,
        client_secret: Option<Secret>,
        token: Secret,
    ) -> Self {
        let method = client_secret.as_ref().map(|_| AuthMethod::ClientSecretPost);
        let auth_method = method.or(Some(AuthMethod::None));
        let client =
            Registration { client_id, client_secret, auth_method, ..Registration::default() };
        let source = TokenSource { token_endpoint, client, ..TokenSource::default() };
        Self { source, token, is_refresh_token: false }
    }
}

/// What tokens are for, in the requests for them (RFC 8707).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum ResourceParameter {
    /// What the server calls itself.
    #[default]
    OfServer,
    /// This.
    Given(String),
    /// It is left out: some identity providers refuse it.
    LeftOut,
}
