//! What the user said to `serve`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Put many servers behind one address.
///
/// All servers together are at /mcp, their tools and prompts with the server's name
/// in front: files__read. Each alone, as it is, is at /servers/NAME/mcp, and each
/// group of the configuration at /groups/NAME/mcp; /sse is beside each. Without a
/// configuration the built-in server is served.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct GatewayArgs {
    /// A file that names the servers, as clients have it (repeatable)
    ///
    /// JSON, with comments or without, or TOML: with mcpServers, servers or
    /// [mcp_servers.NAME]. Of two servers with one name the first counts.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Vec<PathBuf>,
    /// Tell what is wrong with the configuration, and serve nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// Serve the client that started us, on stdin and stdout, instead of HTTP
    #[arg(long, conflicts_with_all = ["host", "port"])]
    pub(crate) stdio: bool,
    /// The port to listen on; 0 picks a free one (default: what the file says, else 3001)
    ///
    /// The first line on stdout is the URL of all servers together.
    #[arg(long, short)]
    pub(crate) port: Option<u16>,
    /// The address to listen on (default: what the file says, else 127.0.0.1)
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Let in only who sends this as X-API-Key or as a bearer token, 16 characters or more;
    /// ${VAR} is replaced
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Listen on an address that other machines reach although anybody may come in
    #[arg(long)]
    pub(crate) allow_unauthenticated: bool,
    /// Also serve requests for this host, NAME or NAME:PORT; * for all (repeatable)
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Also let web pages of this origin in; * for all, /REGEX/ for many (repeatable)
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Seconds after which an unused session ends
    #[arg(long, value_name = "SECONDS", default_value = "1800")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) session_timeout: u64,
    /// Seconds that calls in flight get at the end
    ///
    /// A moment before they are over, each call that is still open is answered with
    /// an error, and its server is told that nobody waits.
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) grace: u64,
    /// Keep the servers' lists for the next start in this folder (default: in the user's cache)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Keep no lists on disk
    #[arg(long, conflicts_with = "cache_dir")]
    pub(crate) no_cache: bool,
    /// Seconds between attempts to reach a server that has failed, for tests
    #[arg(long, value_name = "SECONDS", hide = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) probe_every: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  See it work, with the built-in server:
    switchboard serve
    switchboard call http://127.0.0.1:3001/mcp demo__add a:=1 b:=2

  Every server of a file that a client has:
    switchboard serve --config ~/.cursor/mcp.json

  The same for a client that starts commands:
    { \"mcpServers\": { \"all\": { \"command\": \"switchboard\",
        \"args\": [\"serve\", \"--stdio\", \"--config\", \"servers.json\"] } } }

  Look whether a file is right:
    switchboard serve --check --config servers.json";
