//! Sessions at a legacy server that nobody has used for a while (GW-41).

use std::sync::{Arc, Weak};
use std::time::Duration;

use switchboard_proto::refusal::Refusal;

use super::{Bridge, State, Whose};
use crate::face::{lock, now};
use crate::upstream::Upstream;

/// How long a session at the server outlives its last call: what the server
/// remembers for clients that are alike goes with it.
const IDLE: Duration = Duration::from_mins(10);

/// How often somebody looks.
const LOOK: Duration = Duration::from_mins(1);

/// Sessions for clients that are alike. Each is a child or a session at the server.
pub(super) const MOST_ALIKE: usize = 64;

/// The same for users, who are more: each has a name of its own.
pub(super) const MOST_USERS: usize = 1024;

impl State {
    /// Why there is no place for one more, if there is none.
    pub(super) fn refuses(&self, whose: Whose) -> Option<Refusal> {
        let count = |is_one: fn(&Whose) -> bool| {
            self.connections.keys().filter(|whose| is_one(whose)).count()
        };
        let is_full = match whose {
            Whose::Alike(_) => count(|it| matches!(it, Whose::Alike(_))) >= MOST_ALIKE,
            Whose::User(..) => count(|it| matches!(it, Whose::User(..))) >= MOST_USERS,
            _ => false,
        };
        is_full.then_some(Refusal::TooManySessions)
    }

    fn swept(&self) -> usize {
        self.connections.keys().filter(|whose| whose.is_swept()).count()
    }

    /// Takes away what has not been used for long.
    fn take_idle(&mut self) -> Vec<Arc<Upstream>> {
        let now = now();
        let is_idle = |whose: &Whose, upstream: &mut Arc<Upstream>| {
            let unused = now.saturating_duration_since(upstream.used()) >= IDLE;
            whose.is_swept() && unused && !upstream.is_used() && !upstream.is_attached()
        };
        let idle = self.connections.extract_if(is_idle);
        idle.map(|(_, upstream)| upstream).collect()
    }
}

/// Looks after the sessions of users and of clients that are alike, until none is left.
pub(super) async fn sweep(bridge: Weak<Bridge>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(bridge) = bridge.upgrade() else { return };
        let mut state = lock(&bridge.state);
        for upstream in state.take_idle() {
            state.close(async move { upstream.close().await });
        }
        if state.closed || state.swept() == 0 {
            state.swept = false;
            return;
        }
    }
}
