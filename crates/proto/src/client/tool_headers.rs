//! Which arguments of which tool are repeated as headers, learned from passing lists, and
//! the list that we fetch when a server refuses a call for want of a header (HDR-12).

use std::collections::BTreeMap;

use bytes::Bytes;
use http::HeaderMap;
use memchr::memmem;

use super::tasks::page_of_tools;
use crate::exchange::HeaderParams;
use crate::header::param::{self, Annotation};
use crate::header::{Header, Mismatch};
use crate::jsonrpc::{ItemAction, Member, Message};
use crate::limits::MAX_ID;
use crate::method;

/// Annotated tools to remember. A server with more is told apart by the retry of HDR-12.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct ToolHeaders {
    annotated: BTreeMap<Box<str>, Vec<Annotation>>,
}

impl ToolHeaders {
    /// Learns from the result of `tools/list`. Tools that must not be offered
    /// over HTTP are taken out (HDR-8): the result that is left.
    pub(super) fn learn(&mut self, answer: &Message) -> Message {
        let tools = answer.get(Member::Tools).unwrap_or_default();
        if memmem::find(tools, b"x-mcp-header").is_none() {
            return answer.clone();
        }
        // Each on its own: one tool that cannot be read does not hide the others.
        answer.with_list(Member::Tools, |tool| {
            let tool = tool.value().unwrap_or_default();
            match param::annotations(&tool["inputSchema"]) {
                Ok(annotations) => {
                    self.remember(tool["name"].as_str().unwrap_or_default(), annotations);
                    ItemAction::Keep
                }
                Err(_) => ItemAction::Drop,
            }
        })
    }

    fn remember(&mut self, name: &str, annotations: Vec<Annotation>) {
        if annotations.is_empty() {
            self.annotated.remove(name);
        } else if name.len() <= MAX_ID
            && (self.annotated.len() < MOST || self.annotated.contains_key(name))
        {
            self.annotated.insert(name.into(), annotations);
        }
    }

    /// The headers for a call. `said` are those that its client sent, if it
    /// could send any: they are checked where the tool is known, else passed on (HDR-13).
    pub(super) fn headers(
        &self,
        call: &Message,
        said: &HeaderParams,
    ) -> Result<Vec<Header>, Mismatch> {
        let name = call.name().filter(|_| call.method() == method::CALL_TOOL);
        let Some(annotations) = name.and_then(|name| self.annotated.get(&*name)) else {
            return Ok(said.clone().unwrap_or_default());
        };
        let arguments = call.value(Member::Arguments);
        if let Some(said) = said {
            let said: HeaderMap = said.iter().cloned().collect();
            param::check(annotations, arguments.as_ref(), &said)?;
        }
        Ok(param::headers(annotations, arguments.as_ref()))
    }
}

/// Pages of a list that are read for one call. A server that has more may have no end.
const PAGES: usize = 100;

/// A call that lacked a header, and what the server said to it. It is sent again once the
/// tools are listed.
#[derive(Debug)]
pub(super) struct HeaderRetry {
    pub(super) request: Message,
    pub(super) answer: Message,
    pub(super) pages: usize,
}

impl HeaderRetry {
    /// Asks for the page after this one, unless the tool is on it or there is none.
    pub(super) fn next_page(&mut self, page: &Message) -> Option<Message> {
        let cursor = page.next_cursor()?;
        let name = Some(self.request.name().unwrap_or_default());
        self.pages += 1;
        if self.pages >= PAGES || page.items(Member::Tools).any(|it| it.string("name") == name) {
            return None;
        }
        Some(self.list(Some(cursor)))
    }

    /// Asks for a page of the list, under the envelope of the call.
    pub(super) fn list(&self, cursor: Option<&[u8]>) -> Message {
        let envelope = self.request.get(Member::Meta).unwrap_or(b"{}");
        page_of_tools(cursor).with(Member::Meta, Bytes::copy_from_slice(envelope))
    }
}
