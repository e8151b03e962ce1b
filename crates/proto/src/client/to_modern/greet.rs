//! A handshake with a server that has none.

use std::time::Instant;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::answer::older_answer;
use super::{Errand, Session, ToModern};
use crate::client::across::{Envelope, identity, modern_capabilities, welcome_within_bounds};
use crate::client::{CallId, Ticket};
use crate::exchange::Down;
use crate::failure::Outcome;
use crate::jsonrpc::{Member, Message};
use crate::method::{self, meta};
use crate::refusal::Refusal;
use crate::revision::{Era, Revision};

impl Session {
    pub(super) fn of(hello: &Message) -> Self {
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
        self.sessions.insert(ticket.owner(), Session::of(request));
        if let Some(discovered) = self.discovered.clone() {
            return self.welcome(ticket, &discovered);
        }
        self.greeters.push(ticket);
        if !std::mem::replace(&mut self.asking, true) {
            let question = Message::request(&0.into(), method::DISCOVER, Some(b"{}"));
            let question = Envelope::ours().put_on(&question);
            self.inner.open(Errand::Discover, &question, &None, now);
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
                self.down.push_back(Down::Finish { to, outcome: outcome.clone() });
            }
            return;
        };
        self.discovered = Some(answer.clone());
        for ticket in greeters {
            self.welcome(ticket, answer);
        }
        if self.ear.ready {
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
