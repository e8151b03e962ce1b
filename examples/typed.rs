//! Types all the way: a client that calls a server in the same program. The server asks the
//! person and the model at the client; both ends say everything with types.
//!
//! Try it: `cargo run --bin typed`

#![expect(clippy::print_stdout, reason = "a program says what it found")]

use std::error::Error;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchboard_net::client::Client;
use switchboard_net::http::listen::ListenOptions;
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::server::{self, BuildError, Context, Elicited, Server, Tool, ToolResult};
use switchboard_net::types::{ElicitResult, Role, SampleParams, SampleResult, SamplingMessage};
use tokio::net::TcpListener;

/// The form that the server shows. Its comments are what the person reads.
#[derive(Deserialize, JsonSchema)]
struct Trip {
    /// Where do you want to go?
    city: String,
    /// How do you want to travel?
    by: Option<Vehicle>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum Vehicle {
    #[default]
    Train,
    Bus,
}

/// What the tool answers with, on both sides.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
struct Booking {
    by: Vehicle,
    advice: String,
}

async fn book(cx: Context) -> Result<ToolResult, server::Error> {
    let trip = match cx.typed().elicit::<Trip>("Your trip, please").await? {
        Elicited::Accept(trip) => trip,
        Elicited::Decline | Elicited::Cancel => return Ok(ToolResult::error("no trip")),
    };
    let question = SamplingMessage::user(format!("What is worth seeing in {}?", trip.city));
    let answer = cx.typed().sample(SampleParams::new([question], 100)).await?;
    let by = trip.by.unwrap_or_default();
    Ok(ToolResult::structured(Booking { by, advice: answer.content.text() }))
}

fn server() -> Result<Arc<Server>, BuildError> {
    let book = Tool::new("book")
        .description("Books a trip")
        .output::<Booking>()
        .run(async |_: Value, cx: Context| book(cx).await);
    Server::builder("trips", env!("CARGO_PKG_VERSION")).tool(book).build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let site = Site::new(server()?, SiteOptions::default());
    tokio::spawn(site.serve(listener, ListenOptions::default(), std::future::pending()));

    let client = Client::builder()
        .answer_elicitation(async |form| {
            println!("asked: {}", form.message);
            for (name, field) in &form.requested_schema.properties {
                let options = field.options();
                let options: Vec<_> = options.iter().map(|option| &*option.title).collect();
                println!("  {name} {}", options.join(" or "));
            }
            Ok(ElicitResult::accept(json!({"city": "Oslo", "by": "bus"}))?)
        })
        .answer_sampling(async |request| {
            println!("a model is asked: {}", request.messages[0].content.text());
            Ok(SampleResult::new(Role::Assistant, "The fjord.", "a-model"))
        })
        .connect(url)
        .await?;
    for tool in client.typed().tools().await? {
        println!("has {}: {}", tool.name, tool.description.unwrap_or_default());
    }
    let booking: Booking = client.call_tool_as("book", json!({})).await?;
    println!("{booking:?}");
    client.close().await;
    Ok(())
}
