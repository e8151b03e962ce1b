//! Joins clients to a server: a server half and a client half for each pair.
//!
//! The bridge passes verbs across and decides two things only: which connection
//! to the server a client's calls go by ([`Children`]), and which era is spoken
//! there. Everything else, translation too, is the business of the halves.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, RwLock, Weak};

use http::HeaderName;
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::Said;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::limits::Limits;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::call::{Call, CallHolder};
use crate::drive::OwnedTask;
use crate::face::{Face, lock};
use crate::inside::{Inside, Works};
use crate::upstream::{self, Server, Through, Upstream};
use crate::who::Who;

mod children;
mod common;
mod connect;
mod count;
mod era;
mod gate;
mod hide;
mod idle;
mod make;
mod pool;
mod turn;

pub use children::Children;
use children::Whose;
use era::Waiting;
pub use hide::Hidden;
use idle::Places;
use turn::Gatehouse;
pub(crate) use turn::Permit;

/// Any number of clients in front of one server.
///
/// Serve it like a server of your own: with [`stdio::serve`](crate::stdio::serve)
/// or as a [`Site`](crate::http::site::Site). The [crate's page](crate) has an example.
pub struct Bridge {
    server: Server,
    children: Children,
    limits: RwLock<Arc<Limits>>,
    hidden: Arc<Hidden>,
    /// Where calls wait, if their number is bounded.
    house: Option<Mutex<Gatehouse>>,
    state: Mutex<State>,
    /// Somebody may have begun or ended to use the server.
    stirred: Notify,
    this: Weak<Self>,
}

#[derive(Default)]
struct State {
    connections: HashMap<Whose, Arc<Upstream>>,
    /// The greeting of each client, to repeat it on connections of single calls.
    hellos: HashMap<u64, Message>,
    waiting: Waiting,
    /// Children that were started ahead.
    pool: VecDeque<Arc<Upstream>>,
    /// The task that ends what nobody uses, while there is such a connection.
    sweeping: Option<OwnedTask>,
    places: Places,
    closing: JoinSet<()>,
    closed: bool,
}

/// A call on its way to the server.
#[derive(Clone, Debug)]
struct Opening {
    face: Arc<Face>,
    call: Call,
    request: Message,
    said: Said,
}

impl CallHolder for Bridge {
    /// The call waits here: it is not made.
    fn cancel(self: Arc<Self>, call: &Call, _: Option<&Message>) -> Works {
        lock(&self.state).waiting.remove(call);
        self.leave_queue(call);
        Works::none()
    }
}

impl Bridge {
    /// Passes a call on once it is known what the server speaks.
    fn go_on(&self, opening: Opening) -> Works {
        match self.hold_back(opening) {
            Some(opening) => self.connect(&opening),
            None => Works::none(),
        }
    }

    /// Passes a call on to the connection that it belongs to.
    fn connect(&self, opening: &Opening) -> Works {
        let Opening { face, call, request, said } = opening;
        if let Some(why) = self.hidden.refuses(request) {
            call.finish(why);
            return Works::none();
        }
        let eras = self.eras(face);
        let whose = self.whose(face, call.exchange(), request);
        let upstream = match self.upstream_for(face, whose, eras, request) {
            Ok(upstream) => upstream,
            Err(why) => {
                call.finish(why);
                return Works::none();
            }
        };
        self.prepare(opening, &upstream, whose);
        let is_native = face.era() == upstream.era();
        let works = upstream.open(call, is_native, request, said);
        if let Whose::Call(..) = whose {
            self.close_after(whose, upstream);
        }
        works
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

    /// The connections that calls of this client may have gone by.
    fn serving(&self, face: &Face) -> Vec<Arc<Upstream>> {
        let state = lock(&self.state);
        let theirs = state.connections.iter().filter(|(whose, _)| whose.serves(face));
        theirs.map(|(_, upstream)| Arc::clone(upstream)).collect()
    }

    /// What belongs to no call goes by each connection that is for more than one.
    fn spread(&self, face: &Face, message: &Message) -> Works {
        let mut works = Works::none();
        for upstream in self.hearing(face, message) {
            works.append(upstream.note(message.clone()));
        }
        works
    }

    /// Ends every connection, and waits until each is over.
    pub async fn close(&self) {
        let mut closing = {
            let mut state = lock(&self.state);
            state.closed = true;
            state.waiting.asking.take().iter().for_each(Upstream::stop);
            let ahead = std::mem::take(&mut state.pool);
            let all = std::mem::take(&mut state.connections).into_values();
            for upstream in all.chain(ahead) {
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
        let state = lock(&self.state);
        let all = state.connections.values().chain(&state.pool);
        all.chain(&state.waiting.asking).for_each(Upstream::stop);
    }
}

impl Inside for Bridge {
    fn open(&self, face: &Arc<Face>, call: &Call, request: Message, said: Said) -> Works {
        let (face, call) = (Arc::clone(face), call.clone());
        let opening = Opening { face, call, request, said };
        if opening.call.is_internal() && self.is_common() {
            // How the server stands is known by what comes of this.
            return self.go_on(opening);
        }
        match self.admit(opening) {
            Some(opening) => self.go_on(opening),
            None => Works::none(),
        }
    }

    fn note(&self, face: &Arc<Face>, message: Message) -> Works {
        self.spread(face, &message)
    }

    fn forget(&self, face: &Arc<Face>) {
        self.leave_gate(face);
        let mut state = lock(&self.state);
        state.hellos.remove(&face.number());
        state.waiting.forget(face);
        let own = |whose: &Whose| whose.sharing() == Sharing::Alone && whose.serves(face);
        let gone: Vec<_> = state.connections.extract_if(|whose, _| own(whose)).collect();
        for (_, upstream) in gone {
            state.close(async move { upstream.close().await });
        }
        drop(state);
        for shared in self.serving(face) {
            shared.forget(face);
        }
    }

    fn carries(&self) -> Option<Arc<[HeaderName]>> {
        let names = self.server.passes();
        (!names.is_empty()).then(|| names.into())
    }

    fn leads_back(&self, _: &Who, through: &Through) -> bool {
        upstream::leads_back(std::iter::once(&self.server), through)
    }
}
