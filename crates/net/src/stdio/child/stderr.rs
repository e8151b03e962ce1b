//! What a child says on stderr: always read, logged line by line, and the
//! last of it kept for error messages.
//!
//! Stderr is for people and is no sign of failure. It is read even when nobody
//! listens, because a child with a full stderr pipe stops answering.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::connection::{lock, now};

/// Reads `errors` to the end.
pub(super) async fn drain(
    mut errors: impl AsyncRead + Unpin,
    name: String,
    tail: std::sync::Arc<Tail>,
) {
    let mut lines = LineCutter::default();
    let mut flow = Flow::default();
    let mut say = |line: String| {
        match flow.handle_line(now()) {
            LineFate::Logged => tracing::info!(target: "child", server = name, "{line}"),
            LineFate::Lost(Some(lost)) => {
                tracing::warn!(server = name, lost, "the server floods its stderr; lines are lost");
            }
            LineFate::Lost(None) => {}
        }
        tail.push(line);
    };
    let mut chunk = vec![0; CHUNK];
    // A pipe that fails to be read has nothing more to say, like one that ended.
    while let Ok(read @ 1..) = errors.read(&mut chunk).await {
        lines.feed(&chunk[..read], &mut say);
    }
    lines.finish(&mut say);
}

/// How much of stderr is logged: much at once, little for ever.
#[derive(Debug, Default)]
struct Flow {
    /// When there is room for as many as ever.
    clear: Option<Instant>,
    /// When that was last told.
    told: Option<Instant>,
    lost: u64,
}

/// What becomes of a line.
#[derive(Debug, Eq, PartialEq)]
enum LineFate {
    Logged,
    /// It is not logged; how many were not, if that is to be told.
    Lost(Option<u64>),
}

impl Flow {
    /// One more line.
    fn handle_line(&mut self, now: Instant) -> LineFate {
        let clear = self.clear.map_or(now, |clear| clear.max(now));
        if clear.saturating_duration_since(now) < BURST {
            self.clear = Some(clear + EACH);
            return LineFate::Logged;
        }
        self.lost += 1;
        let is_due = self.told.is_none_or(|told| now.saturating_duration_since(told) >= AGAIN);
        if is_due {
            self.told = Some(now);
        }
        LineFate::Lost(is_due.then_some(self.lost))
    }
}

/// The last lines, bounded in number and in bytes; the oldest go first.
#[derive(Debug, Default)]
pub(super) struct Tail {
    kept: Mutex<VecDeque<String>>,
}

impl Tail {
    pub(super) fn lines(&self) -> Vec<String> {
        lock(&self.kept).iter().cloned().collect()
    }

    fn push(&self, line: String) {
        let mut kept = lock(&self.kept);
        kept.push_back(line);
        while kept.len() > TAIL_LINES || kept.iter().map(String::len).sum::<usize>() > TAIL_BYTES {
            kept.pop_front();
        }
    }
}

/// Cuts bytes into lines, and long lines short.
#[derive(Debug, Default)]
struct LineCutter {
    line: Vec<u8>,
    is_cut: bool,
}

impl LineCutter {
    fn feed(&mut self, bytes: &[u8], say: &mut impl FnMut(String)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            let room = LINE_BYTES - self.line.len();
            self.is_cut |= text.len() > room;
            self.line.extend(&text[..text.len().min(room)]);
            if ends {
                self.finish(say);
            }
        }
    }

    /// Says the line gathered so far, unless it is blank.
    fn finish(&mut self, say: &mut impl FnMut(String)) {
        let mut line = harmless(&String::from_utf8_lossy(&self.line));
        if self.is_cut {
            line.push('…');
        }
        if !line.is_empty() {
            say(line);
        }
        self.line.clear();
        self.is_cut = false;
    }
}

/// `text` without anything that would move a cursor, recolour a terminal, turn
/// the direction of writing or forge a line.
fn harmless(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.trim_end().chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\t' => out.push(' '),
            // Colours are so common that they are dropped whole: `ESC [ 3 1 m`.
            '\u{1b}' if letters.as_str().starts_with('[') => {
                letters.next();
                letters.find(|letter| ('@'..='~').contains(letter));
            }
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            letter if letter.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            letter => out.push(letter),
        }
    }
    out
}

/// One line in so much time, for ever: a log that grows faster helps nobody.
const EACH: Duration = Duration::from_millis(10);

/// So much of that time at once: a thousand lines.
const BURST: Duration = Duration::from_secs(10);

/// How often lost lines are told of.
const AGAIN: Duration = Duration::from_mins(1);

/// One read; as much as a pipe hands over at once by default, a page or two.
const CHUNK: usize = 8 * 1024;

/// Long enough for a stack frame or a line of structured log, and no more.
const LINE_BYTES: usize = 4 * 1024;

/// A stack trace.
const TAIL_LINES: usize = 20;

/// More than one line at its longest, even if each byte of it became a
/// replacement character of three.
const TAIL_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = LineCutter::default();
        let mut seen = Vec::new();
        for piece in pieces {
            lines.feed(piece, &mut |line| seen.push(line));
        }
        lines.finish(&mut |line| seen.push(line));
        seen
    }

    /// wire: STD-3
    #[test]
    fn lines_are_found_however_the_bytes_are_split() {
        assert_eq!(lines_of(&[b"a\r\n\nb", b"", b"c\nd"]), ["a", "bc", "d"]);
        assert_eq!(lines_of(&[b"bad \xff byte\n"]), ["bad \u{fffd} byte"]);
    }

    #[test]
    fn control_characters_are_made_harmless() {
        assert_eq!(harmless("\u{1b}[1;31mred\u{1b}[0m\tx"), "red x");
        assert_eq!(harmless("a\u{7}\rb\u{1b}]0;t\u{9b}"), "a\u{fffd}\u{fffd}b\u{fffd}]0;t\u{fffd}");
        assert_eq!(harmless("a\u{202e}b\u{2028}c"), "a\u{fffd}b\u{fffd}c");
        assert_eq!(harmless("\u{1b}[31"), "");
    }

    #[test]
    fn a_line_without_end_is_cut_and_the_next_one_is_whole() {
        let long = vec![b'x'; 3 * LINE_BYTES];
        let seen = lines_of(&[&long, &long, b"\nnext\n"]);
        assert_eq!(seen, ["x".repeat(LINE_BYTES) + "…", "next".to_owned()]);
    }

    #[test]
    fn a_thousand_lines_are_logged_at_once_and_then_as_many_as_anybody_reads() {
        let start = now();
        let mut flow = Flow::default();
        let logged = |flow: &mut Flow, count: u32, at| {
            (0..count).filter(|_| flow.handle_line(at) == LineFate::Logged).count()
        };
        assert_eq!(logged(&mut flow, 1000, start), 1000);
        assert_eq!(flow.handle_line(start), LineFate::Lost(Some(1)), "it is told at once");
        assert_eq!(flow.handle_line(start), LineFate::Lost(None));
        assert_eq!(logged(&mut flow, 5000, start + Duration::from_secs(1)), 100);
        let later = start + AGAIN;
        assert_eq!(logged(&mut flow, 1000, later), 1000);
        assert_eq!(flow.handle_line(later), LineFate::Lost(Some(4903)), "and once more");
    }

    #[test]
    fn the_tail_is_bounded_in_lines_and_in_bytes() {
        let tail = Tail::default();
        (0..100).for_each(|n| tail.push(n.to_string()));
        assert_eq!(tail.lines().len(), TAIL_LINES);
        assert_eq!(tail.lines().last().unwrap(), "99");
        (0..9).for_each(|_| tail.push("\u{fffd}".repeat(LINE_BYTES) + "…"));
        assert_eq!(tail.lines().len(), 1);
    }
}
