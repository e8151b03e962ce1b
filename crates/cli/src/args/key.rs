//! What the user said to `key`.

use clap::{Args, Subcommand};

/// Make keys that clients show to a gateway
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Print a new key, and its hash for the configuration file
    New,
    /// Print the hash of a key that is read from stdin
    Hash,
}

const EXAMPLES: &str = "\
Examples:
  A new key. The first line is for the client, the second for the file:
    switchboard key new

  In the file:
    \"switchboard\": { \"keys\": { \"ada\": { \"hash\": \"sha256:...\", \"servers\": [\"*\"] } } }

  The hash of a key that somebody has:
    switchboard key hash < key.txt

Clients send a key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'. The file has only
the hash, so that whoever reads the file cannot use it.";
