//! Connections ahead of their use, and connections that nobody uses for now.
//!
//! A connection at rest has no child and no session at the server, but knows
//! what its clients have said and watch: the next call greets the server anew.

use std::sync::Arc;
use switchboard_proto::failure::Failure;

use http::HeaderMap;

use super::core::Stay;
use super::{Road, Upstream};
use crate::drive::race;
use crate::face::{lock, now};

impl Upstream {
    /// Starts the child before anybody needs it.
    pub(crate) fn warm(self: &Arc<Self>) {
        let mut core = lock(&self.core);
        core.stay = Stay::Ahead;
        self.start(&mut core);
        drop(core);
        self.written.notify_one();
    }

    /// Headers of the client that it was made for.
    pub(crate) fn passed(&self) -> Option<&HeaderMap> {
        self.server.passed()
    }

    /// Whether there is a child, or a stream; by POSTs nobody can tell.
    pub(crate) fn is_linked(&self) -> bool {
        let core = lock(&self.core);
        core.road == Road::Http || matches!(core.stay, Stay::Ahead | Stay::Here)
    }

    /// Whether the server has ever told of itself here.
    pub(crate) fn is_met(&self) -> bool {
        lock(&self.core).half.is_met()
    }

    /// Whether a call is open, a client waits to hear of something, or a task goes on.
    pub(crate) fn is_used(&self) -> bool {
        lock(&self.core).is_used()
    }

    /// Whether somebody began this task by this connection.
    pub(crate) fn has_task(&self, id: &str, principal: &[u8]) -> bool {
        lock(&self.core).half.has_task(id, principal)
    }

    /// Ends the link until the next call. False if somebody uses it.
    pub(crate) fn rest(self: &Arc<Self>) -> bool {
        let mut core = lock(&self.core);
        if core.is_used() {
            return false;
        }
        core.half.rest(&Failure::CLOSED, now());
        core.settle();
        // Whoever calls from here on begins anew, and waits for the old link to end.
        if core.stay == Stay::Here {
            core.stay = Stay::Leaving;
        }
        let by_http = core.road == Road::Http;
        drop(core);
        self.rested.notify_waiters();
        if by_http {
            let this = Arc::clone(self);
            self.spawn(async move {
                if let Some(link) = this.http.get() {
                    link.delete_session().await;
                }
            });
        }
        self.pass_down();
        true
    }

    /// Waits until that is so, or the connection was ended.
    pub(crate) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        loop {
            let stirred = race(self.told.notified(), self.drained.notified());
            if is_so(self) || self.stop.until(stirred).await.is_none() {
                return;
            }
        }
    }

    /// Waits until the link is to end.
    pub(super) async fn until_rest(&self) {
        loop {
            let rested = self.rested.notified();
            if lock(&self.core).stay == Stay::Leaving {
                return;
            }
            rested.await;
        }
    }
}
