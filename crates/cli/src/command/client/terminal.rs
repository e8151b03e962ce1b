//! Asks the person at the terminal what a server wants to know: a form, or a page to open.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use serde_json::{Map, Value, json};
use switchboard_net::client::{ClientOptions, Declined};

use crate::output::{cell, plain};
use crate::progress::PausedProgress;

/// At a terminal the client answers forms and URLs of the server by asking the person.
/// Elsewhere it declares no such capability.
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
    let paused = PausedProgress::begin();
    let asked = tokio::task::spawn_blocking(question).await;
    drop(paused);
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

/// A member, by its schema.
struct Field<'a> {
    schema: &'a Value,
    is_required: bool,
}

/// One of the values that a member may have, with its name for people.
type Choice<'a> = (&'a str, Option<&'a str>);

impl Field<'_> {
    /// What a person should know before writing something.
    fn hint(&self) -> String {
        let choices = self.choices().into_iter().map(|(value, title)| match title {
            Some(title) => cell(&format!("{value} = {title}").into()),
            None => cell(&value.into()),
        });
        let choices = choices.collect::<Vec<_>>().join(" | ");
        let description = cell(&self.schema["description"]);
        let default = self.schema.get("default").map(|value| format!("default {value}"));
        let several = if self.is_list() { "several with commas between" } else { "" };
        let parts = [description, choices, several.to_owned(), default.unwrap_or_default()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
    }

    /// The value that a line stands for; nothing if it is left out.
    fn read(&self, text: &str) -> Result<Option<Value>, String> {
        if !text.is_empty() {
            return self.typed(text).map(Some);
        }
        match self.schema.get("default") {
            None if self.is_required => Err("this cannot be left out".to_owned()),
            default => Ok(default.cloned()),
        }
    }

    fn typed(&self, text: &str) -> Result<Value, String> {
        match self.schema["type"].as_str() {
            Some("boolean") => match text.to_lowercase().as_str() {
                "y" | "yes" | "true" | "1" => Ok(true.into()),
                "n" | "no" | "false" | "0" => Ok(false.into()),
                _ => Err("write yes or no".to_owned()),
            },
            Some(kind @ ("integer" | "number")) => self.number(text, kind == "integer"),
            Some("array") => text.split(',').map(|part| self.chosen(part.trim())).collect(),
            _ => self.chosen(text),
        }
    }

    fn number(&self, text: &str, is_whole: bool) -> Result<Value, String> {
        let value = serde_json::from_str(text).ok().filter(|value: &Value| {
            if is_whole { value.is_i64() || value.is_u64() } else { value.is_number() }
        });
        let value =
            value.ok_or(if is_whole { "write a whole number" } else { "write a number" })?;
        let number = value.as_f64().unwrap_or_default();
        match (self.schema["minimum"].as_f64(), self.schema["maximum"].as_f64()) {
            (Some(least), _) if number < least => Err(format!("write {least} or more")),
            (_, Some(most)) if number > most => Err(format!("write {most} or less")),
            _ => Ok(value),
        }
    }

    /// A text, which is one of the choices if there are any.
    fn chosen(&self, text: &str) -> Result<Value, String> {
        let choices = self.choices();
        let fits = |(value, title): &&Choice<'_>| *value == text || *title == Some(text);
        match choices.iter().find(fits) {
            Some((value, _)) => Ok((*value).into()),
            None if choices.is_empty() => Ok(text.into()),
            None => Err(format!("{text:?} is no choice")),
        }
    }

    fn is_list(&self) -> bool {
        self.schema["type"] == "array"
    }

    /// In every form that a revision has for them (MRTR-14).
    fn choices(&self) -> Vec<Choice<'_>> {
        let one = if self.is_list() { &self.schema["items"] } else { self.schema };
        let titled = ["oneOf", "anyOf"].into_iter().filter_map(|name| one[name].as_array());
        let titled = titled
            .flatten()
            .filter_map(|choice| Some((choice["const"].as_str()?, choice["title"].as_str())));
        let names = |at: usize| one["enumNames"][at].as_str();
        let plain = one["enum"].as_array().into_iter().flatten().enumerate();
        let plain = plain.filter_map(|(at, value)| Some((value.as_str()?, names(at))));
        titled.chain(plain).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str, schema: &Value) -> Option<Value> {
        Field { schema, is_required: true }.read(text).ok().flatten()
    }

    #[test]
    fn a_line_becomes_what_the_form_wants() {
        let read = |text, kind| read(text, &json!({"type": kind}));
        assert_eq!(read("7", "integer"), Some(json!(7)));
        assert_eq!(read("7", "string"), Some(json!("7")));
        assert_eq!(read("7.5", "number"), Some(json!(7.5)));
        assert_eq!(read("Yes", "boolean"), Some(json!(true)));
        assert_eq!(read("no", "boolean"), Some(json!(false)));
        assert_eq!(read("a, b", "array"), Some(json!(["a", "b"])));
        for (text, kind) in
            [("ture", "boolean"), ("7.5", "integer"), ("x", "number"), ("", "string")]
        {
            assert_eq!(read(text, kind), None, "{text} {kind}");
        }
        let bounded = json!({"type": "integer", "minimum": 1, "maximum": 3});
        assert_eq!(
            ["0", "3", "4"]
                .map(|text| Field { schema: &bounded, is_required: true }.read(text).is_ok()),
            [false, true, false]
        );
    }

    #[test]
    fn what_is_left_out_is_its_default_or_nothing_if_it_may_be() {
        let schema = json!({"type": "integer", "default": 5});
        assert_eq!(read("", &schema), Some(json!(5)));
        let schema = json!({"type": "string"});
        assert_eq!(Field { schema: &schema, is_required: false }.read(""), Ok(None));
    }

    #[test]
    fn choices_are_shown_and_nothing_else_is_taken() {
        let titled = json!([{"const": "a", "title": "First"}, {"const": "b", "title": "Second"}]);
        for schema in [
            json!({"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"]}),
            json!({"type": "string", "oneOf": titled}),
        ] {
            let hint = Field { schema: &schema, is_required: true }.hint();
            assert_eq!(hint, " (a = First | b = Second)");
            assert_eq!(read("b", &schema), Some(json!("b")));
            assert_eq!(read("Second", &schema), Some(json!("b")));
            assert_eq!(read("c", &schema), None);
        }
        for items in [json!({"type": "string", "enum": ["a", "b"]}), json!({ "anyOf": titled })] {
            let schema = json!({"type": "array", "items": items});
            assert_eq!(read("a, b", &schema), Some(json!(["a", "b"])));
            assert_eq!(read("a, c", &schema), None);
        }
        let schema = json!({"description": "d", "enum": ["a", "b"], "default": "a"});
        let hint = Field { schema: &schema, is_required: true }.hint();
        assert_eq!(hint, " (d; a | b; default \"a\")");
    }
}
