//! The roads to a server, each with a client on a pipe in front of it.

mod child;
mod crash;
mod errors;
mod headers;
mod listening;
mod loops;
mod modern;
pub(crate) mod old;
mod posts;
mod session;
mod shown;
mod strategy;

use std::sync::Arc;

use http::HeaderMap;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;
use switchboard_testkit::caller::{Caller, LEGACY};
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::script::Journal;

pub(crate) use modern::enveloped;

pub(crate) fn fetch() -> Fetch {
    Fetch::new(FetchOptions::default()).unwrap()
}

pub(crate) fn journal() -> Journal {
    Journal::new(&std::env::temp_dir())
}

pub(crate) fn child_bridge(command: Command, children: Children) -> Arc<Bridge> {
    let server = ServerTarget::command(command, std::env::vars_os().collect());
    Bridge::new(server, children, Arc::new(Limits::default()))
}

/// The same for a child that is known to be modern.
pub(crate) fn modern_bridge(command: Command, children: Children) -> Arc<Bridge> {
    let server =
        ServerTarget::command(command, std::env::vars_os().collect()).speaking(Era::Modern);
    Bridge::new(server, children, Arc::new(Limits::default()))
}

/// A client of one child of its own.
pub(crate) fn before_child(command: Command) -> (Arc<Bridge>, Caller) {
    let bridge = child_bridge(command, Children::PerSession);
    (Arc::clone(&bridge), caller(&bridge))
}

pub(crate) fn caller(bridge: &Arc<Bridge>) -> Caller {
    let backend = Arc::clone(bridge);
    Caller::new(backend, bridge.sharing(), Arc::new(Limits::default()))
}

/// A client of `server`, and the bridge between them.
pub(crate) fn before(server: &HttpServer, strategy: Strategy) -> (Arc<Bridge>, Caller) {
    before_with(server, strategy, HeaderMap::new())
}

fn before_with(
    server: &HttpServer,
    strategy: Strategy,
    headers: HeaderMap,
) -> (Arc<Bridge>, Caller) {
    let server = ServerTarget::url(server.url("/mcp"), strategy, headers, fetch());
    let bridge = Bridge::new(server, Children::PerSession, Arc::new(Limits::default()));
    (Arc::clone(&bridge), caller(&bridge))
}

/// The same where the server is known to be modern.
fn before_modern(server: &HttpServer, strategy: Strategy) -> (Arc<Bridge>, Caller) {
    let server = ServerTarget::url(server.url("/mcp"), strategy, HeaderMap::new(), fetch());
    let server = server.speaking(Era::Modern);
    let bridge = Bridge::new(server, Children::PerSession, Arc::new(Limits::default()));
    (Arc::clone(&bridge), caller(&bridge))
}

/// The same after the handshake, in session `s1`; the server offers no listening.
async fn greeted(server: &mut HttpServer) -> (Arc<Bridge>, Caller) {
    let (bridge, mut caller) = before(server, Strategy::HttpOnly);
    tokio::join!(caller.greet(), server.greet(Some("s1"), LEGACY));
    (bridge, caller)
}
