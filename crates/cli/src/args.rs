//! The command line. The doc comments are the help texts.

#![expect(clippy::doc_markdown, reason = "the help is shown as plain text")]

use std::path::PathBuf;

use clap::builder::{RangedU64ValueParser, Styles};
use clap::error::ErrorKind;
use clap::{Arg, Args, CommandFactory as _, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

use crate::exit::{CommandError, CommandResult, wrong};

pub(crate) use client::{
    ClientArgs, CommandArgs, DoctorArgs, Form, NetworkArgs, ReachArgs, RemoteArgs, TlsArgs,
};
pub(crate) use install::InstallArgs;
pub(crate) use oauth::{
    AccountArgs, AuthCommand, CredentialArgs, LoginArgs, LoginChoice, LogoutArgs, OauthArgs,
    SignInServer, SignInSource, StoreArgs, WhoamiArgs,
};
pub(crate) use serve::{BridgeArgs, DemoArgs, GatewayArgs, ServeArgs, ServedTransport, WebArgs};

mod client;
mod install;
mod oauth;
mod serve;

/// Connects any MCP client to any MCP server.
///
/// Over stdio, Streamable HTTP or the older HTTP+SSE, in any protocol revision.
#[derive(Debug, Parser)]
#[command(name = "switchboard", version, max_term_width = 100, styles = Styles::styled())]
#[command(disable_help_subcommand = true, after_help = TOP_EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands; `command.rs` runs them.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<GatewayArgs>),
    Status(StatusArgs),
    Approve(ApproveArgs),
    Bridge(Box<BridgeArgs>),
    Demo(DemoArgs),
    /// List the tools of a server, or show how to call one
    #[command(after_help = client::examples("tools"), override_usage = client::usage("tools", " [NAME]"))]
    Tools(Box<ClientArgs>),
    /// Call a tool
    #[command(after_help = client::examples("call"), override_usage = client::usage("call", " NAME [K=V | K:=JSON]..."))]
    Call(Box<ClientArgs>),
    /// List the prompts of a server
    #[command(after_help = client::examples("prompts"), override_usage = client::usage("prompts", ""))]
    Prompts(Box<ClientArgs>),
    /// Get a prompt
    #[command(after_help = client::examples("prompt"), override_usage = client::usage("prompt", " NAME [K=V]..."))]
    Prompt(Box<ClientArgs>),
    /// List the resources and templates of a server
    #[command(after_help = client::examples("resources"), override_usage = client::usage("resources", ""))]
    Resources(Box<ClientArgs>),
    /// Read a resource
    #[command(after_help = client::examples("read"), override_usage = client::usage("read", " URI"))]
    Read(Box<ClientArgs>),
    /// Complete an argument
    #[command(after_help = client::examples("complete"), override_usage = client::usage("complete", " prompt:NAME|TEMPLATE ARGUMENT [VALUE] [K=V]..."))]
    Complete(Box<ClientArgs>),
    /// Tell what a server is and can do
    #[command(after_help = client::examples("discover"), override_usage = client::usage("discover", ""))]
    Discover(Box<ClientArgs>),
    /// Print changes as they happen
    #[command(after_help = client::examples("listen"), override_usage = client::usage("listen", " [tools | prompts | resources | URI]..."))]
    Listen(Box<ClientArgs>),
    /// Tell whether a server answers
    #[command(after_help = client::examples("ping"), override_usage = client::usage("ping", ""))]
    Ping(Box<ClientArgs>),
    Doctor(Box<DoctorArgs>),
    Login(Box<LoginArgs>),
    Logout(Box<LogoutArgs>),
    Whoami(Box<WhoamiArgs>),
    #[command(subcommand)]
    Auth(AuthCommand),
    Import(ImportArgs),
    Install(InstallArgs),
    #[command(subcommand)]
    Config(ConfigCommand),
    #[command(subcommand)]
    Key(KeyCommand),
    /// Print a script that teaches a shell to complete our commands and options
    ///
    /// It also completes the names of servers in configuration files and, once the server is
    /// named, of its tools, prompts, resources and arguments. For these it asks the server at
    /// a press of Tab, for 3 seconds at most.
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completion {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write manual pages, one for each command
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// The folder for the pages, made if it is not there
        #[arg(value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
}

impl Command {
    /// Whether it calls a server, rather than serving one.
    pub(crate) fn is_client(&self) -> bool {
        !matches!(self, Self::Bridge(_) | Self::Completion { .. } | Self::Demo(_) | Self::Serve(_))
    }
}

/// What is told of arguments that clap did not take, if a script may be reading:
/// `words` are what the user said. None if clap's own words will do.
pub(crate) fn failure_of(answer: &clap::Error, words: &[String]) -> Option<CommandError> {
    let is_help = answer.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !answer.use_stderr() || is_help {
        return None;
    }
    let command = Cli::command();
    let mut words = words.iter().skip(1);
    let called = words.find(|word| command.find_subcommand(word).is_some());
    let help = called.map_or("--help".to_owned(), |called| format!("{called} --help"));
    let text = answer.render().to_string();
    let mut parts = text.split("\n\n");
    let fact = parts.next().unwrap_or_default().trim_start_matches("error: ");
    let lines = parts.flat_map(str::lines);
    let tips = lines.filter_map(|line| line.trim().strip_prefix("tip: ").map(str::to_owned));
    let tips = tips.chain([format!("see switchboard {help}")]);
    Some(tips.fold(CommandError::new(fact), CommandError::hint).of_usage())
}

/// How many words a flag of `bridge` takes after it; none if it has no such flag.
pub(crate) fn value_count(flag: &str) -> Option<usize> {
    let cli = Cli::command();
    let bridge = cli.find_subcommand("bridge")?;
    let is = |arg: &&Arg| match flag.strip_prefix("--") {
        Some(long) => arg.get_long_and_visible_aliases().is_some_and(|all| all.contains(&long)),
        None => arg.get_short().is_some_and(|short| flag == format!("-{short}")),
    };
    let found = bridge.get_arguments().chain(cli.get_arguments()).find(is)?;
    let takes_values = found.get_action().takes_values();
    let count = || found.get_num_args().map_or(1, |count| count.min_values());
    Some(if takes_values { count() } else { 0 })
}

/// Whether a flag may stand before the command.
pub(crate) fn is_global(flag: &str) -> bool {
    let name = flag.split('=').next().unwrap_or(flag).trim_start_matches('-');
    let is_it = |arg: &Arg| arg.get_long() == Some(name);
    ["help", "version"].contains(&name) || Cli::command().get_arguments().any(is_it)
}

/// A number, of seconds for example, from 1 on.
fn up_to(most: u64) -> RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=most)
}

/// Where log lines go is not a choice: stderr, for stdout carries messages.
#[derive(Args, Debug)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArgs {
    /// How much to log, on stderr (default: LOG_LEVEL, else info; error for calls)
    ///
    /// RUST_LOG, if set, decides alone, module by module.
    #[arg(long, global = true, value_parser = LOG_LEVELS, value_name = "LEVEL", display_order = 100)]
    pub(crate) log_level: Option<String>,
    /// Lines for people, or JSON objects for machines
    #[arg(long, global = true, value_enum, value_name = "FORMAT", display_order = 101)]
    #[arg(default_value = "text")]
    pub(crate) log_format: Form,
}

/// How much is logged: nothing first, everything last.
pub(crate) const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

const TOP_EXAMPLES: &str = "\
Examples:
  Put every server of a configuration file behind one address, http://127.0.0.1:3001/mcp:
    switchboard serve --config mcp.json

  Serve a local server over HTTP, on a free port:
    switchboard bridge --stdio \"npx -y @modelcontextprotocol/server-everything\" --port 0

  Use a remote server from a client that only knows stdio:
    switchboard bridge https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'

  Sign in to a server that wants it, once for all commands:
    switchboard login https://example.com/mcp

  Look at a server, and call it:
    switchboard tools https://example.com/mcp
    switchboard call https://example.com/mcp add a=1 b=2

  Connect a client to the gateway, here Cursor:
    switchboard install --client cursor

  Use a server that Claude, Cursor, VS Code or another client has, by its name there:
    switchboard tools github

  Find out why a server does not connect:
    switchboard doctor https://example.com/mcp

  Try a client with a server that has everything:
    switchboard demo --http --port 8000

  Replace mcp-remote, supergateway or mcp-proxy, with the same flags:
    switchboard mcp-remote https://example.com/mcp --header 'X-Key: ${KEY}'

More about a command: switchboard call --help, switchboard supergateway --help";

/// The arguments, with the `--` put in that some clients swallow on the way:
/// `bridge CMD ARG…`, where CMD is something that can be run, is `bridge -- CMD ARG…`.
/// A server that has this name in a configuration file comes first. Long flags of `bridge` are
/// its own wherever they stand: `bridge CMD --port 1` is `bridge --port 1 -- CMD`. The notes,
/// which come second, name those that the command does not get.
pub(crate) fn with_dashes(
    args: Vec<String>,
    is_named: impl Fn(&str) -> bool,
    can_run: impl Fn(&str) -> bool,
) -> CommandResult<(Vec<String>, Vec<String>)> {
    let as_it_is = |args| Ok((args, Vec::new()));
    let Some(bridge) = find_bridge(&args) else { return as_it_is(args) };
    let (ours, operands, notes) = split_flags(&args[bridge + 1..]);
    let has = |flag: &str| {
        let with_value = format!("{flag}=");
        let mut before_dashes = args.iter().take_while(|arg| *arg != "--");
        before_dashes.any(|arg| arg == flag || arg.starts_with(&with_value))
    };
    let (Some(&word), false) = (operands.first(), has("--config") || has("--help")) else {
        return as_it_is(args);
    };
    if word.starts_with('-') || word.contains("://") || is_named(word) {
        return as_it_is(args);
    }
    if can_run(word) {
        let before = args[..=bridge].iter().chain(ours).map(String::as_str);
        let line = before.chain(["--"]).chain(operands.iter().map(|word| word.as_str()));
        return Ok((line.map(str::to_owned).collect(), notes));
    }
    if operands.len() == 1 {
        return as_it_is(args);
    }
    let what = format!("{word:?} is neither a server of a configuration file nor a program");
    let hint = format!("write a command after --: switchboard bridge -- {word} …");
    wrong(what, "check how it is written, and whether it is in a directory of PATH")
        .map_err(|failure: CommandError| failure.hint(hint))
}

/// Where `bridge` is, if that is the command.
fn find_bridge(args: &[String]) -> Option<usize> {
    let mut at = 1;
    loop {
        let word = args.get(at)?;
        if !word.starts_with('-') {
            return (word == "bridge").then_some(at);
        }
        at += 1 + following(word)?;
    }
}

/// How many words belong to this flag of ours and stand after it.
fn following(word: &str) -> Option<usize> {
    let (flag, has_value) = match word.split_once('=') {
        Some((flag, _)) => (flag, true),
        None => (word, false),
    };
    value_count(flag).map(|count| if has_value { count.saturating_sub(1) } else { count })
}

/// The flags of `bridge`, with their values, all other words, and a note on each flag that
/// stands behind one of these. There only long flags are ours: many programs have a `-e` or `-p`.
fn split_flags(args: &[String]) -> (Vec<&String>, Vec<&String>, Vec<String>) {
    let (mut ours, mut others, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let is_behind = !others.is_empty();
        let is_flag = word.starts_with(if is_behind { "--" } else { "-" });
        match following(word).filter(|_| is_flag) {
            Some(count) => {
                let flag = word.split('=').next().unwrap_or(word);
                let advice = "write -- before the command to pass it on";
                let note = || format!("{flag} was taken as a flag of the bridge; {advice}");
                notes.extend(is_behind.then(note));
                ours.extend(std::iter::once(word).chain(rest.by_ref().take(count)));
            }
            None if word == "--" => others.extend(std::iter::once(word).chain(rest.by_ref())),
            None => others.push(word),
        }
    }
    (ours, others, notes)
}

const COMPLETION_EXAMPLES: &str = "\
Examples:
  bash, in ~/.bashrc:
    source <(switchboard completion bash)

  zsh, in ~/.zshrc, after compinit:
    source <(switchboard completion zsh)

  fish:
    switchboard completion fish > ~/.config/fish/completions/switchboard.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  switchboard man ~/.local/share/man/man1
  man switchboard-serve";

/// Check configuration files, or print their JSON schema
#[derive(Debug, Subcommand)]
#[command(after_help = CONFIG_EXAMPLES)]
pub(crate) enum ConfigCommand {
    /// Report mistakes in configuration files: where they are, and what to write instead
    Check {
        /// The files; for a server in two files, the first file is used
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Print the JSON schema of configuration files, for editors
    Schema,
}

const CONFIG_EXAMPLES: &str = "\
Examples:
  switchboard config check switchboard.json
  switchboard config schema > config.schema.json

In an editor, a first line { \"$schema\": \"./config.schema.json\", ... } checks the file as
you type. Exit status of check: 0 without mistakes, 1 with mistakes.";

/// Gather the servers of other clients into one file
///
/// Looks into the files of Claude, Cursor, VS Code, Codex, Continue, Goose and others, and
/// shows what it found. With --write it adds to a file what is not there yet, and changes
/// nothing else in it. Variables such as ${TOKEN} stay variables. What is switched off there
/// is switched off here.
#[derive(Args, Debug)]
#[command(after_help = IMPORT_EXAMPLES)]
pub(crate) struct ImportArgs {
    /// Look into this file instead of the usual places; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Vec<PathBuf>,
    /// Add what was found to this file, made if it is not there
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Write without asking
    #[arg(long, short, requires = "write")]
    pub(crate) yes: bool,
    /// Show what was found as a table, or as JSON
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) output: Form,
}

const IMPORT_EXAMPLES: &str = "\
Examples:
  See what there is:
    switchboard import

  Put it into one file, and look at that:
    switchboard import --write switchboard.json
    switchboard config check switchboard.json

  Take the servers of one file:
    switchboard import --from ~/.cursor/mcp.json --write switchboard.json --yes

A server that is in two files is taken once. Two servers with one name are kept apart: the
second gets the name of its client behind its own. A server with mistakes is left out.";

/// Make keys that clients show to a gateway
#[derive(Debug, Subcommand)]
#[command(after_help = KEY_EXAMPLES)]
pub(crate) enum KeyCommand {
    /// Print a new key, and its hash for the configuration file
    New,
    /// Print the hash of a key that is read from stdin
    Hash,
    /// Make another key for the tokens of the gateway's own authorization server
    Rotate(StoreArgs),
}

const KEY_EXAMPLES: &str = "\
Examples:
  A new key. The first line is for the client, the second for the file:
    switchboard key new

  In the file:
    \"switchboard\": { \"keys\": { \"ada\": { \"hash\": \"sha256:...\", \"servers\": [\"*\"] } } }

  The hash of a key that somebody has:
    switchboard key hash < key.txt

Clients send a key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'. The file has only
the hash, so that whoever reads the file cannot use it.";

/// Show how the servers and sessions of a running gateway stand.
#[derive(Args, Debug)]
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Where the gateway is
    #[arg(value_hint = ValueHint::Url, default_value = "http://127.0.0.1:3001")]
    pub(crate) url: String,
    /// The key to show, if it wants one; ${VAR} is replaced (default: SWITCHBOARD_KEY)
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// Print what the gateway says as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Go on showing it, every so many seconds; with --json a line each time
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    #[arg(value_parser = up_to(86_400))]
    pub(crate) watch: Option<u64>,
}

/// Show tools that changed since they were approved, and approve them
///
/// A gateway remembers the tools and prompts of its servers. One that changes since it was
/// first seen waits for somebody's yes. Without a name this command shows what changed. A
/// gateway that runs takes over what is approved within a second or two.
#[derive(Args, Debug)]
#[command(after_help = APPROVE_EXAMPLES)]
pub(crate) struct ApproveArgs {
    /// What to approve: SERVER/NAME, or SERVER for all that waits there
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The files of the gateway, as serve has them
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
    /// Approve all that waits
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Show what waits as text, or as JSON
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) output: Form,
}

const APPROVE_EXAMPLES: &str = "\
Examples:
  See what changed, and how:
    switchboard approve --config switchboard.json

  Approve one tool:
    switchboard approve --config switchboard.json files/read_file

\"toolChanges\": \"refuse\" in the file keeps what waits from clients until it is approved.";

const STATUS_EXAMPLES: &str = "\
Examples:
  switchboard status
  switchboard status --watch
  switchboard status http://127.0.0.1:8080 --key '${KEY}'
  switchboard status --json | jq '.servers | map_values(.state)'

Exit status: 0 shown, 1 no gateway there, 2 wrong usage, 3 the key is missing or wrong,
4 it cannot be reached.";

#[cfg(test)]
mod tests {
    use super::*;

    fn dashed(line: &str) -> CommandResult<(String, Vec<String>)> {
        let args = line.split(' ').map(str::to_owned).collect();
        let can_run = |word: &str| ["git", "node"].contains(&word);
        let (words, notes) = with_dashes(args, |word| word == "git", can_run)?;
        Ok((words.join(" "), notes))
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(dashed(line).unwrap().0, expected);
    }

    #[test]
    fn a_command_needs_no_dashes_if_it_can_be_run() {
        check("sb bridge node server.js -v", "sb bridge -- node server.js -v");
        check("sb bridge -- node server.js", "sb bridge -- node server.js");
        check("sb bridge https://node --port 1", "sb bridge https://node --port 1");
        check("sb bridge example.com/mcp", "sb bridge example.com/mcp");
        check("sb bridge node --config f", "sb bridge node --config f");
        check("sb tools bridge node", "sb tools bridge node");
        let failure = dashed("sb bridge nod server.js").unwrap_err().to_string();
        assert!(failure.contains("\"nod\" is neither") && failure.contains("-- nod"), "{failure}");
    }

    #[test]
    fn a_name_in_a_configuration_comes_before_a_program() {
        check("sb bridge git --port 3058", "sb bridge git --port 3058");
        check("sb bridge -- git status", "sb bridge -- git status");
    }

    #[test]
    fn flags_of_ours_stay_ours_wherever_they_stand() {
        check("sb bridge node a.js --port 1 -v", "sb bridge --port 1 -- node a.js -v");
        check("sb bridge -p 1 node a.js", "sb bridge -p 1 -- node a.js");
        check(
            "sb --log-level warn bridge node --stateless",
            "sb --log-level warn bridge --stateless -- node",
        );
        check("sb bridge node --named-server a b c", "sb bridge --named-server a b -- node c");
    }

    #[test]
    fn a_command_keeps_its_dashes_and_what_is_behind_them() {
        check("sb bridge node run -- --foo", "sb bridge -- node run -- --foo");
        check("sb bridge node -- --config f --port 1", "sb bridge -- node -- --config f --port 1");
        check("sb bridge -p 1 -- node --port 2", "sb bridge -p 1 -- node --port 2");
    }

    #[test]
    fn a_command_keeps_its_short_flags_and_long_ones_are_taken_with_a_note() {
        let short = "node run -i -e A=b -p 8080:80 -p3000 -h";
        assert_eq!(
            dashed(&format!("sb bridge --port 1 {short}")).unwrap(),
            (format!("sb bridge --port 1 -- {short}"), Vec::new())
        );
        let (line, notes) = dashed("sb bridge --port 1 node --api-key=marked a").unwrap();
        assert_eq!(line, "sb bridge --port 1 --api-key=marked -- node a");
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(note.starts_with("--api-key was taken as a flag of the bridge; "), "{note}");
        assert!(!note.contains("marked"), "{note}");
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
