//! A server over HTTP, for clients of every revision: one tool that asks the
//! person at the other end, one that changes what the server offers.
//!
//! It listens at `http://127.0.0.1:8080/mcp`, and at `/sse` for clients of the first revision;
//! another address may be given as its argument.
//!
//! Try it: `cargo run --bin serve_http`, then `switchboard call http://127.0.0.1:8080/mcp greet`

#![expect(clippy::print_stdout, reason = "a program says where it is")]

use std::error::Error;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use switchboard_net::http::listen::ListenOptions;
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::server::{self, Context, Elicited, Server, Tool, ToolOutcome};
use tokio::net::TcpListener;

#[derive(Deserialize, JsonSchema)]
struct Learn {
    /// The name of the tool to make.
    name: String,
    /// What it is to say.
    says: String,
}

fn server() -> Result<Arc<Server>, Box<dyn Error>> {
    let greet = Tool::new("greet").description("Greets you").run(async |_: Value, cx: Context| {
        let form = json!({
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        });
        let answer = cx.elicit("What is your name?", form).await?;
        Ok::<_, server::Error>(match answer {
            Elicited::Accept(answer) => ToolOutcome::success(format!(
                "Hello, {}!",
                answer["name"].as_str().unwrap_or("you")
            )),
            Elicited::Decline | Elicited::Cancel => {
                ToolOutcome::failure("E_NO_NAME", "you have no name")
            }
        })
    });
    let learn = Tool::new("learn")
        .description("Adds a tool; clients hear of it")
        .input::<Learn>()
        .run(async |args: Learn, cx: Context| {
            let says = args.says;
            let tool = Tool::new(args.name).run(move |_: Value, _| {
                let says = says.clone();
                async move { says }
            });
            match cx.server().add_tool(tool) {
                Ok(()) => ToolOutcome::success("learned"),
                Err(flaw) => ToolOutcome::failure("E_NOT_LEARNED", flaw.to_string()),
            }
        });
    Ok(Server::builder("learner", env!("CARGO_PKG_VERSION")).tool(greet).tool(learn).build()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = server()?;
    let site = Site::new(Arc::clone(&server) as _, SiteOptions::default());
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    // Clients that listen are told that it is over; calls have ten seconds to finish.
    let shutdown = async move {
        _ = tokio::signal::ctrl_c().await;
        server.close();
    };
    site.serve(listener, ListenOptions::default(), shutdown).await;
    Ok(())
}
