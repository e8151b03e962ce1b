//! Writing events.

use memchr::memchr2;

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
pub fn encode(event: &Outgoing<'_>, out: &mut Vec<u8>) {
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
pub fn comment(text: &str, out: &mut Vec<u8>) {
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
