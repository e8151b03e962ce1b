//! What the user said to `demo`.

use clap::{Args, ValueEnum};
use switchboard_proto::revision::Revision;

use super::ServeArgs;

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
