//! What the user said. The doc comments are the help.

#![expect(clippy::doc_markdown, reason = "the help is shown as plain text")]

use clap::builder::Styles;
use clap::{Arg, Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::exit::{CommandError, ExitStatus};
pub(crate) use bridge::BridgeArgs;
use client::help;
pub(crate) use client::{ClientArgs, Form, ReachArgs};
pub(crate) use completion::CompletionArgs;
pub(crate) use config::{ConfigArgs, ConfigCommand};
pub(crate) use demo::{DemoArgs, EraChoice};
pub(crate) use doctor::DoctorArgs;
pub(crate) use gateway::GatewayArgs;
pub(crate) use import::ImportArgs;
pub(crate) use key::{KeyArgs, KeyCommand};
pub(crate) use network::NetworkArgs;
pub(crate) use serve::ServeArgs;
pub(crate) use status::StatusArgs;
pub(crate) use target::{Assignment, CommandArgs, RemoteArgs};
pub(crate) use web::{Transport, WebArgs};

mod bridge;
mod client;
mod completion;
mod config;
mod demo;
mod doctor;
mod gateway;
mod import;
mod key;
mod network;
mod serve;
mod status;
mod target;
mod web;

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
    Serve(Box<GatewayArgs>),
    Status(StatusArgs),
    Bridge(Box<BridgeArgs>),
    Demo(DemoArgs),
    /// List the tools of a server
    #[command(after_help = help::TOOLS, override_usage = help::usage("tools", ""))]
    Tools(Box<ClientArgs>),
    /// Call a tool
    #[command(after_help = help::CALL, override_usage = help::usage("call", " NAME [K=V | K:=JSON]..."))]
    Call(Box<ClientArgs>),
    /// List the prompts of a server
    #[command(after_help = help::PROMPTS, override_usage = help::usage("prompts", ""))]
    Prompts(Box<ClientArgs>),
    /// Get a prompt
    #[command(after_help = help::PROMPT, override_usage = help::usage("prompt", " NAME [K=V]..."))]
    Prompt(Box<ClientArgs>),
    /// List the resources and templates of a server
    #[command(after_help = help::RESOURCES, override_usage = help::usage("resources", ""))]
    Resources(Box<ClientArgs>),
    /// Read a resource
    #[command(after_help = help::READ, override_usage = help::usage("read", " URI"))]
    Read(Box<ClientArgs>),
    /// Complete an argument
    #[command(after_help = help::COMPLETE, override_usage = help::usage("complete", " prompt:NAME|TEMPLATE ARGUMENT [VALUE] [K=V]..."))]
    Complete(Box<ClientArgs>),
    /// Tell what a server is and can do
    #[command(after_help = help::DISCOVER, override_usage = help::usage("discover", ""))]
    Discover(Box<ClientArgs>),
    /// Print changes as they happen
    #[command(after_help = help::LISTEN, override_usage = help::usage("listen", " [tools | prompts | resources | URI]..."))]
    Listen(Box<ClientArgs>),
    /// Tell whether a server answers
    #[command(after_help = help::PING, override_usage = help::usage("ping", ""))]
    Ping(Box<ClientArgs>),
    Doctor(Box<DoctorArgs>),
    Import(ImportArgs),
    Config(ConfigArgs),
    Key(KeyArgs),
    Completion(CompletionArgs),
}

impl Command {
    /// Whether it calls a server, rather than serving one.
    pub(crate) fn is_client(&self) -> bool {
        !matches!(self, Self::Bridge(_) | Self::Completion(_) | Self::Demo(_) | Self::Serve(_))
    }
}

/// The commands that call a server. They have the statuses of the Inspector,
/// and its line of JSON for scripts; the others those of clap.
const CLIENT: [&str; 12] = [
    "tools",
    "call",
    "prompts",
    "prompt",
    "resources",
    "read",
    "complete",
    "discover",
    "doctor",
    "listen",
    "ping",
    "status",
];

/// What is told of arguments that clap did not take, if a script may be reading:
/// `words` are what the user said. None if clap's own words will do.
pub(crate) fn failure_of(answer: &clap::Error, words: &[String]) -> Option<CommandError> {
    let command = Cli::command();
    let mut words = words.iter().skip(1);
    let called = words.find(|word| command.find_subcommand(word).is_some())?;
    if !answer.use_stderr() || !CLIENT.contains(&called.as_str()) {
        return None;
    }
    let text = answer.render().to_string();
    let mut parts = text.split("\n\n");
    let fact = parts.next().unwrap_or_default().trim_start_matches("error: ");
    let lines = parts.flat_map(str::lines);
    let tips = lines.filter_map(|line| line.trim().strip_prefix("tip: ").map(str::to_owned));
    let tips = tips.chain([format!("see switchboard {called} --help")]);
    let failure = tips.fold(CommandError::new(fact), CommandError::hint);
    Some(failure.for_scripts(ExitStatus::Failure, "usage"))
}

/// Whether a flag of `bridge` takes a value; none if it has no such flag.
pub(crate) fn takes_value(flag: &str) -> Option<bool> {
    let cli = Cli::command();
    let bridge = cli.find_subcommand("bridge")?;
    let is = |arg: &&Arg| match flag.strip_prefix("--") {
        Some(long) => arg.get_long_and_visible_aliases().is_some_and(|all| all.contains(&long)),
        None => arg.get_short().is_some_and(|short| flag == format!("-{short}")),
    };
    let found = bridge.get_arguments().chain(cli.get_arguments()).find(is)?;
    Some(found.get_action().takes_values())
}

/// Whether a flag may stand before the command.
pub(crate) fn is_global(flag: &str) -> bool {
    let name = flag.split('=').next().unwrap_or(flag).trim_start_matches('-');
    let cli = Cli::command();
    name == "help"
        || name == "version"
        || cli.get_arguments().any(|arg| arg.get_long() == Some(name))
}

/// Where log lines go is not a choice: stderr, for stdout carries messages.
#[derive(Args, Debug)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArgs {
    /// How much to log, on stderr (default: LOG_LEVEL, else info; error for calls)
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
    Off,
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

const TOP_EXAMPLES: &str = "\
Examples:
  Put every server of a configuration file behind one address, http://127.0.0.1:3001/mcp:
    switchboard serve --config mcp.json

  Serve a local server over HTTP, on a free port:
    switchboard bridge --stdio \"npx -y @modelcontextprotocol/server-everything\" --port 0

  Use a remote server from a client that only knows stdio:
    switchboard bridge https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'

  Look at a server, and call it:
    switchboard tools https://example.com/mcp
    switchboard call https://example.com/mcp add a:=1 b:=2

  Use a server that Claude, Cursor, VS Code or another client has, by its name there:
    switchboard tools github

  Find out why a server does not connect:
    switchboard doctor https://example.com/mcp

  Try a client with a server that has everything:
    switchboard demo --http --port 8000

  Put it in the place of mcp-remote, supergateway or mcp-proxy, flags and all:
    switchboard mcp-remote https://example.com/mcp --header 'X-Key: ${KEY}'

More about a command: switchboard call --help, switchboard supergateway --help";

/// The arguments, with the `--` put in that some clients swallow on the way:
/// `bridge CMD ARG…`, where CMD is something that can be run, is `bridge -- CMD ARG…`.
pub(crate) fn with_dashes(mut args: Vec<String>, can_run: impl Fn(&str) -> bool) -> Vec<String> {
    if let [_, bridge, word, ..] = args.as_slice()
        && bridge == "bridge"
        && !word.starts_with('-')
        && !word.contains("://")
        && !args.iter().any(|arg| arg == "--config" || arg.starts_with("--config="))
        && can_run(word)
    {
        args.insert(2, "--".to_owned());
    }
    args
}

#[cfg(test)]
mod tests {
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
        assert_eq!(check("sb bridge node --config f"), "sb bridge node --config f", "a name");
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
