//! Children that are started ahead of their clients, and those that nobody needs for now.

use std::sync::Arc;
use std::time::Duration;

use switchboard_proto::client::Sharing;
use switchboard_proto::revision::Era;
use tokio::sync::futures::Notified;

use super::{Bridge, Children, State, Whose};
use crate::drive::race;
use crate::face::{lock, now};
use crate::upstream::{Target, Upstream};

impl Bridge {
    /// Starts as many children ahead as there should be. They are greeted by
    /// whoever takes them: what their clients can do is not known before.
    pub(super) fn fill_pool(&self) {
        let Children::Pool(most) = self.children else { return };
        if !matches!(self.server.target(), Target::Command(_)) {
            return;
        }
        let mut state = lock(&self.state);
        while !state.closed && state.pool.len() < most {
            let (server, limits) = (self.server.clone(), self.limits());
            let warm = Upstream::new(server, Era::Legacy, Sharing::Alone, None, limits);
            warm.warm();
            state.pool.push_back(warm);
        }
    }
}

impl Bridge {
    /// Hears when somebody begins or ends to use the server.
    pub(crate) fn stirred(&self) -> Notified<'_> {
        self.stirred.notified()
    }

    /// Waits until no client has made a call for so long, whoever listens.
    pub(crate) async fn unused_for(&self, idle: Duration) {
        loop {
            let stirred = self.stirred();
            match self.unused_since() {
                Some(since) if since + idle <= now() => return,
                Some(since) => tokio::time::sleep_until((since + idle).into()).await,
                None => stirred.await,
            }
        }
    }

    /// Waits until nobody uses a connection, or waits for one.
    pub(crate) async fn until_quiet(&self) {
        self.until(|| lock(&self.state).is_quiet(), |it| !it.is_used()).await;
    }

    /// Waits until no call is open, waits, or is on its way from the gate.
    pub async fn until_idle(&self) {
        self.until(|| self.is_idle(), |it| it.calls() == 0).await;
    }

    /// Waits until `is_so`, for which each connection must be `free`.
    async fn until(&self, is_so: impl Fn() -> bool, free: impl Fn(&Upstream) -> bool) {
        loop {
            let stirred = self.stirred();
            if is_so() {
                return;
            }
            let used = lock(&self.state).first(|it| !free(it) && !it.is_stopped());
            match used {
                Some(used) => _ = race(stirred, used.until(&free)).await,
                None => stirred.await,
            }
        }
    }

    /// Whether every connection was ended, and there will be no other.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }
}

impl State {
    fn first(&self, is_it: impl Fn(&Upstream) -> bool) -> Option<Arc<Upstream>> {
        self.connections.values().find(|it| is_it(it)).cloned()
    }

    /// Whether nobody uses a connection, or waits for one.
    pub(super) fn is_quiet(&self) -> bool {
        let is_used = self.connections.values().any(|upstream| upstream.is_used());
        !is_used && self.waiting.is_quiet()
    }

    /// Ends what nobody needs for now; what clients count on is remembered.
    pub(super) fn rest(&mut self) -> bool {
        if self.closed || !self.is_quiet() {
            return false;
        }
        let is_needless = |whose: &Whose, upstream: &mut Arc<Upstream>| {
            let is_remembered = whose.outlives_rest();
            // One that somebody has come to use meanwhile goes on.
            _ = is_remembered && upstream.rest();
            !is_remembered
        };
        let needless: Vec<_> = self.connections.extract_if(is_needless).collect();
        let needless = needless.into_iter().map(|(_, upstream)| upstream);
        for upstream in needless.chain(std::mem::take(&mut self.pool)) {
            self.close(async move { upstream.close().await });
        }
        true
    }

    /// A child that was started ahead and lives.
    pub(super) fn take_warm(&mut self) -> Option<Arc<Upstream>> {
        while let Some(warm) = self.pool.pop_front() {
            if warm.is_linked() {
                return Some(warm);
            }
            self.close(async move { warm.close().await });
        }
        None
    }
}

impl Whose {
    /// Whether something is remembered there that its client counts on.
    fn outlives_rest(self) -> bool {
        match self {
            Self::All(era) | Self::User(era, _) => era == Era::Legacy,
            Self::Everybody | Self::Client(_) | Self::Able(..) => true,
            Self::Alike(..) | Self::Call(..) => false,
        }
    }
}
