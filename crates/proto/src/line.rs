//! Newline framing: one message a line, as on stdin and stdout.
//!
//! The shell reads straight into [`LineDecoder::buffer`] and takes lines out as
//! slices of the same memory. A line that is too long is reported once and
//! skipped to its end, so that one bad message does not end the conversation.
//! Does not look inside the lines: whether one is JSON is for the parser.
//!
//! ```text
//!   bytes ──▶ buffer ──▶ next_line ──▶ a line, without LF or CRLF
//!                │
//!                └ over the limit ──▶ LineTooLong, once; skip to the next LF
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::{memchr, memchr2};

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

/// How many times as long as allowed a line is that is no message any more: nobody
/// who waits for an answer should wait for its end.
const ENDLESS: usize = 4;

/// How much of a line that is too long is kept.
const HEAD: usize = 256;

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Appends `message` as one line.
///
/// JSON allows raw line breaks between tokens, and only there; each becomes a
/// space, which means the same and keeps one message on one line.
pub fn encode(message: &[u8], out: &mut impl BufMut) {
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

#[cfg(test)]
mod tests;
