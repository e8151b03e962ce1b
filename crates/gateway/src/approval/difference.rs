//! What is different between two definitions, member by member, for people to read.

use std::collections::BTreeSet;

use serde_json::Value;
use switchboard_proto::jsonrpc::Part;

/// Differences that are told.
const MAX_DIFFERENCES: usize = 100;
/// Characters of a text that are told.
const MAX_CHARACTERS: usize = 4000;

/// One member that is another, was added, or was removed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    /// Where it is: `inputSchema.properties.path.description`.
    pub path: String,
    /// What it was; none if it was not there.
    pub before: Option<String>,
    /// What it is; none if it is not there.
    pub after: Option<String>,
}

/// What is different between two definitions, at most so much as people read.
pub fn differences(before: Option<&str>, after: Option<&str>) -> Vec<Difference> {
    let value = |text: Option<&str>| text.and_then(|text| Part::new(text.as_bytes()).value());
    let mut found = Vec::new();
    compare("", value(before).as_ref(), value(after).as_ref(), &mut found);
    found
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Difference>) {
    if before == after || found.len() >= MAX_DIFFERENCES {
        return;
    }
    let below =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            for name in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
                compare(&below(name), old.get(name), new.get(name), found);
            }
        }
        // What is new is told by its members.
        (None, Some(Value::Object(new))) if path.is_empty() => {
            for (name, value) in new {
                compare(name, None, Some(value), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&below(&at.to_string()), Some(old), Some(new), found);
            }
        }
        _ => {
            let (before, after) = (before.map(told), after.map(told));
            found.push(Difference { path: path.to_owned(), before, after });
        }
    }
}

fn told(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().take(MAX_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_told_with_their_place_and_both_texts() {
        let old = r#"{"name":"a","description":"x","inputSchema":{"required":["p"],"properties":{"p":{"type":"string"}}}}"#;
        let new = r#"{"name":"a","description":"y","inputSchema":{"required":["p","q"],"properties":{"p":{"type":"number"}}},"title":"T"}"#;
        let found: Vec<_> = differences(Some(old), Some(new))
            .into_iter()
            .map(|it| (it.path, it.before.unwrap_or_default(), it.after.unwrap_or_default()))
            .collect();
        let expected = [
            ("description", "x", "y"),
            ("inputSchema.properties.p.type", "string", "number"),
            ("inputSchema.required", r#"["p"]"#, r#"["p","q"]"#),
            ("title", "", "T"),
        ];
        assert_eq!(found, expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
        assert!(differences(Some(old), Some(old)).is_empty());
        let added = differences(None, Some(r#"{"name":"a","title":"T"}"#));
        assert_eq!(added.len(), 2, "each member of what is new");
    }
}
