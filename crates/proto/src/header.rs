//! The `Mcp-*` headers: their names, and their agreement with the body.
//!
//! Since the modern era a request repeats its revision, its method and the
//! name it is about in headers, so that intermediaries need not read bodies.
//! [`Mirror`] writes them and checks them; [`param`] does the same for the
//! arguments that a tool wants repeated; [`encode_value`] has the encoding. This
//! module says what disagrees. What comes of that is decided in `refusal`.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

pub mod param;

/// One header and its value.
pub type Header = (HeaderName, HeaderValue);

/// Which event a resumed stream continues after.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The method of the body.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt, resource or task that the body is about.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// What the name of a repeated argument starts with.
pub const PARAM_PREFIX: &str = "mcp-param-";
/// The revision in use.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The session of the legacy era.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// Whether this header is ours alone to set, whatever the user configured.
pub fn is_ours(name: &HeaderName) -> bool {
    let general = [ACCEPT, AUTHORIZATION, CONTENT_TYPE, LAST_EVENT_ID];
    general.contains(name) || [METHOD, NAME, PROTOCOL_VERSION, SESSION_ID].contains(name)
}

/// What the headers of a modern request must say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mirror<'a> {
    /// The revision that `_meta` names.
    pub version: &'a str,
    /// The method, letter by letter.
    pub method: &'a str,
    /// For the methods that are about something named: the name, URI or task.
    pub name: Option<&'a str>,
}

impl Mirror<'_> {
    /// The headers.
    pub fn headers(&self) -> impl Iterator<Item = Header> {
        let name = self.name.map(|name| (NAME, encode_value(name)));
        let always = [(PROTOCOL_VERSION, self.version), (METHOD, self.method)];
        always.map(|(header, meant)| (header, encode_value(meant))).into_iter().chain(name)
    }

    /// Sets the headers, in place of any that are there.
    pub fn write(&self, headers: &mut HeaderMap) {
        headers.remove(NAME);
        for (name, value) in self.headers() {
            headers.insert(name, value);
        }
    }

    /// Whether `headers` say what the body of a request says. All are needed.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Mismatch> {
        for (header, meant) in [(PROTOCOL_VERSION, self.version), (METHOD, self.method)] {
            match only(headers, &header)? {
                Some(said) if said.as_bytes().trim_ascii() == meant.as_bytes() => {}
                Some(said) => {
                    let said = String::from_utf8_lossy(said.as_bytes());
                    return Err(Mismatch::differs(header, &said, meant));
                }
                None => return Err(Mismatch::Missing { header }),
            }
        }
        let Some(meant) = self.name else { return Ok(()) };
        match only(headers, &NAME)?.map(|said| decode(&NAME, said)).transpose()? {
            Some(said) if said == meant => Ok(()),
            Some(said) => Err(Mismatch::differs(NAME, &said, meant)),
            None => Err(Mismatch::Missing { header: NAME }),
        }
    }
}

/// Headers and body do not say the same. The request must not be acted on,
/// for somebody on the way may have trusted the headers.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Mismatch {
    /// One value in the header, another in the body; both cut to a legible length.
    #[error("header {header} says {said:?}, the body says {meant:?}")]
    Differs { header: HeaderName, said: Box<str>, meant: Box<str> },
    /// The body has a value that the header must repeat.
    #[error("header {header} is missing")]
    Missing { header: HeaderName },
    /// More than one, so that two readers could see different ones.
    #[error("header {header} is there more than once")]
    Repeated { header: HeaderName },
    /// The value breaks the rules of its encoding.
    #[error("header {header} cannot be read: {why}")]
    Unreadable { header: HeaderName, why: Unreadable },
}

impl Mismatch {
    fn differs(header: HeaderName, said: &str, meant: impl fmt::Display) -> Self {
        Self::Differs { header, said: shorten(said), meant: shorten(&meant.to_string()) }
    }
}

/// The value of `header`, which may be there once at most.
fn only<'a>(all: &'a HeaderMap, header: &HeaderName) -> Result<Option<&'a HeaderValue>, Mismatch> {
    let mut values = all.get_all(header).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(Mismatch::Repeated { header: header.clone() }),
        (first, None) => Ok(first),
    }
}

fn decode<'a>(header: &HeaderName, said: &'a HeaderValue) -> Result<Cow<'a, str>, Mismatch> {
    decode_value(said).map_err(|why| Mismatch::Unreadable { header: header.clone(), why })
}

/// An argument may be a whole file; an error message should not be.
fn shorten(text: &str) -> Box<str> {
    match text.char_indices().nth(LEGIBLE) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Characters of a value that an error shows: most names and URIs fit.
const LEGIBLE: usize = 80;

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
///
/// Printable ASCII travels as it is. Other text becomes `=?base64?<Base64 of the UTF-8>?=`.
/// So does text that looks like this form: otherwise the reader would decode it.
#[expect(clippy::missing_panics_doc, reason = "the invariant holds for any text")]
pub fn encode_value(text: &str) -> HeaderValue {
    // An empty value is allowed, but some intermediaries drop such a header.
    if !text.is_empty()
        && text.trim_ascii().len() == text.len()
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
pub fn decode_value(value: &HeaderValue) -> Result<Cow<'_, str>, Unreadable> {
    let plain = value.as_bytes().trim_ascii();
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

fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~')
}

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

#[cfg(test)]
mod tests;
