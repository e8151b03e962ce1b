//! How a gateway stands, as JSON, in words that tell no file, address or secret.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Map, Value, json};
use switchboard_net::http::sites::Sites;
use switchboard_net::roster::{Kind, ServerPhase, ServerState};
use switchboard_net::upstream::{LEADS_BACK, Server, Strategy, Target};
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
    let error = state.and_then(|state| state.reason.as_deref());
    let present = fleet.roster.present(&gauges.server);
    let tools = fleet.roster.definitions(Kind::Tools);
    let tools = tools.iter().filter(|tool| tool.server == gauges.server).count();
    let mut server = json!({
        "state": word,
        "error": error.map(class),
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

fn transport(server: &Server) -> &'static str {
    match server.target() {
        Target::Command(_) => "stdio",
        Target::Url { strategy: Strategy::SseOnly, .. } => "sse",
        Target::Url { .. } => "http",
    }
}

/// What kind of error a server stands with. Its own words may name anything.
fn class(error: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if has(&[LEADS_BACK]) {
        return LEADS_BACK.to_owned();
    }
    if let Some((_, status)) = error.split_once("HTTP ") {
        let digits: String = status.chars().take_while(char::is_ascii_digit).collect();
        if digits.len() == 3 {
            return format!("http {digits}");
        }
    }
    let class = if has(&["timeout", "took too long", "within", "in time"]) {
        "timeout"
    } else if has(&["exit", "signal", "Transport closed"]) {
        "ended"
    } else if has(&["MCP error", "protocol version"]) {
        "refused"
    } else if has(&["no file", "no directory", "not found", "permission", "denied", "start"]) {
        "not started"
    } else {
        "unreachable"
    };
    class.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_by_its_kind_and_never_in_its_own_words() {
        for (error, kind) in [
            ("HTTP 401: s3cret", "http 401"),
            ("Request timeout after 30000ms", "timeout"),
            ("no connection to http://s3cret within 10s", "timeout"),
            ("/s3cret/run.sh: exited with status 3", "ended"),
            ("Transport closed", "ended"),
            ("MCP error 1: s3cret", "refused"),
            ("there is no file /s3cret", "not started"),
            ("connection refused by http://s3cret", "unreachable"),
            ("HTTP soon", "unreachable"),
        ] {
            assert_eq!(class(error), kind, "{error}");
        }
    }
}
