//! What a message says: values inside of it, such as elements of lists and capabilities,
//! its members by the names that the protocol has for them, and its id.
//!
//! A value is looked for only when a caller asks, and the text around it stays as it was.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::{Kind, Member, Message, as_string, quoted, wrong};
use crate::json::{Walker, try_unescape};
use crate::limits::MAX_ID;
use crate::method;
use crate::patch;
use crate::refusal::Refusal;

/// One JSON value in the text of a message.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a>(&'a [u8]);

/// What becomes of an element of a list.
#[derive(Clone, Debug)]
pub enum ItemAction {
    /// It stays as it was written.
    Keep,
    /// It goes.
    Drop,
    /// This JSON text takes its place.
    Replace(Bytes),
}

impl From<Option<Bytes>> for ItemAction {
    /// What could not be changed stays.
    fn from(other: Option<Bytes>) -> Self {
        other.map_or(Self::Keep, Self::Replace)
    }
}

impl<'a> Part<'a> {
    /// The value that `text` is, which was walked before.
    pub fn new(text: &'a [u8]) -> Self {
        Self(text)
    }

    /// Its text.
    pub fn text(self) -> &'a [u8] {
        self.0
    }

    /// Whether it is an object.
    pub fn is_object(self) -> bool {
        self.0.starts_with(b"{")
    }

    /// Whether it is a list.
    pub fn is_list(self) -> bool {
        self.0.starts_with(b"[")
    }

    /// Whether it is `true`.
    pub fn is_true(self) -> bool {
        self.0 == b"true"
    }

    /// The value that these keys lead to, from the outside in.
    pub fn get(self, path: &[&str]) -> Option<Self> {
        patch::get(self.0, path).map(Self)
    }

    /// The string that the member `key` is, if it is there and is one.
    pub fn string(self, key: &str) -> Option<Cow<'a, str>> {
        patch::string(self.0, &[key])
    }

    /// The string that it is, if it is one.
    pub fn as_string(self) -> Option<Cow<'a, str>> {
        as_string(self.0)
    }

    /// What it says, read into a type; why not, if it says something else.
    pub fn read<T: Deserialize<'a>>(self) -> serde_json::Result<T> {
        serde_json::from_slice(self.0)
    }

    /// What it says, read; none if it says what no value can hold.
    pub fn value(self) -> Option<Value> {
        self.read().ok()
    }

    /// Its elements; none if it is no list.
    pub fn items(self) -> impl Iterator<Item = Self> {
        let mut items = Vec::new();
        let walked = Walker::new(self.0).elements(|at| items.push(Self(&self.0[at])));
        walked.map_or_else(|_| Vec::new(), |()| items).into_iter()
    }

    /// Its members; none if it is no object.
    pub fn members(self) -> impl Iterator<Item = (String, Self)> {
        let mut members = Vec::new();
        let walked = Walker::new(self.0).members(|member| {
            members.push((member.key.name().into_owned(), Self(&self.0[member.value])));
        });
        walked.map_or_else(|_| Vec::new(), |()| members).into_iter()
    }

    /// Its text with `value` as the member `key`; none if it is no object.
    pub fn with(self, key: &str, value: &[u8]) -> Option<Bytes> {
        patch::put(self.0, &[], key, value)
    }

    /// The same with a string.
    pub fn with_string(self, key: &str, value: &str) -> Option<Bytes> {
        self.with(key, quoted(value).as_bytes())
    }

    /// Its text without members of the object that `path` leads to; none if it has none of them.
    pub fn without(self, path: &[&str], keys: &[&str]) -> Option<Bytes> {
        patch::without(self.0, path, keys)
    }
}

impl Message {
    /// A member, to look into.
    pub fn part(&self, member: Member) -> Option<Part<'_>> {
        self.get(member).map(Part)
    }

    /// The value that these keys lead to, from a member on.
    pub fn inside(&self, member: Member, path: &[&str]) -> Option<Part<'_>> {
        self.part(member)?.get(path)
    }

    /// What a member says, read into a type; none if it is missing or says something else.
    pub fn read<'a, T: Deserialize<'a>>(&'a self, member: Member) -> Option<T> {
        self.part(member)?.read().ok()
    }

    /// What a member says, read.
    pub fn value(&self, member: Member) -> Option<Value> {
        self.read(member)
    }

    /// The params, the result or the error, to look into; an empty object if there are none.
    pub fn body(&self) -> Part<'_> {
        Part(self.payload().unwrap_or(b"{}"))
    }

    /// What the params, the result or the error say, read.
    pub fn payload_value(&self) -> Option<Value> {
        Part(self.payload()?).value()
    }

    /// The elements of a list; none if there is no such list.
    pub fn items(&self, member: Member) -> impl Iterator<Item = Part<'_>> {
        self.part(member).into_iter().flat_map(Part::items)
    }

    /// The same message with a list whose elements `judge` has looked at. Those that
    /// it keeps stay as they were written, and so does all that is around the list.
    #[must_use]
    pub fn with_list(&self, member: Member, mut judge: impl FnMut(Part<'_>) -> ItemAction) -> Self {
        let list = self.get(member).unwrap_or_default();
        let other = patch::each(list, &[], |item| judge(Part(item)));
        other.map_or_else(|| self.clone(), |other| self.with(member, other))
    }
}

// What a message says, by the names that the protocol has for it.

impl Message {
    /// The tool or prompt that is meant.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        self.string(Member::Name)
    }

    /// The resource that is meant.
    pub fn uri(&self) -> Option<Cow<'_, str>> {
        self.string(Member::Uri)
    }

    /// The task that is meant.
    pub fn task_id(&self) -> Option<Cow<'_, str>> {
        self.string(Member::TaskId)
    }

    /// What the `Mcp-Name` header repeats of a request (HDR-3).
    pub fn mirrored(&self) -> Option<Cow<'_, str>> {
        self.string(method::named_by(self.method())?)
    }

    /// The id that a member is, if it is there and is one.
    pub fn id_in(&self, member: Member) -> Option<Id> {
        Id::parse(self.get(member)?).ok()?
    }

    /// What progress goes by: of a request, that which it wants; of a notification,
    /// that which it is about.
    pub fn progress_token(&self) -> Option<Id> {
        let asks = self.kind() == Kind::Request;
        self.id_in(if asks { Member::MetaProgressToken } else { Member::ProgressToken })
    }

    /// What a welcome says that its server can do, by the keys that lead there.
    pub fn capability(&self, path: &[&str]) -> Option<Part<'_>> {
        self.inside(Member::Capabilities, path)
    }

    /// The code of an error; none if it is no error.
    pub fn error_code(&self) -> Option<i64> {
        std::str::from_utf8(self.get_in(Kind::Error, Member::Code)?).ok()?.parse().ok()
    }

    /// An error in words; empty if there are none.
    pub fn error_message(&self) -> Cow<'_, str> {
        self.string(Member::ErrorMessage).unwrap_or_default()
    }

    /// Whether it is the result of a tool that failed.
    pub fn is_tool_error(&self) -> bool {
        self.get_in(Kind::Result, Member::IsError) == Some(b"true")
    }

    /// Whether a modern result is whole, a question or a task; none if it does not say.
    pub fn result_type(&self) -> Option<Cow<'_, str>> {
        as_string(self.get_in(Kind::Result, Member::ResultType)?)
    }

    /// The cursor of the page after this one, as JSON, if there is one.
    pub fn next_cursor(&self) -> Option<&[u8]> {
        self.get_in(Kind::Result, Member::NextCursor).filter(|it| it.starts_with(b"\""))
    }

    /// A member of a message of this kind. No other message is looked into: an answer that we
    /// made may be a long list that nobody has walked.
    fn get_in(&self, kind: Kind, member: Member) -> Option<&[u8]> {
        if self.kind() == kind { self.get(member) } else { None }
    }

    /// The same message without these members of its `_meta`, and without a `_meta`
    /// that has no others.
    #[must_use]
    pub fn without_meta(&self, members: &[Member]) -> Self {
        let Some(meta) = self.part(Member::Meta).filter(|it| it.is_object()) else {
            return self.clone();
        };
        if meta.members().all(|(key, _)| members.iter().any(|it| it.key() == key)) {
            return self.without(Member::Meta);
        }
        members.iter().fold(self.clone(), |message, &member| message.without(member))
    }
}

/// What pairs an answer with its request. `1` and `"1"` differ (MSG-3).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Id {
    /// The usual kind.
    Integer(i64),
    /// An integer that no machine word holds, digit for digit.
    Large(Box<str>),
    /// Escapes undone.
    Text(Box<str>),
}

impl Id {
    /// The number that it is, as our own ids are.
    pub fn number(&self) -> Option<u64> {
        if let Self::Integer(number) = self { u64::try_from(*number).ok() } else { None }
    }

    /// Reads an id from its JSON text; `null` is none at all.
    pub fn parse(text: &[u8]) -> Result<Option<Self>, Refusal> {
        if text.len() > MAX_ID {
            return Err(wrong("id is too long"));
        }
        match text.first() {
            Some(b'"') => {
                let body = text[1..].strip_suffix(b"\"").and_then(try_unescape);
                body.map(|body| Some(Self::Text(body.into()))).ok_or_else(|| wrong("id is no text"))
            }
            Some(b'-' | b'0'..=b'9') => integer(text).map(Some),
            Some(b'n') => Ok(None),
            _ => Err(wrong("id must be a string or an integer")),
        }
    }
}

/// Reads `7`, and `7.0` as 7, because some peers print all numbers that way.
fn integer(text: &[u8]) -> Result<Id, Refusal> {
    let digits = std::str::from_utf8(text).unwrap_or_default();
    let whole = match digits.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|byte| byte == b'0') => whole,
        _ => digits,
    };
    if let Ok(number) = whole.parse() {
        return Ok(Id::Integer(number));
    }
    if whole.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return Ok(Id::Large(whole.into()));
    }
    Err(wrong("id must be a string or an integer"))
}

impl fmt::Display for Id {
    /// As JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Large(digits) => f.write_str(digits),
            Self::Text(text) => f.write_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?),
        }
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Self {
        let integer = i64::try_from(number).map(Self::Integer);
        integer.unwrap_or_else(|_| Self::Large(number.to_string().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::Id;

    fn result(text: &str) -> Message {
        Message::result(&Id::Integer(1), text.as_bytes())
    }

    #[track_caller]
    fn check(list: &str, expected: &str) {
        let message = result(&format!(r#"{{"z": 1e5 ,"tools":{list}, "_meta":{{}}}}"#));
        let judged =
            message.with_list(Member::Tools, |tool| match tool.string("name").as_deref() {
                Some("gone") => ItemAction::Drop,
                Some("new") => tool.with("n", b"7").into(),
                _ => ItemAction::Keep,
            });
        let expected = format!(r#"{{"z": 1e5 ,"tools":{expected}, "_meta":{{}}}}"#);
        assert_eq!(String::from_utf8_lossy(judged.payload().unwrap()), expected);
    }

    #[test]
    fn what_is_kept_of_a_list_stays_as_it_was_written() {
        check(r#"[ {"name": "a"}, 7 ,[1] ]"#, r#"[ {"name": "a"}, 7 ,[1] ]"#);
        check(
            r#"[ {"name":"new"} , {"name": "a"} , 7 ]"#,
            r#"[ {"n":7,"name":"new"} , {"name": "a"} , 7 ]"#,
        );
        check(r#"[ {"name":"gone"} , {"name": "a"} , 7 ]"#, r#"[{"name": "a"},7]"#);
        check(r#"[{"name": "a"} , {"name":"gone"},7]"#, r#"[{"name": "a"},7]"#);
        check(r#"[1, {"name":"gone"},{"name":"gone"}]"#, "[1]");
        check(r#"[{"name":"gone"}]"#, "[]");
        check(r#"[{"name":"new"}, {"name":"gone"}, 1]"#, r#"[{"n":7,"name":"new"},1]"#);
    }

    #[test]
    fn what_is_no_list_has_no_elements() {
        for other in ["{}", "7", "\"[1]\"", "[]"] {
            check(other, other);
            let message = result(&format!(r#"{{"tools":{other}}}"#));
            assert_eq!(message.items(Member::Tools).count(), 0, "{other}");
        }
        assert_eq!(
            result("{}").with_list(Member::Tools, |_| ItemAction::Drop).payload().unwrap(),
            b"{}"
        );
    }

    #[test]
    fn parts_are_found_by_the_keys_that_lead_to_them() {
        let message = result(r#"{"capabilities":{"tools":{"listChanged":true},"x":[1, {"a":2}]}}"#);
        let inside = |path: &[&str]| message.inside(Member::Capabilities, path);
        assert!(inside(&["tools", "listChanged"]).unwrap().is_true());
        assert!(inside(&["tools"]).unwrap().is_object());
        assert!(inside(&["tools", "x"]).is_none());
        let items: Vec<_> = inside(&["x"]).unwrap().items().map(Part::text).collect();
        assert_eq!(items, [&b"1"[..], br#"{"a":2}"#]);
        let all = message.part(Member::Capabilities).unwrap().members();
        assert_eq!(all.map(|(key, _)| key).collect::<Vec<_>>(), ["tools", "x"]);
    }
}

#[cfg(test)]
mod names_tests {
    use super::*;
    use crate::tests::message;

    #[test]
    fn the_token_of_a_request_is_not_that_of_a_notification() {
        let both = r#"{"progressToken":"1","_meta":{"progressToken":1}}"#;
        let token = |short: &str| message(&format!("{short} {both}")).progress_token();
        assert_eq!(token("7 tools/call"), Some(Id::Integer(1)));
        assert_eq!(token("notifications/progress"), Some(Id::Text("1".into())));
        for none in ["null", "[1]", "1.5"] {
            let params = format!(r#"7 x {{"_meta":{{"progressToken":{none}}}}}"#);
            assert_eq!(message(&params).progress_token(), None, "{none}");
        }
    }

    #[test]
    fn only_answers_of_their_kind_say_what_answers_say() {
        let code = r#"{"code":-32601,"message":"no","isError":true,"resultType":"task"}"#;
        let error = Message::error(None, &serde_json::from_str::<Value>(code).unwrap());
        assert_eq!((error.error_code(), &*error.error_message()), (Some(-32601), "no"));
        assert!(!error.is_tool_error() && error.result_type().is_none());
        let result = message(&format!("1 = {code}"));
        assert_eq!(result.error_code(), None);
        assert!(result.is_tool_error() && result.result_type().unwrap() == "task");
        for (cursor, is_one) in [("\"\"", true), ("null", false), ("7", false)] {
            let page = message(&format!(r#"1 = {{"nextCursor":{cursor}}}"#));
            assert_eq!(page.next_cursor().is_some(), is_one, "{cursor}");
        }
    }

    #[test]
    fn meta_goes_with_the_last_that_is_in_it() {
        let check = |meta: &str, expected: &str| {
            let request = message(&format!(r#"1 x {{"a": 1, "_meta":{meta}}}"#));
            let bare = request.without_meta(&[Member::TraceParent, Member::MetaProgressToken]);
            assert_eq!(String::from_utf8_lossy(bare.payload().unwrap()), expected, "{meta}");
        };
        check(r#"{"traceparent":1}"#, r#"{"a": 1}"#);
        check("{}", r#"{"a": 1}"#);
        check(r#"{"traceparent":1, "k": 2,"progressToken":3}"#, r#"{"a": 1, "_meta":{"k": 2}}"#);
        check(r#"{ "k": 2 }"#, r#"{"a": 1, "_meta":{ "k": 2 }}"#);
        check("7", r#"{"a": 1, "_meta":7}"#);
        assert_eq!(message("1 x").without_meta(&[Member::TraceParent]).payload(), None);
    }
}
