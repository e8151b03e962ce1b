//! The last calls of tools, for whoever asks what became of theirs.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use switchboard_net::face::Face;
use switchboard_proto::moment;

use super::{CallResult, Seen, lock};
use crate::policy;

/// Calls that are remembered, of all clients together.
const MOST: usize = 1024;

/// What is remembered of a call: no arguments, no results, no words of an error.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    id: u128,
    server: Option<Box<str>>,
    tool: Option<Box<str>>,
    at: SystemTime,
    elapsed: Duration,
    outcome: CallResult,
    code: Option<i64>,
}

impl Trace {
    pub(super) fn of(
        call: &Seen,
        outcome: CallResult,
        code: Option<i64>,
        elapsed: Duration,
    ) -> Self {
        let (server, tool) = (call.server.as_deref().map(Into::into), call.offered.clone());
        Self { id: call.trace, server, tool, at: call.at, elapsed, outcome, code }
    }

    fn to_json(&self) -> Value {
        json!({
            "traceId": format!("{:032x}", self.id),
            "server": self.server,
            "tool": self.tool,
            "startedAt": moment::text(self.at),
            "durationMs": u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            "success": self.outcome == CallResult::Ok,
            "outcome": self.outcome.name(),
            "errorCode": self.code,
        })
    }
}

/// The last calls, newest last, each with whose it was.
#[derive(Debug, Default)]
pub(super) struct Recent {
    is_wanted: AtomicBool,
    calls: Mutex<VecDeque<(policy::Mark, Trace)>>,
}

impl Recent {
    /// Whether somebody may ask.
    pub(super) fn want(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Ordering::Relaxed);
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, face: &Face, trace: impl FnOnce() -> Trace) {
        if !self.is_wanted() {
            return;
        }
        let entry = (policy::mark(face), trace());
        let mut calls = lock(&self.calls);
        if calls.len() >= MOST {
            calls.pop_front();
        }
        calls.push_back(entry);
    }

    /// The calls of this client's principal that are part of a trace, newest first.
    pub(super) fn find(&self, face: &Face, id: &str) -> Vec<Value> {
        let Ok(id) = u128::from_str_radix(id, 16) else { return Vec::new() };
        let whose = policy::mark(face);
        let calls = lock(&self.calls);
        let found = calls.iter().rev().filter(|(mark, trace)| *mark == whose && trace.id == id);
        found.map(|(_, trace)| trace.to_json()).collect()
    }
}
