//! What a client can be asked, told of and remembered for: questions and their answers,
//! subscriptions, and what a client without a session cannot have.

use bytes::Bytes;

use super::revision_in;
use super::{AskedQuestion, LegacyServerHalf, Phase};
use crate::exchange::{Ask, ClientEvent, Exchange, take_number};
use crate::jsonrpc::{Id, Kind, Member, Message, Part};
use crate::method;
use crate::refusal::Refusal;
use crate::watch::Watcher;

/// Questions, and what a client declares that can be asked them.
const DECLARED: [(&str, &str); 3] =
    [(method::ELICIT, "elicitation"), (method::ROOTS, "roots"), (method::SAMPLE, "sampling")];

impl LegacyServerHalf {
    /// Remembers what the client of this greeting can be asked. A server may know it by
    /// the greeting of another client, or heed none.
    ///
    /// Who greets in the stead of a client says what that speaks. It hears nothing
    /// of the answer, so that changes nothing.
    pub(super) fn note_greeting(&mut self, greeting: &Message) {
        let is_declared = |name| greeting.capability(&[name]).is_some_and(Part::is_object);
        let able = DECLARED.iter().filter(|(_, name)| is_declared(name));
        self.able = able.map(|(method, _)| *method).collect();
        if self.bare {
            self.revision = revision_in(greeting);
        }
    }

    /// The server needs input. False if there is nobody to ask, or nobody who can be
    /// asked this.
    #[must_use]
    pub fn ask(&mut self, exchange: Option<Exchange>, ask: Ask, request: &Message) -> bool {
        let is_full = self.asks.len() >= self.most_asks;
        let is_it = |method: &&str| *method == request.method();
        // What we do not know passes.
        let is_able = self.able.iter().any(is_it) || !DECLARED.iter().any(|(it, _)| is_it(it));
        if self.bare || is_full || self.phase == Phase::Ended || !is_able {
            return false;
        }
        let owner = exchange.and_then(|exchange| self.calls.get(&exchange)).map(|call| call.lane);
        let newest = || self.calls.values().next_back().map(|call| call.lane);
        let lane = owner.or_else(|| if self.streams.is_heard() { None } else { newest() });
        let number = take_number(&mut self.next_ask);
        self.asks.insert(number, AskedQuestion { ask, exchange });
        self.streams.send(lane, &request.with_id(&Id::from(number)));
        true
    }

    /// The server does not need the input any more.
    pub fn recall(&mut self, ask: Ask, message: &Message) {
        let mut asked = self.asks.extract_if(|_, asked| asked.ask == ask);
        let Some((number, asked)) = asked.next() else { return };
        let message = message.with(Member::RequestId, number.to_string());
        if message.has(Member::RequestId) {
            let lane = asked.exchange.and_then(|exchange| self.calls.get(&exchange));
            let lane = lane.map(|call| call.lane);
            self.streams.send(lane, &message);
        }
    }

    /// The client will say nothing more: nobody answers what it was asked.
    pub fn handle_silence(&mut self) {
        for (_, asked) in self.asks.drain() {
            let answer = Message::refusal(None, &Refusal::NobodyToAsk);
            self.to_server.push_back(ClientEvent::Supply { ask: asked.ask, answer });
        }
    }

    /// An answer to one of our questions; others are ignored.
    pub(super) fn handle_answer(&mut self, answer: Message) {
        let number = answer.id().and_then(Id::number);
        if let Some(asked) = number.and_then(|number| self.asks.remove(&number)) {
            self.to_server.push_back(ClientEvent::Supply { ask: asked.ask, answer });
        }
    }
}

// The resources that the client has subscribed to.

/// Who watches: here there is only one.
pub(super) const SELF: u64 = 0;

impl LegacyServerHalf {
    /// Whether a resource can be watched, if a request asks for that.
    pub(super) fn has_room_to_watch(&self, request: &Message) -> bool {
        let uri = request.uri().filter(|_| request.method() == method::SUBSCRIBE);
        uri.is_none_or(|uri| self.watched.have_room([&*uri].into_iter(), Watcher::new(SELF, b"")))
    }

    /// Remembers which resources the client wants to hear about: the one that it
    /// asks for now, if it does.
    pub(super) fn note_watch(&mut self, exchange: Exchange, request: &Message) -> Option<Box<str>> {
        match request.method() {
            method::SUBSCRIBE if self.only_watched => {
                let uri = request.uri()?;
                self.watched.ask(&uri, Watcher::new(SELF, b""), exchange.0);
                return Some(uri.into());
            }
            method::UNSUBSCRIBE if self.only_watched => {
                self.watched.remove(&request.uri()?, SELF);
            }
            _ => {}
        }
        None
    }

    /// Whether it is an update of something that only others watch. What lies
    /// beneath a watched resource is watched with it (SUB-13).
    pub(super) fn is_for_others(&self, message: &Message) -> bool {
        if !self.only_watched || message.method() != method::UPDATED {
            return false;
        }
        let watches = |uri: &str| self.watched.uris().any(|watched| covers(watched, uri));
        !message.uri().is_some_and(|uri| watches(&uri))
    }
}

/// Whether `uri` is `watched` or lies beneath it; `file:///ab` is not beneath `file:///a`.
pub fn covers(watched: &str, uri: &str) -> bool {
    uri.strip_prefix(watched).is_some_and(|rest| {
        rest.is_empty() || watched.ends_with('/') || rest.starts_with(['/', '?', '#'])
    })
}

// A client without a session exists for one request and its answer. Whatever would be told
// it later, asked of it, or remembered for it is not offered (GW-11): changes of lists,
// subscriptions, log levels, tasks, questions. The server does not see any of it.

/// Capabilities that are for sessions only: where they stand, and their names.
const OF_SESSIONS: [(&[&str], &[&str]); 4] = [
    (&[], &["logging", "tasks"]),
    (&["prompts"], &["listChanged"]),
    (&["resources"], &["listChanged", "subscribe"]),
    (&["tools"], &["listChanged"]),
];

impl LegacyServerHalf {
    /// The client has no session. To be said before anything else.
    pub fn go_bare(&mut self) {
        self.bare = true;
        self.streams.resumable = false;
    }

    /// Whether the client has no session.
    pub fn is_bare(&self) -> bool {
        self.bare
    }

    /// Why a request makes no sense without a session, if it makes none.
    pub(super) fn needs_session(&self, request: &Message) -> Option<Refusal> {
        let needs = self.bare && method::needs_session(request.method());
        needs.then(|| Refusal::unknown_method(request.method()))
    }

    /// A request without what only a session could be told of.
    pub(super) fn for_server(&self, request: Message) -> Message {
        match request.method() {
            _ if !self.bare || request.payload().is_none() => request,
            method::INITIALIZE => request.with(Member::Capabilities, "{}"),
            method::CALL_TOOL => request.without(Member::Task),
            _ => request,
        }
    }

    /// A welcome as the client is to have it.
    pub(super) fn for_client(&self, welcome: &Message) -> Message {
        let all = welcome.get(Member::Capabilities);
        let Some(all) = all.filter(|_| self.bare && welcome.kind() == Kind::Result) else {
            return welcome.clone();
        };
        let mut all = Bytes::copy_from_slice(all);
        for (path, names) in OF_SESSIONS {
            all = Part::new(&all).without(path, names).unwrap_or_else(|| all.clone());
        }
        welcome.with(Member::Capabilities, all)
    }
}
