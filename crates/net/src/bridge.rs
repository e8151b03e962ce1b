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
use switchboard_proto::server::legacy::Phase;
use tokio::task::JoinSet;

use crate::face::{Face, lock};
use crate::inside::{Inside, Works};
use crate::upstream::{self, Seat, Server, Upstream};

mod children;
mod hide;

pub use children::Children;
use children::Whose;
pub use hide::Hidden;

/// Any number of clients in front of one server.
///
/// Serve it like a server of your own: with [`stdio::serve`](crate::stdio::serve)
/// or as a [`Site`](crate::http::site::Site). The [crate's page](crate) has an example.
pub struct Bridge {
    server: Server,
    children: Children,
    limits: Arc<Limits>,
    hidden: Arc<Hidden>,
    state: Mutex<State>,
    this: Weak<Self>,
}

#[derive(Default)]
struct State {
    connections: HashMap<Whose, Arc<Upstream>>,
    /// The greeting of each client, to repeat it on connections of single calls.
    hellos: HashMap<u64, Message>,
    closing: JoinSet<()>,
    closed: bool,
}

impl Bridge {
    /// A bridge to `server`; it is reached when the first client needs it.
    pub fn new(server: Server, children: Children, limits: Arc<Limits>) -> Arc<Self> {
        Self::hiding(Hidden::default(), server, children, limits)
    }

    /// The same, without some of the server's tools.
    pub fn hiding(
        hidden: Hidden,
        server: Server,
        children: Children,
        limits: Arc<Limits>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            server,
            children,
            limits,
            hidden: Arc::new(hidden),
            state: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    /// Whether several clients may stand behind one connection.
    pub fn is_shared(&self) -> bool {
        self.children == Children::Shared
    }

    fn open(&self, face: &Arc<Face>, exchange: Exchange, request: &Message, said: &Said) -> Works {
        if let Some(why) = self.hidden.refuses(request) {
            face.finish(exchange, &Message::refusal(None, &why));
            return Works::none();
        }
        let whose = self.children.whose(face, exchange, request);
        let Some(upstream) = self.upstream_for(face, whose, request) else {
            face.finish(exchange, &Message::refusal(None, &upstream::over()));
            return Works::none();
        };
        let seat = Seat { owner: hide::owner(&self.hidden, face, &upstream, request), exchange };
        let works = upstream.open(seat, request, said);
        if let Whose::Call(..) = whose {
            self.close_after(whose, upstream);
        }
        works
    }

    /// The connection that a call goes by, made if need be; none at the end.
    fn upstream_for(&self, face: &Face, whose: Whose, request: &Message) -> Option<Arc<Upstream>> {
        let mut state = lock(&self.state);
        // A client that was forgotten meanwhile must not get a new connection.
        if state.closed || face.phase() == Some(Phase::Ended) {
            return None;
        }
        if request.method() == method::INITIALIZE && self.children == Children::PerRequest {
            state.hellos.insert(face.number(), request.clone());
        }
        if let Some(upstream) = state.connections.get(&whose) {
            return Some(Arc::clone(upstream));
        }
        let (sharing, hello) = match whose {
            Whose::All(_) => (Sharing::Shared, None),
            Whose::Client(_) => (Sharing::Alone, None),
            Whose::Call(number, _) => (Sharing::Alone, state.hellos.get(&number).cloned()),
        };
        let limits = Arc::clone(&self.limits);
        let upstream = Upstream::new(self.server.clone(), face.era(), sharing, hello, limits);
        state.connections.insert(whose, Arc::clone(&upstream));
        Some(upstream)
    }

    /// A connection for one call ends with it.
    fn close_after(&self, whose: Whose, single: Arc<Upstream>) {
        let bridge = Weak::clone(&self.this);
        lock(&self.state).close(async move {
            single.all_answered().await;
            if let Some(bridge) = bridge.upgrade() {
                lock(&bridge.state).connections.remove(&whose);
            }
            single.close().await;
        });
    }

    /// Where what belongs to no call goes.
    fn main_upstream(&self, face: &Face) -> Option<Arc<Upstream>> {
        let connections = &lock(&self.state).connections;
        let own = connections.get(&Whose::Client(face.number()));
        own.or_else(|| connections.get(&Whose::All(face.era()))).cloned()
    }

    /// Questions are numbered so that only the connection that asked knows an answer.
    fn supply(&self, face: &Face, ask: Ask, answer: &Message) -> Works {
        let state = lock(&self.state);
        let theirs = state.connections.iter().filter(|(whose, _)| whose.serves(face));
        let theirs: Vec<_> = theirs.map(|(_, upstream)| Arc::clone(upstream)).collect();
        drop(state);
        let mut works = Works::none();
        for upstream in theirs {
            works.append(upstream.supply(ask, answer));
        }
        works
    }

    fn note(&self, face: &Face, message: Message) -> Works {
        self.main_upstream(face).map_or_else(Works::none, |upstream| upstream.note(message))
    }

    fn drop_call(&self, face: &Arc<Face>, exchange: Exchange, words: Option<&Message>) -> Works {
        let single = Whose::Call(face.number(), exchange);
        let single = lock(&self.state).connections.get(&single).cloned();
        let Some(upstream) = single.or_else(|| self.main_upstream(face)) else {
            return Works::none();
        };
        upstream.drop_call(&Seat { owner: Arc::<Face>::clone(face), exchange }, words)
    }

    /// Ends every connection, and waits until each is over.
    pub async fn close(&self) {
        let mut closing = {
            let mut state = lock(&self.state);
            state.closed = true;
            for (_, upstream) in std::mem::take(&mut state.connections) {
                state.close(async move { upstream.close().await });
            }
            std::mem::take(&mut state.closing)
        };
        while closing.join_next().await.is_some() {}
    }
}

impl State {
    fn close(&mut self, closing: impl Future<Output = ()> + Send + 'static) {
        while self.closing.try_join_next().is_some() {}
        self.closing.spawn(closing);
    }
}

impl Drop for Bridge {
    /// Nobody waits for the end, but it comes.
    fn drop(&mut self) {
        lock(&self.state).connections.values().for_each(Upstream::stop);
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
        let shared = state.connections.get(&Whose::All(face.era())).cloned();
        let theirs = |whose: &Whose| !matches!(whose, Whose::All(_)) && whose.serves(face);
        let gone: Vec<_> = state.connections.extract_if(|whose, _| theirs(whose)).collect();
        for (_, upstream) in gone {
            state.close(async move { upstream.close().await });
        }
        drop(state);
        if let Some(shared) = shared {
            shared.forget(face);
        }
    }
}
