//! Servers that say too much, or what cannot be read.
//!
//! A server that floods us is read slowly, and the log gets a few lines a minute. If what
//! cannot be read answers a call, that call fails at once instead of waiting for its whole time.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use switchboard_proto::exchange::Lane;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{self, Answered, InvalidMessage, Message};

use super::Upstream;
use crate::backend::PendingWork;
use crate::connection::lock;
use crate::drive::{Throttle, TooMuch, now};

/// One notice in so much time, for ever: more than people or models read.
const EACH: Duration = Duration::from_millis(1);

/// Bytes that count as one more notice.
const PIECE: usize = 64 << 10;

/// Notices beyond that are read before the reader pauses, and how long it does.
const AT_ONCE: u32 = 8;
const PAUSE: Duration = Duration::from_millis(1);

/// How much a server has said of late.
#[derive(Debug, Default)]
pub(super) struct Flood {
    throttle: Throttle,
    /// Notices that were too much, since the reader last paused.
    beyond: u32,
}

impl Flood {
    /// One more notice of so many bytes.
    fn handle_notice(&mut self, bytes: usize, now: Instant) -> Result<(), TooMuch> {
        let pieces = u32::try_from(bytes / PIECE).unwrap_or(u32::MAX).saturating_add(1);
        let passed = self.throttle.pass(EACH.saturating_mul(pieces), now);
        self.beyond = self.beyond.saturating_add(passed.is_err().into());
        passed
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

/// Lines of one kind that are logged in each [`WINDOW`]; further ones are counted.
const FEW: u32 = 5;

/// How long the count of lines lasts.
const WINDOW: Duration = Duration::from_mins(1);

/// How many lines of one kind there were of late.
#[derive(Debug, Default)]
pub(super) struct Ration {
    began: Option<Instant>,
    lines: u32,
}

impl Ration {
    /// One more line: what to add to it, or none if it is not to be logged.
    pub(super) fn handle_line(&mut self, now: Instant) -> Option<String> {
        let is_over = self.began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW);
        let omitted = self.lines.saturating_sub(FEW);
        if is_over {
            *self = Self { began: Some(now), lines: 0 };
        }
        self.lines = self.lines.saturating_add(1);
        match self.lines {
            1 if omitted > 0 => Some(format!(" ({omitted} more lines like this were left out)")),
            1..FEW => Some(String::new()),
            FEW => Some(" (further lines like this are counted for a minute)".to_owned()),
            _ => None,
        }
    }
}

impl Upstream {
    /// Counts so many bytes that the server says unasked: notifications and its own requests.
    pub(super) fn count_notice(&self, bytes: usize) {
        let verdict = lock(&self.flood).handle_notice(bytes, now());
        if verdict == Err(TooMuch { is_to_tell: true }) {
            let server = &self.name;
            tracing::warn!(server, "the server floods us with notices; it is read slowly");
        }
    }

    /// Waits for a moment if the server says too much.
    pub(super) async fn pace(&self) {
        let is_to_pause = lock(&self.flood).is_to_pause();
        if is_to_pause {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// `text` is no message, but may be torn and hold one.
    pub(super) fn handle_unreadable(
        self: &Arc<Self>,
        lane: Lane,
        text: &Bytes,
        refused: &InvalidMessage,
    ) -> PendingWork {
        self.count_notice(text.len());
        self.log_unreadable(format_args!("skipped what is no message: {refused}"));
        let mut works = PendingWork::none();
        for message in jsonrpc::parse_torn(text) {
            works.append(self.handle_message(lane, &message));
        }
        let why = Failure::Unreadable { why: refused.why.clone() };
        works.append(self.fail_answered(lane, jsonrpc::answered(text, false), &why));
        works
    }

    /// A message was longer than `limit`, and began with `head`.
    pub(super) async fn handle_too_long(self: &Arc<Self>, lane: Lane, head: &[u8], limit: usize) {
        self.count_notice(limit);
        self.log_unreadable(format_args!("skipped a message longer than {limit} bytes"));
        self.fail_answered(lane, jsonrpc::answered(head, true), &too_long(limit)).detach();
        self.pace().await;
    }

    /// Fails the call that was answered. The stream of a POST belongs to one
    /// call, whatever id is said on it.
    fn fail_answered(
        self: &Arc<Self>,
        lane: Lane,
        answered: Answered,
        why: &Failure,
    ) -> PendingWork {
        self.step(|half, now| {
            let lane = match answered {
                Answered::Nothing => return,
                _ if lane != Lane::MAIN => Some(lane),
                Answered::Call(id) => half.lane_of(&id),
                Answered::Unknown => half.only_call(),
            };
            match lane {
                Some(lane) => half.handle_unanswered(lane, why, now),
                None if half.calls() == 0 => {}
                None => self.log_unreadable(format_args!(
                    "it does not say which of {} open calls it answers: they go on waiting",
                    half.calls()
                )),
            }
        })
    }

    /// Logs what cannot be read, but no line for each of a thousand.
    fn log_unreadable(&self, text: fmt::Arguments<'_>) {
        let more = lock(&self.unreadable).handle_line(now());
        if let Some(more) = more {
            tracing::warn!(server = self.name, "{text}{more}");
        }
    }

    /// Logs that a message that wants no answer was not delivered, with the same restraint.
    pub(super) fn log_undelivered(&self, message: &Message, why: &Failure) {
        let more = lock(&self.undelivered).handle_line(now());
        if let Some(more) = more {
            let method = message.method();
            tracing::warn!(server = self.name, method, "not delivered: {why}{more}");
        }
    }
}

/// Why a call failed whose answer was longer than `limit`.
pub(super) fn too_long(limit: usize) -> Failure {
    Failure::TooLarge { what: "answer", limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` notices pass that come `apart` from each other.
    fn passed(flood: &mut Flood, count: u32, apart: Duration, start: Instant) -> usize {
        let at = |number: u32| start + apart * number;
        (0..count).filter(|number| flood.handle_notice(100, at(*number)).is_ok()).count()
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
        let is_let = |_: &u32| large.handle_notice(9 * PIECE, start).is_ok();
        assert_eq!((0..30_000).filter(is_let).count(), 1000);
    }

    #[test]
    fn the_log_is_told_at_once_and_then_each_minute() {
        let start = now();
        let mut flood = Flood::default();
        passed(&mut flood, 10_000, Duration::ZERO, start);
        assert_eq!(flood.handle_notice(1, start), Err(TooMuch { is_to_tell: true }));
        assert_eq!(flood.handle_notice(1, start), Err(TooMuch { is_to_tell: false }));
        let later = start + Duration::from_mins(1);
        passed(&mut flood, 10_000, Duration::ZERO, later);
        assert_eq!(flood.handle_notice(1, later), Err(TooMuch { is_to_tell: true }));
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

#[cfg(test)]
mod ration_tests {
    use super::*;

    #[test]
    fn a_few_lines_are_logged_each_minute_and_the_others_counted() {
        let start = Instant::now();
        let mut ration = Ration::default();
        let logged: Vec<_> = (0..1000).filter_map(|_| ration.handle_line(start)).collect();
        assert_eq!(logged.len(), 5);
        assert!(logged[4].contains("counted"), "{logged:?}");
        assert_eq!(ration.handle_line(start + WINDOW / 2), None);
        let next = ration.handle_line(start + WINDOW);
        assert_eq!(next.as_deref(), Some(" (996 more lines like this were left out)"));
        assert_eq!(ration.handle_line(start + WINDOW).as_deref(), Some(""));
    }
}

#[cfg(test)]
mod unreadable_tests {
    use bytes::Bytes;
    use switchboard_proto::client::Sharing;
    use switchboard_proto::revision::Era;

    use super::*;
    use crate::stdio::child::Command;
    use crate::upstream::{Eras, ServerTarget};

    fn upstream() -> Arc<Upstream> {
        let server = ServerTarget::command(Command::new("none"), Vec::new());
        Upstream::new(server, Eras::both(Era::Legacy), Sharing::Alone, None, Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_writes_garbage_without_end_is_read_slowly() {
        for is_too_long in [false, true] {
            let up = upstream();
            let begun = tokio::time::Instant::now();
            for _ in 0..11_000 {
                if is_too_long {
                    up.handle_too_long(Lane::MAIN, b"garbage", 1 << 10).await;
                } else {
                    up.receive(Lane::MAIN, Bytes::from_static(b"garbage")).await;
                }
            }
            assert!(begun.elapsed() >= Duration::from_millis(100), "{is_too_long}");
        }
    }
}
