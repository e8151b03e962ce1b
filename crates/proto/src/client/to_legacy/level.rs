//! Log records: a level for the session at the server, one for each request at its clients (GW-54).

use std::time::Instant;

use serde_json::json;

use super::{Errand, ToLegacy};
use crate::client::Ticket;
use crate::jsonrpc::Message;
use crate::method;
use crate::patch;

impl<T: Ticket> ToLegacy<T> {
    /// Has the server log as much as any open call wants (GW-54).
    pub(super) fn set_level(&mut self, wanted: Option<usize>, now: Instant) {
        let open = self.calls.values().filter_map(|call| call.level);
        let Some(wanted) = wanted.into_iter().chain(open).min() else { return };
        let silent = self
            .inner
            .welcome()
            .is_some_and(|welcome| patch::get(welcome, &["capabilities", "logging"]).is_none());
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
}

/// Whether a call that asked for `least` wants this record.
pub(super) fn is_wanted(record: &Message, least: Option<usize>) -> bool {
    let level = record.payload().and_then(|params| patch::string(params, &["level"]));
    let level = level.and_then(|level| method::severity(&level));
    least.is_some_and(|least| level.is_none_or(|level| level >= least))
}
