//! Questions of a server, put to the person at the terminal.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use serde_json::{Map, Value, json};
use switchboard_net::client::{ClientOptions, Declined};

use crate::output::plain;
use field::Field;

mod field;

/// With somebody there to ask, forms and URLs are asked about; else the server
/// is told that nobody is.
pub(super) fn answering(options: ClientOptions) -> ClientOptions {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return options;
    }
    options
        .on_elicitation(|params| ask(move || form(&params)))
        .on_url_elicitation(|params| ask(move || url(&params)))
}

/// Asks where waiting for a person holds up nothing else.
async fn ask(
    question: impl FnOnce() -> io::Result<Value> + Send + 'static,
) -> Result<Value, Declined> {
    let asked = tokio::task::spawn_blocking(question).await;
    let answer = asked.map_err(|error| Declined(error.to_string()))?;
    answer.map_err(|error| Declined(error.to_string()))
}

fn say(text: &str) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{}", plain(text))?;
    stderr.flush()
}

/// A line without its end; none if there is no more.
fn line() -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}

/// A line for each member of a form, until it is one that fits.
fn form(params: &Value) -> io::Result<Value> {
    let message = params["message"].as_str().unwrap_or_default();
    say(&format!(
        "\nThe server asks: {message}\nAn empty line leaves a value out, Ctrl-D declines.\n"
    ))?;
    let schema = &params["requestedSchema"];
    let required = schema["required"].as_array().into_iter().flatten();
    let required: Vec<_> = required.filter_map(Value::as_str).collect();
    let mut content = Map::new();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let field = Field { schema, is_required: required.contains(&name.as_str()) };
        loop {
            say(&format!("{name}{}: ", field.hint()))?;
            let Some(text) = line()? else { return Ok(json!({"action": "decline"})) };
            match field.read(&text) {
                Ok(value) => {
                    content.extend(value.map(|value| (name.clone(), value)));
                    break;
                }
                Err(why) => say(&format!("{why}\n"))?,
            }
        }
    }
    Ok(json!({"action": "accept", "content": content}))
}

/// wire: MRTR-13
fn url(params: &Value) -> io::Result<Value> {
    let message = params["message"].as_str().unwrap_or_default();
    let url = params["url"].as_str().unwrap_or_default();
    say(&format!("\nThe server asks: {message}\nIt wants you to open: {url}\nOpened it? [y/N] "))?;
    Ok(match line()?.as_deref() {
        Some("y" | "yes") => json!({"action": "accept"}),
        Some(_) => json!({"action": "decline"}),
        None => json!({"action": "cancel"}),
    })
}
