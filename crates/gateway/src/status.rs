//! How a gateway stands, as JSON, in words that tell no file, address or secret.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Map, Value, json};
use switchboard_net::http::site::Sites;
use switchboard_net::roster::{ListKind, ServerPhase, ServerState};
use switchboard_net::upstream::{ServerTarget, Strategy, Target};
use switchboard_proto::failure::Failure;
use switchboard_proto::revision::Era;

use crate::fleet::{Fleet, Gauges};

mod session;

/// How everything stands.
pub fn status(fleet: &Fleet, sites: &Sites) -> Value {
    let all = fleet.gauges();
    let states: BTreeMap<_, _> = fleet.states().into_iter().collect();
    let servers: Map<_, _> = all
        .iter()
        .map(|gauges| {
            (gauges.server.to_string(), server(fleet, gauges, states.get(&gauges.server)))
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptimeSeconds": fleet.tap().age().as_secs(),
        "servers": servers,
        "sessions": session::sessions(&sites.each()),
    })
}

fn server(fleet: &Fleet, gauges: &Gauges, state: Option<&ServerState>) -> Value {
    let is_personal = |state: &&ServerState| fleet.is_open_to_people(&gauges.server, state);
    let word = match state.map(|state| state.phase) {
        _ if state.as_ref().is_some_and(is_personal) => "personal",
        Some(ServerPhase::Ready) => "ready",
        Some(ServerPhase::Retrying) => "retrying",
        Some(ServerPhase::Failed) => "failed",
        Some(ServerPhase::Sleeping) => "asleep",
        _ => "starting",
    };
    let state = state.filter(|state| !is_personal(state));
    let error = state.and_then(|state| state.reason.as_ref());
    let present = fleet.roster.present(&gauges.server);
    let tools = fleet.roster.definitions(ListKind::Tools);
    let tools = tools.iter().filter(|tool| tool.server == gauges.server).count();
    let mut server = json!({
        "state": word,
        "error": error.map(Failure::summary),
        "errorKind": error.map(Failure::kind),
        "era": present.as_ref().map(|client| era(client.era())),
        "transport": fleet.server(&gauges.server).as_ref().map(transport),
        "calls": gauges.calls,
        "queued": gauges.queued,
        "children": gauges.traffic.children(),
        "restarts": gauges.traffic.restarted(),
        "tools": tools,
    });
    if let Some(people) = fleet.ready_people(&gauges.server) {
        server["people"] = people.into();
    }
    if let Some(next) = state.and_then(|state| state.next_attempt) {
        let wait = next.saturating_duration_since(Instant::now());
        server["nextAttemptMs"] = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).into();
    }
    server
}

fn era(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

fn transport(server: &ServerTarget) -> &'static str {
    match server.target() {
        Target::Command(_) => "stdio",
        Target::Url { strategy: Strategy::SseOnly, .. } => "sse",
        Target::Url { .. } => "http",
    }
}
