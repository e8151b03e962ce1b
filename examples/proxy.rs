//! A proxy: any server, whatever its era and transport, as a server on stdin and stdout.
//! Calls, progress, questions, subscriptions and cancels pass, in both directions.
//!
//! Try it: `switchboard tools -- cargo run -q --bin proxy -- https://example.com/mcp`

use std::error::Error;
use std::future::pending;
use std::sync::Arc;

use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::stdio::{self, StdioOptions, child::Command};
use switchboard_net::upstream::IntoTarget as _;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let first = words.next().ok_or("usage: proxy URL|COMMAND...")?;
    let server = if first.starts_with("http") {
        first.into_target()?
    } else {
        Command::new(first).args(words).into_target()?
    };
    let bridge = Bridge::new(server, Children::PerSession, Arc::default());
    let backend = Arc::<Bridge>::clone(&bridge);
    stdio::serve(backend, StdioOptions::default(), pending()).await?;
    bridge.close().await;
    Ok(())
}
