//! A client that lets a person answer the server's questions, on the terminal and in both eras.
//!
//! Try it: `cargo run --bin serve_http`, then `cargo run --bin answer http://127.0.0.1:8080/mcp greet`

#![expect(clippy::print_stdout, reason = "a program says what it found")]

use std::error::Error;

use serde_json::{Map, Value, json};
use switchboard_net::client::{Client, Declined};

/// Shows a form, and reads a line for each of its fields.
fn fill_in(form: &Value) -> Result<Value, std::io::Error> {
    println!("{}", form["message"].as_str().unwrap_or_default());
    let mut content = Map::new();
    for field in form["requestedSchema"]["properties"].as_object().into_iter().flatten() {
        println!("{}:", field.0);
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line)? == 0 {
            return Ok(json!({"action": "cancel"}));
        }
        content.insert(field.0.clone(), line.trim().into());
    }
    Ok(json!({"action": "accept", "content": content}))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(tool)) = (args.next(), args.next()) else {
        return Err("usage: answer URL TOOL".into());
    };
    let declined = |error: &dyn Error| Declined(error.to_string());
    let client = Client::builder()
        .on_elicitation(move |form: Value| async move {
            let filled_in = tokio::task::spawn_blocking(move || fill_in(&form)).await;
            filled_in.map_err(|error| declined(&error))?.map_err(|error| declined(&error))
        })
        .connect(url)
        .await?;
    let result = client.call_tool(&tool, json!({})).await?;
    println!("{}", result["content"]);
    client.close().await;
    Ok(())
}
