//! One server alone, as it is, whichever process stands for it at the time.
//!
//! A session outlives its server: when another takes the place of that, the
//! client's next call makes us repeat its greeting there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use http::HeaderName;
use switchboard_net::face::Face;
use switchboard_net::inside::{Inside, Works};
use switchboard_proto::exchange::{Exchange, Said, Up};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use super::lock;
use super::session::Session;
use crate::fleet::Fleet;

/// What is behind `/servers/NAME`.
pub(crate) struct Alone {
    fleet: Arc<Fleet>,
    name: Arc<str>,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
}

impl Alone {
    pub(crate) fn new(fleet: &Arc<Fleet>, name: &Arc<str>) -> Arc<Self> {
        let (fleet, name) = (Arc::clone(fleet), Arc::clone(name));
        Arc::new(Self { fleet, name, sessions: Mutex::default() })
    }

    /// Another server may have taken the place of this.
    pub(crate) fn change(&self) {
        let backends = self.fleet.backends();
        let sessions: Vec<_> = lock(&self.sessions).values().cloned().collect();
        for session in sessions {
            session.follow(&backends);
        }
    }

    fn open(&self, face: &Arc<Face>, exchange: Exchange, request: Message, said: Said) -> Works {
        let Some(backend) = self.fleet.backend(&self.name) else {
            let why = Refusal::FarSide { text: "Transport closed".to_owned() };
            face.finish(exchange, &Message::refusal(request.id(), &why));
            return Works::none();
        };
        self.fleet.want(&self.name);
        if face.era() == Era::Legacy && request.method() == method::INITIALIZE {
            let session = Session::new(face, request.clone(), &Weak::new());
            lock(&self.sessions).insert(face.number(), Arc::clone(&session));
            let leg = session.own_leg(&self.name, &backend);
            return leg.open(&backend, exchange, request, said);
        }
        match self.session(face) {
            Some(session) => {
                if request.method() == method::SET_LEVEL {
                    session.keep_level(&request);
                }
                session.leg(&self.name, &backend).open(&backend, exchange, request, said)
            }
            None => backend.bridge.take(face, Up::Open { exchange, request, said }),
        }
    }

    fn session(&self, face: &Face) -> Option<Arc<Session>> {
        let session = || lock(&self.sessions).get(&face.number()).cloned();
        (face.era() == Era::Legacy).then(session).flatten()
    }

    fn drop_call(&self, face: &Arc<Face>, exchange: Exchange, message: Option<Message>) -> Works {
        if self.session(face).is_some_and(|session| session.give_up(exchange)) {
            return Works::none();
        }
        self.tell_all(face, &Up::Drop { exchange, message })
    }

    /// Whichever server knows it.
    fn tell_all(&self, face: &Arc<Face>, verb: &Up) -> Works {
        let mut works = Works::none();
        for bridge in self.fleet.bridges(|name| *name == *self.name) {
            works.append(bridge.take(face, verb.clone()));
        }
        works
    }
}

impl Inside for Alone {
    fn take(&self, face: &Arc<Face>, verb: Up) -> Works {
        match verb {
            Up::Open { exchange, request, said } => self.open(face, exchange, request, said),
            Up::Drop { exchange, message } => self.drop_call(face, exchange, message),
            Up::Supply { .. } => self.tell_all(face, &verb),
            Up::Note { .. } => {
                let leg = self.session(face).and_then(|session| session.find(&self.name));
                match leg.as_ref().and_then(|leg| leg.greeted()) {
                    Some(bridge) => bridge.take(face, verb),
                    None => self.tell_all(face, &verb),
                }
            }
        }
    }

    fn forget(&self, face: &Arc<Face>) {
        lock(&self.sessions).remove(&face.number());
        for bridge in self.fleet.bridges(|name| *name == *self.name) {
            bridge.forget(face);
        }
    }

    fn carries(&self) -> Option<Arc<[HeaderName]>> {
        self.fleet.backend(&self.name)?.bridge.carries()
    }
}
