//! What is sent to a server beyond the headers that its file spells out.

use std::path::PathBuf;

use http::{HeaderMap, HeaderName};

pub use fetch::FetchError;
pub use source::Source;

mod fetch;
mod source;

/// What is sent along beyond the headers that the file spells out.
///
/// Later ones replace earlier ones, and nothing replaces the protocol's own:
/// headers of the client that are passed on, headers of the file, of header
/// files, of the command. The client's `Authorization` is never among them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Credentials {
    /// Headers of the client's request to pass on.
    pub pass: Vec<HeaderName>,
    /// Files with a `Name: value` on each line, read at each connection.
    pub files: Vec<PathBuf>,
    /// A program that prints a JSON object of headers, run at each connection:
    /// itself and its arguments.
    pub command: Option<Vec<String>>,
}

impl Credentials {
    /// Whether all that is ever sent is in the file.
    pub fn is_static(&self) -> bool {
        *self == Self::default()
    }

    /// What a request carries: `client` is what our client sent, `configured` what
    /// the file spells out, `fetched` what the files and the command gave, in order.
    pub fn merge<'h>(
        &self,
        client: &HeaderMap,
        configured: &HeaderMap,
        fetched: impl IntoIterator<Item = &'h HeaderMap>,
    ) -> HeaderMap {
        let mut merged = HeaderMap::new();
        for name in self.pass.iter().filter(|name| may_pass(name)) {
            for value in client.get_all(name) {
                merged.append(name, value.clone());
            }
        }
        replace(&mut merged, configured);
        for headers in fetched {
            replace(&mut merged, headers);
        }
        merged
    }
}

/// Whether a client's header may go on to a server. What shows who the client is
/// to us must not show up elsewhere, and how a message travels is ours to say.
pub fn may_pass(name: &HeaderName) -> bool {
    const NEVER: [&str; 15] = [
        "accept",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "last-event-id",
        "origin",
        "proxy-authorization",
        "te",
        "transfer-encoding",
        "upgrade",
        "x-api-key",
    ];
    !NEVER.contains(&name.as_str()) && !name.as_str().starts_with("mcp-")
}

/// Puts `newer` in the place of what has the same names.
pub(crate) fn replace(headers: &mut HeaderMap, newer: &HeaderMap) {
    for name in newer.keys() {
        headers.remove(name);
        for value in newer.get_all(name) {
            headers.append(name, value.clone());
        }
    }
}
