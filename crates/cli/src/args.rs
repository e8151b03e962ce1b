//! What the user said. The doc comments are the help.

#![expect(clippy::doc_markdown, reason = "the help is shown as plain text")]

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::Styles;
use clap::{Args, Parser, Subcommand, ValueEnum};
use switchboard_net::bridge::Children;
use switchboard_net::upstream::Strategy;
use switchboard_proto::revision::Revision;

use crate::exit::ExitStatus;
pub(crate) use client::{ClientArgs, Form, Spoken};

mod client;

/// Connects any MCP client to any MCP server.
///
/// Whatever the two speak: stdio, Streamable HTTP or the older HTTP+SSE.
#[derive(Debug, Parser)]
#[command(name = "switchboard", version, max_term_width = 100, styles = Styles::plain())]
#[command(disable_help_subcommand = true, after_help = TOP_EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One for each file in `command/`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Bridge(Box<BridgeArgs>),
    Demo(DemoArgs),
    /// List the tools of a server: TARGET
    Tools(Box<ClientArgs>),
    /// Call a tool: TARGET NAME [K=V | K:=JSON]...
    Call(Box<ClientArgs>),
    /// List the prompts of a server: TARGET
    Prompts(Box<ClientArgs>),
    /// Get a prompt: TARGET NAME [K=V]...
    Prompt(Box<ClientArgs>),
    /// List the resources and templates of a server: TARGET
    Resources(Box<ClientArgs>),
    /// Read a resource: TARGET URI
    Read(Box<ClientArgs>),
    /// Complete an argument: TARGET prompt:NAME|TEMPLATE ARGUMENT, then VALUE and K=V if there are any
    Complete(Box<ClientArgs>),
    /// Tell what a server is and can do: TARGET
    Discover(Box<ClientArgs>),
    /// Print changes as they happen: TARGET [tools | prompts | resources | URI]...
    Listen(Box<ClientArgs>),
    /// Tell whether a server answers: TARGET
    Ping(Box<ClientArgs>),
}

impl Command {
    /// Whether it calls a server, rather than serving one.
    pub(crate) fn is_client(&self) -> bool {
        !matches!(self, Self::Bridge(_) | Self::Demo(_))
    }
}

/// How the program ends after arguments that clap did not take. The commands
/// that call a server have the statuses of the Inspector, `bridge` those of clap.
pub(crate) fn status_of(answer: &clap::Error, command: Option<&str>) -> ExitStatus {
    const CLIENT: [&str; 10] = [
        "tools",
        "call",
        "prompts",
        "prompt",
        "resources",
        "read",
        "complete",
        "discover",
        "listen",
        "ping",
    ];
    match command {
        _ if !answer.use_stderr() => ExitStatus::Success,
        Some(command) if CLIENT.contains(&command) => ExitStatus::Failure,
        _ => ExitStatus::Usage,
    }
}

/// Where log lines go is not a choice: stderr, for stdout carries messages.
#[derive(Args, Debug)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArgs {
    /// How much to log, on stderr (default: LOG_LEVEL, else info)
    ///
    /// RUST_LOG, if set, decides alone, module by module.
    #[arg(long, global = true, value_enum, value_name = "LEVEL", display_order = 100)]
    pub(crate) log_level: Option<Level>,
    /// Lines for people, or JSON objects for machines
    #[arg(long, global = true, value_enum, value_name = "FORMAT", display_order = 101)]
    #[arg(default_value = "text")]
    pub(crate) log_format: Format,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

/// Serve a server on another transport.
///
/// The server is a command that speaks on its stdin and stdout, or a URL. It is
/// served on our own stdin and stdout, or, with --port, over HTTP: Streamable
/// HTTP at /mcp and HTTP+SSE at /sse, both at once.
#[derive(Args, Debug)]
#[command(after_help = BRIDGE_EXAMPLES, override_usage = BRIDGE_USAGE)]
#[group(id = "server", required = true, multiple = false, args = ["url", "stdio", "words"])]
pub(crate) struct BridgeArgs {
    /// The server's URL
    pub(crate) url: Option<String>,
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
    /// Bytes that one message may have, however it travels
    #[arg(long, alias = "max-body", value_name = "BYTES", default_value = "33554432")]
    #[arg(value_parser = clap::value_parser!(u32).range(1024..))]
    pub(crate) max_message: u32,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) local: CommandArgs,
}

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
    #[arg(long, value_enum, value_name = "ERA", default_value = "both")]
    pub(crate) era: EraChoice,
    /// Speak only this revision, such as 2025-06-18 (repeatable)
    #[arg(long, value_name = "DATE", value_parser = revision, conflicts_with = "era")]
    pub(crate) revision: Vec<Revision>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// Which eras the built-in server speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum EraChoice {
    Legacy,
    Modern,
    Both,
}

fn revision(name: &str) -> Result<Revision, String> {
    let known = || Revision::ALL.map(Revision::as_str).join(", ");
    Revision::parse(name).ok_or_else(|| format!("there are {}", known()))
}

/// Options for serving over HTTP.
#[derive(Args, Debug)]
#[command(next_help_heading = "Serving over HTTP")]
pub(crate) struct ServeArgs {
    /// Serve over HTTP on this port; 0 picks a free one
    ///
    /// The first line on stdout is the URL of the endpoint.
    #[arg(long, short)]
    pub(crate) port: Option<u16>,
    /// The address to listen on; there is no authentication, so think twice
    #[arg(long, requires = "port", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Also serve requests for this host, NAME or NAME:PORT; * for all (repeatable)
    #[arg(long, requires = "port", value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Also let web pages of this origin in; * for all (repeatable)
    #[arg(long, requires = "port", value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Seconds after which an unused session ends
    #[arg(long, requires = "port", value_name = "SECONDS", default_value = "1800")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) session_timeout: u64,
    /// Seconds between signs of life on a silent stream
    #[arg(long, requires = "port", value_name = "SECONDS", default_value = "15")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) keep_alive: u64,
    /// Seconds that a client may take over sending a request, or the next one
    #[arg(long, requires = "port", value_name = "SECONDS", default_value = "30")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) request_timeout: u64,
    /// Seconds of silence after which a call's connection is ended; 0 for never
    ///
    /// The client comes back for the answer, where its revision has that. For proxies
    /// and load balancers that cut long requests.
    #[arg(long, requires = "port", value_name = "SECONDS", default_value = "0")]
    #[arg(value_parser = seconds)]
    pub(crate) hang_up_after: Duration,
}

/// Seconds, or parts of one.
fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("write a number of seconds, such as 20 or 0.5")
}

/// Options for a server at a URL.
#[derive(Args, Debug)]
#[command(next_help_heading = "For a server at a URL")]
pub(crate) struct RemoteArgs {
    /// Send this header, "Name: value", with ${VAR} from the environment (repeatable)
    ///
    /// ${VAR}, ${VAR:-default} and ${env:VAR} are replaced in the value, so that a
    /// token need not be written down. Quote it with '…' to keep the shell out of it.
    #[arg(long, short = 'H', conflicts_with_all = ["stdio", "words"], value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Which transport to try: http-first, sse-first, http-only or sse-only
    #[arg(long, conflicts_with_all = ["stdio", "words"], value_name = "STRATEGY")]
    #[arg(default_value = "http-first", value_parser = Strategy::from_str)]
    pub(crate) transport: Strategy,
    /// Trust the certificates in this PEM file beside the system's
    #[arg(long, conflicts_with_all = ["stdio", "words"], value_name = "PEM")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// Options for a server that is a command.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "For a server that is a command")]
pub(crate) struct CommandArgs {
    /// Set a variable for it (repeatable)
    #[arg(long, short, conflicts_with = "url", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<Assignment>,
    /// Run it in this directory
    #[arg(long, conflicts_with = "url", value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Give it our whole environment, not only PATH, HOME and the like
    #[arg(long, conflicts_with = "url")]
    pub(crate) pass_environment: bool,
}

/// `NAME=VALUE`; the value is not shown.
#[derive(Clone)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for Assignment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
                Ok(Self { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err("write NAME=VALUE"),
        }
    }
}

impl std::fmt::Debug for Assignment {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}=…", self.name)
    }
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
               Saves memory and start-up time. Answers never go to the wrong client.
  per-request  each call has its own; for servers that break after one
";

const TOP_EXAMPLES: &str = "\
Examples:
  Serve a local server over HTTP, on a free port:
    switchboard bridge --stdio \"npx -y @modelcontextprotocol/server-everything\" --port 0

  Use a remote server from a client that only knows stdio:
    switchboard bridge https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'

  Look at a server, and call it:
    switchboard tools https://example.com/mcp
    switchboard call https://example.com/mcp add a:=1 b:=2

  Try a client with a server that has everything:
    switchboard demo --http --port 8000

More about a command: switchboard bridge --help";

const BRIDGE_USAGE: &str = "\
switchboard bridge [OPTIONS] <URL>
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

/// The arguments, with the `--` put in that some clients swallow on the way:
/// `bridge CMD ARG…`, where CMD is something that can be run, is `bridge -- CMD ARG…`.
pub(crate) fn with_dashes(mut args: Vec<String>, can_run: impl Fn(&str) -> bool) -> Vec<String> {
    if let [_, bridge, word, ..] = args.as_slice()
        && bridge == "bridge"
        && !word.starts_with('-')
        && !word.contains("://")
        && can_run(word)
    {
        args.insert(2, "--".to_owned());
    }
    args
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn a_command_needs_no_dashes_if_it_can_be_run() {
        let check = |line: &str| {
            let args = line.split(' ').map(str::to_owned).collect();
            with_dashes(args, |word| word == "node").join(" ")
        };
        assert_eq!(check("sb bridge node server.js -v"), "sb bridge -- node server.js -v");
        assert_eq!(check("sb bridge -- node server.js"), "sb bridge -- node server.js");
        assert_eq!(check("sb bridge https://node --port 1"), "sb bridge https://node --port 1");
        assert_eq!(check("sb bridge example.com/mcp"), "sb bridge example.com/mcp");
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_variable_in_debug_output_keeps_its_value_to_itself() {
        let assignment: Assignment = "TOKEN=secret".parse().unwrap();
        assert_eq!(format!("{assignment:?}"), "TOKEN=…");
        assert!("secret".parse::<Assignment>().is_err());
        assert!("=secret".parse::<Assignment>().is_err());
    }
}
