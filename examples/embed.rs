//! MCP inside a web application of your own: an axum router with a page, and
//! beside it a server that shares the application's state.
//!
//! Try it: `cargo run --bin embed`, then `switchboard call http://127.0.0.1:8080/mcp visit` and
//! `curl http://127.0.0.1:8080/visits`

#![expect(clippy::print_stdout, reason = "a program says where it is")]

use std::error::Error;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::get;
use serde_json::Value;
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::server::{BuildError, Server, Tool};
use tokio::net::TcpListener;

fn server(visits: Arc<AtomicUsize>) -> Result<Arc<Server>, BuildError> {
    let visit = Tool::new("visit").description("Counts you").run(move |_: Value, _| {
        let before = visits.fetch_add(1, Ordering::Relaxed);
        ready(format!("You are visitor {}", before + 1))
    });
    Server::builder("visitors", env!("CARGO_PKG_VERSION")).tool(visit).build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let visits = Arc::new(AtomicUsize::new(0));
    let site = Site::new(server(Arc::clone(&visits))?, SiteOptions::default());
    let page = move || ready(format!("{} so far", visits.load(Ordering::Relaxed)));
    let router = Router::new().route("/visits", get(page)).route_service("/mcp", site);

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
