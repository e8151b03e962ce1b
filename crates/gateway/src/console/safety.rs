//! Whether tools are what they were, and what they look like: definitions that changed since
//! they were approved, names that look like another server's, characters that nobody sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use switchboard_net::roster::{Definition, ListKind};
use switchboard_proto::Table;
use switchboard_proto::jsonrpc::Part;

use super::sign_in::Viewer;
use super::{ApiError, ApiResult, Console, read_body};
use crate::approval::{Difference, WaitingChange, differences};
use crate::hidden::{is_hidden, look_of};

/// Rows of each kind in one answer.
const MAX_ROWS: usize = 100;

impl Console {
    /// What somebody sees of this, the changes first.
    pub(super) fn safety(&self, viewer: &Viewer) -> Value {
        let approvals = self.gateway.fleet().approvals();
        let mut waiting = approvals.waiting();
        waiting.retain(|it| sees(viewer, &it.server, it.kind, &it.name));
        // What was trusted is worse than what is new.
        waiting.sort_by_key(|it| it.is_new);
        let mut rows: Vec<_> = waiting.iter().take(MAX_ROWS).map(changed_row).collect();
        let definitions = self.seen_definitions(viewer);
        rows.extend(self.lookalikes(viewer, &definitions).into_iter().take(MAX_ROWS));
        rows.extend(definitions.iter().filter_map(hidden_row).take(MAX_ROWS));
        json!({"count": waiting.len(), "isRefusing": approvals.refuses(), "rows": rows})
    }

    /// What servers list of tools and prompts, as far as somebody may know.
    fn seen_definitions(&self, viewer: &Viewer) -> Vec<Definition> {
        let fleet = self.gateway.fleet();
        let running = fleet.running_servers();
        let all = [ListKind::Tools, ListKind::Prompts].map(|kind| fleet.roster.definitions(kind));
        let is_seen = |it: &Definition| {
            let plan = running.get(&it.server).map(|it| &it.plan);
            plan.is_some_and(|plan| plan.filter(it.kind).lets(&it.name()))
                && sees(viewer, &it.server, it.kind, &it.name())
        };
        all.into_iter().flatten().filter(is_seen).collect()
    }

    /// Names that people and models may take for those of another server.
    fn lookalikes(&self, viewer: &Viewer, definitions: &[Definition]) -> Vec<Value> {
        let names = self.gateway.fleet().names();
        let servers: Vec<_> = names.iter().filter(|name| viewer.has_server(name)).collect();
        let mut rows = Vec::new();
        let mut looks: BTreeMap<String, &Arc<str>> = BTreeMap::new();
        for name in &servers {
            if let Some(other) = looks.insert(look_of(name), name) {
                let text = format!("the server is named like {other:?}");
                rows.push(json!({"what": "lookalike", "server": &***name, "text": text}));
            }
        }
        let mut seen: Table<String, (&Definition, String)> = Table::default();
        for definition in definitions.iter().filter(|it| it.kind == ListKind::Tools) {
            let own = definition.name().into_owned();
            // As the gateway itself would name the tool of another server.
            let parts = own.split_once(['.', '/', ':']).or_else(|| own.split_once("__"));
            let of_other = parts.and_then(|(first, _)| looks.get(&look_of(first)));
            let of_other = of_other.filter(|other| ***other != definition.server);
            let is_other = |(it, name): &&(&Definition, String)| {
                it.server != definition.server && *name != own
            };
            let like = seen.get(&look_of(&own)).filter(is_other);
            let like = like.map(|(it, name)| format!("it looks like {name:?} of {:?}", it.server));
            let named_like = of_other.map(|other| format!("it is named like a tool of {other:?}"));
            let text = named_like.or(like);
            if let Some(text) = text {
                rows.push(named_row("lookalike", definition, &text));
            }
            seen.entry(look_of(&own)).or_insert((definition, own));
        }
        rows
    }

    /// What waits for somebody's yes, for those whom it concerns.
    pub(super) fn safety_needs(&self, viewer: &Viewer) -> Vec<Value> {
        let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        self.gateway.fleet().approvals().each_waiting(|server, kind, name| {
            if sees(viewer, server, kind, name) {
                *counts.entry(Arc::clone(server)).or_default() += 1;
            }
        });
        let need = |(server, count): (Arc<str>, usize)| {
            let text = match count {
                1 => "a definition is not the one that was approved".to_owned(),
                many => format!("{many} definitions are not those that were approved"),
            };
            json!({"kind": "tool_changed", "server": &*server, "text": text})
        };
        counts.into_iter().map(need).collect()
    }

    /// Somebody says yes to a definition that they have seen.
    pub(super) async fn approve(&self, viewer: &Viewer, body: &[u8]) -> ApiResult {
        self.may_change(viewer)?;
        let body = read_body(body)?;
        let text = |member: &str| {
            let wrong = || ApiError::bad_request(format!("{member:?} must be a string"));
            body[member].as_str().map(str::to_owned).ok_or_else(wrong)
        };
        let kind = match &*text("kind")? {
            "tool" => ListKind::Tools,
            "prompt" => ListKind::Prompts,
            _ => return Err(ApiError::bad_request("\"kind\" is \"tool\" or \"prompt\"")),
        };
        let change = WaitingChange {
            server: text("server")?,
            kind,
            name: text("name")?,
            digest: text("digest")?,
            is_new: false,
            before: None,
            after: None,
        };
        let failed = |why: std::io::Error| {
            let message = format!("it is not approved, for that cannot be written: {why}");
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
        };
        let WaitingChange { server, name, .. } = &change;
        if !self.gateway.fleet().approve(&change).await.map_err(failed)? {
            let message = format!("{name:?} of {server:?} does not wait in this form any more");
            let error = ApiError::new(StatusCode::PRECONDITION_FAILED, "changed", message);
            return Err(error.hint("look at it again"));
        }
        let (principal, kind) = (viewer.who.name(), kind.noun());
        tracing::info!(principal, server, kind, name, "definition approved in the console");
        Ok(json!({"did": format!("approved {name} of {server}"), "undo": null}))
    }
}

/// Whether somebody may know of this.
fn sees(viewer: &Viewer, server: &str, kind: ListKind, name: &str) -> bool {
    let grant = &viewer.principal.grant;
    viewer.is_whole()
        || grant.has_server(server) && (kind != ListKind::Tools || grant.has_tool(server, name))
}

fn changed_row(change: &WaitingChange) -> Value {
    let WaitingChange { server, kind, name, digest, is_new, before, after } = change;
    let is_known = after.is_some() && (*is_new || before.is_some());
    let changes = differences(before.as_deref(), after.as_deref()).into_iter();
    let changes = changes.map(|Difference { path, before, after }| {
        json!({"path": path, "before": before, "after": after})
    });
    let changes: Vec<_> = changes.filter(|_| is_known).collect();
    let text = match (is_new, is_known) {
        (true, _) => "it is new since the server was first seen",
        (false, true) => "it changed since it was approved",
        (false, false) => "it changed since it was approved; its text was too long to be kept",
    };
    json!({
        "what": if *is_new { "new" } else { "changed" },
        "server": server,
        "kind": kind.noun(),
        "name": name,
        "digest": digest,
        "text": text,
        "changes": changes,
    })
}

fn named_row(what: &str, definition: &Definition, text: &str) -> Value {
    let (server, kind) = (&*definition.server, definition.kind.noun());
    json!({"what": what, "server": server, "kind": kind, "name": definition.name(), "text": text})
}

/// A definition with characters that nobody sees.
fn hidden_row(definition: &Definition) -> Option<Value> {
    // Most are plain: then nothing is read.
    let may_hide = definition.text.iter().any(|byte| *byte == b'\\' || !byte.is_ascii());
    if !may_hide || !hides(&Part::new(&definition.text).value()?) {
        return None;
    }
    Some(named_row("hidden", definition, "it has characters that nobody sees"))
}

fn hides(value: &Value) -> bool {
    match value {
        Value::String(text) => text.chars().any(is_hidden),
        Value::Array(items) => items.iter().any(hides),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.chars().any(is_hidden) || hides(value))
        }
        _ => false,
    }
}
