//! Which arguments of which tool are repeated as headers, learned from passing lists.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memmem;

use crate::header::Mismatch;
use crate::header::param::{self, Annotation};
use crate::jsonrpc::{Fate, Member, Message};
use crate::limits::MAX_ID;
use crate::method;

/// Annotated tools to remember. A server with more is told apart by the retry of HDR-12.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Tools {
    annotated: BTreeMap<Box<str>, Vec<Annotation>>,
}

/// What can be said about the headers of a call.
#[derive(Debug)]
pub(super) enum Known<'a> {
    /// The tool repeats these arguments.
    Annotated(&'a [Annotation]),
    /// Not seen in any list.
    Unheard,
}

impl Tools {
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
                    Fate::Keep
                }
                Err(_) => Fate::Drop,
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

    fn known(&self, request: &Message) -> Known<'_> {
        let name = request.name().filter(|_| request.method() == method::CALL_TOOL);
        match name.and_then(|name| self.annotated.get(&*name)) {
            Some(annotations) => Known::Annotated(annotations),
            None => Known::Unheard,
        }
    }

    /// The headers for a call. `said` are those that its client sent, if it
    /// could send any: they are checked where the tool is known, else passed on (HDR-13).
    pub(super) fn headers(
        &self,
        request: &Message,
        said: Option<&[(HeaderName, HeaderValue)]>,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, Mismatch> {
        let Known::Annotated(annotations) = self.known(request) else {
            return Ok(said.map(<[_]>::to_vec).unwrap_or_default());
        };
        let arguments = request.value(Member::Arguments);
        if let Some(said) = said {
            let said: HeaderMap = said.iter().cloned().collect();
            param::check(annotations, arguments.as_ref(), &said)?;
        }
        Ok(param::headers(annotations, arguments.as_ref()))
    }
}
