//! New messages.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

use super::{Id, Kind, Message, Name, Parsed};
use crate::refusal::Refusal;

impl Message {
    /// A request; `params` is JSON text.
    pub fn request(id: &Id, method: &str, params: Option<&[u8]>) -> Self {
        Self::build(Kind::Request, Some(id), method, params.map(|text| ("params", text)))
    }

    /// A notification; `params` is JSON text.
    pub fn notification(method: &str, params: Option<&[u8]>) -> Self {
        Self::build(Kind::Notification, None, method, params.map(|text| ("params", text)))
    }

    /// An answer; `result` is JSON text.
    pub fn result(id: &Id, result: &[u8]) -> Self {
        Self::build(Kind::Result, Some(id), "", Some(("result", result)))
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
        Self::build(Kind::Error, id, "", Some(("error", error.to_string().as_bytes())))
    }

    pub(super) fn build(
        kind: Kind,
        id: Option<&Id>,
        method: &str,
        payload: Option<(&str, &[u8])>,
    ) -> Self {
        let mut text = BytesMut::with_capacity(64 + payload.map_or(0, |(_, text)| text.len()));
        text.put_slice(b"{\"jsonrpc\":\"2.0\"");
        let mut id_at = 0..0;
        if kind != Kind::Notification {
            text.put_slice(b",\"id\":");
            let printed = id.map_or_else(|| "null".to_owned(), ToString::to_string);
            id_at = text.len()..text.len() + printed.len();
            text.put_slice(printed.as_bytes());
        }
        let mut name = Name::None;
        if !method.is_empty() {
            text.put_slice(b",\"method\":");
            let printed = Value::from(method).to_string();
            name = if printed.contains('\\') {
                Name::Unescaped(method.into())
            } else {
                Name::At(text.len() + 1..text.len() + printed.len() - 1)
            };
            text.put_slice(printed.as_bytes());
        }
        let payload = payload.map(|(member, value)| {
            text.put_slice(b",\"");
            text.put_slice(member.as_bytes());
            text.put_slice(b"\":");
            text.put_slice(value);
            text.len() - value.len()..text.len()
        });
        text.put_u8(b'}');
        let (text, id, members) = (text.freeze(), id.cloned(), OnceLock::new());
        let parsed = Parsed { text, kind, id, id_at, method: name, payload, members };
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
