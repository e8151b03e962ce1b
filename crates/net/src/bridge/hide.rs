//! Tools that clients must not see: they are taken out of lists, and cannot be called.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};

use switchboard_proto::exchange::{Ask, Exchange};
use switchboard_proto::json::{Fault, Walker};
use switchboard_proto::jsonrpc::{Kind, Message};
use switchboard_proto::method;
use switchboard_proto::patch;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use super::{Bridge, Caller};
use crate::face::lock;
use crate::upstream::{Recipient, Upstream};
use crate::who::Who;

/// Names of tools, with `*` for any characters; their case does not count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hidden {
    patterns: Vec<String>,
    /// Everything else is hidden too.
    only: Option<Vec<String>>,
}

impl Hidden {
    /// Hides what any of `patterns` fits.
    pub fn new(patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { patterns: lower(patterns), only: None }
    }

    /// Also hides what none of `patterns` fits.
    #[must_use]
    pub fn but(self, patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { only: Some(lower(patterns)), ..self }
    }

    fn is_nothing(&self) -> bool {
        self.patterns.is_empty() && self.only.is_none()
    }

    /// Whether clients must not see the tool of this name.
    pub fn hides(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, &name));
        any(&self.patterns) || self.only.as_deref().is_some_and(|only| !any(only))
    }

    /// Why `request` is not passed on, if it is for a tool that is hidden from all
    /// or from `who`. Those learn no more than if there were none of that name.
    pub(super) fn refuses(&self, who: &Who, request: &Message) -> Option<Refusal> {
        let hides_some = !self.is_nothing() || who.hides_some();
        if !hides_some || request.method() != method::CALL_TOOL {
            return None;
        }
        let name = patch::string(request.payload()?, &["name"])?;
        if self.hides(&name) {
            return Some(Refusal::FarSide { text: format!("Tool \"{name}\" is not available") });
        }
        who.hides(&name).then(|| Refusal::BadParams { what: format!("Unknown tool: {name}") })
    }

    /// Whether the answer to `request` has to be looked through.
    fn concerns(&self, who: &Who, request: &Message) -> bool {
        let hides_some = !self.is_nothing() || who.hides_some();
        hides_some && request.method() == method::LIST_TOOLS
    }

    /// A list without the tools that are hidden from all or from `who`; none if
    /// it has none of them.
    fn without(&self, who: &Who, answer: &Message) -> Option<Message> {
        let result = answer.payload().filter(|_| answer.kind() == Kind::Result)?;
        let tools = patch::get(result, &["tools"])?;
        let (mut kept, mut count) = (Vec::new(), 0);
        let walk = |place: std::ops::Range<usize>| {
            count += 1;
            let tool = &tools[place];
            let hides = |name: &str| self.hides(name) || who.hides(name);
            if !patch::string(tool, &["name"]).is_some_and(|name| hides(&name)) {
                kept.push(tool);
            }
            Ok::<_, Fault>(())
        };
        Walker::new(tools).elements(walk).ok()?;
        if kept.len() == count {
            return None;
        }
        let kept = [b"[", kept.join(&b","[..]).as_slice(), b"]"].concat();
        patch::replace(result, &["tools"], &kept).map(|result| answer.with_payload(&result))
    }
}

fn lower(patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    patterns.into_iter().map(|pattern| pattern.as_ref().to_lowercase()).collect()
}

/// Whether `name` is what `pattern` describes. Both are in lower case.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        // The earliest place leaves the most for the parts that follow.
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    true
}

impl Bridge {
    pub(super) fn hidden(&self) -> Arc<Hidden> {
        Arc::clone(&self.hidden.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hides other tools from here on, and tells the clients that have a session.
    pub fn hide(&self, hidden: Hidden) {
        let mut current = self.hidden.write().unwrap_or_else(PoisonError::into_inner);
        if **current == hidden {
            return;
        }
        *current = Arc::new(hidden);
        drop(current);
        let upstreams: Vec<_> = lock(&self.state).connections.values().cloned().collect();
        let Some(name) = method::list_changed("tools") else { return };
        let message = Message::notification(name, None);
        for client in upstreams.iter().flat_map(|upstream| upstream.attached()) {
            client.note(None, &message);
        }
    }
}

/// Who is told the answer: the client, or somebody who looks through it first.
pub(super) fn owner(
    hidden: &Arc<Hidden>,
    caller: &Caller,
    upstream: &Upstream,
    request: &Message,
) -> Arc<dyn Recipient> {
    let owner = Arc::clone(&caller.owner);
    let who = caller.face.who();
    if !hidden.concerns(who, request) {
        return owner;
    }
    if caller.face.era() == Era::Legacy {
        // What belongs to no call is told to the client, who outlives this one.
        upstream.attach(&caller.hears);
    }
    Arc::new(Blinkered { owner, who: who.clone(), hidden: Arc::clone(hidden) })
}

/// A client that asked for a list.
struct Blinkered {
    owner: Arc<dyn Recipient>,
    who: Who,
    hidden: Arc<Hidden>,
}

impl Recipient for Blinkered {
    fn number(&self) -> u64 {
        self.owner.number()
    }

    fn principal(&self) -> &[u8] {
        self.owner.principal()
    }

    fn note(&self, exchange: Option<Exchange>, message: &Message) {
        self.owner.note(exchange, message);
    }

    fn ask(self: Arc<Self>, exchange: Option<Exchange>, ask: Ask, request: &Message) -> bool {
        Arc::clone(&self.owner).ask(exchange, ask, request)
    }

    fn recall(&self, ask: Ask, message: &Message) {
        self.owner.recall(ask, message);
    }

    fn finish(&self, exchange: Exchange, answer: &Message) {
        match self.hidden.without(&self.who, answer) {
            Some(answer) => self.owner.finish(exchange, &answer),
            None => self.owner.finish(exchange, answer),
        }
    }

    fn is_slow(&self) -> bool {
        self.owner.is_slow()
    }

    fn room(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Arc::clone(&self.owner).room()
    }

    fn end(self: Arc<Self>) {
        Arc::clone(&self.owner).end();
    }
}

impl fmt::Debug for Blinkered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blinkered").field("owner", &self.owner).finish_non_exhaustive()
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
        let only = Hidden::new(["b*"]).but(["a*", "bc"]);
        let hidden = ["ab", "bc", "c"].map(|name| only.hides(name));
        assert_eq!(hidden, [false, true, true]);
    }

    #[test]
    fn what_is_left_of_a_list_stays_as_it_was_written() {
        let hidden = Hidden::new(["b*"]);
        let list = |text: &'static str| parse_one(text.into()).unwrap();
        let answer = list(
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[ {"name":"a", "x":1.0e0},{"name":"bee"}],"nextCursor":"c"}}"#,
        );
        let nobody = Who::default();
        let text = hidden.without(&nobody, &answer).unwrap();
        assert_eq!(
            text.text(),
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a", "x":1.0e0}],"nextCursor":"c"}}"#
        );
        let none = list(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}}"#);
        assert!(hidden.without(&nobody, &none).is_none());
    }
}
