//! The client library against scripted servers of both eras.

mod agreed;
mod behind;
mod calls;
mod era;
mod kept;
pub(crate) mod listening;
mod lists;
mod rounds;
mod skills;
mod tasks;

use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_net::client::{Client, ClientOptions};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_testkit::caller::LEGACY;
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::script::Journal;

use crate::upstream::fetch;

const MODERN: &str = "2026-07-28";

pub(crate) fn at(server: &HttpServer) -> ServerTarget {
    ServerTarget::url(server.url("/mcp"), Strategy::HttpFirst, HeaderMap::new(), fetch())
}

pub(crate) fn child(journal: &Journal, options: &[&str]) -> ServerTarget {
    ServerTarget::command(journal.server(options), std::env::vars_os().collect())
}

async fn connected(journal: &Journal, options: ClientOptions) -> Client {
    options.connect(child(journal, &[])).await.unwrap()
}

pub(crate) fn discovered() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {"listChanged": true}},
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}},
    })
}

/// A client of a modern endpoint.
pub(crate) async fn modern(server: &mut HttpServer, options: ClientOptions) -> Client {
    let connecting = options.connect(at(server));
    let answering = async { server.post("server/discover").await.result(discovered()).await };
    tokio::join!(connecting, answering).0.unwrap()
}

/// A client of a legacy endpoint, in session `s1`.
async fn legacy(server: &mut HttpServer, options: ClientOptions) -> Client {
    let connecting = options.connect(at(server));
    let answering = async {
        server.post("server/discover").await.answer(404, &[], "no").await;
        server.greet(Some("s1"), LEGACY).await;
    };
    tokio::join!(connecting, answering).0.unwrap()
}
