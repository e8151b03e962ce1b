//! A call that lacked a header, and the tool list that tells which (HDR-12).

use serde_json::Value;

use crate::jsonrpc::{Id, Message};
use crate::method;
use crate::patch;

/// Pages of a list that are read for one call. A server that has more may have no end.
const PAGES: usize = 100;

/// The call, and what the server said to it.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) request: Message,
    pub(super) answer: Message,
    pages: usize,
}

impl Refused {
    pub(super) fn new(request: Message, answer: Message) -> Self {
        Self { request, answer, pages: 0 }
    }

    /// Asks for the beginning of the list, under the envelope of the call.
    pub(super) fn first_page(&self) -> Message {
        self.list(None)
    }

    /// Asks for the page after this one, unless the tool is on it or there is none.
    pub(super) fn next_page(&mut self, page: &[u8]) -> Option<Message> {
        let cursor =
            patch::get(page, &["nextCursor"]).filter(|cursor| cursor.starts_with(b"\""))?;
        let page: Value = serde_json::from_slice(page).ok()?;
        let params = self.request.payload().unwrap_or_default();
        let name = patch::string(params, &["name"]).unwrap_or_default();
        let mut tools = page["tools"].as_array().into_iter().flatten();
        self.pages += 1;
        if self.pages >= PAGES || tools.any(|tool| tool["name"] == *name) {
            return None;
        }
        Some(self.list(Some(cursor)))
    }

    fn list(&self, cursor: Option<&[u8]>) -> Message {
        let params = self.request.payload().unwrap_or_default();
        let envelope = patch::get(params, &["_meta"]).unwrap_or(b"{}");
        let mut list = [b"{\"_meta\":", envelope].concat();
        if let Some(cursor) = cursor {
            list.extend_from_slice(b",\"cursor\":");
            list.extend_from_slice(cursor);
        }
        list.push(b'}');
        Message::request(&Id::from(0), method::LIST_TOOLS, Some(&list))
    }
}
