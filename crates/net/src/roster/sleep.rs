//! Puts a server to sleep that nobody uses.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;

use super::inner::Inner;
use super::{Roster, ServerPhase, ServerState};
use crate::bridge::Bridge;
use crate::drive::{Either, OwnedTask, race};
use crate::face::lock;

/// A server, and the bridge that the calls of clients go by.
struct Sleeper {
    inner: Weak<Inner>,
    name: Arc<str>,
    bridge: Arc<Bridge>,
    idle: Duration,
    /// The connections of the bridge end with ours.
    is_owner: bool,
}

impl Roster {
    /// Has a server sleep whenever no client has made a call by `bridge` for `idle`; never,
    /// if that is not said. The connections of the bridge end too if this roster is their
    /// owner; other rosters only leave them.
    pub fn sleep_after(
        &self,
        name: &str,
        idle: Option<Duration>,
        bridge: &Arc<Bridge>,
        is_owner: bool,
    ) {
        let Some(berth) = self.inner.berth(name) else { return };
        let sleeper = idle.map(|idle| Sleeper {
            inner: Arc::downgrade(&self.inner),
            name: Arc::clone(&berth.name),
            bridge: Arc::clone(bridge),
            idle,
            is_owner,
        });
        let state = berth.state.subscribe();
        *lock(&berth.sleeping) = sleeper.map(|it| OwnedTask::spawn(it.run(state)));
    }
}

impl Sleeper {
    async fn run(self, mut state: watch::Receiver<ServerState>) {
        let bridge = &self.bridge;
        while !bridge.is_closed() {
            bridge.unused_for(self.idle).await;
            if self.is_owner {
                bridge.until_quiet().await;
            }
            let stirred = bridge.stirred();
            let phase = state.borrow_and_update().phase;
            let Some(inner) = self.inner.upgrade() else { return };
            let is_settled = self.put_to_sleep(&inner, phase);
            drop(inner);
            if !is_settled {
                // Somebody came to use it at this moment.
                tokio::task::yield_now().await;
            } else if let Either::Right(Err(_)) = race(stirred, state.changed()).await {
                return;
            }
        }
    }

    /// False if that must be tried again once nobody uses the server.
    fn put_to_sleep(&self, inner: &Arc<Inner>, phase: ServerPhase) -> bool {
        let bridge = &self.bridge;
        let sleep = || inner.step(|muster, _| muster.sleep(&self.name));
        let is_asleep = match phase {
            // It goes by the bridge too, and leaves it first: it would start the server again.
            ServerPhase::Ready if !self.is_owner || bridge.is_common() => {
                sleep();
                return true;
            }
            ServerPhase::Ready => bridge.rest(self.idle) && sleep(),
            ServerPhase::Sleeping if self.is_owner && bridge.is_common() && bridge.is_running() => {
                bridge.rest(self.idle)
            }
            _ => return true,
        };
        if is_asleep {
            tracing::info!(server = &*self.name, "put to sleep: nobody uses it");
        }
        is_asleep
    }
}
