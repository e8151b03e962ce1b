//! Serving, for every command that does: on stdin and stdout, or over HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use switchboard_net::inside::Inside;
use switchboard_net::stdio;
use switchboard_proto::limits::Limits;
use tokio::net::TcpListener;

use crate::args::{ServeArgs, WebArgs};
use crate::exit::CommandError;
use crate::signal::Stop;

/// What is served.
pub(crate) struct Offer {
    pub(crate) inside: Arc<dyn Inside>,
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
        let Self { inside, shared, limits } = self;
        let served = stdio::serve_within(grace, inside, shared, limits, stop.asked());
        served.await.map_err(|error| CommandError::of(&error))
    }

    async fn serve_http(self, port: u16, args: &ServeArgs, stop: Stop) -> Result<(), CommandError> {
        web::serve(vec![(web::Place::Root, self)], port, args, &WebArgs::default(), stop).await
    }
}

pub(crate) mod web;

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
