//! Walks JSON text without building values.
//!
//! Finds where values begin and end, and refuses what RFC 8259 does not allow,
//! in one pass and without recursion. It decodes nothing but the strings it is
//! asked for. Depth is bounded by the width of an integer that serves as the
//! stack: bit set means "inside an object".
//!
//! Text is checked to be UTF-8 once, by [`parse`](crate::jsonrpc::parse); the
//! walker itself looks at bytes.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::limits::MAX_DEPTH;

/// Where and why text stops being JSON that we accept.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the field names say it")]
pub enum Fault {
    /// Not JSON from here on.
    #[error("not JSON, from byte {at}")]
    Syntax { at: usize },
    /// Valid so far, but nested deeper than anybody needs.
    #[error("nested deeper than {MAX_DEPTH} levels, at byte {at}")]
    TooDeep { at: usize },
}

/// A position in JSON text.
#[derive(Clone, Debug)]
pub struct Walker<'a> {
    text: &'a [u8],
    at: usize,
}

/// One member of an object: its key as written, and where its value is.
#[derive(Clone, Debug)]
pub struct ObjectMember<'a> {
    /// Its key; empty for an element of an array.
    pub key: ObjectKey<'a>,
    /// Where the member begins: at the quote of its key.
    pub start: usize,
    /// Where the value is.
    pub value: Range<usize>,
}

/// A key as written between its quotes, escapes not yet undone.
#[derive(Clone, Copy, Debug)]
pub struct ObjectKey<'a> {
    written: &'a [u8],
    has_escapes: bool,
}

impl<'a> Walker<'a> {
    /// Starts at the beginning of `text`.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Checks that one value fills the whole text, and says where it is.
    pub fn whole(mut self) -> Result<Range<usize>, Fault> {
        self.space();
        let start = self.at;
        self.value(0)?;
        let end = self.at;
        self.end()?;
        Ok(start..end)
    }

    /// Walks over an object, handing each member to `visit`, and to the end of the text.
    pub fn members(self, visit: impl FnMut(ObjectMember<'a>)) -> Result<(), Fault> {
        self.each(b'{', b'}', visit)
    }

    /// Walks over an array, handing the place of each element to `visit`.
    pub fn elements(self, mut visit: impl FnMut(Range<usize>)) -> Result<(), Fault> {
        self.each(b'[', b']', |member| visit(member.value))
    }

    fn each(
        mut self,
        open: u8,
        close: u8,
        mut visit: impl FnMut(ObjectMember<'a>),
    ) -> Result<(), Fault> {
        let mut more = self.open(open, close)?;
        let none = ObjectKey { written: &[], has_escapes: false };
        while more {
            self.space();
            let start = self.at;
            let key = if open == b'{' { self.key()? } else { none };
            let from = self.at;
            self.value(1)?;
            visit(ObjectMember { key, start, value: from..self.at });
            more = self.more(close)?;
        }
        self.end()
    }

    /// Steps into the container that begins here; false if it is empty and behind us.
    pub(crate) fn open(&mut self, open: u8, close: u8) -> Result<bool, Fault> {
        self.space();
        if self.peek() == Some(open) { self.enter(close) } else { Err(self.fault()) }
    }

    /// After a member or an element: whether another follows, or the end is behind us.
    pub(crate) fn more(&mut self, close: u8) -> Result<bool, Fault> {
        self.space();
        let is_more = self.peek() == Some(b',');
        self.expect(if is_more { b',' } else { close })?;
        Ok(is_more)
    }

    /// Where it is.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Whether an object begins here.
    pub(crate) fn is_at_object(&self) -> bool {
        self.peek() == Some(b'{')
    }

    /// Only white space may follow.
    pub(crate) fn end(mut self) -> Result<(), Fault> {
        self.space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.fault()) }
    }

    /// Walks over one value that lies `depth` levels deep.
    pub(crate) fn value(&mut self, mut depth: u32) -> Result<(), Fault> {
        let floor = depth;
        let mut objects: u128 = 0;
        loop {
            self.space();
            let nested = match self.peek() {
                Some(b'{' | b'[') if depth >= MAX_DEPTH => {
                    return Err(Fault::TooDeep { at: self.at });
                }
                Some(b'{') => self.enter(b'}')?.then_some(true),
                Some(b'[') => self.enter(b']')?.then_some(false),
                _ => {
                    self.scalar()?;
                    None
                }
            };
            if let Some(object) = nested {
                depth += 1;
                objects = objects << 1 | u128::from(object);
                if object {
                    self.key()?;
                }
                continue;
            }
            if self.climb(&mut depth, floor, &mut objects)? {
                return Ok(());
            }
        }
    }

    /// After a value: closes what closes here. True once back on the floor.
    fn climb(&mut self, depth: &mut u32, floor: u32, objects: &mut u128) -> Result<bool, Fault> {
        while *depth > floor {
            self.space();
            let object = *objects & 1 == 1;
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    if object {
                        self.key()?;
                    }
                    return Ok(false);
                }
                Some(b'}') if object => {}
                Some(b']') if !object => {}
                _ => return Err(self.fault()),
            }
            self.at += 1;
            *depth -= 1;
            *objects >>= 1;
        }
        Ok(true)
    }

    /// Steps into a container; false if it is empty and already behind us.
    fn enter(&mut self, close: u8) -> Result<bool, Fault> {
        self.at += 1;
        self.space();
        let next = self.peek().ok_or(self.fault())?;
        self.at += usize::from(next == close);
        Ok(next != close)
    }

    /// The key of the next member. Its value is next.
    pub(crate) fn key(&mut self) -> Result<ObjectKey<'a>, Fault> {
        self.space();
        let start = self.at + 1;
        let has_escapes = self.string()?;
        let key = ObjectKey { written: &self.text[start..self.at - 1], has_escapes };
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(key)
    }

    fn scalar(&mut self) -> Result<(), Fault> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.fault()),
        }
    }

    /// Walks over a string; whether it has escapes.
    fn string(&mut self) -> Result<bool, Fault> {
        self.expect(b'"')?;
        let mut has_escapes = false;
        loop {
            self.at += plain_run(&self.text[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(has_escapes);
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(self.fault()),
            }
            has_escapes = true;
        }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                let digits = self.text[self.at..].iter().take(4);
                let run = digits.take_while(|byte| byte.is_ascii_hexdigit()).count();
                self.at += run;
                if run < 4 {
                    return Err(self.fault());
                }
            }
            _ => return Err(self.fault()),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let run = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += run;
        if run == 0 { Err(self.fault()) } else { Ok(()) }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Fault> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.fault());
        }
        self.at += word.len();
        Ok(())
    }

    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.peek() != Some(byte) {
            return Err(self.fault());
        }
        self.at += 1;
        Ok(())
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn fault(&self) -> Fault {
        Fault::Syntax { at: self.at }
    }
}

impl<'a> ObjectKey<'a> {
    /// Whether it is `name`, however it is spelled.
    pub fn is(self, name: &str) -> bool {
        self.written == name.as_bytes() || (self.has_escapes && self.name() == name)
    }

    /// Some readers fold more than ASCII: U+017F is an `s` to them, and U+212A a `k`.
    pub(crate) fn resembles(self, name: &str) -> bool {
        if self.written.len() <= name.len() {
            return self.written.eq_ignore_ascii_case(name.as_bytes());
        }
        // Escapes and letters beyond ASCII are longer than what they stand for.
        let is_odd = self.has_escapes || !self.written.is_ascii();
        is_odd && self.name().chars().map(folded).eq(name.chars().map(folded))
    }

    /// With its escapes undone.
    pub(crate) fn plain(self) -> Cow<'a, [u8]> {
        if !self.has_escapes {
            return Cow::Borrowed(self.written);
        }
        Cow::Owned(self.name().into_owned().into_bytes())
    }

    /// The same as text.
    pub fn name(self) -> Cow<'a, str> {
        unescape(self.written)
    }
}

/// A letter as somebody reads it who does not mind case.
fn folded(letter: char) -> char {
    match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        '\u{130}' | '\u{131}' => 'i',
        other => other.to_ascii_lowercase(),
    }
}

/// Undoes the escapes of what stood between two quotes. Text that is not a
/// legal string body comes out empty: the walker has refused it before.
pub fn unescape(body: &[u8]) -> Cow<'_, str> {
    try_unescape(body).unwrap_or_default()
}

/// The same; none where half a surrogate pair stands for no character at all.
pub fn try_unescape(body: &[u8]) -> Option<Cow<'_, str>> {
    if !body.contains(&b'\\') {
        let text = std::str::from_utf8(body).map(Cow::Borrowed);
        return Some(text.unwrap_or_else(|_| String::from_utf8_lossy(body)));
    }
    let quoted = [b"\"", body, b"\""].concat();
    serde_json::from_slice(&quoted).ok().map(Cow::Owned)
}

/// Writes a value as JSON. Long texts take a fifth of the time that `serde_json` takes, which
/// looks at their bytes one by one.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                out.push(if number == 0 { b'[' } else { b',' });
                write(item, out);
            }
            out.extend_from_slice(if items.is_empty() { b"[]" } else { b"]" });
        }
        Value::Object(members) => write_object(members, out),
    }
}

/// Writes an object as JSON.
pub fn write_object(members: &Map<String, Value>, out: &mut Vec<u8>) {
    for (number, (key, member)) in members.iter().enumerate() {
        out.push(if number == 0 { b'{' } else { b',' });
        write_string(key, out);
        out.push(b':');
        write(member, out);
    }
    out.extend_from_slice(if members.is_empty() { b"{}" } else { b"}" });
}

/// Writes a text as a JSON string.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    loop {
        // Not `plain_run`: it looks far ahead for a quote, and lines end often.
        let (plain, special) = rest.split_at(short_run(rest));
        out.extend_from_slice(plain);
        let Some((&byte, behind)) = special.split_first() else { break };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            control => out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
        }
        rest = behind;
    }
    out.push(b'"');
}

/// How many bytes from here on are neither quote, backslash nor control.
fn plain_run(text: &[u8]) -> usize {
    // Most strings are short, and so are most runs between two escapes.
    let run = short_run(&text[..text.len().min(BLOCK)]);
    if run < BLOCK { run } else { long_run(text) }
}

/// The same eight bytes at a time.
fn short_run(text: &[u8]) -> usize {
    let mut chunks = text.chunks_exact(8);
    let mut run = 0;
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
        let found = special_bytes(word);
        if found != 0 {
            return run + found.trailing_zeros() as usize / 8;
        }
        run += 8;
    }
    let rest = chunks.remainder();
    let special = |&byte: &u8| byte < 0x20 || matches!(byte, b'"' | b'\\');
    run + rest.iter().position(special).unwrap_or(rest.len())
}

/// The same for a text whose first block is plain, by vector instructions: the bulk of any large
/// message is text inside strings.
#[inline(never)]
fn long_run(text: &[u8]) -> usize {
    let rest = &text[BLOCK..];
    let run = BLOCK + memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    let least = text[..run].iter().fold(u8::MAX, |least, &byte| least.min(byte));
    if least >= 0x20 { run } else { short_run(text) }
}

/// Bytes that are looked at before a run counts as long.
const BLOCK: usize = 16;

/// Sets the high bit of each byte that is a quote, a backslash or below 0x20.
/// The lowest bit set is exact, which is all the caller looks at.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let zero_in = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let below_space = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    below_space | zero_in(word ^ (ONES * 0x22)) | zero_in(word ^ (ONES * 0x5c))
}

#[cfg(test)]
mod tests;
