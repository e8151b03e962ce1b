//! Servers that talk without end.
//!
//! A server may say as much as it likes for a while, and a little for ever.
//! Nothing of what is beyond that is lost, for it may be what somebody waits
//! for; but the server is read more slowly, until it waits for us. So one that
//! floods costs others nothing.
//!
//! ```text
//!   each notice ──▶ takes a moment's worth of room ──▶ room for BURST: read at once
//!                                                  └─▶ none left: read with pauses, and told in the log
//! ```

use std::time::{Duration, Instant};

use switchboard_proto::jsonrpc::Message;

use super::Upstream;
use crate::face::{lock, now};

/// One notice in so much time, for ever: more than people or models read.
const EACH: Duration = Duration::from_millis(1);

/// So much of that time at once: ten thousand notices.
const BURST: Duration = Duration::from_secs(10);

/// Bytes that count as one more notice.
const PIECE: usize = 64 << 10;

/// Notices beyond that are read before the reader pauses, and how long it does.
const AT_ONCE: u32 = 8;
const PAUSE: Duration = Duration::from_millis(1);

/// How often the log tells of it while it lasts.
const AGAIN: Duration = Duration::from_mins(1);

/// How much a server has said of late.
#[derive(Debug, Default)]
pub(super) struct Flood {
    /// When there is room for all of it again.
    clear: Option<Instant>,
    /// When the log was last told.
    told: Option<Instant>,
    /// Since the reader last paused.
    beyond: u32,
}

/// What comes of a notice.
#[derive(Debug, Eq, PartialEq)]
enum Verdict {
    Passes,
    /// It is too much.
    Floods {
        /// The log is to tell of it.
        is_to_tell: bool,
    },
}

impl Flood {
    /// One more notice of so many bytes.
    fn handle_notice(&mut self, bytes: usize, now: Instant) -> Verdict {
        let clear = self.clear.map_or(now, |clear| clear.max(now));
        if clear.saturating_duration_since(now) < BURST {
            let pieces = u32::try_from(bytes / PIECE).unwrap_or(u32::MAX).saturating_add(1);
            self.clear = Some(clear + EACH.saturating_mul(pieces).min(BURST));
            return Verdict::Passes;
        }
        self.beyond = self.beyond.saturating_add(1);
        let is_to_tell = self.told.is_none_or(|told| now.saturating_duration_since(told) >= AGAIN);
        if is_to_tell {
            self.told = Some(now);
        }
        Verdict::Floods { is_to_tell }
    }

    /// Whether the reader is to pause.
    fn is_to_pause(&mut self) -> bool {
        let is_to_pause = self.beyond >= AT_ONCE;
        if is_to_pause {
            self.beyond = 0;
        }
        is_to_pause
    }
}

impl Upstream {
    /// Counts what the server says unasked: notifications and its own requests.
    pub(super) fn count_notice(&self, message: &Message) {
        if !message.is_response() {
            self.count_bytes(message.text().len());
        }
    }

    /// Counts so many bytes as a notice, whatever they say.
    pub(super) fn count_bytes(&self, bytes: usize) {
        let verdict = lock(&self.flood).handle_notice(bytes, now());
        if verdict == (Verdict::Floods { is_to_tell: true }) {
            tracing::warn!(
                server = self.name,
                "the server floods us with notices; it is read slowly"
            );
        }
    }

    /// Waits for a moment if the server says too much.
    pub(super) async fn pace(&self) {
        let is_to_pause = lock(&self.flood).is_to_pause();
        if is_to_pause {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` notices pass that come `apart` from each other.
    fn passed(flood: &mut Flood, count: u32, apart: Duration, start: Instant) -> usize {
        let at = |number: u32| start + apart * number;
        (0..count).filter(|number| flood.handle_notice(100, at(*number)) == Verdict::Passes).count()
    }

    #[test]
    fn much_at_once_and_little_for_ever_passes_and_no_more() {
        let start = now();
        let mut flood = Flood::default();
        assert_eq!(passed(&mut flood, 30_000, Duration::ZERO, start), 10_000);
        assert_eq!(passed(&mut flood, 1000, Duration::ZERO, start + Duration::from_secs(1)), 1000);
        let later = start + Duration::from_mins(1);
        assert_eq!(passed(&mut flood, 60_000, Duration::from_millis(1), later), 60_000);
        let mut large = Flood::default();
        let is_let = |_: &u32| large.handle_notice(9 * PIECE, start) == Verdict::Passes;
        assert_eq!((0..30_000).filter(is_let).count(), 1000);
    }

    #[test]
    fn the_log_is_told_at_once_and_then_each_minute() {
        let start = now();
        let mut flood = Flood::default();
        passed(&mut flood, 10_000, Duration::ZERO, start);
        assert_eq!(flood.handle_notice(1, start), Verdict::Floods { is_to_tell: true });
        assert_eq!(flood.handle_notice(1, start), Verdict::Floods { is_to_tell: false });
        let later = start + AGAIN;
        passed(&mut flood, 10_000, Duration::ZERO, later);
        assert_eq!(flood.handle_notice(1, later), Verdict::Floods { is_to_tell: true });
    }

    #[test]
    fn the_reader_pauses_once_for_a_handful() {
        let start = now();
        let mut flood = Flood::default();
        passed(&mut flood, 10_000, Duration::ZERO, start);
        assert!(!flood.is_to_pause());
        passed(&mut flood, AT_ONCE, Duration::ZERO, start);
        assert!(flood.is_to_pause() && !flood.is_to_pause());
    }
}
