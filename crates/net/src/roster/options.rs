//! What a user of the roster may want to be different.

use std::time::Duration;

use super::cache::Cache;
use super::muster::Pace;
use crate::client::ClientOptions;

/// How servers are brought up and kept.
#[derive(Clone, Debug)]
pub struct RosterOptions {
    /// How to connect, unless said otherwise for a server.
    pub client: ClientOptions,
    /// Where lists of earlier times are kept; nowhere, if not said.
    pub cache: Option<Cache>,
    /// Servers that are started at once.
    pub at_once: usize,
    /// How long one that starts keeps the next in the queue waiting. It has
    /// time to start all the same; see `connect`.
    pub turn: Duration,
    /// How long [`ready`](super::Roster::ready) waits.
    pub patience: Duration,
    /// How long connecting and reading the lists may take.
    pub connect: Duration,
    /// How long a call waits for a server that is not ready; never longer than
    /// the call itself may be silent.
    pub wait: Duration,
    /// Attempts in a row before a server is left alone.
    pub attempts: u32,
    /// How long it is left alone, even if it is used.
    pub rest: Duration,
    /// Servers are supervised like processes, whatever `attempts` and `rest` say:
    /// one that broke is back at once after a long life, else after 1, 5 and 15
    /// seconds, three times in five minutes; then it is tried this often.
    pub probe: Option<Duration>,
    /// How long a list that has changed is not read, because more may change.
    pub coalesce: Duration,
    /// How long closing may take.
    pub close: Duration,
    /// Servers at most.
    pub servers: usize,
}

impl Default for RosterOptions {
    fn default() -> Self {
        Self {
            client: ClientOptions::default(),
            cache: None,
            at_once: 16,
            turn: Duration::from_millis(100),
            patience: Duration::from_millis(250),
            connect: Duration::from_mins(1),
            wait: Duration::from_secs(10),
            attempts: 10,
            rest: Duration::from_secs(30),
            probe: None,
            coalesce: Duration::from_millis(50),
            // A child has six seconds to end in; see `stdio::child::Grace`.
            close: Duration::from_secs(10),
            servers: 1024,
        }
    }
}

impl RosterOptions {
    pub(super) fn pace(&self) -> Pace {
        let at_once = self.at_once.max(1);
        let Self { turn, attempts, rest, probe, .. } = *self;
        Pace { at_once, turn, attempts, rest, probe }
    }
}
