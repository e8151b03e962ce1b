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
use super::oauth;
use super::token_access;

/// The schema of a configuration file.
pub fn schema() -> Value {
    let mut servers = SECTIONS;
    servers.sort_unstable();
    let servers = servers.map(|name| (name.to_owned(), reference("servers")));
    let gateway = (NAME.to_owned(), reference("switchboard"));
    let members: Map<_, _> = servers.into_iter().chain([gateway]).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MCP servers, and how Switchboard serves them",
        "type": "object",
        "properties": members,
        "$defs": {
            "count": { "type": "integer", "minimum": 1 },
            "edits": edits_by_name(),
            "grant": object(schemas(PRINCIPAL_KEYS)),
            "oauth": object(schemas(oauth::KEYS)),
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
pub(super) type Shape = fn() -> Value;

/// The schema of a key, with what the key is for.
pub(super) fn describe(shape: Shape, about: &str) -> Value {
    let mut schema = shape();
    if !about.is_empty() {
        schema["description"] = about.into();
    }
    schema
}

fn reference(what: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{what}") })
}

/// One of two.
fn either(one: Value, other: Value) -> Value {
    Value::from_iter([("anyOf", vec![one, other])])
}

pub(super) const COUNT: Shape = || reference("count");
pub(super) const EDITS: Shape = || reference("edits");
pub(super) const PAIRS: Shape = || reference("pairs");
pub(super) const PROCESS: Shape = || reference("process");
pub(super) const TEXT: Shape = || reference("text");
pub(super) const TIME: Shape = || reference("time");
pub(super) const WORDS: Shape = || reference("words");

pub(super) const OAUTH: Shape = || either(FLAG(), reference("oauth"));
pub(super) const OBJECT: Shape = || json!({ "type": "object" });
pub(super) const GRANT: Shape = || {
    json!({ "enum": [
        "authorization-code", "client-credentials", "device-code", "enterprise", "token-exchange",
    ] })
};
pub(super) const ACCOUNT: Shape = || json!({ "enum": ["user", "shared"] });
pub(super) const INJECT: Shape = || {
    let mut inject = object(["env", "file"].map(|name| (name, reference("text"))));
    inject["minProperties"] = json!(1);
    inject["maxProperties"] = json!(1);
    inject
};
pub(super) const IDENTITY_PROVIDER: Shape = || {
    let mut provider = object(IDENTITY_PROVIDER_KEYS.map(|name| (name, reference("text"))));
    provider["required"] = json!(["clientId"]);
    provider["oneOf"] =
        json!([{ "required": ["issuer"] }, { "required": ["tokenUrl", "idTokenFile"] }]);
    provider
};
/// What a file says about an identity provider.
pub(super) const IDENTITY_PROVIDER_KEYS: [&str; 5] =
    ["issuer", "tokenUrl", "clientId", "clientSecret", "idTokenFile"];
pub(super) const TEXT_OR_FALSE: Shape =
    || either(json!({ "type": "string" }), json!({ "const": false }));

pub(super) const FLAG: Shape = || json!({ "type": "boolean" });
pub(super) const NUMBER: Shape = || json!({ "type": "number", "exclusiveMinimum": 0 });
/// A variable may stand for any part of it.
pub(super) const URL: Shape =
    || json!({ "type": "string", "pattern": "^\\s*([Hh][Tt][Tt][Pp][Ss]?://|\\$\\{|\\{env:)" });
pub(super) const RATE: Shape = || {
    let pattern = "^ *[0-9]+ */ *(s|sec|second|m|min|minute|h|hour|d|day) *$";
    json!({ "type": "string", "pattern": pattern })
};
pub(super) const TRANSPORT: Shape = || {
    let names = "stdio local http remote sse auto streamable-http streamableHttp streamablehttp \
                 streamable_http";
    json!({ "enum": names.split(' ').collect::<Vec<_>>() })
};
pub(super) const TOOL_FILTER: Shape = || {
    let modes = json!({ "enum": ["allow", "block", "deny"] });
    let properties = json!({ "list": reference("words"), "mode": modes });
    json!({ "type": "object", "properties": properties, "required": ["mode", "list"] })
};
pub(super) const GROUPS_OF_SERVERS: Shape = || {
    let names = json!({ "pattern": "^[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*$" });
    let servers = reference("words");
    json!({ "type": "object", "propertyNames": names, "additionalProperties": servers })
};
pub(super) const KEYS_BY_NAME: Shape = || {
    let mut grant = reference("grant");
    grant["anyOf"] = json!([{ "required": ["hash"] }, { "required": ["key"] }]);
    let names = json!({ "minLength": 1 });
    json!({ "type": "object", "propertyNames": names, "additionalProperties": grant })
};
pub(super) const LIMITS: Shape = || object(schemas(BOUNDS));
pub(super) const SERVER_DEFAULTS: Shape =
    || object(DEFAULTS.iter().filter_map(|name| find(KEYS, name)?.schemas().next()));

pub(super) const COMMAND: Shape =
    || either(json!({ "type": "string", "minLength": 1 }), reference("words"));
pub(super) const WORD_OR_WORDS: Shape = || either(json!({ "type": "string" }), reference("words"));
pub(super) const EDITS_OR_WORDS: Shape = || either(reference("edits"), reference("words"));
pub(super) const IDLE: Shape = || either(json!({ "enum": [false, 0] }), reference("time"));
pub(super) const PREFIX: Shape =
    || either(json!({ "type": "string", "maxLength": 30 }), json!({ "const": false }));
pub(super) const FLAG_OR_GRANT: Shape = || either(FLAG(), reference("grant"));
pub(super) const FLAG_OR_COUNT: Shape = || either(FLAG(), reference("count"));
pub(super) const CONSOLE: Shape =
    || either(json!({ "enum": [true, false, "read"] }), object(schemas(gateway::CONSOLE_KEYS)));
pub(super) const TOOL_CHANGES: Shape = || json!({ "enum": ["show", "refuse"] });
pub(super) const PORT_NUMBER: Shape = || {
    let number = json!({ "type": "integer", "minimum": 0, "maximum": 65535 });
    either(number, json!({ "type": "string", "pattern": "^([0-9]{1,5}|.*\\$\\{.*)$" }))
};
pub(super) const GRANTED: Shape = || reference("grant");
pub(super) const TOKEN_ACCESS: Shape = || object(schemas(token_access::KEYS));
pub(super) const INTROSPECT: Shape = || {
    let mut introspect = object(schemas(token_access::INTROSPECT_KEYS));
    introspect["required"] = json!(["clientId", "clientSecret"]);
    introspect
};
pub(super) const FACADE: Shape = || {
    let mut facade = object(schemas(token_access::FACADE_KEYS));
    facade["required"] = json!(["issuer", "clientId"]);
    facade
};
pub(super) const MISSING_SCOPE: Shape = || json!({ "enum": ["list", "hide"] });
pub(super) const ISSUERS: Shape = || {
    let names = json!({ "pattern": "^[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*$" });
    let issuer = object(schemas(token_access::ISSUER_KEYS));
    json!({ "type": "object", "propertyNames": names, "additionalProperties": issuer })
};
pub(super) const CLAIMS: Shape = || {
    let values = json!({ "type": "object", "additionalProperties": object(granted()) });
    json!({ "type": "object", "additionalProperties": values })
};
pub(super) const SCOPES: Shape = || {
    let scope = object(granted().chain(schemas(token_access::SCOPE_KEYS)));
    json!({ "type": "object", "additionalProperties": scope })
};

/// The keys of a grant that say what may be used.
fn granted() -> impl Iterator<Item = (&'static str, Value)> {
    token_access::GRANT_NAMES.iter().filter_map(|name| find(PRINCIPAL_KEYS, name)?.schemas().next())
}

pub(super) const KEY_HASH: Shape = || {
    let hash = json!({ "type": "string", "pattern": "^(sha256:[0-9A-Fa-f]{64}|.*\\$\\{.*)$" });
    either(hash.clone(), json!({ "type": "array", "items": hash }))
};

fn sharing() -> Value {
    let mut pool = object([("pool", json!({ "type": "integer", "minimum": 1, "maximum": 256 }))]);
    pool["required"] = json!(["pool"]);
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
