//! `switchboard completion`: scripts for shells.

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionArgs};
use crate::output::write_line;

/// Prints the script of one shell.
pub(crate) fn run(args: &CompletionArgs) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "switchboard", &mut script);
    write_line(&String::from_utf8_lossy(&script));
}
