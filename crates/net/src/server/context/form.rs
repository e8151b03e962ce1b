//! What a form may ask for: an object of flat properties, each a string, a
//! number, a yes or no, or a choice (MRTR-14). Clients draw nothing else.

use serde_json::Value;

use crate::server::error::Error;
use crate::server::tool::schema::{Schema, complaints};

/// Formats of strings that clients know.
const FORMATS: [&str; 4] = ["date", "date-time", "email", "uri"];

/// What is wrong with a form, if anything.
pub(super) fn complaint(schema: &Value) -> Option<String> {
    if schema["type"] != "object" {
        return Some("a form must have \"type\": \"object\"".to_owned());
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let wrong = properties.into_iter().flatten().find_map(|(name, property)| {
        unfit(property).map(|why| format!("property {name:?} of a form {why}"))
    });
    wrong.or_else(|| {
        let required = schema["required"].as_array().into_iter().flatten();
        let mut names = required.filter_map(Value::as_str);
        let known = |name: &str| properties.is_some_and(|all| all.contains_key(name));
        let unknown = names.find(|name| !known(name))?;
        Some(format!("a form requires {unknown:?}, which is none of its properties"))
    })
}

/// Whether an answer fits the form; which member does not, and why.
pub(super) fn check(schema: &Value, content: &Value) -> Result<(), Error> {
    let form = Schema { text: schema.to_string() };
    let validator = form.validator().map_err(Error::internal)?;
    match complaints(&validator, content) {
        Some(why) => Err(Error::invalid_params(format!("the answer does not fit the form: {why}"))),
        None => Ok(()),
    }
}

fn unfit(property: &Value) -> Option<&'static str> {
    match property["type"].as_str() {
        Some("string") => {
            let format = property.get("format").map(|format| format.as_str().unwrap_or_default());
            let known = format.is_none_or(|format| FORMATS.contains(&format));
            (!known).then_some("has a format that no client knows")
        }
        Some("boolean" | "integer" | "number") => None,
        Some("array") => {
            let items = &property["items"];
            let choice = items["enum"].is_array() || items["anyOf"].is_array();
            (!choice).then_some("is an array, but no choice from a list")
        }
        _ => Some("is neither a string, a number, a boolean nor a choice"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// wire: MRTR-14
    #[test]
    fn forms_are_flat() {
        let titled = json!([{"const": "a", "title": "A"}]);
        let fit = [
            json!({"type": "string"}),
            json!({"type": "string", "format": "email", "minLength": 1, "default": "x"}),
            json!({"type": "string", "enum": ["a"], "enumNames": ["A"]}),
            json!({"type": "string", "oneOf": titled}),
            json!({"type": "integer", "minimum": 0}),
            json!({"type": "number"}),
            json!({"type": "boolean", "default": true}),
            json!({"type": "array", "items": {"type": "string", "enum": ["a"]}}),
            json!({"type": "array", "items": {"anyOf": titled}}),
        ];
        for property in fit {
            let form = json!({"type": "object", "properties": {"x": property}, "required": ["x"]});
            assert_eq!(complaint(&form), None, "{form}");
        }
        let unfit = [
            json!({}),
            json!({"type": "object", "properties": {}}),
            json!({"type": "null"}),
            json!({"type": ["string", "null"]}),
            json!({"type": "string", "format": "ipv4"}),
            json!({"type": "array", "items": {"type": "string"}}),
        ];
        for property in unfit {
            let form = json!({"type": "object", "properties": {"x": property}});
            assert!(complaint(&form).unwrap().contains("\"x\""), "{form}");
        }
        assert_eq!(complaint(&json!({"type": "object"})), None);
        assert!(complaint(&json!({"type": "string"})).is_some());
        let lost = json!({"type": "object", "properties": {}, "required": ["y"]});
        assert!(complaint(&lost).unwrap().contains("\"y\""));
    }
}
