//! The shell of the machine: does what it says, and tells it what happened.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use switchboard_proto::failure::Failure;

use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast};

use super::connection::{Link, List};
use super::definition::ListKind;
use super::entry::ServerEntry;
use super::state::{AddError, Change, ServerPhase, ServerState};
use super::supervisor::{Action, Supervisor};
use super::{RosterOptions, connection};
use crate::connection::{lock, now};
use crate::drive::{OwnedTask, Stop, race};

/// Changes that a reader may be behind before it hears [`Change::Missed`]. The places are
/// allocated at once, and a gateway has a roster for each user it remembers.
const BEHIND: usize = 32;

/// What the clones of a roster share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) options: Arc<RosterOptions>,
    changes: broadcast::Sender<Change>,
    /// Counts what was offered otherwise.
    edition: AtomicU64,
    pub(super) stop: Stop,
    core: Mutex<Core>,
    /// The time of the next timer may be another.
    woken: Notify,
    runtime: Handle,
}

#[derive(Debug)]
struct Core {
    supervisor: Supervisor,
    entries: BTreeMap<Arc<str>, Arc<ServerEntry>>,
}

impl Inner {
    pub(super) fn new(options: RosterOptions) -> Arc<Self> {
        let options = Arc::new(options);
        let supervisor = Supervisor::new(Arc::clone(&options));
        let inner = Arc::new(Self {
            options,
            changes: broadcast::Sender::new(BEHIND),
            edition: AtomicU64::new(0),
            stop: Stop::new(),
            core: Mutex::new(Core { supervisor, entries: BTreeMap::new() }),
            woken: Notify::new(),
            runtime: Handle::current(),
        });
        inner.runtime.spawn(watch_time(Arc::clone(&inner)));
        inner
    }

    /// One step of the machine, and what must be done because of it.
    pub(super) fn step<R>(self: &Arc<Self>, step: impl FnOnce(&mut Supervisor, Instant) -> R) -> R {
        let mut core = lock(&self.core);
        let result = step(&mut core.supervisor, now());
        self.act(&mut core);
        result
    }

    fn act(self: &Arc<Self>, core: &mut Core) {
        while let Some((name, action)) = core.supervisor.poll() {
            let Some(entry) = core.entries.get(&name) else { continue };
            match action {
                Action::Connect { attempt } => self.connect(entry, attempt),
                Action::Release { attempt } => entry.release(attempt),
                Action::Tell { state } => self.tell(entry, state),
            }
        }
        self.woken.notify_one();
    }

    fn connect(self: &Arc<Self>, entry: &Arc<ServerEntry>, attempt: u64) {
        let mut kept = lock(&entry.kept);
        let before = kept.take().map(|(_, task)| task);
        let link = Arc::new(Link::new(attempt));
        let keeping =
            connection::keep(Arc::clone(self), Arc::clone(entry), Arc::clone(&link), before);
        *kept = Some((link, self.runtime.spawn(keeping)));
    }

    fn tell(&self, entry: &ServerEntry, state: ServerState) {
        tracing::debug!(server = &*entry.name, "{state}");
        entry.publish(state.clone());
        self.tell_change(Change::State { server: Arc::clone(&entry.name), state });
    }

    /// What is told here has happened: it shows in the edition before anybody hears of it.
    pub(super) fn tell_change(&self, change: Change) {
        if !matches!(change, Change::State { .. }) {
            self.edition.fetch_add(1, Ordering::AcqRel);
        }
        // Nobody need listen.
        _ = self.changes.send(change);
    }

    pub(super) fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    pub(super) fn heard(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Adds a server, and has the cache asked about it.
    pub(super) fn add(self: &Arc<Self>, entry: ServerEntry) -> Result<(), AddError> {
        let (name, entry) = (Arc::clone(&entry.name), Arc::new(entry));
        let mut core = lock(&self.core);
        if self.stop.is_said() {
            return Err(AddError::Closed);
        }
        if core.entries.contains_key(&name) {
            return Err(AddError::Taken { name: name.to_string() });
        }
        if core.entries.len() >= self.options.servers {
            return Err(AddError::Full { most: self.options.servers });
        }
        core.entries.insert(Arc::clone(&name), Arc::clone(&entry));
        core.supervisor.add(&name, now());
        self.act(&mut core);
        drop(core);
        self.recall(&entry);
        Ok(())
    }

    /// Removes a server; what is left to wait for.
    pub(super) fn remove(self: &Arc<Self>, name: &str) -> Option<Arc<ServerEntry>> {
        let mut core = lock(&self.core);
        core.supervisor.remove(name, now());
        self.act(&mut core);
        let entry = core.entries.remove(name)?;
        entry.publish(ServerState::new(ServerPhase::Draining));
        self.tell_change(Change::Removed { server: Arc::clone(&entry.name) });
        Some(entry)
    }

    /// Puts a server in the place of the one of that name; what is left to wait for.
    pub(super) fn replace(self: &Arc<Self>, entry: ServerEntry) -> Option<Arc<ServerEntry>> {
        let (name, entry) = (Arc::clone(&entry.name), Arc::new(entry));
        let mut core = lock(&self.core);
        let old = core.entries.get(&name).filter(|_| !self.stop.is_said()).cloned()?;
        entry.succeed(&old);
        core.supervisor.remove(&name, now());
        self.act(&mut core);
        old.publish(ServerState::new(ServerPhase::Draining));
        core.entries.insert(Arc::clone(&name), Arc::clone(&entry));
        core.supervisor.add(&name, now());
        self.act(&mut core);
        drop(core);
        self.recall(&entry);
        Some(old)
    }

    /// Has the cache asked, for as long as the server is there.
    fn recall(self: &Arc<Self>, entry: &Arc<ServerEntry>) {
        let _runtime = self.runtime.enter();
        let recalling = connection::recall(Arc::downgrade(self), Arc::downgrade(entry));
        *lock(&entry.recalling) = Some(OwnedTask::spawn(recalling));
    }

    pub(super) fn entry(&self, name: &str) -> Option<Arc<ServerEntry>> {
        lock(&self.core).entries.get(name).cloned()
    }

    /// All servers, by name.
    pub(super) fn entries(&self) -> Vec<Arc<ServerEntry>> {
        lock(&self.core).entries.values().cloned().collect()
    }

    /// A connection, or an attempt at one, has come to an end.
    pub(super) fn broken(self: &Arc<Self>, entry: &ServerEntry, attempt: u64, error: Failure) {
        if entry.server.leads_back() {
            return self.refuse_loop(entry, attempt);
        }
        let jitter = entry.jitter();
        self.step(|supervisor, now| {
            supervisor.handle_broken(&entry.name, attempt, error, now, jitter);
        });
    }

    /// A server leads back to us: what it offers is our own, and trying it again
    /// soon would not help.
    fn refuse_loop(self: &Arc<Self>, entry: &ServerEntry, attempt: u64) {
        let none = |kind| List { kind, items: Vec::new(), terms: None };
        self.offer(entry, ListKind::ALL.map(none).into());
        let is_known = matches!(entry.state.borrow().reason, Some(Failure::Loop { .. }));
        if !is_known {
            tracing::error!("{}", entry.server.loop_advice(&entry.name));
        }
        self.step(|supervisor, now| {
            supervisor.handle_hopeless(&entry.name, attempt, Failure::LOOP, now);
        });
    }

    /// A server offers these lists.
    pub(super) fn offer(&self, entry: &ServerEntry, lists: Vec<List>) {
        for kind in entry.set(lists) {
            self.tell_change(Change::Definitions { server: Arc::clone(&entry.name), kind });
        }
    }

    /// Lets go of every server; what is left to wait for.
    pub(super) fn shut(self: &Arc<Self>) -> Vec<Arc<ServerEntry>> {
        self.stop.say();
        let entries = self.entries();
        entries.iter().filter_map(|entry| self.remove(&entry.name)).collect()
    }
}

impl ServerEntry {
    fn release(&self, attempt: u64) {
        if let Some((link, _)) = &*lock(&self.kept)
            && link.attempt == attempt
        {
            link.stop.say();
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

/// Tells the machine the time whenever it wants to know.
async fn watch_time(inner: Arc<Inner>) {
    loop {
        let next = lock(&inner.core).supervisor.poll_timeout();
        let due = async {
            match next {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        if inner.stop.until(race(inner.woken.notified(), due)).await.is_none() {
            return;
        }
        if next.is_some_and(|at| at <= now()) {
            inner.step(Supervisor::handle_timeout);
        }
    }
}
