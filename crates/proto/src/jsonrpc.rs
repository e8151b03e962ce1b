//! The JSON-RPC envelope over text that is otherwise left alone.
//!
//! A [`Message`] is the text it came as, and where in it the id, the method, the
//! payload and the [`Member`]s are that anybody routes by. All are found in the pass
//! that checks the text. Changes are collected, and written once: they replace a few
//! bytes and nothing else, so members and methods we have never heard of survive
//! every hop.
//!
//! Rules: `jsonrpc` is `"2.0"`; no member of the envelope occurs twice, nor in
//! letters of another case, which some servers take for it; an id is a string
//! or an integer and keeps its type; a message is exactly one of request,
//! notification, result, error.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::json::{Fault, Key, Walker, try_unescape, unescape};
use crate::limits::{MAX_BATCH, MAX_ID};
use crate::refusal::Refusal;
use edit::Edits;
use member::Members;

pub(crate) use edit::{quoted, splice};
pub use member::Member;
pub use part::{ItemAction, Part};
pub use torn::{Answered, answered, parse_torn};

mod edit;
mod member;
mod part;
mod torn;

/// One request, notification or response. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Message {
    parsed: Arc<Parsed>,
    /// What is different from the text that was parsed.
    edits: Option<Arc<Edits>>,
}

/// A message as it came, or as it was made.
#[derive(Debug)]
struct Parsed {
    text: Bytes,
    kind: Kind,
    id: Option<Id>,
    /// Where the id is; empty if there is no such member.
    id_at: Range<usize>,
    method: Name,
    payload: Option<Range<usize>>,
    /// Of a message that we made: found when somebody asks.
    members: OnceLock<Members>,
}

/// Which of the four a message is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Wants an answer.
    Request,
    /// Wants none.
    Notification,
    /// Answers with a result.
    Result,
    /// Answers with an error; has no id if the request could not be read.
    Error,
}

/// A method name: where it is, or what it is if it had to be unescaped.
#[derive(Clone, Debug)]
enum Name {
    None,
    At(Range<usize>),
    Unescaped(Box<str>),
}

/// What arrived: one message, or an array of them.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// The ordinary case.
    One(Message),
    /// An array; each element on its own terms. Never empty.
    Batch(Vec<Result<Message, InvalidMessage>>),
}

/// Text that is no message, and the id it was sent under, if that could be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct InvalidMessage {
    /// The id to answer under.
    pub id: Option<Id>,
    /// What is wrong with it.
    pub why: Refusal,
}

/// Reads one message or a batch.
pub fn parse(text: Bytes) -> Result<Incoming, InvalidMessage> {
    check_utf8(&text)?;
    match first_byte(&text) {
        Some(b'[') => parse_batch(&text),
        _ => parse_object(text).map(Incoming::One),
    }
}

fn first_byte(text: &[u8]) -> Option<u8> {
    text.iter().copied().find(|byte| !byte.is_ascii_whitespace())
}

/// Reads one message; an array is refused.
pub fn parse_one(text: Bytes) -> Result<Message, InvalidMessage> {
    check_utf8(&text)?;
    parse_object(text)
}

fn check_utf8(text: &[u8]) -> Result<(), InvalidMessage> {
    match std::str::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(fault) => Err(Refusal::NotUtf8 { at: fault.valid_up_to() }.into()),
    }
}

fn parse_batch(text: &Bytes) -> Result<Incoming, InvalidMessage> {
    let elements = split_batch(text)?;
    if elements.is_empty() {
        return Err(Refusal::BadBatch { why: "it is empty" }.into());
    }
    Ok(Incoming::Batch(elements.into_iter().map(parse_object).collect()))
}

/// The texts of the elements of a batch, in their order; none if it cannot be read.
pub fn elements(batch: &Bytes) -> Vec<Bytes> {
    split_batch(batch).unwrap_or_default()
}

fn split_batch(text: &Bytes) -> Result<Vec<Bytes>, Refusal> {
    let mut elements = Vec::new();
    Walker::new(text).elements(|place| {
        if elements.len() == MAX_BATCH {
            return Err(Refusal::BadBatch { why: "more than 100 messages" });
        }
        elements.push(text.slice(place));
        Ok(())
    })?;
    Ok(elements)
}

fn parse_object(text: Bytes) -> Result<Message, InvalidMessage> {
    if first_byte(&text) != Some(b'{') && Walker::new(&text).whole().is_ok() {
        return Err(wrong("it is no object").into());
    }
    let mut found = Found::default();
    let walked = found.walk(&text);
    let id = found.id.take();
    match walked.and_then(|()| found.classify(&text, id.as_ref())) {
        Ok((kind, method, payload)) => {
            let id_at = found.id_at.unwrap_or_default();
            let members = OnceLock::new();
            if payload.is_some() && payload == found.walked {
                _ = members.set(found.members);
            }
            let parsed = Arc::new(Parsed { text, kind, id, id_at, method, payload, members });
            Ok(Message { parsed, edits: None })
        }
        Err(why) => Err(InvalidMessage { id, why }),
    }
}

/// The members of an envelope that mean something.
const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The members of an envelope as they are found.
#[derive(Debug, Default)]
struct Found {
    version: bool,
    id: Option<Id>,
    id_at: Option<Range<usize>>,
    method: Option<Range<usize>>,
    params: Option<Range<usize>>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
    /// The payload that was looked into last, and what is in it.
    walked: Option<Range<usize>>,
    members: Members,
}

impl Found {
    fn walk(&mut self, text: &[u8]) -> Result<(), Refusal> {
        let mut walker = Walker::new(text);
        let mut more = walker.open_object()?;
        while more {
            let key = walker.next_key()?;
            let start = walker.position();
            let is_payload = ["params", "result", "error"].iter().any(|name| key.is(name));
            if is_payload {
                self.members.read(&mut walker)?;
                self.walked = Some(start..walker.position());
            } else {
                walker.value(1)?;
            }
            self.note(text, key, start..walker.position())?;
            more = walker.next_member()?;
        }
        Ok(walker.end()?)
    }

    fn note(&mut self, text: &[u8], key: Key<'_>, place: Range<usize>) -> Result<(), Refusal> {
        let slot = if key.is("id") {
            self.id = Id::parse(&text[place.clone()])?;
            &mut self.id_at
        } else if key.is("method") {
            &mut self.method
        } else if key.is("params") {
            &mut self.params
        } else if key.is("result") {
            &mut self.result
        } else if key.is("error") {
            &mut self.error
        } else if key.is("jsonrpc") {
            if self.version || text[place] != *b"\"2.0\"" {
                return Err(wrong("jsonrpc must be \"2.0\", once"));
            }
            self.version = true;
            return Ok(());
        } else if ENVELOPE.iter().any(|name| key.resembles(name)) {
            return Err(wrong("a member of the envelope is not in lower case"));
        } else {
            return Ok(());
        };
        match slot.replace(place) {
            None => Ok(()),
            Some(_) => Err(wrong("a member of the envelope occurs twice")),
        }
    }

    fn classify(
        &mut self,
        text: &[u8],
        id: Option<&Id>,
    ) -> Result<(Kind, Name, Option<Range<usize>>), Refusal> {
        if !self.version {
            return Err(wrong("jsonrpc is missing"));
        }
        let has_null_id = id.is_none() && self.id_at.is_some();
        let answers = (self.result.take(), self.error.take());
        match (self.method.take(), answers) {
            (Some(method), (None, None)) => {
                if has_null_id {
                    return Err(wrong("id must be a string or an integer"));
                }
                let params = self.params.take().filter(|place| text[place.clone()] != *b"null");
                if params.as_ref().is_some_and(|place| !matches!(text[place.start], b'{' | b'[')) {
                    return Err(wrong("params must be an object"));
                }
                let kind = if id.is_some() { Kind::Request } else { Kind::Notification };
                Ok((kind, Name::find(text, method)?, params))
            }
            (None, (Some(result), None)) if id.is_some() => {
                Ok((Kind::Result, Name::None, Some(result)))
            }
            (None, (None, Some(error))) if text[error.start] == b'{' => {
                Ok((Kind::Error, Name::None, Some(error)))
            }
            (None, (Some(_), None)) => Err(wrong("a result needs an id")),
            (None, (None, Some(_))) => Err(wrong("error must be an object")),
            (None, (None, None)) => Err(wrong("neither method, result nor error")),
            _ => Err(wrong("more than one of method, result and error")),
        }
    }
}

impl Name {
    /// The same where what lies behind a change has moved.
    fn moved(&self, moved: impl Fn(&Range<usize>) -> Range<usize>) -> Self {
        match self {
            Self::At(place) => Self::At(moved(place)),
            other => other.clone(),
        }
    }

    fn find(text: &[u8], place: Range<usize>) -> Result<Self, Refusal> {
        if text[place.start] != b'"' {
            return Err(wrong("method must be a string"));
        }
        let body = place.start + 1..place.end - 1;
        match try_unescape(&text[body.clone()]) {
            Some(Cow::Borrowed(_)) => Ok(Self::At(body)),
            Some(Cow::Owned(name)) => Ok(Self::Unescaped(name.into())),
            None => Err(wrong("method is no text")),
        }
    }
}

impl Message {
    /// Which of the four it is.
    pub fn kind(&self) -> Kind {
        self.parsed.kind
    }

    /// Whether it answers something.
    pub fn is_response(&self) -> bool {
        matches!(self.kind(), Kind::Result | Kind::Error)
    }

    /// Its id: always there on requests and results.
    pub fn id(&self) -> Option<&Id> {
        let edited = self.edits.as_ref().and_then(|edits| edits.id.as_ref());
        edited.or(self.parsed.id.as_ref())
    }

    /// Its method; empty on responses.
    pub fn method(&self) -> &str {
        match &self.parsed.method {
            Name::None => "",
            Name::At(place) => std::str::from_utf8(&self.parsed.text[place.clone()])
                .expect("text was checked to be UTF-8"),
            Name::Unescaped(name) => name,
        }
    }

    /// The JSON text of a member, if it is there.
    pub fn get(&self, member: Member) -> Option<&[u8]> {
        match &self.edits {
            Some(edits) => edits.get(&self.parsed, member),
            None => self.parsed.get(member),
        }
    }

    /// The same but for what has changed inside of it, for those who do not look there.
    fn outline(&self, member: Member) -> Option<&[u8]> {
        match &self.edits {
            Some(edits) => edits.outline(&self.parsed, member),
            None => self.parsed.get(member),
        }
    }

    /// The string that a member is, if it is there and is one.
    pub fn string(&self, member: Member) -> Option<Cow<'_, str>> {
        as_string(self.get(member)?)
    }

    /// Whether a member is there.
    pub fn has(&self, member: Member) -> bool {
        self.outline(member).is_some()
    }

    /// The member that decides what this is about and is there twice, or in letters
    /// of another case: peers do not agree which of those counts.
    pub fn ambiguous(&self) -> Option<Member> {
        self.parsed.members().ambiguous()
    }

    /// Whether this member is there twice, or in letters of another case.
    pub fn is_ambiguous(&self, member: Member) -> bool {
        self.parsed.members().is_ambiguous(member)
    }

    /// The params, the result or the error, as they were written.
    pub fn payload(&self) -> Option<&[u8]> {
        match &self.edits {
            Some(edits) if edits.is_inside_payload() => edits.payload(&self.parsed),
            _ => self.parsed.payload(),
        }
    }

    /// The same, to keep; it shares the text. Empty if there is none.
    pub fn payload_bytes(&self) -> Bytes {
        let text = match &self.edits {
            Some(edits) if edits.is_inside_payload() => edits.text(&self.parsed),
            _ => &self.parsed.text,
        };
        self.payload().map_or_else(Bytes::new, |payload| text.slice_ref(payload))
    }

    /// The whole text.
    pub fn text(&self) -> &Bytes {
        match &self.edits {
            Some(edits) => edits.text(&self.parsed),
            None => &self.parsed.text,
        }
    }
}

impl Parsed {
    fn payload(&self) -> Option<&[u8]> {
        self.payload.clone().map(|place| &self.text[place])
    }

    fn members(&self) -> &Members {
        self.members.get_or_init(|| self.payload().map(Members::find_in).unwrap_or_default())
    }

    fn get(&self, member: Member) -> Option<&[u8]> {
        let place = self.members().place(member)?;
        self.payload().map(|payload| &payload[place])
    }
}

/// The string that this JSON text is, if it is one.
pub(crate) fn as_string(text: &[u8]) -> Option<Cow<'_, str>> {
    let body = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(unescape(body))
}

fn wrong(why: &'static str) -> Refusal {
    Refusal::NotJsonRpc { why }
}

impl From<Refusal> for InvalidMessage {
    fn from(why: Refusal) -> Self {
        Self { id: None, why }
    }
}

impl From<Fault> for InvalidMessage {
    fn from(fault: Fault) -> Self {
        Refusal::from(fault).into()
    }
}

/// What pairs an answer with its request. `1` and `"1"` differ (MSG-3).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Id {
    /// The usual kind.
    Integer(i64),
    /// An integer that no machine word holds, digit for digit.
    Large(Box<str>),
    /// Escapes undone.
    Text(Box<str>),
}

impl Id {
    /// The number that it is, as our own ids are.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Integer(number) => u64::try_from(*number).ok(),
            Self::Large(_) | Self::Text(_) => None,
        }
    }

    /// Reads an id from its JSON text; `null` is none at all.
    pub fn parse(text: &[u8]) -> Result<Option<Self>, Refusal> {
        if text.len() > MAX_ID {
            return Err(Refusal::NotJsonRpc { why: "id is too long" });
        }
        match text.first() {
            Some(b'"') => {
                let body = text[1..].strip_suffix(b"\"").and_then(try_unescape);
                let why = Refusal::NotJsonRpc { why: "id is no text" };
                body.map(|body| Some(Self::Text(body.into()))).ok_or(why)
            }
            Some(b'-' | b'0'..=b'9') => integer(text).map(Some),
            Some(b'n') => Ok(None),
            _ => Err(Refusal::NotJsonRpc { why: "id must be a string or an integer" }),
        }
    }
}

/// Reads `7`, and `7.0` as 7, because some peers print all numbers that way.
fn integer(text: &[u8]) -> Result<Id, Refusal> {
    let digits = std::str::from_utf8(text).unwrap_or_default();
    let whole = match digits.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|byte| byte == b'0') => whole,
        _ => digits,
    };
    if let Ok(number) = whole.parse() {
        return Ok(Id::Integer(number));
    }
    if whole.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return Ok(Id::Large(whole.into()));
    }
    Err(Refusal::NotJsonRpc { why: "id must be a string or an integer" })
}

impl fmt::Display for Id {
    /// As JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Large(digits) => f.write_str(digits),
            Self::Text(text) => f.write_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?),
        }
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Self {
        match i64::try_from(number) {
            Ok(number) => Self::Integer(number),
            Err(_) => Self::Large(number.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests;
