//! One connection to a server, and the task that makes it, looks after it and ends it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use switchboard_proto::backoff::Reconnect;
use switchboard_proto::failure::Failure;
use switchboard_proto::revision::Era;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};

use super::definition::{ListKind, Terms};
use super::entry::ServerEntry;
use super::inner::Inner;
use super::state::Change;
use crate::client::{
    CallError, CallOptions, Client, ClientOptions, ConnectError, ListenFilter, RawList,
};
use crate::connection::{lock, now};
use crate::drive::{Either, Stop, race};

/// What is known of a connection outside the task that keeps it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) attempt: u64,
    /// It is not wanted any more.
    pub(super) stop: Stop,
    /// Its task has ended.
    pub(super) gone: Stop,
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

impl Link {
    pub(super) fn new(attempt: u64) -> Self {
        Self {
            attempt,
            stop: Stop::new(),
            gone: Stop::new(),
            is_up: AtomicBool::new(false),
            why: Mutex::default(),
            changed: Mutex::default(),
            is_doubted: AtomicBool::new(false),
            woken: Notify::new(),
        }
    }

    /// These lists have changed.
    pub(super) fn changed(&self, kinds: impl IntoIterator<Item = ListKind>) {
        lock(&self.changed).extend(kinds);
        self.woken.notify_one();
    }

    /// Something failed as if the server were gone.
    pub(super) fn doubt(&self) {
        self.is_doubted.store(true, Ordering::SeqCst);
        self.woken.notify_one();
    }

    /// What a call came to; one that broke may mean that the server is gone.
    pub(super) fn noting<T>(&self, called: Result<T, CallError>) -> Result<T, super::RosterError> {
        if called.as_ref().is_err_and(CallError::is_broken) {
            self.doubt();
        }
        Ok(called?)
    }

    /// Why it broke, as far as was told.
    pub(super) fn why(&self) -> Failure {
        lock(&self.why).clone().unwrap_or(Failure::CLOSED)
    }

    /// The options of the server, with an ear of ours before those of its user.
    pub(super) fn listening(
        self: &Arc<Self>,
        inner: &Weak<Inner>,
        entry: &Arc<ServerEntry>,
    ) -> ClientOptions {
        let mut options = entry.options.clone();
        options.remembered = *lock(&entry.remembered);
        let theirs = options.callbacks.clone();
        let (link, told) = (Arc::clone(self), theirs.on_error);
        options = options.on_error(move |why| {
            *lock(&link.why) = Some(why.clone());
            if let Some(told) = &told {
                told(why);
            }
        });
        let (link, told) = (Arc::clone(self), theirs.on_notification);
        options = options.on_notification(move |note| {
            let kinds: BTreeSet<_> = ListKind::changed_by(&note.method).collect();
            if !kinds.is_empty() {
                link.changed(kinds);
            }
            if let Some(told) = &told {
                told(note);
            }
        });
        let (link, told, inner) = (Arc::clone(self), theirs.on_close, Weak::clone(inner));
        let entry = Arc::downgrade(entry);
        options.on_close(move || {
            // A child that was only asked for its era may end without harm.
            if link.is_up.load(Ordering::SeqCst)
                && let (Some(inner), Some(entry)) = (inner.upgrade(), entry.upgrade())
            {
                inner.broken(&entry, link.attempt, link.why());
            }
            if let Some(told) = &told {
                told(());
            }
        })
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

/// Makes a connection and keeps it until it breaks or is not wanted any more.
/// `before` is the task of the one before it: two children of one server do
/// not live at the same time.
pub(super) async fn keep(
    inner: Arc<Inner>,
    entry: Arc<ServerEntry>,
    link: Arc<Link>,
    before: Option<JoinHandle<()>>,
) {
    if let Some(before) = before {
        // A task that panicked has nothing left to wait for.
        _ = before.await;
    }
    entry.server.forget_loop();
    let (server, mut pipes) = entry.server.counted();
    let options = link.listening(&Arc::downgrade(&inner), &entry);
    let until = now() + entry.connect;
    let connecting = timeout_at(until.into(), Client::connect(server, options));
    match link.stop.until(connecting).await {
        // Dropping it has ended it.
        None => {}
        Some(Err(_)) => {
            begin_anew(&entry);
            inner.broken(&entry, link.attempt, Failure::Timeout { waited: entry.connect });
        }
        Some(Ok(Err(error))) => {
            // What was remembered may be what is wrong.
            *lock(&entry.remembered) = None;
            begin_anew(&entry);
            inner.broken(&entry, link.attempt, error.into());
        }
        Some(Ok(Ok(client))) => {
            *lock(&entry.remembered) = Some(client.remembered());
            link.stop.until(Box::pin(tend(&inner, &entry, &link, &client, until))).await;
            client.close().await;
            if !link.is_up.load(Ordering::SeqCst) {
                begin_anew(&entry);
            }
        }
    }
    // The child that was only asked for its era may take a little longer.
    _ = timeout(END, pipes.wait_for(|pipes| *pipes == 0)).await;
    link.gone.say();
}

/// Sees to it that the next attempt is not with the same process, where that is
/// not ours to end.
fn begin_anew(entry: &ServerEntry) {
    if let Some(behind) = entry.server.through() {
        behind.bridge.begin_anew();
    }
}

/// Why a server is not there whose call failed.
fn failure(error: CallError) -> Failure {
    ConnectError::Failed(error).into()
}

/// Looks after a connection until it is not wanted any more. Its lists must be
/// there in time.
async fn tend(
    inner: &Arc<Inner>,
    entry: &Arc<ServerEntry>,
    link: &Arc<Link>,
    client: &Client,
    until: Instant,
) {
    let first = match timeout_at(until.into(), read(client, &ListKind::ALL.into())).await {
        Ok(read) => read,
        Err(_) => Err(CallError::timeout(entry.connect)),
    };
    // What the server did not give is taken from the cache, if that answers.
    let mut lists = entry.lists.subscribe();
    _ = timeout(RECALL, lists.wait_for(|lists| lists.is_loaded)).await;
    match first {
        Ok(_) if entry.server.leads_back() => {
            return inner.broken(entry, link.attempt, Failure::LOOP);
        }
        Ok(lists) => inner.offer(entry, lists),
        Err(error) => return inner.broken(entry, link.attempt, failure(error)),
    }
    *lock(&entry.client) = Some((client.clone(), Arc::clone(link)));
    link.is_up.store(true, Ordering::SeqCst);
    inner.step(|supervisor, now| supervisor.handle_ready(&entry.name, link.attempt, now));
    if !client.is_connected() {
        // It broke before anybody was told when it does.
        return inner.broken(entry, link.attempt, link.why());
    }
    store(inner, entry).await;
    let looking = race(listen(client, link), look_after(inner, entry, link, client));
    if let Either::Left(()) = race(entry.server.until_loop(), Box::pin(looking)).await {
        // A call of a client has found out; the next attempt does too.
        inner.step(|supervisor, now| supervisor.restart(&entry.name, now));
    }
}

/// Reads lists again that have changed, and asks a server that seems gone.
async fn look_after(inner: &Arc<Inner>, entry: &Arc<ServerEntry>, link: &Link, client: &Client) {
    let mut pause = inner.options.coalesce;
    loop {
        link.woken.notified().await;
        if link.is_doubted.swap(false, Ordering::SeqCst)
            && let Some(error) = missing(client).await
        {
            return inner.broken(entry, link.attempt, failure(error));
        }
        if lock(&link.changed).is_empty() {
            continue;
        }
        // What changes meanwhile is read with it; what changes later is read again.
        tokio::time::sleep(pause).await;
        let kinds = std::mem::take(&mut *lock(&link.changed));
        let lists = read(client, &kinds).await;
        if entry.server.leads_back() {
            return inner.broken(entry, link.attempt, Failure::LOOP);
        }
        if let Ok(lists) = lists {
            pause = inner.options.coalesce;
            inner.offer(entry, lists);
            store(inner, entry).await;
        } else {
            pause = (pause * 2).clamp(AGAIN, SELDOM);
            link.changed(kinds);
            link.doubt();
        }
    }
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
async fn listen(client: &Client, link: &Link) {
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
    let mut pace = Reconnect::new(LISTENS);
    while client.era() == Era::Modern && !kinds.is_empty() {
        match client.listen(filter.clone()).await {
            // Nothing of it will be told, and asking again would not help.
            Ok(listening) if is_deaf(listening.honoured()) => break,
            Ok(mut listening) => {
                // It may have changed before it was listened to.
                link.changed(kinds.iter().copied());
                while let Some(note) = listening.next().await {
                    pace.handle_success();
                    link.changed(ListKind::changed_by(&note.method));
                }
            }
            // It does not tell of changes.
            Err(CallError::Server { .. }) => break,
            Err(_) => {}
        }
        link.doubt();
        let Some(at) = pace.handle_break(now(), Duration::ZERO) else { break };
        tokio::time::sleep_until(at.into()).await;
    }
    std::future::pending::<()>().await;
}

/// Whether a listen brings nothing: servers that cannot tell agree to no list (SUB-5).
fn is_deaf(honoured: &Value) -> bool {
    !honoured.as_object().is_some_and(|lists| lists.values().any(|told| *told == true))
}

/// A list of a server, and how long it may be kept.
#[derive(Debug)]
pub(super) struct List {
    pub(super) kind: ListKind,
    pub(super) items: Vec<Bytes>,
    /// None if the server does not have it at all.
    pub(super) terms: Option<Terms>,
}

/// Reads lists, side by side. Those that the server does not have are empty,
/// those that it will not give are left out; only a server that cannot be
/// reached is an error.
async fn read(client: &Client, kinds: &BTreeSet<ListKind>) -> Result<Vec<List>, CallError> {
    let one = |kind: ListKind| read_one(client, kind, kinds.contains(&kind));
    let (tools, prompts, resources, templates) = tokio::try_join!(
        one(ListKind::Tools),
        one(ListKind::Prompts),
        one(ListKind::Resources),
        one(ListKind::Templates),
    )?;
    Ok([tools, prompts, resources, templates].into_iter().flatten().collect())
}

async fn read_one(
    client: &Client,
    kind: ListKind,
    is_wanted: bool,
) -> Result<Option<List>, CallError> {
    if !is_wanted {
        return Ok(None);
    }
    let capabilities = client.capabilities();
    if capabilities.is_object() && capabilities.get(kind.capability()).is_none() {
        return Ok(Some(List { kind, items: Vec::new(), terms: None }));
    }
    match client.list_raw(kind.method(), kind.member().key(), &CallOptions::default(), LIST).await {
        Ok(RawList { items, ttl, is_public }) => {
            let ttl = (client.era() == Era::Modern).then_some(ttl);
            let terms = Some(Terms { read_at: now(), ttl, is_public });
            Ok(Some(List { kind, items, terms }))
        }
        Err(error) if error.is_broken() || error.status().is_some() => Err(error),
        Err(error) => {
            tracing::debug!(method = kind.method(), "not listed: {error}");
            Ok(None)
        }
    }
}

/// Keeps what a server offers for another time.
async fn store(inner: &Inner, entry: &ServerEntry) {
    let Some(cache) = inner.options.cache.clone() else { return };
    let (key, definitions) = (entry.key.clone(), Arc::clone(&entry.lists.borrow().definitions));
    let stored = tokio::task::spawn_blocking(move || cache.store(&key, &definitions)).await;
    if let Ok(Err(error)) = stored {
        tracing::warn!(server = &*entry.name, "its lists are not kept: {error}");
    }
}

/// Asks the cache what a server offered at an earlier time.
pub(super) async fn recall(inner: Weak<Inner>, entry: Weak<ServerEntry>) {
    let place = inner.upgrade().and_then(|inner| inner.options.cache.clone()).zip(entry.upgrade());
    let found = match place {
        Some((cache, entry)) => {
            let key = entry.key.clone();
            drop(entry);
            let loading = tokio::task::spawn_blocking(move || cache.load(&key));
            loading.await.ok().flatten()
        }
        None => None,
    };
    let (Some(inner), Some(entry)) = (inner.upgrade(), entry.upgrade()) else { return };
    let mut told = Vec::new();
    entry.lists.send_modify(|lists| {
        lists.is_loaded = true;
        // A server that was quicker knows better.
        if let Some(found) = found.filter(|_| !lists.is_known) {
            told.extend(ListKind::ALL.into_iter().filter(|&kind| !found.list(kind).is_empty()));
            lists.definitions = Arc::new(found);
            lists.is_known = true;
        }
    });
    for kind in told {
        inner.tell_change(Change::Definitions { server: Arc::clone(&entry.name), kind });
    }
}
