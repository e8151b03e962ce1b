//! A JSON schema of the files, for editors: made from the tables that they are
//! read by, so that both know the same keys.
//!
//! It is stricter than reading in one thing: a key of a server that no tool has
//! is a mistake here and a note there, for an editor should underline it. It does
//! not know of sections whose name is nearly ours.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::client_files::SECTIONS;
use super::gateway::{AccessMember, BOUNDS, Bound, DEFAULTS, KEY_MEMBERS, MEMBERS, Member, NAME};
use super::key::{KEYS, Meaning, OURS, Ours, THEIRS, meaning};

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
            "edits": edits(),
            "grant": grant(),
            "pairs": {
                "type": "object",
                "additionalProperties": { "type": ["string", "number", "boolean"] },
            },
            "process": process(),
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
            "switchboard": section(),
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
fn is(what: &str, description: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{what}"), "description": description })
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
    let known = KEYS.iter().map(|(name, meaning)| (*name, known(*meaning)));
    let ours = OURS.iter().map(|(name, key)| (*name, ours(*key)));
    let theirs = THEIRS.iter().map(|name| {
        (*name, json!({ "description": "A key of another client. The gateway ignores it." }))
    });
    let mut server = object(ours.chain(known));
    if let Some(properties) = server["properties"].as_object_mut() {
        properties.extend(theirs.map(|(name, schema)| (name.to_owned(), schema)));
    }
    let is_place = |meaning| matches!(meaning, Meaning::Command | Meaning::HttpUrl | Meaning::Url);
    let places = KEYS.iter().filter(|(_, meaning)| is_place(*meaning)).map(|(name, _)| *name);
    let places: BTreeSet<_> = places.flat_map(|name| [name.to_owned(), snake(name)]).collect();
    let places = places.iter().map(|name| json!({ "required": [name] }));
    server["oneOf"] = Value::Array(places.collect());
    server
}

fn known(meaning: Meaning) -> Value {
    match meaning {
        Meaning::Args => is("words", "Arguments of the command."),
        Meaning::BearerVariable => text("The variable that holds the bearer token."),
        Meaning::CallTime => {
            is("time", "The timeout of a call: seconds, or milliseconds if above 999.")
        }
        Meaning::CallMillis | Meaning::CallSeconds => number("The timeout of a call."),
        Meaning::Command => json!({
            "description": "The program to start, or a list of the program and its arguments.",
            "anyOf": [{ "type": "string", "minLength": 1 }, { "$ref": "#/$defs/words" }],
        }),
        Meaning::Cwd => text("The folder that the command is started in."),
        Meaning::Description => text("What the server is for, in words."),
        Meaning::Disabled => flag("Whether the gateway leaves the server out."),
        Meaning::Enabled => flag("Whether the gateway uses the server."),
        Meaning::Env => is("pairs", "Variables for the command."),
        Meaning::EnvFile => text("A file of variables for the command."),
        Meaning::EnvNames => is("words", "Environment variables that the command inherits."),
        Meaning::HeaderVariables => {
            is("pairs", "Headers to send, each with the name of the variable that has its value.")
        }
        Meaning::Headers => is("pairs", "Headers to send to the URL."),
        Meaning::HttpUrl => url("A URL of Streamable HTTP."),
        Meaning::Kind => json!({
            "description": "The transport.",
            "enum": ["stdio", "local", "http", "remote", "sse", "auto", "streamable-http",
                     "streamableHttp", "streamablehttp", "streamable_http"],
        }),
        Meaning::Name => text("The server's name, where servers are a list."),
        Meaning::NotTools => is("words", "Tools that clients do not see; * stands for anything."),
        Meaning::OnlyTools => is("words", "The only tools clients see; * stands for anything."),
        Meaning::StartMillis | Meaning::StartSeconds => {
            number("How long the server may take to start.")
        }
        Meaning::ToolFilter => json!({
            "description": "Which tools clients see.",
            "type": "object",
            "properties": {
                "list": { "$ref": "#/$defs/words" },
                "mode": { "enum": ["allow", "block", "deny"] },
            },
            "required": ["mode", "list"],
        }),
        Meaning::Url => url("The URL of the server."),
        Meaning::Ours(key) => ours(key),
        Meaning::Theirs => Value::Bool(true),
    }
}

fn ours(key: Ours) -> Value {
    match key {
        Ours::HeaderCommand => json!({
            "description": "A program that prints a JSON object of headers to send.",
            "anyOf": [{ "type": "string", "minLength": 1 }, { "$ref": "#/$defs/words" }],
        }),
        Ours::HeaderFile => json!({
            "description": "A file with a header to send on each line, Name: value.",
            "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/words" }],
        }),
        Ours::Idle => json!({
            "description": "Stop the server after this time without a call; the next call starts it.",
            "anyOf": [{ "enum": [false, 0] }, { "$ref": "#/$defs/time" }],
        }),
        Ours::MaxCalls => {
            is("count", "How many calls the server handles at once; more calls wait.")
        }
        Ours::NotPrompts => is("words", "Prompts that clients do not see."),
        Ours::NotResources => is("words", "Resources that clients do not see, by URI."),
        Ours::OnlyPrompts => is("words", "The only prompts that clients see."),
        Ours::OnlyResources => is("words", "The only resources that clients see, by URI."),
        Ours::PassHeaders => {
            is("words", "Headers of the client's request that the gateway sends on to the server.")
        }
        Ours::Prefix => json!({
            "description": "The prefix of the server's tools and prompts; its name by default, \"\" or \
                            false for none.",
            "anyOf": [{ "type": "string", "maxLength": 30 }, { "const": false }],
        }),
        Ours::Process => is("process", "Which clients share a process of the server."),
        Ours::PromptEdits => {
            is("edits", "Names, titles and descriptions that replace the server's own, by prompt.")
        }
        Ours::StartTime => is("time", "How long the server may take to start."),
        Ours::ToolEdits => json!({
            "description": "Names, titles and descriptions that replace the server's own, by tool; or a \
                            list of the only tools that clients see.",
            "anyOf": [{ "$ref": "#/$defs/edits" }, { "$ref": "#/$defs/words" }],
        }),
    }
}

fn section() -> Value {
    object(MEMBERS.iter().map(|(name, member)| (*name, of_section(*member))))
}

fn of_section(member: Member) -> Value {
    match member {
        Member::Anonymous => json!({
            "description": "What clients without a key may use; false to require a key.",
            "anyOf": [{ "type": "boolean" }, { "$ref": "#/$defs/grant" }],
        }),
        Member::Defaults => {
            object(DEFAULTS.iter().filter_map(|name| Some((*name, known(meaning(name)?)))))
        }
        Member::Diagnostics => flag("Whether clients get get_tool_manifest and get_trace_by_id."),
        Member::Groups => json!({
            "description": "Sets of servers, each at /groups/<name>/mcp.",
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*$" },
            "additionalProperties": { "$ref": "#/$defs/words" },
        }),
        Member::Host => text("The address to listen on."),
        Member::Hosts => is("words", "Host names that the gateway accepts in requests."),
        Member::Keys => json!({
            "description": "The keys of clients, by the name of the user or program.",
            "type": "object",
            "propertyNames": { "minLength": 1 },
            "additionalProperties": {
                "$ref": "#/$defs/grant",
                "anyOf": [{ "required": ["hash"] }, { "required": ["key"] }],
            },
        }),
        Member::Limits => object(BOUNDS.iter().map(|(name, bound)| (*name, limit(*bound)))),
        Member::Origins => is("words", "Origins of web pages that may call the gateway."),
        Member::Port => json!({
            "description": "The port to listen on; 0 picks a free one.",
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": 65535 },
                { "type": "string", "pattern": "^([0-9]{1,5}|.*\\$\\{.*)$" },
            ],
        }),
        Member::ToolSearch => json!({
            "description": "Show clients two tools, to search and to call, instead of all tools: true, \
                            false, or the number of tools above which to do so.",
            "anyOf": [{ "type": "boolean" }, { "$ref": "#/$defs/count" }],
        }),
        Member::Unauthenticated => {
            flag("Whether clients on other machines may connect without a key.")
        }
    }
}

fn limit(bound: Bound) -> Value {
    let what = match bound {
        Bound::Bodies => "Bytes of open requests, of all keys together.",
        Bound::BodiesEach => "Bytes of open requests, of one key.",
        Bound::Calls => "Calls that one session may have open.",
        Bound::Connections => "Connections at once.",
        Bound::ConnectionsEach => "Connections of one address at once.",
        Bound::Head => "Bytes of the headers of a request; at least 8192.",
        Bound::Message => "Bytes of one message.",
        Bound::Parked => "Calls that wait for input of their client.",
        Bound::Sessions => "Sessions at once.",
        Bound::Streams => "Streams that one session may hold open.",
        Bound::Unread => {
            "Bytes of messages that clients have not read yet, of all sessions together."
        }
    };
    is("count", what)
}

fn grant() -> Value {
    object(KEY_MEMBERS.iter().map(|(name, member)| {
        let schema = match member {
            AccessMember::Calls => is("count", "Calls that may be open at once."),
            AccessMember::Groups => is("words", "Groups that this key may use."),
            AccessMember::Hash => {
                let hash =
                    json!({ "type": "string", "pattern": "^(sha256:[0-9A-Fa-f]{64}|.*\\$\\{.*)$" });
                let list = json!({ "type": "array", "items": hash });
                let description =
                    "The hash that `switchboard key new` prints; a list while a key is replaced.";
                json!({ "description": description, "anyOf": [hash, list] })
            }
            AccessMember::Key => json!({
                "description": "The key itself, from a variable: ${VAR}.",
                "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/words" }],
            }),
            AccessMember::NotTools => {
                is("words", "Tools that this key must not use, as <server>__<tool>.")
            }
            AccessMember::OnlyTools => {
                is("words", "The only tools that this key may use, as <server>__<tool>.")
            }
            AccessMember::Rate => json!({
                "description": "The rate limit, as calls and a time: 10/s, 60/m, 1000/h.",
                "type": "string",
                "pattern": "^ *[0-9]+ */ *(s|sec|second|m|min|minute|h|hour|d|day) *$",
            }),
            AccessMember::Servers => is("words", "Servers that this key may use."),
            AccessMember::Sessions => is("count", "Sessions and listens that may be open at once."),
        };
        (*name, schema)
    }))
}

fn process() -> Value {
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

fn edits() -> Value {
    let edit = object([
        ("annotations", json!({ "type": "object" })),
        ("description", json!({ "$ref": "#/$defs/text" })),
        ("name", json!({ "type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$" })),
        ("title", json!({ "$ref": "#/$defs/text" })),
    ]);
    let mut edit = edit;
    edit["properties"]["approval_mode"] =
        json!({ "description": "A key of another client. The gateway ignores it." });
    json!({ "type": "object", "additionalProperties": edit })
}

fn text(description: &str) -> Value {
    is("text", description)
}

fn number(description: &str) -> Value {
    json!({ "description": description, "type": "number", "exclusiveMinimum": 0 })
}

fn flag(description: &str) -> Value {
    json!({ "description": description, "type": "boolean" })
}

/// A variable may stand for any part of it.
fn url(description: &str) -> Value {
    let pattern = "^\\s*([Hh][Tt][Tt][Pp][Ss]?://|\\$\\{|\\{env:)";
    json!({ "description": description, "type": "string", "pattern": pattern })
}

#[cfg(test)]
mod tests;
