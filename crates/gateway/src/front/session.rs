//! A legacy client: how it introduced itself, and its legs to the servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use switchboard_net::call::{Asker, Call};
use switchboard_net::face::Face;
use switchboard_net::inside::{Inside as _, Works};
use switchboard_net::server::Level;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};

use super::leg::Leg;
use super::reply::{At, Questions};
use super::{Front, id, lock};
use crate::fleet::{Backend, Backends};

/// What is remembered of a client with a session.
pub(super) struct Session {
    pub(super) face: Arc<Face>,
    /// What it speaks.
    pub(super) revision: Revision,
    /// Its greeting, to be repeated to each server that it calls.
    pub(super) hello: Message,
    /// How much it wants logged, in its own words.
    level: Mutex<Option<Message>>,
    /// What servers ask it.
    pub(super) questions: Questions,
    legs: Mutex<BTreeMap<Arc<str>, Arc<Leg>>>,
    /// Ways to servers that others took the place of; as long as calls are open there.
    old: Mutex<Vec<Weak<Leg>>>,
    pub(super) at: At,
}

impl Session {
    pub(super) fn new(face: &Arc<Face>, hello: Message, at: At) -> Arc<Self> {
        let asked = hello.protocol_version();
        let same = asked.and_then(|asked| Revision::parse(&asked));
        let same = same.filter(|revision| revision.era() == Era::Legacy);
        Arc::new(Self {
            face: Arc::clone(face),
            revision: same.unwrap_or(Revision::NEWEST_LEGACY),
            hello,
            level: Mutex::default(),
            questions: Questions::default(),
            legs: Mutex::default(),
            old: Mutex::default(),
            at,
        })
    }

    /// The way to a server, made if need be.
    pub(super) fn leg(self: &Arc<Self>, server: &Arc<str>, backend: &Backend) -> Arc<Leg> {
        let mut legs = lock(&self.legs);
        let leg = match legs.get(server) {
            Some(leg) if leg.leads_to(&backend.bridge) => return Arc::clone(leg),
            Some(old) => {
                self.retire(old);
                old.replaced(self, backend)
            }
            None => Leg::new(self, server, backend),
        };
        legs.insert(Arc::clone(server), Arc::clone(&leg));
        leg
    }

    /// The way to a server that the client greets itself.
    pub(super) fn own_leg(self: &Arc<Self>, server: &Arc<str>, backend: &Backend) -> Arc<Leg> {
        let leg = Leg::greeted_by_client(self, server, backend);
        lock(&self.legs).insert(Arc::clone(server), Arc::clone(&leg));
        leg
    }

    /// Leaves servers that are not there any more: their open calls keep what they
    /// need. Where the client waits to hear of resources, the server that took
    /// the place of another is greeted at once.
    pub(super) fn follow(self: &Arc<Self>, backends: &Backends) {
        let mut watching = Vec::new();
        lock(&self.legs).retain(|server, leg| match backends.get(server) {
            Some(backend) if leg.leads_to(&backend.bridge) => true,
            Some(backend) if !leg.watched().is_empty() => {
                watching.push((Arc::clone(server), Arc::clone(backend)));
                true
            }
            _ => {
                self.retire(leg);
                false
            }
        });
        for (server, backend) in watching {
            self.leg(&server, &backend).greet(&backend).detach();
        }
    }

    /// The ways to these servers are closed, and what is open there fails.
    pub(super) fn leave(&self, is_left: impl Fn(&str) -> bool) {
        let left: Vec<_> = lock(&self.legs).extract_if(.., |name, _| is_left(name)).collect();
        let old: Vec<_> = lock(&self.old).iter().filter_map(Weak::upgrade).collect();
        let old = old.into_iter().filter(|leg| is_left(leg.server()));
        for leg in left.into_iter().map(|(_, leg)| leg).chain(old) {
            leg.close();
        }
        for call in self.face.open_calls() {
            if call.server().is_some_and(|server| is_left(&server)) {
                call.finish(Failure::CLOSED);
            }
        }
    }

    /// Calls that are open come back by this way, and others go by another.
    fn retire(&self, leg: &Arc<Leg>) {
        let mut old = lock(&self.old);
        old.retain(|leg| leg.strong_count() > 0);
        old.push(Arc::downgrade(leg));
    }

    /// The way to a server, if it was taken.
    pub(super) fn find(&self, server: &str) -> Option<Arc<Leg>> {
        lock(&self.legs).get(server).cloned()
    }

    fn legs(&self) -> Vec<Arc<Leg>> {
        lock(&self.legs).values().cloned().collect()
    }

    /// Something that concerns every server that the client has called.
    pub(super) fn note(&self, message: &Message) -> Works {
        let mut works = Works::none();
        if let Some((asker, message)) = self.on_question(message) {
            return asker.progress(message);
        }
        let legs = self.legs();
        // Progress is about a question of one server, and only one can be meant here.
        let is_unclear = message.method() == method::PROGRESS && legs.len() != 1;
        if message.method() == method::INITIALIZED || is_unclear {
            return works;
        }
        for bridge in legs.iter().filter_map(|leg| leg.greeted()) {
            works.append(bridge.note(&self.face, message.clone()));
        }
        works
    }

    /// Progress on a question, for who asked it.
    fn on_question(&self, message: &Message) -> Option<(Arc<dyn Asker>, Message)> {
        self.questions.find(message).filter(|_| message.method() == method::PROGRESS)
    }

    pub(super) fn keep_level(&self, request: &Message) {
        *lock(&self.level) = Some(request.clone());
    }

    pub(super) fn level(&self) -> Option<Message> {
        lock(&self.level).clone()
    }
}

impl Front {
    /// `logging/setLevel`: for every server that the client has called or will call.
    pub(super) fn set_level(&self, face: &Arc<Face>, call: &Call, request: &Message) -> Works {
        let level = request.log_level();
        let is_known = level.as_deref().is_some_and(|name| Level::parse(name).is_some());
        let session = self.session(face).filter(|_| is_known);
        let Some(session) = session else {
            let what = "params.level must be one of the levels of syslog".to_owned();
            let why = Refusal::BadParams { what };
            call.finish(why);
            return Works::none();
        };
        session.keep_level(request);
        call.finish(Message::result(id(request), b"{}"));
        let mut works = Works::none();
        for leg in session.legs() {
            works.append(leg.set_level(request));
        }
        works
    }
}
