//! Bytes that clients have not read, over all sessions of a process.
//!
//! Each client has a bound of its own ([`Limits::backlog`], [`Limits::history`]). Many
//! clients that do not read could still hold more than there is. So what they hold is
//! summed up, and when it is too much, some give way: first what a client could come
//! back for, then its session and its connection, or its stream on one.
//!
//! Those that have read nothing for a while go first, then those of the principal that
//! holds most: each modern request is a client of its own, and a principal may have many.
//!
//! [`Limits::backlog`]: switchboard_proto::limits::Limits::backlog
//! [`Limits::history`]: switchboard_proto::limits::Limits::history

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use switchboard_proto::server::ServerHalf;
use tokio::sync::oneshot;

use super::{ClientConnection, ConnectionState, Mailbox, lock};
use crate::drive::{OwnedTask, now};
#[cfg(feature = "http")]
use crate::http::listen::{Carrying, ClientPeer};

/// Without HTTP there are no connections to cut.
#[cfg(not(feature = "http"))]
#[derive(Debug)]
enum NoPeer {}

#[cfg(not(feature = "http"))]
use self::{NoPeer as Carrying, NoPeer as ClientPeer};

#[cfg(not(feature = "http"))]
impl NoPeer {
    fn peer(&self) -> Option<Self> {
        match *self {}
    }

    fn cut(&self) {
        match *self {}
    }
}

/// A client that holds less is not worth cutting.
const WORTH: usize = 1 << 10;

/// A client that has read something since then is cut only if nobody has read less.
const READS_WITHIN: Duration = Duration::from_secs(5);

/// What all clients together have not read.
#[derive(Debug)]
pub struct Unread {
    most: AtomicUsize,
    held: AtomicUsize,
    /// Those that hold much, by number.
    readers: Mutex<HashMap<u64, Weak<ClientConnection>>>,
    /// The task that has clients give way, while there is too much.
    relieving: Mutex<Option<OwnedTask>>,
}

impl Default for Unread {
    fn default() -> Self {
        Self::new(Self::BYTES)
    }
}

impl Unread {
    /// What clients may leave unread together, where nobody says otherwise: four
    /// that read nothing at all.
    pub const BYTES: usize = 256 << 20;

    /// At most so many bytes.
    pub fn new(most: usize) -> Self {
        Self {
            most: AtomicUsize::new(most),
            held: AtomicUsize::new(0),
            readers: Mutex::default(),
            relieving: Mutex::default(),
        }
    }

    /// Another bound from here on.
    pub fn bound(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// How many bytes are not read.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.held() > self.most.load(Ordering::Relaxed)
    }

    fn change(&self, before: usize, after: usize) {
        // An atomic wraps, so this subtracts too.
        self.held.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Has those who hold most give way, from a task of its own: whoever found out
    /// may hold locks that ending a session takes.
    fn relieve(self: &Arc<Self>) {
        let mut relieving = lock(&self.relieving);
        let is_running = relieving.as_ref().is_some_and(|task| !task.is_finished());
        if is_running || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let unread = Arc::downgrade(self);
        *relieving = Some(OwnedTask::spawn(async move {
            while let Some(unread) = unread.upgrade().filter(|unread| unread.is_over()) {
                let slowest = unread.slowest();
                if slowest.is_empty() {
                    break;
                }
                slowest.iter().for_each(ClientConnection::give_way);
            }
        }));
    }

    /// Those who are to give way: clients of the principal that holds most, until there
    /// is some room or another principal holds more.
    fn slowest(&self) -> Vec<Arc<ClientConnection>> {
        let most = self.most.load(Ordering::Relaxed);
        // All are looked at. With a little room that is not for each answer that comes.
        let mut need = self.held().saturating_sub(most - most / 8);
        let now = now();
        // Whoever has locked its own state may wait for this one.
        let clients: Vec<_> = lock(&self.readers).values().filter_map(Weak::upgrade).collect();
        let mut readers = Vec::new();
        let mut is_stalled = false;
        for client in clients {
            let state = lock(&client.state);
            let stalls = state.reading.moved.is_some_and(|moved| now >= moved + READS_WITHIN);
            // Who has given way has nothing more to give.
            let held = if state.reading.gave_way { 0 } else { state.held() };
            drop(state);
            if held >= WORTH {
                is_stalled |= stalls;
                readers.push((stalls, held, client));
            }
        }
        readers.retain(|(stalls, ..)| *stalls == is_stalled);
        let mut principals: HashMap<&[u8], usize> = HashMap::new();
        for (_, held, client) in &readers {
            *principals.entry(client.principal()).or_default() += held;
        }
        let Some((&worst, &(mut left))) = principals.iter().max_by_key(|(_, held)| **held) else {
            return Vec::new();
        };
        let others = principals.iter().filter(|(principal, _)| **principal != worst);
        let next = others.map(|(_, held)| *held).max().unwrap_or_default();
        let mut slowest: Vec<_> =
            readers.iter().filter(|(.., client)| client.principal() == worst).collect();
        slowest.sort_by_key(|(_, held, _)| Reverse(*held));
        let is_to_go = |(_, held, _): &&&(bool, usize, Arc<ClientConnection>)| {
            let is_to_go = need > 0 && left >= next;
            need = need.saturating_sub(*held);
            left -= held;
            is_to_go
        };
        slowest.iter().take_while(is_to_go).map(|(.., client)| Arc::clone(client)).collect()
    }
}

/// What one client holds, as far as others count it.
#[derive(Debug, Default)]
pub(super) struct ReadProgress {
    accounted: usize,
    /// When it last read something, or began to hold something.
    pub(super) moved: Option<Instant>,
    /// Whether it is among those that hold much.
    is_listed: bool,
    gave_way: bool,
    /// Whether its connections were cut, so that what they hold is as good as gone.
    is_cut: bool,
    /// The connections that its messages leave by.
    peers: Vec<Carrying>,
}

/// Where the bytes of one client are counted.
pub(super) struct Counted {
    unread: Arc<Unread>,
    client: Weak<ClientConnection>,
}

impl ClientConnection {
    /// Counts what it does not read here.
    pub(crate) fn count_in(self: &Arc<Self>, unread: &Arc<Unread>) {
        let counted = Counted { unread: Arc::clone(unread), client: Arc::downgrade(self) };
        _ = self.counted.set(counted);
    }

    /// The connection that its messages leave by at present.
    #[cfg(feature = "http")]
    pub(crate) fn reached_by(&self, peer: Option<&ClientPeer>) {
        let Some(peer) = peer else { return };
        // A session may have hundreds of connections, each with many calls.
        let Some(carrying) = peer.carry(self.number) else { return };
        let mut state = lock(&self.state);
        state.reading.peers.retain(|one| one.peer().is_some() && !one.is_by(peer));
        state.reading.peers.push(carrying);
    }

    /// It has read of what is on its way.
    pub(crate) fn is_reading(&self) {
        lock(&self.state).reading.moved = Some(now());
    }

    /// To be called after whatever changes what it holds.
    pub(super) fn account(&self, state: &mut ConnectionState) {
        let Some(Counted { unread, client }) = self.counted.get() else { return };
        let held = state.held();
        let before = std::mem::replace(&mut state.reading.accounted, held);
        unread.change(before, held);
        if held <= before {
            return;
        }
        if before == 0 {
            state.reading.moved = Some(now());
        }
        if held >= WORTH && !std::mem::replace(&mut state.reading.is_listed, true) {
            lock(&unread.readers).insert(self.number, Weak::clone(client));
        }
        if unread.is_over() {
            unread.relieve();
        }
    }

    /// It holds more than all others.
    fn give_way(self: &Arc<Self>) {
        let before = lock(&self.state).backlog;
        let (kept, works) = self.step(ServerHalf::forget_history);
        works.detach();
        if kept >= before {
            tracing::warn!(
                client = self.number,
                "too much is unread: what a client could come back for is forgotten"
            );
            return;
        }
        tracing::warn!(
            client = self.number,
            bytes = before,
            "too much is unread: the slowest client is disconnected"
        );
        self.end();
        let mut state = lock(&self.state);
        let mailboxes = std::mem::take(&mut state.boxes);
        state.release(mailboxes.values().map(Mailbox::weight).sum());
        mailboxes.into_values().filter_map(|mailbox| mailbox.reader).for_each(Waker::wake);
        let peers = std::mem::take(&mut state.reading.peers);
        let peers: Vec<_> = peers.iter().filter_map(Carrying::peer).collect();
        state.reading.gave_way = true;
        // What its sockets still hold is gone as soon as they are cut, and nobody
        // else is to give way for it. Without any to cut it stays, and counts.
        state.reading.is_cut = !peers.is_empty();
        self.account(&mut state);
        drop(state);
        peers.iter().for_each(ClientPeer::cut);
    }

    /// It is dropped: nothing of it is held any more.
    pub(super) fn account_for_drop(&self) {
        let Some(Counted { unread, .. }) = self.counted.get() else { return };
        let state = lock(&self.state);
        unread.change(state.reading.accounted, 0);
        if state.reading.is_listed {
            lock(&unread.readers).remove(&self.number);
        }
    }

    /// The same bytes, part of the backlog until they are dropped: written or given up.
    /// When that will be, if they count.
    pub(crate) fn lend(self: &Arc<Self>, text: Bytes) -> (Bytes, Option<PieceWritten>) {
        if text.len() < SMALL {
            return (text, None);
        }
        let (sender, written) = oneshot::channel();
        let mut state = lock(&self.state);
        state.backlog += text.len();
        self.account(&mut state);
        drop(state);
        let lent = Lent { client: Arc::clone(self), text, _written: sender };
        (Bytes::from_owner(lent), Some(written))
    }
}

impl ConnectionState {
    /// Bytes that it has not read, or may come back for.
    fn held(&self) -> usize {
        if self.reading.is_cut { 0 } else { self.backlog + self.half.history_bytes() }
    }
}

/// Smaller pieces are not counted: the stream that each is written to takes as much.
const SMALL: usize = 1 << 10;

/// Ready when a piece is written, or given up.
pub(crate) type PieceWritten = oneshot::Receiver<()>;

/// A piece that was taken from a client connection and not written yet.
struct Lent {
    client: Arc<ClientConnection>,
    text: Bytes,
    _written: oneshot::Sender<()>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut state = lock(&self.client.state);
        state.release(self.text.len());
        self.client.account(&mut state);
    }
}
