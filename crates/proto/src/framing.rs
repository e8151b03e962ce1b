//! Framing: where messages begin and end in a stream of bytes. Lines are for pipes, event
//! streams for HTTP.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::{memchr, memchr2};

// Newline framing: one message a line, as on stdin and stdout.
//
// The shell reads straight into `LineDecoder::buffer` and takes lines out as
// slices of the same memory. A line that is too long is reported once and
// skipped to its end, so that one bad message does not end the conversation.
// Does not look inside the lines: whether one is JSON is for the parser.
//
// ```text
//   bytes ──▶ buffer ──▶ next_line ──▶ a line, without LF or CRLF
//                │
//                └ over the limit ──▶ LineTooLong, once; skip to the next LF
// ```

/// Takes lines out of a stream of bytes.
#[derive(Debug)]
pub struct LineDecoder {
    max: usize,
    buffer: BytesMut,
    /// Bytes at the front of the buffer that are known to hold no LF.
    searched: usize,
    skipping: bool,
    skipped: usize,
}

/// A line was longer than allowed; it is skipped and the next one follows.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line is longer than {limit} bytes")]
pub struct LineTooLong {
    /// The most a line may hold, its end not counted.
    pub limit: usize,
    /// How it began, so that whoever waits for it can be told.
    pub head: Bytes,
}

impl LineDecoder {
    /// Lines may hold up to `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { max, buffer: BytesMut::new(), searched: 0, skipping: false, skipped: 0 }
    }

    /// Where to read the next bytes into, with room for a read. Append only,
    /// and take the lines out before the next read: that is what bounds it.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ);
        &mut self.buffer
    }

    /// Appends `bytes`, for those who have them elsewhere already.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole line that is not blank; `None` when more bytes are needed.
    pub fn next_line(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        loop {
            let Some(found) = memchr(b'\n', &self.buffer[self.searched..]) else {
                return self.wait_for_more();
            };
            let line = self.buffer.split_to(self.searched + found);
            self.buffer.advance(1);
            self.searched = 0;
            if std::mem::take(&mut self.skipping) {
                self.skipped = 0;
                continue;
            }
            if let Some(line) = self.accept(line) {
                return Some(line);
            }
        }
    }

    /// The bytes have ended: the last line, if it lacked its LF and is not blank.
    pub fn finish(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        let line = self.buffer.split();
        self.searched = 0;
        if std::mem::take(&mut self.skipping) {
            return None;
        }
        self.accept(line)
    }

    /// Whether a line is so long that it may have no end.
    pub fn is_endless(&self) -> bool {
        self.skipped / ENDLESS > self.max
    }

    /// No LF yet. Nothing of a line that is already too long is kept.
    fn wait_for_more(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        self.searched = self.buffer.len();
        let is_new = !self.skipping && without_cr(&self.buffer).len() > self.max;
        let too_long = is_new.then(|| self.too_long(&self.buffer));
        self.skipping |= is_new;
        if self.skipping {
            self.skipped += self.buffer.len();
            self.buffer.clear();
            self.searched = 0;
        }
        too_long.map(Err)
    }

    fn accept(&self, mut line: BytesMut) -> Option<Result<Bytes, LineTooLong>> {
        line.truncate(without_cr(&line).len());
        if line.len() > self.max {
            return Some(Err(self.too_long(&line)));
        }
        let blank = line.iter().all(u8::is_ascii_whitespace);
        (!blank).then(|| Ok(line.freeze()))
    }

    fn too_long(&self, line: &[u8]) -> LineTooLong {
        let head = &line[..self.max.min(HEAD)];
        LineTooLong { limit: self.max, head: Bytes::copy_from_slice(head) }
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Appends `message` as one line.
///
/// JSON allows raw line breaks between tokens, and only there; each becomes a
/// space, which means the same and keeps one message on one line.
pub fn encode_line(message: &[u8], out: &mut impl BufMut) {
    let mut rest = message;
    while let Some(at) = memchr2(b'\r', b'\n', rest) {
        out.put_slice(&rest[..at]);
        out.put_u8(b' ');
        rest = &rest[at + 1..];
    }
    out.put_slice(rest);
    out.put_u8(b'\n');
}

/// Room for one read: most messages fit, and a thousand idle pipes cost 8 MiB.
/// A longer line doubles the buffer, so its later reads are longer too.
const READ: usize = 8 * 1024;

// Event streams, read and written as WHATWG HTML 9.2 has them.
//
// The decoder takes bytes cut anywhere and gives whole events. The data of an
// event is a slice of what was pushed unless it came on several lines, so a
// large message costs one search and one copy. Neither half knows what the
// data means, and data is not checked to be UTF-8: the JSON parser does that.
//
// We differ from a browser in one point: an event without data is delivered
// if it carries an id or a waiting time, for those matter to resuming.
// `SseEvent::is_message` tells it from a message.
//
// ```text
//   push ──▶ input ──▶ line ──▶ field ──▶ draft ──blank line──▶ SseEvent
//               │                           │
//               └───── over the limit ──────┴──▶ EventTooLong, once;
//                                                skip to the blank line
// ```

/// Takes events out of a stream of bytes.
#[derive(Debug, Default)]
pub struct EventDecoder {
    max: usize,
    input: BytesMut,
    /// Bytes at the front of the input that are known to hold no line end.
    searched: usize,
    at: At,
    /// Bytes of the event that is being skipped.
    skipped: usize,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    draft: EventDraft,
    last_id: Option<Arc<str>>,
}

/// What the first byte of the input belongs to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum At {
    /// The stream, where a byte order mark may stand.
    #[default]
    Start,
    /// A line of an event that is wanted.
    Event,
    /// An event that is too long.
    Skipped { mid_line: bool },
}

/// What a blank line completed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SseEvent {
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
pub struct EventTooLong {
    /// The most an event may hold.
    pub limit: usize,
    /// How its data began, so that the call that waits for it can be failed.
    pub head: Bytes,
}

impl SseEvent {
    /// Whether this carries a message, as opposed to an id, a waiting time or
    /// an event of another name.
    pub fn is_message(&self) -> bool {
        self.name.is_none() && !self.data.is_empty()
    }
}

impl EventDecoder {
    /// The data and the name of an event may hold up to `max` bytes together.
    pub fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// Appends `bytes`. Take the events out before the next push: that is what
    /// bounds the memory.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Whether an event is so long that it may have no end.
    pub fn is_endless(&self) -> bool {
        self.skipped / ENDLESS > self.max
    }

    /// How many bytes are kept between pushes: never more than three times the
    /// limit, for the event, its id and the last id.
    pub fn held_bytes(&self) -> usize {
        let ids = [&self.draft.id, &self.last_id].into_iter().flatten();
        self.input.len() + self.draft.len() + ids.map(|id| id.len()).sum::<usize>()
    }

    /// The next event; `None` when more bytes are needed. What is unfinished
    /// when the bytes end is no event, so there is no call for that.
    pub fn next_event(&mut self) -> Option<Result<SseEvent, EventTooLong>> {
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
            let length = std::mem::take(&mut self.searched) + found;
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
        if std::mem::take(&mut self.after_cr) && *first == b'\n' {
            self.input.advance(1);
        }
        true
    }

    /// The line is not whole yet. Nothing of a skipped event is kept.
    fn wait_for_more(&mut self) -> Option<Result<SseEvent, EventTooLong>> {
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
        let too_long = self.skip(length, true);
        self.skipped = length;
        self.input.clear();
        self.searched = 0;
        Some(Err(too_long))
    }

    /// Consumes a line of `length` bytes and its end.
    fn take_line(&mut self, length: usize) -> Option<Result<SseEvent, EventTooLong>> {
        if let At::Skipped { mid_line } = self.at {
            self.input.advance(length + 1);
            let blank = length == 0 && !mid_line;
            self.skipped = if blank { 0 } else { self.skipped + length };
            self.at = if blank { At::Event } else { At::Skipped { mid_line: false } };
            return None;
        }
        if length == 0 {
            self.input.advance(1);
            return std::mem::take(&mut self.draft).finish(&mut self.last_id).map(Ok);
        }
        if !self.draft.has_room_for(length, self.max) {
            let too_long = self.skip(length, false);
            self.input.advance(length + 1);
            return Some(Err(too_long));
        }
        self.take_field(length);
        if self.draft.len() > self.max {
            return Some(Err(self.skip(0, false)));
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
                self.draft.add_data(self.input.split_to(length - value));
                self.input.advance(1);
                return;
            }
            b"event" => self.draft.name = String::from_utf8_lossy(&line[value..]).into(),
            // What is no text could not be sent back as it came, so it is no id.
            b"id" if !line[value..].contains(&0) => {
                let id = str::from_utf8(&line[value..]).ok().map(Into::into);
                self.draft.id = id.or(self.draft.id.take());
            }
            // Anything but digits is no waiting time, nor is more than fits.
            b"retry" if line[value..].iter().all(u8::is_ascii_digit) => {
                let digits = str::from_utf8(&line[value..]).ok();
                self.draft.retry = digits.and_then(|it| it.parse().ok()).or(self.draft.retry);
            }
            _ => {}
        }
        self.input.advance(length + 1);
    }

    /// Gives up on the event being read, and says how its data begins; `length` bytes of a
    /// line that does not fit are still in the input. The same wherever the bytes were cut.
    /// Its id counts if it came before what was too much, so that resuming does not meet
    /// the same event again.
    fn skip(&mut self, length: usize, mid_line: bool) -> EventTooLong {
        let room = self.max.saturating_sub(self.draft.len());
        let line = &self.input[..length.min(room)];
        let data = match (self.draft.data(), split_field(line)) {
            ([], (b"data", value)) => &line[value..],
            (data, _) => data,
        };
        let head = Bytes::copy_from_slice(&data[..data.len().min(HEAD)]);
        std::mem::take(&mut self.draft).finish(&mut self.last_id);
        self.at = At::Skipped { mid_line };
        EventTooLong { limit: self.max, head }
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

/// How many times as long as allowed a line or event is that is no message any more: no
/// call should wait for its end.
const ENDLESS: usize = 4;

/// How much is kept of a line, or of the data of an event, that is too long.
const HEAD: usize = 256;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// `event` and `retry`.
const LONGEST_FIELD: usize = 5;

#[derive(Debug, Default)]
struct EventDraft {
    /// The data lines so far. One is by far the most common case, and is part of the input.
    data: Option<BytesMut>,
    name: Box<str>,
    /// `Some("")` says that the stream has no id any more.
    id: Option<Arc<str>>,
    retry: Option<u64>,
}

impl EventDraft {
    fn add_data(&mut self, line: BytesMut) {
        match &mut self.data {
            None => self.data = Some(line),
            Some(data) => {
                data.extend_from_slice(b"\n");
                data.extend_from_slice(&line);
            }
        }
    }

    /// The data so far.
    fn data(&self) -> &[u8] {
        self.data.as_deref().unwrap_or_default()
    }

    /// What counts towards the limit.
    fn len(&self) -> usize {
        self.data().len() + self.name.len()
    }

    /// Whether a line of `length` bytes could still be part of an event of
    /// `max` bytes. Looks at nothing but lengths, so that the answer is the
    /// same for a line that is whole and for one that is still arriving.
    fn has_room_for(&self, length: usize, max: usize) -> bool {
        self.len().saturating_add(length) <= max.saturating_add(FIELD)
    }

    /// The blank line has come. `last_id` is that of the stream.
    fn finish(self, last_id: &mut Option<Arc<str>>) -> Option<SseEvent> {
        if self.data.is_none() && self.id.is_none() && self.retry.is_none() {
            return None;
        }
        if let Some(id) = self.id {
            *last_id = (!id.is_empty()).then_some(id);
        }
        let name = Some(self.name).filter(|name| !matches!(&**name, "" | "message"));
        let data = self.data.map(BytesMut::freeze).unwrap_or_default();
        Some(SseEvent { name, data, id: last_id.clone(), retry: self.retry })
    }
}

/// What a line holds besides its value: the longest name, a colon, a space.
const FIELD: usize = "event: ".len();

/// An event to be written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Outgoing<'a> {
    /// What the client may resume after.
    pub id: Option<&'a str>,
    /// `None` is as good as `message`.
    pub name: Option<&'a str>,
    /// How many milliseconds the client is to wait before reconnecting.
    pub retry: Option<u64>,
    /// A message; empty for an event that only brings an id or a waiting time.
    pub data: &'a [u8],
}

/// Appends `event` with its blank line.
///
/// The id comes first, so that a reader to whom the data is too much knows
/// what it has missed. The data line is there even when empty, since there
/// are clients that take an event without one for nothing.
pub fn encode_event(event: &Outgoing<'_>, out: &mut Vec<u8>) {
    out.reserve(event.data.len() + ROOM);
    if let Some(id) = event.id {
        line("id: ", id, out);
    }
    if let Some(name) = event.name {
        line("event: ", name, out);
    }
    if let Some(retry) = event.retry {
        line("retry: ", &retry.to_string(), out);
    }
    let mut rest = event.data;
    while let Some(at) = memchr2(b'\r', b'\n', rest) {
        data(&rest[..at], out);
        let end = if rest[at..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[at + end..];
    }
    data(rest, out);
    out.push(b'\n');
}

/// Appends a comment, which keeps an idle connection open and means nothing.
pub fn encode_comment(text: &str, out: &mut Vec<u8>) {
    line(": ", text, out);
    out.push(b'\n');
}

fn data(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// A line break in `value` would start another field; a space does not.
fn line(field: &str, value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(field.as_bytes());
    out.extend(value.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    out.push(b'\n');
}

/// The fields besides the data, as we usually write them.
const ROOM: usize = 64;

#[cfg(test)]
mod tests;
