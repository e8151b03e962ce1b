//! Sessions at a legacy server that nobody has used for a while (GW-41).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use switchboard_proto::refusal::Refusal;

use super::{Bridge, State, Whose};
use crate::face::{lock, now};
use crate::upstream::Upstream;

/// How long a session at the server outlives its last call: what the server
/// remembers for clients that are alike goes with it.
const IDLE: Duration = Duration::from_mins(10);

/// How often somebody looks.
const LOOK: Duration = Duration::from_mins(1);

/// Sessions for clients that are alike, and those of one user: what a client can
/// do it says itself, and must keep nobody out by it; those of one client on a
/// pipe are bounded alike. Each is a child or a session at the server.
const MOST_ALIKE: usize = 256;
const MOST_OF_ONE: usize = 16;

/// The same for users, who are more: each has a name of its own.
const MOST_USERS: usize = 1024;

impl State {
    /// Sees to it that there is a place for one more, if need be in the place of
    /// one that nobody uses.
    pub(super) fn make_room(&mut self, whose: Whose) -> Result<(), Refusal> {
        match whose {
            Whose::Alike(user, _) => {
                let of_one = |it: &Whose| matches!(it, Whose::Alike(theirs, _) if *theirs == user);
                self.keep_below(MOST_OF_ONE, of_one)?;
                self.keep_below(MOST_ALIKE, |it| matches!(it, Whose::Alike(..)))
            }
            Whose::Able(client, _) => {
                self.keep_below(MOST_OF_ONE, |it| matches!(it, Whose::Able(of, _) if *of == client))
            }
            Whose::User(..) => self.keep_below(MOST_USERS, |it| matches!(it, Whose::User(..))),
            _ => Ok(()),
        }
    }

    /// Ends the one that was not used for longest, if there are so many.
    fn keep_below(&mut self, most: usize, is_one: impl Fn(&Whose) -> bool) -> Result<(), Refusal> {
        let these = || self.connections.iter().filter(|(whose, _)| is_one(whose));
        if these().count() < most {
            return Ok(());
        }
        let unused = these().filter(|(_, it)| !it.is_used() && !it.is_attached());
        let oldest = unused.min_by_key(|(_, upstream)| upstream.used()).map(|(whose, _)| *whose);
        let upstream = oldest.and_then(|oldest| self.connections.remove(&oldest));
        let upstream = upstream.ok_or(Refusal::TooManySessions)?;
        self.close(async move { upstream.close().await });
        Ok(())
    }

    /// What each client on a pipe used last. It stays, as the only one of a legacy
    /// client does: the client is there, and the server may remember something.
    fn last_of_clients(&self) -> HashSet<Whose> {
        let mut last: HashMap<u64, (Instant, Whose)> = HashMap::new();
        for (&whose, upstream) in &self.connections {
            let Whose::Able(client, _) = whose else { continue };
            let used = upstream.used();
            let latest = last.entry(client).or_insert((used, whose));
            if used > latest.0 {
                *latest = (used, whose);
            }
        }
        last.into_values().map(|(_, whose)| whose).collect()
    }

    fn swept(&self) -> usize {
        self.connections.keys().filter(|whose| whose.is_swept()).count()
    }

    /// Takes away what has not been used for long.
    fn take_idle(&mut self) -> Vec<Arc<Upstream>> {
        let now = now();
        let last = self.last_of_clients();
        let is_idle = |whose: &Whose, upstream: &mut Arc<Upstream>| {
            let unused = now.saturating_duration_since(upstream.used()) >= IDLE;
            let is_free = unused && !upstream.is_used() && !upstream.is_attached();
            whose.is_swept() && is_free && !last.contains(whose)
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
