//! Servers that a plan does not have any more, or has otherwise: they get no new
//! calls, and end when those that they have are answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchboard_net::bridge::Bridge;
use switchboard_net::face::Face;
use switchboard_net::inside::Inside as _;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Backend, Fleet};

/// How long open calls keep a server that nobody wants any more.
const DRAIN: Duration = Duration::from_mins(1);

/// How often somebody looks whether it has been left by all.
const LOOK: Duration = Duration::from_millis(20);

/// Those that are on their way out.
#[derive(Default)]
pub(super) struct Leaving {
    inner: Arc<Inner>,
    ending: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct Inner {
    bridges: Mutex<Vec<(Arc<str>, Arc<Bridge>)>>,
    /// Nobody waits for calls any more.
    hurry: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leaving {
    /// Ends a server once it has answered all that it was asked, or a while has passed.
    pub(super) fn leave(&self, name: &Arc<str>, backend: &Backend) {
        let (inner, name) = (Arc::clone(&self.inner), Arc::clone(name));
        // Held by nobody else: no call is on its way to it.
        let (held, bridge) = (Arc::downgrade(&backend.held), Arc::clone(&backend.bridge));
        lock(&inner.bridges).push((Arc::clone(&name), Arc::clone(&bridge)));
        self.end(async move {
            let until = Instant::now() + DRAIN;
            while held.strong_count() > 0 || !bridge.is_idle() {
                if inner.hurry.load(Ordering::Relaxed) || Instant::now() >= until {
                    let left = bridge.calls();
                    tracing::warn!(server = &*name, left, "calls outlived their server");
                    break;
                }
                tokio::time::sleep(LOOK).await;
            }
            bridge.close().await;
            lock(&inner.bridges).retain(|(_, left)| !Arc::ptr_eq(left, &bridge));
        });
    }

    /// Goes on with the end of something.
    pub(super) fn end(&self, end: impl Future<Output = ()> + Send + 'static) {
        let mut ending = lock(&self.ending);
        while ending.try_join_next().is_some() {}
        ending.spawn(end);
    }

    /// Ends them all, and waits for it.
    pub(super) async fn hurry(&self) {
        self.inner.hurry.store(true, Ordering::Relaxed);
        let mut ending = std::mem::take(&mut *lock(&self.ending));
        while ending.join_next().await.is_some() {}
    }
}

impl Fleet {
    /// A client is gone for good.
    pub(crate) fn forget(&self, face: &Arc<Face>) {
        self.tasks.forget(face.number());
        for bridge in self.bridges(|_| true) {
            bridge.forget(face);
        }
    }

    /// Everything that may know a call to one of these servers: those that are
    /// there, and those of that name that were.
    pub(crate) fn bridges(&self, is_meant: impl Fn(&str) -> bool) -> Vec<Arc<Bridge>> {
        let backends = self.backends();
        let there = backends.iter().filter(|(name, _)| is_meant(name));
        let there = there.map(|(_, backend)| Arc::clone(&backend.bridge));
        let leaving = lock(&self.leaving.inner.bridges);
        let left = leaving.iter().filter(|(name, _)| is_meant(name));
        let left = left.map(|(_, bridge)| Arc::clone(bridge));
        there.chain(left).collect()
    }
}
