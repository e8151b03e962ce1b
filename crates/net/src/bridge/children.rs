//! Who shares a connection to the server with whom.

use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::revision::Era;

use crate::face::Face;

/// How many connections to the server there are, and who shares them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Children {
    /// One for each legacy session; modern clients share one, for each of
    /// their requests stands alone (GW-81).
    #[default]
    PerSession,
    /// One for all clients of an era. Safe if the server keeps nothing about a session.
    Shared,
    /// One for each call.
    PerRequest,
}

/// Who goes by a connection: all clients of an era, one client, or one call of it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Whose {
    All(Era),
    Client(u64),
    Call(u64, Exchange),
}

impl Children {
    /// Who goes by the connection that a call goes by.
    pub(super) fn whose(self, face: &Face, exchange: Exchange, request: &Message) -> Whose {
        let greets = request.method() == method::INITIALIZE;
        match (self, face.era()) {
            (Self::Shared, era) | (Self::PerSession, era @ Era::Modern) => Whose::All(era),
            (Self::PerRequest, _) if !greets => Whose::Call(face.number(), exchange),
            (Self::PerSession | Self::PerRequest, _) => Whose::Client(face.number()),
        }
    }
}

impl Whose {
    /// Whether calls of this client may go by it.
    pub(super) fn serves(self, face: &Face) -> bool {
        match self {
            Self::All(era) => era == face.era(),
            Self::Client(number) | Self::Call(number, _) => number == face.number(),
        }
    }
}
