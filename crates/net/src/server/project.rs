//! Results as each era wants them.
//!
//! A modern result says its `resultType`, who answered, and, for the methods
//! that have it, how long it may be kept (MOD-6, MOD-7, CACHE-1). A legacy
//! client has never heard of these (GW-70). What a handler said itself stays.

use bytes::Bytes;
use switchboard_proto::json::{Fault, Walker};
use switchboard_proto::method::{self, meta};
use switchboard_proto::patch;

use super::error::Error;

/// How long results may be kept, and by whom.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cache {
    /// Milliseconds; 0 means not at all.
    pub ttl_ms: u64,
    /// Whether anybody may share it, whoever asked.
    pub public: bool,
}

impl Cache {
    /// As it stands on the wire.
    pub(super) fn scope(self) -> &'static str {
        if self.public { "public" } else { "private" }
    }
}

/// Members that only modern clients know.
const MODERN: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// The result for a modern client; `server` is our identity as JSON.
pub(super) fn modern(
    result: &[u8],
    method: &str,
    server: &[u8],
    cache: Cache,
) -> Result<Bytes, Error> {
    let found = Found::in_object(result)?;
    let mut add = Vec::new();
    if !found.modern[0] {
        add.extend_from_slice(br#""resultType":"complete","#);
    }
    if method::is_cacheable(method) && found.is_complete {
        if !found.modern[1] {
            add.extend_from_slice(format!("\"ttlMs\":{},", cache.ttl_ms).as_bytes());
        }
        if !found.modern[2] {
            let scope = cache.scope();
            add.extend_from_slice(format!("\"cacheScope\":\"{scope}\",").as_bytes());
        }
    }
    if !found.meta {
        add.extend_from_slice(format!("\"_meta\":{{\"{}\":", meta::SERVER).as_bytes());
        add.extend_from_slice(server);
        add.extend_from_slice(b"},");
    }
    let rest = result.trim_ascii_start().get(1..).unwrap_or_default();
    if found.is_empty {
        add.pop();
    }
    let whole = [b"{", add.as_slice(), rest].concat();
    let named = patch::get(&whole, &["_meta", meta::SERVER]).is_some();
    let named = (!named).then(|| patch::put(&whole, &["_meta"], meta::SERVER, server)).flatten();
    Ok(named.unwrap_or_else(|| whole.into()))
}

/// A result that nobody is to keep: it came of answers to questions (MRTR-12).
pub(super) fn unkept(result: Bytes) -> Bytes {
    let result = patch::put(&result, &[], "ttlMs", b"0").unwrap_or(result);
    patch::put(&result, &[], "cacheScope", b"\"private\"").unwrap_or(result)
}

/// The result for a legacy client.
pub(super) fn legacy(result: Bytes) -> Result<Bytes, Error> {
    let found = Found::in_object(&result)?;
    if !found.modern.contains(&true) {
        return Ok(result);
    }
    let mut kept: Vec<&[u8]> = Vec::new();
    Walker::new(&result)
        .members(|member| {
            if !MODERN.iter().any(|name| member.is(name)) {
                kept.push(&result[member.start..member.value.end]);
            }
            Ok::<_, Fault>(())
        })
        .map_err(|_| not_an_object())?;
    Ok([b"{", kept.join(&b","[..]).as_slice(), b"}"].concat().into())
}

#[derive(Default)]
struct Found {
    modern: [bool; 3],
    meta: bool,
    is_complete: bool,
    is_empty: bool,
}

impl Found {
    fn in_object(result: &[u8]) -> Result<Self, Error> {
        let mut found = Self { is_complete: true, is_empty: true, ..Self::default() };
        let walked = Walker::new(result).members(|member| {
            found.is_empty = false;
            found.meta |= member.is("_meta");
            for (name, seen) in MODERN.iter().zip(&mut found.modern) {
                *seen |= member.is(name);
            }
            if member.is("resultType") {
                found.is_complete = &result[member.value] == b"\"complete\"";
            }
            Ok::<_, Fault>(())
        });
        walked.map_err(|_| not_an_object())?;
        Ok(found)
    }
}

fn not_an_object() -> Error {
    Error::internal("the server made a result that is no JSON object")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &[u8] = br#"{"name":"n"}"#;

    /// wire: MOD-6, MOD-7, CACHE-1
    #[test]
    fn a_modern_result_gets_what_it_lacks_and_keeps_what_it_has() {
        let dress = |text: &str, method| {
            let cache = Cache { ttl_ms: 5, public: true };
            let bytes = modern(text.as_bytes(), method, SERVER, cache).unwrap();
            serde_json::from_slice::<serde_json::Value>(&bytes).unwrap().to_string()
        };
        let meta = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n"}}"#;
        assert_eq!(
            dress("{ }", method::LIST_TOOLS),
            format!(r#"{{{meta},"cacheScope":"public","resultType":"complete","ttlMs":5}}"#)
        );
        assert_eq!(
            dress(r#"{"a":1}"#, method::CALL_TOOL),
            format!(r#"{{{meta},"a":1,"resultType":"complete"}}"#)
        );
        let own = r#"{"_meta":{"x":1},"cacheScope":"private","ttlMs":9}"#;
        assert_eq!(
            dress(own, method::READ_RESOURCE),
            r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n"},"x":1},"cacheScope":"private","resultType":"complete","ttlMs":9}"#
        );
        let asks = r#"{"resultType":"input_required"}"#;
        assert_eq!(
            dress(asks, method::READ_RESOURCE),
            format!(r#"{{{meta},"resultType":"input_required"}}"#)
        );
        assert!(modern(b"[]", "x", SERVER, Cache::default()).is_err());
    }

    /// wire: GW-70
    #[test]
    fn a_legacy_result_loses_what_its_client_has_never_heard_of() {
        let strip = |text: &'static str| legacy(Bytes::from_static(text.as_bytes())).unwrap();
        assert_eq!(strip(r#"{"a": 1,"resultType":"complete","ttlMs":0 }"#), r#"{"a": 1}"#);
        assert_eq!(strip(r#"{ "a": 1 }"#), r#"{ "a": 1 }"#);
    }
}
