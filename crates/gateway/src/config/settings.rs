//! How a gateway is to treat a server: the keys of a server that only we know.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use serde_json::Map;
use switchboard_net::bridge::Children;

use super::reader::Reader;
use super::tree::{KeyValue, Node, Placed, Value};
use crate::catalog;
use crate::credential::may_pass;

/// What a file says of a server, or of all servers that do not say otherwise.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ServerOptions {
    /// Who shares a process with whom; for a URL, who shares a session.
    pub process: Option<Children>,
    /// How long it may take to start and to be greeted.
    pub start: Option<Duration>,
    /// How long it may take to answer a call.
    pub call: Option<Duration>,
    /// How long nobody uses it before it is put to sleep; zero if it stays.
    pub idle: Option<Duration>,
    /// Calls it gets at once.
    pub calls: Option<NonZeroUsize>,
}

/// What clients see of a tool or prompt instead of what its server says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edit {
    /// Another name, before the server's name is put in front.
    pub name: Option<String>,
    /// Another title.
    pub title: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Members to set in its annotations; `null` takes one out.
    pub annotations: Map<String, serde_json::Value>,
}

const PROCESS: &str =
    "write \"shared\", \"per-session\", \"per-user\", \"per-request\" or { \"pool\": 4 }";

/// Processes of one server: a number beyond it is a slip of the pen.
const MAX_POOL: usize = 256;

/// They are read at each connection, and may come later than we do.
pub(super) fn header_files(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for Placed { place, value } in reader.one_or_more((key, node)) {
        let file = reader.path(value);
        if !reader.variables.around.is_literal && !file.exists() {
            let what = format!("there is no file {}", file.display());
            let instead =
                format!("make it before the server is reached, or change {:?}", key.value);
            reader.note(&place, what, instead);
        }
        files.push(file);
    }
    files
}

pub(super) fn process(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> Option<Children> {
    if let Some(pool) = node.get("pool") {
        let count = reader.count((key, pool))?;
        if count.get() > MAX_POOL {
            let what = format!("a pool of {count} is too large");
            reader.error(&pool.place, what, format!("write {MAX_POOL} or less"));
        }
        return Some(Children::Pool(count.get()));
    }
    match node.text() {
        Some("shared") => Some(Children::Shared),
        Some("per-session" | "per_session" | "session") => Some(Children::PerSession),
        Some("per-user" | "per_user" | "user") => Some(Children::PerUser),
        Some("per-request" | "per_request" | "request") => Some(Children::PerRequest),
        Some(other) => {
            let what = format_args!(" says {other:?}, which is no way to share");
            reader.fail((key, node), what, PROCESS)
        }
        None => reader.wrong((key, node), PROCESS),
    }
}

/// A word, or `false` for none.
pub(super) fn prefix(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> Option<String> {
    if let Value::Bool(false) = &node.value {
        return Some(String::new());
    }
    let word = reader.text((key, node))?;
    if !word.is_empty() && catalog::name_prefix(&word) != word {
        let what = format!("{word:?} cannot stand before a name");
        let instead = "use letters, digits, - and single _, 30 at most; or \"\" for nothing";
        reader.error(&node.place, what, instead);
        return None;
    }
    Some(word)
}

/// A time; `false` and 0 are never.
pub(super) fn idle(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> Option<Duration> {
    match &node.value {
        Value::Bool(false) => Some(Duration::ZERO),
        Value::Number(number) if number == "0" => Some(Duration::ZERO),
        _ => reader.duration((key, node)),
    }
}

/// A line for the shell, as Claude Code has it, or a program and its arguments.
pub(super) fn helper(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> Option<Vec<String>> {
    let words = match &node.value {
        Value::List(_) => reader.words((key, node))?,
        _ => shell(reader.text((key, node))?),
    };
    if words.iter().all(|word| word.trim().is_empty()) {
        let instead = "name a program that prints { \"Header\": \"value\" }";
        return reader.fail((key, node), " is empty", instead);
    }
    Some(words)
}

fn shell(line: String) -> Vec<String> {
    let [shell, flag] = if cfg!(windows) { ["cmd", "/C"] } else { ["sh", "-c"] };
    if line.trim().is_empty() { Vec::new() } else { vec![shell.into(), flag.into(), line] }
}

pub(super) fn passed(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> Vec<HeaderName> {
    let mut names = Vec::new();
    for Placed { place, value: word } in reader.placed((key, node)) {
        match word.trim().parse::<HeaderName>() {
            Ok(name) if may_pass(&name) => names.push(name),
            Ok(name) => {
                let what = format!("header {name} of a client is never passed on");
                let instead = "leave it out; what a server needs goes into \"headers\"";
                reader.error(&place, what, instead);
            }
            Err(_) => {
                let what = format!("{word:?} is no name of a header");
                reader.error(&place, what, "use letters, digits and dashes");
            }
        }
    }
    names
}

pub(super) fn edits(
    reader: &mut Reader<'_>,
    (key, node): KeyValue<'_>,
    noun: &str,
) -> BTreeMap<String, Edit> {
    let mut edits = BTreeMap::new();
    let instead = format!("write an object: {{ \"{noun}\": {{ \"description\": \"…\" }} }}");
    let mut given = BTreeSet::new();
    for (name, node) in reader.members((key, node), &instead) {
        let Some(edit) = edit(reader, (name, node)) else { continue };
        // Two things under one name would hide one of them.
        if let (Some(name), Some(at)) = (&edit.name, node.get("name"))
            && !given.insert(name.clone())
        {
            let what = format!("{:?} gives the name {name:?} twice", key.value);
            reader.error(&at.place, what, "give each its own name");
        }
        edits.insert(name.value.clone(), edit);
    }
    edits
}

fn edit(reader: &mut Reader<'_>, (name, node): KeyValue<'_>) -> Option<Edit> {
    let Some(members) = node.table() else {
        let instead = "write an object: { \"name\": \"…\", \"description\": \"…\" }";
        return reader.wrong((name, node), instead);
    };
    let mut edit = Edit::default();
    for (key, node) in members {
        match key.value.as_str() {
            "name" => edit.name = reader.text((key, node)).filter(|name| legal(reader, node, name)),
            "title" => edit.title = reader.text((key, node)),
            "description" => edit.description = reader.text((key, node)),
            "annotations" => {
                let map = node.json().and_then(|json| json.as_object().cloned());
                let instead = "write an object: { \"readOnlyHint\": true }";
                let map = map.or_else(|| reader.wrong((key, node), instead));
                edit.annotations = map.unwrap_or_default();
            }
            // Codex asks its user by it.
            "approval_mode" => {}
            _ => reader.unknown(key, &["name", "title", "description", "annotations"]),
        }
    }
    Some(edit)
}

fn legal(reader: &mut Reader<'_>, node: &Node, name: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let legal = (1..=64).contains(&name.len()) && name.chars().all(is_legal);
    if !legal {
        let what = format!("{name:?} is a name that clients may not take");
        reader.error(&node.place, what, "use letters, digits, _ and -, 64 at most");
    }
    legal
}
