//! What somebody sees of one server: by its filters in the plan, and by what is
//! granted to them. Lists and calls are decided here alike, so that nobody gets
//! by name what no list shows.
//!
//! A URI may be in no list. Then the templates of its server decide:
//!
//! ```text
//!   it is excluded itself                              ──▶ hidden
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
    let member = patch::unclear(params, DECISIVE)?;
    let what = format!("{member} must be in params once, and in these letters");
    Some(Refusal::BadParams { what })
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

    /// Whether this may be asked for, by its own name. `known` has the names of
    /// all that the server lists of a kind.
    pub(crate) fn reaches(
        &self,
        kind: Kind,
        own: &str,
        known: impl Fn(Kind) -> Vec<String>,
    ) -> bool {
        if !self.hides_some(kind) {
            return true;
        }
        match kind {
            Kind::Tools | Kind::Prompts => self.shows(kind, own),
            Kind::Templates if known(kind).iter().any(|text| text == own) => self.shows(kind, own),
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

fn reaches(filter: &Filter, uri: &str, known: impl Fn(Kind) -> Vec<String>) -> bool {
    let any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, uri));
    if any(&filter.never) {
        return false;
    }
    if filter.only.as_deref().is_some_and(any) {
        return true;
    }
    let mut fitting = known(Kind::Templates);
    fitting.retain(|template| Pattern::new(template).fits(uri));
    if fitting.iter().any(|template| filter.lets(template)) {
        return true;
    }
    let is_listed = || known(Kind::Resources).iter().any(|listed| listed == uri);
    filter.only.is_none() && (fitting.is_empty() || is_listed())
}

#[cfg(test)]
mod tests;
