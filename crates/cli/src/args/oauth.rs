//! Options for signing in to servers (OAuth), and the commands about it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use clap_complete::ArgValueCompleter;

use super::{Form, TlsArgs, up_to};
use crate::completion;

/// How to sign in, where a server wants it.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Signing in (OAuth), for a server at a URL")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct OauthArgs {
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    /// Print the address of the page to sign in at, and open no browser
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Sign in with a browser on another device, by typing a code there
    #[arg(long, conflicts_with = "client_credentials")]
    pub(crate) device_code: bool,
    /// Sign in as the client itself, without a person; needs the client id and secret
    #[arg(long)]
    pub(crate) client_credentials: bool,
    /// The id that the authorization server knows you by; without it we register ourselves
    #[arg(long, value_name = "ID")]
    pub(crate) oauth_client_id: Option<String>,
    /// The secret of that id; ${VAR} is replaced
    #[arg(long, value_name = "SECRET")]
    pub(crate) oauth_client_secret: Option<String>,
    /// Ask for this scope, not for what the server names (repeatable)
    #[arg(long, value_name = "SCOPE")]
    pub(crate) oauth_scope: Vec<String>,
    /// What tokens are for, or false to leave it out, as Microsoft Entra wants it
    #[arg(long, value_name = "URI", overrides_with = "oauth_resource")]
    pub(crate) oauth_resource: Option<String>,
    /// The URL of a document that describes you, which is your id where that is understood
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) client_metadata_url: Option<String>,
    /// Client id and secret as JSON or @FILE: { "client_id": …, "client_secret": … }
    #[arg(long, value_name = "JSON", hide_short_help = true)]
    pub(crate) oauth_client_info: Option<String>,
    /// Members to add when we register, as JSON or @FILE; its scope is asked for
    #[arg(long, value_name = "JSON", hide_short_help = true)]
    pub(crate) oauth_client_metadata: Option<String>,
    /// Add a parameter to the page to sign in at (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter, hide_short_help = true)]
    pub(crate) authorize_param: Vec<(String, String)>,
    /// Get tokens at this URL, whatever the metadata says
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, hide_short_help = true)]
    pub(crate) token_endpoint: Option<String>,
    /// Send the ID token in place of the access token; it tells the server who you are
    #[arg(long, hide_short_help = true)]
    pub(crate) use_id_token: bool,
    /// The host of the redirect URI (default: 127.0.0.1)
    #[arg(long, value_name = "HOST", hide_short_help = true)]
    pub(crate) callback_host: Option<String>,
    /// The port of the redirect URI (default: one that is always the same for a server)
    #[arg(long, value_name = "PORT", hide_short_help = true)]
    pub(crate) callback_port: Option<u16>,
    /// The path of the redirect URI (default: /oauth/callback)
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub(crate) callback_path: Option<String>,
    /// Seconds that signing in may take (default: 600)
    #[arg(long, value_name = "SECONDS", value_parser = up_to(3600), hide_short_help = true)]
    pub(crate) auth_timeout: Option<u64>,
    /// Show this page after signing in
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, hide_short_help = true)]
    pub(crate) auth_success_url: Option<String>,
}

/// Whose credentials are used, and where they are kept.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CredentialArgs {
    /// Use this account, if you have several at one server; any name will do
    #[arg(long, value_name = "NAME")]
    pub(crate) account: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Where credentials are kept.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StoreArgs {
    /// Keep credentials in this folder (default: in the user's state folder)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,
    /// The file with the key that seals them (default: SWITCHBOARD_STORE_KEY, else the keyring)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub(crate) store_key_file: Option<PathBuf>,
}

/// Whether somebody is asked to sign in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum LoginChoice {
    /// Open a browser, and let calls wait
    Wait,
    /// Open a browser; after 25 seconds answer clients, which see one tool, sign_in
    Defer,
    /// Fail, and say how to sign in; for CI
    Never,
}

fn parameter(text: &str) -> Result<(String, String), &'static str> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or("write NAME=VALUE")
}

/// Sign in to a server
///
/// Opens the page of the server's authorization server, and waits until you come back.
/// The tokens are kept, sealed, for all commands: bridge, serve, tools, call and the others
/// use and renew them.
#[derive(Args, Debug)]
#[command(after_help = LOGIN_EXAMPLES)]
#[command(mut_arg("oauth_client_id", |arg| arg.visible_alias("client-id")))]
#[command(mut_arg("oauth_client_secret", |arg| arg.visible_alias("client-secret")))]
#[command(mut_arg("oauth_scope", |arg| arg.visible_alias("scope")))]
#[command(mut_arg("target", |arg| arg.required(false).required_unless_present("import")))]
pub(crate) struct LoginArgs {
    #[command(flatten)]
    pub(crate) server: SignInServer,
    /// Take over the sign-ins of another tool: of TARGET, or of all servers in your files
    #[arg(long, value_enum, value_name = "TOOL")]
    pub(crate) import: Option<SignInSource>,
    #[command(flatten)]
    pub(crate) oauth: OauthArgs,
}

/// A tool whose sign-ins can be taken over.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum SignInSource {
    /// What is in ~/.mcp-auth, or in MCP_REMOTE_CONFIG_DIR
    McpRemote,
}

/// The server that a command signs in to.
#[derive(Args, Debug)]
pub(crate) struct SignInServer {
    /// The server's URL, or its name in a configuration file
    #[arg(required = true, add = ArgValueCompleter::new(completion::servers))]
    pub(crate) target: Option<String>,
    /// Look for the server's name in this file, not in the usual places (repeatable)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// Sentences for people, or JSON
    #[arg(long, short, value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) output: Form,
}

const LOGIN_EXAMPLES: &str = "\
Examples:
  switchboard login https://mcp.example.com/mcp
  switchboard login linear --account work
  switchboard login https://mcp.example.com/mcp --scope read --scope write

  Over SSH: open the address that is printed anywhere, then paste here what your browser
  shows in its address bar at the end. Or type a code on another device:
    switchboard login https://mcp.example.com/mcp --no-browser
    switchboard login https://mcp.example.com/mcp --device-code

  Take over what mcp-remote has kept, so that nobody has to sign in again:
    switchboard login --import mcp-remote

  At an identity provider where you registered a client:
    switchboard login https://mcp.example.com/mcp --client-id ID --client-secret '${SECRET}'

What a configuration file says in \"oauth\" holds too; flags are stronger.
Exit status: 0 signed in, 1 failed, 2 wrong usage, 3 refused, 4 not reached.";

/// Sign out of a server
///
/// Asks the authorization server to take back the tokens, and forgets them.
#[derive(Args, Debug)]
#[command(after_help = LOGOUT_EXAMPLES)]
pub(crate) struct LogoutArgs {
    #[command(flatten)]
    pub(crate) account: AccountArgs,
}

/// Whose credentials a command is about.
#[derive(Args, Debug)]
pub(crate) struct AccountArgs {
    #[command(flatten)]
    pub(crate) server: SignInServer,
    /// The user of a gateway whose account it is: the name of a key, or ISSUER/SUBJECT
    #[arg(long, value_name = "USER")]
    pub(crate) principal: Option<String>,
    /// The client that signed in as itself, if several did
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
}

const LOGOUT_EXAMPLES: &str = "\
Examples:
  switchboard logout https://mcp.example.com/mcp
  switchboard logout linear --account work";

/// Say who you are at a server
///
/// Tells who is signed in, by which authorization server, with which scopes and until
/// when. Prints no token.
#[derive(Args, Debug)]
#[command(after_help = WHOAMI_EXAMPLES)]
pub(crate) struct WhoamiArgs {
    #[command(flatten)]
    pub(crate) account: AccountArgs,
}

const WHOAMI_EXAMPLES: &str = "\
Examples:
  switchboard whoami https://mcp.example.com/mcp
  switchboard whoami linear --output json

Exit status: 0 signed in, 1 failed, 2 wrong usage, 3 not signed in.";

/// Look at the credentials that are kept
#[derive(Debug, Subcommand)]
#[command(after_help = AUTH_EXAMPLES)]
pub(crate) enum AuthCommand {
    /// List the servers and accounts that credentials are kept for
    List {
        /// A table for people, or JSON
        #[arg(long, short, value_enum, value_name = "FORM", default_value = "text")]
        output: Form,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Show what is kept for a server, but for its secrets
    Show(Box<AccountArgs>),
    /// Forget what is kept for a server, and tell nobody
    Forget(Box<AccountArgs>),
}

const AUTH_EXAMPLES: &str = "\
Examples:
  switchboard auth list
  switchboard auth show linear
  switchboard auth forget https://mcp.example.com/mcp

forget also removes the registration, so that the next login begins from nothing. The
tokens stay valid until they end; logout has them taken back.";
