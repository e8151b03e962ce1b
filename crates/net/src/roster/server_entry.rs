//! One server of the roster: its state, what it offers, and the task that keeps its connection.
//!
//! ```text
//!   Inbox::note ──▶ WatchedConnection::handle_note ──▶ ConnectionTask: reads the lists
//!                                                        └──▶ RosterShared::offer
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;
use serde_json::Value;
use switchboard_proto::backoff::Reconnect;
use switchboard_proto::failure::Failure;
use switchboard_proto::method;
use switchboard_proto::project::CacheHints;
use switchboard_proto::revision::Era;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};

use super::cache::cache_key;
use super::state::{Deferred, Definition, Definitions, ListCounts, ListKind, ListTerms};
use super::state::{ServerPhase, ServerState};
use super::state_log::StateLog;
use super::{Roster, RosterError, RosterShared};
use crate::bridge::Bridge;
use crate::client::{
    CallError, CallOptions, Client, ClientOptions, ConnectError, ConnectionWatcher, ListenFilter,
    RawList, Remembered,
};
use crate::connection::lock;
use crate::drive::{Either, OwnedTask, Stop, now, race};
use crate::upstream::{ServerTarget, Target};

/// A server with a name.
pub(super) struct ServerEntry {
    pub(super) name: Arc<str>,
    pub(super) server: ServerTarget,
    pub(super) options: ClientOptions,
    /// How long connecting and reading the lists may take.
    connect: Duration,
    /// Where the cache has its lists.
    pub(super) key: String,
    pub(super) state: watch::Sender<ServerState>,
    pub(super) lists: watch::Sender<ServerLists>,
    pub(super) logged: StateLog,
    /// There while the server is ready; while it sleeps, as it was.
    client: Mutex<Option<(Client, Arc<WatchedConnection>)>>,
    /// The latest connection, and the task that keeps it.
    kept: Mutex<Option<(Arc<WatchedConnection>, JoinHandle<()>)>>,
    remembered: Mutex<Option<Remembered>>,
    /// The task that asks the cache.
    pub(super) recalling: Mutex<Option<OwnedTask>>,
    /// The task that puts the server to sleep.
    sleeping: Mutex<Option<OwnedTask>>,
}

/// What a server offers, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerLists {
    pub(super) definitions: Arc<Definitions>,
    /// Of each kind; none for what the server does not have.
    terms: [Option<ListTerms>; 4],
    /// The definitions are its own, of whatever time, or those of the server before it.
    pub(super) is_known: bool,
    /// The definitions are those of the server before it.
    is_inherited: bool,
    /// What the server before it offered, until the cache has been asked.
    inherited: Option<Arc<Definitions>>,
    /// The cache has been asked.
    pub(super) is_loaded: bool,
}

/// A list of a server as it was read, and how long it may be kept.
#[derive(Debug)]
pub(super) struct ReadList {
    pub(super) kind: ListKind,
    pub(super) items: Vec<Bytes>,
    /// None if the server does not have it at all.
    pub(super) terms: Option<ListTerms>,
}

impl ServerEntry {
    pub(super) fn new(
        name: Arc<str>,
        server: ServerTarget,
        options: ClientOptions,
        connect: Duration,
    ) -> Arc<Self> {
        let key = cache_key(&server);
        let remembered = Mutex::new(options.remembered);
        Arc::new(Self {
            name,
            server,
            options,
            connect,
            key,
            state: watch::Sender::new(ServerState::new(ServerPhase::Queued)),
            lists: watch::Sender::default(),
            logged: StateLog::default(),
            client: Mutex::default(),
            kept: Mutex::default(),
            remembered,
            recalling: Mutex::default(),
            sleeping: Mutex::default(),
        })
    }

    /// Offers what another one offered, until it knows better.
    pub(super) fn succeed(&self, old: &Self) {
        let old = old.lists.borrow().clone();
        self.lists.send_modify(|lists| {
            lists.inherited = old.is_known.then(|| Arc::clone(&old.definitions));
            lists.definitions = old.definitions;
            (lists.is_known, lists.is_inherited) = (old.is_known, true);
        });
    }

    /// It cannot be used, so it offers nothing of the server before it any more; the lists that
    /// are different now.
    pub(super) fn disinherit(&self) -> Vec<ListKind> {
        let mut different = Vec::new();
        self.lists.send_if_modified(|lists| {
            let is_inherited = std::mem::take(&mut lists.is_inherited);
            if is_inherited {
                let had = |kind: &ListKind| !lists.definitions[*kind as usize].is_empty();
                different.extend(ListKind::ALL.into_iter().filter(had));
                (lists.definitions, lists.is_known) = (Arc::default(), false);
            }
            is_inherited
        });
        different
    }

    /// How much it offers.
    pub(super) fn counts(&self) -> ListCounts {
        let definitions = Arc::clone(&self.lists.borrow().definitions);
        ListCounts(ListKind::ALL.map(|kind| definitions[kind as usize].len()))
    }

    /// The server is in this state from here on.
    pub(super) fn publish(&self, state: ServerState) {
        let is_up = state.is_up();
        if state.phase == ServerPhase::Draining {
            *lock(&self.recalling) = None;
            *lock(&self.sleeping) = None;
        }
        self.state.send_modify(|before| *before = state.after(before));
        if !is_up {
            *lock(&self.client) = None;
        }
    }

    /// The connection, while the server is in a state like this.
    pub(super) fn client_if(
        &self,
        is_it: impl Fn(&ServerState) -> bool,
    ) -> Option<(Client, Arc<WatchedConnection>)> {
        let client = lock(&self.client).clone();
        client.filter(|_| is_it(&self.state.borrow()))
    }

    /// Replaces lists; those that are different now.
    pub(super) fn set(&self, lists: Vec<ReadList>) -> Vec<ListKind> {
        let mut different = Vec::new();
        self.lists.send_modify(|known| {
            let mut definitions = Definitions::clone(&known.definitions);
            for ReadList { kind, items, terms } in lists {
                known.terms[kind as usize] = terms;
                if definitions[kind as usize] != items {
                    different.push(kind);
                    definitions[kind as usize] = items;
                }
            }
            known.definitions = Arc::new(definitions);
            (known.is_known, known.is_inherited) = (true, false);
        });
        different
    }

    /// The cache has answered; the lists that are different now.
    pub(super) fn handle_recalled(&self, found: Option<Definitions>) -> Vec<ListKind> {
        let mut different = Vec::new();
        self.lists.send_modify(|lists| {
            lists.is_loaded = true;
            let inherited = lists.inherited.take();
            // A server that was quicker knows better; one that was before it does not. If the
            // cache has what that one offered, it goes as soon as this one breaks.
            let is_unknown = !lists.is_known || lists.is_inherited;
            let is_news = |it: &Definitions| is_unknown && inherited.as_deref() != Some(it);
            if let Some(found) = found.filter(is_news) {
                let at = |kind: &ListKind| *kind as usize;
                let is_other = |kind: &ListKind| found[at(kind)] != lists.definitions[at(kind)];
                different.extend(ListKind::ALL.into_iter().filter(is_other));
                lists.definitions = Arc::new(found);
                (lists.is_known, lists.is_inherited) = (true, false);
            }
        });
        different
    }

    /// What it offers of one kind.
    pub(super) fn definitions(&self, kind: ListKind) -> Vec<Definition> {
        let is_cached = !self.state.borrow().is_up();
        let definition = |text: &Bytes| Definition {
            server: Arc::clone(&self.name),
            kind,
            text: text.clone(),
            is_cached,
        };
        self.lists.borrow().definitions[kind as usize].iter().map(definition).collect()
    }

    /// How long others may keep its list; none if it has none of that kind.
    pub(super) fn hints(&self, kind: ListKind, now: Instant) -> Option<CacheHints> {
        if self.state.borrow().phase != ServerPhase::Ready {
            return Some(CacheHints::default());
        }
        self.lists.borrow().terms[kind as usize].map(|terms| terms.hints(now))
    }

    /// Has a list read again whose time is over. The caller gets the old one.
    pub(super) fn freshen(&self, kind: ListKind, now: Instant) {
        let terms = self.lists.borrow().terms[kind as usize];
        let is_stale = terms.is_some_and(|terms| terms.is_stale(now));
        if let Some((_, connection)) = lock(&self.client).as_ref().filter(|_| is_stale) {
            connection.changed([kind]);
        }
    }

    /// What there is to say if it is not ready.
    pub(super) fn deferred(&self) -> Option<Deferred> {
        let state = self.state.borrow().clone();
        let is_cached = self.lists.borrow().is_known;
        let is_up = state.is_up();
        (!is_up).then(|| Deferred { name: Arc::clone(&self.name), state, is_cached })
    }

    /// Keeps gateways that share a server from coming back all at once. A child
    /// is ours alone.
    pub(super) fn jitter(&self) -> Duration {
        let mut chance = [0; 1];
        match self.server.target() {
            Target::Url { .. } if getrandom::fill(&mut chance).is_ok() => {
                Duration::from_millis(2 * u64::from(chance[0]))
            }
            _ => Duration::ZERO,
        }
    }

    /// Begins an attempt to connect.
    pub(super) fn connect(self: &Arc<Self>, roster: &Arc<RosterShared>, attempt: u64) {
        let connection = Arc::new(WatchedConnection {
            attempt,
            roster: Arc::downgrade(roster),
            entry: Arc::downgrade(self),
            ..WatchedConnection::default()
        });
        let task = ConnectionTask {
            roster: Arc::clone(roster),
            entry: Arc::clone(self),
            connection: Arc::clone(&connection),
        };
        let mut kept = lock(&self.kept);
        let before = kept.take().map(|(_, task)| task);
        *kept = Some((connection, roster.runtime.spawn(task.run(before))));
    }

    /// Nothing that belongs to this attempt is wanted any more.
    pub(super) fn release(&self, attempt: u64) {
        let kept = lock(&self.kept);
        if let Some((connection, _)) = kept.as_ref().filter(|(it, _)| it.attempt == attempt) {
            connection.stop.say();
        }
    }

    /// Waits until nothing of it is left.
    pub(super) async fn gone(&self) {
        let kept = lock(&self.kept).take();
        if let Some((_, task)) = kept {
            // A task that panicked has nothing left to wait for.
            _ = task.await;
        }
    }
}

impl fmt::Debug for ServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What is known of a connection outside the task that keeps it.
#[derive(Debug, Default)]
pub(super) struct WatchedConnection {
    attempt: u64,
    roster: Weak<RosterShared>,
    entry: Weak<ServerEntry>,
    /// It is not wanted any more.
    stop: Stop,
    /// Its task has ended.
    gone: Stop,
    /// It was made, so its end is one.
    is_up: AtomicBool,
    /// Why it broke.
    why: Mutex<Option<Failure>>,
    /// Lists that have changed.
    changed: Mutex<BTreeSet<ListKind>>,
    /// Whether the server is still there must be found out.
    is_doubted: AtomicBool,
    woken: Notify,
}

impl WatchedConnection {
    /// These lists have changed.
    fn changed(&self, kinds: impl IntoIterator<Item = ListKind>) {
        let mut kinds = kinds.into_iter().peekable();
        if kinds.peek().is_some() {
            lock(&self.changed).extend(kinds);
            self.woken.notify_one();
        }
    }

    /// Something failed as if the server were gone.
    fn doubt(&self) {
        self.is_doubted.store(true, Ordering::SeqCst);
        self.woken.notify_one();
    }

    /// What a call came to; one that broke may mean that the server is gone.
    pub(super) fn noting<T>(&self, called: Result<T, CallError>) -> Result<T, RosterError> {
        if called.as_ref().is_err_and(CallError::is_broken) {
            self.doubt();
        }
        Ok(called?)
    }

    /// Why it broke, as far as was told.
    fn why(&self) -> Failure {
        lock(&self.why).clone().unwrap_or(Failure::CLOSED)
    }
}

impl ConnectionWatcher for WatchedConnection {
    fn handle_note(&self, method: &str) {
        self.changed(changed_by(method));
    }

    fn handle_close(&self, why: Option<&Failure>) {
        if let Some(why) = why {
            *lock(&self.why) = Some(why.clone());
        }
        // A child that was only asked for its era may end without harm.
        if self.is_up.load(Ordering::SeqCst)
            && let (Some(roster), Some(entry)) = (self.roster.upgrade(), self.entry.upgrade())
        {
            roster.handle_broken(&entry, self.attempt, self.why());
        }
    }
}

/// Bytes of one list. A server that offers more cannot be offered to anybody.
const LIST: usize = 16 << 20;

/// How long a server may take to say that it is there.
const PING: Duration = Duration::from_secs(10);

/// How long what a server has started may take to end: longer than ending it
/// politely and by force does.
const END: Duration = Duration::from_secs(8);

/// How long a server that is ready waits for the cache.
const RECALL: Duration = Duration::from_secs(1);

/// How long a list is not read that could not be read, at first and at most.
const AGAIN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(30);

/// Listens in a row that bring nothing before there is no more.
const LISTENS: u32 = 10;

/// Makes a connection, looks after it, and ends it.
struct ConnectionTask {
    roster: Arc<RosterShared>,
    entry: Arc<ServerEntry>,
    connection: Arc<WatchedConnection>,
}

impl ConnectionTask {
    /// Makes the connection and keeps it until it breaks or is not wanted any more.
    /// `before` is the task of the one before it: two children of one server do
    /// not live at the same time.
    async fn run(self, before: Option<JoinHandle<()>>) {
        if let Some(before) = before {
            // A task that panicked has nothing left to wait for.
            _ = before.await;
        }
        let Self { entry, connection, .. } = &self;
        entry.server.forget_loop();
        let (server, mut pipes) = entry.server.counted();
        let mut options = entry.options.clone();
        options.remembered = *lock(&entry.remembered);
        let watcher: Arc<WatchedConnection> = Arc::clone(connection);
        options.callbacks.watcher = Some(watcher);
        let until = now() + entry.connect;
        let connecting = timeout_at(until.into(), options.connect(server));
        match connection.stop.until(connecting).await {
            // Dropping it has ended it.
            None => {}
            Some(Err(_)) => {
                self.begin_anew();
                self.broken(Failure::Timeout { waited: entry.connect });
            }
            Some(Ok(Err(error))) => {
                // What was remembered may be what is wrong.
                *lock(&entry.remembered) = None;
                self.begin_anew();
                self.broken(error.into());
            }
            Some(Ok(Ok(client))) => {
                *lock(&entry.remembered) = Some(client.remembered());
                connection.stop.until(Box::pin(self.serve(&client, until))).await;
                client.close().await;
                if !connection.is_up.load(Ordering::SeqCst) {
                    self.begin_anew();
                }
            }
        }
        // The child that was only asked for its era may take a little longer.
        _ = timeout(END, pipes.wait_for(|pipes| *pipes == 0)).await;
        connection.gone.say();
    }

    /// The connection, or the attempt at it, has come to an end.
    fn broken(&self, why: Failure) {
        self.roster.handle_broken(&self.entry, self.connection.attempt, why);
    }

    /// Sees to it that the next attempt is not with the same process, where that is
    /// not ours to end.
    fn begin_anew(&self) {
        if let Some(behind) = self.entry.server.through() {
            behind.bridge.begin_anew();
        }
    }

    /// Looks after the connection until it is not wanted any more. Its lists must be
    /// there in time.
    async fn serve(&self, client: &Client, until: Instant) {
        let Self { roster, entry, connection } = self;
        let first = timeout_at(until.into(), read(client, &ListKind::ALL.into())).await;
        let first = first.unwrap_or_else(|_| Err(CallError::timeout(entry.connect)));
        // What the server did not give is taken from the cache, if that answers.
        let mut lists = entry.lists.subscribe();
        _ = timeout(RECALL, lists.wait_for(|lists| lists.is_loaded)).await;
        match first {
            Ok(_) if entry.server.leads_back() => return self.broken(Failure::LOOP),
            Ok(lists) => roster.offer(entry, lists),
            Err(error) => return self.broken(failure(error)),
        }
        *lock(&entry.client) = Some((client.clone(), Arc::clone(connection)));
        connection.is_up.store(true, Ordering::SeqCst);
        roster.step(|supervisor, now| {
            supervisor.handle_ready(&entry.name, connection.attempt, now);
        });
        if !client.is_connected() {
            // It broke before the watcher was told when it does.
            return self.broken(connection.why());
        }
        roster.store(entry).await;
        let looking = race(listen(client, connection), self.look_after(client));
        if let Either::Left(()) = race(entry.server.until_loop(), Box::pin(looking)).await {
            // A call of a client has found out; the next attempt does too.
            roster.step(|supervisor, now| supervisor.restart(&entry.name, now));
        }
    }

    /// Reads lists again that have changed, and asks a server that seems gone.
    async fn look_after(&self, client: &Client) {
        let Self { roster, entry, connection } = self;
        let mut pause = roster.options.coalesce;
        loop {
            connection.woken.notified().await;
            if connection.is_doubted.swap(false, Ordering::SeqCst)
                && let Some(error) = missing(client).await
            {
                return self.broken(failure(error));
            }
            if lock(&connection.changed).is_empty() {
                continue;
            }
            // What changes meanwhile is read with it; what changes later is read again.
            tokio::time::sleep(pause).await;
            let kinds = std::mem::take(&mut *lock(&connection.changed));
            let lists = read(client, &kinds).await;
            if entry.server.leads_back() {
                return self.broken(Failure::LOOP);
            }
            match lists {
                Ok(lists) => {
                    pause = roster.options.coalesce;
                    roster.offer(entry, lists);
                    roster.store(entry).await;
                }
                Err(error) => {
                    // Once: its state does not change by it.
                    if pause == roster.options.coalesce {
                        let server = &*entry.name;
                        tracing::warn!(server, "its lists cannot be read again: {error}");
                    }
                    pause = (pause * 2).clamp(AGAIN, SELDOM);
                    connection.changed(kinds);
                    connection.doubt();
                }
            }
        }
    }
}

/// Why a server is not there whose call failed.
fn failure(error: CallError) -> Failure {
    ConnectError::Failed(error).into()
}

/// Why a server is not there, if it is not.
async fn missing(client: &Client) -> Option<CallError> {
    match timeout(PING, client.ping()).await {
        Ok(Err(error)) if error.failure().is_some() && error.status().is_none() => Some(error),
        Ok(_) => None,
        Err(_) => Some(CallError::timeout(PING)),
    }
}

/// Hears of changes from a modern server; a legacy one says them anyway.
async fn listen(client: &Client, connection: &WatchedConnection) {
    let offers = |kind: ListKind| {
        let declared = &client.capabilities()[kind.capability()];
        client.capabilities().is_null() || declared["listChanged"] == true
    };
    let filter = ListenFilter {
        tools: offers(ListKind::Tools),
        prompts: offers(ListKind::Prompts),
        resources: offers(ListKind::Resources),
        ..ListenFilter::default()
    };
    let kinds: Vec<_> = ListKind::ALL.into_iter().filter(|&kind| offers(kind)).collect();
    // Servers that cannot tell agree to no list (SUB-5).
    let is_told = |honoured: &Value| {
        honoured.as_object().is_some_and(|lists| lists.values().any(|told| *told == true))
    };
    let mut pace = Reconnect::new(LISTENS);
    while client.era() == Era::Modern && !kinds.is_empty() {
        match client.listen(filter.clone()).await {
            // Nothing of it will be told, and asking again would not help.
            Ok(listening) if !is_told(listening.honoured()) => break,
            Ok(mut listening) => {
                // It may have changed before it was listened to.
                connection.changed(kinds.iter().copied());
                while let Some(note) = listening.next().await {
                    pace.handle_success();
                    connection.changed(changed_by(&note.method));
                }
            }
            // It does not tell of changes.
            Err(CallError::Server { .. }) => break,
            Err(_) => {}
        }
        connection.doubt();
        let Some(at) = pace.handle_break(now(), Duration::ZERO) else { break };
        tokio::time::sleep_until(at.into()).await;
    }
    std::future::pending::<()>().await;
}

/// Reads lists, side by side. Those that the server does not have are empty,
/// those that it will not give are left out; only a server that cannot be
/// reached is an error.
async fn read(client: &Client, kinds: &BTreeSet<ListKind>) -> Result<Vec<ReadList>, CallError> {
    let lists = kinds.iter().map(|kind| read_one(client, *kind));
    Ok(try_join_all(lists).await?.into_iter().flatten().collect())
}

async fn read_one(client: &Client, kind: ListKind) -> Result<Option<ReadList>, CallError> {
    let capabilities = client.capabilities();
    if capabilities.is_object() && capabilities.get(kind.capability()).is_none() {
        return Ok(Some(ReadList { kind, items: Vec::new(), terms: None }));
    }
    match client.list_raw(kind.method(), kind.member().key(), &CallOptions::default(), LIST).await {
        Ok(RawList { items, ttl, is_public }) => {
            let ttl = (client.era() == Era::Modern).then_some(ttl);
            let terms = Some(ListTerms { read_at: now(), ttl, is_public });
            Ok(Some(ReadList { kind, items, terms }))
        }
        Err(error) if error.is_broken() || error.status().is_some() => Err(error),
        Err(error) => {
            tracing::debug!(method = kind.method(), "not listed: {error}");
            Ok(None)
        }
    }
}

/// A server, and the bridge that the calls of clients go by.
struct Sleeper {
    roster: Weak<RosterShared>,
    name: Arc<str>,
    bridge: Arc<Bridge>,
    idle: Duration,
    /// The connections of the bridge end with ours.
    is_owner: bool,
}

impl Roster {
    /// Has a server sleep whenever no client has made a call by `bridge` for `idle`; never,
    /// if that is not said. The connections of the bridge end too if this roster is their
    /// owner; other rosters only leave them.
    pub fn sleep_after(
        &self,
        name: &str,
        idle: Option<Duration>,
        bridge: &Arc<Bridge>,
        is_owner: bool,
    ) {
        let Some(entry) = self.shared.entry(name) else { return };
        let sleeper = idle.map(|idle| Sleeper {
            roster: Arc::downgrade(&self.shared),
            name: Arc::clone(&entry.name),
            bridge: Arc::clone(bridge),
            idle,
            is_owner,
        });
        let state = entry.state.subscribe();
        *lock(&entry.sleeping) = sleeper.map(|it| OwnedTask::spawn(it.run(state)));
    }
}

impl Sleeper {
    async fn run(self, mut state: watch::Receiver<ServerState>) {
        let bridge = &self.bridge;
        let mut children = bridge.server().traffic().children.subscribe();
        while !bridge.is_closed() {
            bridge.unused_for(self.idle).await;
            if self.is_owner {
                bridge.until_quiet().await;
            }
            let stirred = bridge.stirred();
            children.borrow_and_update();
            let phase = state.borrow_and_update().phase;
            if phase == ServerPhase::Ready && (!self.is_owner || bridge.is_common()) {
                // It goes by the bridge too, and leaves it first: it would start the server again.
                match self.leave() {
                    Some(connection) => connection.gone.said().await,
                    None => tokio::task::yield_now().await,
                }
            } else if !self.put_to_sleep(phase) {
                // A client came to use it at this moment.
                tokio::task::yield_now().await;
            } else {
                let changed = race(state.changed(), children.changed());
                if let Either::Right(Either::Left(Err(_))) = race(stirred, changed).await {
                    return;
                }
            }
        }
    }

    fn sleep(&self) -> bool {
        let roster = self.roster.upgrade();
        roster.is_some_and(|roster| roster.step(|supervisor, _| supervisor.sleep(&self.name)))
    }

    /// Ends the connection of the roster; what is left of it. None if it broke meanwhile.
    fn leave(&self) -> Option<Arc<WatchedConnection>> {
        let entry = self.roster.upgrade()?.entry(&self.name)?;
        let (_, connection) = lock(&entry.client).clone()?;
        self.sleep();
        Some(connection)
    }

    /// Ends the connections of clients. False if that must be tried again once no client
    /// uses the server.
    fn put_to_sleep(&self, phase: ServerPhase) -> bool {
        let bridge = &self.bridge;
        let is_asleep = match phase {
            ServerPhase::Ready => bridge.rest(self.idle) && self.sleep(),
            ServerPhase::Sleeping if self.is_owner && bridge.is_common() && bridge.is_running() => {
                bridge.rest(self.idle)
            }
            _ => return true,
        };
        if is_asleep {
            tracing::info!(server = &*self.name, "put to sleep: nobody uses it");
        }
        is_asleep
    }
}

/// The lists that a notification says have changed.
fn changed_by(note: &str) -> impl Iterator<Item = ListKind> {
    let says = move |kind: &ListKind| method::list_changed(kind.capability()) == Some(note);
    ListKind::ALL.into_iter().filter(says)
}
