//! What a child says on stderr: always read, logged line by line, and the
//! last of it kept for error messages.
//!
//! Stderr is for people and is no sign of failure. It is read even when nobody
//! listens, because a child with a full stderr pipe stops answering.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_proto::auth::Secret;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::command::StderrListener;
use crate::connection::lock;
use crate::drive::{Throttle, TooMuch, now};

/// Reads `errors` to the end.
pub(super) async fn drain(
    mut errors: impl AsyncRead + Unpin,
    (name, listener): (String, StderrListener),
    secrets: Arc<HiddenWords>,
    tail: Arc<Tail>,
) {
    let mut lines = LineCutter::default();
    let (mut throttle, mut lost) = (Throttle::default(), 0_u64);
    let mut say = |mut line: String| {
        secrets.hide_in(&mut line);
        let passed = throttle.pass(EACH, now());
        lost += u64::from(passed.is_err());
        match passed {
            Ok(()) => tracing::info!(target: "child", server = name, "{line}"),
            Err(TooMuch { is_to_tell: true }) => {
                tracing::warn!(server = name, lost, "the server floods its stderr; lines are lost");
            }
            Err(_) => {}
        }
        listener.hear(&line);
        tail.push(line);
    };
    let mut chunk = vec![0; CHUNK];
    // A pipe that fails to be read has nothing more to say, like one that ended.
    while let Ok(read @ 1..) = errors.read(&mut chunk).await {
        lines.feed(&chunk[..read], &mut say);
    }
    lines.finish(&mut say);
}

/// Words that the log shows by their names, the newest last. The oldest make room.
#[derive(Debug)]
pub(crate) struct HiddenWords(Mutex<VecDeque<(String, Secret)>>);

impl HiddenWords {
    pub(super) fn new(secrets: &[(String, String)]) -> Arc<Self> {
        let secrets = secrets.iter().map(|(name, word)| (name.clone(), Secret::new(word.clone())));
        Arc::new(Self(Mutex::new(secrets.collect())))
    }

    /// Also hides this word, from here on.
    pub(crate) fn add(&self, name: &str, word: &str) {
        let mut words = lock(&self.0);
        if words.iter().any(|(_, known)| known.reveal() == word) {
            return;
        }
        if words.len() >= MOST_WORDS {
            words.pop_front();
        }
        words.push_back((name.to_owned(), Secret::new(word)));
    }

    fn hide_in(&self, line: &mut String) {
        for (name, word) in lock(&self.0).iter() {
            if line.contains(word.reveal()) {
                *line = line.replace(word.reveal(), &format!("${{{name}}}"));
            }
        }
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
        // A stack trace of Node.js would push out the error above it.
        if line.starts_with([' ', '\t']) && line.trim_start().starts_with("at ") {
            return;
        }
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

/// One read; as much as a pipe hands over at once by default, a page or two.
const CHUNK: usize = 8 * 1024;

/// Long enough for a stack frame or a line of structured log, and no more.
const LINE_BYTES: usize = 4 * 1024;

/// A token and those that came after it: a child may print one before the last.
const MOST_WORDS: usize = 16;

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
    fn a_stack_trace_does_not_push_out_the_error_above_it() {
        let tail = Tail::default();
        tail.push("Error: Cannot find module 'x'".to_owned());
        for depth in 0..50 {
            tail.push(format!("    at function{depth} (node:internal/modules)"));
        }
        tail.push("Node.js v20.20.2".to_owned());
        assert_eq!(tail.lines(), ["Error: Cannot find module 'x'", "Node.js v20.20.2"]);
    }

    #[tokio::test]
    async fn a_secret_is_shown_by_its_name() {
        // wire: OU-13
        let tail = Arc::<Tail>::default();
        let secrets = HiddenWords::new(&[("TOKEN".to_owned(), "s3cret".to_owned())]);
        secrets.add("TOKEN", "renewed");
        let said = &b"I have s3cret\nI have renewed\n"[..];
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let hearing = Arc::clone(&heard);
        let listener = StderrListener::new(move |line| lock(&hearing).push(line.to_owned()));
        let from = (String::new(), listener);
        drain(said, from, Arc::clone(&secrets), Arc::clone(&tail)).await;
        assert_eq!(tail.lines(), ["I have ${TOKEN}"; 2]);
        assert_eq!(*lock(&heard), tail.lines());
        (0..99).for_each(|_| secrets.add("TOKEN", "renewed"));
        assert_eq!(lock(&secrets.0).len(), 2, "each word is there once");
        (0..99).for_each(|number| secrets.add("TOKEN", &format!("t{number}")));
        assert_eq!(lock(&secrets.0).len(), MOST_WORDS);
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
    fn the_tail_is_bounded_in_lines_and_in_bytes() {
        let tail = Tail::default();
        (0..100).for_each(|n| tail.push(n.to_string()));
        assert_eq!(tail.lines().len(), TAIL_LINES);
        assert_eq!(tail.lines().last().unwrap(), "99");
        (0..9).for_each(|_| tail.push("\u{fffd}".repeat(LINE_BYTES) + "…"));
        assert_eq!(tail.lines().len(), 1);
    }
}
