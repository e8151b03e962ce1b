//! One server: a client half, and the transport to it. [`ServerTarget`] says where it is.
//!
//! The half is a pure machine behind a short lock. A client opens calls with `open`, and
//! `from_server` takes what the server says. After each step `to_server` sends what the
//! half wants sent, and `to_clients` tells the records of the calls what the half has to
//! tell, in order: one thread at a time does that, the others leave their events to it.
//!
//! Transports: a child process or an HTTP+SSE stream is a pipe, with a task that reads and
//! writes. Streamable HTTP has no task of its own: the caller carries its call.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::time::Instant;

use bytes::Bytes;
use switchboard_proto::Table;
use switchboard_proto::client::{ClientHalf, Sharing, Transmit};
use switchboard_proto::exchange::{Ask, HeaderParams, Lane, ServerEvent, To};
use switchboard_proto::failure::{Failure, Words};
use switchboard_proto::jsonrpc::{self, Incoming, Message};
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::project;
use switchboard_proto::revision::Era;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::backend::PendingWork;
use crate::call::{Asker, Call, CallHolder, ReplySink};
use crate::connection::{ClientConnection, lock};
use crate::drive::{Stop, now};

mod client_identity;
mod era;
mod flood;
mod http;
mod inject;
mod into_target;
mod pipe;
mod sse;
mod target;
mod timers;
mod usage;
mod via;

pub use crate::backend::Through;
pub use crate::secret::IdentityDigest;
pub use client_identity::ClientIdentity;
pub(crate) use client_identity::{ViaBridge, asked};
pub(crate) use era::{AnswerWaiter, EraFound, Eras};
use flood::{Flood, Ration};
pub use inject::TokenInjection;
pub use into_target::{IntoCommand, IntoTarget, TargetError};
use pipe::{Outbound, PipeState};
use target::CredentialCache;
pub use target::{
    Credential, CredentialRefusal, CredentialUser, FetchedHeaders, Fetching, NoCredential,
    PersonAsked, ServerTarget, Strategy, Target, UnknownStrategy,
};
pub(crate) use usage::Tenant;
pub use usage::Traffic;
use usage::add;
pub(crate) use via::through;
pub use via::{Ancestry, VARIABLE, leads_back, told_through};

/// A connection to one server.
pub struct Upstream {
    name: String,
    server: ServerTarget,
    limits: Arc<Limits>,
    modern: AtomicBool,
    /// This connection only probes the server's era. If its child process exits, starting
    /// a new one does not count as a restart.
    probes_era: AtomicBool,
    core: Mutex<Core>,
    /// Held by the thread that tells the clients.
    telling: Mutex<()>,
    /// The clients that are told what belongs to no call.
    clients: Mutex<Table<u64, Weak<dyn ReplySink>>>,
    /// Clients that were told more than they have read.
    slow: Mutex<Vec<Arc<dyn ReplySink>>>,
    /// Calls may have been answered, or messages written.
    progressed: Notify,
    /// The pipe has something to write, or is to end.
    pipe_changed: Notify,
    /// Something is due before the deadlines are looked at again.
    sooner: Notify,
    stop: Stop,
    /// None if the server is a command.
    http: Option<http::HttpEndpoint>,
    /// The extension that its tokens are got by, if it is shown tokens.
    extension: Option<&'static str>,
    credentials: CredentialCache,
    flood: Mutex<Flood>,
    /// What the log was told of what cannot be read, and of what could not be delivered.
    unreadable: Mutex<Ration>,
    undelivered: Mutex<Ration>,
    /// How many POSTs are in flight that carry no request.
    in_flight: watch::Sender<usize>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// The user it is for, if it is for one alone.
    tenant: Mutex<Option<Tenant>>,
}

/// What is behind the lock of an upstream.
struct Core {
    half: ClientHalf<Call>,
    sharing: Sharing,
    /// What the half has to tell, and no thread has told yet.
    events: VecDeque<ServerEvent<Call>>,
    transport: Transport,
    fallback: Fallback,
    outbound: Outbound,
    pipe: PipeState,
    /// The task that makes the pipe runs.
    is_piped: bool,
    /// How to end a lane early.
    lanes: Table<Lane, Arc<Notify>>,
    /// Over HTTP: what must arrive before what follows it.
    order: http::PostOrder,
    /// When the deadlines are looked at next, if they are watched.
    next_look: Option<Instant>,
    /// When a client last opened a call.
    used: Instant,
}

/// How messages leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Transport {
    Pipe,
    Http,
}

/// Whether the transport is the right one.
enum Fallback {
    /// Not known yet.
    First,
    /// The other transport was no good; why.
    Second(Failure),
    /// The server has answered by it.
    Settled,
}

impl Core {
    /// Whether a client counts on the connection.
    fn is_used(&self) -> bool {
        self.half.calls() > 0 || self.half.is_needed(now()) || !self.outbound.is_empty()
    }

    /// Whether a client waits for an answer.
    fn is_called(&self) -> bool {
        self.half.calls() > self.half.listens() || !self.outbound.is_empty()
    }
}

impl Upstream {
    /// A connection that is made when it is first needed. `hello` lets a
    /// legacy server be greeted without its client's help.
    pub(crate) fn new(
        server: ServerTarget,
        eras: Eras,
        sharing: Sharing,
        hello: Option<Message>,
        limits: Arc<Limits>,
    ) -> Arc<Self> {
        let transport = server.first_transport(eras.server);
        let core = Core {
            half: eras.half(transport, sharing, hello, &limits),
            sharing,
            events: VecDeque::new(),
            transport,
            fallback: Fallback::First,
            outbound: Outbound::default(),
            pipe: PipeState::Away,
            is_piped: false,
            lanes: Table::default(),
            order: http::PostOrder::default(),
            next_look: None,
            used: now(),
        };
        Arc::new(Self {
            name: server.name(),
            http: http::HttpEndpoint::new(&server),
            extension: server.extension(),
            server,
            limits,
            modern: AtomicBool::new(eras.server == Era::Modern),
            probes_era: AtomicBool::new(false),
            core: Mutex::new(core),
            telling: Mutex::default(),
            clients: Mutex::default(),
            slow: Mutex::default(),
            progressed: Notify::new(),
            pipe_changed: Notify::new(),
            sooner: Notify::new(),
            stop: Stop::new(),
            credentials: CredentialCache::default(),
            flood: Mutex::default(),
            unreadable: Mutex::default(),
            undelivered: Mutex::default(),
            in_flight: watch::Sender::default(),
            tasks: Mutex::default(),
            tenant: Mutex::default(),
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
        if lock(&self.core).outbound.is_full(request, &self.limits) {
            call.finish(Failure::NotReading);
            return PendingWork::none();
        }
        self.touch();
        call.set_native(is_native);
        let this = Arc::downgrade(self);
        let works = self.step(|half, now| {
            // It may have been cancelled on its way here.
            if call.hold(this) {
                half.open(call.clone(), request, said, now);
            }
        });
        if request.method() == method::LISTEN {
            self.listen_again();
        }
        self.when_room(works)
    }

    /// A client sends a notification.
    pub(crate) fn note(self: &Arc<Self>, message: Message) -> PendingWork {
        self.from_client(|half, now| half.note(message, now))
    }

    /// A step that a client causes: its work includes waiting until the pipe has room.
    fn from_client(
        self: &Arc<Self>,
        step: impl FnOnce(&mut ClientHalf<Call>, Instant),
    ) -> PendingWork {
        let works = self.step(step);
        self.when_room(works)
    }

    /// Runs one step of the half under its lock; what must be sent because of it.
    fn step(self: &Arc<Self>, step: impl FnOnce(&mut ClientHalf<Call>, Instant)) -> PendingWork {
        let mut core = lock(&self.core);
        step(&mut core.half, now());
        if self.stop.is_said() {
            core.half.handle_lost(&Failure::CLOSED, now());
        }
        let works = self.to_server(&mut core);
        self.finish_step(core);
        works
    }

    /// The half has made a step: the clients are told, and the deadlines are kept.
    fn finish_step(self: &Arc<Self>, mut core: MutexGuard<'_, Core>) {
        while let Some(event) = core.half.poll_to_client() {
            core.events.push_back(event);
        }
        let is_due_sooner = core.is_due_sooner();
        drop(core);
        if is_due_sooner {
            self.sooner.notify_one();
        }
        self.to_clients();
        self.progressed.notify_waiters();
    }

    /// Gives what the half wants sent to the transport, in order.
    fn to_server(self: &Arc<Self>, core: &mut Core) -> PendingWork {
        let mut works = PendingWork::none();
        while let Some(transmit) = core.half.poll_transmit() {
            tracing::trace!(server = self.name, what = transmit.name(), "to the server");
            match (core.transport, transmit) {
                (Transport::Pipe, Transmit::Send { message, .. }) => {
                    self.start(core);
                    core.outbound.push(self.declaring(message), &self.limits);
                    self.pipe_changed.notify_waiters();
                }
                (Transport::Http, Transmit::Send { lane, message, headers }) => {
                    works.append(self.post(core, lane, self.declaring(message), headers));
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

    /// A message with the extension that the server's tokens are got by, and, if it is a
    /// gateway's own, with the gateways that led to it.
    fn declaring(&self, message: Message) -> Message {
        let is_own = self.server.details.is_supervised;
        let message = if is_own { self.server.tell_chain(message) } else { message };
        let declaring = self.extension.and_then(|it| project::declaring(&message, it));
        declaring.unwrap_or(message)
    }

    /// Starts the tasks of the connection: the transport is needed.
    fn start(self: &Arc<Self>, core: &mut Core) {
        if core.next_look.is_none() {
            core.next_look = Some(now());
            self.spawn(timers::watch_deadlines(Arc::clone(self)));
            let is_url = matches!(self.server.target(), Target::Url { .. });
            if is_url && !self.limits.ping.is_zero() {
                self.spawn(timers::send_pings(Arc::clone(self)));
            }
        }
        if core.transport == Transport::Pipe && !std::mem::replace(&mut core.is_piped, true) {
            self.spawn(pipe::run(Arc::clone(self), self.server.piped()));
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(task));
    }

    /// A client is gone for good.
    pub(crate) fn forget(self: &Arc<Self>, client: &ClientConnection) {
        lock(&self.clients).remove(&client.number());
        self.step(|half, now| half.forget_owner(client.number(), now)).detach();
    }

    /// Logs why the connection is in trouble, unless the supervisor does.
    fn log_trouble(&self, why: &dyn fmt::Display) {
        if self.server.details.is_supervised {
            tracing::debug!(server = self.name, "{why}");
        } else {
            tracing::warn!(server = self.name, "{why}");
        }
    }

    /// The connection to the server broke: every open call fails.
    fn lost(self: &Arc<Self>, why: &Failure) {
        self.log_trouble(why);
        for client in self.attached() {
            client.lost(why);
        }
        self.fail_all(why);
    }

    fn fail_all(self: &Arc<Self>, why: &Failure) {
        let mut core = lock(&self.core);
        core.outbound = Outbound::default();
        core.half.handle_lost(why, now());
        self.finish_step(core);
    }

    /// Ends the connection without waiting for its end: what is open fails,
    /// and so does what comes later.
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
        if let Some(endpoint) = &self.http {
            endpoint.delete_session().await;
        }
        for task in tasks {
            // A task that panicked has nothing left to wait for.
            _ = task.await;
        }
    }

    /// Ends the connection until the next call. False if a client uses it.
    pub(crate) fn rest(self: &Arc<Self>) -> bool {
        let core = lock(&self.core);
        !core.is_used() && self.end_link(core)
    }

    /// Ends the link although clients listen, unless one waits for an answer: the next call
    /// begins anew.
    pub(crate) fn rest_from_listens(self: &Arc<Self>) -> bool {
        let core = lock(&self.core);
        !core.is_called() && self.end_link(core)
    }

    fn end_link(self: &Arc<Self>, mut core: MutexGuard<'_, Core>) -> bool {
        core.half.rest(&Failure::CLOSED, now());
        // The next call begins anew, and waits for the old pipe to end.
        if core.pipe == PipeState::Here {
            core.pipe = PipeState::Leaving;
        }
        let by_http = core.transport == Transport::Http;
        self.finish_step(core);
        self.pipe_changed.notify_waiters();
        if by_http {
            let this = Arc::clone(self);
            self.spawn(async move {
                if let Some(endpoint) = &this.http {
                    endpoint.delete_session().await;
                }
            });
        }
        true
    }

    /// Waits until that is so, or the connection was ended.
    pub(crate) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        loop {
            let progressed = self.progressed.notified();
            if is_so(self) || self.stop.until(progressed).await.is_none() {
                return;
            }
        }
    }

    /// When a client last opened a call.
    pub(crate) fn used(&self) -> Instant {
        lock(&self.core).used
    }

    /// A client is about to use it.
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

    /// The server, as it is reached for its user.
    pub(crate) fn server(&self) -> &ServerTarget {
        &self.server
    }

    /// Whether there is a child, or a stream; over HTTP that cannot be told.
    pub(crate) fn is_linked(&self) -> bool {
        let core = lock(&self.core);
        core.transport == Transport::Http || matches!(core.pipe, PipeState::Ahead | PipeState::Here)
    }

    /// Whether the server has ever told of itself here.
    pub(crate) fn is_met(&self) -> bool {
        lock(&self.core).half.is_met()
    }

    /// Whether a call is open, a client waits to hear of something, or a task goes on.
    pub(crate) fn is_used(&self) -> bool {
        lock(&self.core).is_used()
    }

    /// Whether a client waits for an answer.
    pub(crate) fn is_called(&self) -> bool {
        lock(&self.core).is_called()
    }

    /// Whether the server was greeted for clients of its own era.
    pub(crate) fn has_hello(&self) -> bool {
        lock(&self.core).half.hello().is_some()
    }

    /// One for the same clients, with a link of its own.
    pub(crate) fn successor(&self) -> Arc<Self> {
        let (hello, sharing) = {
            let core = lock(&self.core);
            (core.half.hello().cloned(), core.sharing)
        };
        let limits = Arc::clone(&self.limits);
        Self::new(self.server.clone(), Eras::both(self.era()), sharing, hello, limits)
    }

    /// Whether this principal began the task by this connection.
    pub(crate) fn has_task(&self, id: &str, principal: &[u8]) -> bool {
        lock(&self.core).half.has_task(id, principal)
    }
}

/// The way back: what a server says, to the clients it is meant for.
impl Upstream {
    /// Text arrived on a lane.
    pub(crate) fn from_server(self: &Arc<Self>, lane: Lane, text: Bytes) -> PendingWork {
        tracing::trace!(server = self.name, lane = lane.0, bytes = text.len(), "from the server");
        add(&self.server.traffic().received, text.len());
        let whole = text.clone();
        match jsonrpc::parse(text) {
            Ok(Incoming::One(message)) => self.handle_message(lane, &message),
            Ok(Incoming::Batch(elements)) => {
                let mut works = PendingWork::none();
                for message in elements.iter().flatten() {
                    works.append(self.handle_message(lane, message));
                }
                // What cannot be read fails a call that none of the others answered.
                for (element, text) in elements.iter().zip(jsonrpc::elements(&whole)) {
                    if let Err(refused) = element {
                        works.append(self.handle_unreadable(lane, &text, refused));
                    }
                }
                works
            }
            Err(refused) => self.handle_unreadable(lane, &whole, &refused),
        }
    }

    /// Text arrived on a stream or a pipe, which is read on when there is room for more.
    async fn receive(self: &Arc<Self>, lane: Lane, text: Bytes) {
        self.from_server(lane, text).detach();
        self.answers_are_read().await;
        self.answers_are_taken().await;
        self.pace().await;
        self.clients_have_room().await;
    }

    fn handle_message(self: &Arc<Self>, lane: Lane, message: &Message) -> PendingWork {
        if !message.is_response() {
            self.count_notice(message.text().len());
        }
        // Only the gateway that names a server is to take its loop for its own.
        let looped = self.loop_in(message).map(|it| it.to_error(message.id(), Words::Full));
        let message = looped.as_ref().unwrap_or(message);
        self.step(|half, now| half.handle_message(lane, message, now))
    }

    /// Tells the clients what the half has to tell, in order.
    fn to_clients(self: &Arc<Self>) {
        loop {
            let telling = match self.telling.try_lock() {
                Ok(telling) => telling,
                Err(TryLockError::Poisoned(telling)) => telling.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            // Not in the head of the loop: the lock must not be held in its body.
            let next = || lock(&self.core).events.pop_front();
            while let Some(event) = next() {
                self.to_client(event);
            }
            drop(telling);
            // Another thread may have left an event to us just before we let go.
            if lock(&self.core).events.is_empty() {
                return;
            }
        }
    }

    fn to_client(self: &Arc<Self>, event: ServerEvent<Call>) {
        tracing::trace!(server = self.name, verb = event.name(), "to the client");
        match event {
            ServerEvent::Note { to: To::Call(call), message } => {
                call.note(&message);
                self.watch_slow(call.sink());
            }
            ServerEvent::Note { to: To::Session, message } => {
                self.to_attached(|client| client.note(None, &message));
            }
            ServerEvent::Ask { to, ask, request } => {
                let this: Arc<dyn Asker> = Arc::<Self>::clone(self);
                let asker = Arc::downgrade(&this);
                let mut is_asked = false;
                match to {
                    To::Call(call) => {
                        is_asked = call.ask(asker, ask, &request);
                        self.watch_slow(call.sink());
                    }
                    To::Session => self.to_attached(|client| {
                        let asker = asker.clone();
                        is_asked = is_asked || Arc::clone(client).ask(None, asker, ask, &request);
                    }),
                }
                if !is_asked {
                    self.step(|half, now| half.refuse_ask(ask, now)).detach();
                }
            }
            ServerEvent::Recall { to: To::Call(call), ask, message } => {
                call.recall(ask, &message);
                self.watch_slow(call.sink());
            }
            ServerEvent::Recall { to: To::Session, ask, message } => {
                self.to_attached(|client| client.recall(ask, &message));
            }
            ServerEvent::Finish { to: call, outcome } => {
                call.finish(outcome);
                self.watch_slow(call.sink());
            }
            ServerEvent::Unanswered { to } => to.unanswered(),
        }
    }

    /// Tells every client that hears what belongs to no call.
    fn to_attached(&self, mut tell: impl FnMut(&Arc<dyn ReplySink>)) {
        for client in &self.attached() {
            tell(client);
            self.watch_slow(client);
        }
    }

    /// Notes a client that was told more than it has read.
    fn watch_slow(&self, client: &Arc<dyn ReplySink>) {
        if client.is_slow() {
            let mut slow = lock(&self.slow);
            if !slow.iter().any(|known| Arc::ptr_eq(known, client)) {
                slow.push(Arc::clone(client));
            }
        }
    }

    /// Waits until the clients have read enough. One that shares its server with
    /// others is disconnected instead, so that it delays no other client.
    async fn clients_have_room(&self) {
        let slow = std::mem::take(&mut *lock(&self.slow));
        for client in slow {
            let sharing = lock(&self.core).sharing;
            if sharing == Sharing::Alone {
                client.room().await;
            } else if client.is_slow() {
                tracing::warn!(server = self.name, "a client that does not read is disconnected");
                client.end();
            }
        }
    }

    /// From here on this client is told what belongs to no call.
    pub(crate) fn attach(&self, client: &Arc<dyn ReplySink>) {
        let mut clients = lock(&self.clients);
        let there = clients.get(&client.number()).is_some_and(|known| known.strong_count() > 0);
        if !there {
            clients.insert(client.number(), Arc::downgrade(client));
        }
    }

    /// No client will ever be told what belongs to no call: we do not listen for it.
    pub(crate) fn go_deaf(&self) {
        if let Some(endpoint) = &self.http {
            endpoint.is_deaf.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a client is told what belongs to no call.
    pub(crate) fn is_attached(&self) -> bool {
        lock(&self.clients).values().any(|client| client.strong_count() > 0)
    }

    fn attached(&self) -> Vec<Arc<dyn ReplySink>> {
        lock(&self.clients).values().filter_map(Weak::upgrade).collect()
    }
}

impl CallHolder for Upstream {
    fn cancel(self: Arc<Self>, call: &Call, words: Option<&Message>) -> PendingWork {
        self.step(|half, now| half.drop_call(call, words, now))
    }

    fn retry(self: Arc<Self>, call: &Call, request: &Message) -> PendingWork {
        self.from_client(|half, now| half.again(call, request, now))
    }
}

impl Asker for Upstream {
    fn supply(self: Arc<Self>, ask: Ask, answer: &Message) -> PendingWork {
        self.from_client(|half, now| half.supply(ask, answer, now))
    }

    fn progress(self: Arc<Self>, message: Message) -> PendingWork {
        self.note(message)
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("name", &self.name)
            .field("era", &self.era())
            .finish_non_exhaustive()
    }
}
