//! HTTP: serving clients, and calling servers.
//!
//! To serve, put a [`site::Site`] before a server or a bridge, and run it with
//! [`listen::serve`] or mount it in a router of your own:
//!
//! - [`site`]: the endpoint for clients of both eras, and the two paths of the first revision;
//!   several of them behind one listener; rules, connected clients and the end of each.
//! - [`page`]: pages for people and programs that are no MCP, with forms.
//! - [`body`]: how many bytes of requests are held, and what is sent.
//! - [`listen`]: the accept loop around any `tower` service, and its graceful stop.
//! - [`fetch`]: the client that sends our requests: pool, TLS, proxies, redirects.
//! - [`tls`]: certificates of our own, for clients and for servers.
//!
//! `listen` and `fetch` know nothing of MCP. Beside them are the few questions about
//! headers that both sides ask. From where one may talk to a site, and as whom, is in
//! [`access`](crate::access).

pub mod body;
mod endpoint;
#[cfg(feature = "client")]
pub mod fetch;
#[cfg(feature = "client")]
pub mod hop;
pub mod listen;
pub mod page;
pub mod site;
mod site_options;
#[cfg(feature = "tls")]
pub mod tls;
mod ws;

pub use body::Body;

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
/// Both of them in `Accept`.
pub(crate) const EITHER: &str = "application/json, text/event-stream";

/// The forms of an answer that a client takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Accepted {
    /// One JSON message.
    pub json: bool,
    /// A stream of events.
    pub events: bool,
}

impl Accepted {
    /// What the `Accept` headers admit, by name or by wildcard.
    ///
    /// A missing header admits everything, as RFC 9110 has it; a part with `q=0` is
    /// a refusal and admits nothing.
    pub fn read(headers: &HeaderMap) -> Self {
        // What nearly all clients say. Nothing in a further header would take it back.
        if headers.get(ACCEPT).is_some_and(|value| value == EITHER) {
            return Self { json: true, events: true };
        }
        let is_silent = ranges(headers).next().is_none();
        let mut accepted = Self { json: is_silent, events: is_silent };
        for (range, is_refused) in ranges(headers) {
            accepted.json = accepted.json || !is_refused && admits(range, JSON);
            accepted.events = accepted.events || !is_refused && admits(range, EVENT_STREAM);
        }
        accepted
    }
}

/// Whether the `Accept` headers name `media` itself; wildcards do not count.
///
/// Tells a client that wants an event stream from a browser that takes anything.
pub fn names(headers: &HeaderMap, media: &str) -> bool {
    ranges(headers).any(|(range, is_refused)| !is_refused && range.eq_ignore_ascii_case(media))
}

/// The `Content-Type`, when there is exactly one and it is text.
pub fn content_type(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

/// Whether a `Content-Type` value is JSON, whatever its parameters and case.
pub fn is_json(content_type: &str) -> bool {
    is(content_type, JSON)
}

/// Whether a `Content-Type` value is an event stream.
pub fn is_event_stream(content_type: &str) -> bool {
    is(content_type, EVENT_STREAM)
}

/// Whether `value` is the media type `media`, parameters and case aside.
pub fn is(value: &str, media: &str) -> bool {
    let is_media = |value: &str| value.eq_ignore_ascii_case(media);
    is_media(value) || is_media(value.split(';').next().unwrap_or_default().trim())
}

/// The ranges of media that the `Accept` headers list, and whether each is refused.
fn ranges(headers: &HeaderMap) -> impl Iterator<Item = (&str, bool)> {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let parts = values.flat_map(|value| value.split(',')).map(str::trim);
    parts.filter(|part| !part.is_empty()).map(|part| match part.split_once(';') {
        Some((range, parameters)) => (range.trim_end(), is_refusal(parameters)),
        None => (part, false),
    })
}

fn admits(range: &str, media: &str) -> bool {
    range.eq_ignore_ascii_case(media)
        || range == "*/*"
        || range
            .strip_suffix("/*")
            .zip(media.split_once('/'))
            .is_some_and(|(wanted, (family, _))| wanted.eq_ignore_ascii_case(family))
}

fn is_refusal(parameters: &str) -> bool {
    let mut pairs = parameters.split(';').filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| {
        name.trim().eq_ignore_ascii_case("q") && value.trim().parse::<f32>() == Ok(0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_is_matched_by_name_and_wildcard_but_not_against_a_refusal() {
        // wire: HTTP-2, MH-2
        for (accept, admitted, named) in [
            ("text/event-stream", true, true),
            ("application/json, text/event-stream", true, true),
            ("application/json,TEXT/Event-Stream; q=0.5", true, true),
            ("*/*", true, false),
            ("text/*", true, false),
            ("text/html, */*;q=0.1", true, false),
            ("application/json", false, false),
            ("text/event-stream;q=0", false, false),
            ("text/event-stream; Q=0.000", false, false),
            ("text/event-streams", false, false),
            ("text/event-stream/*", false, false),
            ("", true, false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            assert_eq!(Accepted::read(&headers).events, admitted, "{accept}");
            assert_eq!(names(&headers, "text/event-stream"), named, "{accept}");
        }
        assert_eq!(Accepted::read(&HeaderMap::new()), Accepted { json: true, events: true });
        assert!(!names(&HeaderMap::new(), "text/event-stream"));
    }

    #[test]
    fn each_form_of_an_answer_is_accepted_for_itself() {
        for (accept, json, events) in [
            ("application/json, text/event-stream", true, true),
            ("application/json", true, false),
            ("application/*;q=0.5", true, false),
            ("text/event-stream, application/json; q=0", false, true),
            ("text/html", false, false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            assert_eq!(Accepted::read(&headers), Accepted { json, events }, "{accept}");
        }
    }

    #[test]
    fn several_accept_headers_count_as_one_list() {
        let mut headers = HeaderMap::new();
        headers.append(ACCEPT, "application/json".parse().unwrap());
        headers.append(ACCEPT, "text/event-stream".parse().unwrap());
        assert!(names(&headers, "application/json") && names(&headers, "text/event-stream"));
    }

    #[test]
    fn media_types_are_compared_without_parameters_and_case() {
        // wire: MH-3
        assert!(is_json("application/json"));
        assert!(is_json("Application/JSON ; charset=utf-8"));
        assert!(!is_json("application/jsonl"));
        assert!(!is_json("text/plain; application/json"));
        assert!(is_event_stream("text/event-stream;charset=UTF-8"));
    }

    #[test]
    fn two_content_types_are_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(content_type(&headers), None);
        headers.append(CONTENT_TYPE, "application/json".parse().unwrap());
        assert_eq!(content_type(&headers), Some("application/json"));
        headers.append(CONTENT_TYPE, "text/plain".parse().unwrap());
        assert_eq!(content_type(&headers), None);
    }
}
