//! Which era a client speaks, from what it sends (3.6 step 7, NEG-10).
//!
//! The body decides; the version header only cross-checks, because a proxy may
//! strip it (VAL-1). A message claims the modern era by the version key in its
//! `_meta` (META-7); a broken claim is an error, never served as legacy.

use http::HeaderMap;

use crate::header;
use crate::jsonrpc::{Incoming, Kind, Member, Message};
use crate::method::{self, meta};
use crate::refusal::Refusal;
use crate::revision::{Era, era_of};

/// The era that a message belongs to; `headers` if it came over HTTP.
pub fn classify(incoming: &Incoming, headers: Option<&HeaderMap>) -> Result<Era, Refusal> {
    let message = match incoming {
        Incoming::One(message) => message,
        Incoming::Batch(elements) => {
            let modern = elements.iter().flatten().any(claims_modern);
            let refused = Refusal::NoBatches { era: Era::Modern };
            return if modern { Err(refused) } else { Ok(Era::Legacy) };
        }
    };
    if claims_modern(message) {
        return Ok(Era::Modern);
    }
    let version = headers.and_then(|headers| headers.get(header::PROTOCOL_VERSION));
    let version = version.and_then(|value| value.to_str().ok()).map(str::trim);
    let says_modern = version.is_some_and(|name| era_of(name) == Era::Modern && !name.is_empty());
    match message.kind() {
        _ if !says_modern => Ok(Era::Legacy),
        Kind::Request if message.method() == method::INITIALIZE => Err(Refusal::HeaderMismatch {
            what: "initialize is not part of the protocol version in the header".to_owned(),
        }),
        Kind::Request => Err(missing_envelope()),
        Kind::Notification | Kind::Result | Kind::Error => Ok(Era::Modern),
    }
}

/// Whether a message carries the modern envelope, sound or not.
pub fn claims_modern(message: &Message) -> bool {
    !message.is_response() && message.has(Member::MetaVersion)
}

fn missing_envelope() -> Refusal {
    let what = format!("params._meta must carry {} and {}", meta::VERSION, meta::CAPABILITIES);
    Refusal::BadEnvelope { what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::parse;

    const CLAIM: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;

    /// wire: META-7, NEG-10, VAL-1, VAL-2, MSG-9
    #[test]
    fn the_body_decides_and_the_header_cross_checks() {
        let call = |params: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#)
        };
        check(&call("{}"), None, "Legacy");
        check(&call("{}"), Some("2025-11-25"), "Legacy");
        check(&call("{}"), Some("2026-07-28"), "-32602");
        check(&call(CLAIM), None, "Modern");
        check(&call(CLAIM), Some("2025-11-25"), "Modern");
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        check(hello, None, "Legacy");
        check(hello, Some("2026-07-28"), "-32020");
        let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#;
        check(note, None, "Legacy");
        check(note, Some("2026-07-28"), "Modern");
        check(&format!("[{}]", call("{}")), None, "Legacy");
        check(&format!("[{},{}]", call("{}"), call(CLAIM)), None, "-32600");
    }

    #[track_caller]
    fn check(text: &str, header: Option<&str>, expected: &str) {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert(header::PROTOCOL_VERSION, value.parse().unwrap());
        }
        let incoming = parse(text.to_owned().into()).unwrap();
        let seen = match classify(&incoming, Some(&headers)) {
            Ok(era) => format!("{era:?}"),
            Err(why) => why.rpc_code().to_string(),
        };
        assert_eq!(seen, expected, "{text} with {header:?}");
    }
}
