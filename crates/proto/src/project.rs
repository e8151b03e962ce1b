//! Results in the words of the revision that is to read them.
//!
//! ```text
//!   for a legacy client   resultType, ttlMs, cacheScope go; structure becomes an object, or goes;
//!                         content of a kind that its revision does not know becomes text   (GW-70)
//!   for a modern client   resultType, cache hints and the server's identity come;
//!                         what the era has dropped goes                                    (GW-44, GW-71)
//! ```
//!
//! What was said and is understood stays as it was written, `_meta` included (GW-73).

use bytes::Bytes;

use crate::json::{Fault, Walker};
use crate::jsonrpc::{Member, Message};
use crate::method::{self, meta};
use crate::patch;
use crate::refusal::{code_for_legacy, code_for_modern};
use crate::revision::{Revision, Rules};

mod content;
mod question;
mod schema;

pub use question::{legacy_question, modern_question, permits};
pub use schema::wraps;

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
    pub fn scope(self) -> &'static str {
        if self.public { "public" } else { "private" }
    }

    /// What both allow (GW-83).
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        let ttl_ms = self.ttl_ms.min(other.ttl_ms);
        Self { ttl_ms, public: self.public && other.public }
    }
}

/// A result that is not even a JSON object.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the result is no JSON object")]
pub struct NotAnObject;

/// Members that only modern clients know.
const MODERN: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// A result for a legacy client of `revision`; `method` is what it answers.
///
/// A tool's structure that is no object is wrapped in one, and with `wrapped`
/// any: the client knows the tool by a schema that [was wrapped](wraps) too.
pub fn legacy(
    result: Bytes,
    method: &str,
    revision: Revision,
    wrapped: bool,
) -> Result<Bytes, NotAnObject> {
    Found::in_object(&result)?;
    let rules = revision.rules();
    let result = patch::without(&result, &[], &MODERN).unwrap_or(result);
    let changed = match method {
        method::CALL_TOOL | method::TASK_RESULT => {
            Some(content::tool_result(result.clone(), rules, wrapped))
        }
        method::GET_PROMPT => patch::each(&result, &["messages"], |message| {
            let block = content::block(patch::get(message, &["content"])?, rules)?;
            patch::replace(message, &["content"], &block)
        }),
        method::LIST_TOOLS => patch::each(&result, &["tools"], |tool| older_tool(tool, rules)),
        _ => None,
    };
    Ok(changed.unwrap_or(result))
}

/// A tool as it is listed for an older client.
fn older_tool(tool: &[u8], rules: Rules) -> Option<Bytes> {
    let output = patch::get(tool, &["outputSchema"])?;
    if !rules.structured_content {
        return patch::without(tool, &[], &["outputSchema"]);
    }
    let wrapped = schema::wrap(output)?;
    patch::replace(tool, &["outputSchema"], wrapped.as_bytes())
}

/// A result for a modern client; `server` is who answers, as JSON, if that is known.
pub fn modern(
    result: &[u8],
    method: &str,
    server: Option<&[u8]>,
    cache: Cache,
) -> Result<Bytes, NotAnObject> {
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
    if let (false, Some(server)) = (found.meta, server) {
        add.extend_from_slice(format!("\"_meta\":{{\"{}\":", meta::SERVER).as_bytes());
        add.extend_from_slice(server);
        add.extend_from_slice(b"},");
    }
    let rest = result.trim_ascii_start().get(1..).unwrap_or_default();
    if found.is_empty {
        add.pop();
    }
    let whole = Bytes::from([b"{", add.as_slice(), rest].concat());
    let is_named = patch::get(&whole, &["_meta", meta::SERVER]).is_some();
    let named = server.filter(|_| !is_named);
    let named = named.and_then(|server| patch::put(&whole, &["_meta"], meta::SERVER, server));
    Ok(named.unwrap_or(whole))
}

/// What a legacy server's result has that the modern era has dropped, taken away (GW-44).
pub fn without_dropped(result: Bytes, method: &str) -> Bytes {
    let tool = |tool: &[u8]| patch::without(tool, &[], &["execution"]);
    let changed = match method {
        method::LIST_TOOLS => patch::each(&result, &["tools"], tool),
        _ => None,
    };
    changed.unwrap_or(result)
}

/// An error of a legacy server for a modern client.
pub fn error_for_modern(error: &Message) -> Message {
    with_code(error, code_for_modern)
}

/// An error of a modern server for a legacy client.
pub fn error_for_legacy(error: &Message, method: &str) -> Message {
    // Only what names the resource is certain to be about it (GW-72).
    let names_it = error.part(Member::Data).is_some_and(|data| data.string("uri").is_some());
    let is_missing_resource = method == method::READ_RESOURCE && names_it;
    with_code(error, |code| code_for_legacy(code, is_missing_resource))
}

fn with_code(error: &Message, other: impl Fn(i64) -> i64) -> Message {
    match error.error_code().map(|code| (code, other(code))) {
        Some((code, other)) if other != code => error.with(Member::Code, other.to_string()),
        _ => error.clone(),
    }
}

#[derive(Default)]
struct Found {
    modern: [bool; 3],
    meta: bool,
    is_complete: bool,
    is_empty: bool,
}

impl Found {
    fn in_object(result: &[u8]) -> Result<Self, NotAnObject> {
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
        walked.map_err(|_| NotAnObject)?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
