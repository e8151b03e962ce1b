//! What a message says, by the names that the protocol has for it.

use std::borrow::Cow;

use super::{Id, Kind, Member, Message, Part};
use crate::method;

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

    /// The task that it says to be part of.
    pub fn related_task(&self) -> Option<Cow<'_, str>> {
        self.string(Member::RelatedTaskId)
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

    /// The request that a cancel is about.
    pub fn cancelled_id(&self) -> Option<Id> {
        self.id_in(Member::RequestId)
    }

    /// The revision that a greeting asks for, or that its answer settles on.
    pub fn protocol_version(&self) -> Option<Cow<'_, str>> {
        self.string(Member::ProtocolVersion)
    }

    /// What the sender of a modern request can do, as JSON; empty if it does not say.
    pub fn declared_capabilities(&self) -> &[u8] {
        self.get(Member::MetaCapabilities).unwrap_or_default()
    }

    /// What a welcome says that its server can do, by the keys that lead there.
    pub fn capability(&self, path: &[&str]) -> Option<Part<'_>> {
        self.inside(Member::Capabilities, path)
    }

    /// Of a log record, how grave it is; of a request for them, how grave they are to be.
    pub fn log_level(&self) -> Option<Cow<'_, str>> {
        self.string(Member::Level)
    }

    /// The trace that it is part of.
    pub fn trace_parent(&self) -> Option<Cow<'_, str>> {
        self.string(Member::TraceParent)
    }

    /// The code of an error; none if it is no error.
    pub fn error_code(&self) -> Option<i64> {
        let code = self.get(Member::Code).filter(|_| self.kind() == Kind::Error)?;
        std::str::from_utf8(code).ok()?.parse().ok()
    }

    /// An error in words; empty if there are none.
    pub fn error_message(&self) -> Cow<'_, str> {
        self.string(Member::ErrorMessage).unwrap_or_default()
    }

    /// Whether it is the result of a tool that failed.
    pub fn is_tool_error(&self) -> bool {
        self.kind() == Kind::Result && self.get(Member::IsError) == Some(b"true")
    }

    /// Whether a modern result is whole, a question or a task; none if it does not say.
    pub fn result_type(&self) -> Option<Cow<'_, str>> {
        self.string(Member::ResultType).filter(|_| self.kind() == Kind::Result)
    }

    /// The cursor of the page after this one, as JSON, if there is one.
    pub fn next_cursor(&self) -> Option<&[u8]> {
        let cursor = self.get(Member::NextCursor).filter(|_| self.kind() == Kind::Result);
        cursor.filter(|it| it.starts_with(b"\""))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shorthand::message;

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
        let error = Message::error(None, &serde_json::from_str::<serde_json::Value>(code).unwrap());
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
