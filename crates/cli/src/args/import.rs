//! What the user said to `import`.

use std::path::PathBuf;

use clap::Args;

use super::Form;

/// Gather the servers of other clients into one file
///
/// Looks into the files of Claude, Cursor, VS Code, Codex and others, and shows what
/// it found. With --write it adds to a file what is not there yet, and changes nothing
/// else in it. Variables such as ${TOKEN} stay variables.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
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

const EXAMPLES: &str = "\
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
