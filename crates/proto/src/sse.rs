//! Event streams, read and written as WHATWG HTML 9.2 has them.
//!
//! The decoder takes bytes cut anywhere and gives whole events. The data of an
//! event is a slice of what was pushed unless it came on several lines, so a
//! large message costs one search and one copy. Neither half knows what the
//! data means, and data is not checked to be UTF-8: the JSON parser does that.
//!
//! We differ from a browser in one point: an event without data is delivered
//! if it carries an id or a waiting time, for those matter to resuming.
//! [`Event::is_message`] tells it from a message.
//!
//! ```text
//!   push ──▶ input ──▶ line ──▶ field ──▶ Draft ──blank line──▶ Event
//!               │                           │
//!               └───── over the limit ──────┴──▶ TooLong, once;
//!                                                skip to the blank line
//! ```

use std::mem;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr2;

use self::draft::Draft;
pub use self::encode::{Outgoing, comment, encode};

mod draft;
mod encode;

/// Takes events out of a stream of bytes.
#[derive(Debug)]
pub struct Decoder {
    max: usize,
    input: BytesMut,
    /// Bytes at the front of the input that are known to hold no line end.
    searched: usize,
    at: At,
    /// Bytes of the event that is being skipped.
    skipped: usize,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    draft: Draft,
    last_id: Option<Arc<str>>,
    comments: u64,
}

/// What the first byte of the input belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum At {
    /// The stream, where a byte order mark may stand.
    Start,
    /// A line of an event that is wanted.
    Event,
    /// An event that is too long.
    Skipped { mid_line: bool },
}

/// What a blank line completed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// `None` for `message`, which is also what no name means.
    pub name: Option<Box<str>>,
    /// The data lines, joined by LF. Keeps the memory of its neighbours alive:
    /// copy it to hold on to it for long.
    pub data: Bytes,
    /// The last id of the stream as of this event, its own or an earlier one:
    /// what `Last-Event-ID` is to say.
    pub id: Option<Arc<str>>,
    /// How many milliseconds to wait before reconnecting.
    pub retry: Option<u64>,
}

/// An event was longer than allowed; it is skipped and the next one follows.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("event is longer than {limit} bytes")]
pub struct TooLong {
    /// The most an event may hold.
    pub limit: usize,
    /// How its data began, so that the call that waits for it can be failed.
    pub head: Bytes,
}

impl Event {
    /// Whether this carries a message, as opposed to an id, a waiting time or
    /// an event of another name.
    pub fn is_message(&self) -> bool {
        self.name.is_none() && !self.data.is_empty()
    }
}

impl Decoder {
    /// The data and the name of an event may hold up to `max` bytes together.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            input: BytesMut::new(),
            searched: 0,
            at: At::Start,
            skipped: 0,
            after_cr: false,
            draft: Draft::default(),
            last_id: None,
            comments: 0,
        }
    }

    /// Appends `bytes`. Take the events out before the next push: that is what
    /// bounds the memory.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// How many comments have come: a sign of life that is no event.
    pub fn comments_seen(&self) -> u64 {
        self.comments
    }

    /// Whether an event is so long that it may have no end.
    pub fn is_endless(&self) -> bool {
        self.skipped / ENDLESS > self.max
    }

    /// How many bytes are kept between pushes: never more than three times the
    /// limit, for the event, its id and the last id.
    pub fn held_bytes(&self) -> usize {
        let last_id = self.last_id.as_ref().map_or(0, |id| id.len());
        self.input.len() + self.draft.held_bytes() + last_id
    }

    /// The next event; `None` when more bytes are needed. What is unfinished
    /// when the bytes end is no event, so there is no call for that.
    pub fn next_event(&mut self) -> Option<Result<Event, TooLong>> {
        if self.at == At::Start && !self.pass_byte_order_mark() {
            return None;
        }
        loop {
            if !self.pass_rest_of_crlf() {
                return None;
            }
            let Some(found) = memchr2(b'\r', b'\n', &self.input[self.searched..]) else {
                return self.wait_for_more();
            };
            let length = mem::take(&mut self.searched) + found;
            self.after_cr = self.input[length] == b'\r';
            if let Some(outcome) = self.take_line(length) {
                return Some(outcome);
            }
        }
    }

    /// False while it is open whether the stream starts with one.
    fn pass_byte_order_mark(&mut self) -> bool {
        if self.input.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(&self.input) {
            return false;
        }
        if self.input.starts_with(BYTE_ORDER_MARK) {
            self.input.advance(BYTE_ORDER_MARK.len());
        }
        self.at = At::Event;
        true
    }

    /// False while it is open whether the last CR was followed by LF.
    fn pass_rest_of_crlf(&mut self) -> bool {
        let Some(first) = self.input.first() else { return false };
        if mem::take(&mut self.after_cr) && *first == b'\n' {
            self.input.advance(1);
        }
        true
    }

    /// The line is not whole yet. Nothing of a skipped event is kept.
    fn wait_for_more(&mut self) -> Option<Result<Event, TooLong>> {
        let length = self.input.len();
        if let At::Skipped { mid_line } = self.at {
            self.at = At::Skipped { mid_line: mid_line || length > 0 };
            self.skipped += length;
            self.input.clear();
            return None;
        }
        if self.draft.has_room_for(length, self.max) {
            self.searched = length;
            return None;
        }
        let head = self.head(length);
        self.skipped = length;
        self.input.clear();
        self.searched = 0;
        Some(self.skip(At::Skipped { mid_line: true }, head))
    }

    /// Consumes a line of `length` bytes and its end.
    fn take_line(&mut self, length: usize) -> Option<Result<Event, TooLong>> {
        if let At::Skipped { mid_line } = self.at {
            self.input.advance(length + 1);
            let blank = length == 0 && !mid_line;
            self.skipped = if blank { 0 } else { self.skipped + length };
            self.at = if blank { At::Event } else { At::Skipped { mid_line: false } };
            return None;
        }
        if length == 0 {
            self.input.advance(1);
            return mem::take(&mut self.draft).finish(&mut self.last_id).map(Ok);
        }
        if !self.draft.has_room_for(length, self.max) {
            let head = self.head(length);
            self.input.advance(length + 1);
            return Some(self.skip(At::Skipped { mid_line: false }, head));
        }
        self.take_field(length);
        if self.draft.len() > self.max {
            let head = self.head(0);
            return Some(self.skip(At::Skipped { mid_line: false }, head));
        }
        None
    }

    /// Consumes a line of `length` bytes, which is not blank, and its end.
    fn take_field(&mut self, length: usize) {
        let line = &self.input[..length];
        let (name, value) = split_field(line);
        match name {
            b"data" => {
                // The one field that is kept as it is, without a copy.
                self.input.advance(value);
                self.draft.add_data(self.input.split_to(length - value).freeze());
                self.input.advance(1);
                return;
            }
            b"" => self.comments += 1,
            b"event" => self.draft.set_name(&line[value..]),
            b"id" => self.draft.set_id(&line[value..]),
            b"retry" => self.draft.set_retry(&line[value..]),
            _ => {}
        }
        self.input.advance(length + 1);
    }

    /// How the data of the event being read begins; `length` bytes of a line that
    /// does not fit are still in the input. The same wherever the bytes were cut.
    fn head(&self, length: usize) -> Bytes {
        let data = match self.draft.data() {
            [] => {
                let room = self.max.saturating_sub(self.draft.len());
                let line = &self.input[..length.min(room)];
                match split_field(line) {
                    (b"data", value) => &line[value..],
                    _ => &[],
                }
            }
            data => data,
        };
        Bytes::copy_from_slice(&data[..data.len().min(HEAD)])
    }

    /// Gives up on the event being read. Its id counts if it came before what
    /// was too much, so that resuming does not meet the same event again.
    fn skip(&mut self, at: At, head: Bytes) -> Result<Event, TooLong> {
        mem::take(&mut self.draft).finish(&mut self.last_id);
        self.at = at;
        Err(TooLong { limit: self.max, head })
    }
}

/// The name of the field on `line`, and where its value starts.
fn split_field(line: &[u8]) -> (&[u8], usize) {
    // Known names have at most five letters, so a long line of data without a
    // colon is not searched again.
    let head = &line[..line.len().min(LONGEST_FIELD + 1)];
    match head.iter().position(|&byte| byte == b':') {
        Some(colon) => {
            (&line[..colon], colon + 1 + usize::from(line.get(colon + 1) == Some(&b' ')))
        }
        None => (line, line.len()),
    }
}

/// How many times as long as allowed an event is that is no message any more: no
/// call should wait for its end.
const ENDLESS: usize = 4;

/// How much of the data of an event that is too long is kept.
const HEAD: usize = 256;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// `event` and `retry`.
const LONGEST_FIELD: usize = 5;

#[cfg(test)]
mod tests;
