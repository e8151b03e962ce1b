//! Questions of a server, put to the person at the terminal.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use serde_json::{Map, Value, json};
use switchboard_net::client::{ClientOptions, Declined};

use crate::output::{cell, plain};

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

/// A line for each member of a form.
fn form(params: &Value) -> io::Result<Value> {
    let message = params["message"].as_str().unwrap_or_default();
    say(&format!(
        "\nThe server asks: {message}\nAn empty line leaves a value out, Ctrl-D declines.\n"
    ))?;
    let mut content = Map::new();
    let members = params["requestedSchema"]["properties"].as_object();
    for (name, schema) in members.into_iter().flatten() {
        say(&format!("{name}{}: ", hint(schema)))?;
        match line()? {
            None => return Ok(json!({"action": "decline"})),
            Some(text) if text.is_empty() => {
                if let Some(default) = schema.get("default") {
                    content.insert(name.clone(), default.clone());
                }
            }
            Some(text) => _ = content.insert(name.clone(), typed(&text, schema)),
        }
    }
    Ok(json!({"action": "accept", "content": content}))
}

fn hint(schema: &Value) -> String {
    let choices = schema["enum"].as_array().into_iter().flatten().map(cell);
    let choices = choices.collect::<Vec<_>>().join(" | ");
    let description = cell(&schema["description"]);
    let default = schema.get("default").map(|value| format!("default {value}"));
    let parts = [description, choices, default.unwrap_or_default()];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

/// The value that a line stands for, by the type that is wanted.
fn typed(text: &str, schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("boolean") => matches!(text, "y" | "yes" | "true" | "1").into(),
        Some("integer" | "number") => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        Some("array") => text.split(',').map(str::trim).collect(),
        _ => text.into(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_what_the_form_wants() {
        let typed = |text, kind| typed(text, &json!({"type": kind}));
        assert_eq!(typed("7", "integer"), json!(7));
        assert_eq!(typed("7", "string"), json!("7"));
        assert_eq!(typed("yes", "boolean"), json!(true));
        assert_eq!(typed("a, b", "array"), json!(["a", "b"]));
        let schema = json!({"description": "d", "enum": ["a", "b"], "default": "a"});
        assert_eq!(hint(&schema), " (d; a | b; default \"a\")");
    }
}
