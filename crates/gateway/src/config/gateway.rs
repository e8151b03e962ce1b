//! What a file says about the gateway itself: its section `switchboard`.

use std::sync::Arc;

use switchboard_proto::limits::Limits;

use super::entry::Timeouts;
use super::expand::Variables;
use super::key::{Meaning, Ours, find, meaning, nearest};
use super::reader::Reader;
use super::settings::Settings;
use super::tree::{Key, Node, Value};
use super::{Problem, SourceLocation, Surroundings};
use crate::policy::Principal;

pub(super) use access::{MEMBERS as KEY_MEMBERS, Member as AccessMember};

mod access;

/// A section `switchboard`; the default is that there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewaySection {
    /// Where clients find us.
    pub listen: Listen,
    /// Bounds.
    pub bounds: GatewayBounds,
    /// When clients search for tools rather than list them.
    pub search: Option<ToolSearch>,
    /// Whether the gateway has tools of its own.
    pub diagnostics: Option<bool>,
    /// Sets of servers.
    pub groups: Vec<Placed<Group>>,
    /// Who has a key.
    pub keys: Vec<Placed<Arc<Principal>>>,
    /// What clients without a key may use.
    pub anonymous: Anonymous,
    /// The servers and groups that are granted by name, to keys and to clients without one.
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

/// What clients without a key may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Anonymous {
    /// Not said: everything if there are no keys, else nothing.
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
    pub place: SourceLocation,
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
pub struct GatewayBounds {
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

impl GatewayBounds {
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

/// What the section is called.
pub(in crate::config) const NAME: &str = "switchboard";

/// What a member of the section says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::config) enum Member {
    Anonymous,
    Defaults,
    Diagnostics,
    Groups,
    Host,
    Hosts,
    Keys,
    Limits,
    Origins,
    Port,
    ToolSearch,
    Unauthenticated,
}

/// The members of the section; `snake_case` is as good, for TOML.
pub(in crate::config) const MEMBERS: &[(&str, Member)] = &[
    ("allowUnauthenticated", Member::Unauthenticated),
    ("allowedHosts", Member::Hosts),
    ("allowedOrigins", Member::Origins),
    ("anonymous", Member::Anonymous),
    ("defaults", Member::Defaults),
    ("diagnostics", Member::Diagnostics),
    ("groups", Member::Groups),
    ("host", Member::Host),
    ("keys", Member::Keys),
    ("limits", Member::Limits),
    ("port", Member::Port),
    ("toolSearch", Member::ToolSearch),
];

/// What a member of `limits` bounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::config) enum Bound {
    Bodies,
    BodiesEach,
    Calls,
    Connections,
    ConnectionsEach,
    Head,
    Message,
    Parked,
    Sessions,
    Streams,
    Unread,
}

/// The members of `limits`.
pub(in crate::config) const BOUNDS: &[(&str, Bound)] = &[
    ("maxBodyBytes", Bound::Bodies),
    ("maxBodyBytesPerKey", Bound::BodiesEach),
    ("maxCalls", Bound::Calls),
    ("maxConnections", Bound::Connections),
    ("maxConnectionsPerAddress", Bound::ConnectionsEach),
    ("maxHeaderBytes", Bound::Head),
    ("maxMessageBytes", Bound::Message),
    ("maxParkedCalls", Bound::Parked),
    ("maxSessions", Bound::Sessions),
    ("maxStreams", Bound::Streams),
    ("maxUnreadBytes", Bound::Unread),
];

/// The keys of a server that `defaults` may have.
pub(in crate::config) const DEFAULTS: &[&str] =
    &["idleTimeout", "maxConcurrency", "process", "startTimeout", "timeout"];

/// The names in a table of keys.
fn names<T>(keys: &[(&'static str, T)]) -> Vec<&'static str> {
    keys.iter().map(|(name, _)| *name).collect()
}

/// Reads the section of a file, if it has one.
pub(in crate::config) fn read(
    tree: &Node,
    around: &Surroundings,
    problems: &mut Vec<Problem>,
) -> GatewaySection {
    let mut gateway = GatewaySection::default();
    tell_misnamed(tree, problems);
    let Some(section) = tree.get(NAME) else { return gateway };
    let mut reader = Reader::new(Variables { around, inputs: tree.get("inputs"), braces: false });
    let key = Key { text: NAME.to_owned(), place: section.place.clone() };
    for (key, node) in members(&mut reader, &key, section) {
        match find(MEMBERS, &key.text) {
            Some(member) => gateway.member(member, &mut reader, key, node),
            None => reader.unknown(key, &names(MEMBERS)),
        }
    }
    problems.append(&mut reader.problems);
    gateway
}

/// A section that is not read may be about who must not come in.
fn tell_misnamed(tree: &Node, problems: &mut Vec<Problem>) {
    let members = tree.table().unwrap_or_default();
    let last = members.iter().rposition(|(key, _)| key.text == NAME);
    for (at, (key, _)) in members.iter().enumerate() {
        if key.text == NAME {
            if last != Some(at) {
                let what = format!("{NAME:?} is there twice; the last one counts");
                problems.push(Problem::error(&key.place, what, "put all of it into one"));
            }
        } else if nearest(&key.text, [NAME].into_iter()).is_some() {
            let what = format!("{:?} is nearly {NAME:?}, and nothing in it holds", key.text);
            problems.push(Problem::error(&key.place, what, format!("write {NAME:?}")));
        }
    }
}

/// The members of an object; none if it is something else, which is told.
fn members<'t>(reader: &mut Reader<'_>, key: &Key, node: &'t Node) -> &'t [(Key, Node)] {
    let Some(members) = node.table() else {
        reader.wrong(key, node, "write an object: { … }");
        return &[];
    };
    members
}

impl GatewaySection {
    fn member(&mut self, member: Member, reader: &mut Reader<'_>, key: &Key, node: &Node) {
        match member {
            Member::Anonymous => {
                self.anonymous = access::anonymous(reader, key, node, &mut self.granted);
            }
            Member::Defaults => self.defaults = defaults(reader, key, node),
            Member::Diagnostics => self.diagnostics = reader.flag(key, node),
            Member::Groups => self.groups = groups(reader, key, node),
            Member::Host => self.listen.host = reader.text(key, node),
            Member::Hosts => self.listen.hosts = reader.words(key, node).unwrap_or_default(),
            Member::Keys => {
                self.keys = access::keys(reader, key, node, &mut self.granted);
            }
            Member::Limits => self.bounds = bounds(reader, key, node),
            Member::Origins => self.listen.origins = reader.words(key, node).unwrap_or_default(),
            Member::Port => self.listen.port = port(reader, key, node),
            Member::ToolSearch => self.search = search(reader, key, node),
            Member::Unauthenticated => {
                self.listen.unauthenticated = reader.flag(key, node).unwrap_or(false);
            }
        }
    }
}

fn port(reader: &mut Reader<'_>, key: &Key, node: &Node) -> Option<u16> {
    let port = reader.scalar(key, node)?.parse().ok();
    if port.is_none() {
        let what = format!("{:?} is no port", key.text);
        reader.error(&node.place, what, "write a number from 0 to 65535; 0 is any free one");
    }
    port
}

fn search(reader: &mut Reader<'_>, key: &Key, node: &Node) -> Option<ToolSearch> {
    match &node.value {
        Value::Bool(true) => Some(ToolSearch::Always),
        Value::Bool(false) => Some(ToolSearch::Never),
        Value::Number(_) => {
            let bound = reader.count(key, node)?;
            Some(ToolSearch::Above(bound.get()))
        }
        _ => {
            reader.wrong(key, node, "write true, false, or the number of tools to search above");
            None
        }
    }
}

fn bounds(reader: &mut Reader<'_>, key: &Key, node: &Node) -> GatewayBounds {
    let mut bounds = GatewayBounds::default();
    for (key, node) in members(reader, key, node) {
        let Some(bound) = find(BOUNDS, &key.text) else {
            reader.unknown(key, &names(BOUNDS));
            continue;
        };
        let field = match bound {
            Bound::Bodies => &mut bounds.bodies,
            Bound::BodiesEach => &mut bounds.bodies_each,
            Bound::Calls => &mut bounds.calls,
            Bound::Connections => &mut bounds.connections,
            Bound::ConnectionsEach => &mut bounds.connections_each,
            Bound::Head => &mut bounds.head,
            Bound::Message => &mut bounds.message,
            Bound::Parked => &mut bounds.parked,
            Bound::Sessions => &mut bounds.sessions,
            Bound::Streams => &mut bounds.streams,
            Bound::Unread => &mut bounds.unread,
        };
        *field = reader.count(key, node).map(usize::from);
    }
    bounds
}

fn defaults(reader: &mut Reader<'_>, key: &Key, node: &Node) -> Defaults {
    let mut defaults = Defaults::default();
    for (key, node) in members(reader, key, node) {
        match meaning(&key.text) {
            Some(Meaning::CallTime) => defaults.timeouts.call = reader.either(key, node),
            Some(Meaning::Ours(Ours::StartTime)) => {
                defaults.timeouts.start = reader.duration(key, node);
            }
            Some(Meaning::Ours(ours @ (Ours::Idle | Ours::MaxCalls | Ours::Process))) => {
                defaults.settings.member(ours, reader, key, node);
            }
            _ => reader.unknown(key, DEFAULTS),
        }
    }
    defaults
}

fn groups(reader: &mut Reader<'_>, key: &Key, node: &Node) -> Vec<Placed<Group>> {
    let mut groups: Vec<Placed<Group>> = Vec::new();
    for (name, node) in members(reader, key, node) {
        if !is_plain(&name.text) {
            let what = format!("{:?} is no name for a group: it is part of a URL", name.text);
            reader.error(&name.place, what, "use letters, digits, _, - and .");
            continue;
        }
        if groups.iter().any(|group| group.value.name == name.text) {
            let what = format!("group {:?} is there twice; the first one counts", name.text);
            reader.error(&name.place, what, "give each its own name");
            continue;
        }
        let servers = reader.placed(name, node);
        let group = Group { name: name.text.clone(), servers };
        groups.push(Placed { place: name.place.clone(), value: group });
    }
    groups
}

/// Whether a name can stand in a URL as it is.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !name.is_empty() && name.chars().all(is_plain) && !name.chars().all(|c| c == '.')
}
