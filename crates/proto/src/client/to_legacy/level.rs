//! Log records: a level for the session at the server, one for each request at its clients (GW-54).

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Call, Errand, ToLegacy};
use crate::client::Ticket;
use crate::exchange::{Carrier, Down, To};
use crate::failure::Outcome;
use crate::jsonrpc::Message;
use crate::method;

impl<T: Ticket> ToLegacy<T> {
    /// Has the server log as much as any open call wants (GW-54).
    pub(super) fn set_level(&mut self, wanted: Option<usize>, now: Instant) {
        let open = self.calls.values().filter_map(|call| call.level);
        let Some(wanted) = wanted.into_iter().chain(open).min() else { return };
        let welcome = self.inner.welcome();
        let silent = welcome.is_some_and(|welcome| welcome.capability(&["logging"]).is_none());
        if silent || self.level == Some(wanted) {
            return;
        }
        self.level = Some(wanted);
        let params = json!({"level": method::LEVELS[wanted]}).to_string();
        let request = Message::request(&0.into(), method::SET_LEVEL, Some(params.as_bytes()));
        self.leveling += 1;
        self.inner.open(Errand::Level, &request, now);
    }

    /// The server has heard what to log: the calls that want it may begin.
    pub(super) fn handle_leveled(&mut self, now: Instant) {
        self.leveling = self.leveling.saturating_sub(1);
        if self.leveling == 0 {
            for number in std::mem::take(&mut self.held) {
                self.begin(number, now);
            }
        }
    }

    /// A record goes to its call; to the only one that wants any, if it does not say.
    pub(super) fn handle_log(&mut self, to: &To<Errand<T>>, record: &Message) {
        let mut wanting = self.calls.iter().filter(|(_, call)| call.level.is_some());
        let number = match to {
            To::Call(Errand::Call { number, .. }) => Some(*number),
            _ if self.has_native_asking() => None,
            _ => wanting.next().filter(|_| wanting.next().is_none()).map(|(&number, _)| number),
        };
        let call = number.and_then(|number| self.calls.get(&number));
        if let Some(call) = call.filter(|call| is_wanted(record, call.level)) {
            let to = To::Call(call.ticket.clone());
            self.down.push_back(Down::Note { to, message: record.clone() });
        }
    }

    /// Over HTTP some servers log on the stream that belongs to no call, and that
    /// may be slower than the answer. After it nothing more can be said.
    pub(super) fn finish_with_logs(&mut self, number: u64, outcome: Outcome, now: Instant) {
        let call = self.calls.get_mut(&number);
        match call.filter(|call| call.level.is_some() && self.carrier == Carrier::Http) {
            Some(call) => call.lingers = Some((outcome, now + LINGER)),
            None => self.finish(number, outcome, now),
        }
    }

    /// Gives the answers that were held back long enough.
    pub(super) fn end_lingering(&mut self, now: Instant) {
        let late = |call: &Call<T>| call.lingers.as_ref().is_some_and(|(_, until)| *until <= now);
        let due = self.calls.iter().filter(|(_, call)| late(call)).map(|(&number, _)| number);
        for number in due.collect::<Vec<_>>() {
            let answer = self.calls.get_mut(&number).and_then(|call| call.lingers.take());
            if let Some((answer, _)) = answer {
                self.finish(number, answer, now);
            }
        }
    }
}

/// How long an answer waits for log records that may have been sent before it.
const LINGER: Duration = Duration::from_millis(50);

/// Whether a call that asked for `least` wants this record.
fn is_wanted(record: &Message, least: Option<usize>) -> bool {
    least.is_some_and(|least| method::is_grave(record, least))
}
