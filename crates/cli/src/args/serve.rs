//! Options of the commands that serve: `serve`, `bridge` and `demo`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use clap_complete::ArgValueCompleter;
use switchboard_gateway::config::read_public_url;
use switchboard_gateway::plan::IdentityFiles;
use switchboard_net::bridge::Children;
use switchboard_net::http::fetch::AddressRange;
use switchboard_proto::revision::{Era, Revision};

use super::client::{EraChoice, era_choice};
use super::{CommandArgs, CredentialArgs, LoginChoice, NetworkArgs, OauthArgs, RemoteArgs, up_to};
use crate::completion;

/// Options for serving over HTTP.
#[derive(Args, Debug)]
#[command(next_help_heading = "Serving over HTTP")]
pub(crate) struct ServeArgs {
    /// Serve over HTTP on this port; 0 picks a free one
    ///
    /// The first line on stdout is the URL of the endpoint.
    #[arg(long, short)]
    pub(crate) port: Option<u16>,
    /// The address to listen on; any client that reaches it is let in, unless --api-key is set
    #[arg(long, requires = "port", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Serve https with the certificate in this PEM file, read again when it changes
    ///
    /// The server's own certificate comes first, and then those that vouch for it. Connections
    /// that are open stay. If the new files cannot be used, the certificate of before stays.
    #[arg(long, requires = "port", value_name = "PEM", value_hint = ValueHint::FilePath)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, if another file has it
    #[arg(long, requires = "tls_cert", value_name = "PEM", value_hint = ValueHint::FilePath)]
    pub(crate) tls_key: Option<PathBuf>,
    /// Accept requests with this Host header, NAME or NAME:PORT; * for all (repeatable)
    #[arg(long, requires = "port", value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Accept requests of web pages of this origin; * for all, /REGEX/ for many (repeatable)
    #[arg(long, requires = "port", value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Seconds after which an unused session ends
    #[arg(long, requires = "port", value_name = "SECONDS", default_value = "1800")]
    #[arg(value_parser = up_to(31_536_000))]
    pub(crate) session_timeout: u64,
    /// Seconds between keep-alive comments on a silent stream
    #[arg(long, requires = "port", value_name = "SECONDS", default_value = "15")]
    #[arg(value_parser = up_to(3600))]
    pub(crate) keep_alive: u64,
    /// Seconds that a client may take to send a request, or the next one
    #[arg(long, requires = "port", value_name = "SECONDS", default_value = "30")]
    #[arg(value_parser = up_to(3600))]
    pub(crate) request_timeout: u64,
    /// Seconds of silence after which the bridge closes a call's connection; 0 for never
    ///
    /// The client reconnects for the answer, if its protocol revision can resume streams.
    /// For proxies and load balancers that cut long requests.
    #[arg(long, requires = "port", value_name = "SECONDS", default_value = "0")]
    #[arg(value_parser = seconds)]
    pub(crate) hang_up_after: Duration,
    /// Seconds that open calls get to finish on shutdown
    ///
    /// Shortly before they are over, each open call is answered with an error and
    /// cancelled at its server.
    #[arg(long, value_name = "SECONDS", default_value = "10", help_heading = None)]
    #[arg(value_parser = up_to(3600))]
    pub(crate) grace: u64,
}

impl ServeArgs {
    /// The files of what clients are shown over TLS; none for plain HTTP.
    pub(crate) fn identity_files(&self) -> Option<IdentityFiles> {
        let certificate = self.tls_cert.clone()?;
        let key = self.tls_key.clone().unwrap_or_else(|| certificate.clone());
        Some(IdentityFiles { certificate, key })
    }
}

/// Seconds, or parts of one.
fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("write a number of seconds, such as 20 or 0.5")
}

/// Options for serving over HTTP that few need.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Serving over HTTP, in detail")]
pub(crate) struct WebArgs {
    /// The transports to serve: http, sse, ws (default: http,sse)
    #[arg(long, requires = "port", value_enum, value_delimiter = ',', value_name = "TRANSPORT")]
    pub(crate) serve: Vec<ServedTransport>,
    /// The path of Streamable HTTP (default: /mcp)
    #[arg(long, requires = "port")]
    pub(crate) path: Option<String>,
    /// The path where clients of HTTP+SSE open their stream (default: /sse)
    #[arg(long, requires = "port", value_name = "PATH")]
    pub(crate) sse_path: Option<String>,
    /// The path where clients of HTTP+SSE post their messages (default: /message)
    #[arg(long, requires = "port", value_name = "PATH")]
    pub(crate) message_path: Option<String>,
    /// The path of the WebSocket (default: /ws)
    #[arg(long, requires = "port", value_name = "PATH")]
    pub(crate) ws_path: Option<String>,
    /// What a reverse proxy puts before these paths, such as /tools
    #[arg(long, requires = "port", value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Accept only clients that send this key, as X-API-Key or as a bearer token; ${VAR} is replaced
    #[arg(long, requires = "port", value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Accept clients with an access token of this authorization server (an https URL)
    #[arg(long, requires = "port", value_name = "URL")]
    pub(crate) oauth_issuer: Option<String>,
    /// Accept access tokens for this audience too, besides those for our own URL (repeatable)
    #[arg(long, requires = "oauth_issuer", value_name = "AUDIENCE")]
    pub(crate) oauth_audience: Vec<String>,
    /// The URL that clients reach us by, without /mcp, for access tokens
    #[arg(long, requires = "port", value_name = "URL", value_parser = public_url)]
    pub(crate) public_url: Option<String>,
    /// Believe X-Forwarded-* and Forwarded headers of this proxy, or of a range of addresses (repeatable)
    #[arg(long, requires = "port", value_name = "ADDRESS")]
    pub(crate) trusted_proxy: Vec<AddressRange>,
    /// Answer GET on this path with "ok", or with another word: /ping=pong (repeatable)
    #[arg(long, requires = "port", value_name = "PATH[=WORD]")]
    pub(crate) health: Vec<String>,
    /// Answer GET on this path with the servers and open connections as JSON
    #[arg(long, requires = "port", value_name = "PATH")]
    pub(crate) status: Option<String>,
    /// Add this header, "Name: value", to every answer (repeatable)
    #[arg(long, requires = "port", value_name = "HEADER")]
    pub(crate) response_header: Vec<String>,
    /// Allow web pages of an allowed origin to send this header (repeatable)
    #[arg(long, requires = "port", value_name = "NAME")]
    pub(crate) allow_header: Vec<String>,
    /// Allow web pages of an allowed origin to read this header (repeatable)
    #[arg(long, requires = "port", value_name = "NAME")]
    pub(crate) expose_header: Vec<String>,
    /// Serve without sessions; requests without a protocol version use the revision DATE
    #[arg(long, requires = "port", value_name = "DATE", value_parser = legacy_revision)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = LATEST)]
    pub(crate) stateless: Option<Revision>,
    /// Serve only clients that begin with initialize, of revisions before 2026-07-28
    #[arg(long, requires = "port")]
    pub(crate) legacy_only: bool,
    /// Seconds that a connection may be idle between requests (default: 30)
    #[arg(long, requires = "port", value_name = "SECONDS", value_parser = up_to(86_400))]
    pub(crate) idle_connection: Option<u64>,
    /// Exit when stdin is closed, as it is when the parent process exits
    #[arg(long, requires = "port")]
    pub(crate) end_with_stdin: bool,
}

/// How clients may talk to us over HTTP.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ServedTransport {
    /// Streamable HTTP
    Http,
    /// HTTP+SSE of the first revision
    Sse,
    /// A WebSocket
    Ws,
}

/// A word for the newest revision with a handshake.
const LATEST: &str = "latest";

fn legacy_revision(name: &str) -> Result<Revision, String> {
    let found = match name {
        LATEST => Some(Revision::NEWEST_LEGACY),
        name => Revision::parse(name).filter(|revision| revision.era() == Era::Legacy),
    };
    let known = || Revision::names(Era::Legacy).into_iter().rev().collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("there are {}", known()))
}

/// Put many servers behind one address.
///
/// /mcp has all servers. Their tools and prompts have the server's name in front:
/// files__read. /servers/NAME/mcp has one server with its own names, and
/// /groups/NAME/mcp one group of the configuration. HTTP+SSE is at /sse beside each
/// /mcp.
///
/// Without --config the gateway serves the servers that the files of this folder name:
/// switchboard.json, .mcp.json, mcp.json, .vscode/mcp.json, .cursor/mcp.json and the like,
/// and ~/.config/switchboard/config.json. It starts their commands. Without such a file it
/// serves the built-in demo server.
#[derive(Args, Clone, Debug)]
#[command(after_help = SERVE_EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct GatewayArgs {
    /// The configuration file of an MCP client, or one of our own (repeatable)
    ///
    /// JSON, with comments or without, TOML or YAML: with mcpServers, servers or
    /// [mcp_servers.NAME]. If two servers have the same name, the first one is used.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Vec<PathBuf>,
    /// Report mistakes in the configuration and exit, without serving
    #[arg(long)]
    pub(crate) check: bool,
    /// Serve one client on stdin and stdout instead of HTTP
    ///
    /// For a client, or another gateway, that starts this command. Without --stdio that
    /// gateway sees no server: this one listens on a port instead. Name its URL there, or
    /// add --stdio. A gateway that starts itself refuses to.
    #[arg(long, conflicts_with_all = ["host", "port"])]
    pub(crate) stdio: bool,
    /// The port to listen on; 0 picks a free one (default: what the file says, else 3001)
    ///
    /// The first line on stdout is the URL of all servers together.
    #[arg(long, short)]
    pub(crate) port: Option<u16>,
    /// The address to listen on (default: what the file says, else 127.0.0.1)
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Serve https with the certificate in this PEM file, read again when it changes
    ///
    /// The server's own certificate comes first, and then those that vouch for it. Connections
    /// that are open stay. If the new files cannot be used, the certificate of before stays.
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath, conflicts_with = "stdio")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, if another file has it
    #[arg(long, requires = "tls_cert", value_name = "PEM", value_hint = ValueHint::FilePath)]
    pub(crate) tls_key: Option<PathBuf>,
    /// Accept only clients that send this key, as X-API-Key or as a bearer token; ${VAR} is
    /// replaced; 16 characters or more
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Accept clients with an access token of this authorization server (an https URL)
    #[arg(long, value_name = "URL")]
    pub(crate) oauth_issuer: Option<String>,
    /// Accept access tokens for this audience too, besides those for our own URL (repeatable)
    #[arg(long, requires = "oauth_issuer", value_name = "AUDIENCE")]
    pub(crate) oauth_audience: Vec<String>,
    /// The URL that clients reach us by, without /mcp, for access tokens
    #[arg(long, value_name = "URL", value_parser = public_url)]
    pub(crate) public_url: Option<String>,
    /// Believe X-Forwarded-* and Forwarded headers of this proxy, or of a range of addresses (repeatable)
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) trusted_proxy: Vec<AddressRange>,
    /// Listen on an address that other machines reach, without requiring a key
    #[arg(long)]
    pub(crate) allow_unauthenticated: bool,
    /// Accept requests with this Host header, NAME or NAME:PORT; * for all (repeatable)
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Accept requests of web pages of this origin; * for all, /REGEX/ for many (repeatable)
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Seconds after which an unused session ends
    #[arg(long, value_name = "SECONDS", default_value = "1800", value_parser = up_to(31_536_000))]
    pub(crate) session_timeout: u64,
    /// Seconds that open calls get to finish on shutdown
    ///
    /// Shortly before they are over, each open call is answered with an error and
    /// cancelled at its server.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = up_to(3600))]
    pub(crate) grace: u64,
    /// Cache the servers' lists in this folder (default: in the user's cache folder)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Do not cache lists on disk
    #[arg(long, conflicts_with = "cache_dir")]
    pub(crate) no_cache: bool,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    #[cfg(feature = "redis")]
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Seconds between attempts to reach a server that has failed, for tests
    #[arg(long, value_name = "SECONDS", hide = true, value_parser = up_to(86_400))]
    pub(crate) probe_every: Option<u64>,
}

/// How a gateway is one of several replicas.
#[cfg(feature = "redis")]
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Several replicas")]
pub(crate) struct ClusterArgs {
    /// Be one of several replicas that share this Redis or Valkey: redis:// or rediss://
    ///
    /// Clients may send each request to any replica. All replicas have the same key: 32 random
    /// bytes, as 64 hexadecimal digits, in SWITCHBOARD_CLUSTER_KEY or --cluster-key-file.
    #[arg(long, value_name = "URL", conflicts_with = "stdio")]
    pub(crate) cluster: Option<String>,
    /// The address where other replicas reach this one; never show it to clients
    #[arg(long, requires = "cluster", value_name = "HOST:PORT", default_value = "0.0.0.0:3002")]
    pub(crate) cluster_listen: String,
    /// What other replicas call that address (default: what it listens on)
    #[arg(long, requires = "cluster", value_name = "HOST:PORT")]
    pub(crate) cluster_advertise: Option<String>,
    /// The file with the key of the cluster; an older key may follow on the next line
    #[arg(long, requires = "cluster", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) cluster_key_file: Option<PathBuf>,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  The servers of ./.mcp.json, or the built-in server if there is no such file:
    switchboard serve
    switchboard call http://127.0.0.1:3001/mcp demo__add a=1 b=2

  Every server of a file that a client has:
    switchboard serve --config ~/.cursor/mcp.json

  The same for a client that starts commands:
    { \"mcpServers\": { \"all\": { \"command\": \"switchboard\",
        \"args\": [\"serve\", \"--stdio\", \"--config\", \"servers.json\"] } } }

  Check a file for mistakes:
    switchboard serve --check --config servers.json";

/// Serve a server on another transport.
///
/// The server is a command that speaks MCP on stdin and stdout, or a URL. The bridge
/// serves it on its own stdin and stdout. With --port it serves over HTTP instead:
/// Streamable HTTP at /mcp and HTTP+SSE at /sse.
#[derive(Args, Debug)]
#[command(after_help = BRIDGE_EXAMPLES, override_usage = BRIDGE_USAGE)]
#[group(id = "server", multiple = false, args = ["url", "stdio", "words"])]
#[command(mut_arg("header", |arg| arg.long_help(HEADER_HELP)))]
#[command(mut_arg("env", |arg| arg.help("Set a variable for it (repeatable)")))]
#[command(mut_arg("cwd", |arg| arg.help("Run it in this directory")))]
#[command(mut_arg("pass_environment", |arg| arg.help(PASS_HELP)))]
pub(crate) struct BridgeArgs {
    /// The server's URL, or its name in a configuration file
    #[arg(required_unless_present_any = ["stdio", "words", "named_server", "named_server_config"])]
    #[arg(conflicts_with_all = ["env", "cwd", "pass_environment"])]
    #[arg(add = ArgValueCompleter::new(completion::servers))]
    pub(crate) url: Option<String>,
    /// Read the name from this file instead of the usual places (repeatable)
    ///
    /// JSON, with comments or without, TOML or YAML, as clients have it: with mcpServers,
    /// servers or [mcp_servers.NAME]. The usual places are .mcp.json, mcp.json, and
    /// the files of VS Code, Cursor, Claude, Codex and others.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Vec<PathBuf>,
    /// The server's command in one string, quoted as for a shell; no shell is run
    #[arg(long, value_name = "CMD", conflicts_with_all = FOR_URLS.split(' '))]
    pub(crate) stdio: Option<String>,
    /// The server's command and its arguments, after --
    #[arg(last = true, value_name = "CMD", conflicts_with_all = FOR_URLS.split(' '))]
    pub(crate) words: Vec<String>,
    /// Which clients share a connection to the server
    #[arg(long, value_parser = children, value_name = "RULE", default_value = "per-session")]
    #[arg(long_help = CHILDREN_HELP)]
    pub(crate) children: Children,
    /// Seconds without an answer or progress after which a call fails with a timeout
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = up_to(86_400))]
    pub(crate) timeout: u64,
    /// Seconds that the server may take to start and answer the handshake (default: --timeout)
    #[arg(long, value_name = "SECONDS", value_parser = up_to(86_400))]
    pub(crate) start_timeout: Option<u64>,
    /// Send a ping every SECONDS to an idle legacy server at a URL
    ///
    /// For servers and load balancers that drop idle sessions.
    #[arg(long, value_name = "SECONDS", value_parser = up_to(86_400))]
    pub(crate) ping: Option<u64>,
    /// The largest message in bytes, on any transport
    #[arg(long, alias = "max-body", value_name = "BYTES", default_value = "33554432")]
    #[arg(value_parser = clap::value_parser!(u32).range(1024..))]
    pub(crate) max_message: u32,
    /// Hide tools of this name from clients; * matches any characters (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub(crate) ignore_tool: Vec<String>,
    /// Bytes of events that a session keeps for clients that reconnect; 0 for none
    #[arg(long, value_name = "BYTES")]
    pub(crate) history: Option<usize>,
    /// The number of events that a session keeps for clients that reconnect (default: 4096)
    #[arg(long, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) history_events: Option<u32>,
    /// Also serve the command CMD, at /servers/NAME/mcp and /servers/NAME/sse (repeatable)
    #[arg(long, num_args = 2, value_names = ["NAME", "CMD"], requires = "port")]
    pub(crate) named_server: Vec<String>,
    /// Also serve the servers that this configuration file names, each at /servers/NAME
    #[arg(long, value_name = "FILE", requires = "port", conflicts_with = "named_server")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) named_server_config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    #[command(flatten)]
    pub(crate) web: WebArgs,
    #[command(flatten, next_help_heading = "For a server at a URL")]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    /// What to do if the server wants somebody to sign in (default: defer on stdio, else wait)
    #[arg(long, value_enum, value_name = "WHEN")]
    #[arg(help_heading = "Signing in (OAuth), for a server at a URL")]
    pub(crate) login: Option<LoginChoice>,
    #[command(flatten)]
    pub(crate) oauth: OauthArgs,
    #[command(flatten, next_help_heading = "For a server that is a command")]
    pub(crate) local: CommandArgs,
}

/// Options that make no sense for a command.
const FOR_URLS: &str = "config ping header transport ca_file client_cert client_key insecure header_file direct ipv4 connect_timeout OauthArgs";

const HEADER_HELP: &str = "\
Send this header, \"Name: value\", with ${VAR} from the environment (repeatable)

${VAR}, ${VAR:-default} and ${env:VAR} are replaced in the value, so that a token need not be written down. Quote it with '…' to keep the shell out of it.";

const PASS_HELP: &str = "Give it our whole environment, not only PATH, HOME and the like";

fn children(name: &str) -> Result<Children, &'static str> {
    match name {
        "per-session" => Ok(Children::PerSession),
        "shared" => Ok(Children::Shared),
        "per-request" => Ok(Children::PerRequest),
        _ => Err("use per-session, shared or per-request"),
    }
}

const CHILDREN_HELP: &str = "\
Which clients share a connection to the server; for a command, a connection is a process

  per-session  each client session has its own connection; always safe
  shared       all clients share one connection. Saves memory and start-up time. Safe if
               the server keeps no state for a client: no log-in, no selected project, no
               per-client settings. An answer goes to the client that made the call. The
               bridge passes on a question of the server that names no call only if all
               open calls are of one user. Clients without a key count as one user.
  per-request  each call has its own connection; for servers that exit after one call
";

const BRIDGE_USAGE: &str = "\
switchboard bridge [OPTIONS] <URL | NAME>
       switchboard bridge [OPTIONS] --stdio <CMD>
       switchboard bridge [OPTIONS] -- <CMD> [ARG]...";

const BRIDGE_EXAMPLES: &str = "\
Examples:
  A command, served at http://127.0.0.1:8000/mcp and /sse:
    switchboard bridge --stdio \"npx -y @modelcontextprotocol/server-everything\" --port 8000

  A URL, served on stdin and stdout, for clients that only start commands:
    switchboard bridge https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'

  The same for a server that you sign in to; a browser opens when it wants that:
    switchboard bridge https://example.com/mcp

  A server of the older HTTP+SSE, served as Streamable HTTP:
    switchboard bridge https://example.com/sse --transport sse-only --port 8000

  A command, served on stdin and stdout, with a variable of its own:
    switchboard bridge --env API_KEY=… -- python3 server.py --verbose

The bridge uses HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY. On SIGINT and SIGTERM it
finishes open calls, for 10 seconds at most; a second signal ends it at once.
Exit status: 0 client gone or stopped by a signal, 1 could not start, 2 wrong usage.";

/// Be a server to try clients with.
///
/// It has a tool, a prompt or a resource for every feature of every revision of
/// the protocol, and what the official conformance suites ask of a server. It
/// speaks on stdin and stdout, or, with --http, at /mcp and /sse.
#[derive(Args, Debug)]
#[command(after_help = DEMO_EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Serve over HTTP, on a free port unless --port names one
    #[arg(long)]
    pub(crate) http: bool,
    /// Speak only the revisions with a handshake (legacy), or without (modern)
    #[arg(long, value_name = "ERA", default_value = "both")]
    #[arg(value_parser = era_choice(["legacy", "modern", "both"]))]
    pub(crate) era: EraChoice,
    /// Speak only this revision, such as 2025-06-18 (repeatable)
    #[arg(long, value_name = "DATE", value_parser = revision, conflicts_with = "era")]
    pub(crate) revision: Vec<Revision>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

fn revision(name: &str) -> Result<Revision, String> {
    let known = || Revision::ALL.map(Revision::as_str).join(", ");
    Revision::parse(name).ok_or_else(|| format!("there are {}", known()))
}

const DEMO_EXAMPLES: &str = "\
Examples:
  For a client that starts commands, in its configuration:
    { \"mcpServers\": { \"demo\": { \"command\": \"switchboard\", \"args\": [\"demo\"] } } }

  For a client that takes a URL, at http://127.0.0.1:8000/mcp and /sse:
    switchboard demo --http --port 8000

  As an old server, to see what a new client makes of it:
    switchboard demo --http --port 8000 --revision 2024-11-05

  Without a handshake, as only servers of 2026-07-28 are:
    switchboard demo --era modern

Try the tools echo, add, time and touch first. The ones that begin with test_ each
show one feature, under the names that the conformance suites use.";

/// The same as for `publicUrl` in a file.
fn public_url(text: &str) -> Result<String, &'static str> {
    read_public_url(text).ok_or("write a URL such as https://mcp.example.com")
}
