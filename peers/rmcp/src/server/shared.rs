//! What belongs to the process and not to a session: the modern era has none.

use std::{
    collections::HashSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::broadcast;

use crate::era::Era;

/// Changes a listener may fall behind before it misses some.
const CHANGES_KEPT: usize = 64;

/// Something that clients may have asked to be told.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    ToolsGrew,
    WatchedTouched,
}

pub(crate) struct Shared {
    pub(crate) era: Era,
    grown: AtomicUsize,
    cancelled: Mutex<HashSet<String>>,
    changes: broadcast::Sender<Change>,
}

impl Shared {
    pub(crate) fn new(era: Era) -> Self {
        Self {
            era,
            grown: AtomicUsize::new(0),
            cancelled: Mutex::default(),
            changes: broadcast::channel(CHANGES_KEPT).0,
        }
    }

    /// Adds a tool and returns its number.
    pub(crate) fn grow(&self) -> usize {
        let number = self.grown.fetch_add(1, Ordering::Relaxed) + 1;
        self.tell(Change::ToolsGrew);
        number
    }

    pub(crate) fn grown(&self) -> usize {
        self.grown.load(Ordering::Relaxed)
    }

    pub(crate) fn tell(&self, change: Change) {
        // An error means that nobody listens, which is fine.
        let _ = self.changes.send(change);
    }

    pub(crate) fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    pub(crate) fn remember_cancelled(&self, tag: String) {
        self.tags().insert(tag);
    }

    pub(crate) fn was_cancelled(&self, tag: &str) -> bool {
        self.tags().contains(tag)
    }

    fn tags(&self) -> MutexGuard<'_, HashSet<String>> {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The next change, over gaps; `None` when the process ends.
pub(crate) async fn next_change(changes: &mut broadcast::Receiver<Change>) -> Option<Change> {
    loop {
        match changes.recv().await {
            Ok(change) => return Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}
