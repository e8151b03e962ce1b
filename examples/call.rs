//! A client: connects to a URL or a command, whatever era and transport it
//! speaks, lists its tools, and calls one.
//!
//! Try it: `cargo run --bin call -- 'npx -y @modelcontextprotocol/server-everything' echo '{"message": "hi"}'`

#![expect(clippy::print_stdout, reason = "a program says what it found")]

use std::error::Error;

use serde_json::Value;
use switchboard_net::client::{CallOptions, Client};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(target), Some(tool)) = (args.next(), args.next()) else {
        return Err("usage: call URL|COMMAND TOOL [ARGUMENTS]".into());
    };
    let arguments: Value = serde_json::from_str(args.next().as_deref().unwrap_or("{}"))?;

    let client = if target.starts_with("http") {
        Client::connect(target).await?
    } else {
        Client::spawn(target).await?
    };
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
