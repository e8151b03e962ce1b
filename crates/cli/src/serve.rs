//! Serves on stdio or HTTP, within the limit on open files. A process that is a link of a
//! loop of gateways and bridges refuses everything instead.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use switchboard_net::backend::{Backend, PendingWork};
use switchboard_net::call::Call;
use switchboard_net::connection::ClientConnection;
use switchboard_net::upstream::{Ancestry, VARIABLE};
use switchboard_net::{platform, stdio};
use switchboard_proto::exchange::HeaderParams;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::limits::Limits;
use switchboard_proto::refusal::Refusal;
use tokio::net::TcpListener;

use crate::args::{ServeArgs, WebArgs};
use crate::exit::CommandError;
use crate::signal::Stop;

pub(crate) mod web;

/// What is served.
pub(crate) struct Offer {
    pub(crate) backend: Arc<dyn Backend>,
    /// Whether clients share one server behind it.
    pub(crate) shared: bool,
    pub(crate) limits: Arc<Limits>,
}

impl Offer {
    /// Serves until a signal, or until the client on our stdio is gone.
    pub(crate) async fn serve(
        self,
        args: &ServeArgs,
        port: Option<u16>,
        stop: Stop,
    ) -> Result<(), CommandError> {
        match port {
            Some(port) => self.serve_http(port, args, stop).await,
            None => self.serve_stdio(Duration::from_secs(args.grace), stop).await,
        }
    }

    async fn serve_stdio(self, grace: Duration, stop: Stop) -> Result<(), CommandError> {
        let Self { backend, shared, limits } = self;
        let served = stdio::serve_within(grace, backend, shared, limits, stop.asked());
        served.await.map_err(|error| CommandError::of(&error))
    }

    async fn serve_http(self, port: u16, args: &ServeArgs, stop: Stop) -> Result<(), CommandError> {
        web::serve(vec![(web::Place::Root, self)], port, args, &WebArgs::default(), stop).await
    }
}

async fn bind(host: &str, port: u16) -> Result<(TcpListener, SocketAddr), CommandError> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let listener = match TcpListener::bind((host, port)).await {
        // All addresses of a machine that has no IPv6.
        Err(_) if host == "::" => TcpListener::bind(("0.0.0.0", port)).await,
        bound => bound,
    };
    let listener = listener.map_err(|error| {
        let failure = CommandError::new(format!("cannot listen on {host} port {port}: {error}"));
        match error.kind() {
            io::ErrorKind::AddrInUse => {
                failure.hint("stop the program that uses the port, or pick a free one: --port 0")
            }
            io::ErrorKind::PermissionDenied => {
                failure.hint("ports below 1024 are reserved; use a higher one, or --port 0")
            }
            _ => failure.hint("--host must be an address or a name of this machine"),
        }
    })?;
    let address = listener.local_addr().map_err(|error| CommandError::of(&error))?;
    Ok((listener, address))
}

/// A gateway: another one that reads the same files serves the same.
pub(crate) fn gateway_ancestry(files: &[PathBuf], on_stdio: bool) -> Ancestry {
    let real = |file: &PathBuf| fs::canonicalize(file).unwrap_or_else(|_| file.clone());
    let serves: Vec<_> = files.iter().map(real).collect();
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    let source = if names.is_empty() { "the command line".to_owned() } else { names.join(", ") };
    Ancestry::gateway(serves, &source, ancestry_variable().as_deref()).serving_parent(on_stdio)
}

/// A bridge: another one that is called with the same words does the same.
pub(crate) fn bridge_ancestry(on_stdio: bool) -> Ancestry {
    let serves: (Vec<_>, _) = (std::env::args_os().collect(), std::env::current_dir().ok());
    Ancestry::bridge(serves, ancestry_variable().as_deref()).serving_parent(on_stdio)
}

fn ancestry_variable() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// Refuses whatever the process that started us asks for, and starts nothing.
pub(crate) async fn refuse_loop(
    ancestry: &Ancestry,
    on_stdio: bool,
    stop: Stop,
) -> Result<(), CommandError> {
    let failure = CommandError::new("started by a gateway that serves the same configuration")
        .hint("remove the server that starts this command from that configuration")
        .hint(format!("if that is meant, start it without the variable {VARIABLE}"));
    if !on_stdio {
        return Err(failure);
    }
    tracing::error!("{}", failure.line());
    let limits = Arc::new(Limits::default());
    let looping = Arc::new(RefuseLoop { ids: ancestry.above() });
    let served = stdio::serve_within(Duration::ZERO, looping, false, limits, stop.asked());
    served.await.map_err(|error| CommandError::of(&error))
}

/// Answers everything with the reason why nothing is served.
struct RefuseLoop {
    /// The servers that led to this process.
    ids: Vec<u64>,
}

impl Backend for RefuseLoop {
    fn open(
        &self,
        _: &Arc<ClientConnection>,
        call: &Call,
        _: Message,
        _: HeaderParams,
    ) -> PendingWork {
        let refusal = Refusal::Loop { ids: self.ids.clone() };
        call.finish(refusal);
        PendingWork::none()
    }
}

/// More than the sessions and connections below need. Some programs close every
/// descriptor up to their limit when they start, so it is not raised without end.
const WANTED_OPEN_FILES: u64 = 65_536;

/// Raises the limit. Most systems start a process with 1024 descriptors, which
/// is for programs that cannot count further; a server takes four of ours.
pub(crate) fn raise_open_files() {
    if let Err(error) = platform::raise_open_files_limit(WANTED_OPEN_FILES) {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}

/// Connections of clients; a client with a stream has one for as long as it is
/// there, and must not keep others out.
const CONNECTIONS: usize = 8192;

/// Connections that the descriptors suffice for: each may need one more, to a server.
pub(crate) fn max_connections() -> usize {
    let limit = platform::open_files_limit();
    let half = limit.and_then(|limit| usize::try_from(limit / 2).ok()).unwrap_or(CONNECTIONS);
    half.clamp(16, CONNECTIONS)
}

/// Sessions of clients that share a connection to their server: no process is
/// started for one, and it takes some kilobytes.
pub(crate) const LIGHT_SESSIONS: usize = CONNECTIONS;
