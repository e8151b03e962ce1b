//! `k=v` and `k:=json` as a JSON object.

use serde_json::{Map, Value};

use crate::exit::CommandError;

/// The arguments of a call: `json` first, then each word.
pub(super) fn read(json: Option<&str>, words: &[String]) -> Result<Value, CommandError> {
    let mut arguments = match json.map(serde_json::from_str) {
        None => Map::new(),
        Some(Ok(Value::Object(given))) => given,
        Some(Ok(_)) => return Err(CommandError::new("--json wants an object")),
        Some(Err(error)) => return Err(CommandError::new(format!("--json is not JSON: {error}"))),
    };
    for word in words {
        let (name, value) = pair(word)?;
        arguments.insert(name, value);
    }
    Ok(arguments.into())
}

fn pair(word: &str) -> Result<(String, Value), CommandError> {
    let Some((name, value)) = word.split_once('=') else {
        return Err(CommandError::new(format!("{word:?} is no argument"))
            .hint("write k=v for text, k:=json for anything else"));
    };
    match name.strip_suffix(':') {
        None => Ok((name.to_owned(), value.into())),
        Some(name) => {
            let value = serde_json::from_str(value).map_err(|error| {
                CommandError::new(format!("{name} is not JSON: {error}"))
                    .hint(format!("for text, write {name}={value}"))
            })?;
            Ok((name.to_owned(), value))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_text_or_json_and_come_last() {
        let words = ["a=1", "b:=[1,2]", "c=x=y", "d="].map(str::to_owned);
        let read = read(Some(r#"{"a":0,"z":true}"#), &words).unwrap();
        assert_eq!(read, json!({"a": "1", "b": [1, 2], "c": "x=y", "d": "", "z": true}));
    }

    #[test]
    fn what_is_no_argument_is_refused() {
        for (json, word) in [(None, "a"), (None, "a:=x"), (Some("[]"), "a=1"), (Some("{"), "a=1")] {
            assert!(read(json, &[word.to_owned()]).is_err(), "{json:?} {word}");
        }
    }
}
