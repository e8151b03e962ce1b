//! A call that lacked a header, and the tool list that tells which (HDR-12).

use crate::jsonrpc::{Id, Member, Message};
use crate::method;

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
    pub(super) fn next_page(&mut self, page: &Message) -> Option<Message> {
        let cursor = page.next_cursor()?;
        let name = Some(self.request.name().unwrap_or_default());
        self.pages += 1;
        if self.pages >= PAGES || page.items(Member::Tools).any(|it| it.string("name") == name) {
            return None;
        }
        Some(self.list(Some(cursor)))
    }

    fn list(&self, cursor: Option<&[u8]>) -> Message {
        let envelope = self.request.get(Member::Meta).unwrap_or(b"{}");
        let mut list = [b"{\"_meta\":", envelope].concat();
        if let Some(cursor) = cursor {
            list.extend_from_slice(b",\"cursor\":");
            list.extend_from_slice(cursor);
        }
        list.push(b'}');
        Message::request(&Id::from(0), method::LIST_TOOLS, Some(&list))
    }
}
