//! The arguments of `install`.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;
use switchboard_gateway::config::KnownClient;

/// Write the gateway into the configuration of a client, or take it out again
///
/// Shows what it would write into the client's file, asks, and changes nothing else in the file:
/// comments stay. The file as it was is kept beside it, with .switchboard.bak behind its name.
/// Another server under the same name is replaced only with --replace.
/// A client that only starts commands gets one that connects to the URL.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct InstallArgs {
    /// The client
    #[arg(long, value_name = "NAME", value_parser = clients())]
    pub(crate) client: String,
    /// Write this server of the gateway, with its own names, in place of all together
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    #[arg(add = ArgValueCompleter::new(crate::completion::servers))]
    pub(crate) server: Option<String>,
    /// Write this URL (default: the gateway, http://127.0.0.1:3001/mcp)
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) url: Option<String>,
    /// What the client calls the entry (default: the name of the server, else switchboard)
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// A header that the client sends, written as it is; may be repeated
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// Take the entry out again
    #[arg(long)]
    pub(crate) remove: bool,
    /// Print the entry, and write nothing
    #[arg(long, conflicts_with = "remove")]
    pub(crate) print: bool,
    /// Replace another server that has this name
    #[arg(long, conflicts_with = "remove")]
    pub(crate) replace: bool,
    /// Write without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}

fn clients() -> PossibleValuesParser {
    let value = |client: &KnownClient| PossibleValue::new(client.id).help(client.name);
    PossibleValuesParser::new(KnownClient::all().map(value))
}

const EXAMPLES: &str = "\
Examples:
  Connect Cursor to the gateway that `switchboard serve` runs:
    switchboard install --client cursor

  Give Claude Desktop one server of it:
    switchboard install --client claude-desktop --server github

  Show the entry for Codex, to paste it:
    switchboard install --client codex --print

  Take it out again:
    switchboard install --client cursor --remove

If nothing else has changed in the file since, --remove brings back the file as it was.
Afterwards restart the client.";
