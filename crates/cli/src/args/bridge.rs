//! What the user said to `bridge`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use switchboard_net::bridge::Children;

use super::{CommandArgs, RemoteArgs, ServeArgs, WebArgs};

/// Serve a server on another transport.
///
/// The server is a command that speaks on its stdin and stdout, or a URL. It is
/// served on our own stdin and stdout, or, with --port, over HTTP: Streamable
/// HTTP at /mcp and HTTP+SSE at /sse, both at once.
#[derive(Args, Debug)]
#[command(after_help = BRIDGE_EXAMPLES, override_usage = BRIDGE_USAGE)]
#[group(id = "server", multiple = false, args = ["url", "stdio", "words"])]
pub(crate) struct BridgeArgs {
    /// The server's URL, or its name in a configuration file
    #[arg(required_unless_present_any = ["stdio", "words", "named_server", "named_server_config"])]
    pub(crate) url: Option<String>,
    /// Look for the name in this file, not in the usual places (repeatable)
    ///
    /// JSON, with comments or without, or TOML, as clients have it: with mcpServers,
    /// servers or [mcp_servers.NAME]. The usual places are .mcp.json, mcp.json, and
    /// the files of VS Code, Cursor, Claude, Codex and others.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdio", "words"])]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) config: Vec<PathBuf>,
    /// The server's command in one string, quoted as for a shell; no shell is run
    #[arg(long, value_name = "CMD")]
    pub(crate) stdio: Option<String>,
    /// The server's command and its arguments, after --
    #[arg(last = true, value_name = "CMD")]
    pub(crate) words: Vec<String>,
    /// Which connections to the server clients share
    #[arg(long, value_parser = children, value_name = "RULE", default_value = "per-session")]
    #[arg(long_help = CHILDREN_HELP)]
    pub(crate) children: Children,
    /// Seconds that the server may be silent on a call before it fails
    #[arg(long, value_name = "SECONDS", default_value = "3600")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
    /// Seconds that the server may take over its greeting (default: as for calls)
    #[arg(long, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) start_timeout: Option<u64>,
    /// Send a ping each SECONDS to a legacy server at a URL, while nobody calls it
    ///
    /// For servers and balancers that forget a session which is quiet for long.
    #[arg(long, conflicts_with_all = ["stdio", "words"], value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) ping: Option<u64>,
    /// Bytes that one message may have, however it travels
    #[arg(long, alias = "max-body", value_name = "BYTES", default_value = "33554432")]
    #[arg(value_parser = clap::value_parser!(u32).range(1024..))]
    pub(crate) max_message: u32,
    /// Keep tools of this name, * for any characters, from clients (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub(crate) ignore_tool: Vec<String>,
    /// Bytes of events that a session keeps for clients that come back; 0 for none
    #[arg(long, value_name = "BYTES")]
    pub(crate) history: Option<usize>,
    /// How many events that are at most (default: 4096)
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
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) local: CommandArgs,
}

fn children(name: &str) -> Result<Children, &'static str> {
    match name {
        "per-session" => Ok(Children::PerSession),
        "shared" => Ok(Children::Shared),
        "per-request" => Ok(Children::PerRequest),
        _ => Err("use per-session, shared or per-request"),
    }
}

const CHILDREN_HELP: &str = "\
Which connections to the server clients share; for a command, a connection is a process

  per-session  each session of a client has its own; always safe
  shared       all clients share one. Safe if the server remembers nothing about whom
               it talks to: no log-in, no selected project, no per-client settings.
               Saves memory and start-up time. An answer goes to the client that asked. A
               question that does not say which call it is about is asked only if all who
               might be meant are one person; clients that show no key count as one.
  per-request  each call has its own; for servers that break after one
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

  A URL, served at another: a server of the old HTTP+SSE for clients of the new transport:
    switchboard bridge https://example.com/sse --transport sse-only --port 8000

  A command, served on stdin and stdout, with its own environment and clean-up:
    switchboard bridge --env API_KEY=… -- python3 server.py --verbose

HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY are honoured. SIGINT and SIGTERM finish
what is in flight, for 10 seconds at most; a second one ends at once.
Exit status: 0 ended or was told to, 1 could not start, 2 wrong usage.";
