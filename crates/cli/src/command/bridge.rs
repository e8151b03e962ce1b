//! `switchboard bridge`: one server, served on another transport.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use switchboard_net::bridge::Bridge;
use switchboard_net::http::guard::Guard;
use switchboard_net::http::listen::{self, ListenOptions};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::stdio;
use switchboard_net::upstream::Server;
use switchboard_proto::limits::Limits;
use tokio::net::TcpListener;

use crate::args::{BridgeArgs, ServeArgs};
use crate::exit::Failure;
use crate::signal::Stop;
use crate::target;

/// Serves until a signal, or until the client on our stdio is gone.
pub(crate) async fn run(args: &BridgeArgs) -> Result<(), Failure> {
    let server = server(args)?;
    let limits = Arc::new(limits(args));
    let stop = Stop::on_signals().map_err(|error| Failure::of(&error))?;
    tracing::info!(server = server.name(), "bridge to the server is ready");
    let bridge = Bridge::new(server, args.children, Arc::clone(&limits));
    let ended = match args.serve.port {
        Some(port) => serve_http(&bridge, port, &args.serve, limits, stop).await,
        None => serve_stdio(&bridge, limits, stop).await,
    };
    bridge.close().await;
    ended
}

/// The server, after checking what can be checked before somebody calls it.
fn server(args: &BridgeArgs) -> Result<Server, Failure> {
    match &args.url {
        Some(url) => target::remote(url, &args.remote),
        None => target::local(args.stdio.as_deref(), &args.words, &args.local),
    }
}

fn limits(args: &BridgeArgs) -> Limits {
    let defaults = Limits::default();
    let message = usize::try_from(args.max_message).unwrap_or(usize::MAX);
    Limits {
        message,
        quiet: Duration::from_secs(args.timeout),
        // A client must be able to have one message on the way while it reads another.
        backlog: defaults.backlog.max(message.saturating_mul(2)),
        ..defaults
    }
}

async fn serve_stdio(bridge: &Arc<Bridge>, limits: Arc<Limits>, stop: Stop) -> Result<(), Failure> {
    let served = stdio::serve(Arc::clone(bridge) as _, bridge.is_shared(), limits, stop.asked());
    served.await.map_err(|error| Failure::of(&error))
}

async fn serve_http(
    bridge: &Arc<Bridge>,
    port: u16,
    args: &ServeArgs,
    limits: Arc<Limits>,
    stop: Stop,
) -> Result<(), Failure> {
    let (listener, address) = bind(&args.host, port).await?;
    if !address.ip().is_loopback() {
        tracing::warn!(
            "{address} can be reached from other machines, and there is no authentication"
        );
    }
    let site = Site::new(
        Arc::clone(bridge) as _,
        SiteOptions {
            guard: guard(address, args),
            limits,
            keep_alive: Duration::from_secs(args.keep_alive),
            session_idle: Duration::from_secs(args.session_timeout),
            shared: bridge.is_shared(),
            ..SiteOptions::default()
        },
    );
    announce(address);
    let options = ListenOptions::default();
    let closing = close_in_time(site.clone(), options.grace, stop.clone());
    tokio::join!(listen::serve(listener, site, options, stop.asked()), closing);
    Ok(())
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn patience_and_the_size_of_messages_are_the_users_to_set() {
        let limits = |line: &str| {
            let command = Cli::try_parse_from(line.split(' ')).unwrap().command;
            let Command::Bridge(args) = command else { panic!("{line}") };
            limits(&args)
        };
        let given = limits("switchboard bridge --timeout 7 --max-message 50000000 -- true");
        assert_eq!((given.quiet, given.message), (Duration::from_secs(7), 50_000_000));
        assert_eq!(given.backlog, 100_000_000, "room for two");
        let (plain, defaults) = (limits("switchboard bridge -- true"), Limits::default());
        assert_eq!((plain.quiet, plain.message), (defaults.quiet, defaults.message));
        assert_eq!(plain.backlog, defaults.backlog);
    }
}
