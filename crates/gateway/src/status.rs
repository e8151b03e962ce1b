//! How a gateway stands, as JSON, in words that tell no file, address or secret.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Map, Value, json};
use switchboard_net::bridge::Bridge;
use switchboard_net::client::Client;
use switchboard_net::connection::ClientConnection;
use switchboard_net::http::site::{ConnectedClient, Site, Sites};
use switchboard_net::roster::{ListKind, ServerPhase, ServerState};
use switchboard_net::upstream::{ServerTarget, Strategy, Target};
use switchboard_proto::failure::Failure;
use switchboard_proto::revision::{Era, Revision};

use crate::fleet::Fleet;
use crate::policy;

/// How everything stands.
pub fn status(fleet: &Fleet, sites: &Sites) -> Value {
    let states: BTreeMap<_, _> = fleet.states().into_iter().collect();
    let all = fleet.running_servers();
    let servers = all.iter().map(|(name, running)| {
        (name.to_string(), server(fleet, name, &running.bridge, states.get(name)))
    });
    let servers: Map<_, _> = servers.collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptimeSeconds": fleet.began.elapsed().as_secs(),
        "servers": servers,
        "sessions": sessions(&sites.each()),
    })
}

fn server(fleet: &Fleet, name: &str, bridge: &Bridge, state: Option<&ServerState>) -> Value {
    let word = state_word(fleet, name, state);
    let state = state.filter(|_| word != "personal");
    let error = state.and_then(|state| state.reason.as_ref());
    let present = fleet.roster.present(name);
    let tools = fleet.roster.definitions(ListKind::Tools);
    let tools = tools.iter().filter(|tool| &*tool.server == name).count();
    let mut server = json!({
        "state": word,
        "error": error.map(Failure::summary),
        "errorKind": error.map(Failure::kind),
        "era": present.as_ref().map(|client| era_name(client.era())),
        "revision": present.as_ref().map(Client::revision),
        "transport": transport(bridge.server()),
        "calls": bridge.calls(),
        "callsTotal": bridge.server().traffic().called(),
        "queued": bridge.queued(),
        "children": bridge.server().traffic().children(),
        "restarts": bridge.server().traffic().restarted(),
        "tools": tools,
    });
    if bridge.server().fetch().is_some_and(|fetch| fetch.insecure_host().is_some()) {
        server["insecure"] = true.into();
    }
    if let Some(people) = fleet.ready_people(name) {
        server["people"] = people.into();
    }
    if let Some(next) = state.and_then(|state| state.next_attempt) {
        let wait = next.saturating_duration_since(Instant::now());
        server["nextAttemptMs"] = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).into();
    }
    server
}

/// How a server stands, in a word.
pub(crate) fn state_word(fleet: &Fleet, name: &str, state: Option<&ServerState>) -> &'static str {
    match state.map(|state| state.phase) {
        _ if state.is_some_and(|state| fleet.is_open_to_people(name, state)) => "personal",
        Some(ServerPhase::Ready) => "ready",
        Some(ServerPhase::Retrying) => "retrying",
        Some(ServerPhase::Failed) => "failed",
        Some(ServerPhase::Sleeping) => "asleep",
        _ => "starting",
    }
}

/// An era for people and scripts.
pub fn era_name(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

/// How a server is reached, in a word.
pub(crate) fn transport(server: &ServerTarget) -> &'static str {
    match server.target() {
        Target::Command(_) => "stdio",
        Target::Url { strategy: Strategy::SseOnly, .. } => "sse",
        Target::Url { .. } => "http",
    }
}

/// What those are called who do not say who they are.
const ANONYMOUS: &str = "anonymous";

/// Sessions that are shown one by one: more than anybody reads.
const MAX_SESSIONS: usize = 200;

/// How everything stands with clients.
fn sessions(sites: &[Site]) -> Value {
    let mut principals: BTreeMap<String, usize> = BTreeMap::new();
    let mut paths = Map::new();
    for site in sites {
        let open = site.sessions();
        if open > 0 {
            paths.insert(site.options().path.clone(), open.into());
        }
        for client in site.clients() {
            *principals.entry(who(&client)).or_default() += 1;
        }
    }
    // The busiest first: those with most calls, then those that were used last.
    let mut busiest: Vec<_> = sites.iter().flat_map(Site::seen).collect();
    busiest.sort_by_cached_key(|seen| (Reverse(seen.client.owed()), seen.client.quiet()));
    busiest.truncate(MAX_SESSIONS);
    let sum = |of: fn(&Site) -> usize| -> usize { sites.iter().map(of).sum() };
    let streams: u64 = sites.first().map_or(0, |site| site.options().tally.streams());
    json!({
        "count": sum(Site::sessions),
        "listens": sum(Site::listens),
        "streams": streams,
        "parked": sum(Site::parked),
        "paths": paths,
        "principals": principals,
        "list": busiest.iter().map(row).collect::<Vec<_>>(),
    })
}

fn who(client: &ClientConnection) -> String {
    policy::who(client).unwrap_or_else(|| ANONYMOUS.to_owned())
}

/// A client that is connected.
pub(crate) fn row(ConnectedClient { client, transport, path }: &ConnectedClient) -> Value {
    let said = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(escaped);
    let intro = client.intro();
    json!({
        // A modern client that listens has none.
        "session": client.session().filter(|_| client.phase().is_some()),
        "principal": who(client),
        "client": said(intro.map(|it| &*it.name)),
        "version": said(intro.map(|it| &*it.version)),
        "era": era_name(client.era()),
        "revision": client.revision().map(Revision::as_str),
        "transport": transport,
        "path": &**path,
        "ageSeconds": client.age().as_secs(),
        "idleSeconds": client.quiet().as_secs(),
        "calls": client.owed(),
        "streams": client.streams(),
    })
}

/// Words of a stranger, in which nothing is left that drives a terminal or turns
/// the text around it.
fn escaped(text: &str) -> String {
    let escaped = text.chars().map(|character| match character {
        hidden if is_hidden(hidden) => hidden.escape_unicode().to_string(),
        plain => plain.to_string(),
    });
    escaped.collect()
}

/// Whether a terminal shows a character as nothing, takes it for a command or a new line, or
/// shows others the other way round because of it.
pub fn is_hidden(character: char) -> bool {
    let has_no_shape = matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    has_no_shape || character.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_drive_a_terminal_or_turn_the_text_around_it() {
        assert_eq!(escaped("a\u{1b}[2J\nb\u{202e}c é 漢"), "a\\u{1b}[2J\\u{a}b\\u{202e}c é 漢");
        assert_eq!(escaped("\u{9b}\u{200b}\u{2066}"), "\\u{9b}\\u{200b}\\u{2066}");
    }
}
