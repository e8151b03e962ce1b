//! Messages as transcripts write them, so that a conversation fits the page.
//!
//! ```text
//!   7 tools/call {"name":"x"}       a request; the id keeps its type: "7" is text
//!   notifications/progress {…}      a notification
//!   7 = {…}                         a result
//!   7 ! -32601 no such method       an error; `-` stands for no id
//!   {…} or […]                      anything, as it stands on the wire
//! ```

use bytes::Bytes;

use crate::jsonrpc::{Id, Kind, Member, Message, parse_one};

/// The lines of a script, without indentation, blank lines and `#` remarks.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The text on the wire.
#[track_caller]
pub(crate) fn wire(short: &str) -> Bytes {
    if short.starts_with(['{', '[']) {
        return Bytes::copy_from_slice(short.as_bytes());
    }
    message(short).text().clone()
}

#[track_caller]
pub(crate) fn message(short: &str) -> Message {
    if short.starts_with('{') {
        return parse_one(Bytes::copy_from_slice(short.as_bytes())).unwrap();
    }
    let (first, rest) = short.split_once(' ').unwrap_or((short, ""));
    if !first.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '"')) {
        return Message::notification(first, params(rest));
    }
    let id = if first == "-" { None } else { Id::parse(first.as_bytes()).unwrap() };
    let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    match (word, &id) {
        ("=", Some(id)) => Message::result(id, rest.as_bytes()),
        ("!", id) => {
            let (code, text) = rest.split_once(' ').unwrap_or((rest, ""));
            let error = serde_json::json!({"code": code.parse::<i64>().unwrap(), "message": text});
            Message::error(id.as_ref(), &error)
        }
        (method, Some(id)) => Message::request(id, method, params(rest)),
        _ => panic!("no such message: {short}"),
    }
}

fn params(text: &str) -> Option<&[u8]> {
    Some(text.trim().as_bytes()).filter(|text| !text.is_empty())
}

pub(crate) fn show(message: &Message) -> String {
    let id = message.id().map_or_else(|| "-".to_owned(), ToString::to_string);
    let payload = String::from_utf8_lossy(message.payload().unwrap_or_default());
    let line = match message.kind() {
        Kind::Request => format!("{id} {} {payload}", message.method()),
        Kind::Notification => format!("{} {payload}", message.method()),
        Kind::Result => format!("{id} = {payload}"),
        Kind::Error => {
            let code = message.get(Member::Code).unwrap_or_default();
            format!("{id} ! {} {}", String::from_utf8_lossy(code), message.error_message())
        }
    };
    line.trim_end().to_owned()
}

pub(crate) fn show_text(text: &Bytes) -> String {
    show(&parse_one(text.clone()).expect("what we send is a message"))
}
