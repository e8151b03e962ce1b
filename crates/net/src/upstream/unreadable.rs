//! What a server says that cannot be read. If it answers a call, that call fails
//! at once, instead of waiting for its whole time.

use std::sync::Arc;

use bytes::Bytes;
use switchboard_proto::client::Half;
use switchboard_proto::exchange::Lane;
use switchboard_proto::jsonrpc::{self, Answered, Refused};
use switchboard_proto::refusal::Refusal;

use super::http::lane_of;
use super::{Seat, Upstream};
use crate::inside::Works;

impl Upstream {
    /// `text` is no message, but may be torn and hold one.
    pub(super) fn handle_unreadable(
        self: &Arc<Self>,
        lane: Lane,
        text: &Bytes,
        refused: &Refused,
    ) -> Works {
        tracing::warn!(server = self.name, "skipped what is no message: {refused}");
        let mut works = Works::none();
        for message in jsonrpc::parse_torn(text) {
            works.append(self.handle_message(lane, &message));
        }
        let why = format!("the server's answer cannot be read: {refused}");
        works.append(self.fail_answered(lane, text, why));
        works
    }

    /// A message was longer than `limit`, and began with `head`.
    pub(super) fn handle_too_long(self: &Arc<Self>, lane: Lane, head: &[u8], limit: usize) {
        tracing::warn!(server = self.name, "skipped a message longer than {limit} bytes");
        self.fail_answered(lane, head, too_long(limit)).detach();
    }

    /// Fails the call that `text` answers. The stream of a POST belongs to one
    /// call, whatever id is said on it.
    fn fail_answered(self: &Arc<Self>, lane: Lane, text: &[u8], why: String) -> Works {
        let answered = jsonrpc::answered(text);
        let fail = |half: &mut Half<Seat>, now| {
            let lane = match answered {
                Answered::Nothing => return,
                _ if lane != Lane::MAIN => Some(lane),
                Answered::Call(id) => lane_of(&id),
                Answered::Unknown => half.only_call(),
            };
            match lane {
                Some(lane) => half.handle_unanswered(lane, &Refusal::FarSide { text: why }, now),
                None if half.calls() == 0 => {}
                None => tracing::warn!(
                    server = self.name,
                    "it does not say which of {} open calls it answers: they go on waiting",
                    half.calls()
                ),
            }
        };
        self.step(fail).1
    }
}

/// Why a call failed whose answer was longer than `limit`.
pub(super) fn too_long(limit: usize) -> String {
    format!("answer is longer than {limit} bytes")
}
