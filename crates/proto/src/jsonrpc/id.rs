//! The id of a request: text or integer, and the two never confused.

use std::fmt;

use crate::json::try_unescape;
use crate::limits::MAX_ID;
use crate::refusal::Refusal;

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
