//! Serving, for every command that does: on stdin and stdout, or over HTTP.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use switchboard_net::http::guard::Guard;
use switchboard_net::http::listen::{self, ListenOptions};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::inside::Inside;
use switchboard_net::stdio;
use switchboard_proto::limits::Limits;
use tokio::net::TcpListener;

use crate::args::ServeArgs;
use crate::exit::Failure;
use crate::limit;
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
    ) -> Result<(), Failure> {
        match port {
            Some(port) => self.serve_http(port, args, stop).await,
            None => self.serve_stdio(stop).await,
        }
    }

    async fn serve_stdio(self, stop: Stop) -> Result<(), Failure> {
        let served = stdio::serve(self.inside, self.shared, self.limits, stop.asked());
        served.await.map_err(|error| Failure::of(&error))
    }

    async fn serve_http(self, port: u16, args: &ServeArgs, stop: Stop) -> Result<(), Failure> {
        limit::raise();
        let (listener, address) = bind(&args.host, port).await?;
        if !address.ip().is_loopback() {
            tracing::warn!(
                "{address} can be reached from other machines, and there is no authentication"
            );
        }
        let options = SiteOptions {
            guard: guard(address, args),
            limits: self.limits,
            keep_alive: Duration::from_secs(args.keep_alive),
            hang_up: args.hang_up_after,
            body_pause: Duration::from_secs(args.request_timeout),
            session_idle: Duration::from_secs(args.session_timeout),
            shared: self.shared,
            ..SiteOptions::default()
        };
        let site = Site::new(self.inside, options);
        announce(address);
        let head_timeout = Duration::from_secs(args.request_timeout);
        let options = ListenOptions { head_timeout, ..ListenOptions::default() };
        let closing = close_in_time(site.clone(), options.grace, stop.clone());
        tokio::join!(listen::serve(listener, site, options, stop.asked()), closing);
        Ok(())
    }
}

/// Ends the sessions, and with them open streams, before the listener cuts them.
async fn close_in_time(site: Site, grace: Duration, stop: Stop) {
    stop.asked().await;
    // The streams need a moment to say that they end.
    let patience = grace.saturating_sub(Duration::from_secs(1));
    _ = tokio::time::timeout(patience, site.all_answered()).await;
    site.close();
}

async fn bind(host: &str, port: u16) -> Result<(TcpListener, SocketAddr), Failure> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let listener = TcpListener::bind((host, port)).await.map_err(|error| {
        let failure = Failure::new(format!("cannot listen on {host} port {port}: {error}"));
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
    let address = listener.local_addr().map_err(|error| Failure::of(&error))?;
    Ok((listener, address))
}

fn guard(address: SocketAddr, args: &ServeArgs) -> Guard {
    let guard = Guard::bound_to(address);
    let guard = args.allow_host.iter().fold(guard, |guard, host| guard.allow_host(host));
    args.allow_origin.iter().fold(guard, |guard, origin| guard.allow_origin(origin))
}

/// The one line on stdout, for whoever started us with port 0.
fn announce(address: SocketAddr) {
    let mut stdout = io::stdout().lock();
    let told = writeln!(stdout, "http://{address}/mcp").and_then(|()| stdout.flush());
    if let Err(error) = told {
        // The server is of use all the same.
        tracing::debug!(%error, "nobody reads stdout");
    }
    tracing::info!("serving http://{address}/mcp and http://{address}/sse");
}
