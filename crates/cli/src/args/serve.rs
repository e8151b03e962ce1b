//! Where and to whom we serve.

use clap::Args;

/// Options for serving over HTTP.
#[derive(Args, Debug)]
#[command(next_help_heading = "Serving over HTTP")]
pub(crate) struct ServeArgs {
    /// Serve over HTTP on this port; 0 picks a free one
    ///
    /// The first line on stdout is the URL of the endpoint.
    #[arg(long, short)]
    pub(crate) port: Option<u16>,
    /// The address to listen on; there is no authentication, so think twice
    #[arg(long, requires = "port", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Also serve requests for this host, NAME or NAME:PORT; * for all (repeatable)
    #[arg(long, requires = "port", value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Also let web pages of this origin in; * for all (repeatable)
    #[arg(long, requires = "port", value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Seconds after which an unused session ends
    #[arg(long, requires = "port", value_name = "SECONDS", default_value = "1800")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) session_timeout: u64,
    /// Seconds between signs of life on a silent stream
    #[arg(long, requires = "port", value_name = "SECONDS", default_value = "15")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) keep_alive: u64,
}
