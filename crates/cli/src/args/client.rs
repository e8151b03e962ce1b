//! Options of the commands that call a server, and how each of them finds its server.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use clap_complete::ArgValueCompleter;
use switchboard_gateway::plan::PlanSecret;
use switchboard_net::upstream::Strategy;
use switchboard_proto::revision::Era;

use super::{CredentialArgs, up_to};
use crate::completion;

/// The same for every command; which operands make sense is its own business.
#[derive(Args, Debug)]
pub(crate) struct ClientArgs {
    /// The server's URL or its name in a configuration file, unless a command follows --;
    /// then what the command is about
    #[arg(value_name = "TARGET", add = ArgValueCompleter::new(completion::operands))]
    pub(crate) operands: Vec<String>,
    /// All arguments as one JSON object; k=v and k:=json are added to it (call, prompt, complete)
    #[arg(long, value_name = "OBJECT")]
    pub(crate) json: Option<String>,
    /// Tables for people, or the whole results as JSON
    #[arg(long, short, value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) output: Form,
    /// Save pictures, sound and other bytes of the result in this folder (call, prompt, read)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// How to get to the server that a command calls.
#[derive(Args, Debug)]
pub(crate) struct ReachArgs {
    /// The server's command in one string, quoted as for a shell; no shell is run
    #[arg(long, value_name = "CMD", conflicts_with = "words")]
    pub(crate) stdio: Option<String>,
    /// The server's command and its arguments, after --
    #[arg(last = true, value_name = "CMD")]
    pub(crate) words: Vec<String>,
    /// Look for the server's name in this file, not in the usual places (repeatable)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Vec<PathBuf>,
    /// Seconds that the server may be silent on a call [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = up_to(86_400))]
    pub(crate) timeout: Option<u64>,
    /// Which era of the protocol to speak; auto asks the server
    #[arg(long, value_name = "ERA", default_value = "auto")]
    #[arg(value_parser = era_choice(["auto", "legacy", "modern"]))]
    pub(crate) era: EraChoice,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// What to do if the server wants somebody to sign in (default: wait at a terminal, else never)
    #[arg(long, value_name = "WHEN", value_parser = ["wait", "never"])]
    pub(crate) login: Option<String>,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    #[command(flatten)]
    pub(crate) local: CommandArgs,
}

/// How results are shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Form {
    Text,
    Json,
}

/// The era that is spoken; none if any will do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EraChoice(pub(crate) Option<Era>);

/// Reads an era, or another of these names, which stands for any.
pub(super) fn era_choice(names: [&'static str; 3]) -> impl TypedValueParser<Value = EraChoice> {
    PossibleValuesParser::new(names).map(|name| match name.as_str() {
        "legacy" => EraChoice(Some(Era::Legacy)),
        "modern" => EraChoice(Some(Era::Modern)),
        _ => EraChoice(None),
    })
}

/// How a command is used: with a TARGET, or with a command; `rest` is what it is about.
pub(crate) fn usage(command: &str, rest: &str) -> String {
    let line = format!("switchboard {command} [OPTIONS]");
    format!("{line} TARGET{rest}\n       {line}{rest} -- CMD [ARG]...")
}

/// Examples of all commands that call a server.
const EXAMPLES: &str = "  switchboard tools https://example.com/mcp
  switchboard tools github
  switchboard tools https://example.com/mcp add
  switchboard tools github --config ~/.cursor/mcp.json --output json
  switchboard tools -- npx -y @modelcontextprotocol/server-everything
  switchboard call https://example.com/mcp add a=1 b=2
  switchboard call https://example.com/mcp search --json '{\"query\": \"x\", \"limit\": 5}'
  switchboard call echo message='hello there' -- npx -y @modelcontextprotocol/server-everything
  switchboard call https://example.com/mcp draw --save pictures
  switchboard prompts https://example.com/mcp
  switchboard prompts -- npx -y @modelcontextprotocol/server-everything
  switchboard prompt https://example.com/mcp review language=rust
  switchboard prompt https://example.com/mcp review --json '{\"code\": \"…\"}'
  switchboard resources https://example.com/mcp
  switchboard resources github --output json
  switchboard read https://example.com/mcp file:///a/b
  switchboard read docs://intro -- npx -y some-server
  switchboard complete https://example.com/mcp prompt:review language py
  switchboard complete https://example.com/mcp 'file:///{path}' path src/ owner=me
  switchboard discover https://example.com/mcp
  switchboard discover --era legacy -- npx -y some-server
  switchboard listen https://example.com/mcp
  switchboard listen https://example.com/mcp tools file:///a/b --output json
  switchboard ping https://example.com/mcp
  switchboard ping github && echo it is there";

const CALL: &str = "
Arguments: k=v has the type that the tool's schema says, else it is text; k:=json is JSON;
--json has all of them in one object. A list is k=a,b or k:='[\"a\",\"b\"]'.
";

const COMPLETE: &str = "
What is completed is prompt:NAME or the template of a resource; then the name of its
argument, what is typed so far, and what is filled in already.
";

/// The end of the help of a command: its examples, and what all such commands have in common.
pub(crate) fn examples(command: &str) -> String {
    let is_its = |line: &&str| line.split_whitespace().nth(1) == Some(command);
    let examples = EXAMPLES.lines().filter(is_its).collect::<Vec<_>>().join("\n");
    let more = match command {
        "call" => CALL,
        "complete" => COMPLETE,
        _ => "",
    };
    format!(
        "Examples:
{examples}
{more}
A TARGET is a URL, or the name of a server in ./.mcp.json, ./mcp.json, or the files of
VS Code, Cursor, Claude, Codex and other clients; or leave it out, and write the server's
command after --.
Exit status: 0 done, 1 failed, 2 wrong usage, 3 not let in, 4 not reached, 5 the tool
failed; with one line of JSON on stderr, or sentences if that is a terminal."
    )
}

/// Options for a server at a URL.
#[derive(Args, Debug, Default)]
pub(crate) struct RemoteArgs {
    /// Send this header, "Name: value", with ${VAR} from the environment (repeatable)
    #[arg(long, short = 'H', value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Which transport to try: http-first, sse-first, http-only or sse-only [default: http-first]
    #[arg(long, value_name = "STRATEGY", value_parser = Strategy::from_str)]
    pub(crate) transport: Option<Strategy>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

/// How a server at an https URL is trusted, and what it is shown of us.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TlsArgs {
    /// Trust the certificates in this PEM file beside the system's
    ///
    /// The certificate of an authority, or of the server itself, for example a self-signed one.
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath)]
    pub(crate) ca_file: Option<PathBuf>,
    /// Show the server the client certificate in this PEM file, if it asks for one
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath)]
    pub(crate) client_cert: Option<PathBuf>,
    /// The private key of --client-cert, if another file has it
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath, requires = "client_cert")]
    pub(crate) client_key: Option<PathBuf>,
    /// Do not verify the server's certificate; for trials only
    ///
    /// Whoever is between us and the server can then read and change all that is sent. Holds
    /// for the host of the server, and not for an authorization server elsewhere.
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// Options for a server that is a command.
#[derive(Args, Debug, Default)]
pub(crate) struct CommandArgs {
    /// Set a variable for the server's command (repeatable)
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) env: Vec<PlanSecret>,
    /// Run the server's command in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// Give the server's command our whole environment
    #[arg(long)]
    pub(crate) pass_environment: bool,
}

/// Reads `NAME=VALUE`.
fn assignment(text: &str) -> Result<PlanSecret, &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
            Ok(PlanSecret { name: name.to_owned(), value: value.to_owned() })
        }
        _ => Err("write NAME=VALUE"),
    }
}

/// Options of the network that few need.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "For a server at a URL, in detail")]
pub(crate) struct NetworkArgs {
    /// Send the headers in this file, a "Name: value" a line (repeatable)
    ///
    /// # begins a comment, and ${VAR} is replaced as with --header, which is stronger.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) header_file: Vec<PathBuf>,
    /// Use no proxy, whatever the environment says
    #[arg(long)]
    pub(crate) direct: bool,
    /// Use only IPv4 addresses of names
    #[arg(long)]
    pub(crate) ipv4: bool,
    /// Seconds that connecting may take (default: 10)
    #[arg(long, value_name = "SECONDS", value_parser = up_to(3600))]
    pub(crate) connect_timeout: Option<u64>,
}

/// Find out what is wrong with a server
///
/// Connects, asks for all that the server has, and says what is wrong in plain
/// words, with the rule of the protocol and what to do. Calls no tool and changes
/// nothing.
#[derive(Args, Debug)]
#[command(after_help = DOCTOR_EXAMPLES, override_usage = usage("doctor", ""))]
pub(crate) struct DoctorArgs {
    /// The server's URL or its name in a configuration file, unless a command follows --
    #[arg(value_name = "TARGET", add = ArgValueCompleter::new(completion::servers))]
    pub(crate) operands: Vec<String>,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  switchboard doctor https://example.com/mcp
  switchboard doctor github
  switchboard doctor -- npx -y @modelcontextprotocol/server-everything
  switchboard doctor --json https://example.com/mcp | jq '.findings[].what'

A server that speaks both eras is seen as the newest client sees it; --era legacy looks
at it as the older ones do.
Errors are what clients fail on, warnings what some clients fail on, notes are good to
know. A rule such as STD-2 is a line of docs/wire-rules.txt. Exit status: 0 healthy,
1 with errors, 2 wrong usage.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_in_debug_output_keeps_its_value_to_itself() {
        let shown = format!("{:?}", assignment("TOKEN=s3cret").unwrap());
        assert!(shown.contains("TOKEN") && !shown.contains("s3cret"), "{shown}");
        assert!(assignment("secret").is_err() && assignment("=secret").is_err());
    }
}
