//! Bytes that clients have not read, over all sessions of a process.
//!
//! Each client has a bound of its own ([`Limits::backlog`], [`Limits::history`]). Many
//! clients that do not read could still hold more than there is. So what they hold is
//! summed up, and when it is too much, the one that holds most gives way: first what
//! it could come back for, then its session and its connection.
//!
//! [`Limits::backlog`]: switchboard_proto::limits::Limits::backlog
//! [`Limits::history`]: switchboard_proto::limits::Limits::history

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;

use switchboard_proto::server::Frame;

use super::{Face, State, lock};
use crate::http::listen::Peer;

/// A client that holds less is not worth cutting; as many as there may be sessions
/// hold 128 MiB.
const WORTH: usize = 16 << 10;

/// What all clients together have not read.
#[derive(Debug)]
pub struct Unread {
    most: AtomicUsize,
    held: AtomicUsize,
    /// Those that hold much, by number.
    readers: Mutex<HashMap<u64, Weak<Face>>>,
    relieving: AtomicBool,
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
            relieving: AtomicBool::new(false),
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
        if after > before {
            self.held.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.held.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Has those who hold most give way, from a task of its own: whoever found out
    /// may hold locks that ending a session takes.
    fn relieve(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.relieving.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        runtime.spawn(async move {
            while let Some(most) = this.slowest() {
                most.give_way();
            }
            this.relieving.store(false, Ordering::Release);
        });
    }

    /// Who holds most, if all together hold too much.
    fn slowest(&self) -> Option<Arc<Face>> {
        if !self.is_over() {
            return None;
        }
        let readers: Vec<_> = lock(&self.readers).values().filter_map(Weak::upgrade).collect();
        let held = |face: &Arc<Face>| lock(&face.state).held();
        readers.into_iter().filter(|face| held(face) >= WORTH).max_by_key(held)
    }
}

/// What one client holds, as far as others count it.
#[derive(Debug, Default)]
pub(super) struct Reading {
    accounted: usize,
    /// Whether it is among those that hold much.
    is_listed: bool,
    gave_way: bool,
    /// The connections that its messages leave by.
    peers: Vec<Peer>,
}

/// Where the bytes of one client are counted.
pub(super) struct Counted {
    unread: Arc<Unread>,
    face: Weak<Face>,
}

impl Face {
    /// Counts what it does not read here.
    pub(crate) fn count_in(self: &Arc<Self>, unread: &Arc<Unread>) {
        let counted = Counted { unread: Arc::clone(unread), face: Arc::downgrade(self) };
        _ = self.counted.set(counted);
    }

    /// The connection that its messages leave by at present.
    pub(crate) fn reached_by(&self, peer: Option<&Peer>) {
        let Some(peer) = peer else { return };
        peer.carry(self.number);
        let mut state = lock(&self.state);
        state.reading.peers.retain(|one| one.carries(self.number));
        state.reading.peers.push(peer.clone());
    }

    /// To be called after whatever changes what it holds.
    pub(super) fn account(&self, state: &mut State) {
        let Some(Counted { unread, face }) = self.counted.get() else { return };
        let held = state.held();
        let before = std::mem::replace(&mut state.reading.accounted, held);
        unread.change(before, held);
        if held <= before {
            return;
        }
        if held >= WORTH && !std::mem::replace(&mut state.reading.is_listed, true) {
            lock(&unread.readers).insert(self.number, Weak::clone(face));
        }
        if unread.is_over() {
            unread.relieve();
        }
    }

    /// It holds more than all others.
    fn give_way(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        let before = state.backlog;
        let kept = state.half.forget_history();
        self.account(&mut state);
        if kept >= before {
            tracing::warn!(
                client = self.number,
                "too much is unread: what a client could resume is forgotten"
            );
            return;
        }
        drop(state);
        tracing::warn!(
            client = self.number,
            bytes = before,
            "too much is unread: the slowest client is disconnected"
        );
        self.end();
        let mut state = lock(&self.state);
        for (_, mut mailbox) in std::mem::take(&mut state.boxes) {
            if let Some(reader) = mailbox.reader.take() {
                reader.wake();
            }
            let unread: usize = mailbox.frames.iter().map(Frame::weight).sum();
            state.backlog = state.backlog.saturating_sub(unread);
        }
        state.waiting_for_room.drain(..).for_each(Waker::wake);
        let peers = std::mem::take(&mut state.reading.peers);
        // What its sockets still hold is gone as soon as they are cut, and nobody
        // else is to give way for it.
        state.reading.gave_way = true;
        self.account(&mut state);
        drop(state);
        peers.iter().filter(|peer| peer.carries(self.number)).for_each(Peer::cut);
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
}

impl State {
    /// Bytes that it has not read, or may come back for.
    fn held(&self) -> usize {
        if self.reading.gave_way { 0 } else { self.backlog + self.half.history_bytes() }
    }
}
