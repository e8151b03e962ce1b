//! Joins clients to a server: a server half and a client half for each pair.
//!
//! The bridge passes verbs across and decides one thing only: which connection
//! to the server a client's calls go by ([`Children`]). Everything else is the
//! business of the halves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Ask, Exchange, Said, Up};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::revision::Era;
use tokio::task::JoinSet;

use crate::face::{Face, lock};
use crate::inside::{Inside, Works};
use crate::upstream::{Seat, Server, Upstream};

/// How many connections to the server there are, and who shares them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Children {
    /// One for each legacy session; modern clients share one, for each of
    /// their requests stands alone (GW-81).
    #[default]
    PerSession,
    /// One for all clients of an era. Safe if the server keeps nothing about a session.
    Shared,
    /// One for each call.
    PerRequest,
}

/// Any number of clients in front of one server.
pub struct Bridge {
    server: Server,
    children: Children,
    limits: Arc<Limits>,
    state: Mutex<State>,
    this: Weak<Self>,
}

#[derive(Default)]
struct State {
    /// By client, those that belong to one alone.
    own: HashMap<u64, Arc<Upstream>>,
    shared: HashMap<Era, Arc<Upstream>>,
    /// By call, those that serve just one.
    single: HashMap<(u64, Exchange), Arc<Upstream>>,
    /// The greeting of each client, to repeat it on connections of single calls.
    hellos: HashMap<u64, Message>,
    closing: JoinSet<()>,
}

impl Bridge {
    /// A bridge to `server`; it is reached when the first client needs it.
    pub fn new(server: Server, children: Children, limits: Arc<Limits>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            server,
            children,
            limits,
            state: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    /// Whether several clients may stand behind one connection.
    pub fn is_shared(&self) -> bool {
        self.children == Children::Shared
    }

    fn open(&self, face: &Arc<Face>, exchange: Exchange, request: &Message, said: &Said) -> Works {
        let upstream = self.upstream_for(face, exchange, request);
        let seat = Seat { face: Arc::clone(face), exchange };
        upstream.open(seat, request, said)
    }

    /// The connection that a call goes by, made if need be.
    fn upstream_for(&self, face: &Face, exchange: Exchange, request: &Message) -> Arc<Upstream> {
        let mut state = lock(&self.state);
        let number = face.number();
        if request.method() == method::INITIALIZE {
            state.hellos.insert(number, request.clone());
        }
        let share = match (self.children, face.era()) {
            (Children::Shared, _) | (Children::PerSession, Era::Modern) => true,
            (Children::PerSession | Children::PerRequest, _) => false,
        };
        let make = |sharing, hello| {
            let limits = Arc::clone(&self.limits);
            Upstream::new(self.server.clone(), face.era(), sharing, hello, limits)
        };
        if share {
            let shared = state.shared.entry(face.era());
            return Arc::clone(shared.or_insert_with(|| make(Sharing::Shared, None)));
        }
        if self.children == Children::PerRequest && request.method() != method::INITIALIZE {
            let single = make(Sharing::Alone, state.hellos.get(&number).cloned());
            state.single.insert((number, exchange), Arc::clone(&single));
            self.close_after(&mut state, (number, exchange), Arc::clone(&single));
            return single;
        }
        let own = state.own.entry(number);
        Arc::clone(own.or_insert_with(|| make(Sharing::Alone, None)))
    }

    /// A connection for one call ends with it.
    fn close_after(&self, state: &mut State, key: (u64, Exchange), single: Arc<Upstream>) {
        let Some(bridge) = self.this.upgrade() else { return };
        state.closing.spawn(async move {
            single.all_answered().await;
            lock(&bridge.state).single.remove(&key);
            single.close().await;
        });
    }

    /// Where what belongs to no call goes.
    fn main_upstream(&self, face: &Face) -> Option<Arc<Upstream>> {
        let state = lock(&self.state);
        state.own.get(&face.number()).or_else(|| state.shared.get(&face.era())).cloned()
    }

    fn supply(&self, face: &Face, ask: Ask, answer: &Message) -> Works {
        let single: Vec<_> = {
            let state = lock(&self.state);
            let theirs = state.single.iter().filter(|((number, _), _)| *number == face.number());
            theirs.map(|(_, upstream)| Arc::clone(upstream)).collect()
        };
        let mut works = Works::none();
        for upstream in self.main_upstream(face).into_iter().chain(single) {
            works.append(upstream.supply(ask, answer));
        }
        works
    }

    fn note(&self, face: &Face, message: Message) -> Works {
        self.main_upstream(face).map_or_else(Works::none, |upstream| upstream.note(message))
    }

    fn drop_call(&self, face: &Arc<Face>, exchange: Exchange, words: Option<&Message>) -> Works {
        let single = lock(&self.state).single.get(&(face.number(), exchange)).cloned();
        let Some(upstream) = single.or_else(|| self.main_upstream(face)) else {
            return Works::none();
        };
        upstream.drop_call(&Seat { face: Arc::clone(face), exchange }, words)
    }

    /// Ends every connection, and waits until each is over.
    pub async fn close(&self) {
        let (connections, mut closing) = {
            let mut state = lock(&self.state);
            let own: Vec<_> = state.own.drain().map(|(_, upstream)| upstream).collect();
            let shared: Vec<_> = state.shared.drain().map(|(_, upstream)| upstream).collect();
            let single: Vec<_> = state.single.drain().map(|(_, upstream)| upstream).collect();
            ([own, shared, single].concat(), std::mem::take(&mut state.closing))
        };
        for upstream in connections {
            closing.spawn(async move { upstream.close().await });
        }
        closing.join_all().await;
    }
}

impl Inside for Bridge {
    fn take(&self, face: &Arc<Face>, verb: Up) -> Works {
        match verb {
            Up::Open { exchange, request, said } => self.open(face, exchange, &request, &said),
            Up::Supply { ask, answer } => self.supply(face, ask, &answer),
            Up::Note { message } => self.note(face, message),
            Up::Drop { exchange, message } => self.drop_call(face, exchange, message.as_ref()),
        }
    }

    fn forget(&self, face: &Arc<Face>) {
        let mut state = lock(&self.state);
        state.hellos.remove(&face.number());
        let mut gone = Vec::new();
        state.single.retain(|(number, _), upstream| {
            let theirs = *number == face.number();
            if theirs {
                gone.push(Arc::clone(upstream));
            }
            !theirs
        });
        gone.extend(state.own.remove(&face.number()));
        while state.closing.try_join_next().is_some() {}
        for upstream in gone {
            state.closing.spawn(async move { upstream.close().await });
        }
        let shared = state.shared.get(&face.era()).cloned();
        drop(state);
        if let Some(shared) = shared {
            shared.forget(face);
        }
    }
}
