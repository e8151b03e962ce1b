//! The few messages of the benchmark, in both eras.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

/// How a client of this run speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Era {
    /// A handshake, then a session.
    Legacy,
    /// Each request alone.
    Modern,
}

pub const LEGACY: &str = "2025-11-25";
pub const MODERN: &str = "2026-07-28";

/// The tool that gives back its text, and the one that changes the list of tools.
pub const TOOL: &str = "echo";
pub const CHANGE: &str = "change";

/// As much of a message as a bare server looks at.
#[derive(Deserialize)]
pub struct Envelope<'a> {
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    pub method: Option<&'a str>,
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
}

/// As much of the parameters of a call as the echo looks at.
#[derive(Deserialize)]
pub struct Call<'a> {
    pub name: &'a str,
    #[serde(borrow)]
    pub arguments: Arguments<'a>,
}

/// What the echo gives back, in quotes as it came.
#[derive(Deserialize)]
pub struct Arguments<'a> {
    #[serde(borrow)]
    pub text: Option<&'a RawValue>,
}

/// A call of `tool` with `text`, which has its escapes already.
pub fn call(era: Era, id: u64, tool: &str, text: &str) -> String {
    let mut body = String::with_capacity(text.len() + 512);
    // Writing to memory cannot fail.
    _ = write!(
        body,
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"{text}"}}"#
    );
    if era == Era::Modern {
        _ = write!(body, ",{META}");
    }
    body.push_str("}}");
    body
}

/// A request for one page of the tools, from `cursor` on.
pub fn list(era: Era, id: u64, cursor: Option<&str>) -> String {
    let cursor = cursor.map(|cursor| format!(r#""cursor":"{cursor}""#));
    let meta = (era == Era::Modern).then(|| META.to_owned());
    let params: Vec<_> = cursor.into_iter().chain(meta).collect();
    let params = params.join(",");
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{{params}}}}}"#)
}

/// The text of one call: `bytes` long, no two alike, in lines as files and pages have them.
pub fn text(id: u64, bytes: usize) -> String {
    const LINE: &str =
        r"The quick brown fox jumps over the lazy dog, and the dog does not mind at all.\n";
    let mut text = format!("{id:0>16} ");
    while text.len() + LINE.len() < bytes {
        text.push_str(LINE);
    }
    let rest = bytes.saturating_sub(text.len());
    text.extend(std::iter::repeat_n('.', rest));
    text
}

/// Whether `answer` is the one to call `id` with `text`.
pub fn is_echo(answer: &[u8], id: u64, text: &str) -> bool {
    const MEMBER: &[u8] = br#""text":""#;
    let head = &answer[..answer.len().min(1024)];
    let at = head.windows(MEMBER.len()).position(|part| part == MEMBER);
    let echo = at.and_then(|at| answer[at + MEMBER.len()..].strip_prefix(text.as_bytes()));
    echo.is_some_and(|rest| rest.starts_with(b"\"")) && has_id(answer, id)
}

/// Whether `answer` has this id, at its beginning or at its end.
pub fn has_id(answer: &[u8], id: u64) -> bool {
    let member = format!(r#""id":{id}"#);
    let ends = [&answer[..answer.len().min(512)], &answer[answer.len().saturating_sub(512)..]];
    ends.iter().any(|end| {
        let at = end.windows(member.len()).position(|part| part == member.as_bytes());
        at.is_some_and(|at| !end.get(at + member.len()).is_some_and(u8::is_ascii_digit))
    })
}

/// The handshake of a legacy client.
pub fn initialize() -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{LEGACY}","capabilities":{{}},"clientInfo":{{"name":"bench","version":"1"}}}}}}"#
    )
}

/// What ends the handshake.
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// What a client of 2026-07-28 says of itself in each request.
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}"#;
