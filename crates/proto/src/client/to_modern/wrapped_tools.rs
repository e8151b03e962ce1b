//! Tools whose structure is no object by its schema: both are wrapped for
//! legacy clients, or a client that checks results would refuse them (GW-70).
//!
//! Lists that pass say which they are. Where none has named a tool, its client
//! may have seen it elsewhere: then the server is asked, once its answer has
//! come and only if the schema makes a difference.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::extension_tasks::Tasking;
use super::{ToModern, older_answer};
use crate::client::tasks::{MOST_PAGES, page_of_tools};
use crate::client::{InternalCall, Ticket};
use crate::jsonrpc::{Kind, Member, Message};
use crate::limits::MAX_ID;
use crate::method;
use crate::project::{self, Envelope};

/// Tools to remember. Further ones are taken for such as return objects.
const MOST: usize = 4096;

/// How long an answer waits for that.
const WAIT: Duration = Duration::from_secs(5);

/// What is known of the server's tools.
#[derive(Debug, Default)]
pub(super) struct WrappedTools {
    /// Whether the structure of each is wrapped.
    wrapped: BTreeMap<Box<str>, bool>,
    /// There are no others.
    complete: bool,
    listing: Option<Listing>,
}

/// We are asking for all of them.
#[derive(Debug)]
struct Listing {
    /// In whose name.
    envelope: Envelope,
    pages: usize,
    until: Instant,
    /// The tools have changed meanwhile.
    stale: bool,
}

impl WrappedTools {
    /// Learns from a result of `tools/list`.
    pub(super) fn learn(&mut self, answer: &Message) {
        for tool in answer.items(Member::Tools) {
            if let Some(name) = tool.string("name")
                && name.len() <= MAX_ID
                && (self.wrapped.len() < MOST || self.wrapped.contains_key(&*name))
            {
                let schema = tool.get(&["outputSchema"]);
                let is_wrapped = schema.is_some_and(|schema| project::wraps(schema.text()));
                self.wrapped.insert(name.into(), is_wrapped);
            }
        }
    }

    /// The tools may be others now.
    pub(super) fn forget(&mut self) {
        self.wrapped.clear();
        self.complete = false;
        if let Some(listing) = &mut self.listing {
            listing.stale = true;
        }
    }

    /// Whether the structure of a tool is wrapped; none if that must be found out.
    fn is_wrapped(&self, name: &str) -> Option<bool> {
        let known = self.wrapped.get(name).copied();
        known.or_else(|| self.complete.then_some(false))
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.listing.as_ref().map(|listing| listing.until)
    }
}

impl<T: Ticket> ToModern<T> {
    /// The tool that a call is about, by itself or by its task.
    fn tool_of(&mut self, number: u64) -> Option<Box<str>> {
        let call = self.calls.get(&number)?;
        if call.request.method() == method::CALL_TOOL {
            return call.request.name().map(Into::into);
        }
        let id = call.request.task_id().unwrap_or_default();
        Some(self.tasks.find(call.ticket.owner(), &id)?.tool.clone())
    }

    /// Gives a client what its tool came to, once it is known in which shape.
    pub(super) fn finish_tool(&mut self, number: u64, answer: &Message, now: Instant) {
        let tool = self.tool_of(number).unwrap_or_default();
        let structure = answer.part(Member::StructuredContent);
        let structure = structure.filter(|it| answer.kind() == Kind::Result && it.is_object());
        // What is no object is wrapped whatever the schema says.
        let reads = self.calls.get(&number).map(|call| self.revision_of(&call.ticket).rules());
        let matters = reads.is_some_and(|rules| rules.structured_content) && structure.is_some();
        if !matters || self.tools.is_wrapped(&tool).is_some() {
            return self.finish_shaped(number, answer, now);
        }
        let Some(call) = self.calls.get_mut(&number) else { return };
        call.answer = Some(answer.clone());
        if self.tools.listing.is_none() {
            let ticket = call.ticket.clone();
            let (envelope, until) = (self.envelope_of(&ticket), now + WAIT);
            self.tools.listing = Some(Listing { envelope, pages: 0, until, stale: false });
            self.list_tools(None, now);
        }
    }

    fn list_tools(&mut self, cursor: Option<&[u8]>, now: Instant) {
        let Some(listing) = self.tools.listing.as_mut() else { return };
        listing.pages += 1;
        let request = listing.envelope.put_on(&page_of_tools(cursor));
        self.inner.open(InternalCall::Tools, &request, &None, now);
    }

    /// A page of the tools that we asked for.
    pub(super) fn handle_tools(&mut self, page: Option<&Message>, now: Instant) {
        let Some(listing) = &mut self.tools.listing else { return };
        let may_go_on = listing.pages < MOST_PAGES;
        // What earlier pages said is forgotten.
        if std::mem::take(&mut listing.stale) {
            return if may_go_on { self.list_tools(None, now) } else { self.finish_waiting(now) };
        }
        if let Some(page) = page {
            self.tools.learn(page);
        }
        if let Some(cursor) = page.and_then(Message::next_cursor).filter(|_| may_go_on) {
            self.list_tools(Some(cursor), now);
        } else {
            self.tools.complete = page.is_some();
            self.finish_waiting(now);
        }
    }

    /// Whoever waits for the list waits no longer.
    pub(super) fn finish_waiting(&mut self, now: Instant) {
        self.tools.listing = None;
        let waiting = self.calls.iter_mut();
        let waiting = waiting.filter_map(|(&number, call)| Some((number, call.answer.take()?)));
        for (number, answer) in waiting.collect::<Vec<_>>() {
            self.finish_shaped(number, &answer, now);
        }
    }

    fn finish_shaped(&mut self, number: u64, answer: &Message, now: Instant) {
        let tool = self.tool_of(number).unwrap_or_default();
        let Some(call) = self.calls.get(&number) else { return };
        let wrapped = self.tools.is_wrapped(&tool) == Some(true);
        let is_wanted = matches!(call.tasking, Tasking::Wanted);
        let revision = self.revision_of(&call.ticket);
        let outcome = older_answer(answer, method::CALL_TOOL, revision, wrapped);
        match outcome.result().filter(|_| is_wanted) {
            // It was to be a task, and is over already.
            Some(result) => self.keep_end(number, result, now),
            None => self.finish(number, outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_not_kept() {
        let mut tools = WrappedTools::default();
        for length in [1, MAX_ID, MAX_ID + 1] {
            let list = format!(r#"{{"tools":[{{"name":"{}"}}]}}"#, "x".repeat(length));
            tools.learn(&Message::result(&1.into(), list.as_bytes()));
        }
        assert_eq!(tools.wrapped.len(), 2);
    }
}
