//! Output schemas for clients whose structure is always an object.

use serde_json::{Value, json};

use crate::patch;

/// Where the schema is in the one that wraps it.
const PLACE: &str = "#/properties/result";

/// Members whose values are data, not schemas: what looks like a reference there is none.
const INSTANCES: [&str; 4] = ["const", "enum", "default", "examples"];

/// Members whose values are schemas by names that mean nothing.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Whether the output schema of a tool is shown to legacy clients inside
/// another: it does not say that every result is an object (GW-70).
pub fn wraps(schema: &[u8]) -> bool {
    patch::get(schema, &["type"]) != Some(b"\"object\"")
}

/// A schema of `{"result": …}` for one that is not of an object; none if it is (GW-70).
pub(super) fn wrap(schema: &[u8]) -> Option<String> {
    if !wraps(schema) {
        return None;
    }
    let mut inner: Value = serde_json::from_slice(schema).ok()?;
    let dialect = inner.as_object_mut().and_then(|members| members.remove("$schema"));
    rebase(&mut inner);
    let mut outer = json!({
        "type": "object",
        "properties": {"result": inner},
        "required": ["result"],
    });
    if let Some(dialect) = dialect {
        outer["$schema"] = dialect;
    }
    Some(outer.to_string())
}

/// Points local references to where their targets have moved. A schema with an
/// id of its own is a document of its own.
fn rebase(schema: &mut Value) {
    match schema {
        Value::Object(members) if members.contains_key("$id") => {}
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("$ref" | "$dynamicRef", Value::String(to)) => rebase_pointer(to),
                    (name, _) if INSTANCES.contains(&name) => {}
                    (name, Value::Object(named)) if NAMED.contains(&name) => {
                        named.values_mut().for_each(rebase);
                    }
                    (_, value) => rebase(value),
                }
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(rebase),
        _ => {}
    }
}

fn rebase_pointer(to: &mut String) {
    // An anchor is found wherever it is.
    if to == "#" || to.starts_with("#/") {
        to.replace_range(..1, PLACE);
    }
}
