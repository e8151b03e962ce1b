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

use switchboard_net::roster::ListKind;
use switchboard_proto::jsonrpc::{self, ItemAction, Member, Message, Part};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;

use crate::catalog::TemplatePattern;
use crate::glob::{NameFilter, fits};
use crate::plan::ServerPlan;
use crate::policy::Grant;
use crate::uri::{folded, is_plain};

/// Why a request may not mean to its server what it means to us, if so.
pub(crate) fn doubt(request: &Message) -> Option<Refusal> {
    if !Part::new(request.payload()?).is_object() {
        return Some(Refusal::BadParams { what: "params must be an object".to_owned() });
    }
    let what = match request.ambiguous() {
        Some(member) => format!("{} must be in params once, and in these letters", member.key()),
        None => nameless(request)?,
    };
    Some(Refusal::BadParams { what })
}

/// What must be there so that it can be told what a request asks for.
fn nameless(request: &Message) -> Option<String> {
    if named(request).is_some() {
        return None;
    }
    let what = match request.method() {
        method::CALL_TOOL | method::GET_PROMPT => "params.name must be a string",
        method::READ_RESOURCE | method::SUBSCRIBE => "params.uri must be a string",
        method::COMPLETE => "params.ref must have a type, and a name or uri that is a string",
        method::LISTEN => {
            let wanted = request.part(Member::Notifications)?;
            let uris = request.part(Member::ListenUris);
            let is_list = |uris: Part<'_>| uris.read::<Vec<String>>().is_ok();
            if wanted.is_object() && uris.is_none_or(is_list) {
                return None;
            }
            "resourceSubscriptions is a list of some strings"
        }
        _ => return None,
    };
    Some(what.to_owned())
}

/// What a request asks for, by the words that are in it.
pub(crate) fn named(request: &Message) -> Option<(ListKind, Cow<'_, str>)> {
    let (kind, member) = match request.method() {
        method::CALL_TOOL => (ListKind::Tools, Member::Name),
        method::GET_PROMPT => (ListKind::Prompts, Member::Name),
        method::READ_RESOURCE | method::SUBSCRIBE => (ListKind::Resources, Member::Uri),
        method::COMPLETE => match &*request.string(Member::RefType)? {
            "ref/prompt" => (ListKind::Prompts, Member::RefName),
            "ref/resource" => (ListKind::Templates, Member::RefUri),
            _ => return None,
        },
        _ => return None,
    };
    Some((kind, request.string(member)?))
}

/// What of one server is for somebody's eyes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visibility<'a> {
    plan: &'a ServerPlan,
    grant: &'a Grant,
}

impl<'a> Visibility<'a> {
    pub(crate) fn new(plan: &'a ServerPlan, grant: &'a Grant) -> Self {
        Self { plan, grant }
    }

    /// Whether something of a kind is hidden.
    pub(crate) fn hides_some(&self, kind: ListKind) -> bool {
        !self.plan.filter(kind).is_open()
            || (kind == ListKind::Tools && !self.grant.has_all_tools())
    }

    /// Whether a list shows this, by its own name.
    pub(crate) fn shows(&self, kind: ListKind, own: &str) -> bool {
        let is_granted = || kind != ListKind::Tools || self.grant.has_tool(&self.plan.name, own);
        self.plan.filter(kind).lets(own) && is_granted()
    }

    /// Whether this may be asked for, by its own name; none if that depends on
    /// lists that are not known. `known` has the names of all that the server
    /// lists of a kind.
    pub(crate) fn reaches(
        &self,
        kind: ListKind,
        own: &str,
        known: impl Fn(ListKind) -> Option<Vec<String>>,
    ) -> Option<bool> {
        if !self.hides_some(kind) {
            return Some(true);
        }
        match kind {
            ListKind::Tools | ListKind::Prompts => Some(self.shows(kind, own)),
            ListKind::Templates if known(kind)?.iter().any(|text| text == own) => {
                Some(self.shows(kind, own))
            }
            ListKind::Resources | ListKind::Templates => reaches(&self.plan.resources, own, known),
        }
    }

    /// A list without what is hidden.
    pub(crate) fn without_hidden(&self, kind: ListKind, answer: &Message) -> Message {
        if answer.kind() != jsonrpc::Kind::Result {
            return answer.clone();
        }
        answer.with_list(kind.member(), |item| {
            let own = item.string(kind.key());
            if own.is_none_or(|own| self.shows(kind, &own)) {
                ItemAction::Keep
            } else {
                ItemAction::Drop
            }
        })
    }
}

fn reaches(
    filter: &NameFilter,
    uri: &str,
    known: impl Fn(ListKind) -> Option<Vec<String>>,
) -> Option<bool> {
    let any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, uri));
    let plain = folded(uri);
    let is_never = |pattern: &String| fits(pattern, uri) || fits(&folded(pattern), &plain);
    if filter.never.iter().any(is_never) {
        return Some(false);
    }
    let is_listed = || Some(known(ListKind::Resources)?.iter().any(|listed| listed == uri));
    if !is_plain(uri) {
        return Some(filter.lets(uri) && is_listed()?);
    }
    if filter.only.as_deref().is_some_and(any) {
        return Some(true);
    }
    let templates = known(ListKind::Templates)?;
    let mut fitting = templates.iter().filter(|template| TemplatePattern::new(template).fits(uri));
    if fitting.any(|template| filter.lets(template)) {
        return Some(true);
    }
    let may_fit = |template: &String| {
        TemplatePattern::new(template).fits(uri)
            || TemplatePattern::new(&folded(template)).fits(&plain)
    };
    Some(filter.only.is_none() && (!templates.iter().any(may_fit) || is_listed()?))
}

#[cfg(test)]
mod tests;
