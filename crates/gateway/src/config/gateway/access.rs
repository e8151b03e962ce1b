//! Reads who may come in, and what they may do.

use std::sync::Arc;

use super::{Anonymous, Granted, Placed, members, names};
use crate::config::key::find;
use crate::config::reader::Reader;
use crate::config::tree::{Key, Node, Value};
use crate::config::{Problem, Weight};
use crate::policy::{KeyHash, MIN_KEY, Principal};

/// What a member of a key, or of `anonymous`, says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::config) enum Member {
    Calls,
    Groups,
    Hash,
    Key,
    NotTools,
    OnlyTools,
    Rate,
    Servers,
    Sessions,
}

/// The members of a key; `snake_case` is as good, for TOML.
pub(in crate::config) const MEMBERS: &[(&str, Member)] = &[
    ("excludeTools", Member::NotTools),
    ("groups", Member::Groups),
    ("hash", Member::Hash),
    ("includeTools", Member::OnlyTools),
    ("key", Member::Key),
    ("maxConcurrency", Member::Calls),
    ("maxSessions", Member::Sessions),
    ("rateLimit", Member::Rate),
    ("servers", Member::Servers),
];

const NEW: &str = "make one with: switchboard key new";

/// Everybody with a key, by name.
pub(super) fn keys(
    reader: &mut Reader<'_>,
    key: &Key,
    node: &Node,
    granted: &mut Vec<Placed<Granted>>,
) -> Vec<Placed<Arc<Principal>>> {
    let mut keys: Vec<Placed<Arc<Principal>>> = Vec::new();
    for (name, node) in members(reader, key, node) {
        let before = reader.problems.len();
        let mut principal = principal(reader, name, node, granted);
        principal.name.clone_from(&name.text);
        if name.text.is_empty() {
            let what = "a key has no name".to_owned();
            reader.error(&name.place, what, "name whoever has it: it is shown in logs");
        }
        if keys.iter().any(|other| other.value.name == principal.name) {
            let what = format!("key {:?} is there twice; the first one counts", name.text);
            reader.error(&name.place, what, "give each its own name");
            continue;
        }
        if principal.keys.is_empty() && reader.problems.len() == before {
            let what = format!("key {:?} has no hash", name.text);
            reader.error(&name.place, what, format!("add \"hash\": \"sha256:…\"; {NEW}"));
        }
        if reader.problems[before..].iter().any(|problem| problem.weight == Weight::Error) {
            // What was to be kept from them cannot be told.
            principal.keys.clear();
        }
        let same = |other: &Placed<Arc<Principal>>| {
            other.value.keys.iter().any(|key| principal.keys.contains(key))
        };
        if let Some(other) = keys.iter().find(|other| same(other)) {
            let what = format!("{:?} has the same key as {:?}", name.text, other.value.name);
            reader.error(&name.place, what, NEW);
        }
        keys.push(Placed { place: name.place.clone(), value: Arc::new(principal) });
    }
    keys
}

/// What clients without a key may use: everything, nothing, or a grant.
pub(super) fn anonymous(
    reader: &mut Reader<'_>,
    key: &Key,
    node: &Node,
    granted: &mut Vec<Placed<Granted>>,
) -> Anonymous {
    match &node.value {
        Value::Bool(true) => Anonymous::Granted(Arc::default()),
        Value::Bool(false) => Anonymous::Nobody,
        Value::Table(_) => {
            let before = reader.problems.len();
            let principal = principal(reader, key, node, granted);
            if reader.problems.len() > before {
                return Anonymous::Nobody;
            }
            if !principal.keys.is_empty() {
                let what = "who is anonymous has no key".to_owned();
                reader.error(&node.place, what, "leave the key out, or put it into \"keys\"");
            }
            Anonymous::Granted(Arc::new(principal))
        }
        _ => {
            reader.wrong(key, node, "write true, false, or { \"servers\": [\"…\"] }");
            Anonymous::Nobody
        }
    }
}

fn principal(
    reader: &mut Reader<'_>,
    key: &Key,
    node: &Node,
    granted: &mut Vec<Placed<Granted>>,
) -> Principal {
    let mut principal = Principal::default();
    for (key, node) in members(reader, key, node) {
        let Some(member) = find(MEMBERS, &key.text) else {
            reader.unknown(key, &names(MEMBERS));
            continue;
        };
        let grant = &mut principal.grant;
        match member {
            Member::Calls => principal.calls = reader.count(key, node).map(usize::from),
            Member::Groups => {
                grant.groups = Some(names_in(reader, key, node, Granted::Group, granted));
            }
            Member::Hash => principal.keys.extend(hashes(reader, key, node)),
            Member::Key => principal.keys.extend(in_clear(reader, key, node)),
            Member::NotTools => grant.tools.never = reader.words(key, node).unwrap_or_default(),
            Member::OnlyTools => grant.tools.only = reader.words(key, node),
            Member::Rate => {
                let rate = reader.scalar(key, node).map(|text| text.parse());
                match rate.transpose() {
                    Ok(rate) => principal.rate = rate,
                    Err(bad) => {
                        let what = format!("{:?}: {bad}", key.text);
                        reader.error(&node.place, what, "write \"60/m\" for one call a second");
                    }
                }
            }
            Member::Servers => {
                grant.servers = Some(names_in(reader, key, node, Granted::Server, granted));
            }
            Member::Sessions => principal.sessions = reader.count(key, node).map(usize::from),
        }
    }
    principal
}

/// The names in a list; they are looked up when all files are read.
fn names_in(
    reader: &mut Reader<'_>,
    key: &Key,
    node: &Node,
    what: fn(String) -> Granted,
    granted: &mut Vec<Placed<Granted>>,
) -> Vec<String> {
    let mut names = Vec::new();
    for Placed { place, value } in reader.placed(key, node) {
        granted.push(Placed { place, value: what(value.clone()) });
        names.push(value);
    }
    names
}

fn hashes(reader: &mut Reader<'_>, key: &Key, node: &Node) -> Vec<KeyHash> {
    let mut hashes = Vec::new();
    for Placed { place, value } in reader.one_or_more(key, node) {
        match value.parse() {
            Ok(hash) => hashes.push(hash),
            Err(bad) => reader.error(&place, format!("{:?}: {bad}", key.text), NEW),
        }
    }
    hashes
}

/// Keys that a variable holds. In the file itself everybody reads them.
fn in_clear(reader: &mut Reader<'_>, key: &Key, node: &Node) -> Vec<KeyHash> {
    if node.text().is_some_and(|text| !text.contains("${")) {
        let what = format!("{:?} is in the file for everybody to read", key.text);
        let instead = "write \"hash\": \"sha256:…\", or \"key\": \"${VAR}\"";
        reader.problems.push(Problem::note(&node.place, what, instead));
    }
    let mut hashes = Vec::new();
    for Placed { place, value } in reader.one_or_more(key, node) {
        if KeyHash::is_weak(&value) {
            let what = format!("{:?} has fewer than {MIN_KEY} characters", key.text);
            reader.error(&place, what, NEW);
        }
        hashes.push(KeyHash::compute(value.trim().as_bytes()));
    }
    hashes
}
