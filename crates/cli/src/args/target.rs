//! How to reach a server.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use switchboard_net::upstream::Strategy;

use super::NetworkArgs;

/// Options for a server at a URL.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "For a server at a URL")]
pub(crate) struct RemoteArgs {
    /// Send this header, "Name: value", with ${VAR} from the environment (repeatable)
    ///
    /// ${VAR}, ${VAR:-default} and ${env:VAR} are replaced in the value, so that a
    /// token need not be written down. Quote it with '…' to keep the shell out of it.
    #[arg(long, short = 'H', conflicts_with_all = ["stdio", "words"], value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Which transport to try: http-first, sse-first, http-only or sse-only [default: http-first]
    #[arg(long, conflicts_with_all = ["stdio", "words"], value_name = "STRATEGY")]
    #[arg(value_parser = Strategy::from_str)]
    pub(crate) transport: Option<Strategy>,
    /// Trust the certificates in this PEM file beside the system's
    #[arg(long, conflicts_with_all = ["stdio", "words"], value_name = "PEM")]
    pub(crate) ca_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
}

/// Options for a server that is a command.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "For a server that is a command")]
pub(crate) struct CommandArgs {
    /// Set a variable for it (repeatable)
    #[arg(long, short, conflicts_with = "url", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<Assignment>,
    /// Run it in this directory
    #[arg(long, conflicts_with = "url", value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Give it our whole environment, not only PATH, HOME and the like
    #[arg(long, conflicts_with = "url")]
    pub(crate) pass_environment: bool,
}

/// `NAME=VALUE`; the value is not shown.
#[derive(Clone)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for Assignment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
                Ok(Self { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err("write NAME=VALUE"),
        }
    }
}

impl std::fmt::Debug for Assignment {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}=…", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_in_debug_output_keeps_its_value_to_itself() {
        let assignment: Assignment = "TOKEN=secret".parse().unwrap();
        assert_eq!(format!("{assignment:?}"), "TOKEN=…");
        assert!("secret".parse::<Assignment>().is_err());
        assert!("=secret".parse::<Assignment>().is_err());
    }
}
