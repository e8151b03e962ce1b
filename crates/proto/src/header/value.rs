//! How a value that a header cannot hold is put into one.
//!
//! Printable ASCII travels as it is. Anything else becomes
//! `=?base64?<Base64 of the UTF-8>?=`, and so does what looks like that form,
//! or else the reader would decode what was never encoded.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

/// Why a value cannot be read.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unreadable {
    /// A byte that may only travel encoded.
    #[error("not printable ASCII")]
    ForbiddenByte,
    /// Between the markers is something else, or the padding is wrong.
    #[error("not standard Base64")]
    NotBase64,
    /// It decodes, but not to text.
    #[error("not UTF-8")]
    NotUtf8,
}

/// The header value that stands for `text`.
#[expect(clippy::missing_panics_doc, reason = "the invariant holds for any text")]
pub fn encode(text: &str) -> HeaderValue {
    // An empty value is allowed, but some intermediaries drop such a header.
    if !text.is_empty()
        && trim(text.as_bytes()).len() == text.len()
        && text.bytes().all(is_plain)
        && !(text.starts_with(OPEN) && text.ends_with(CLOSE))
        && let Ok(value) = HeaderValue::from_str(text)
    {
        return value;
    }
    let encoded = format!("{OPEN}{}{CLOSE}", STANDARD.encode(text));
    HeaderValue::from_str(&encoded).expect("Base64 and its markers are printable ASCII")
}

/// The text that `value` stands for.
pub fn decode(value: &HeaderValue) -> Result<Cow<'_, str>, Unreadable> {
    let plain = trim(value.as_bytes());
    let Some(plain) = str::from_utf8(plain).ok().filter(|text| text.bytes().all(is_plain)) else {
        return Err(Unreadable::ForbiddenByte);
    };
    match plain.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)) {
        Some(encoded) => {
            let bytes = STANDARD.decode(encoded).map_err(|_| Unreadable::NotBase64)?;
            String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Unreadable::NotUtf8)
        }
        None => Ok(Cow::Borrowed(plain)),
    }
}

/// `value` without the optional whitespace around it.
pub(super) fn trim(value: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !blank(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &value[start..end]
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~')
}

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";
