//! What a connection does by the clock: it gives up on calls that take too long, and keeps a
//! quiet legacy session alive with pings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard_proto::client::ClientHalf;
use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::method;

use super::era::AnswerWaiter;
use super::{Core, Upstream};
use crate::call::Call;
use crate::connection::lock;
use crate::drive::{now, race};

/// The deadlines are not looked at more often than this.
const LEAST_LOOK: Duration = Duration::from_millis(10);

/// They are looked at as often as this.
const LONGEST_LOOK: Duration = Duration::from_mins(1);

/// Nothing else counts as idle while a ping is open, so none is open for long.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Gives up on calls that take too long.
pub(super) async fn watch_deadlines(up: Arc<Upstream>) {
    // A call that is opened meanwhile has at least this much time.
    let at_most = (up.limits.quiet.min(up.limits.total) / 4).min(LONGEST_LOOK);
    loop {
        let look = {
            // Said under the lock, so that no step can add a sooner deadline unnoticed.
            let mut core = lock(&up.core);
            let look = look_at(core.half.poll_timeout(), now(), at_most);
            core.next_look = Some(look);
            look
        };
        let pause = race(tokio::time::sleep_until(look.into()), up.sooner.notified());
        if up.stop.until(pause).await.is_none() {
            return;
        }
        up.step(ClientHalf::handle_timeout).detach();
    }
}

/// When to look at deadlines of which the next is `due`.
fn look_at(due: Option<Instant>, now: Instant, at_most: Duration) -> Instant {
    let latest = now + at_most;
    due.unwrap_or(latest).min(latest).max(now + LEAST_LOOK)
}

/// Whether something is due before `look`, and the watcher would look sooner
/// for it. It must not be woken by its own steps.
fn is_sooner(due: Instant, now: Instant, look: Instant) -> bool {
    due.max(now + LEAST_LOOK) < look
}

impl Core {
    /// Whether something is due before the deadlines are looked at again.
    pub(super) fn is_due_sooner(&self) -> bool {
        let times = self.half.poll_timeout().zip(self.next_look);
        times.is_some_and(|(due, look)| is_sooner(due, now(), look))
    }
}

/// Sends pings to a legacy server while no call is open, until told to stop. Modern servers
/// have no sessions, and no such method.
pub(super) async fn send_pings(up: Arc<Upstream>) {
    while up.stop.sleep(up.limits.ping).await {
        let may_ping = {
            let half = &lock(&up.core).half;
            matches!(half, ClientHalf::Legacy(_)) && !half.is_greeting() && half.calls() == 0
        };
        if !may_ping {
            continue;
        }
        let (waiter, answer) = AnswerWaiter::new();
        let call = Call::new(waiter, Exchange(1));
        let ping = Message::request(&Id::from(1), method::PING, None);
        // Not by `open`: a ping is no use of the connection.
        let holder = Arc::downgrade(&up);
        let open = |half: &mut ClientHalf<_>, now| {
            if call.hold(holder) {
                half.open(call.clone(), &ping, &None, now);
            }
        };
        up.step(open).detach();
        _ = up.stop.until(tokio::time::timeout(ANSWER_WAIT, answer)).await;
        call.cancel(None).detach();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_look_at_a_deadline_is_not_too_late_for_it() {
        let start = now();
        let at_most = Duration::from_secs(20);
        for after in [0, 1, 10, 11, 1_000, 20_000, 40_000] {
            let due = start + Duration::from_millis(after);
            let look = look_at(Some(due), start, at_most);
            // The watcher's own step comes a moment later, and finds the same deadline.
            for later in [0, 1, 100] {
                let step = start + Duration::from_micros(later);
                assert!(!is_sooner(due, step, look), "due after {after} ms");
            }
        }
    }

    #[test]
    fn a_sooner_deadline_is_noticed() {
        let start = now();
        let look = look_at(None, start, Duration::from_secs(20));
        assert!(is_sooner(start + Duration::from_secs(1), start, look));
    }
}
