//! Who shares a connection to the server with whom.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use http::HeaderMap;
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
    /// One for each principal; like those of [`Children::PerSession`] otherwise.
    PerUser,
    /// Like [`Children::PerSession`], with so many children started ahead.
    Pool(usize),
}

/// Who goes by a connection: all clients of an era, those of one user, modern
/// clients that are alike, one client, or one call of it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Whose {
    All(Era),
    User(Era, u64),
    /// By who they are, and by what they can do besides.
    Alike(u64, u64),
    Client(u64),
    Call(u64, Exchange),
}

impl Children {
    /// Who goes by the connection that a call goes by, to a server of this era.
    /// What is passed on of a client's headers is shown by no other's connection.
    pub(super) fn whose(
        self,
        face: &Face,
        exchange: Exchange,
        request: &Message,
        server: Era,
        passed: &HeaderMap,
    ) -> Whose {
        let greets = request.method() == method::INITIALIZE;
        let era = face.era();
        let together = || {
            let is_user = self == Self::PerUser || !passed.is_empty();
            if is_user { Whose::User(era, user(face, passed)) } else { Whose::All(era) }
        };
        match (self, era) {
            (Self::PerRequest, _) if !greets => Whose::Call(face.number(), exchange),
            (Self::Shared, _) | (Self::PerUser, Era::Legacy) => together(),
            (Self::PerRequest, _) | (_, Era::Legacy) => Whose::Client(face.number()),
            (_, Era::Modern) if server == Era::Modern => together(),
            (_, Era::Modern) if face.carrier() == Carrier::Http => {
                Whose::Alike(user(face, passed), likeness(face, request, passed))
            }
            (_, Era::Modern) => Whose::Client(face.number()),
        }
    }

    /// Whether clients with sessions share a connection.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::PerUser)
    }
}

/// The same for clients of the same principal that pass on the same.
fn user(face: &Face, passed: &HeaderMap) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash_user(face, passed, &mut hasher);
    hasher.finish()
}

fn hash_user(face: &Face, passed: &HeaderMap, hasher: &mut DefaultHasher) {
    face.principal().hash(hasher);
    // In the order in which the server's plan names them.
    for (name, value) in passed {
        name.hash(hasher);
        value.hash(hasher);
    }
}

/// The same for requests of the same principal that declare the same (GW-41).
fn likeness(face: &Face, request: &Message, passed: &HeaderMap) -> u64 {
    let params = request.payload().unwrap_or_default();
    let declared = patch::get(params, &["_meta", meta::CAPABILITIES]).unwrap_or_default();
    // However it is written.
    let declared: Value = serde_json::from_slice(declared).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    declared.to_string().hash(&mut hasher);
    hash_user(face, passed, &mut hasher);
    hasher.finish()
}

impl Whose {
    /// Whether calls of this client may go by it.
    pub(super) fn serves(self, face: &Face) -> bool {
        match self {
            Self::All(era) | Self::User(era, _) => era == face.era(),
            Self::Alike(..) => face.era() == Era::Modern,
            Self::Client(number) | Self::Call(number, _) => number == face.number(),
        }
    }

    /// Whether it is there for as long as somebody uses it, and no longer.
    pub(super) fn is_swept(self) -> bool {
        matches!(self, Self::User(..) | Self::Alike(..))
    }

    /// Whether several clients go by it.
    pub(super) fn sharing(self) -> Sharing {
        match self {
            Self::All(_) | Self::User(..) | Self::Alike(..) => Sharing::Shared,
            Self::Client(_) | Self::Call(..) => Sharing::Alone,
        }
    }
}
