//! Joins clients to a server: a server half and a client half for each pair.
//!
//! The bridge passes verbs across and decides two things only: which connection
//! to the server a client's calls go by ([`Children`]), and which era is spoken
//! there. Everything else, translation too, is the business of the halves.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use http::HeaderName;
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::HeaderParams;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::admission::Admission;
use self::queue::AdmissionQueue;
use crate::access::Who;
use crate::backend::{Backend, PendingWork};
use crate::call::{Call, CallHolder};
use crate::connection::{ClientConnection, lock, now};
use crate::drive::OwnedTask;
use crate::upstream::{self, ServerTarget, Target, Through, Upstream};
use children::ConnectionKey;
use era::Waiting;
use idle::Places;

mod admission;
mod children;
mod era;
mod hide;
mod idle;
mod queue;

pub(crate) use admission::Permit;
pub use children::Children;
pub use hide::Hidden;

/// Any number of clients in front of one server.
///
/// Serve it like a server of your own: with [`stdio::serve`](crate::stdio::serve)
/// or as a [`Site`](crate::http::site::Site). The [crate's page](crate) has an example.
pub struct Bridge {
    server: ServerTarget,
    children: Children,
    limits: RwLock<Arc<Limits>>,
    hidden: Arc<Hidden>,
    /// Where calls wait, if their number is bounded.
    admission: Option<Mutex<Admission>>,
    state: Mutex<State>,
    /// Somebody may have begun or ended to use the server.
    stirred: Notify,
    this: Weak<Self>,
}

#[derive(Default)]
struct State {
    connections: HashMap<ConnectionKey, Arc<Upstream>>,
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
    client: Arc<ClientConnection>,
    call: Call,
    request: Message,
    said: HeaderParams,
}

impl CallHolder for Bridge {
    /// The call waits here: it is not made.
    fn cancel(self: Arc<Self>, call: &Call, _: Option<&Message>) -> PendingWork {
        lock(&self.state).waiting.remove(call);
        self.leave_queue(call);
        PendingWork::none()
    }
}

impl Bridge {
    /// Passes a call on once it is known what the server speaks.
    fn go_on(&self, opening: Opening) -> PendingWork {
        match self.hold_back(opening) {
            Some(opening) => self.connect(&opening),
            None => PendingWork::none(),
        }
    }

    /// Passes a call on to the connection that it belongs to.
    fn connect(&self, opening: &Opening) -> PendingWork {
        let Opening { client, call, request, said } = opening;
        if let Some(why) = self.hidden.refuses(request) {
            call.finish(why);
            return PendingWork::none();
        }
        let eras = self.eras(client);
        let whose = self.whose(client, call.exchange(), request);
        let upstream = match self.upstream_for(client, whose, eras, request) {
            Ok(upstream) => upstream,
            Err(why) => {
                call.finish(why);
                return PendingWork::none();
            }
        };
        self.prepare(opening, &upstream, whose);
        let is_native = client.era() == upstream.era();
        let works = upstream.open(call, is_native, request, said);
        if let ConnectionKey::Call(..) = whose {
            self.close_after(whose, upstream);
        }
        works
    }

    /// A connection for one call ends with it.
    fn close_after(&self, whose: ConnectionKey, single: Arc<Upstream>) {
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
    fn serving(&self, client: &ClientConnection) -> Vec<Arc<Upstream>> {
        let state = lock(&self.state);
        let theirs = state.connections.iter().filter(|(whose, _)| whose.serves(client));
        theirs.map(|(_, upstream)| Arc::clone(upstream)).collect()
    }

    /// What belongs to no call goes by each connection that is for more than one.
    fn spread(&self, client: &ClientConnection, message: &Message) -> PendingWork {
        let mut works = PendingWork::none();
        for upstream in self.hearing(client, message) {
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

impl Backend for Bridge {
    fn open(
        &self,
        client: &Arc<ClientConnection>,
        call: &Call,
        request: Message,
        said: HeaderParams,
    ) -> PendingWork {
        let (client, call) = (Arc::clone(client), call.clone());
        let opening = Opening { client, call, request, said };
        if opening.call.is_internal() && self.is_common() {
            // How the server stands is known by what comes of this.
            return self.go_on(opening);
        }
        match self.admit(opening) {
            Some(opening) => self.go_on(opening),
            None => PendingWork::none(),
        }
    }

    fn note(&self, client: &Arc<ClientConnection>, message: Message) -> PendingWork {
        self.spread(client, &message)
    }

    fn forget(&self, client: &Arc<ClientConnection>) {
        self.leave_gate(client);
        let mut state = lock(&self.state);
        state.hellos.remove(&client.number());
        state.waiting.forget(client);
        let own = |whose: &ConnectionKey| whose.sharing() == Sharing::Alone && whose.serves(client);
        let gone: Vec<_> = state.connections.extract_if(|whose, _| own(whose)).collect();
        for (_, upstream) in gone {
            state.close(async move { upstream.close().await });
        }
        drop(state);
        for shared in self.serving(client) {
            shared.forget(client);
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

impl Bridge {
    /// A bridge to `server`; it is reached when the first client needs it.
    pub fn new(server: ServerTarget, children: Children, limits: Arc<Limits>) -> Arc<Self> {
        Self::hiding(Hidden::default(), server, children, limits)
    }

    /// The same, without some of the server's tools.
    pub fn hiding(
        hidden: Hidden,
        server: ServerTarget,
        children: Children,
        limits: Arc<Limits>,
    ) -> Arc<Self> {
        Self::made(hidden, server, children, limits, None)
    }

    /// A bridge with a bound on the calls that the server gets at once; further
    /// ones wait for their turn. They also wait for a server that is not there,
    /// for `start` at most: [`follow`](Self::follow) says who supervises it,
    /// and until then it is being started.
    pub fn guarding(
        server: ServerTarget,
        children: Children,
        limits: Arc<Limits>,
        (calls, start): (NonZeroUsize, Duration),
    ) -> Arc<Self> {
        let queue = AdmissionQueue::new(calls.get(), start, now());
        let admission = Some(Admission::new(queue));
        Self::made(Hidden::default(), server, children, limits, admission)
    }

    /// Whether several clients may stand behind one connection.
    pub fn is_shared(&self) -> bool {
        self.children.is_shared()
    }

    /// Connections that are made from here on keep these bounds.
    pub fn set_limits(&self, limits: Limits) {
        let limits = fitting(self.children, Arc::new(limits));
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// The bounds of connections that are made at this time.
    fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.limits.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn made(
        hidden: Hidden,
        server: ServerTarget,
        children: Children,
        limits: Arc<Limits>,
        admission: Option<Mutex<Admission>>,
    ) -> Arc<Self> {
        let limits = fitting(children, limits);
        Arc::new_cyclic(|this| Self {
            server,
            children,
            limits: RwLock::new(limits),
            hidden: Arc::new(hidden),
            admission,
            state: Mutex::default(),
            stirred: Notify::new(),
            this: Weak::clone(this),
        })
    }
}

/// The bounds of connections that are shared like this.
fn fitting(children: Children, limits: Arc<Limits>) -> Arc<Limits> {
    match children {
        // A child that has answered is gone: nobody could ask it for a task.
        Children::PerRequest => Arc::new(Limits { tasks: 0, ..Limits::clone(&limits) }),
        _ => limits,
    }
}

impl Bridge {
    /// How many calls are open at the server, or wait to be made.
    pub fn calls(&self) -> usize {
        let state = lock(&self.state);
        let open: usize = state.connections.values().map(|upstream| upstream.calls()).sum();
        let waiting = state.waiting.calls();
        drop(state);
        open + waiting + self.queued()
    }

    /// How many messages wait to be written to the server.
    pub fn unsent(&self) -> usize {
        let upstreams: Vec<_> = lock(&self.state).connections.values().cloned().collect();
        upstreams.iter().map(|upstream| Upstream::unsent(upstream)).sum()
    }

    /// How many connections to the server there are.
    pub fn connections(&self) -> usize {
        lock(&self.state).connections.len()
    }

    /// The server.
    pub fn server(&self) -> &ServerTarget {
        &self.server
    }
}

impl Bridge {
    /// Whether everybody goes by one connection.
    pub fn is_common(&self) -> bool {
        let is_process = matches!(self.server.target(), Target::Command(_));
        self.children == Children::Shared && is_process && self.server.passes().is_empty()
    }

    /// What is spoken on the connection that all share, if there is one.
    pub(crate) fn common_era(&self) -> Option<Era> {
        lock(&self.state).connections.get(&ConnectionKey::Everybody).map(|upstream| upstream.era())
    }

    /// The process that all share did not come up as it should: the next attempt
    /// is with another, unless somebody uses this one.
    pub(crate) fn begin_anew(&self) {
        if !self.is_common() {
            return;
        }
        let mut state = lock(&self.state);
        let is_met = state.connections.get(&ConnectionKey::Everybody).is_some_and(|it| it.is_met());
        if !is_met
            && state.is_quiet()
            && let Some(upstream) = state.connections.remove(&ConnectionKey::Everybody)
        {
            // Nobody knows it yet, nor what it speaks.
            return state.close(async move { upstream.close().await });
        }
        state.rest();
    }

    /// Whether there is a process that all share.
    pub fn is_running(&self) -> bool {
        let state = lock(&self.state);
        state
            .connections
            .get(&ConnectionKey::Everybody)
            .is_some_and(|upstream| upstream.is_linked())
    }
}
