//! What a modern server says and answers, in the words of a legacy client, its handshake
//! included.

use std::time::Instant;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{ClientSession, InternalCall, ToModern};
use crate::client::across::{
    Envelope, identity, modern_capabilities, unmarked, welcome_within_bounds,
};
use crate::client::{CallId, Ticket};
use crate::exchange::{ServerEvent, To};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Kind, Member, Message};
use crate::method::{self, meta};
use crate::project;
use crate::refusal::{Refusal, code};
use crate::revision::{Era, Revision};

impl<T: Ticket> ToModern<T> {
    /// Something on the way to an answer.
    pub(super) fn handle_note(&mut self, number: u64, ticket: T, message: Message) {
        if message.method() == method::PROGRESS {
            let Some(call) = self.calls.get_mut(&number) else { return };
            let value = message.get(Member::Progress);
            let value = value.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
            if value.is_some_and(|value: f64| call.progress.is_some_and(|last| value <= last)) {
                return;
            }
            call.progress = value.or(call.progress);
        }
        let message =
            if method::is_for_all(message.method()) { unmarked(&message) } else { message };
        self.down.push_back(ServerEvent::Note { to: To::Call(ticket), message });
    }

    /// The server answered a call.
    pub(super) fn handle_answer(&mut self, number: u64, answer: &Message, now: Instant) {
        if self.handle_task_answer(number, answer, now) || self.try_as_task(number, answer, now) {
            return;
        }
        let Some(call) = self.calls.get(&number) else { return };
        let method = call.request.method();
        match answer.result_type().as_deref() {
            Some("input_required") if method::may_ask(method) => {
                self.begin_round(number, answer, now);
            }
            Some("task") if call.tasking.declares() => self.handle_created(number, answer, now),
            None if answer.error_code() == Some(code::MISSING_CAPABILITY) => {
                // It was told all that this client declared (GW-29).
                self.fail(number, &answer.error_message());
            }
            None | Some("complete") if method == method::CALL_TOOL => {
                self.finish_tool(number, answer, now);
            }
            None | Some("complete") => {
                let older = self.older(&call.ticket, answer, method);
                let method = method.to_owned();
                self.learn_tools(&method, answer);
                self.finish(number, older);
            }
            Some(other) => {
                let what = format!("the server answered with an unknown resultType, {other:?}");
                self.finish(number, Failure::translation(what));
            }
        }
    }

    /// A call is over.
    pub(super) fn finish(&mut self, number: u64, outcome: impl Into<Outcome>) {
        if let Some(call) = self.calls.remove(&number) {
            self.recall_round(&call);
            self.down.push_back(ServerEvent::Finish { to: call.ticket, outcome: outcome.into() });
        }
    }

    /// An answer as this client reads it.
    fn older(&self, ticket: &T, answer: &Message, method: &str) -> Outcome {
        let outcome = older_answer(answer, method, self.revision_of(ticket), false);
        let lists = method == method::LIST_TOOLS && self.offers_tasks(ticket);
        match outcome.result().filter(|_| lists) {
            Some(list) => super::extension_tasks::may_be_tasks(list).into(),
            None => outcome,
        }
    }
}

/// An answer of a modern server in the words of a legacy client (GW-29, GW-70);
/// `wrapped` if that of a tool whose structure its client expects so.
pub(super) fn older_answer(
    answer: &Message,
    method: &str,
    revision: Revision,
    wrapped: bool,
) -> Outcome {
    if answer.kind() == Kind::Error {
        return project::error_for_legacy(answer, method).into();
    }
    let own = answer.without_meta(&[Member::MetaServer]);
    match project::legacy(own.payload_bytes(), method, revision, wrapped) {
        Ok(result) => answer.with_payload(&result).into(),
        Err(error) => Failure::translation(error.to_string()).into(),
    }
}

// The handshake with a server that has none.

impl ClientSession {
    pub(super) fn greet(hello: &Message) -> Self {
        let asked = hello.protocol_version().unwrap_or_default();
        // Never a modern one (NEG-11).
        let known = Revision::parse(&asked).filter(|revision| revision.era() == Era::Legacy);
        let revision = known.unwrap_or(Revision::NEWEST_LEGACY);
        let client = hello.part(Member::ClientInfo).filter(|it| it.is_object());
        let envelope = Envelope {
            capabilities: modern_capabilities(hello, revision),
            client: client.map(|it| Bytes::copy_from_slice(it.text())),
            level: None,
        };
        Self { revision, envelope }
    }
}

impl<T: Ticket> ToModern<T> {
    /// A client says hello: we know the answer, or ask the server about itself.
    pub(super) fn greet(&mut self, ticket: T, request: &Message, now: Instant) -> CallId {
        if self.greeters.len() >= self.most_calls.saturating_mul(4) {
            return self.refuse(ticket, Refusal::TooManyCalls);
        }
        self.sessions.insert(ticket.owner(), ClientSession::greet(request));
        if let Some(discovered) = self.discovered.clone() {
            return self.welcome(ticket, &discovered);
        }
        self.greeters.push(ticket);
        if !std::mem::replace(&mut self.asking, true) {
            let question = Message::request(&0.into(), method::DISCOVER, Some(b"{}"));
            let question = Envelope::ours().put_on(&question);
            self.inner.open(InternalCall::Meet, &question, &None, now);
        }
        CallId::DONE
    }

    pub(super) fn handle_discovered(&mut self, outcome: Outcome, now: Instant) {
        let outcome = outcome.and_then(|it| welcome_within_bounds(it).cloned().into());
        self.asking = false;
        let greeters = std::mem::take(&mut self.greeters);
        let Some(answer) = outcome.result() else {
            let older = |it: &Message| older_answer(it, method::DISCOVER, Revision::ASSUMED, false);
            let outcome = outcome.and_then(older);
            for to in greeters {
                self.sessions.remove(&to.owner());
                self.down.push_back(ServerEvent::Finish { to, outcome: outcome.clone() });
            }
            return;
        };
        self.discovered = Some(answer.clone());
        for ticket in greeters {
            self.welcome(ticket, answer);
        }
        if self.listening.ready {
            self.listen_anew(now);
        }
    }

    /// The answer to `initialize`, from what the server says of itself (GW-10).
    fn welcome(&mut self, ticket: T, discovered: &Message) -> CallId {
        let mut result = Map::new();
        let version = self.revision_of(&ticket).as_str();
        result.insert("protocolVersion".to_owned(), version.into());
        let mut capabilities = discovered.value(Member::Capabilities).unwrap_or_else(|| json!({}));
        if let Some(all) = capabilities.as_object_mut() {
            all.retain(|name, _| !matches!(name.as_str(), "extensions" | "tasks"));
            if self.offers_tasks(&ticket) {
                let requests = json!({"tools": {"call": {}}});
                let tasks = json!({"cancel": {}, "list": {}, "requests": requests});
                all.insert("tasks".to_owned(), tasks);
            }
        }
        result.insert("capabilities".to_owned(), capabilities);
        let about = discovered.value(Member::Meta);
        let mut about = about.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        let server = about.remove(meta::SERVER).filter(Value::is_object);
        result.insert("serverInfo".to_owned(), server.unwrap_or_else(identity));
        if !about.is_empty() {
            result.insert("_meta".to_owned(), about.into());
        }
        if let Some(instructions) = discovered.value(Member::Instructions) {
            result.insert("instructions".to_owned(), instructions);
        }
        self.answer(ticket, json!(result).to_string().as_bytes())
    }

    /// Which log records a client wants, from its next call on (GW-20).
    pub(super) fn set_level(&mut self, ticket: T, request: &Message) -> CallId {
        let level = request.log_level().unwrap_or_default();
        if method::severity(&level).is_none() {
            let what = "params.level must be the name of a level".to_owned();
            return self.refuse(ticket, Refusal::BadParams { what });
        }
        if self.discovered.as_ref().is_some_and(|it| it.capability(&["logging"]).is_none()) {
            let method = method::SET_LEVEL.to_owned();
            return self.refuse(ticket, Refusal::UnknownMethod { method });
        }
        if let Some(session) = self.sessions.get_mut(&ticket.owner()) {
            session.envelope.level = Some(level.into());
        }
        self.answer(ticket, b"{}")
    }
}
