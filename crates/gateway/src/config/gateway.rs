//! What a file says about the gateway itself: its section `switchboard`.

use std::sync::Arc;

use switchboard_proto::limits::Limits;

use super::entry::Timeouts;
use super::problem::Place;
use super::settings::Settings;
use crate::policy::Principal;

mod access;
mod read;

pub(super) use access::{MEMBERS as KEY_MEMBERS, Member as AccessMember};
use read::names;
pub(super) use read::{BOUNDS, Bound, DEFAULTS, MEMBERS, Member, NAME, read};

/// A section `switchboard`; the default is that there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gateway {
    /// Where clients find us.
    pub listen: Listen,
    /// Bounds.
    pub bounds: Bounds,
    /// When clients search for tools rather than list them.
    pub search: Option<ToolSearch>,
    /// Whether the gateway has tools of its own.
    pub diagnostics: Option<bool>,
    /// Sets of servers.
    pub groups: Vec<Placed<Group>>,
    /// Who has a key.
    pub keys: Vec<Placed<Arc<Principal>>>,
    /// What whoever shows no key may do.
    pub anonymous: Anonymous,
    /// The servers and groups that keys and whoever has none are granted by name.
    pub granted: Vec<Placed<Granted>>,
    /// What holds for every server that does not say otherwise.
    pub defaults: Defaults,
}

/// What a grant names; some files must have it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Granted {
    /// A group, or several by a name with `*`.
    Group(String),
    /// A server, or several by a name with `*`.
    Server(String),
}

/// What whoever shows no key may do.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Anonymous {
    /// Not said: everything if nobody has a key, else nothing.
    #[default]
    Unsaid,
    /// They must show one.
    Nobody,
    /// What this grants.
    Granted(Arc<Principal>),
}

/// What holds for every server that does not say otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    /// How it is treated.
    pub settings: Settings,
    /// How long it may take.
    pub timeouts: Timeouts,
}

/// Something, and where in the file it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed<T> {
    /// Where it is.
    pub place: Place,
    /// What it is.
    pub value: T,
}

/// A set of servers under a name of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Names of servers, or names with `*`.
    pub servers: Vec<Placed<String>>,
}

/// Where clients find us, where the files say so.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listen {
    /// The address to bind.
    pub host: Option<String>,
    /// The port to bind; 0 for any.
    pub port: Option<u16>,
    /// Web pages that may call us, besides those of this machine.
    pub origins: Vec<String>,
    /// Names that we go by, besides those of this machine.
    pub hosts: Vec<String>,
    /// Whether other machines may come in without showing who they are.
    pub unauthenticated: bool,
}

/// Bounds that the files may set; those not said keep their defaults.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Bounds {
    /// Bytes of one message.
    pub message: Option<usize>,
    /// Sessions at once.
    pub sessions: Option<usize>,
    /// Streams that one session may hold open.
    pub streams: Option<usize>,
    /// Calls that wait for clients to come back with input.
    pub parked: Option<usize>,
    /// Calls that one session may have open.
    pub calls: Option<usize>,
    /// Connections at once.
    pub connections: Option<usize>,
    /// Connections of one address at once.
    pub connections_each: Option<usize>,
    /// Bytes of the head of a request.
    pub head: Option<usize>,
    /// Bytes of requests in flight, of all principals.
    pub bodies: Option<usize>,
    /// Bytes of requests in flight, of one principal.
    pub bodies_each: Option<usize>,
    /// Bytes that clients have not read, of all sessions.
    pub unread: Option<usize>,
}

impl Bounds {
    /// The limits of each conversation, `usual` where nothing is said.
    pub fn limits(&self, usual: &Limits) -> Limits {
        Limits {
            message: self.message.unwrap_or(usual.message),
            streams: self.streams.unwrap_or(usual.streams),
            parked: self.parked.unwrap_or(usual.parked),
            calls: self.calls.unwrap_or(usual.calls),
            ..usual.clone()
        }
    }
}

/// When clients search for tools rather than list them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ToolSearch {
    /// They list them.
    #[default]
    Never,
    /// They search.
    Always,
    /// They search if there are more tools than this.
    Above(usize),
}

impl ToolSearch {
    /// Whether clients search, given how many tools there are.
    pub fn applies(self, tools: usize) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::Above(bound) => tools > bound,
        }
    }
}
