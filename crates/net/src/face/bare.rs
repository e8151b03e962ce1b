//! A legacy client without a session.

use switchboard_proto::server::ServerHalf;

use super::{Face, lock};

impl Face {
    /// It has no session, and is gone after its first answer. To be said before anything else.
    pub(crate) fn go_bare(&self) {
        if let ServerHalf::Legacy(half) = &mut lock(&self.state).half {
            half.go_bare();
        }
    }

    /// Whether nobody could ever tell it what belongs to no call.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(&lock(&self.state).half, ServerHalf::Legacy(half) if half.is_bare())
    }
}
