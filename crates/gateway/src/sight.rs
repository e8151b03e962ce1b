//! What somebody sees of one server: by its filters in the plan, and by what is
//! granted to them. Lists and calls are decided here alike, so that nobody gets
//! by name what no list shows.
//!
//! A URI may be in no list. Then the templates of its server decide:
//!
//! ```text
//!   it is excluded itself, in any spelling             ──▶ hidden
//!   it is not spelled plainly, and no list has it so   ──▶ hidden
//!   it is included itself, or a template that fits is shown ──▶ seen
//!   only others are included                           ──▶ hidden
//!   a template that fits is hidden, and no list has it ──▶ hidden
//!   anything else                                      ──▶ its server knows
//! ```

use std::borrow::Cow;
use std::ops::Range;

use switchboard_net::roster::Kind;
use switchboard_proto::json::{Fault, Walker};
use switchboard_proto::jsonrpc::{self, Message};
use switchboard_proto::method::{self, meta};
use switchboard_proto::patch::{self, Shape};
use switchboard_proto::refusal::Refusal;

use crate::catalog::Pattern;
use crate::glob::{Filter, fits};
use crate::plan::ServerPlan;
use crate::policy::Grant;
use crate::uri::{folded, is_plain};

/// Members of params by which we or a server decide what a call is about.
const DECISIVE: &Shape<'_> = &[
    ("_meta", &[meta::PROGRESS_TOKEN, meta::RELATED_TASK]),
    ("arguments", &[]),
    ("cursor", &[]),
    ("inputResponses", &[]),
    ("name", &[]),
    ("notifications", &["resourceSubscriptions", "taskIds"]),
    ("ref", &["name", "type", "uri"]),
    ("requestState", &[]),
    ("task", &[]),
    ("taskId", &[]),
    ("uri", &[]),
];

/// Why a request may not mean to its server what it means to us, if so.
pub(crate) fn doubt(request: &Message) -> Option<Refusal> {
    let params = request.payload()?;
    if !params.starts_with(b"{") {
        return Some(Refusal::BadParams { what: "params must be an object".to_owned() });
    }
    let what = match patch::unclear(params, DECISIVE) {
        Some(member) => format!("{member} must be in params once, and in these letters"),
        None => nameless(request, params)?,
    };
    Some(Refusal::BadParams { what })
}

/// What must be there so that it can be told what a request asks for.
fn nameless(request: &Message, params: &[u8]) -> Option<String> {
    if named(request).is_some() {
        return None;
    }
    let what = match request.method() {
        method::CALL_TOOL | method::GET_PROMPT => "params.name must be a string",
        method::READ_RESOURCE | method::SUBSCRIBE => "params.uri must be a string",
        method::COMPLETE => "params.ref must have a type, and a name or uri that is a string",
        method::LISTEN => {
            let wanted = patch::get(params, &["notifications"])?;
            let uris = patch::get(wanted, &["resourceSubscriptions"]);
            let is_list = |uris| serde_json::from_slice::<Vec<String>>(uris).is_ok();
            if wanted.starts_with(b"{") && uris.is_none_or(is_list) {
                return None;
            }
            "resourceSubscriptions is a list of some strings"
        }
        _ => return None,
    };
    Some(what.to_owned())
}

/// What a request asks for, by the words that are in it.
pub(crate) fn named(request: &Message) -> Option<(Kind, Cow<'_, str>)> {
    let params = request.payload()?;
    let (kind, path): (_, &[&str]) = match request.method() {
        method::CALL_TOOL => (Kind::Tools, &["name"]),
        method::GET_PROMPT => (Kind::Prompts, &["name"]),
        method::READ_RESOURCE | method::SUBSCRIBE => (Kind::Resources, &["uri"]),
        method::COMPLETE => match &*patch::string(params, &["ref", "type"])? {
            "ref/prompt" => (Kind::Prompts, &["ref", "name"]),
            "ref/resource" => (Kind::Templates, &["ref", "uri"]),
            _ => return None,
        },
        _ => return None,
    };
    Some((kind, patch::string(params, path)?))
}

/// What of one server is for somebody's eyes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'a> {
    plan: &'a ServerPlan,
    grant: &'a Grant,
}

impl<'a> Sight<'a> {
    pub(crate) fn new(plan: &'a ServerPlan, grant: &'a Grant) -> Self {
        Self { plan, grant }
    }

    /// Whether something of a kind is hidden.
    pub(crate) fn hides_some(&self, kind: Kind) -> bool {
        !self.plan.filter(kind).is_open() || (kind == Kind::Tools && !self.grant.has_all_tools())
    }

    /// Whether a list shows this, by its own name.
    pub(crate) fn shows(&self, kind: Kind, own: &str) -> bool {
        let is_granted = || kind != Kind::Tools || self.grant.has_tool(&self.plan.name, own);
        self.plan.filter(kind).lets(own) && is_granted()
    }

    /// Whether this may be asked for, by its own name; none if that depends on
    /// lists that are not known. `known` has the names of all that the server
    /// lists of a kind.
    pub(crate) fn reaches(
        &self,
        kind: Kind,
        own: &str,
        known: impl Fn(Kind) -> Option<Vec<String>>,
    ) -> Option<bool> {
        if !self.hides_some(kind) {
            return Some(true);
        }
        match kind {
            Kind::Tools | Kind::Prompts => Some(self.shows(kind, own)),
            Kind::Templates if known(kind)?.iter().any(|text| text == own) => {
                Some(self.shows(kind, own))
            }
            Kind::Resources | Kind::Templates => reaches(&self.plan.resources, own, known),
        }
    }

    /// A list without what is hidden; none if it has nothing of that.
    pub(crate) fn without_hidden(&self, kind: Kind, answer: &Message) -> Option<Message> {
        let result = answer.payload().filter(|_| answer.kind() == jsonrpc::Kind::Result)?;
        let list = patch::get(result, &[kind.member()])?;
        let (mut kept, mut count) = (Vec::new(), 0);
        let walk = |place: Range<usize>| {
            count += 1;
            let item = &list[place];
            let own = patch::string(item, &[kind.key()]);
            if own.is_none_or(|own| self.shows(kind, &own)) {
                kept.push(item);
            }
            Ok::<_, Fault>(())
        };
        Walker::new(list).elements(walk).ok()?;
        if kept.len() == count {
            return None;
        }
        let kept = [b"[", kept.join(&b","[..]).as_slice(), b"]"].concat();
        patch::replace(result, &[kind.member()], &kept).map(|result| answer.with_payload(&result))
    }
}

fn reaches(
    filter: &Filter,
    uri: &str,
    known: impl Fn(Kind) -> Option<Vec<String>>,
) -> Option<bool> {
    let any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, uri));
    let plain = folded(uri);
    let is_never = |pattern: &String| fits(pattern, uri) || fits(&folded(pattern), &plain);
    if filter.never.iter().any(is_never) {
        return Some(false);
    }
    let is_listed = || Some(known(Kind::Resources)?.iter().any(|listed| listed == uri));
    if !is_plain(uri) {
        return Some(filter.lets(uri) && is_listed()?);
    }
    if filter.only.as_deref().is_some_and(any) {
        return Some(true);
    }
    let templates = known(Kind::Templates)?;
    let mut fitting = templates.iter().filter(|template| Pattern::new(template).fits(uri));
    if fitting.any(|template| filter.lets(template)) {
        return Some(true);
    }
    let may_fit = |template: &String| {
        Pattern::new(template).fits(uri) || Pattern::new(&folded(template)).fits(&plain)
    };
    Some(filter.only.is_none() && (!templates.iter().any(may_fit) || is_listed()?))
}

#[cfg(test)]
mod tests;
