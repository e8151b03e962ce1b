//! What the user said to `doctor`.

use clap::Args;

use super::ReachArgs;

/// Find out what is wrong with a server
///
/// Connects, asks for all that the server has, and says what is wrong in plain
/// words, with the rule of the protocol and what to do. Calls no tool and changes
/// nothing.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct DoctorArgs {
    /// The server's URL or its name in a configuration file, unless a command follows --
    #[arg(value_name = "TARGET")]
    pub(crate) operands: Vec<String>,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

const USAGE: &str = "switchboard doctor [OPTIONS] TARGET
       switchboard doctor [OPTIONS] -- CMD [ARG]...";

const EXAMPLES: &str = "\
Examples:
  switchboard doctor https://example.com/mcp
  switchboard doctor github
  switchboard doctor -- npx -y @modelcontextprotocol/server-everything
  switchboard doctor --json https://example.com/mcp | jq '.findings[].what'

A server that speaks both eras is seen as the newest client sees it; --era legacy looks
at it as the older ones do.
Errors are what clients fail on, warnings what some clients fail on, notes are good to
know. A rule such as STD-2 is a line of docs/wire-rules.txt. Exit status: 0 healthy,
1 with errors, or wrong usage.";
