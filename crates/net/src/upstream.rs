//! One server: a client half, and the road to it. [`ServerTarget`] says where it is.
//!
//! The half is a pure machine behind a short lock. Verbs come in from a bridge
//! (`open`, `note`, …), messages from the
//! road; what the half wants sent leaves by the road, what it has to tell goes
//! to the client connections that opened the calls, in order: one caller at a time passes
//! it on, the others leave theirs to it.
//!
//! Roads: a child process or an HTTP+SSE stream is a pipe with a task that
//! reads and one that writes; Streamable HTTP has no task of its own, each
//! call is carried by whoever made it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Instant;

use switchboard_proto::client::{ClientHalf, Sharing, Transmit};
use switchboard_proto::exchange::{Ask, HeaderParams};
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::revision::Era;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::backend::PendingWork;
use crate::call::{Asker, Call, CallHolder, ReplySink};
use crate::connection::{ClientConnection, lock, now};
use crate::drive::Stop;

mod child;
mod client_identity;
mod core;
mod era;
mod flood;
mod http;
mod pipe;
mod sse;
mod target;
mod tell;
mod usage;
mod via;

pub use client_identity::ClientIdentity;
pub(crate) use client_identity::{ViaBridge, asked};
use core::{Core, Fallback, Transport};
pub(crate) use era::{Eras, Found};
use flood::{Flood, Ration};
use target::Shown;
pub use target::{
    Credential, Fetching, NoCredential, ServerTarget, Strategy, Target, UnknownStrategy,
};
pub(crate) use usage::Tenant;
pub use usage::Traffic;
pub(crate) use via::through;
pub use via::{Ancestry, Through, VARIABLE, leads_back};

/// A connection to one server.
pub struct Upstream {
    name: String,
    server: ServerTarget,
    limits: Arc<Limits>,
    shared: AtomicBool,
    modern: AtomicBool,
    /// It is asked for its era only: if its child ends, another follows that is no restart.
    scouts: AtomicBool,
    /// Nobody would ever be told what belongs to no call.
    deaf: AtomicBool,
    core: Mutex<Core>,
    /// Held by whoever passes verbs to the client connections.
    passing: Mutex<()>,
    /// Whom to tell what belongs to no call.
    clients: Mutex<HashMap<u64, Weak<dyn ReplySink>>>,
    /// Clients that were told more than they have read.
    slow: Mutex<Vec<Arc<dyn ReplySink>>>,
    /// Calls may have been answered.
    told: Notify,
    /// Something is due before the deadlines are looked at again.
    sooner: Notify,
    /// The pipe has something to write.
    written: Notify,
    /// The pipe has room again.
    drained: Notify,
    /// The server at the other end of the pipe does not read.
    choked: Notify,
    /// The link is to end until the next call.
    rested: Notify,
    stop: Stop,
    http: OnceLock<http::Link>,
    shown: Shown,
    flood: Mutex<Flood>,
    /// What the log was told of what cannot be read, and of what could not be delivered.
    unreadable: Mutex<Ration>,
    undelivered: Mutex<Ration>,
    /// How many POSTs are in flight that carry no request.
    in_flight: watch::Sender<usize>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Whom it is for, if it is for one alone.
    tenant: OnceLock<Tenant>,
}

/// Bytes waiting to be written to a pipe before a client that adds to them has
/// to wait. Beyond `Limits::backlog` its calls are refused, and a server that
/// leaves that much of our own unread is given up.
const HIGH_WATER: usize = 1 << 20;

impl Upstream {
    /// A connection that is made when it is first needed. `hello` lets a
    /// legacy server be greeted without its client's help.
    pub(crate) fn new(
        server: ServerTarget,
        era: Era,
        sharing: Sharing,
        hello: Option<Message>,
        limits: Arc<Limits>,
    ) -> Arc<Self> {
        Self::between(server, Eras::both(era), sharing, hello, limits)
    }

    /// The same where clients and server may not have an era in common.
    pub(crate) fn between(
        server: ServerTarget,
        eras: Eras,
        sharing: Sharing,
        hello: Option<Message>,
        limits: Arc<Limits>,
    ) -> Arc<Self> {
        let transport = server.first_road(eras.server);
        let core = Core::new(eras.half(transport, sharing, hello, &limits), transport);
        Arc::new(Self {
            name: server.name(),
            server,
            limits,
            shared: AtomicBool::new(sharing == Sharing::Shared),
            modern: AtomicBool::new(eras.server == Era::Modern),
            scouts: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            core: Mutex::new(core),
            passing: Mutex::new(()),
            clients: Mutex::new(HashMap::new()),
            slow: Mutex::default(),
            told: Notify::new(),
            sooner: Notify::new(),
            written: Notify::new(),
            drained: Notify::new(),
            choked: Notify::new(),
            rested: Notify::new(),
            stop: Stop::new(),
            http: OnceLock::new(),
            shown: Shown::default(),
            flood: Mutex::default(),
            unreadable: Mutex::default(),
            undelivered: Mutex::default(),
            in_flight: watch::Sender::default(),
            tasks: Mutex::new(Vec::new()),
            tenant: OnceLock::new(),
        })
    }

    /// What to call it in logs and errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The era it is spoken to in.
    pub(crate) fn era(&self) -> Era {
        if self.modern.load(Ordering::Relaxed) { Era::Modern } else { Era::Legacy }
    }

    /// A client opens a call. `is_native` if it speaks the server's own era.
    pub(crate) fn open(
        self: &Arc<Self>,
        call: &Call,
        is_native: bool,
        request: &Message,
        said: &HeaderParams,
    ) -> PendingWork {
        // A modern client is told nothing that belongs to no call.
        let is_legacy = is_native == (self.era() == Era::Legacy);
        if is_legacy {
            self.attach(&call.listener());
        }
        if lock(&self.core).is_full(request, &self.limits) {
            call.finish(Failure::NotReading);
            return PendingWork::none();
        }
        lock(&self.core).used = now();
        call.set_native(is_native);
        let works = self.begin(call, request, said);
        if request.method() == method::LISTEN {
            self.listen_again();
        }
        self.when_room(works)
    }

    /// Sends a call, unless it was cancelled on its way here.
    fn begin(self: &Arc<Self>, call: &Call, request: &Message, said: &HeaderParams) -> PendingWork {
        let this = Arc::downgrade(self);
        let open = |half: &mut ClientHalf<Call>, now| {
            if call.hold(this) {
                half.open(call.clone(), request, said, now);
            }
        };
        self.step(open).1
    }

    /// A client says something that wants no answer.
    pub(crate) fn note(self: &Arc<Self>, message: Message) -> PendingWork {
        let works = self.step(|half, now| half.note(message, now)).1;
        self.when_room(works)
    }

    /// Waits until no call is open.
    pub(crate) async fn all_answered(&self) {
        self.until(|this| this.calls() == 0).await;
    }

    /// A client is gone for good.
    pub(crate) fn forget(self: &Arc<Self>, client: &ClientConnection) {
        lock(&self.clients).remove(&client.number());
        self.step(|half, now| half.forget_owner(client.number(), now)).1.detach();
    }

    /// One step of the half, and what must be sent because of it.
    fn step<R>(
        self: &Arc<Self>,
        step: impl FnOnce(&mut ClientHalf<Call>, Instant) -> R,
    ) -> (R, PendingWork) {
        let mut core = lock(&self.core);
        let result = step(&mut core.half, now());
        if self.stop.is_said() {
            core.half.handle_lost(&Failure::CLOSED, now());
        }
        let works = self.carry(&mut core);
        self.settle(core);
        (result, works)
    }

    /// The half has made a step: what it has to tell is told, and its deadlines are kept.
    fn settle(self: &Arc<Self>, mut core: MutexGuard<'_, Core>) {
        core.settle();
        let is_sooner = core.is_due_sooner();
        drop(core);
        if is_sooner {
            self.sooner.notify_one();
        }
        self.pass_down();
        self.told.notify_waiters();
    }

    /// Takes what the half wants sent to the road, in order.
    fn carry(self: &Arc<Self>, core: &mut Core) -> PendingWork {
        let mut works = PendingWork::none();
        while let Some(transmit) = core.half.poll_transmit() {
            tracing::trace!(server = self.name, what = transmit.name(), "to the server");
            match (core.transport, transmit) {
                (Transport::Pipe, Transmit::Send { message, .. }) => self.enqueue(core, message),
                (Transport::Http, Transmit::Send { lane, message, headers }) => {
                    works.append(self.dispatch(core, lane, message, headers));
                }
                (_, Transmit::Abort { lane }) => {
                    if let Some(ended) = core.lanes.remove(&lane) {
                        ended.notify_one();
                    }
                }
            }
        }
        works
    }

    /// The road is needed.
    fn start(self: &Arc<Self>, core: &mut Core) {
        if !std::mem::replace(&mut core.watched, true) {
            self.spawn(pipe::watch_deadlines(Arc::clone(self)));
            if self.wants_pings() {
                self.spawn(era::send_pings(Arc::clone(self)));
            }
        }
        if core.transport == Transport::Pipe && !std::mem::replace(&mut core.piped, true) {
            self.spawn(pipe::run(Arc::clone(self), self.server.piped()));
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(task));
    }

    /// The link is gone: every open call fails.
    fn lost(self: &Arc<Self>, why: &Failure) {
        tracing::warn!(server = self.name, "{why}");
        for client in self.attached() {
            client.lost(why);
        }
        self.fail_all(why);
    }

    fn fail_all(self: &Arc<Self>, why: &Failure) {
        let mut core = lock(&self.core);
        core.take_outbound();
        core.choked = false;
        core.half.handle_lost(why, now());
        self.settle(core);
        self.drained.notify_waiters();
    }

    /// Ends the connection without waiting for its end: what is open fails,
    /// and so does whatever comes later.
    pub(crate) fn stop(self: &Arc<Self>) {
        // From here on every step fails what it begins.
        self.stop.say();
        for ended in std::mem::take(&mut lock(&self.core).lanes).into_values() {
            ended.notify_one();
        }
        self.fail_all(&Failure::CLOSED);
    }

    /// Ends the connection: the child is stopped, the session deleted.
    pub(crate) async fn close(self: &Arc<Self>) {
        self.last_words().await;
        self.stop();
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        if let Some(link) = self.http.get() {
            link.delete_session().await;
        }
        for task in tasks {
            // A task that panicked has nothing left to wait for.
            _ = task.await;
        }
    }

    /// When a client last opened a call.
    pub(crate) fn used(&self) -> Instant {
        lock(&self.core).used
    }

    /// Somebody is about to use it.
    pub(crate) fn touch(&self) {
        lock(&self.core).used = now();
    }

    /// Whether it was ended.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_said()
    }

    /// How many messages wait to be written.
    pub(crate) fn unsent(&self) -> usize {
        lock(&self.core).outbound.len()
    }

    /// How many calls are open.
    pub fn calls(&self) -> usize {
        lock(&self.core).half.calls()
    }
}

impl CallHolder for Upstream {
    fn cancel(self: Arc<Self>, call: &Call, words: Option<&Message>) -> PendingWork {
        let cancel = |half: &mut ClientHalf<Call>, now| {
            if let Some(id) = half.find(call) {
                half.drop_call(id, words, now);
            }
        };
        self.step(cancel).1
    }

    fn retry(self: Arc<Self>, call: &Call, request: &Message) -> PendingWork {
        let retry = |half: &mut ClientHalf<Call>, now| {
            if let Some(id) = half.find(call) {
                half.again(id, request, now);
            }
        };
        let works = self.step(retry).1;
        self.when_room(works)
    }
}

impl Asker for Upstream {
    fn supply(self: Arc<Self>, ask: Ask, answer: &Message) -> PendingWork {
        let works = self.step(|half, now| half.supply(ask, answer, now)).1;
        self.when_room(works)
    }

    fn progress(self: Arc<Self>, message: Message) -> PendingWork {
        self.note(message)
    }
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream")
            .field("name", &self.name)
            .field("era", &self.era())
            .finish_non_exhaustive()
    }
}
