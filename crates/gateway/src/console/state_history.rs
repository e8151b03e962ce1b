//! How each server stood in the past: what it did, when, and why.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

use serde_json::{Value, json};
use switchboard_net::OwnedTask;
use switchboard_net::roster::{Change, Changes, ServerState};
use switchboard_proto::failure::Failure;
use switchboard_proto::moment;

use crate::fleet::Fleet;
use crate::lock;
use crate::status::state_word;

/// States of one server that are kept.
const MAX_STATES: usize = 64;

/// The states of all servers, by name.
#[derive(Default)]
pub(super) struct StateHistory {
    servers: Mutex<BTreeMap<Arc<str>, VecDeque<PastState>>>,
}

#[derive(Clone)]
struct PastState {
    at: SystemTime,
    word: &'static str,
    reason: Option<(String, &'static str)>,
}

impl StateHistory {
    /// Begins with how the servers stand, and follows what they do.
    pub(super) fn start(fleet: &Arc<Fleet>) -> (Arc<Self>, OwnedTask) {
        let history = Arc::new(Self::default());
        let changes = fleet.roster.changes();
        history.look(fleet);
        let following = follow(Arc::downgrade(&history), Arc::downgrade(fleet), changes);
        (history, OwnedTask::spawn(following))
    }

    /// Looks at all servers; those that are gone are forgotten.
    fn look(&self, fleet: &Fleet) {
        let states = fleet.states();
        lock(&self.servers).retain(|name, _| states.iter().any(|(there, _)| there == name));
        for (name, state) in &states {
            self.add(fleet, name, state);
        }
    }

    fn add(&self, fleet: &Fleet, name: &Arc<str>, state: &ServerState) {
        let word = state_word(fleet, name, Some(state));
        let reason = state.reason.as_ref().filter(|_| word != "personal");
        let reason = reason.map(|reason: &Failure| (reason.summary(), reason.kind()));
        let mut servers = lock(&self.servers);
        let states = servers.entry(Arc::clone(name)).or_default();
        let is_same = |last: &PastState| last.word == word && last.reason == reason;
        if states.front().is_some_and(is_same) {
            return;
        }
        states.push_front(PastState { at: SystemTime::now(), word, reason });
        states.truncate(MAX_STATES);
    }

    /// When the present state of a server began.
    pub(super) fn since(&self, name: &str) -> Option<String> {
        let servers = lock(&self.servers);
        Some(moment::text(servers.get(name)?.front()?.at))
    }

    /// The states of a server, newest first.
    pub(super) fn of(&self, name: &str) -> Vec<Value> {
        let servers = lock(&self.servers);
        let states = servers.get(name).into_iter().flatten();
        let row = |PastState { at, word, reason }: &PastState| {
            json!({
                "at": moment::text(*at),
                "state": word,
                "error": reason.as_ref().map(|(words, _)| words),
                "errorKind": reason.as_ref().map(|(_, kind)| kind),
            })
        };
        states.map(row).collect()
    }
}

async fn follow(history: Weak<StateHistory>, fleet: Weak<Fleet>, mut changes: Changes) {
    while let Some(change) = changes.next().await {
        let (Some(history), Some(fleet)) = (history.upgrade(), fleet.upgrade()) else { return };
        match change {
            Change::State { server, state } => history.add(&fleet, &server, &state),
            Change::Missed | Change::Removed { .. } => history.look(&fleet),
            _ => {}
        }
    }
}
