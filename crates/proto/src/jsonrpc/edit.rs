//! Messages that differ from others in a few members, and messages that we make ourselves.
//!
//! Changes are kept beside the text. They are written into one copy of it when the text
//! is wanted: however many times a message is passed on, it is copied once.

use std::ops::Range;
use std::slice::from_ref;
use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

use super::{Id, Kind, Member, Message, ObjectLevel, Parsed};
use crate::refusal::Refusal;
use crate::{method, patch};

/// What is different about a message.
#[derive(Debug, Default)]
pub(super) struct Edits {
    pub(super) id: Option<Id>,
    /// Each member once; none for those that are taken away. Their containers stay.
    changes: Vec<(Member, Option<Bytes>)>,
    written: OnceLock<WrittenText>,
}

/// The text with the changes in it.
#[derive(Debug)]
struct WrittenText {
    text: Bytes,
    payload: Option<Range<usize>>,
}

impl Message {
    /// The same message under another id. Nothing but the id changes. Of its own id, `7.0`
    /// becomes `7`: peers that sent the one may not read the other.
    #[must_use]
    pub fn with_id(&self, id: &Id) -> Self {
        let is_edited = self.edits.as_ref().is_some_and(|edits| edits.id.is_some());
        if self.id() == Some(id) && (is_edited || !self.parsed.has_decimal_id()) {
            return self.clone();
        }
        if self.parsed.id_at.is_empty() {
            // An error that came without any id member: there is no place to put one.
            let error = self.payload().unwrap_or(b"{}");
            return Self::build(self.kind(), Some(id), "", Some(&[error]));
        }
        self.edited(Some(id.clone()), self.changes().to_vec())
    }

    /// The same message with other params, result or error, which is JSON text.
    #[must_use]
    pub fn with_payload(&self, payload: &[u8]) -> Self {
        let Some(place) = self.parsed.payload.clone() else {
            return Self::build(self.kind(), self.id(), self.method(), Some(&[payload]));
        };
        let Parsed { text, kind, id, id_at, method, .. } = &*self.parsed;
        let text = splice(text, place.clone(), payload);
        let moved = |range: &Range<usize>| {
            let shift =
                |at: usize| if at >= place.end { at + payload.len() - place.len() } else { at };
            shift(range.start)..shift(range.end)
        };
        let parsed = Arc::new(Parsed {
            text,
            kind: *kind,
            id: id.clone(),
            id_at: moved(id_at),
            method: method.clone(),
            payload: Some(place.start..place.start + payload.len()),
            members: OnceLock::new(),
        });
        let id = self.edits.as_ref().and_then(|edits| edits.id.clone());
        let edits = id.map(|id| Arc::new(Edits { id: Some(id), ..Edits::default() }));
        Self { parsed, edits }
    }

    /// The same message with `value`, which is JSON text, as a member: in the place of
    /// the one it has, or as another. A `_meta` that is missing or no object is made.
    /// Params that are no object stay as they are.
    #[must_use]
    pub fn with(&self, member: Member, value: impl Into<Bytes>) -> Self {
        let (level, key) = member.place();
        let value = value.into();
        let object_of_one = || [b"{", quoted(key).as_bytes(), b":", &value, b"}"].concat();
        let is_object = |text: &[u8]| text.starts_with(b"{");
        match level.member() {
            Some(object) if !self.outline(object).is_some_and(is_object) => {
                self.with(object, object_of_one())
            }
            None if !self.payload().is_none_or(is_object) => self.clone(),
            _ if self.parsed.payload.is_none() => self.with_payload(&object_of_one()),
            _ => self.change(member, Some(value)),
        }
    }

    /// The same with a string.
    #[must_use]
    pub fn with_string(&self, member: Member, value: &str) -> Self {
        self.with(member, quoted(value))
    }

    /// The same message without a member.
    #[must_use]
    pub fn without(&self, member: Member) -> Self {
        if self.has(member) { self.change(member, None) } else { self.clone() }
    }

    fn change(&self, member: Member, value: Option<Bytes>) -> Self {
        let mut changes = self.changes().to_vec();
        let outer = changes.iter_mut().find(|(outer, _)| member.is_inside(*outer));
        if let Some((outer, Some(text))) = outer {
            // Its members are not known by their places: it was put there.
            let path = member.path().split_off(outer.path().len());
            if let Some((key, path)) = path.split_last() {
                let other = match value {
                    Some(value) => patch::put(text, path, key, &value),
                    None => patch::without(text, path, &[key]),
                };
                *text = other.unwrap_or_else(|| text.clone());
            }
        } else {
            changes.retain(|(other, _)| *other != member && !other.is_inside(member));
            changes.push((member, value));
        }
        self.edited(self.edits.as_ref().and_then(|edits| edits.id.clone()), changes)
    }

    fn edited(&self, id: Option<Id>, changes: Vec<(Member, Option<Bytes>)>) -> Self {
        let edits = Edits { id, changes, written: OnceLock::new() };
        Self { parsed: Arc::clone(&self.parsed), edits: Some(Arc::new(edits)) }
    }

    /// Bytes that it takes on the wire, without having them written.
    pub fn size(&self) -> usize {
        let changed = self.changes().iter().filter_map(|(_, value)| value.as_ref());
        self.parsed.text.len() + changed.map(Bytes::len).sum::<usize>()
    }

    fn changes(&self) -> &[(Member, Option<Bytes>)] {
        self.edits.as_ref().map_or(&[], |edits| &edits.changes)
    }

    /// The JSON text of a member, if it is there.
    pub fn get(&self, member: Member) -> Option<&[u8]> {
        if self.changes().iter().any(|(inner, _)| inner.is_inside(member)) {
            return patch::get(self.payload()?, &member.path());
        }
        self.outline(member)
    }

    /// The same without the changes inside of it, which need not be written for this.
    pub(super) fn outline(&self, member: Member) -> Option<&[u8]> {
        if let Some((_, value)) = self.changes().iter().find(|(it, _)| *it == member) {
            return value.as_deref();
        }
        match self.changes().iter().find(|(outer, _)| member.is_inside(*outer)) {
            // A member inside of another that was put there.
            Some((outer, value)) => {
                patch::get(value.as_deref()?, &member.path()[outer.path().len()..])
            }
            None => self.parsed.get(member),
        }
    }

    /// The text that the payload is in, and where it is there.
    fn around_payload(&self) -> (&Bytes, Option<Range<usize>>) {
        match self.edits.as_ref().filter(|edits| !edits.changes.is_empty()) {
            Some(edits) => (self.text(), edits.written(&self.parsed).payload.clone()),
            None => (&self.parsed.text, self.parsed.payload.clone()),
        }
    }

    /// The params, the result or the error, as they were written.
    pub fn payload(&self) -> Option<&[u8]> {
        let (text, place) = self.around_payload();
        place.map(|place| &text[place])
    }

    /// The same, to keep; it shares the text. Empty if there is none.
    pub fn payload_bytes(&self) -> Bytes {
        let (text, place) = self.around_payload();
        place.map_or_else(Bytes::new, |place| text.slice(place))
    }

    /// The whole text.
    pub fn text(&self) -> &Bytes {
        self.edits.as_ref().map_or(&self.parsed.text, |edits| &edits.written(&self.parsed).text)
    }
}

impl Edits {
    fn written(&self, parsed: &Parsed) -> &WrittenText {
        self.written.get_or_init(|| self.write(parsed))
    }

    fn write(&self, parsed: &Parsed) -> WrittenText {
        let mut pieces = self.pieces(parsed);
        pieces.sort_by_key(|piece| piece.at.start);
        let grown: usize = pieces.iter().map(|piece| piece.text.len()).sum();
        let mut text = BytesMut::with_capacity(parsed.text.len() + grown);
        let mut payload = parsed.payload.clone();
        let mut copied = 0;
        for Piece { at, text: new } in pieces {
            text.extend_from_slice(&parsed.text[copied..at.start]);
            text.extend_from_slice(&new);
            copied = at.end;
            if let (Some(moved), Some(payload)) = (&mut payload, &parsed.payload) {
                let shift = |to: &mut usize| *to = *to + new.len() - at.len();
                if at.end <= payload.start {
                    shift(&mut moved.start);
                }
                if at.end <= payload.end {
                    shift(&mut moved.end);
                }
            }
        }
        text.extend_from_slice(&parsed.text[copied..]);
        let written = WrittenText { text: text.freeze(), payload };
        self.without_removed(written)
    }

    /// The bytes that change, as places in the text.
    fn pieces(&self, parsed: &Parsed) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(self.changes.len() + 1);
        if let Some(id) = &self.id {
            let text = id.to_string().into();
            pieces.push(Piece { at: parsed.id_at.clone(), text });
        }
        let from = parsed.payload.as_ref().map_or(0, |payload| payload.start);
        let mut added: Vec<(ObjectLevel, BytesMut)> = Vec::new();
        for (member, value) in &self.changes {
            let Some(value) = value else { continue };
            if let Some(place) = parsed.members().place(*member) {
                let at = from + place.start..from + place.end;
                pieces.push(Piece { at, text: value.clone() });
                continue;
            }
            let (level, key) = member.place();
            let mut text = BytesMut::from(quoted(key).as_bytes());
            text.extend_from_slice(b":");
            text.extend_from_slice(value);
            match added.iter_mut().find(|(into, _)| *into == level) {
                Some((_, more)) => {
                    // The later one comes first.
                    text.extend_from_slice(b",");
                    text.extend_from_slice(more);
                    *more = text;
                }
                None => added.push((level, text)),
            }
        }
        for (level, mut text) in added {
            let container = level.member().map(|object| parsed.members().place(object));
            let start = match container {
                None => 0,
                Some(Some(place)) => place.start,
                Some(None) => continue,
            };
            let at = from + start + 1;
            if parsed.text[at..].trim_ascii_start().first() != Some(&b'}') {
                text.extend_from_slice(b",");
            }
            pieces.push(Piece { at: at..at, text: text.freeze() });
        }
        pieces
    }

    fn without_removed(&self, written: WrittenText) -> WrittenText {
        let removed = self.changes.iter().filter(|(_, value)| value.is_none());
        let removed: Vec<_> = removed.map(|(member, _)| member.place()).collect();
        let Some(place) = written.payload.clone().filter(|_| !removed.is_empty()) else {
            return written;
        };
        let mut payload = written.text.slice(place.clone());
        for &level in ObjectLevel::ALL {
            let keys = removed.iter().filter(|(of, _)| *of == level).map(|(_, key)| *key);
            let keys: Vec<_> = keys.collect();
            let path = level.member().map_or_else(Vec::new, Member::path);
            if !keys.is_empty()
                && let Some(rest) = patch::without(&payload, &path, &keys)
            {
                payload = rest;
            }
        }
        let text = splice(&written.text, place.clone(), &payload);
        WrittenText { text, payload: Some(place.start..place.start + payload.len()) }
    }
}

/// Bytes to put in the place of others.
struct Piece {
    at: Range<usize>,
    text: Bytes,
}

/// `text` as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

// Messages that we make ourselves.

impl Message {
    /// A request; `params` is JSON text.
    pub fn request(id: &Id, method: &str, params: Option<&[u8]>) -> Self {
        Self::build(Kind::Request, Some(id), method, params.as_ref().map(from_ref))
    }

    /// A notification; `params` is JSON text.
    pub fn notification(method: &str, params: Option<&[u8]>) -> Self {
        Self::build(Kind::Notification, None, method, params.as_ref().map(from_ref))
    }

    /// An answer; `result` is JSON text.
    pub fn result(id: &Id, result: &[u8]) -> Self {
        Self::result_of(id, &[result])
    }

    /// An answer whose result is JSON text in pieces.
    pub fn result_of(id: &Id, pieces: &[&[u8]]) -> Self {
        Self::build(Kind::Result, Some(id), "", Some(pieces))
    }

    /// A refusal as an answer; without an id if the request could not be read.
    pub fn refusal(id: Option<&Id>, why: &Refusal) -> Self {
        let mut error = serde_json::json!({"code": why.rpc_code(), "message": why.to_string()});
        if let Some(data) = why.data() {
            error["data"] = data;
        }
        Self::error(id, &error)
    }

    /// An error as an answer.
    pub fn error(id: Option<&Id>, error: &Value) -> Self {
        Self::build(Kind::Error, id, "", Some(&[error.to_string().as_bytes()]))
    }

    fn build(kind: Kind, id: Option<&Id>, method: &str, payload: Option<&[&[u8]]>) -> Self {
        let length = payload.unwrap_or_default().iter().map(|piece| piece.len()).sum::<usize>();
        let mut text = BytesMut::with_capacity(64 + length);
        text.put_slice(b"{\"jsonrpc\":\"2.0\"");
        let mut id_at = 0..0;
        if kind != Kind::Notification {
            text.put_slice(b",\"id\":");
            let printed = id.map_or_else(|| "null".to_owned(), ToString::to_string);
            id_at = text.len()..text.len() + printed.len();
            text.put_slice(printed.as_bytes());
        }
        if !method.is_empty() {
            text.put_slice(b",\"method\":");
            text.put_slice(quoted(method).as_bytes());
        }
        let payload = payload.map(|pieces| {
            text.put_slice(match kind {
                Kind::Request | Kind::Notification => b",\"params\":",
                Kind::Result => b",\"result\":",
                Kind::Error => b",\"error\":",
            });
            for piece in pieces {
                text.put_slice(piece);
            }
            text.len() - length..text.len()
        });
        text.put_u8(b'}');
        let (text, id, members) = (text.freeze(), id.cloned(), OnceLock::new());
        let method = method::shared(method);
        let parsed = Parsed { text, kind, id, id_at, method, payload, members };
        Self { parsed: Arc::new(parsed), edits: None }
    }
}

/// `text` with the bytes at `place` replaced.
pub(crate) fn splice(text: &[u8], place: Range<usize>, with: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(text.len() - place.len() + with.len());
    out.put_slice(&text[..place.start]);
    out.put_slice(with);
    out.put_slice(&text[place.end..]);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::parse_one;

    fn call(params: &str) -> Message {
        let text = format!(
            r#"{{"x":[1, 2],"id" : 7 ,"jsonrpc":"2.0","params":{params},"method":"tools/call"}}"#
        );
        parse_one(text.into()).unwrap()
    }

    #[track_caller]
    fn check(message: &Message, id: &str, params: &str) {
        let text = format!(
            r#"{{"x":[1, 2],"id" : {id} ,"jsonrpc":"2.0","params":{params},"method":"tools/call"}}"#
        );
        assert_eq!(message.text(), &text);
        assert_eq!(message.payload().unwrap(), params.as_bytes());
        assert_eq!(message.method(), "tools/call");
        let again = parse_one(message.text().clone()).unwrap();
        for member in [Member::Name, Member::MetaProgressToken, Member::Task, Member::TraceParent] {
            assert_eq!(message.get(member), again.get(member), "{member:?}");
        }
    }

    /// wire: MSG-7
    #[test]
    fn several_changes_are_written_at_once_and_nothing_else_changes() {
        let call = call(r#"{ "name":"a__b" , "_meta":{"progressToken":1, "y":1e5},"z":{}}"#);
        let other = call
            .with_string(Member::Name, "b\"")
            .with_id(&Id::Text("long \"id\"".into()))
            .with(Member::MetaProgressToken, "\"t\"")
            .with(Member::TraceParent, "\"p\"")
            .with(Member::TraceState, "\"s\"");
        check(
            &other,
            r#""long \"id\"""#,
            r#"{ "name":"b\"" , "_meta":{"tracestate":"s","traceparent":"p","progressToken":"t", "y":1e5},"z":{}}"#,
        );
        assert_eq!(other.string(Member::Name).unwrap(), "b\"");
        assert_eq!(call.string(Member::Name).unwrap(), "a__b");
        check(&other.with_id(&Id::Integer(7)).with(Member::Meta, "{}"), "7", {
            r#"{ "name":"b\"" , "_meta":{},"z":{}}"#
        });
    }

    #[test]
    fn what_is_missing_is_made() {
        let plain = call("{}");
        check(
            &plain.with(Member::Task, "{}").with(Member::Name, "1"),
            "7",
            r#"{"name":1,"task":{}}"#,
        );
        let token = plain.with(Member::MetaProgressToken, "5");
        check(&token, "7", r#"{"_meta":{"progressToken":5}}"#);
        assert_eq!(token.get(Member::MetaProgressToken), Some(&b"5"[..]));
        let both = token.with(Member::TraceParent, "6");
        check(&both, "7", r#"{"_meta":{"traceparent":6,"progressToken":5}}"#);
        check(&call(r#"{"_meta":7}"#).with(Member::TraceParent, "6"), "7", {
            r#"{"_meta":{"traceparent":6}}"#
        });
        check(&call("[1]").with(Member::TraceParent, "6"), "7", "[1]");
        let bare = Message::request(&Id::Integer(1), "m", None).with(Member::TraceParent, "6");
        assert_eq!(bare.payload(), Some(&br#"{"_meta":{"traceparent":6}}"#[..]));
    }

    #[test]
    fn members_are_taken_away_and_may_come_back() {
        let call = call(r#"{"name":"a","task":{"ttl":1},"_meta":{"traceparent":"p"}}"#);
        let bare = call.without(Member::Task).without(Member::TraceParent);
        assert!(!bare.has(Member::Task) && !bare.has(Member::TaskTtl));
        check(&bare, "7", r#"{"name":"a","_meta":{}}"#);
        check(&bare.with(Member::Task, "{}"), "7", r#"{"name":"a","task":{},"_meta":{}}"#);
        check(&bare.with_payload(b"{}"), "7", "{}");
    }

    #[test]
    fn an_object_is_seen_with_what_has_changed_inside_of_it() {
        let call = call(r#"{"_meta":{"traceparent":"p", "y":1}}"#);
        let other = call.with(Member::TraceParent, "7");
        assert_eq!(other.get(Member::Meta), Some(&br#"{"traceparent":7, "y":1}"#[..]));
        assert_eq!(other.without(Member::TraceParent).get(Member::Meta), Some(&br#"{"y":1}"#[..]));
        let put = call.with(Member::Meta, "{}").with(Member::TraceParent, "7");
        assert_eq!(put.get(Member::Meta), Some(&br#"{"traceparent":7}"#[..]));
        check(&put.without(Member::TraceParent), "7", r#"{"_meta":{}}"#);
        check(&put.with(Member::RelatedTaskId, "8"), "7", {
            r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":8},"traceparent":7}}"#
        });
        assert_eq!(put.with_id(&Id::Integer(8)).payload_bytes(), put.payload().unwrap());
        assert_eq!(call.with_id(&Id::Integer(8)).payload_bytes(), call.payload().unwrap());
    }

    #[test]
    fn a_payload_is_replaced_where_it_stands() {
        let message = Message::request(&Id::Integer(1), "m", Some(b"{}"));
        let other = message.with_payload(br#"{"a":1}"#);
        assert_eq!(other.text(), &br#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}"#[..]);
        let bare = Message::request(&Id::Integer(1), "m", None).with_payload(b"{}");
        assert_eq!(bare.payload(), Some(&b"{}"[..]));
        let renamed = other.with_id(&Id::Integer(22)).with_payload(br#"{"name":""}"#);
        assert_eq!(
            renamed.text(),
            &br#"{"jsonrpc":"2.0","id":22,"method":"m","params":{"name":""}}"#[..]
        );
        assert_eq!(renamed.string(Member::Name).unwrap(), "");
    }
}

#[cfg(test)]
mod print_tests {
    use super::*;

    #[test]
    fn only_the_id_changes() {
        let text =
            br#" {"x":[1, 2],"id" : 7 ,"jsonrpc":"2.0","method":"a/b","params":{ "k":1e5}} "#;
        let message = crate::jsonrpc::parse_one(Bytes::from_static(text)).unwrap();
        let moved = message.with_id(&Id::Text("long \"id\"".into()));
        let want = br#" {"x":[1, 2],"id" : "long \"id\"" ,"jsonrpc":"2.0","method":"a/b","params":{ "k":1e5}} "#;
        assert_eq!(moved.text(), &want[..]);
        assert_eq!(moved.method(), "a/b");
        assert_eq!(moved.payload(), Some(&br#"{ "k":1e5}"#[..]));
        assert_eq!(moved.with_id(&Id::Integer(7)).text(), &text[..]);
    }
}
