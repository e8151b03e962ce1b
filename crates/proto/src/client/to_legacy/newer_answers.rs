//! What a legacy server answers and logs, in the words of a modern client.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Call, InternalCall, ToLegacy};
use crate::client::Ticket;
use crate::client::across::{TASKS as EXTENSION, identity};
use crate::exchange::{Carrier, HeaderParams, ServerEvent, To};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Kind, Member, Message};
use crate::limits::MAX_SERVER_INFO;
use crate::method;
use crate::project::{self, CacheHints};
use crate::refusal::Refusal;
use crate::revision::{Era, Revision};

impl<T: Ticket> ToLegacy<T> {
    /// Why the headers of a call do not fit its arguments, if they do not (GW-44).
    pub(super) fn mismatch(&self, request: &Message, said: &HeaderParams) -> Option<Refusal> {
        let said = said.as_deref()?;
        let mismatch = self.tools.headers(request, Some(said)).err()?;
        Some(Refusal::HeaderMismatch { what: mismatch.to_string() })
    }

    /// An answer of a legacy server in the words of a modern client (GW-44, GW-58).
    pub(super) fn newer_answer(&self, answer: &Message, method: &str) -> Outcome {
        if answer.kind() == Kind::Error {
            return project::error_for_modern(answer).into();
        }
        let server = self.inner.welcome().and_then(|it| it.get(Member::ServerInfo));
        let server = server.filter(|it| it.len() <= MAX_SERVER_INFO);
        let own = answer.without_meta(&[Member::MetaRelatedTask]);
        let own = project::without_dropped(own.payload_bytes(), method);
        match project::modern(&own, method, server, CacheHints::default()) {
            Ok(result) => answer.with_payload(&result).into(),
            Err(error) => Failure::translation(error.to_string()).into(),
        }
    }

    /// What a legacy server said of itself, as a modern one says it (GW-40).
    pub(super) fn discovery(&self, welcome: &Message) -> Bytes {
        let mut capabilities = welcome.value(Member::Capabilities).unwrap_or_else(|| json!({}));
        if let Some(all) = capabilities.as_object_mut() {
            let takes_tasks =
                all.remove("tasks").is_some_and(|it| !it["requests"]["tools"]["call"].is_null());
            if takes_tasks && self.offers_tasks() {
                all.insert("extensions".to_owned(), json!({EXTENSION: {}}));
            }
        }
        let mut result = json!({
            "supportedVersions": Revision::names(Era::Modern),
            "capabilities": capabilities,
        });
        for member in [Member::Instructions, Member::Meta] {
            if let Some(value) = welcome.value(member).filter(|value| !value.is_null()) {
                result[member.key()] = value;
            }
        }
        let server = welcome.value(Member::ServerInfo).filter(Value::is_object);
        let server = server.unwrap_or_else(identity).to_string();
        let text = result.to_string();
        let dressed = project::modern(
            text.as_bytes(),
            method::DISCOVER,
            Some(server.as_bytes()),
            CacheHints::default(),
        );
        dressed.unwrap_or_else(|_| text.into())
    }
}

// Log records: the session at the server has one level, each request of a client its own (GW-54).

impl<T: Ticket> ToLegacy<T> {
    /// Has the server log as much as any open call wants, if it logs at all (GW-54).
    /// Whether it does is known from its greeting.
    pub(super) fn set_level(&mut self, wanted: Option<usize>, now: Instant) {
        let open = self.calls.values().filter_map(|call| call.level);
        let Some(wanted) = wanted.into_iter().chain(open).min() else { return };
        match self.inner.welcome().map(|welcome| welcome.capability(&["logging"]).is_some()) {
            _ if self.level == Some(wanted) => return,
            Some(false) => return,
            Some(true) => {
                self.level = Some(wanted);
                let params = json!({"level": method::LEVELS[wanted]}).to_string();
                let params = Some(params.as_bytes());
                let request = Message::request(&0.into(), method::SET_LEVEL, params);
                self.inner.open(InternalCall::Level, &request, now);
            }
            None => self.inner.meet(InternalCall::Meet, now),
        }
        self.leveling += 1;
    }

    /// The server has been greeted, so that it can be told what to log; or it has not, and
    /// the calls that waited for that fail.
    pub(super) fn handle_met_for_level(&mut self, outcome: &Outcome, now: Instant) {
        if outcome.result().is_some() {
            self.set_level(None, now);
        } else {
            for number in std::mem::take(&mut self.held) {
                let why = outcome.clone().and_then(|it| self.newer_answer(it, method::INITIALIZE));
                self.finish(number, why, now);
            }
        }
        self.handle_leveled(now);
    }

    /// The server has heard what to log: the calls that want it may begin.
    pub(super) fn handle_leveled(&mut self, now: Instant) {
        self.leveling = self.leveling.saturating_sub(1);
        if self.leveling == 0 {
            for number in std::mem::take(&mut self.held) {
                self.begin(number, now);
            }
        }
    }

    /// A record goes to its call; to the only one that wants any, if it does not say.
    pub(super) fn handle_log(&mut self, to: &To<InternalCall<T>>, record: &Message) {
        let mut wanting = self.calls.iter().filter(|(_, call)| call.level.is_some());
        let number = match to {
            To::Call(InternalCall::Call { number, .. }) => Some(*number),
            _ if self.has_native_asking() => None,
            _ => wanting.next().filter(|_| wanting.next().is_none()).map(|(&number, _)| number),
        };
        let call = number.and_then(|number| self.calls.get(&number));
        if let Some(call) = call.filter(|call| is_wanted(record, call.level)) {
            let to = To::Call(call.ticket.clone());
            self.down.push_back(ServerEvent::Note { to, message: record.clone() });
        }
    }

    /// Over HTTP some servers log on the stream that belongs to no call, and that
    /// may be slower than the answer. After it nothing more can be said.
    pub(super) fn finish_with_logs(&mut self, number: u64, outcome: Outcome, now: Instant) {
        let call = self.calls.get_mut(&number);
        match call.filter(|call| call.level.is_some() && self.carrier == Carrier::Http) {
            Some(call) => call.lingers = Some((outcome, now + LINGER)),
            None => self.finish(number, outcome, now),
        }
    }

    /// Gives the answers that were held back long enough.
    pub(super) fn end_lingering(&mut self, now: Instant) {
        let late = |call: &Call<T>| call.lingers.as_ref().is_some_and(|(_, until)| *until <= now);
        let due = self.calls.iter().filter(|(_, call)| late(call)).map(|(&number, _)| number);
        for number in due.collect::<Vec<_>>() {
            let answer = self.calls.get_mut(&number).and_then(|call| call.lingers.take());
            if let Some((answer, _)) = answer {
                self.finish(number, answer, now);
            }
        }
    }
}

/// How long an answer waits for log records that may have been sent before it.
const LINGER: Duration = Duration::from_millis(50);

/// Whether a call that asked for `least` wants this record.
fn is_wanted(record: &Message, least: Option<usize>) -> bool {
    least.is_some_and(|least| method::is_grave(record, least))
}
