//! What is served over HTTP beside the usual, and where.

use clap::{Args, ValueEnum};
use switchboard_proto::revision::{Era, Revision};

/// Options for serving over HTTP that few need.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Serving over HTTP, in detail")]
pub(crate) struct WebArgs {
    /// Serve by these transports: http, sse, ws (default: http,sse)
    #[arg(long, requires = "port", value_enum, value_delimiter = ',', value_name = "TRANSPORT")]
    pub(crate) serve: Vec<Transport>,
    /// Where Streamable HTTP is (default: /mcp)
    #[arg(long, requires = "port")]
    pub(crate) path: Option<String>,
    /// Where clients of HTTP+SSE listen (default: /sse)
    #[arg(long, requires = "port", value_name = "PATH")]
    pub(crate) sse_path: Option<String>,
    /// Where they send (default: /message)
    #[arg(long, requires = "port", value_name = "PATH")]
    pub(crate) message_path: Option<String>,
    /// Where a WebSocket can be opened (default: /ws)
    #[arg(long, requires = "port", value_name = "PATH")]
    pub(crate) ws_path: Option<String>,
    /// What clients see before these paths, such as /tools behind a proxy
    #[arg(long, requires = "port", value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Let in only who sends this as X-API-Key or as a bearer token; ${VAR} is replaced
    #[arg(long, requires = "port", value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Answer GET on this path with "ok", or with another word: /ping=pong (repeatable)
    #[arg(long, requires = "port", value_name = "PATH[=WORD]")]
    pub(crate) health: Vec<String>,
    /// Tell what is served, and whether it is used, as JSON on this path
    #[arg(long, requires = "port", value_name = "PATH")]
    pub(crate) status: Option<String>,
    /// Add this header, "Name: value", to every answer (repeatable)
    #[arg(long, requires = "port", value_name = "HEADER")]
    pub(crate) response_header: Vec<String>,
    /// Let allowed web pages also send this header (repeatable)
    #[arg(long, requires = "port", value_name = "NAME")]
    pub(crate) allow_header: Vec<String>,
    /// Let allowed web pages also read this header (repeatable)
    #[arg(long, requires = "port", value_name = "NAME")]
    pub(crate) expose_header: Vec<String>,
    /// No sessions: each request stands alone, in the revision DATE if it names none
    #[arg(long, requires = "port", value_name = "DATE", value_parser = revision)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = LATEST)]
    pub(crate) stateless: Option<Revision>,
    /// Serve only clients that make a handshake
    #[arg(long, requires = "port")]
    pub(crate) legacy_only: bool,
    /// Seconds that a connection may be idle between requests (default: 30)
    #[arg(long, requires = "port", value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) idle_connection: Option<u64>,
    /// End when the pipe to stdin is closed, as whoever started us ends
    #[arg(long, requires = "port")]
    pub(crate) end_with_stdin: bool,
}

/// How clients may talk to us over HTTP.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Transport {
    /// Streamable HTTP
    Http,
    /// HTTP+SSE of the first revision
    Sse,
    /// A WebSocket
    Ws,
}

impl WebArgs {
    /// Whether clients may come by `transport`.
    pub(crate) fn serves(&self, transport: Transport) -> bool {
        match self.serve.as_slice() {
            [] => transport != Transport::Ws,
            listed => listed.contains(&transport),
        }
    }
}

/// A word for the newest revision with a handshake.
const LATEST: &str = "latest";

fn revision(name: &str) -> Result<Revision, String> {
    let is_legacy = |revision: &Revision| revision.era() == Era::Legacy;
    let handshakes = || Revision::ALL.into_iter().filter(is_legacy);
    let found = match name {
        LATEST => handshakes().max(),
        name => Revision::parse(name).filter(is_legacy),
    };
    let known = || handshakes().map(Revision::as_str).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("there are {}", known()))
}
