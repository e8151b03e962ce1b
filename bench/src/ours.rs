//! The echo server as a user of the library writes it.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use switchboard_net::http::listen::{self, ListenOptions};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::server::{Context, Server, Tool, ToolResult};
use tokio::net::TcpListener;

use crate::Failure;
use crate::wire::{CHANGE, TOOL};

/// More sessions and connections than any case of the benchmark opens.
const MANY: usize = 100_000;

static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Serves the echo on a free port of 127.0.0.1, and prints the URL on stderr.
pub async fn serve() -> Result<(), Failure> {
    let text = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
    let echo = Tool::new(TOOL).description("gives back its text").input_schema(&text).run(
        async |mut arguments: Value, _: Context| match arguments["text"].take() {
            Value::String(text) => ToolResult::text(text),
            _ => ToolResult::error("no text"),
        },
    );
    let change = Tool::new(CHANGE).run(async |_: Value, cx: Context| {
        let tool = Tool::new(format!("tool-{}", CHANGES.fetch_add(1, Ordering::Relaxed)));
        match cx.server().add_tool(tool.run(async |_: Value, _: Context| "")) {
            Ok(()) => ToolResult::text("changed"),
            Err(error) => ToolResult::error(error.to_string()),
        }
    });
    let server = Server::builder("echo", "1").tool(echo).tool(change).build()?;
    let site = Site::new(server, SiteOptions::default().max_sessions(MANY));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    eprintln!("listening http://{}/mcp", listener.local_addr()?);
    let options = ListenOptions::default().max_connections(MANY).max_per_address(MANY);
    listen::serve(listener, site, options, std::future::pending()).await;
    Ok(())
}
