//! What clients watch at a server.
//!
//! ```text
//!   subscribe ──▶ asked ──its result──▶ watched ──unsubscribe, or its client is gone──▶ not
//!                   └──anything else──▶ not
//! ```
//!
//! What is watched is renewed at a server that was lost; what the server did not
//! take on is not.

use std::time::Instant;

use super::{Call, Legacy, Owner, client};
use crate::client::{CallId, Ticket};
use crate::jsonrpc::{Id, Message};
use crate::method;
use crate::refusal::Refusal;
use crate::watch::Watcher;

impl<T: Ticket> Legacy<T> {
    /// Answers what the server is not asked: a client stops while another goes on,
    /// or wants more than can be watched.
    pub(super) fn answer_watch(&mut self, ticket: &T, request: &Message) -> Option<CallId> {
        match request.method() {
            method::SUBSCRIBE
                if !self.watches.have_room([&*request.uri()?].into_iter(), watcher(ticket)) =>
            {
                Some(self.fail(ticket.clone(), &Refusal::TooManyWatched))
            }
            method::UNSUBSCRIBE if !self.watches.remove(&request.uri()?, ticket.owner()) => {
                let answer = Message::result(&Id::from(0), b"{}");
                self.finish(ticket.clone(), answer);
                Some(CallId::DONE)
            }
            _ => None,
        }
    }

    /// A call goes to the server: does it ask for a resource to be watched?
    pub(super) fn begin_watch(&mut self, id: CallId, watcher: Watcher, request: &Message) {
        if request.method() == method::SUBSCRIBE
            && let Some(uri) = request.uri()
        {
            self.watches.ask(&uri, watcher, id.0);
        }
    }

    /// A call is over: if it asked for a resource, then that is watched now, or not.
    pub(super) fn end_watch(&mut self, id: CallId, call: &Call<Owner<T>>, is_granted: bool) {
        if call.request.method() == method::SUBSCRIBE
            && let Some(ticket) = client(&call.owner)
            && let Some(uri) = call.request.uri()
        {
            self.watches.settle(&uri, ticket.owner(), id.0, is_granted);
        }
    }

    /// Whether one link can watch all of these besides the rest.
    pub(crate) fn can_watch<'a>(
        &self,
        uris: impl Iterator<Item = &'a str>,
        watcher: Watcher,
    ) -> bool {
        self.watches.have_room(uris, watcher)
    }

    /// Has a resource watched as soon as the server is back, though it was lost
    /// before it said whether it would.
    pub(crate) fn watch_later(&mut self, uri: &str, watcher: Watcher) {
        self.watches.add(uri, watcher);
    }

    /// Asks a server that is back for everything that is watched.
    pub(super) fn renew_watches(&mut self, now: Instant) {
        let watched: Vec<Box<str>> = self.watches.uris().map(Into::into).collect();
        for uri in watched {
            self.renew(method::SUBSCRIBE, &uri, now);
        }
    }

    /// A call of our own about a resource; its answer is of no interest.
    pub(super) fn renew(&mut self, method: &str, uri: &str, now: Instant) {
        if self.phase != super::Phase::Ready {
            return;
        }
        let params = serde_json::json!({ "uri": uri }).to_string();
        let request = Message::request(&0.into(), method, Some(params.as_bytes()));
        let (id, message) = self.ledger.begin(Owner::Renewal, &request, now);
        self.send(id.lane(), message);
    }
}

/// Who watches what a call asks for.
pub(super) fn watcher<T: Ticket>(ticket: &T) -> Watcher {
    Watcher::new(ticket.owner(), ticket.principal())
}
