//! Looks after the servers of a fleet: calls hear how theirs stands, and those
//! that nobody uses are put to sleep.

use std::sync::{Arc, Weak};
use std::time::Duration;

use switchboard_net::OwnedTask;
use switchboard_net::bridge::Door;
use switchboard_net::roster::{Change, Changes, ServerPhase, ServerState};
use switchboard_net::upstream::LEADS_BACK;
use tokio::time::{Instant, sleep_until};

use super::{Backend, Fleet};
use crate::config::Sleep;

/// How often somebody looks, at least.
const LOOK: Duration = Duration::from_secs(1);

/// And at most.
const BLINK: Duration = Duration::from_millis(20);

impl Fleet {
    /// Begins to look after every server.
    pub(super) fn tend(self: &Arc<Self>) {
        self.tending.get_or_init(|| {
            let watching = watch(Arc::downgrade(self), self.roster.changes());
            [OwnedTask::spawn(watching), OwnedTask::spawn(look(Arc::downgrade(self)))]
        });
    }

    /// Puts servers to sleep that nobody has used for long; when to look again.
    fn look(&self) -> Instant {
        let now = Instant::now();
        let mut next = now + LOOK;
        for (name, backend) in &*self.backends() {
            if backend.bridge.server().leads_back() && self.roster.is_ready(name) {
                // A client's call has found out; now the roster does.
                self.roster.restart(name);
            }
            let Sleep::After(idle) = backend.plan.sleep else { continue };
            if backend.plan.knows_people() && backend.bridge.is_unused(idle) {
                // They only listen for what has changed, and would keep it awake.
                self.people.sleep(name);
            }
            let Some(until) = backend.bridge.idle_until(idle).map(Instant::from_std) else {
                continue;
            };
            if until > now {
                next = next.min(until);
            } else if self.put_to_sleep(name, backend, idle) {
                tracing::info!(server = &**name, "put to sleep: nobody uses it");
            }
        }
        next.max(now + BLINK)
    }

    /// Lets go of a server that nobody has used for so long.
    fn put_to_sleep(&self, name: &str, backend: &Backend, idle: Duration) -> bool {
        let bridge = &backend.bridge;
        if !bridge.is_common() {
            return self.roster.is_ready(name) && bridge.rest(idle) && self.roster.sleep(name);
        }
        // The roster goes by it too, and leaves it first: it would start it again.
        if self.roster.is_ready(name) {
            self.roster.sleep(name);
            return false;
        }
        self.roster.is_asleep(name) && bridge.is_running() && bridge.rest(idle)
    }

    /// Somebody wants something of a server, if only to see its list: one that
    /// sleeps is woken, and nobody waits for it.
    pub(crate) fn want(&self, name: &str) {
        let Some(backend) = self.backend(name) else { return };
        if backend.plan.sleep != Sleep::Never {
            backend.bridge.touch();
            self.roster.wake(name);
        }
    }

    fn tell_door(&self, name: &str, state: &ServerState) {
        let Some(backend) = self.backend(name) else { return };
        // Where clients show headers of their own, they may be let in where we are not.
        let is_known = backend.plan.passes().is_empty();
        let why = || format!("server {name:?} {LEADS_BACK}");
        let door = match state {
            _ if !is_known => Door::Open,
            state if state.phase == ServerPhase::Failed && backend.bridge.server().leads_back() => {
                Door::Failed(why())
            }
            _ => door(name, state),
        };
        backend.bridge.stands(door);
    }

    fn tell_all_doors(&self) {
        for (name, state) in self.states() {
            self.tell_door(&name, &state);
        }
    }
}

/// What calls to a server are told. Why it broke is not for clients to know: it
/// may name files and addresses.
fn door(name: &str, state: &ServerState) -> Door {
    match state.phase {
        ServerPhase::Ready | ServerPhase::Sleeping => Door::Open,
        ServerPhase::Retrying => {
            let why = format!("server {name:?} could not be started, and is tried again soon");
            Door::Retrying(why)
        }
        ServerPhase::Failed => {
            let why = format!("server {name:?} has failed too often, and is tried again later");
            Door::Failed(why)
        }
        _ => Door::Starting,
    }
}

async fn watch(fleet: Weak<Fleet>, mut changes: Changes) {
    while let Some(change) = changes.next().await {
        let Some(fleet) = fleet.upgrade() else { return };
        match change {
            Change::State { server, state } => fleet.tell_door(&server, &state),
            Change::Missed => fleet.tell_all_doors(),
            _ => {}
        }
    }
}

/// Looks now and then, for as long as there is a fleet.
async fn look(fleet: Weak<Fleet>) {
    loop {
        let Some(next) = fleet.upgrade().map(|fleet| {
            fleet.tell_all_doors();
            fleet.look()
        }) else {
            return;
        };
        sleep_until(next).await;
    }
}
