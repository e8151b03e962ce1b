//! What the user said to `config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Look at configuration files
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What to do with them.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say what is wrong with files, where, and what to write instead
    Check {
        /// The files; the first counts most
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Print a JSON schema of them, for editors
    Schema,
}

const EXAMPLES: &str = "\
Examples:
  switchboard config check switchboard.json
  switchboard config schema > config.schema.json

In an editor, a first line { \"$schema\": \"./config.schema.json\", ... } checks the file as
you type. Exit status of check: 0 without mistakes, 1 with mistakes.";
