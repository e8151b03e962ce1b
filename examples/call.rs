//! A client: connects to a URL or a command, whatever era and transport it
//! speaks, lists its tools, and calls one.
//!
//! Try it: `cargo run --bin call -- 'npx -y @modelcontextprotocol/server-everything' echo '{"message": "hi"}'`

#![expect(clippy::print_stdout, reason = "a program says what it found")]

use std::error::Error;

use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_net::client::{CallOptions, Client, ClientOptions};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{ServerTarget, Strategy};

/// A URL, or a command line.
fn server(target: &str) -> Result<ServerTarget, Box<dyn Error>> {
    if target.starts_with("http://") || target.starts_with("https://") {
        let fetch = Fetch::new(FetchOptions::default())?;
        return Ok(ServerTarget::url(
            target.parse()?,
            Strategy::default(),
            HeaderMap::new(),
            fetch,
        ));
    }
    Ok(ServerTarget::command(Command::parse(target)?, std::env::vars_os().collect()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(target), Some(tool)) = (args.next(), args.next()) else {
        return Err("usage: call URL|COMMAND TOOL [ARGUMENTS]".into());
    };
    let arguments: Value = serde_json::from_str(args.next().as_deref().unwrap_or("{}"))?;

    // Questions of the server are answered here, in both eras.
    let options = ClientOptions::default().on_elicitation(async |question: Value| {
        println!("asked: {}", question["message"]);
        Ok(json!({"action": "accept", "content": {"name": "Ada"}}))
    });
    let client = Client::connect(server(&target)?, options).await?;
    println!("speaks {}", client.revision());
    for tool in client.tools().await? {
        println!("has {}", tool["name"]);
    }
    let options = CallOptions::default().on_progress(|so_far| println!("at {}", so_far.progress));
    let result = client.call_tool_with(&tool, arguments, options).await?;
    println!("{}", result["content"]);
    client.close().await;
    Ok(())
}
