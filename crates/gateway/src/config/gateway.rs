//! What a file says about the gateway itself: its section `switchboard`.

use std::sync::Arc;

use http::Uri;
use switchboard_net::http::fetch::AddressRange;
use switchboard_proto::limits::Limits;

use super::entry::EntryDraft;
use super::key::{self, FileKey, find, key, names, nearest};
use super::reader::Reader;
use super::schema::{
    CONSOLE, COUNT, FLAG, FLAG_OR_COUNT, FLAG_OR_GRANT, GROUPS_OF_SERVERS, KEY_HASH, KEYS_BY_NAME,
    LIMITS, PORT_NUMBER, RATE, SERVER_DEFAULTS, TEXT, TOKEN_ACCESS, TOOL_CHANGES, URL,
    WORD_OR_WORDS, WORDS,
};
use super::settings::ServerOptions;
use super::tls::IdentityFiles;
use super::token_access;
use super::tree::{KeyValue, MemberKey, Node, Placed, Value};
use crate::policy::{KeyHash, MIN_KEY, Principal};
use crate::token::TokenAccess;

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
    /// What becomes of tools that changed since they were approved.
    pub tool_changes: Option<ToolChanges>,
    /// Whether people have a console, and what they may do there.
    pub console: Option<ConsoleMode>,
    /// Sets of servers.
    pub groups: Vec<Group>,
    /// Who has a key.
    pub keys: Vec<Arc<Principal>>,
    /// What clients without a key may use.
    pub anonymous: Anonymous,
    /// The servers and groups that are granted by name, to keys and to clients without one.
    pub granted: Vec<Granted>,
    /// What holds for every server that does not say otherwise.
    pub defaults: ServerOptions,
    /// Where clients find us from outside.
    pub public_url: Option<String>,
    /// Proxies in front of it, whose word on where clients find us counts.
    pub trusted_proxies: Option<Vec<AddressRange>>,
    /// Whose access tokens are accepted.
    pub oauth: Option<TokenAccess>,
}

/// What a grant names; some files must have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    /// Whether it is a group; else it is a server.
    pub is_group: bool,
    /// Its name, or that of several with `*`.
    pub name: Placed<String>,
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
    /// What clients are shown over TLS; none for plain HTTP.
    pub tls: Option<IdentityFiles>,
    /// The port of the console, if it is not that of the clients.
    pub console_port: Option<u16>,
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
    /// Takes what it does not say from `other`.
    pub(crate) fn fill_in(&mut self, other: &Self) {
        let mut other = *other;
        for bound in BOUNDS {
            let field = (bound.read)(self);
            *field = field.or(*(bound.read)(&mut other));
        }
    }

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

/// What becomes of tools that changed since they were first seen or approved.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ToolChanges {
    /// People see it.
    #[default]
    Show,
    /// Clients do not get them until somebody says yes.
    Refuse,
}

/// What people may do in the console.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ConsoleMode {
    /// There is none.
    Off,
    /// They look.
    Read,
    /// They look, and change what they may.
    #[default]
    Write,
}

/// What the section is called.
pub(super) const NAME: &str = "switchboard";

/// How a key of a part of the section is read.
pub(super) type ReadInto<T> = fn(&mut T, &mut Reader<'_>, KeyValue<'_>);

/// The keys of the section.
pub(super) const KEYS: &[FileKey<ReadInto<GatewaySection>>] = &[
    key(
        &["allowUnauthenticated"],
        FLAG,
        "Whether clients on other machines may connect without a key.",
        |it, reader, at| it.listen.unauthenticated = reader.flag(at).unwrap_or(false),
    ),
    key(
        &["allowedHosts"],
        WORDS,
        "Host names that the gateway accepts in requests.",
        |it, reader, at| it.listen.hosts = reader.words(at).unwrap_or_default(),
    ),
    key(
        &["allowedOrigins"],
        WORDS,
        "Origins of web pages that may call the gateway.",
        |it, reader, at| it.listen.origins = reader.words(at).unwrap_or_default(),
    ),
    key(
        &["anonymous"],
        FLAG_OR_GRANT,
        "What clients without a key may use; false to require a key.",
        |it, reader, at| it.anonymous = anonymous(reader, at),
    ),
    key(
        &["console"],
        CONSOLE,
        "Whether people find a console at /console/: true, false, or \"read\" for one that changes \
         nothing; { \"port\": … } for one at a port of its own.",
        |it, reader, at| it.console = console(it, reader, at),
    ),
    key(&["defaults"], SERVER_DEFAULTS, "", |it, reader, at| {
        it.defaults = defaults(reader, at);
    }),
    key(
        &["diagnostics"],
        FLAG,
        "Whether clients get get_tool_manifest and get_trace_by_id.",
        |it, reader, at| it.diagnostics = reader.flag(at),
    ),
    key(
        &["groups"],
        GROUPS_OF_SERVERS,
        "Sets of servers, each at /groups/<name>/mcp.",
        |it, reader, at| it.groups = groups(reader, at),
    ),
    key(&["host"], TEXT, "The address to listen on.", |it, reader, at| {
        it.listen.host = reader.text(at);
    }),
    key(
        &["keys"],
        KEYS_BY_NAME,
        "The keys of clients, by the name of the user or program.",
        |it, reader, at| it.keys = principals(reader, at),
    ),
    key(&["limits"], LIMITS, "", |it, reader, at| {
        for (key, node) in reader.members(at, OBJECT) {
            match find(BOUNDS, &key.value) {
                Some(bound) => {
                    *(bound.read)(&mut it.bounds) = reader.count((key, node)).map(usize::from);
                }
                None => reader.unknown(key, &names(BOUNDS)),
            }
        }
    }),
    key(
        &["oauth"],
        TOKEN_ACCESS,
        "Access tokens that let clients in, beside keys.",
        |it, reader, at| {
            it.oauth = Some(token_access::read(reader, at));
        },
    ),
    key(&["port"], PORT_NUMBER, "The port to listen on; 0 picks a free one.", |it, reader, at| {
        it.listen.port = port(reader, at);
    }),
    key(
        &["publicUrl"],
        URL,
        "The URL that clients reach the gateway by, without /mcp.",
        |it, reader, at| it.public_url = public_url(reader, at),
    ),
    key(
        &["tlsCert"],
        TEXT,
        "A PEM file with the certificate of the gateway, and those that vouch for it: serves https.",
        |it, reader, at| {
            let Some(file) = reader.placed_text(at) else { return };
            let certificate = reader.path_beside(file);
            // One file may have both.
            let key = it.listen.tls.take().map_or_else(|| certificate.clone(), |tls| tls.key);
            it.listen.tls = Some(IdentityFiles { certificate, key });
        },
    ),
    key(
        &["tlsKey"],
        TEXT,
        "A PEM file with the private key of tlsCert; left out if that file has it.",
        |it, reader, at| {
            let Some(file) = reader.placed_text(at) else { return };
            let key = reader.path_beside(file);
            let certificate = it.listen.tls.take().map(|tls| tls.certificate).unwrap_or_default();
            it.listen.tls = Some(IdentityFiles { certificate, key });
        },
    ),
    key(
        &["toolChanges"],
        TOOL_CHANGES,
        "What becomes of a tool or prompt that changed since it was first seen or approved: \
         \"show\" tells people, \"refuse\" keeps it from clients until it is approved.",
        |it, reader, at| it.tool_changes = tool_changes(reader, at),
    ),
    key(
        &["toolSearch"],
        FLAG_OR_COUNT,
        "Show clients two tools, to search and to call, instead of all tools: true, false, or the \
         number of tools above which to do so.",
        |it, reader, at| it.search = search(reader, at),
    ),
    key(
        &["trustedProxies"],
        WORDS,
        "Addresses of proxies whose X-Forwarded-* and Forwarded headers count, such as 10.0.0.0/8.",
        |it, reader, at| it.trusted_proxies = trusted_proxies(reader, at),
    ),
];

/// A limit, and where it is kept.
type Bound = FileKey<fn(&mut GatewayBounds) -> &mut Option<usize>>;

/// The members of `limits`.
pub(super) const BOUNDS: &[Bound] = &[
    key(&["maxBodyBytes"], COUNT, "Bytes of open requests, of all keys together.", |it| {
        &mut it.bodies
    }),
    key(&["maxBodyBytesPerKey"], COUNT, "Bytes of open requests, of one key.", |it| {
        &mut it.bodies_each
    }),
    key(&["maxCalls"], COUNT, "Calls that one session may have open.", |it| &mut it.calls),
    key(&["maxConnections"], COUNT, "Connections at once.", |it| &mut it.connections),
    key(&["maxConnectionsPerAddress"], COUNT, "Connections of one address at once.", |it| {
        &mut it.connections_each
    }),
    key(&["maxHeaderBytes"], COUNT, "Bytes of the headers of a request; at least 8192.", |it| {
        &mut it.head
    }),
    key(&["maxMessageBytes"], COUNT, "Bytes of one message.", |it| &mut it.message),
    key(&["maxParkedCalls"], COUNT, "Calls that wait for input of their client.", |it| {
        &mut it.parked
    }),
    key(&["maxSessions"], COUNT, "Sessions at once.", |it| &mut it.sessions),
    key(&["maxStreams"], COUNT, "Streams that one session may hold open.", |it| &mut it.streams),
    key(
        &["maxUnreadBytes"],
        COUNT,
        "Bytes of messages that clients have not read yet, of all sessions together.",
        |it| &mut it.unread,
    ),
];

/// The keys of a server that `defaults` may have.
pub(super) const DEFAULTS: &[&str] =
    &["idleTimeout", "maxConcurrency", "process", "startTimeout", "timeout"];

/// The keys of a principal, and of `anonymous`.
pub(super) const PRINCIPAL_KEYS: &[FileKey<ReadInto<Principal>>] = &[
    key(
        &["excludeTools"],
        WORDS,
        "Tools that this key must not use, as <server>__<tool>.",
        |it, reader, at| it.grant.tools.never = reader.words(at).unwrap_or_default(),
    ),
    key(&["groups"], WORDS, "Groups that this key may use.", |it, reader, at| {
        it.grant.groups = Some(granted(reader, at, true));
    }),
    key(
        &["hash"],
        KEY_HASH,
        "The hash that `switchboard key new` prints; a list while a key is replaced.",
        |it, reader, at| it.keys.extend(hashes(reader, at)),
    ),
    key(
        &["includeTools"],
        WORDS,
        "The only tools that this key may use, as <server>__<tool>.",
        |it, reader, at| it.grant.tools.only = reader.words(at),
    ),
    key(&["key"], WORD_OR_WORDS, "The key itself, from a variable: ${VAR}.", |it, reader, at| {
        it.keys.extend(in_clear(reader, at));
    }),
    key(&["maxConcurrency"], COUNT, "Calls that may be open at once.", |it, reader, at| {
        it.calls = reader.count(at).map(usize::from);
    }),
    key(
        &["maxSessions"],
        COUNT,
        "Sessions and listens that may be open at once.",
        |it, reader, at| it.sessions = reader.count(at).map(usize::from),
    ),
    key(
        &["rateLimit"],
        RATE,
        "The rate limit, as calls and a time: 10/s, 60/m, 1000/h.",
        |it, reader, at| match reader.scalar(at).map(|text| text.parse()).transpose() {
            Ok(rate) => it.rate = rate,
            Err(bad) => {
                let instead = "write \"60/m\" for one call a second";
                it.rate = reader.fail(at, format_args!(": {bad}"), instead);
            }
        },
    ),
    key(&["servers"], WORDS, "Servers that this key may use.", |it, reader, at| {
        it.grant.servers = Some(granted(reader, at, false));
    }),
];

/// The names in a list of a grant; they are looked up when all files are read.
fn granted(reader: &mut Reader<'_>, at: KeyValue<'_>, is_group: bool) -> Vec<String> {
    let names = reader.placed(at);
    reader.granted.extend(names.iter().map(|name| Granted { is_group, name: name.clone() }));
    names.into_iter().map(|name| name.value).collect()
}

/// Reads an object by the table of its keys.
pub(super) fn read_members<T>(
    keys: &[FileKey<ReadInto<T>>],
    into: &mut T,
    reader: &mut Reader<'_>,
    (key, node): KeyValue<'_>,
) {
    for (key, node) in reader.members((key, node), OBJECT) {
        match find(keys, &key.value) {
            Some(known) => (known.read)(into, reader, (key, node)),
            None => reader.unknown(key, &names(keys)),
        }
    }
}

/// Reads the section of a file, if it has one.
pub(super) fn read(tree: &Node, reader: &mut Reader<'_>) -> GatewaySection {
    let mut gateway = GatewaySection::default();
    tell_misnamed(tree, reader);
    let Some(section) = tree.get(NAME) else { return gateway };
    let key = MemberKey { place: section.place.clone(), value: NAME.to_owned() };
    read_members(KEYS, &mut gateway, reader, (&key, section));
    let is_key_alone = |tls: &IdentityFiles| tls.certificate.as_os_str().is_empty();
    if gateway.listen.tls.as_ref().is_some_and(is_key_alone) {
        let what = "\"tlsKey\" is there without \"tlsCert\"".to_owned();
        reader.error(&section.place, what, "add \"tlsCert\": the certificate of the key");
    }
    gateway.granted = std::mem::take(&mut reader.granted);
    gateway
}

/// A section that is not read may be about who must not come in.
fn tell_misnamed(tree: &Node, reader: &mut Reader<'_>) {
    let members = tree.table().unwrap_or_default();
    let last = members.iter().rposition(|(key, _)| key.value == NAME);
    for (at, (key, _)) in members.iter().enumerate() {
        if key.value == NAME {
            if last != Some(at) {
                let what = format!("{NAME:?} is there twice; the last one counts");
                reader.error(&key.place, what, "put all of it into one");
            }
        } else if nearest(&key.value, [NAME].into_iter()).is_some() {
            let what = format!("{:?} is nearly {NAME:?}, and nothing in it holds", key.value);
            reader.error(&key.place, what, format!("write {NAME:?}"));
        }
    }
}

/// What to write where an object is wanted.
pub(super) const OBJECT: &str = "write an object: { … }";

fn port(reader: &mut Reader<'_>, at: KeyValue<'_>) -> Option<u16> {
    let port = reader.scalar(at)?.parse().ok();
    let instead = "write a number from 0 to 65535; 0 is any free one";
    port.or_else(|| reader.fail(at, " is no port", instead))
}

/// Any http URL: behind a proxy the gateway may be anywhere.
fn public_url(reader: &mut Reader<'_>, at: KeyValue<'_>) -> Option<String> {
    let url = reader.text(at)?;
    let instead = "write a URL such as https://mcp.example.com";
    read_public_url(&url).or_else(|| reader.fail(at, " is no such URL", instead))
}

/// A URL that clients may reach us by, without the slash at its end; none if it cannot be one.
pub fn read_public_url(url: &str) -> Option<String> {
    let is_web =
        |url: &Uri| matches!(url.scheme_str(), Some("http" | "https")) && url.query().is_none();
    let is_right = url.parse().is_ok_and(|url: Uri| is_web(&url)) && !url.contains(['#', '"']);
    is_right.then(|| url.trim_end_matches('/').to_owned())
}

fn trusted_proxies(reader: &mut Reader<'_>, at: KeyValue<'_>) -> Option<Vec<AddressRange>> {
    let words = reader.words(at)?;
    let ranges = words.iter().map(|word| word.parse::<AddressRange>()).collect::<Result<_, _>>();
    ranges.map_or_else(|bad| reader.fail(at, " has no address", bad.to_string()), Some)
}

fn search(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> Option<ToolSearch> {
    match &node.value {
        Value::Bool(true) => Some(ToolSearch::Always),
        Value::Bool(false) => Some(ToolSearch::Never),
        Value::Number(_) => Some(ToolSearch::Above(reader.count((key, node))?.get())),
        _ => reader.wrong((key, node), "write true, false, or the number of tools to search above"),
    }
}

fn tool_changes(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> Option<ToolChanges> {
    match node.text() {
        Some("show") => Some(ToolChanges::Show),
        Some("refuse") => Some(ToolChanges::Refuse),
        _ => reader.wrong((key, node), "write \"show\" or \"refuse\""),
    }
}

/// The keys of `console` that is an object.
pub(super) const CONSOLE_KEYS: &[FileKey<ReadInto<ConsoleSection>>] = &[
    key(
        &["port"],
        PORT_NUMBER,
        "The port of the console; 0 picks a free one.",
        |it, reader, at| {
            it.port = port(reader, at);
        },
    ),
    key(&["readOnly"], FLAG, "Whether the console changes nothing.", |it, reader, at| {
        it.is_read_only = reader.flag(at).unwrap_or(false);
    }),
];

/// What `console` says of itself.
#[derive(Default)]
pub(super) struct ConsoleSection {
    port: Option<u16>,
    is_read_only: bool,
}

fn console(
    gateway: &mut GatewaySection,
    reader: &mut Reader<'_>,
    (key, node): KeyValue<'_>,
) -> Option<ConsoleMode> {
    match &node.value {
        Value::Table(_) => {
            let mut section = ConsoleSection::default();
            read_members(CONSOLE_KEYS, &mut section, reader, (key, node));
            gateway.listen.console_port = section.port;
            Some(if section.is_read_only { ConsoleMode::Read } else { ConsoleMode::Write })
        }
        Value::Bool(true) => Some(ConsoleMode::Write),
        Value::Bool(false) => Some(ConsoleMode::Off),
        _ if node.text() == Some("read") => Some(ConsoleMode::Read),
        _ => reader.wrong((key, node), "write true, false, \"read\" or { \"port\": 3002 }"),
    }
}

fn defaults(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> ServerOptions {
    let members = reader.members((key, node), OBJECT);
    let mut draft = EntryDraft::new("", reader);
    for (key, node) in members {
        let known = find(key::KEYS, &key.value);
        match known.filter(|known| DEFAULTS.contains(&known.names[0])) {
            Some(known) => (known.read)(&mut draft, (key, node)),
            None => draft.reader.unknown(key, DEFAULTS),
        }
    }
    draft.options
}

fn groups(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (name, node) in reader.members((key, node), OBJECT) {
        if !is_plain(&name.value) {
            let what = format!("{:?} is no name for a group: it is part of a URL", name.value);
            reader.error(&name.place, what, "use letters, digits, _, - and .");
            continue;
        }
        if groups.iter().any(|group| group.name == name.value) {
            let what = format!("group {:?} is there twice; the first one counts", name.value);
            reader.error(&name.place, what, "give each its own name");
            continue;
        }
        groups.push(Group { name: name.value.clone(), servers: reader.placed((name, node)) });
    }
    groups
}

/// Whether a name can stand in a URL as it is.
pub(super) fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !name.is_empty() && name.chars().all(is_plain) && !name.chars().all(|c| c == '.')
}

const NEW: &str = "make one with: switchboard key new";

/// Everybody with a key, by name.
fn principals(reader: &mut Reader<'_>, at: KeyValue<'_>) -> Vec<Arc<Principal>> {
    let mut keys: Vec<Arc<Principal>> = Vec::new();
    for (name, node) in reader.members(at, OBJECT) {
        let before = reader.problems.len();
        let mut principal = Principal { name: name.value.clone(), ..Principal::default() };
        read_members(PRINCIPAL_KEYS, &mut principal, reader, (name, node));
        if name.value.is_empty() {
            let what = "a key has no name".to_owned();
            reader.error(&name.place, what, "name whoever has it: it is shown in logs");
        }
        if keys.iter().any(|other| other.name == principal.name) {
            let what = format!("key {:?} is there twice; the first one counts", name.value);
            reader.error(&name.place, what, "give each its own name");
            continue;
        }
        if principal.keys.is_empty() && reader.problems.len() == before {
            let what = format!("key {:?} has no hash", name.value);
            reader.error(&name.place, what, format!("add \"hash\": \"sha256:…\"; {NEW}"));
        }
        if reader.has_mistakes(before) {
            // What was to be kept from them cannot be told.
            principal.keys.clear();
        }
        let is_shared = |key: &KeyHash| principal.keys.contains(key);
        if let Some(other) = keys.iter().find(|other| other.keys.iter().any(is_shared)) {
            let what = format!("{:?} has the same key as {:?}", name.value, other.name);
            reader.error(&name.place, what, NEW);
        }
        keys.push(Arc::new(principal));
    }
    keys
}

/// What clients without a key may use: everything, nothing, or a grant.
fn anonymous(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> Anonymous {
    match &node.value {
        Value::Bool(true) => Anonymous::Granted(Arc::default()),
        Value::Bool(false) => Anonymous::Nobody,
        Value::Table(_) => {
            let before = reader.problems.len();
            let mut principal = Principal::default();
            read_members(PRINCIPAL_KEYS, &mut principal, reader, (key, node));
            if reader.problems.len() > before {
                return Anonymous::Nobody;
            }
            if !principal.keys.is_empty() {
                let what = "who is anonymous has no key".to_owned();
                reader.error(&node.place, what, "leave the key out, or put it into \"keys\"");
            }
            Anonymous::Granted(Arc::new(principal))
        }
        _ => {
            let instead = "write true, false, or { \"servers\": [\"…\"] }";
            reader.wrong((key, node), instead).unwrap_or(Anonymous::Nobody)
        }
    }
}

fn hashes(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> Vec<KeyHash> {
    let mut hashes = Vec::new();
    for Placed { place, value } in reader.one_or_more((key, node)) {
        match value.parse() {
            Ok(hash) => hashes.push(hash),
            Err(bad) => reader.error(&place, format!("{:?}: {bad}", key.value), NEW),
        }
    }
    hashes
}

/// Keys that a variable holds. In the file itself everybody reads them.
fn in_clear(reader: &mut Reader<'_>, (key, node): KeyValue<'_>) -> Vec<KeyHash> {
    if node.text().is_some_and(|text| !text.contains("${")) {
        let what = format!("{:?} is in the file for everybody to read", key.value);
        let instead = "write \"hash\": \"sha256:…\", or \"key\": \"${VAR}\"";
        reader.note(&node.place, what, instead);
    }
    let mut hashes = Vec::new();
    for Placed { place, value } in reader.one_or_more((key, node)) {
        if KeyHash::is_weak(&value) {
            let what = format!("{:?} has fewer than {MIN_KEY} characters", key.value);
            reader.error(&place, what, NEW);
        }
        hashes.push(KeyHash::compute(value.trim().as_bytes()));
    }
    hashes
}
