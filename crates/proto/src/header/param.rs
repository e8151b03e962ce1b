//! Arguments that a tool wants repeated as `Mcp-Param-*` headers.
//!
//! A property of the input schema says so with `x-mcp-header`. It must be
//! reachable through `properties` alone: elsewhere one schema may stand for
//! many values or for none, and a header has room for one. A tool that breaks
//! the rules must not be offered over HTTP at all, hence one error for the
//! whole schema.

use http::header::{HeaderMap, HeaderName};
use serde_json::{Map, Number, Value};

use super::{Header, Mismatch, PARAM_PREFIX, decode, encode_value, only};

/// One argument and the header that repeats it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Annotation {
    header: HeaderName,
    /// Names of properties, from the root.
    path: Box<[Box<str>]>,
}

impl Annotation {
    /// Where the argument is; absent and null are the same.
    fn find<'a>(&self, arguments: Option<&'a Value>) -> Option<&'a Value> {
        let value = self.path.iter().try_fold(arguments?, |value, name| value.get(&**name))?;
        (!value.is_null()).then_some(value)
    }
}

/// Why a tool with this input schema cannot be offered over HTTP.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidAnnotation {
    /// Header names do not tell capitals from small letters.
    #[error("x-mcp-header {name:?} is used twice")]
    Duplicate { name: Box<str> },
    /// Only what is reached through `properties` has one value.
    #[error("x-mcp-header is used outside of properties")]
    Misplaced,
    /// Empty, no string, or characters that no header name may have.
    #[error("x-mcp-header {name} is no header name")]
    NotAName { name: Box<str> },
    /// More headers than most servers accept.
    #[error("x-mcp-header is used more than {limit} times")]
    TooMany { limit: usize },
    /// Numbers with a fraction, arrays and objects have no one way to write them.
    #[error("x-mcp-header {name:?} is on something else than a string, integer or boolean")]
    WrongType { name: Box<str> },
}

/// All annotations of a tool's input schema.
pub fn annotations(input_schema: &Value) -> Result<Vec<Annotation>, InvalidAnnotation> {
    let mut found = Vec::new();
    let Value::Object(root) = input_schema else { return Ok(found) };
    if root.contains_key(KEYWORD) {
        return Err(InvalidAnnotation::Misplaced);
    }
    walk(root, &mut Vec::new(), &mut found)?;
    Ok(found)
}

/// The headers that repeat `arguments`.
pub fn headers(annotations: &[Annotation], arguments: Option<&Value>) -> Vec<Header> {
    let written = annotations.iter().filter_map(|annotation| {
        let text = print(annotation.find(arguments)?)?;
        Some((annotation.header.clone(), encode_value(&text)))
    });
    written.collect()
}

/// Whether `headers` repeat `arguments`. A header for an argument that is not
/// there is ignored.
pub fn check(
    annotations: &[Annotation],
    arguments: Option<&Value>,
    headers: &HeaderMap,
) -> Result<(), Mismatch> {
    for annotation in annotations {
        let Some(meant) = annotation.find(arguments) else { continue };
        let header = &annotation.header;
        match only(headers, header)?.map(|said| decode(header, said)).transpose()? {
            Some(said) if agrees(&said, meant) => {}
            Some(said) => return Err(Mismatch::differs(header.clone(), &said, meant)),
            // What cannot be repeated is the wrong type, which the tool's own
            // checks will tell better.
            None if print(meant).is_none() => {}
            None => return Err(Mismatch::Missing { header: header.clone() }),
        }
    }
    Ok(())
}

/// Whether `headers` repeat what those of an earlier request for the same call said.
/// Others may be there: what they should say cannot be known from it.
pub fn check_again(before: &[Header], headers: &HeaderMap) -> Result<(), Mismatch> {
    for (header, meant) in before {
        match only(headers, header)? {
            Some(said) if said == meant => {}
            Some(said) => {
                let (said, meant) = (decode(header, said)?, decode(header, meant)?);
                if said != meant {
                    return Err(Mismatch::differs(header.clone(), &said, &*meant));
                }
            }
            None => return Err(Mismatch::Missing { header: header.clone() }),
        }
    }
    Ok(())
}

/// Collects the annotations below `schema`, which `path` leads to. A parsed
/// document is at most 128 levels deep, so recursing is safe.
fn walk<'a>(
    schema: &'a Map<String, Value>,
    path: &mut Vec<&'a str>,
    found: &mut Vec<Annotation>,
) -> Result<(), InvalidAnnotation> {
    for (keyword, part) in schema {
        match (keyword.as_str(), part) {
            (KEYWORD, name) => annotate(name, schema, path, found)?,
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    let Value::Object(property) = property else { continue };
                    path.push(name);
                    walk(property, path, found)?;
                    path.pop();
                }
            }
            (keyword, part) => refuse(keyword, part)?,
        }
    }
    Ok(())
}

/// Nothing below `part`, the value of `keyword`, may be annotated.
fn refuse(keyword: &str, part: &Value) -> Result<(), InvalidAnnotation> {
    match part {
        // Instances, not schemas.
        _ if INSTANCES.contains(&keyword) => Ok(()),
        // The members are schemas, whatever they are called.
        Value::Object(schemas) if MAPS.contains(&keyword) => {
            schemas.values().try_for_each(|schema| refuse("", schema))
        }
        Value::Object(schema) if schema.contains_key(KEYWORD) => Err(InvalidAnnotation::Misplaced),
        Value::Object(schema) => schema.iter().try_for_each(|(name, part)| refuse(name, part)),
        Value::Array(schemas) => schemas.iter().try_for_each(|schema| refuse("", schema)),
        _ => Ok(()),
    }
}

fn annotate(
    name: &Value,
    schema: &Map<String, Value>,
    path: &[&str],
    found: &mut Vec<Annotation>,
) -> Result<(), InvalidAnnotation> {
    let invalid = || InvalidAnnotation::NotAName { name: super::shorten(&name.to_string()) };
    let name = name.as_str().filter(|name| !name.is_empty()).ok_or_else(invalid)?;
    let header = format!("{PARAM_PREFIX}{name}");
    let header = HeaderName::from_bytes(header.as_bytes()).map_err(|_| invalid())?;
    let kind = schema.get("type").and_then(Value::as_str);
    if !matches!(kind, Some("boolean" | "integer" | "string")) {
        return Err(InvalidAnnotation::WrongType { name: name.into() });
    }
    if found.iter().any(|other| other.header == header) {
        return Err(InvalidAnnotation::Duplicate { name: name.into() });
    }
    if found.len() == MOST {
        return Err(InvalidAnnotation::TooMany { limit: MOST });
    }
    let path = path.iter().map(|&name| name.into()).collect();
    found.push(Annotation { header, path });
    Ok(())
}

/// A value as a header has it, if it can.
fn print(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => integer(number).map(|integer| integer.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn agrees(said: &str, meant: &Value) -> bool {
    match meant {
        Value::Number(meant) => {
            let said = serde_json::from_str::<Number>(said);
            integer(meant).is_some() && said.ok().as_ref().and_then(integer) == integer(meant)
        }
        meant => print(meant).is_some_and(|meant| meant == said),
    }
}

/// The integer that `number` is, however it is written.
fn integer(number: &Number) -> Option<i128> {
    if let Some(integer) = number.as_i128() {
        return Some(integer);
    }
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= LARGEST)?;
    #[expect(clippy::cast_possible_truncation, reason = "whole, and within 53 bits")]
    Some(float as i128)
}

const KEYWORD: &str = "x-mcp-header";

/// Keywords whose value is what a schema describes.
pub(crate) const INSTANCES: [&str; 4] = ["const", "default", "enum", "examples"];

/// Keywords whose value maps names of any kind to schemas.
pub(crate) const MAPS: [&str; 5] =
    ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Hyper and most proxies take about a hundred headers in all.
const MOST: usize = 64;

/// 2^53 - 1, beyond which a float no longer tells integers apart.
const LARGEST: f64 = 9_007_199_254_740_991.0;

#[cfg(test)]
mod tests;
