//! What a call is about, and where its server is: words that tell no secret.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use switchboard_net::upstream::{Server, Target};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;

/// Bytes of a name that are kept of a call: longer names are nobody's.
const NAME: usize = 256;

/// The tool, prompt or resource that a call is about.
pub(super) fn of(request: &Message) -> Option<Cow<'_, str>> {
    let text = match request.method() {
        method::CALL_TOOL | method::GET_PROMPT => request.name()?,
        method::READ_RESOURCE | method::SUBSCRIBE | method::UNSUBSCRIBE => {
            plain(&request.uri()?).to_owned().into()
        }
        _ => return None,
    };
    let short = short(&text).len();
    Some(if short < text.len() { Cow::Owned(text[..short].to_owned()) } else { text })
}

/// As much of a name as is kept.
pub(super) fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME)]
}

/// A URI without what may be secret in it: who asks, and what for. One with a
/// name and a password is told by its scheme alone.
fn plain(uri: &str) -> &str {
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = uri.split_once(':').unwrap_or(("", uri));
    let place = rest.trim_start_matches('/').split('/').next().unwrap_or_default();
    if place.contains('@') { scheme } else { uri }
}

/// Where a server is, as spans tell it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Peer {
    /// `pipe` or `tcp`.
    pub transport: &'static str,
    /// Its host, if it has one.
    pub host: Option<Box<str>>,
    /// The port there.
    pub port: Option<u16>,
}

impl Peer {
    /// Where this server is.
    pub fn of(server: &Server) -> Self {
        let Target::Url { url, .. } = server.target() else {
            return Self { transport: "pipe", host: None, port: None };
        };
        let usual = if url.scheme_str() == Some("http") { 80 } else { 443 };
        let port = url.port_u16().unwrap_or(usual);
        Self { transport: "tcp", host: url.host().map(Into::into), port: Some(port) }
    }
}

/// Where each server is.
#[derive(Debug, Default)]
pub(super) struct Peers(RwLock<HashMap<Box<str>, Peer>>);

/// Servers whose places are known. Those that are beyond have none.
const PEERS: usize = 1024;

impl Peers {
    pub(super) fn set(&self, server: &str, peer: Peer) {
        let mut peers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if peers.len() < PEERS || peers.contains_key(server) {
            peers.insert(server.into(), peer);
        }
    }

    pub(super) fn get(&self, server: &str) -> Option<Peer> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(server).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_two_characters() {
        assert_eq!(short("tools/call"), "tools/call");
        assert_eq!(short(&format!("a{}", "é".repeat(500))).len(), NAME - 1);
    }

    #[test]
    fn a_uri_is_told_without_what_may_be_secret() {
        for (uri, told) in [
            ("file:///a/b", "file:///a/b"),
            ("https://example.com/a?token=s3cret#x", "https://example.com/a"),
            ("postgres://me:s3cret@db/x", "postgres"),
            ("demo://a@b", "demo"),
            ("mailto:me@example.com", "mailto"),
            ("https://example.com/@me", "https://example.com/@me"),
            ("", ""),
        ] {
            assert_eq!(plain(uri), told, "{uri}");
        }
    }
}
