//! Tools that clients must not see: they are taken out of lists, and cannot be called.
//!
//! This is `--ignore-tool` of mcp-remote, with its patterns and its words.

use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::{ItemAction, Kind, Member, Message};
use switchboard_proto::method;
use switchboard_proto::pattern::fits;
use switchboard_proto::refusal::Refusal;

use crate::call::ReplyRewrite;

/// Names of tools, with `*` for any characters; their case does not count.
#[derive(Clone, Debug, Default)]
pub struct Hidden {
    patterns: Vec<String>,
}

impl Hidden {
    /// Hides what any of `patterns` fits.
    pub fn new(patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let patterns = patterns.into_iter();
        Self { patterns: patterns.map(|pattern| pattern.as_ref().to_lowercase()).collect() }
    }

    /// Whether clients must not see the tool of this name.
    pub fn hides(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.patterns.iter().any(|pattern| fits(pattern, &name))
    }

    /// Why `request` is not passed on, if it is for a tool that is hidden, or may
    /// be for its server.
    pub(super) fn refuses(&self, request: &Message) -> Option<Refusal> {
        if self.patterns.is_empty() || request.method() != method::CALL_TOOL {
            return None;
        }
        request.payload()?;
        let is_clear = !request.is_ambiguous(Member::Name);
        let Some(name) = request.name().filter(|_| is_clear) else {
            let what = "params must be an object with one name, a string".to_owned();
            return Some(Refusal::BadParams { what });
        };
        self.hides(&name).then(|| Refusal::HiddenTool { name: name.into_owned() })
    }

    /// Whether the answer to `request` has to be looked through.
    pub(super) fn concerns(&self, request: &Message) -> bool {
        !self.patterns.is_empty() && request.method() == method::LIST_TOOLS
    }

    /// A list without the tools that are hidden.
    fn without(&self, answer: &Message) -> Message {
        if answer.kind() != Kind::Result {
            return answer.clone();
        }
        answer.with_list(Member::Tools, |tool| {
            let name = tool.string("name");
            if name.is_some_and(|it| self.hides(&it)) { ItemAction::Drop } else { ItemAction::Keep }
        })
    }
}

impl ReplyRewrite for Hidden {
    fn answer(&self, answer: &Message) -> Outcome {
        self.without(answer).into()
    }
}

#[cfg(test)]
mod tests {
    use switchboard_proto::jsonrpc::parse_one;

    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, hidden) in [
            ("delete*", "deleteUser", true),
            ("delete*", "undelete", false),
            ("*account", "getAccount", true),
            ("*account", "accounts", false),
            ("exact", "Exact", true),
            ("exact", "exactly", false),
            ("a*b*c", "axxbxxc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("a.c", "abc", false),
        ] {
            assert_eq!(Hidden::new([pattern]).hides(name), hidden, "{pattern} {name}");
        }
        assert!(!Hidden::default().hides("anything"));
    }

    #[test]
    fn a_name_that_the_server_may_read_otherwise_is_refused() {
        let hidden = Hidden::new(["b*"]);
        let refuses = |params: &str| {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            hidden.refuses(&parse_one(text.into()).unwrap()).is_some()
        };
        for params in [
            r#"{"name":"bee"}"#,
            r#"{"name":"a","Name":"bee"}"#,
            r#"{"name":"bee","name":"a"}"#,
            r#"["bee"]"#,
            r#"{"name":["bee"]}"#,
            r#"{"name":{"bee":1}}"#,
        ] {
            assert!(refuses(params), "{params}");
        }
        assert!(!refuses(r#"{"name":"a","arguments":{"Name":"bee","name":1}}"#));
    }

    #[test]
    fn what_is_left_of_a_list_stays_as_it_was_written() {
        let hidden = Hidden::new(["b*"]);
        let list = |text: &'static str| parse_one(text.into()).unwrap();
        let answer = list(
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[ {"name":"a", "x":1.0e0},{"name":"bee"}],"nextCursor":"c"}}"#,
        );
        let text = hidden.without(&answer);
        assert_eq!(
            text.text(),
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a", "x":1.0e0}],"nextCursor":"c"}}"#
        );
        let none = list(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}}"#);
        assert_eq!(hidden.without(&none).text(), none.text());
    }
}
