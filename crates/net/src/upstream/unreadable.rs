//! What a server says that cannot be read. If it answers a call, that call fails
//! at once, instead of waiting for its whole time.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use switchboard_proto::client::ClientHalf;
use switchboard_proto::exchange::Lane;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{self, Answered, InvalidMessage, Message};

use super::Upstream;
use super::http::lane_of;
use crate::call::Call;
use crate::face::{lock, now};
use crate::inside::Works;

impl Upstream {
    /// `text` is no message, but may be torn and hold one.
    pub(super) fn handle_unreadable(
        self: &Arc<Self>,
        lane: Lane,
        text: &Bytes,
        refused: &InvalidMessage,
    ) -> Works {
        self.count_bytes(text.len());
        self.tell_unreadable(format_args!("skipped what is no message: {refused}"));
        let mut works = Works::none();
        for message in jsonrpc::parse_torn(text) {
            works.append(self.handle_message(lane, &message));
        }
        let why = Failure::Unreadable { why: refused.why.clone() };
        works.append(self.fail_answered(lane, jsonrpc::answered(text, false), &why));
        works
    }

    /// A message was longer than `limit`, and began with `head`.
    pub(super) fn handle_too_long(self: &Arc<Self>, lane: Lane, head: &[u8], limit: usize) {
        self.count_bytes(limit);
        self.tell_unreadable(format_args!("skipped a message longer than {limit} bytes"));
        self.fail_answered(lane, jsonrpc::answered(head, true), &too_long(limit)).detach();
    }

    /// Fails the call that was answered. The stream of a POST belongs to one
    /// call, whatever id is said on it.
    fn fail_answered(self: &Arc<Self>, lane: Lane, answered: Answered, why: &Failure) -> Works {
        let fail = |half: &mut ClientHalf<Call>, now| {
            let lane = match answered {
                Answered::Nothing => return,
                _ if lane != Lane::MAIN => Some(lane),
                Answered::Call(id) => lane_of(&id),
                Answered::Unknown => half.only_call(),
            };
            match lane {
                Some(lane) => half.handle_unanswered(lane, why, now),
                None if half.calls() == 0 => {}
                None => self.tell_unreadable(format_args!(
                    "it does not say which of {} open calls it answers: they go on waiting",
                    half.calls()
                )),
            }
        };
        self.step(fail).1
    }

    /// Logs what cannot be read, but no line for each of a thousand.
    fn tell_unreadable(&self, text: fmt::Arguments<'_>) {
        let more = lock(&self.unreadable).handle_line(now());
        if let Some(more) = more {
            tracing::warn!(server = self.name, "{text}{more}");
        }
    }

    /// Logs why a call failed, where its client is not told all of it.
    pub(super) fn tell_details(&self, why: &Failure) {
        if self.server.is_discreet() && why.brief() != why.to_string() {
            tracing::warn!(server = self.name, "{why}");
        }
    }

    /// Logs that a message that wants no answer was not delivered, with the same restraint.
    pub(super) fn tell_undelivered(&self, message: &Message, why: &Failure) {
        let more = lock(&self.undelivered).handle_line(now());
        if let Some(more) = more {
            let method = message.method();
            tracing::warn!(server = self.name, method, "not delivered: {why}{more}");
        }
    }
}

/// Why a call failed whose answer was longer than `limit`.
pub(super) fn too_long(limit: usize) -> Failure {
    Failure::TooLarge { what: "answer", limit }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use switchboard_proto::client::Sharing;
    use switchboard_proto::revision::Era;

    use super::*;
    use crate::stdio::child::Command;
    use crate::upstream::Server;

    fn upstream() -> Arc<Upstream> {
        let server = Server::command(Command::new("none"), Vec::new());
        Upstream::new(server, Era::Legacy, Sharing::Alone, None, Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_writes_garbage_without_end_is_read_slowly() {
        for is_too_long in [false, true] {
            let up = upstream();
            let begun = tokio::time::Instant::now();
            for _ in 0..11_000 {
                if is_too_long {
                    up.handle_too_long(Lane::MAIN, b"garbage", 1 << 10);
                    up.pace().await;
                } else {
                    up.handle_piped(Bytes::from_static(b"garbage")).await;
                }
            }
            assert!(begun.elapsed() >= std::time::Duration::from_millis(100), "{is_too_long}");
        }
    }
}
