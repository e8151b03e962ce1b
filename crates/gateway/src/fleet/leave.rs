//! Servers that a plan does not have any more, or has otherwise: they get no new
//! calls, and end when those that they have are answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchboard_net::bridge::Bridge;
use switchboard_net::face::Face;
use switchboard_net::inside::Inside as _;
use switchboard_net::{Either, race};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Backend, Fleet};

/// How long open calls keep a server that nobody wants any more.
const DRAIN: Duration = Duration::from_mins(1);

/// Those that are on their way out.
#[derive(Default)]
pub(super) struct Leaving {
    bridges: Arc<Mutex<Vec<(Arc<str>, Arc<Bridge>)>>>,
    /// Nobody waits for calls any more.
    hurry: watch::Sender<bool>,
    ending: Mutex<JoinSet<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leaving {
    /// Ends a server once it has answered all that it was asked, or a while has passed.
    pub(super) fn leave(&self, name: &Arc<str>, backend: &Backend) {
        let (bridges, name) = (Arc::clone(&self.bridges), Arc::clone(name));
        let bridge = Arc::clone(&backend.bridge);
        let (mut held, mut hurry) = (backend.held.subscribe(), self.hurry.subscribe());
        lock(&bridges).push((Arc::clone(&name), Arc::clone(&bridge)));
        self.end(async move {
            let answered = async {
                // Closed when nobody holds it: no call is on its way to it.
                _ = held.changed().await;
                bridge.until_idle().await;
            };
            let over = race(timeout(DRAIN, answered), hurry.wait_for(|hurry| *hurry));
            let is_left = matches!(over.await, Either::Left(Ok(())));
            if !is_left {
                let left = bridge.calls();
                tracing::warn!(server = &*name, left, "calls outlived their server");
            }
            bridge.close().await;
            lock(&bridges).retain(|(_, left)| !Arc::ptr_eq(left, &bridge));
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
        self.hurry.send_replace(true);
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
        let leaving = lock(&self.leaving.bridges);
        let left = leaving.iter().filter(|(name, _)| is_meant(name));
        let left = left.map(|(_, bridge)| Arc::clone(bridge));
        there.chain(left).collect()
    }
}
