//! Many servers, each with a name: connected side by side, kept, and offered
//! together.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use serde_json::json;
//! use switchboard_net::roster::{Cache, Roster, RosterOptions};
//! use switchboard_net::stdio::child::Command;
//! use switchboard_net::upstream::ServerTarget;
//!
//! let cache = Some(Cache::at("/var/cache/example"));
//! let roster = Roster::new(RosterOptions::default().cache(cache));
//! for (name, line) in [("files", "files-server ."), ("search", "npx -y search-server")] {
//!     let environment = std::env::vars_os().collect();
//!     roster.add(name, ServerTarget::command(Command::parse(line)?, environment))?;
//! }
//! for late in roster.ready().await {
//!     println!("{}: {}", late.name, late.state);
//! }
//! for tool in roster.tools() {
//!     println!("{} of {}", tool.name(), tool.server);
//! }
//! let found = roster.call("search", "find", json!({"text": "mcp"})).await?;
//! println!("{found}");
//! roster.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! A server that is slow or broken neither delays nor hides the others. It is
//! connected again, a little later each time, and what it offered at an earlier
//! time is offered meanwhile, if there is a [`Cache`]. A call to it waits a
//! while and is sent at most once: whether a call that broke was acted on is
//! for the caller to find out.
//!
//! What servers offer is not renamed, even if two offer the same.

mod cache;
mod server_entry;
mod state;
mod state_log;
mod supervisor;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::Value;
use switchboard_proto::failure::Failure;
use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::{timeout, timeout_at};

pub use cache::{Bounds, Cache};
pub use state::{
    AddError, Change, Deferred, Definition, ListCounts, ListKind, RosterError, RosterOptions,
    ServerPhase, ServerState,
};
pub use switchboard_proto::project::CacheHints as Hints;

use crate::client::{CallOptions, Client, ClientOptions};
use crate::connection::lock;
use crate::drive::{OwnedTask, Stop, now, race};
use crate::upstream::ServerTarget;
use server_entry::{ReadList, ServerEntry, WatchedConnection};
use supervisor::{Action, Supervisor};

/// Named servers. Clones share them; the last one dropped lets go of them.
#[derive(Clone, Debug)]
pub struct Roster {
    shared: Arc<RosterShared>,
    _end: Arc<RosterEnd>,
}

/// Ends the connections with the last clone of the roster. No caller waits for it.
#[derive(Debug)]
struct RosterEnd(Arc<RosterShared>);

impl Drop for RosterEnd {
    fn drop(&mut self) {
        self.0.shut();
    }
}

impl Roster {
    /// No servers yet. Must be called within a tokio runtime.
    pub fn new(options: RosterOptions) -> Self {
        let options = Arc::new(options);
        let supervisor = Supervisor::new(Arc::clone(&options));
        let shared = Arc::new(RosterShared {
            options,
            changes: broadcast::Sender::new(BEHIND),
            edition: AtomicU64::new(0),
            stop: Stop::new(),
            core: Mutex::new(RosterCore { supervisor, entries: BTreeMap::new() }),
            woken: Notify::new(),
            runtime: Handle::current(),
        });
        shared.runtime.spawn(watch_time(Arc::clone(&shared)));
        let end = Arc::new(RosterEnd(Arc::clone(&shared)));
        Self { shared, _end: end }
    }

    /// Adds a server and begins to connect it.
    pub fn add(&self, name: impl Into<Arc<str>>, server: ServerTarget) -> Result<(), AddError> {
        let RosterOptions { client, connect, .. } = &*self.shared.options;
        self.add_within(name, server, client.clone(), *connect)
    }

    /// The same with something different about how to connect, which callbacks answer, or how
    /// long the server may take to start.
    pub fn add_within(
        &self,
        name: impl Into<Arc<str>>,
        server: ServerTarget,
        options: ClientOptions,
        connect: Duration,
    ) -> Result<(), AddError> {
        let entry = ServerEntry::new(name.into(), server, options, connect);
        let name = Arc::clone(&entry.name);
        let most = self.shared.options.servers;
        let mut core = lock(&self.shared.core);
        if self.shared.stop.is_said() {
            return Err(AddError::Closed);
        }
        if core.entries.contains_key(&name) {
            return Err(AddError::Taken { name: name.to_string() });
        }
        if core.entries.len() >= most {
            return Err(AddError::Full { most });
        }
        self.shared.insert(&mut core, &entry);
        drop(core);
        self.shared.recall(&entry);
        Ok(())
    }

    /// Removes a server and waits for its end. False if there is none of that name.
    pub async fn remove(&self, name: &str) -> bool {
        let Some(gone) = self.let_go(name) else { return false };
        gone.await;
        true
    }

    /// Removes a server; what is returned waits for its end, which comes anyway.
    /// None if there is none of that name.
    pub fn let_go(&self, name: &str) -> Option<impl Future<Output = ()> + Send + use<>> {
        let entry = self.shared.remove(name)?;
        Some(gone(entry, self.shared.options.close))
    }

    /// Puts another server in the place of one. What that one offered is offered
    /// until this one is ready, or cannot be used. What is returned waits for the end of the old
    /// one, which comes anyway; none if there is none of that name.
    pub fn replace_within(
        &self,
        name: &str,
        server: ServerTarget,
        connect: Duration,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let options = self.shared.options.client.clone();
        let entry = ServerEntry::new(name.into(), server, options, connect);
        let mut core = lock(&self.shared.core);
        let old = core.entries.get(name).filter(|_| !self.shared.stop.is_said()).cloned()?;
        entry.succeed(&old);
        core.supervisor.remove(name, now());
        self.shared.act(&mut core);
        old.publish(ServerState::new(ServerPhase::Draining));
        self.shared.insert(&mut core, &entry);
        drop(core);
        self.shared.recall(&entry);
        Some(gone(old, self.shared.options.close))
    }

    /// Connects a server anew, whatever it is doing. False if there is none of that name.
    pub fn restart(&self, name: &str) -> bool {
        self.shared.step(|supervisor, now| supervisor.restart(name, now))
    }

    /// Ends the connection to a server that no client uses; what it offers is offered
    /// as before, and the next use wakes it. False if it is not ready.
    pub fn sleep(&self, name: &str) -> bool {
        self.shared.step(|supervisor, _| supervisor.sleep(name))
    }

    /// What the supervisor of a server knows of it, from here on. The last thing that it
    /// says is [`ServerPhase::Draining`]. None if there is no server of that name.
    pub fn state(&self, name: &str) -> Option<watch::Receiver<ServerState>> {
        self.shared.entry(name).map(|entry| entry.state.subscribe())
    }

    /// Whether a server can be called.
    pub fn is_ready(&self, name: &str) -> bool {
        let entry = self.shared.entry(name);
        entry.is_some_and(|entry| entry.state.borrow().phase == ServerPhase::Ready)
    }

    /// Connects a server that sleeps, without waiting for it.
    pub fn wake(&self, name: &str) {
        self.shared.step(|supervisor, now| supervisor.want(name, now));
    }

    /// Waits until every server is ready or known to be broken, or until
    /// [`patience`](RosterOptions::patience) is over; those that are not ready.
    pub async fn ready(&self) -> Vec<Deferred> {
        self.ready_within(self.shared.options.patience).await
    }

    /// The same with another patience.
    pub async fn ready_within(&self, patience: Duration) -> Vec<Deferred> {
        let until = now() + patience;
        for entry in self.shared.entries() {
            let (mut state, mut lists) = (entry.state.subscribe(), entry.lists.subscribe());
            let settled = async {
                _ = state.wait_for(|state| !state.is_pending()).await;
                if !entry.state.borrow().accepts_calls {
                    _ = lists.wait_for(|lists| lists.is_loaded).await;
                }
            };
            if timeout_at(until.into(), settled).await.is_err() {
                break;
            }
        }
        self.deferred()
    }

    /// The servers that are not ready, by name.
    pub fn deferred(&self) -> Vec<Deferred> {
        self.shared.entries().iter().filter_map(|entry| entry.deferred()).collect()
    }

    /// All servers and how they stand, by name.
    pub fn servers(&self) -> Vec<(Arc<str>, ServerState)> {
        let entries = self.shared.entries();
        let state =
            |entry: &Arc<ServerEntry>| (Arc::clone(&entry.name), entry.state.borrow().clone());
        entries.iter().map(state).collect()
    }

    /// What changes from here on.
    pub fn changes(&self) -> Changes {
        Changes { heard: self.shared.changes.subscribe() }
    }

    /// Another number whenever a server offers something else: what was made of
    /// [`definitions`](Self::definitions) under this number is still true.
    pub fn edition(&self) -> u64 {
        self.shared.edition.load(Ordering::Acquire)
    }

    /// How much all servers that are up offer together.
    pub fn counts(&self) -> ListCounts {
        let entries = self.shared.entries();
        let add = |one: ListCounts, other: ListCounts| {
            ListCounts(std::array::from_fn(|kind| one.0[kind] + other.0[kind]))
        };
        let up = entries.iter().filter(|entry| entry.state.borrow().is_up());
        up.map(|entry| entry.counts()).fold(ListCounts::default(), add)
    }

    /// What all servers offer of one kind: by name, in the order of each.
    pub fn definitions(&self, kind: ListKind) -> Vec<Definition> {
        self.shared.entries().iter().flat_map(|entry| entry.definitions(kind)).collect()
    }

    /// How long others may keep the lists of one kind of these servers together,
    /// and whether users may share them: the least that any of them allows (GW-83).
    /// None if none of them has such a list.
    pub fn hints(&self, kind: ListKind, of: impl Fn(&str) -> bool) -> Option<Hints> {
        let (entries, now) = (self.shared.entries(), now());
        let each = entries.iter().filter(|entry| of(&entry.name));
        each.filter_map(|entry| entry.hints(kind, now)).reduce(Hints::least)
    }

    /// Has lists of one kind read again whose time is over, without waiting for them.
    pub fn freshen(&self, kind: ListKind, of: impl Fn(&str) -> bool) {
        let (entries, now) = (self.shared.entries(), now());
        entries.iter().filter(|entry| of(&entry.name)).for_each(|entry| entry.freshen(kind, now));
    }

    /// The names of all that a server lists of a kind; none if its lists are not
    /// known, of whatever time.
    pub fn listed(&self, server: &str, kind: ListKind) -> Option<Vec<String>> {
        let entry = self.shared.entry(server)?;
        let is_known = entry.lists.borrow().is_known;
        let definitions = entry.definitions(kind).into_iter();
        is_known.then(|| definitions.map(|it| it.name().into_owned()).collect())
    }

    /// Waits until the lists of a server are known, or it has broken, for
    /// `patience` at most.
    pub async fn until_listed(&self, server: &str, patience: Duration) {
        let Some(entry) = self.shared.entry(server) else { return };
        let (mut lists, mut state) = (entry.lists.subscribe(), entry.state.subscribe());
        let is_known = lists.wait_for(|lists| lists.is_known);
        let is_over = race(is_known, state.wait_for(|state| !state.is_pending()));
        // In time or not, what is listed tells.
        _ = timeout(patience, is_over).await;
    }

    /// The tools of all servers.
    pub fn tools(&self) -> Vec<Definition> {
        self.definitions(ListKind::Tools)
    }

    /// Calls a tool of a server; the result may say `isError`. What goes on as a
    /// task is waited for.
    pub async fn call(
        &self,
        server: &str,
        tool: &str,
        args: impl Serialize,
    ) -> Result<Value, RosterError> {
        let options = CallOptions::default();
        let (client, connection) = self.reach(server, &options).await?;
        connection.noting(client.call_tool_with(tool, args, options).await)
    }

    /// Calls any method of a server; the result as it came.
    pub async fn request(
        &self,
        server: &str,
        method: &str,
        params: impl Serialize,
        options: CallOptions,
    ) -> Result<Value, RosterError> {
        let (client, connection) = self.reach(server, &options).await?;
        connection.noting(client.request_with(method, params, options).await)
    }

    /// The connection to a server, for whatever else it can do. It ends when
    /// it breaks; ask again then.
    pub async fn client(&self, server: &str) -> Result<Client, RosterError> {
        Ok(self.reach(server, &CallOptions::default()).await?.0)
    }

    /// The connection to a server that is ready, at once.
    pub fn present(&self, server: &str) -> Option<Client> {
        let is_ready = |state: &ServerState| state.phase == ServerPhase::Ready;
        Some(self.shared.entry(server)?.client_if(is_ready)?.0)
    }

    /// What a server that is ready, or sleeps, has said of itself. One that
    /// sleeps cannot be called by it.
    pub fn known(&self, server: &str) -> Option<Client> {
        Some(self.shared.entry(server)?.client_if(ServerState::is_up)?.0)
    }

    /// Waits for a server within the time of a call to it.
    async fn reach(
        &self,
        name: &str,
        options: &CallOptions,
    ) -> Result<(Client, Arc<WatchedConnection>), RosterError> {
        let unknown = || RosterError::Unknown { name: name.to_owned() };
        let entry = self.shared.entry(name).ok_or_else(unknown)?;
        self.shared.step(|supervisor, now| supervisor.want(name, now));
        let time = options.timeout.unwrap_or(entry.options.timeout).min(self.shared.options.wait);
        let mut state = entry.state.subscribe();
        let is_over = |state: &ServerState| {
            use ServerPhase::{Draining, Failed, Ready};
            matches!(state.phase, Ready | Failed | Draining)
        };
        // In time or not, the state tells.
        _ = timeout(time, state.wait_for(is_over)).await;
        if let Some(there) = entry.client_if(|state| state.phase == ServerPhase::Ready) {
            return Ok(there);
        }
        let state = entry.state.borrow().clone();
        match state.phase {
            ServerPhase::Draining => Err(unknown()),
            _ => Err(RosterError::NotReady { name: name.to_owned(), state }),
        }
    }

    /// Lets go of every server and waits for its end, for
    /// [`close`](RosterOptions::close) at most. What is open fails.
    pub async fn close(&self) {
        let entries = self.shared.shut();
        // What takes longer ends by itself.
        let ending = join_all(entries.iter().map(|entry| entry.gone()));
        _ = timeout(self.shared.options.close, ending).await;
    }
}

async fn gone(entry: Arc<ServerEntry>, close: Duration) {
    // What takes longer ends by itself.
    _ = timeout(close, entry.gone()).await;
}

/// Tells what changes; see [`Roster::changes`].
#[derive(Debug)]
pub struct Changes {
    heard: broadcast::Receiver<Change>,
}

impl Changes {
    /// The next change; none when the roster is gone.
    pub async fn next(&mut self) -> Option<Change> {
        match self.heard.recv().await {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Change::Missed),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// Changes that a reader may be behind before it hears [`Change::Missed`]. The places are
/// allocated at once, and a gateway has a roster for each user it remembers.
const BEHIND: usize = 32;

/// What the clones of a roster share. It does what the [`Supervisor`] says, and tells it what
/// happened: the only place that decides how a server stands, and publishes it.
#[derive(Debug)]
struct RosterShared {
    options: Arc<RosterOptions>,
    changes: broadcast::Sender<Change>,
    /// Counts what was offered otherwise.
    edition: AtomicU64,
    stop: Stop,
    core: Mutex<RosterCore>,
    /// The time of the next timer may be another.
    woken: Notify,
    runtime: Handle,
}

#[derive(Debug)]
struct RosterCore {
    supervisor: Supervisor,
    entries: BTreeMap<Arc<str>, Arc<ServerEntry>>,
}

impl RosterShared {
    /// Runs one step of the supervisor under its lock, and does what it says.
    fn step<R>(self: &Arc<Self>, step: impl FnOnce(&mut Supervisor, Instant) -> R) -> R {
        let mut core = lock(&self.core);
        let result = step(&mut core.supervisor, now());
        self.act(&mut core);
        result
    }

    fn act(self: &Arc<Self>, core: &mut RosterCore) {
        while let Some((name, action)) = core.supervisor.poll() {
            let Some(entry) = core.entries.get(&name) else { continue };
            match action {
                Action::Connect { attempt } => entry.connect(self, attempt),
                Action::Release { attempt } => entry.release(attempt),
                Action::Tell { state } => {
                    entry.log_state(&state, self.options.is_quiet);
                    entry.publish(state.clone());
                    self.tell_change(Change::State { server: name, state });
                }
            }
        }
        self.woken.notify_one();
    }

    /// What is told here has happened: it shows in the edition before anybody hears of it.
    fn tell_change(&self, change: Change) {
        if !matches!(change, Change::State { .. }) {
            self.edition.fetch_add(1, Ordering::AcqRel);
        }
        // Perhaps no front listens.
        _ = self.changes.send(change);
    }

    fn insert(self: &Arc<Self>, core: &mut RosterCore, entry: &Arc<ServerEntry>) {
        core.entries.insert(Arc::clone(&entry.name), Arc::clone(entry));
        core.supervisor.add(&entry.name, now());
        self.act(core);
    }

    /// Removes a server; what is left to wait for.
    fn remove(self: &Arc<Self>, name: &str) -> Option<Arc<ServerEntry>> {
        let mut core = lock(&self.core);
        core.supervisor.remove(name, now());
        self.act(&mut core);
        let entry = core.entries.remove(name)?;
        entry.publish(ServerState::new(ServerPhase::Draining));
        self.tell_change(Change::Removed { server: Arc::clone(&entry.name) });
        Some(entry)
    }

    fn entry(&self, name: &str) -> Option<Arc<ServerEntry>> {
        lock(&self.core).entries.get(name).cloned()
    }

    /// All servers, by name.
    fn entries(&self) -> Vec<Arc<ServerEntry>> {
        lock(&self.core).entries.values().cloned().collect()
    }

    /// A connection, or an attempt at one, has come to an end.
    fn handle_broken(self: &Arc<Self>, entry: &ServerEntry, attempt: u64, error: Failure) {
        let is_loop = entry.server.leads_back();
        if is_loop {
            // What it offers is our own, and trying it again soon would not help.
            let none = |kind| ReadList { kind, items: Vec::new(), terms: None };
            self.offer(entry, ListKind::ALL.map(none).into());
        }
        self.tell_definitions(entry, entry.disinherit());
        // Nor would it before somebody has signed in, or has installed the command.
        let is_missing = error.is_lasting() && self.options.probe.is_some();
        let is_worth_it = !is_loop && !error.is_sign_in() && !is_missing;
        let jitter = is_worth_it.then(|| entry.jitter());
        let error = if is_loop { Failure::LOOP } else { error };
        self.step(|supervisor, now| {
            supervisor.handle_broken(&entry.name, attempt, error, now, jitter);
        });
    }

    fn tell_definitions(&self, entry: &ServerEntry, kinds: Vec<ListKind>) {
        for kind in kinds {
            self.tell_change(Change::Definitions { server: Arc::clone(&entry.name), kind });
        }
    }

    /// A server offers these lists.
    fn offer(&self, entry: &ServerEntry, lists: Vec<ReadList>) {
        self.tell_definitions(entry, entry.set(lists));
    }

    /// Keeps what a server offers for another time.
    async fn store(&self, entry: &ServerEntry) {
        let Some(cache) = self.options.cache.clone() else { return };
        let (key, definitions) = (entry.key.clone(), Arc::clone(&entry.lists.borrow().definitions));
        let stored = tokio::task::spawn_blocking(move || cache.store(&key, &definitions)).await;
        if let Ok(Err(error)) = stored {
            tracing::warn!(server = &*entry.name, "its lists are not kept: {error}");
        }
    }

    /// Has the cache asked what a server offered at an earlier time, for as long as the
    /// server is there.
    fn recall(self: &Arc<Self>, entry: &Arc<ServerEntry>) {
        let _runtime = self.runtime.enter();
        let key = entry.key.clone();
        let load = self.options.cache.clone().map(|cache| move || cache.load(&key));
        let (roster, weak) = (Arc::downgrade(self), Arc::downgrade(entry));
        *lock(&entry.recalling) = Some(OwnedTask::spawn(async move {
            let found = match load {
                Some(load) => tokio::task::spawn_blocking(load).await.ok().flatten(),
                None => None,
            };
            if let (Some(roster), Some(entry)) = (roster.upgrade(), weak.upgrade()) {
                roster.tell_definitions(&entry, entry.handle_recalled(found));
            }
        }));
    }

    /// Lets go of every server; what is left to wait for.
    fn shut(self: &Arc<Self>) -> Vec<Arc<ServerEntry>> {
        self.stop.say();
        let entries = self.entries();
        entries.iter().filter_map(|entry| self.remove(&entry.name)).collect()
    }
}

/// Tells the supervisor the time whenever it wants to know.
async fn watch_time(roster: Arc<RosterShared>) {
    loop {
        let next = lock(&roster.core).supervisor.poll_timeout();
        let due = async {
            match next {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        if roster.stop.until(race(roster.woken.notified(), due)).await.is_none() {
            return;
        }
        if next.is_some_and(|at| at <= now()) {
            roster.step(Supervisor::handle_timeout);
        }
    }
}
