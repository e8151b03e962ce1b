//! A JSON schema of the files, for editors: made from the tables that they are
//! read by, so that both know the same keys.
//!
//! It is stricter than reading in one thing: a key of a server that no tool has
//! is a mistake here and a note there, for an editor should underline it. It does
//! not know of sections whose name is nearly ours.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::client_files::SECTIONS;
use super::gateway::{self, BOUNDS, DEFAULTS, NAME, PRINCIPAL_KEYS};
use super::key::{FileKey, KEYS, PLACES, THEIRS, find};

/// The schema of a configuration file.
pub fn schema() -> Value {
    let mut members = Map::new();
    let mut servers: Vec<&str> = SECTIONS.to_vec();
    servers.sort_unstable();
    for name in servers {
        members.insert(name.to_owned(), json!({ "$ref": "#/$defs/servers" }));
    }
    members.insert(NAME.to_owned(), json!({ "$ref": "#/$defs/switchboard" }));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MCP servers, and how Switchboard serves them",
        "type": "object",
        "properties": members,
        "$defs": {
            "count": { "type": "integer", "minimum": 1 },
            "edits": edits_by_name(),
            "grant": object(schemas(PRINCIPAL_KEYS)),
            "pairs": {
                "type": "object",
                "additionalProperties": { "type": ["string", "number", "boolean"] },
            },
            "process": sharing(),
            "server": server(),
            "servers": {
                "anyOf": [
                    {
                        "type": "object",
                        "propertyNames": nameable(),
                        "additionalProperties": { "$ref": "#/$defs/server" },
                    },
                    {
                        "type": "array",
                        "items": {
                            "$ref": "#/$defs/server",
                            "properties": { "name": nameable() },
                            "required": ["name"],
                        },
                    },
                    { "type": "null" },
                ],
            },
            "switchboard": object(schemas(gateway::KEYS)),
            "text": { "type": ["string", "number", "boolean"] },
            "time": {
                "description": "Seconds, or a number and a unit: 500ms, 30s, 5m, 1h",
                "anyOf": [
                    { "type": "number", "exclusiveMinimum": 0, "maximum": 1_000_000_000 },
                    { "type": "string", "pattern": "^[0-9.]+ *(ms|s|sec|m|min|h)?$" },
                ],
            },
            "words": { "type": "array", "items": { "$ref": "#/$defs/text" } },
        },
    })
}

/// What a server may be called: not what is lost in a URL.
fn nameable() -> Value {
    json!({ "not": { "enum": ["", ".", ".."] } })
}

/// A reference to something that several keys are, with what the key is for.
fn is(what: &str, about: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{what}"), "description": about })
}

/// The schemas of keys, under each of their names.
fn schemas<R>(keys: &[FileKey<R>]) -> impl Iterator<Item = (&'static str, Value)> {
    keys.iter().flat_map(FileKey::schemas)
}

/// An object with these members in both spellings, and no others.
fn object(members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let mut properties = Map::new();
    for (name, schema) in members {
        let snake = snake(name);
        if snake != name {
            properties.insert(snake, schema.clone());
        }
        properties.insert(name.to_owned(), schema);
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn server() -> Value {
    let theirs = THEIRS.iter().map(|name| {
        (*name, json!({ "description": "A key of another client. The gateway ignores it." }))
    });
    let mut server = object(schemas(KEYS));
    if let Some(properties) = server["properties"].as_object_mut() {
        properties.extend(theirs.map(|(name, schema)| (name.to_owned(), schema)));
    }
    let places: BTreeSet<_> = PLACES.iter().flat_map(|it| [(*it).to_owned(), snake(it)]).collect();
    let places = places.iter().map(|name| json!({ "required": [name] }));
    server["oneOf"] = Value::Array(places.collect());
    server
}

// What the value of a key may be. Each takes what the key is for.

pub(super) fn words(about: &str) -> Value {
    is("words", about)
}

pub(super) fn text(about: &str) -> Value {
    is("text", about)
}

pub(super) fn pairs(about: &str) -> Value {
    is("pairs", about)
}

pub(super) fn time(about: &str) -> Value {
    is("time", about)
}

pub(super) fn count(about: &str) -> Value {
    is("count", about)
}

pub(super) fn process(about: &str) -> Value {
    is("process", about)
}

pub(super) fn edits(about: &str) -> Value {
    is("edits", about)
}

pub(super) fn number(about: &str) -> Value {
    json!({ "description": about, "type": "number", "exclusiveMinimum": 0 })
}

pub(super) fn flag(about: &str) -> Value {
    json!({ "description": about, "type": "boolean" })
}

/// A variable may stand for any part of it.
pub(super) fn url(about: &str) -> Value {
    let pattern = "^\\s*([Hh][Tt][Tt][Pp][Ss]?://|\\$\\{|\\{env:)";
    json!({ "description": about, "type": "string", "pattern": pattern })
}

/// One of two.
fn either(about: &str, one: &Value, other: &Value) -> Value {
    json!({ "description": about, "anyOf": [one, other] })
}

fn reference(what: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{what}") })
}

pub(super) fn command(about: &str) -> Value {
    either(about, &json!({ "type": "string", "minLength": 1 }), &reference("words"))
}

pub(super) fn word_or_words(about: &str) -> Value {
    either(about, &json!({ "type": "string" }), &reference("words"))
}

pub(super) fn edits_or_words(about: &str) -> Value {
    either(about, &reference("edits"), &reference("words"))
}

pub(super) fn idle(about: &str) -> Value {
    either(about, &json!({ "enum": [false, 0] }), &reference("time"))
}

pub(super) fn prefix(about: &str) -> Value {
    either(about, &json!({ "type": "string", "maxLength": 30 }), &json!({ "const": false }))
}

pub(super) fn flag_or_grant(about: &str) -> Value {
    either(about, &json!({ "type": "boolean" }), &reference("grant"))
}

pub(super) fn flag_or_count(about: &str) -> Value {
    either(about, &json!({ "type": "boolean" }), &reference("count"))
}

pub(super) fn port_number(about: &str) -> Value {
    let number = json!({ "type": "integer", "minimum": 0, "maximum": 65535 });
    let text = json!({ "type": "string", "pattern": "^([0-9]{1,5}|.*\\$\\{.*)$" });
    either(about, &number, &text)
}

pub(super) fn key_hash(about: &str) -> Value {
    let hash = json!({ "type": "string", "pattern": "^(sha256:[0-9A-Fa-f]{64}|.*\\$\\{.*)$" });
    let list = json!({ "type": "array", "items": hash });
    either(about, &hash, &list)
}

pub(super) fn rate(about: &str) -> Value {
    let pattern = "^ *[0-9]+ */ *(s|sec|second|m|min|minute|h|hour|d|day) *$";
    json!({ "description": about, "type": "string", "pattern": pattern })
}

pub(super) fn transport(about: &str) -> Value {
    json!({
        "description": about,
        "enum": ["stdio", "local", "http", "remote", "sse", "auto", "streamable-http",
                 "streamableHttp", "streamablehttp", "streamable_http"],
    })
}

pub(super) fn tool_filter(about: &str) -> Value {
    json!({
        "description": about,
        "type": "object",
        "properties": {
            "list": { "$ref": "#/$defs/words" },
            "mode": { "enum": ["allow", "block", "deny"] },
        },
        "required": ["mode", "list"],
    })
}

pub(super) fn groups_of_servers(about: &str) -> Value {
    json!({
        "description": about,
        "type": "object",
        "propertyNames": { "pattern": "^[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*$" },
        "additionalProperties": { "$ref": "#/$defs/words" },
    })
}

pub(super) fn keys_by_name(about: &str) -> Value {
    json!({
        "description": about,
        "type": "object",
        "propertyNames": { "minLength": 1 },
        "additionalProperties": {
            "$ref": "#/$defs/grant",
            "anyOf": [{ "required": ["hash"] }, { "required": ["key"] }],
        },
    })
}

pub(super) fn limits(_: &str) -> Value {
    object(schemas(BOUNDS))
}

pub(super) fn server_defaults(_: &str) -> Value {
    let known = DEFAULTS.iter().filter_map(|name| find(KEYS, name)?.schemas().next());
    object(known)
}

fn sharing() -> Value {
    let pool = json!({
        "type": "object",
        "properties": { "pool": { "type": "integer", "minimum": 1, "maximum": 256 } },
        "required": ["pool"],
        "additionalProperties": false,
    });
    let words = ["shared", "per-session", "per-user", "per-request"];
    let short = ["per_session", "session", "per_user", "user", "per_request", "request"];
    json!({ "anyOf": [{ "enum": words }, { "enum": short }, pool] })
}

fn edits_by_name() -> Value {
    let mut edit = object([
        ("annotations", json!({ "type": "object" })),
        ("description", json!({ "$ref": "#/$defs/text" })),
        ("name", json!({ "type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$" })),
        ("title", json!({ "$ref": "#/$defs/text" })),
    ]);
    edit["properties"]["approval_mode"] =
        json!({ "description": "A key of another client. The gateway ignores it." });
    json!({ "type": "object", "additionalProperties": edit })
}

#[cfg(test)]
mod tests;
