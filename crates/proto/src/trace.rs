//! W3C Trace Context in messages: which trace a call belongs to (MSG-6).
//!
//! A client says so in the `_meta` of its request, under bare keys. Over HTTP it
//! may also say so in headers of the same names; what the message says counts,
//! for one request may carry several messages.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::header::Header;
use crate::jsonrpc::{Kind, Member, Message};

/// Names the trace and the span that a call is part of.
pub const PARENT: &str = "traceparent";
/// What the systems on the way have to say about the trace.
pub const STATE: &str = "tracestate";
/// What the caller wants everybody on the way to know.
pub const BAGGAGE: &str = "baggage";

const KEYS: [(&str, Member); 3] =
    [(PARENT, Member::TraceParent), (STATE, Member::TraceState), (BAGGAGE, Member::Baggage)];

/// The trace and the span that a call is part of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Parent {
    /// The trace; never zero.
    pub trace: u128,
    /// The span that the caller is in; never zero.
    pub span: u64,
    /// Whether the caller records it, in the lowest bit.
    pub flags: u8,
}

impl Parent {
    /// Reads a `traceparent`. A version that is not ours is read as far as it is the same.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.split_at_checked(55)?;
        let mut parts = head.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace = hex(parts.next()?, 32)?;
        let span = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = u8::try_from(hex(parts.next()?, 2)?).ok()?;
        let is_whole = rest.is_empty() || (version > 0 && rest.starts_with('-'));
        let is_one = version != 0xff && trace != 0 && span != 0 && parts.next().is_none();
        (is_whole && is_one).then_some(Self { trace, span, flags })
    }

    /// What a message says about the trace it is part of.
    pub fn of(message: &Message) -> Option<Self> {
        Self::parse(&message.string(Member::TraceParent)?)
    }

    /// Whether the caller records the trace.
    pub fn is_sampled(self) -> bool {
        self.flags & 1 == 1
    }
}

impl fmt::Display for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// A number of so many hexadecimal digits, in lower case as they must be.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_hex = text.len() == digits && text.bytes().all(is_digit);
    u128::from_str_radix(text, 16).ok().filter(|_| is_hex)
}

/// What a call's `_meta` says about its trace, key by key.
pub fn members(message: &Message) -> Vec<(&'static str, String)> {
    let said = |(key, member)| Some((key, message.string(member)?.into_owned()));
    KEYS.into_iter().filter_map(said).collect()
}

/// The same call with these members in its `_meta`, in place of those it has.
#[must_use]
pub fn with(message: &Message, members: &[(&str, String)]) -> Message {
    if message.part(Member::Meta).is_some_and(|meta| !meta.is_object()) {
        // It says nothing to anybody, and is not ours to mend.
        return message.clone();
    }
    members.iter().fold(message.clone(), |message, (key, text)| {
        let known = KEYS.into_iter().find(|(known, _)| known == key);
        known.map_or_else(|| message.clone(), |(_, member)| message.with_string(member, text))
    })
}

/// The same call with what its headers say of its trace, if it does not say so itself.
pub fn from_headers(message: &Message, headers: &HeaderMap) -> Option<Message> {
    let text = |key| headers.get(key).and_then(|value| value.to_str().ok());
    text(PARENT).and_then(Parent::parse)?;
    if message.kind() != Kind::Request || Parent::of(message).is_some() {
        return None;
    }
    let said = KEYS.into_iter().filter_map(|(key, _)| Some((key, text(key)?.to_owned())));
    Some(with(message, &said.collect::<Vec<_>>()))
}

/// What a call says of its trace, as headers.
pub fn to_headers(message: &Message) -> Vec<Header> {
    let header = |(key, text): (&'static str, String)| {
        Some((HeaderName::from_static(key), HeaderValue::from_str(&text).ok()?))
    };
    let said = Parent::of(message).map(|_| members(message));
    said.into_iter().flatten().filter_map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::parse_one;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_parent_is_read_as_it_is_written_and_nothing_else_is_one() {
        let parent = Parent::parse(TEXT).unwrap();
        assert_eq!(parent.to_string(), TEXT);
        assert!(parent.is_sampled());
        let later = format!("cc{}-more", &TEXT[2..]);
        assert_eq!(Parent::parse(&later), Some(parent));
        for wrong in [
            "",
            "00",
            &format!("{TEXT}-more"),
            &format!("ff{}", &TEXT[2..]),
            &TEXT.to_uppercase(),
            &TEXT.replace("00f067aa0ba902b7", "0000000000000000"),
            &TEXT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &TEXT.replace('-', "+"),
            &TEXT.replace("4bf9", "+bf9"),
            &"é".repeat(40),
        ] {
            assert_eq!(Parent::parse(wrong), None, "{wrong}");
        }
    }

    /// wire: MSG-6
    #[test]
    fn what_headers_say_of_a_trace_is_put_where_the_message_says_nothing() {
        let headers = HeaderMap::from_iter([
            (HeaderName::from_static(PARENT), HeaderValue::from_static(TEXT)),
            (HeaderName::from_static(BAGGAGE), HeaderValue::from_static("a=\"b\"")),
        ]);
        let message = |text: &'static str| parse_one(text.into()).unwrap();
        let bare = message(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        let said = from_headers(&bare, &headers).unwrap();
        assert_eq!(Parent::of(&said), Parent::parse(TEXT));
        assert_eq!(to_headers(&said).len(), 2);
        let expected = format!(r#"{{"_meta":{{"baggage":"a=\"b\"","traceparent":"{TEXT}"}}}}"#);
        assert_eq!(said.payload().unwrap(), expected.as_bytes());
        assert!(from_headers(&said, &headers).is_none(), "it says so itself");
        let note = message(r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#);
        assert!(from_headers(&note, &headers).is_none());
        assert!(from_headers(&bare, &HeaderMap::new()).is_none());
        let other = with(&said, &[(PARENT, TEXT.replace("-01", "-00"))]);
        assert!(!Parent::of(&other).unwrap().is_sampled());
        assert_eq!(members(&other).len(), 2, "the rest stays");
    }
}
