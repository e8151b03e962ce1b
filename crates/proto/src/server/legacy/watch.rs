//! The resources that one client wants to hear about.

use super::Legacy;
use crate::exchange::Exchange;
use crate::jsonrpc::Message;
use crate::method;
use crate::watch::Watcher;

/// Who watches: here there is only one.
pub(super) const SELF: u64 = 0;

impl Legacy {
    /// Whether a resource can be watched, if a request asks for that.
    pub(super) fn has_room_to_watch(&self, request: &Message) -> bool {
        if request.method() != method::SUBSCRIBE {
            return true;
        }
        request
            .uri()
            .is_none_or(|uri| self.watched.have_room(std::iter::once(&*uri), Watcher::alone(SELF)))
    }

    /// Remembers which resources the client wants to hear about: the one that it
    /// asks for now, if it does.
    pub(super) fn note_watching(
        &mut self,
        exchange: Exchange,
        request: &Message,
    ) -> Option<Box<str>> {
        match request.method() {
            method::SUBSCRIBE if self.only_watched => {
                let uri = request.uri()?;
                self.watched.ask(&uri, Watcher::alone(SELF), exchange.0);
                return Some(uri.into());
            }
            method::UNSUBSCRIBE if self.only_watched => {
                self.watched.remove(&request.uri()?, SELF);
            }
            _ => {}
        }
        None
    }

    /// Whether it is an update of something that only others watch. What lies
    /// beneath a watched resource is watched with it (SUB-13).
    pub(super) fn is_for_others(&self, message: &Message) -> bool {
        if !self.only_watched || message.method() != method::UPDATED {
            return false;
        }
        let watches = |uri: &str| self.watched.uris().any(|watched| covers(watched, uri));
        !message.uri().is_some_and(|uri| watches(&uri))
    }
}

/// Whether `uri` is `watched` or lies beneath it; `file:///ab` is not beneath `file:///a`.
pub(crate) fn covers(watched: &str, uri: &str) -> bool {
    uri.strip_prefix(watched).is_some_and(|rest| {
        rest.is_empty() || watched.ends_with('/') || rest.starts_with(['/', '?', '#'])
    })
}
