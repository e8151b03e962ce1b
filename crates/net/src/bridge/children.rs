//! Who shares a connection to the server with whom.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Carrier, Exchange};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method::{self, meta};
use switchboard_proto::patch;
use switchboard_proto::revision::Era;

use crate::face::Face;

/// How many connections to the server there are, and who shares them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Children {
    /// One for each legacy session; modern clients share one, for each of
    /// their requests stands alone (GW-81). A legacy server knows nothing of
    /// that: there, those share one who can do the same (GW-41).
    #[default]
    PerSession,
    /// One for all clients of an era. Safe if the server keeps nothing about a session.
    Shared,
    /// One for each call.
    PerRequest,
}

/// Who goes by a connection: all clients of an era, modern clients that are
/// alike, one client, or one call of it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Whose {
    All(Era),
    Alike(u64),
    Client(u64),
    Call(u64, Exchange),
}

impl Children {
    /// Who goes by the connection that a call goes by, to a server of this era.
    pub(super) fn whose(
        self,
        face: &Face,
        exchange: Exchange,
        request: &Message,
        server: Era,
    ) -> Whose {
        let greets = request.method() == method::INITIALIZE;
        match (self, face.era()) {
            (Self::Shared, era) => Whose::All(era),
            (Self::PerRequest, _) if !greets => Whose::Call(face.number(), exchange),
            (Self::PerSession, Era::Modern) if server == Era::Modern => Whose::All(Era::Modern),
            (Self::PerSession, Era::Modern) if face.carrier() == Carrier::Http => {
                Whose::Alike(likeness(face, request))
            }
            (Self::PerSession | Self::PerRequest, _) => Whose::Client(face.number()),
        }
    }
}

/// The same for requests of the same principal that declare the same (GW-41).
fn likeness(face: &Face, request: &Message) -> u64 {
    let params = request.payload().unwrap_or_default();
    let declared = patch::get(params, &["_meta", meta::CAPABILITIES]).unwrap_or_default();
    // However it is written.
    let declared: Value = serde_json::from_slice(declared).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    declared.to_string().hash(&mut hasher);
    face.principal().hash(&mut hasher);
    hasher.finish()
}

impl Whose {
    /// Whether calls of this client may go by it.
    pub(super) fn serves(self, face: &Face) -> bool {
        match self {
            Self::All(era) => era == face.era(),
            Self::Alike(_) => face.era() == Era::Modern,
            Self::Client(number) | Self::Call(number, _) => number == face.number(),
        }
    }

    /// Whether several clients go by it.
    pub(super) fn sharing(self) -> Sharing {
        match self {
            Self::All(_) | Self::Alike(_) => Sharing::Shared,
            Self::Client(_) | Self::Call(..) => Sharing::Alone,
        }
    }
}
