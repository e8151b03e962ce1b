//! What a file says about signing in to a server, once it is read.

use switchboard_net::upstream::TokenInjection;
use switchboard_proto::auth::OauthSettings;

/// What a file says about signing in to a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OauthPlan {
    /// Whether to sign in; none if the file says nothing, and the server decides.
    pub is_wanted: Option<bool>,
    /// What is said to the authorization server.
    pub settings: OauthSettings,
    /// Where people come back to.
    pub callback: CallbackPlan,
    /// Whose account it is, as the file says it.
    pub account: Option<AccountScope>,
    /// Whose account it is, in this gateway.
    pub owner: AccountOwner,
    /// How a command is given its token.
    pub inject: Option<TokenInjection>,
    /// Which of several accounts of the user is used.
    pub account_name: Option<String>,
    /// Hosts and networks inside that the server may name.
    pub allow_private: Vec<String>,
}

/// What a file says about whose account a server is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AccountScope {
    /// One for all users.
    Shared,
    /// Each user has their own.
    User,
}

/// Whose account a server is shown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AccountOwner {
    /// That of `switchboard login`.
    #[default]
    Operator,
    /// Each user has their own.
    EachUser,
    /// None: the access token of each user is exchanged for one of the server.
    Exchanged,
    /// The gateway has users, and the file does not say.
    Unsaid,
}

/// Where people come back to, as far as a file says it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CallbackPlan {
    /// How this machine is called.
    pub host: Option<String>,
    /// The port.
    pub port: Option<u16>,
    /// The path.
    pub path: Option<String>,
}
