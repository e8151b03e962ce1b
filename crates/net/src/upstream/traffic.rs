//! What there is to count about a server, over all connections to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Counters. All clones of a server share them.
#[derive(Debug, Default)]
pub struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
    children: watch::Sender<u64>,
    started: AtomicU64,
    restarted: AtomicU64,
    /// Children that broke and were not replaced yet.
    owed: AtomicU64,
    resumed: AtomicU64,
    greeted_again: AtomicU64,
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Traffic {
    /// Bytes of messages that it has sent.
    pub fn received(&self) -> u64 {
        read(&self.received)
    }

    /// Bytes of messages that it was sent.
    pub fn sent(&self) -> u64 {
        read(&self.sent)
    }

    /// Processes of it that run.
    pub fn children(&self) -> u64 {
        *self.children.borrow()
    }

    /// Hears when a process of it is started, or ends.
    pub(crate) fn watch_children(&self) -> watch::Receiver<u64> {
        self.children.subscribe()
    }

    /// Processes of it that were started.
    pub fn started(&self) -> u64 {
        read(&self.started)
    }

    /// Processes that were started in place of one that broke.
    pub fn restarted(&self) -> u64 {
        read(&self.restarted)
    }

    /// Streams of it that broke and were taken up again.
    pub fn resumed(&self) -> u64 {
        read(&self.resumed)
    }

    /// How often it forgot a session and was greeted anew.
    pub fn greeted_again(&self) -> u64 {
        read(&self.greeted_again)
    }

    pub(super) fn add_received(&self, bytes: usize) {
        add(&self.received, bytes as u64);
    }

    pub(super) fn add_sent(&self, bytes: usize) {
        add(&self.sent, bytes as u64);
    }

    pub(super) fn add_resumed(&self) {
        add(&self.resumed, 1);
    }

    pub(super) fn add_greeted_again(&self) {
        add(&self.greeted_again, 1);
    }

    /// A process was started; it counts until this is dropped.
    pub(super) fn child(self: &Arc<Self>) -> Child {
        add(&self.started, 1);
        self.children.send_modify(|children| *children += 1);
        let one_less = |owed: u64| owed.checked_sub(1);
        if self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            add(&self.restarted, 1);
        }
        Child(Arc::clone(self))
    }

    /// A process ended that should not have.
    pub(super) fn broke(&self) {
        add(&self.owed, 1);
    }
}

/// A process that runs.
#[derive(Debug)]
pub(super) struct Child(Arc<Traffic>);

impl Drop for Child {
    fn drop(&mut self) {
        self.0.children.send_modify(|children| *children -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_in_place_of_a_broken_one_is_a_restart() {
        let traffic = Arc::new(Traffic::default());
        let (first, second) = (traffic.child(), traffic.child());
        assert_eq!((traffic.children(), traffic.restarted()), (2, 0));
        drop(first);
        traffic.broke();
        let third = traffic.child();
        assert_eq!((traffic.children(), traffic.restarted(), traffic.started()), (2, 1, 3));
        drop((second, third));
        let fourth = traffic.child();
        assert_eq!((traffic.children(), traffic.restarted(), traffic.started()), (1, 1, 4));
        drop(fourth);
    }
}
