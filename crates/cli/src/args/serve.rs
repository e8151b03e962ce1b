//! Where and to whom we serve.

use std::time::Duration;

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
    /// The address to listen on; there is no authentication but --api-key, so think twice
    #[arg(long, requires = "port", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Also serve requests for this host, NAME or NAME:PORT; * for all (repeatable)
    #[arg(long, requires = "port", value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Also let web pages of this origin in; * for all, /REGEX/ for many (repeatable)
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
    /// Seconds that a client may take over sending a request, or the next one
    #[arg(long, requires = "port", value_name = "SECONDS", default_value = "30")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) request_timeout: u64,
    /// Seconds of silence after which a call's connection is ended; 0 for never
    ///
    /// The client comes back for the answer, where its revision has that. For proxies
    /// and load balancers that cut long requests.
    #[arg(long, requires = "port", value_name = "SECONDS", default_value = "0")]
    #[arg(value_parser = seconds)]
    pub(crate) hang_up_after: Duration,
    /// Seconds that calls in flight get at the end
    ///
    /// A moment before they are over, each call that is still open is answered with
    /// an error, and its server is told that nobody waits.
    #[arg(long, value_name = "SECONDS", default_value = "10", help_heading = None)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) grace: u64,
}

/// Seconds, or parts of one.
fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("write a number of seconds, such as 20 or 0.5")
}
