//! The user that a connection is for, and what goes by it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::Upstream;
use crate::connection::lock;
use crate::stdio::child::most_children;
use crate::who::Who;

/// Connections by which processes are started for one name each.
static TAKEN: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// One name has one in so many of all processes, so that no single key takes all
/// places. Clients without a name share no bound.
const PART: usize = 2;

/// The user that a connection is for.
#[derive(Debug)]
pub(crate) struct Tenant {
    who: Who,
    is_counted: bool,
}

impl Tenant {
    /// A user at a server that is a URL: it takes no process.
    pub(crate) fn visiting(who: &Who) -> Self {
        Self { who: who.clone(), is_counted: false }
    }

    /// A user with a process; none if as many run for it as may. `gives_way` ends
    /// another of them if it can: this one comes in its place.
    pub(crate) fn housed(who: &Who, gives_way: impl FnOnce() -> bool) -> Option<Self> {
        Self::among(most_children(), who, gives_way)
    }

    fn among(most: usize, who: &Who, gives_way: impl FnOnce() -> bool) -> Option<Self> {
        if who.name().is_empty() {
            return Some(Self::visiting(who));
        }
        let share = (most / PART).max(1);
        let is_full = lock(&TAKEN).get(who.name()).is_some_and(|taken| *taken >= share);
        if is_full && !gives_way() {
            return None;
        }
        *lock(&TAKEN).entry(who.name().to_owned()).or_default() += 1;
        Some(Self { who: who.clone(), is_counted: true })
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let mut taken = lock(&TAKEN);
        if let Some(count) = taken.get_mut(self.who.name()).filter(|_| self.is_counted) {
            *count -= 1;
            if *count == 0 {
                taken.remove(self.who.name());
            }
        }
    }
}

impl Upstream {
    /// It is for them alone, until its end.
    pub(crate) fn let_to(&self, tenant: Tenant) {
        *lock(&self.tenant) = Some(tenant);
    }

    /// It takes the place of `old`, and is for the same user from here on.
    pub(crate) fn inherit(&self, old: &Self) {
        let tenant = lock(&old.tenant).take();
        *lock(&self.tenant) = tenant;
    }

    /// Whether it is for the user of this name.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        lock(&self.tenant).as_ref().is_some_and(|tenant| tenant.who.name() == name)
    }

    /// Whether it is for a user whose key was removed.
    pub(crate) fn is_orphaned(&self) -> bool {
        lock(&self.tenant).as_ref().is_some_and(|tenant| !tenant.who.is_known())
    }
}

/// Counters. All clones of a server share them.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Calls of clients that went on to it.
    called: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) sent: AtomicU64,
    /// Processes that run.
    pub(crate) children: watch::Sender<u64>,
    started: AtomicU64,
    restarted: AtomicU64,
    /// Children that broke and were not replaced yet.
    owed: AtomicU64,
    pub(super) resumed: AtomicU64,
    pub(super) greeted_again: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Traffic {
    /// Calls of clients that went on to it, where the bridge bounds them.
    pub fn called(&self) -> u64 {
        read(&self.called)
    }

    /// A call of a client goes on to it.
    pub(crate) fn call(&self) {
        add(&self.called, 1);
    }

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

    /// A process was started; it counts until this is dropped.
    pub(super) fn child(self: &Arc<Self>) -> RunningChild {
        add(&self.started, 1);
        self.children.send_modify(|children| *children += 1);
        let one_less = |owed: u64| owed.checked_sub(1);
        if self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            add(&self.restarted, 1);
        }
        RunningChild(Arc::clone(self))
    }

    /// A process ended that should not have.
    pub(super) fn broke(&self) {
        add(&self.owed, 1);
    }
}

/// A process that runs.
#[derive(Debug)]
pub(super) struct RunningChild(Arc<Traffic>);

impl Drop for RunningChild {
    fn drop(&mut self) {
        self.0.children.send_modify(|children| *children -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_more_than_half_of_all_places() {
        let (one, other) = (Who::new("a tenant"), Who::new("another tenant"));
        let house = |who: &Who| Tenant::among(5, who, || false);
        let mut housed = vec![house(&one).unwrap(), house(&one).unwrap()];
        assert!(house(&one).is_none());
        assert!(Tenant::among(5, &one, || true).is_some(), "in the place of another");
        assert!(house(&other).is_some(), "others have their own share");
        housed.pop();
        assert!(house(&one).is_some(), "a place is free again");
        assert!((0..9).all(|_| house(&Who::default()).is_some()), "nobody in particular");
        let _only = Tenant::among(1, &Who::new("one of one"), || false).unwrap();
    }
}

#[cfg(test)]
mod traffic_tests {
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
