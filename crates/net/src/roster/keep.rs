//! The task that keeps one connection: makes it, looks after it, ends it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use switchboard_proto::backoff::Reconnect;
use switchboard_proto::failure::Failure;
use switchboard_proto::revision::Era;
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};

use super::berth::Berth;
use super::definition::{Kind, Terms};
use super::inner::Inner;
use super::link::Link;
use super::state::Change;
use crate::client::{CallError, Client, ConnectError, ListenFilter, RawList};
use crate::drive::race;
use crate::face::{lock, now};

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
    berth: Arc<Berth>,
    link: Arc<Link>,
    before: Option<JoinHandle<()>>,
) {
    if let Some(before) = before {
        // A task that panicked has nothing left to wait for.
        _ = before.await;
    }
    berth.server.forget_loop();
    let (server, mut pipes) = berth.server.counted();
    let options = link.listening(&Arc::downgrade(&inner), &berth);
    let until = now() + berth.connect;
    let connecting = timeout_at(until.into(), Client::connect(server, options));
    match link.stop.until(connecting).await {
        // Dropping it has ended it.
        None => {}
        Some(Err(_)) => {
            begin_anew(&berth);
            inner.broken(&berth, link.attempt, Failure::Timeout { waited: berth.connect });
        }
        Some(Ok(Err(error))) => {
            // What was remembered may be what is wrong.
            *lock(&berth.remembered) = None;
            begin_anew(&berth);
            inner.broken(&berth, link.attempt, error.into());
        }
        Some(Ok(Ok(client))) => {
            *lock(&berth.remembered) = Some(client.remembered());
            link.stop.until(Box::pin(tend(&inner, &berth, &link, &client, until))).await;
            client.close().await;
            if !link.was_up() {
                begin_anew(&berth);
            }
        }
    }
    // The child that was only asked for its era may take a little longer.
    _ = timeout(END, pipes.wait_for(|pipes| *pipes == 0)).await;
}

/// Sees to it that the next attempt is not with the same process, where that is
/// not ours to end.
fn begin_anew(berth: &Berth) {
    if let Some(behind) = berth.server.through() {
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
    berth: &Arc<Berth>,
    link: &Arc<Link>,
    client: &Client,
    until: Instant,
) {
    let first = match timeout_at(until.into(), read(client, &Kind::ALL.into())).await {
        Ok(read) => read,
        Err(_) => Err(CallError::timeout(berth.connect)),
    };
    // What the server did not give is taken from the cache, if that answers.
    let mut view = berth.view.subscribe();
    _ = timeout(RECALL, view.wait_for(|view| view.is_loaded)).await;
    match first {
        Ok(_) if berth.server.leads_back() => {
            return inner.broken(berth, link.attempt, Failure::LOOP);
        }
        Ok(lists) => inner.offer(berth, lists),
        Err(error) => return inner.broken(berth, link.attempt, failure(error)),
    }
    berth.view.send_modify(|view| view.client = Some((client.clone(), Arc::clone(link))));
    link.up();
    inner.step(|muster, now| muster.handle_ready(&berth.name, link.attempt, now));
    if !client.is_connected() {
        // It broke before anybody was told when it does.
        return inner.broken(berth, link.attempt, link.why());
    }
    store(inner, berth).await;
    Box::pin(race(listen(client, link), look_after(inner, berth, link, client))).await;
}

/// Reads lists again that have changed, and asks a server that seems gone.
async fn look_after(inner: &Arc<Inner>, berth: &Arc<Berth>, link: &Link, client: &Client) {
    let mut pause = inner.options.coalesce;
    loop {
        link.woken().await;
        if link.take_doubt()
            && let Some(error) = missing(client).await
        {
            return inner.broken(berth, link.attempt, failure(error));
        }
        if !link.has_changed() {
            continue;
        }
        // What changes meanwhile is read with it; what changes later is read again.
        tokio::time::sleep(pause).await;
        let kinds = link.take_changed();
        let lists = read(client, &kinds).await;
        if berth.server.leads_back() {
            return inner.broken(berth, link.attempt, Failure::LOOP);
        }
        if let Ok(lists) = lists {
            pause = inner.options.coalesce;
            inner.offer(berth, lists);
            store(inner, berth).await;
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
    let offers = |kind: Kind| {
        let declared = &client.capabilities()[kind.capability()];
        client.capabilities().is_null() || declared["listChanged"] == true
    };
    let filter = ListenFilter {
        tools: offers(Kind::Tools),
        prompts: offers(Kind::Prompts),
        resources: offers(Kind::Resources),
        ..ListenFilter::default()
    };
    let kinds: Vec<_> = Kind::ALL.into_iter().filter(|&kind| offers(kind)).collect();
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
                    link.changed(Kind::changed_by(&note.method));
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
    pub(super) kind: Kind,
    pub(super) items: Vec<Bytes>,
    /// None if the server does not have it at all.
    pub(super) terms: Option<Terms>,
}

/// Reads lists, side by side. Those that the server does not have are empty,
/// those that it will not give are left out; only a server that cannot be
/// reached is an error.
async fn read(client: &Client, kinds: &BTreeSet<Kind>) -> Result<Vec<List>, CallError> {
    let one = |kind: Kind| read_one(client, kind, kinds.contains(&kind));
    let (tools, prompts, resources, templates) = tokio::try_join!(
        one(Kind::Tools),
        one(Kind::Prompts),
        one(Kind::Resources),
        one(Kind::Templates),
    )?;
    Ok([tools, prompts, resources, templates].into_iter().flatten().collect())
}

async fn read_one(client: &Client, kind: Kind, is_wanted: bool) -> Result<Option<List>, CallError> {
    if !is_wanted {
        return Ok(None);
    }
    let capabilities = client.capabilities();
    if capabilities.is_object() && capabilities.get(kind.capability()).is_none() {
        return Ok(Some(List { kind, items: Vec::new(), terms: None }));
    }
    match client.list_raw(kind.method(), kind.member().key(), LIST).await {
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
async fn store(inner: &Inner, berth: &Berth) {
    let Some(cache) = inner.options.cache.clone() else { return };
    let (key, definitions) = (berth.key.clone(), Arc::clone(&berth.view.borrow().definitions));
    let stored = tokio::task::spawn_blocking(move || cache.store(&key, &definitions)).await;
    if let Ok(Err(error)) = stored {
        tracing::warn!(server = &*berth.name, "its lists are not kept: {error}");
    }
}

/// Asks the cache what a server offered at an earlier time.
pub(super) async fn recall(inner: Arc<Inner>, berth: Arc<Berth>) {
    let found = match inner.options.cache.clone() {
        Some(cache) => {
            let key = berth.key.clone();
            let loading = tokio::task::spawn_blocking(move || cache.load(&key));
            loading.await.ok().flatten()
        }
        None => None,
    };
    let mut told = Vec::new();
    berth.view.send_modify(|view| {
        view.is_loaded = true;
        // A server that was quicker knows better.
        if let Some(found) = found.filter(|_| !view.is_known) {
            told.extend(Kind::ALL.into_iter().filter(|&kind| !found.list(kind).is_empty()));
            view.definitions = Arc::new(found);
            view.is_known = true;
        }
    });
    for kind in told {
        inner.tell_change(Change::Definitions { server: Arc::clone(&berth.name), kind });
    }
}
