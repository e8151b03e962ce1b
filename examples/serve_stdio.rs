//! A server with a typed tool, a prompt and a resource, on stdin and stdout.
//!
//! Try it: `switchboard call count text='two words' what=words -- cargo run -q --bin serve_stdio`

use std::error::Error;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use switchboard_net::server::{
    Context, Prompt, PromptArguments, PromptResult, Resource, Server, Tool, ToolResult,
};

/// What the tool takes. The comments end up in its schema.
#[derive(Deserialize, JsonSchema)]
struct Count {
    /// Where to count.
    text: String,
    /// What to count; letters if left out.
    what: Option<What>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum What {
    Letters,
    Words,
    Lines,
}

/// What the tool gives.
#[derive(JsonSchema, Serialize)]
struct Counted {
    count: usize,
}

fn server() -> Result<Arc<Server>, Box<dyn Error>> {
    let count = Tool::new("count")
        .description("Counts letters, words or lines")
        .input::<Count>()
        .output::<Counted>()
        .run(async |args: Count, cx: Context| {
            cx.progress(0.0, Some(1.0), Some("counting"));
            let count = match args.what.unwrap_or(What::Letters) {
                What::Letters => args.text.chars().filter(|c| c.is_alphabetic()).count(),
                What::Words => args.text.split_whitespace().count(),
                What::Lines => args.text.lines().count(),
            };
            ToolResult::structured(Counted { count })
        });
    let shorten = Prompt::new("shorten")
        .description("Asks for a shorter version of a text")
        .argument("text", "the text")
        .run(async |arguments: PromptArguments, _| {
            Ok(PromptResult::new().user(format!("Say it in half the words: {}", arguments["text"])))
        });
    let server = Server::builder("counter", env!("CARGO_PKG_VERSION"))
        .instructions("Counts things in texts.")
        .tool(count)
        .prompt(shorten)
        .resource(Resource::text("counter://about", "about", "text/plain", "It counts."))
        .build()?;
    Ok(server)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(server()?.serve_stdio().await?)
}
