//! What it takes to greet a server.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};

use switchboard_net::bridge::Bridge;
use switchboard_proto::exchange::{Exchange, Said};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;

use super::{Leg, MOST_WATCHED, MOST_WATCHED_BYTES, Session, lock};
use crate::fleet::Backend;

/// The way to a server that has a session of its own.
pub(in crate::front) struct Way {
    pub(super) bridge: Arc<Bridge>,
    pub(super) session: Weak<Session>,
    pub(super) stage: Mutex<Stage>,
    /// The resources that the client watches there.
    pub(super) watched: Mutex<BTreeSet<String>>,
}

pub(super) enum Stage {
    New,
    /// Whoever waits here must find the server there.
    Greeting(Vec<(Exchange, Message, Said)>, Arc<Backend>),
    Greeted,
}

impl Way {
    pub(in crate::front) fn new(bridge: &Arc<Bridge>, session: &Arc<Session>) -> Self {
        let (bridge, session) = (Arc::clone(bridge), Arc::downgrade(session));
        let stage = Mutex::new(Stage::New);
        Self { bridge, session, stage, watched: Mutex::default() }
    }

    /// The client greets the server itself.
    pub(in crate::front) fn greeted(self) -> Self {
        Self { stage: Mutex::new(Stage::Greeted), ..self }
    }

    /// Goes on with what was watched at another server.
    pub(in crate::front) fn after(self, old: &Leg) -> Self {
        Self { watched: Mutex::new(old.watched()), ..self }
    }

    /// Remembers what the client watches.
    pub(super) fn heed(&self, request: &Message) {
        let mut watched = lock(&self.watched);
        match request.method() {
            method::SUBSCRIBE if watched.len() < MOST_WATCHED => {
                let bytes: usize = watched.iter().map(String::len).sum();
                let uri = request.uri().filter(|uri| bytes + uri.len() <= MOST_WATCHED_BYTES);
                watched.extend(uri.map(Cow::into_owned));
            }
            method::UNSUBSCRIBE => _ = request.uri().map(|uri| watched.remove(&*uri)),
            _ => {}
        }
    }
}
