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
    let theirs = THEIRS.split(' ').map(|name| {
        (name, json!({ "description": "A key of another client. The gateway ignores it." }))
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

/// What the value of a key may be.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// Something that several keys are.
    Is(&'static str),
    /// Something of its own.
    Of(fn() -> Value),
    /// One of two.
    Either(fn() -> [Value; 2]),
}

impl Shape {
    /// The schema of a key, with what the key is for.
    pub(super) fn describe(self, about: &str) -> Value {
        let mut schema = match self {
            Self::Is(what) => reference(what),
            Self::Of(schema) => schema(),
            Self::Either(schemas) => json!({ "anyOf": schemas() }),
        };
        if !about.is_empty() {
            schema["description"] = about.into();
        }
        schema
    }
}

fn reference(what: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{what}") })
}

pub(super) const COUNT: Shape = Shape::Is("count");
pub(super) const EDITS: Shape = Shape::Is("edits");
pub(super) const PAIRS: Shape = Shape::Is("pairs");
pub(super) const PROCESS: Shape = Shape::Is("process");
pub(super) const TEXT: Shape = Shape::Is("text");
pub(super) const TIME: Shape = Shape::Is("time");
pub(super) const WORDS: Shape = Shape::Is("words");

pub(super) const FLAG: Shape = Shape::Of(|| json!({ "type": "boolean" }));
pub(super) const NUMBER: Shape = Shape::Of(|| json!({ "type": "number", "exclusiveMinimum": 0 }));
/// A variable may stand for any part of it.
pub(super) const URL: Shape = Shape::Of(
    || json!({ "type": "string", "pattern": "^\\s*([Hh][Tt][Tt][Pp][Ss]?://|\\$\\{|\\{env:)" }),
);
pub(super) const RATE: Shape = Shape::Of(|| {
    let pattern = "^ *[0-9]+ */ *(s|sec|second|m|min|minute|h|hour|d|day) *$";
    json!({ "type": "string", "pattern": pattern })
});
pub(super) const TRANSPORT: Shape = Shape::Of(|| {
    json!({
        "enum": ["stdio", "local", "http", "remote", "sse", "auto", "streamable-http",
                 "streamableHttp", "streamablehttp", "streamable_http"],
    })
});
pub(super) const TOOL_FILTER: Shape = Shape::Of(|| {
    json!({
        "type": "object",
        "properties": {
            "list": { "$ref": "#/$defs/words" },
            "mode": { "enum": ["allow", "block", "deny"] },
        },
        "required": ["mode", "list"],
    })
});
pub(super) const GROUPS_OF_SERVERS: Shape = Shape::Of(|| {
    json!({
        "type": "object",
        "propertyNames": { "pattern": "^[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*$" },
        "additionalProperties": { "$ref": "#/$defs/words" },
    })
});
pub(super) const KEYS_BY_NAME: Shape = Shape::Of(|| {
    json!({
        "type": "object",
        "propertyNames": { "minLength": 1 },
        "additionalProperties": {
            "$ref": "#/$defs/grant",
            "anyOf": [{ "required": ["hash"] }, { "required": ["key"] }],
        },
    })
});
pub(super) const LIMITS: Shape = Shape::Of(|| object(schemas(BOUNDS)));
pub(super) const SERVER_DEFAULTS: Shape =
    Shape::Of(|| object(DEFAULTS.iter().filter_map(|name| find(KEYS, name)?.schemas().next())));

pub(super) const COMMAND: Shape =
    Shape::Either(|| [json!({ "type": "string", "minLength": 1 }), reference("words")]);
pub(super) const WORD_OR_WORDS: Shape =
    Shape::Either(|| [json!({ "type": "string" }), reference("words")]);
pub(super) const EDITS_OR_WORDS: Shape = Shape::Either(|| [reference("edits"), reference("words")]);
pub(super) const IDLE: Shape = Shape::Either(|| [json!({ "enum": [false, 0] }), reference("time")]);
pub(super) const PREFIX: Shape =
    Shape::Either(|| [json!({ "type": "string", "maxLength": 30 }), json!({ "const": false })]);
pub(super) const FLAG_OR_GRANT: Shape =
    Shape::Either(|| [json!({ "type": "boolean" }), reference("grant")]);
pub(super) const FLAG_OR_COUNT: Shape =
    Shape::Either(|| [json!({ "type": "boolean" }), reference("count")]);
pub(super) const PORT_NUMBER: Shape = Shape::Either(|| {
    let number = json!({ "type": "integer", "minimum": 0, "maximum": 65535 });
    [number, json!({ "type": "string", "pattern": "^([0-9]{1,5}|.*\\$\\{.*)$" })]
});
pub(super) const KEY_HASH: Shape = Shape::Either(|| {
    let hash = json!({ "type": "string", "pattern": "^(sha256:[0-9A-Fa-f]{64}|.*\\$\\{.*)$" });
    let list = json!({ "type": "array", "items": hash });
    [hash, list]
});

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
