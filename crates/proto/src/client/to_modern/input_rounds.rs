//! Rounds of questions: a server that answers "input required", and a client
//! that takes requests (GW-14).
//!
//! ```text
//!   input_required ──▶ every entry can be asked? ──no──▶ the call fails         (GW-16)
//!                          │ yes: a request for each
//!                          ▼
//!                       waiting ──all answered──▶ the call again, with state    (MRTR-5)
//!                          │ an error: elicitation counts as cancelled,
//!                          └ sampling and roots fail the call: no slot for it   (MRTR-10)
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;

use super::{LegacyClientCall, ToModern};
use crate::client::Ticket;
use crate::client::across::quoted;
use crate::exchange::{Ask, ServerEvent, To};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Id, Kind, Member, Message, Part};
use crate::method;
use crate::project;
use crate::refusal::Refusal;

/// Rounds that one call may take: the SDKs stop at eight or ten.
const MOST_ROUNDS: u32 = 10;

/// Questions of one round.
const MOST_ENTRIES: usize = 64;

/// How long a server that only wants to be asked again is left in peace (MRTR-6).
const PACE: Duration = Duration::from_millis(250);

/// What a call waits for.
#[derive(Debug)]
pub(super) struct InputRound {
    /// To be brought back byte for byte.
    state: Option<Bytes>,
    waiting: BTreeMap<Ask, Entry>,
    answers: Vec<(String, Bytes)>,
    /// When the wait is over, one way or the other.
    pub(super) until: Instant,
}

/// One thing that the server wants to know.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) method: String,
    pub(super) params: Bytes,
}

impl<T: Ticket> ToModern<T> {
    /// The server wants to know something first.
    pub(super) fn begin_round(&mut self, number: u64, answer: &Message, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        call.rounds += 1;
        let rounds = call.rounds;
        let state = answer.get(Member::RequestState).map(Bytes::copy_from_slice);
        let entries = entries(answer);
        if rounds > MOST_ROUNDS || entries.len() > MOST_ENTRIES {
            return self.fail(number, "the server has asked too often");
        }
        let mut round =
            InputRound { state, waiting: BTreeMap::new(), answers: Vec::new(), until: now };
        if entries.is_empty() {
            round.until = now + PACE;
            self.set_round(number, round);
            return;
        }
        round.until = now + self.patience;
        let Some(asked) = self.in_older_words(number, &entries) else {
            let kinds: Vec<_> = entries.iter().map(|entry| entry.method.as_str()).collect();
            let kinds = kinds.join(", ");
            let what = format!("the server needs {kinds}, which this client cannot answer");
            return self.fail(number, &what);
        };
        if self.asks.len() + asked.len() > self.most_asks {
            return self.fail(number, "too many questions are open");
        }
        let Some(to) = self.calls.get(&number).map(|call| call.ticket.clone()) else { return };
        for (entry, params) in entries.into_iter().zip(asked) {
            let ask = Ask(self.next_ask);
            self.next_ask += 1;
            self.asks.insert(ask, number);
            let id = Id::Text(entry.key.as_str().into());
            let request = Message::request(&id, &entry.method, Some(&params));
            round.waiting.insert(ask, entry);
            self.down.push_back(ServerEvent::Ask { to: To::Call(to.clone()), ask, request });
        }
        self.set_round(number, round);
    }

    fn set_round(&mut self, number: u64, round: InputRound) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.round = Some(round);
        }
    }

    /// All entries as the client knows them; none if one of them cannot be asked.
    pub(super) fn in_older_words(&self, number: u64, entries: &[Entry]) -> Option<Vec<Bytes>> {
        let call = self.calls.get(&number)?;
        let session = self.session_of(&call.ticket)?;
        let asked = entries.iter().enumerate().map(|(index, entry)| {
            let id = format!("switchboard-{}", self.next_ask + index as u64);
            let declared = &session.envelope.capabilities;
            project::permits(declared, &entry.method, &entry.params).then_some(())?;
            project::legacy_question(&entry.method, &entry.params, session.revision, &id)
        });
        asked.collect()
    }

    /// A client answers a question.
    pub fn supply(&mut self, ask: Ask, answer: &Message, now: Instant) {
        let Some(number) = self.asks.remove(&ask) else { return };
        if self.update_task(number, ask, answer, now) {
            return self.translate(now);
        }
        let round = self.calls.get_mut(&number).and_then(|call| call.round.as_mut());
        let Some(round) = round else { return };
        let Some(entry) = round.waiting.remove(&ask) else { return };
        match (answer.kind(), entry.method.as_str()) {
            (Kind::Result, _) => round.answers.push((entry.key, answer.payload_bytes())),
            (_, method::ELICIT) => {
                round.answers.push((entry.key, Bytes::from_static(br#"{"action":"cancel"}"#)));
            }
            (_, kind) => {
                let why = answer.error_message();
                let what = format!("the client did not answer {kind}: {why}");
                self.fail(number, &what);
                return;
            }
        }
        if round.waiting.is_empty() {
            self.go_on(number, now);
        }
        self.translate(now);
    }

    /// Nobody is there to answer a question.
    pub fn refuse_ask(&mut self, ask: Ask, now: Instant) {
        self.supply(ask, &Message::refusal(None, &Refusal::NobodyToAsk), now);
    }

    /// The call again, under another id, with what the server asked for (MRTR-5).
    fn go_on(&mut self, number: u64, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let Some(round) = call.round.take() else { return };
        let mut request = call.request.clone();
        if let Some(state) = round.state {
            request = request.with(Member::RequestState, state);
        }
        if !round.answers.is_empty() {
            let answers = round
                .answers
                .iter()
                .map(|(key, answer)| [quoted(key).as_bytes(), b":", answer].concat());
            let answers = answers.collect::<Vec<_>>().join(&b","[..]);
            let answers = [b"{", answers.as_slice(), b"}"].concat();
            request = request.with(Member::InputResponses, answers);
        }
        self.begin(number, Some(&request), now);
    }

    /// Goes on with calls whose server wants to be asked again, and gives up on
    /// clients that do not answer.
    pub(super) fn end_late_rounds(&mut self, now: Instant) {
        let is_late =
            |call: &LegacyClientCall<T>| call.round.as_ref().is_some_and(|it| it.until <= now);
        let late = self.calls.iter().filter(|(_, call)| is_late(call));
        for number in late.map(|(&number, _)| number).collect::<Vec<_>>() {
            let round = self.calls.get(&number).and_then(|call| call.round.as_ref());
            if round.is_some_and(|round| round.waiting.is_empty()) {
                self.go_on(number, now);
            } else {
                self.fail(number, "the client did not answer in time");
            }
        }
    }

    /// What was asked is not wanted any more.
    pub(super) fn recall_round(&mut self, call: &LegacyClientCall<T>) {
        let rounds = call.round.iter().flat_map(|round| round.waiting.keys());
        for &ask in rounds.chain(call.tasking.asked()) {
            self.asks.remove(&ask);
            let message = Message::notification(method::CANCELLED, Some(b"{\"requestId\":0}"));
            let to = To::Call(call.ticket.clone());
            self.down.push_back(ServerEvent::Recall { to, ask, message });
        }
    }

    /// The call cannot go on: models read a failed result, others an error (GW-16).
    pub(super) fn fail(&mut self, number: u64, what: &str) {
        let Some(call) = self.calls.get(&number) else { return };
        let outcome: Outcome = if call.request.method() == method::CALL_TOOL {
            let content = json!([{"type": "text", "text": what}]);
            let result = json!({"content": content, "isError": true}).to_string();
            Message::result(&Id::from(0), result.as_bytes()).into()
        } else {
            Failure::translation(what).into()
        };
        self.finish(number, outcome);
    }
}

/// What a result, or the state of a task, asks for.
pub(super) fn entries(answer: &Message) -> Vec<Entry> {
    let requests = answer.part(Member::InputRequests).into_iter().flat_map(Part::members);
    let entry = |(key, request): (String, Part<'_>)| Entry {
        key,
        method: request.string("method").unwrap_or_default().into_owned(),
        params: Bytes::copy_from_slice(request.get(&["params"]).map_or(b"{}", Part::text)),
    };
    requests.map(entry).collect()
}
