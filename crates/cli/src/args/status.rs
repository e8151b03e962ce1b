//! What the user said to `status`.

use clap::{Args, ValueHint};

/// Show how the servers and sessions of a running gateway stand.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Where the gateway is
    #[arg(value_hint = ValueHint::Url, default_value = "http://127.0.0.1:3001")]
    pub(crate) url: String,
    /// The key to show, if it wants one; ${VAR} is replaced (default: SWITCHBOARD_KEY)
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Print what the gateway says as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Go on showing it, every so many seconds; with --json a line each time
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) watch: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  switchboard status
  switchboard status --watch
  switchboard status http://127.0.0.1:8080 --key '${KEY}'
  switchboard status --json | jq '.servers | map_values(.state)'

Exit status: 0 shown, 1 wrong usage or no gateway there, 3 the key is missing or wrong,
4 it cannot be reached.";
