//! How to get to a server at a URL, where the usual way will not do.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Options of the network that few need.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "For a server at a URL, in detail")]
pub(crate) struct NetworkArgs {
    /// Send the headers in this file, a "Name: value" a line (repeatable)
    ///
    /// # begins a comment, and ${VAR} is replaced as with --header, which is stronger.
    #[arg(long, conflicts_with_all = ["stdio", "words"], value_name = "FILE")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) header_file: Vec<PathBuf>,
    /// Use no proxy, whatever the environment says
    #[arg(long, conflicts_with_all = ["stdio", "words"])]
    pub(crate) direct: bool,
    /// Use only IPv4 addresses of names
    #[arg(long, conflicts_with_all = ["stdio", "words"])]
    pub(crate) ipv4: bool,
    /// Seconds that connecting may take (default: 10)
    #[arg(long, conflicts_with_all = ["stdio", "words"], value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) connect_timeout: Option<u64>,
}
