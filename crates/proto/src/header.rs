//! The `Mcp-*` headers: their names, and their agreement with the body.
//!
//! Since the modern era a request repeats its revision, its method and the
//! name it is about in headers, so that intermediaries need not read bodies.
//! [`Mirror`] writes them and checks them; [`param`] does the same for the
//! arguments that a tool wants repeated; [`value`] has the encoding. Says what
//! disagrees, not what comes of it: that is for `refusal`.

use std::borrow::Cow;
use std::fmt;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

pub mod param;
pub mod value;

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
    let protected = [
        ACCEPT,
        AUTHORIZATION,
        CONTENT_TYPE,
        LAST_EVENT_ID,
        METHOD,
        NAME,
        PROTOCOL_VERSION,
        SESSION_ID,
    ];
    protected.contains(name)
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
    /// Sets the headers, in place of any that are there.
    pub fn write(&self, headers: &mut HeaderMap) {
        headers.insert(PROTOCOL_VERSION, value::encode(self.version));
        headers.insert(METHOD, value::encode(self.method));
        match self.name {
            Some(name) => headers.insert(NAME, value::encode(name)),
            None => headers.remove(NAME),
        };
    }

    /// Whether `headers` say what the body of a request says. All are needed.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Mismatch> {
        self.compare(headers, true)
    }

    /// The same for a notification: a header may be absent, none may disagree.
    pub fn check_notification(&self, headers: &HeaderMap) -> Result<(), Mismatch> {
        self.compare(headers, false)
    }

    fn compare(&self, headers: &HeaderMap, required: bool) -> Result<(), Mismatch> {
        for (header, meant) in [(PROTOCOL_VERSION, self.version), (METHOD, self.method)] {
            match only(headers, &header)? {
                Some(said) if value::trim(said.as_bytes()) == meant.as_bytes() => {}
                Some(said) => {
                    let said = String::from_utf8_lossy(said.as_bytes());
                    return Err(Mismatch::differs(header, &said, meant));
                }
                None if required => return Err(Mismatch::Missing { header }),
                None => {}
            }
        }
        let Some(meant) = self.name else { return Ok(()) };
        match only(headers, &NAME)? {
            Some(said) => match decode(NAME, said)? {
                said if said == meant => Ok(()),
                said => Err(Mismatch::differs(NAME, &said, meant)),
            },
            None if required => Err(Mismatch::Missing { header: NAME }),
            None => Ok(()),
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
    Unreadable { header: HeaderName, why: value::Unreadable },
}

impl Mismatch {
    /// The header in question.
    pub fn header(&self) -> &HeaderName {
        match self {
            Self::Differs { header, .. }
            | Self::Missing { header }
            | Self::Repeated { header }
            | Self::Unreadable { header, .. } => header,
        }
    }

    fn differs(header: HeaderName, said: &str, meant: impl fmt::Display) -> Self {
        Self::Differs { header, said: shorten(said), meant: shorten(&meant.to_string()) }
    }
}

/// The value of `header`, which may be there once at most.
fn only<'a>(
    headers: &'a HeaderMap,
    header: &HeaderName,
) -> Result<Option<&'a HeaderValue>, Mismatch> {
    let mut values = headers.get_all(header).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(Mismatch::Repeated { header: header.clone() }),
        (first, None) => Ok(first),
    }
}

fn decode(header: HeaderName, said: &HeaderValue) -> Result<Cow<'_, str>, Mismatch> {
    value::decode(said).map_err(|why| Mismatch::Unreadable { header, why })
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

#[cfg(test)]
mod tests;
