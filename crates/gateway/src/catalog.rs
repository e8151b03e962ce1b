//! What all servers offer, as one list of each kind.
//!
//! ```text
//!   definitions of each server ──▶ names made unique, nothing else touched ──▶ lists, pages
//!                                └▶ tables: whose is this tool, prompt, resource
//! ```
//!
//! Tools and prompts get a name with their server in front ([`offered_name`]).
//! Resources keep their URI, for others refer to it; the first server that has
//! one is the one that is asked for it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use switchboard_net::roster::{Definition, ListKind};
use switchboard_proto::Table;
use switchboard_proto::header::param::{self, Annotation};
use switchboard_proto::jsonrpc::{Member, Message, Part};
use switchboard_proto::method;
use switchboard_proto::pattern::fit_in_order;
use switchboard_proto::refusal::{Refusal, code};
use switchboard_proto::revision::{Era, Revision};

use crate::lock;
use crate::plan::{Edit, ServerPlan};
use crate::search::{Document, Index};

/// Definitions on one page. Many clients read the first page only, so it is a large one.
pub const PAGE: usize = 1000;

/// Where a list says, in its `_meta`, which servers are not in it, or are as they were at an
/// earlier time.
pub const DEFERRED: &str = "switchboard/deferred";

/// What is offered, and whose it is.
#[derive(Debug, Default)]
pub struct Catalog {
    lists: [Vec<ListedItem>; 4],
    /// Whose tool, prompt or resource it is, by what it is offered as.
    owners: [HashMap<String, Owned>; 3],
    templates: Vec<(TemplatePattern, Arc<str>)>,
    /// What is not offered because something else has its place.
    pub(crate) collisions: Vec<Collision>,
    /// What is not offered because it changed since it was approved: tools, prompts.
    held: [HashSet<String>; 2],
    /// The tools that want arguments repeated as headers.
    annotated: HashMap<String, Arc<[Annotation]>>,
    /// Made by the first search.
    seek: OnceLock<Index>,
    /// The bytes of all definitions.
    pub(crate) bytes: usize,
    shown: Mutex<Table<PageKey, Arc<ShownPage>>>,
}

/// The list, where its page begins, and in whose words it is: none are those of the newest.
type PageKey = (ListKind, usize, Option<Revision>);

/// A page as clients see it.
#[derive(Debug)]
pub(crate) struct ShownPage {
    /// Its definitions, as `{"tools":[…]}`.
    pub(crate) text: Bytes,
    pub(crate) next: Option<String>,
}

impl ShownPage {
    /// What follows the brace: members may come before it.
    pub(crate) fn definitions(&self) -> &[u8] {
        self.text.strip_prefix(b"{").unwrap_or_default()
    }
}

/// Pages that are kept as clients see them. Most clients ask for the same few.
const SHOWN_PAGES: usize = 16;

/// Whose something is, and what its server calls it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owned {
    /// The server.
    pub server: Arc<str>,
    /// The name there.
    pub name: String,
}

/// Something that two servers offer under one URI, or one server twice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Collision {
    /// Its URI or name.
    pub name: String,
    /// The server that keeps it.
    pub kept: Arc<str>,
    /// The server whose it is not.
    pub lost: Arc<str>,
}

/// A part of a list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListPage {
    /// The definitions.
    pub items: Vec<Bytes>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// A cursor that was not made here.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("params.cursor is none of ours")]
pub struct BadCursor;

#[derive(Clone, Debug, Eq, PartialEq)]
struct ListedItem {
    server: Arc<str>,
    /// Which one of its server it is.
    index: usize,
    text: Bytes,
}

impl Catalog {
    /// What these are together. The order of the servers is that of their names,
    /// and each has its own within.
    pub fn new(
        definitions: Vec<Definition>,
        plan: impl Fn(&str) -> Option<Arc<ServerPlan>>,
    ) -> Self {
        Self::with_own(definitions, plan, |_| false)
    }

    /// The same, some of which are ours: they are offered whatever a plan hides.
    pub(crate) fn with_own(
        mut definitions: Vec<Definition>,
        plan: impl Fn(&str) -> Option<Arc<ServerPlan>>,
        is_own: impl Fn(&Definition) -> bool,
    ) -> Self {
        definitions.sort_by(|one, other| one.server.cmp(&other.server));
        let mut catalog = Self::default();
        for definition in &definitions {
            if let Some(plan) = plan(&definition.server)
                && (is_own(definition) || plan.filter(definition.kind).lets(&definition.name()))
            {
                catalog.add(&plan, definition);
            }
        }
        catalog
    }

    #[cfg(test)]
    pub(crate) fn plain(definitions: Vec<Definition>) -> Self {
        use switchboard_net::stdio::child::Command;
        use switchboard_net::upstream::Target;

        let target = Target::Command(Command::new("true"));
        Self::new(definitions, |name| Some(ServerPlan::new(name, target.clone()).into()))
    }

    /// The same, and says of these that they changed, to whoever calls them.
    pub(crate) fn holding(
        mut self,
        held: impl Iterator<Item = Definition>,
        plan: impl Fn(&str) -> Option<Arc<ServerPlan>>,
    ) -> Self {
        for it in held {
            let Some(plan) = plan(&it.server) else { continue };
            let own = it.name();
            if let (true, Some(names)) =
                (plan.filter(it.kind).lets(&own), self.held.get_mut(it.kind as usize))
            {
                names.insert(offered_by(&plan, it.kind, &own));
            }
        }
        self
    }

    /// Adds a definition as clients are to see it, if they are.
    fn add(&mut self, plan: &ServerPlan, definition: &Definition) {
        let (server, kind) = (&definition.server, definition.kind);
        let own = definition.name().into_owned();
        let edit = plan.edits(kind).get(&own);
        let edited = edit.and_then(|edit| apply_edit(&definition.text, edit));
        let mut text = edited.unwrap_or_else(|| definition.text.clone());
        if kind == ListKind::Templates {
            self.templates.push((TemplatePattern::new(&own), Arc::clone(server)));
        } else {
            let free = match self.owners[kind as usize].entry(offered_by(plan, kind, &own)) {
                Entry::Vacant(free) => free,
                Entry::Occupied(taken) => {
                    let (name, kept) = (taken.key().clone(), Arc::clone(&taken.get().server));
                    self.collisions.push(Collision { name, kept, lost: Arc::clone(server) });
                    return;
                }
            };
            let annotations = header_annotations(kind, &text);
            if !annotations.is_empty() {
                self.annotated.insert(free.key().clone(), annotations.into());
            }
            let definition = Part::new(&text);
            if kind != ListKind::Resources && definition.get(&["name"]).is_some() {
                text = definition.with_string("name", free.key()).unwrap_or(text);
            }
            free.insert(Owned { server: Arc::clone(server), name: own });
        }
        let list = &mut self.lists[kind as usize];
        let before = list.last().filter(|item| item.server == *server);
        let index = before.map_or(0, |item| item.index + 1);
        self.bytes += text.len();
        list.push(ListedItem { server: Arc::clone(server), index, text });
    }

    /// The capabilities whose lists are others than those of `old`.
    pub(crate) fn changed_lists(&self, old: &Self) -> Vec<&'static str> {
        let is_other = |kind: &ListKind| self.lists[*kind as usize] != old.lists[*kind as usize];
        let changed = ListKind::ALL.into_iter().filter(is_other);
        let mut changed: Vec<_> = changed.map(ListKind::capability).collect();
        changed.dedup();
        changed
    }

    /// How many of a kind there are.
    pub fn count(&self, kind: ListKind) -> usize {
        self.lists[kind as usize].len()
    }

    /// A page of a list: a cursor says which server's turn it is, and how far it was read.
    pub fn page(
        &self,
        kind: ListKind,
        cursor: Option<&str>,
        size: usize,
    ) -> Result<ListPage, BadCursor> {
        Ok(self.page_at(kind, self.start(kind, cursor)?, size))
    }

    fn start(&self, kind: ListKind, cursor: Option<&str>) -> Result<usize, BadCursor> {
        let Some(cursor) = cursor else { return Ok(0) };
        let (index, server) = cursor.split_once(':').ok_or(BadCursor)?;
        let index: usize = index.parse().map_err(|_| BadCursor)?;
        let list = &self.lists[kind as usize];
        Ok(list.partition_point(|item| (&*item.server, item.index) < (server, index)))
    }

    fn page_at(&self, kind: ListKind, start: usize, size: usize) -> ListPage {
        let list = &self.lists[kind as usize];
        let items = list[start..].iter().take(size).map(|item| item.text.clone()).collect();
        let next = list.get(start.saturating_add(size));
        ListPage { items, next: next.map(|item| format!("{}:{}", item.index, item.server)) }
    }

    /// A page in the words of a revision, which `write` makes once.
    pub(crate) fn shown(
        &self,
        kind: ListKind,
        cursor: Option<&str>,
        words: Option<Revision>,
        write: impl FnOnce(&[Bytes]) -> Bytes,
    ) -> Result<Arc<ShownPage>, BadCursor> {
        let start = self.start(kind, cursor)?;
        let key = (kind, start, words);
        if let Some(page) = lock(&self.shown).get(&key) {
            return Ok(Arc::clone(page));
        }
        let ListPage { items, next } = self.page_at(kind, start, PAGE);
        let page = Arc::new(ShownPage { text: write(&items), next });
        // A client may begin anywhere; the pages of honest ones begin here.
        if start % PAGE != 0 {
            return Ok(page);
        }
        let mut shown = lock(&self.shown);
        if shown.len() >= SHOWN_PAGES {
            shown.clear();
        }
        shown.insert(key, Arc::clone(&page));
        Ok(page)
    }

    /// The bytes of the pages that are kept as clients see them.
    pub(crate) fn shown_bytes(&self) -> usize {
        lock(&self.shown).values().map(|page| page.text.len()).sum()
    }

    /// Whose this is, and what its server calls it.
    pub(crate) fn owner(&self, kind: ListKind, name: &str) -> Option<Owned> {
        let server = match kind {
            ListKind::Tools | ListKind::Prompts => {
                return self.owners[kind as usize].get(name).cloned();
            }
            ListKind::Resources => self.resource(name),
            ListKind::Templates => {
                let named = self.templates.iter().find(|(pattern, _)| pattern.text == name);
                named.map(|(_, server)| server).or_else(|| self.resource(name))
            }
        };
        Some(Owned { server: Arc::clone(server?), name: name.to_owned() })
    }

    /// Whose tool this is.
    pub fn tool(&self, offered: &str) -> Option<&Owned> {
        self.owners[ListKind::Tools as usize].get(offered)
    }

    /// Whose resource this is: the one that lists it, else the one whose template fits best.
    pub fn resource(&self, uri: &str) -> Option<&Arc<str>> {
        if let Some(listed) = self.owners[ListKind::Resources as usize].get(uri) {
            return Some(&listed.server);
        }
        let fitting = self.templates.iter().filter(|(pattern, _)| pattern.fits(uri));
        // Of equals the first.
        let best = fitting.rev().max_by_key(|(pattern, _)| pattern.literal());
        best.map(|(_, server)| server)
    }
}

/// What a server's own name is offered as.
fn offered_by(plan: &ServerPlan, kind: ListKind, own: &str) -> String {
    match kind {
        ListKind::Resources | ListKind::Templates => own.to_owned(),
        ListKind::Tools | ListKind::Prompts => {
            let edit = plan.edits(kind).get(own);
            plan.offered(edit.and_then(|edit| edit.name.as_deref()).unwrap_or(own))
        }
    }
}

fn apply_edit(text: &Bytes, edit: &Edit) -> Option<Bytes> {
    let mut text = text.clone();
    for (member, value) in [("title", &edit.title), ("description", &edit.description)] {
        if let Some(value) = value {
            text = Part::new(&text).with_string(member, value)?;
        }
    }
    if !edit.annotations.is_empty() {
        let there = Part::new(&text).get(&["annotations"]).and_then(|it| it.read().ok());
        let mut annotations: Map<String, Value> = there.unwrap_or_default();
        annotations.extend(edit.annotations.clone());
        annotations.retain(|member, _| edit.annotations.get(member) != Some(&Value::Null));
        let annotations = Value::Object(annotations).to_string();
        text = Part::new(&text).with("annotations", annotations.as_bytes())?;
    }
    Some(text)
}

/// The arguments that a tool wants repeated.
fn header_annotations(kind: ListKind, definition: &[u8]) -> Vec<Annotation> {
    let schema = Part::new(definition).get(&["inputSchema"]);
    let is_annotated = |schema: &Part<'_>| {
        let text = std::str::from_utf8(schema.text());
        kind == ListKind::Tools && text.is_ok_and(|text| text.contains("x-mcp-header"))
    };
    let Some(schema) = schema.filter(is_annotated) else { return Vec::new() };
    param::annotations(&schema.value().unwrap_or_default()).unwrap_or_default()
}

impl Catalog {
    /// The tools that fit `question` best, as they are listed; `limit` at most.
    pub fn find(&self, question: &str, limit: usize) -> Vec<Bytes> {
        let list = &self.lists[ListKind::Tools as usize];
        let index = self.seek.get_or_init(|| Index::new(list.iter().map(searched)));
        index.find(question, limit).into_iter().map(|place| list[place].text.clone()).collect()
    }
}

/// What is searched of a tool.
fn searched(item: &ListedItem) -> Document {
    let tool = Part::new(&item.text).value().unwrap_or_default();
    let text = |member: &str| tool[member].as_str().unwrap_or_default().to_owned();
    let arguments = tool["inputSchema"]["properties"].as_object().into_iter().flat_map(Map::keys);
    Document {
        name: text("name"),
        title: text("title"),
        description: text("description"),
        arguments: arguments.map(String::as_str).collect::<Vec<_>>().join(" "),
        server: item.server.to_string(),
    }
}

/// The literal parts of a template, between its variables.
#[derive(Clone, Debug)]
pub(crate) struct TemplatePattern {
    text: String,
    literals: Vec<String>,
}

impl TemplatePattern {
    pub(crate) fn new(text: &str) -> Self {
        let mut literals = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            literals.push(before.to_owned());
            rest = behind.split_once('}').map_or("", |(_, after)| after);
        }
        literals.push(rest.to_owned());
        Self { text: text.to_owned(), literals }
    }

    /// How much of it is said.
    fn literal(&self) -> usize {
        self.literals.iter().map(String::len).sum()
    }

    /// Whether the literal parts are there, in their order.
    pub(crate) fn fits(&self, uri: &str) -> bool {
        fit_in_order(self.literals.iter().map(String::as_str), uri)
    }
}

/// Where a request goes.
#[derive(Clone, Debug)]
pub enum Destination {
    /// The gateway answers it.
    Gateway,
    /// The gateway answers it with one of these lists.
    List(ListKind),
    /// A server answers it; the request is in that server's words.
    Server(Arc<str>, Message),
}

/// Why a call goes nowhere.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Nowhere {
    /// Nobody knows the method, or headers do not repeat the arguments.
    #[error("{0}")]
    Refused(Refusal),
    /// A member is not there, or is no string.
    #[error("params.{member} must be a string")]
    Params { member: &'static str },
    /// No server has it.
    #[error("Unknown {what}: {name}")]
    Unknown { what: &'static str, name: String },
    /// It changed since somebody approved it.
    #[error(
        "{what} {name:?} changed since it was approved; whoever runs the gateway can approve it"
    )]
    Held { what: &'static str, name: String },
    /// No server has the resource.
    #[error("Resource not found: {uri}")]
    Resource { uri: String },
}

impl Nowhere {
    /// What a client learns of something that is hidden from it: no more than of
    /// something that is not there. The request is in the client's words.
    pub(crate) fn unseen(request: &Message) -> Self {
        let (kind, member) = named_by(request).unwrap_or((ListKind::Tools, Member::Name));
        Self::unknown(kind, request.string(member).unwrap_or_default().into_owned())
    }

    /// No server has something of this kind.
    fn unknown(kind: ListKind, name: String) -> Self {
        match kind {
            ListKind::Tools => Self::Unknown { what: "tool", name },
            ListKind::Prompts => Self::Unknown { what: "prompt", name },
            ListKind::Resources | ListKind::Templates => Self::Resource { uri: name },
        }
    }

    /// It changed since somebody approved it.
    pub(crate) fn held(kind: ListKind, name: &str) -> Self {
        Self::Held { what: kind.noun(), name: name.to_owned() }
    }

    /// The error that the client gets.
    pub fn error(&self, era: Era) -> Value {
        let code = match (self, era) {
            (Self::Resource { .. }, Era::Legacy) => code::RESOURCE_NOT_FOUND,
            _ => code::INVALID_PARAMS,
        };
        let mut error = json!({"code": code, "message": self.to_string()});
        if let Self::Resource { uri } = self {
            error["data"] = json!({"uri": uri});
        }
        error
    }
}

/// What kind of thing a request asks for, and the member that names it; none for requests
/// that ask for no single thing.
pub(crate) fn named_by(request: &Message) -> Option<(ListKind, Member)> {
    match request.method() {
        method::CALL_TOOL => Some((ListKind::Tools, Member::Name)),
        method::GET_PROMPT => Some((ListKind::Prompts, Member::Name)),
        method::READ_RESOURCE | method::SUBSCRIBE | method::UNSUBSCRIBE => {
            Some((ListKind::Resources, Member::Uri))
        }
        method::COMPLETE => match &*request.string(Member::RefType)? {
            "ref/prompt" => Some((ListKind::Prompts, Member::RefName)),
            "ref/resource" => Some((ListKind::Templates, Member::RefUri)),
            _ => None,
        },
        _ => None,
    }
}

impl Catalog {
    /// Which server a request goes to, and in which words; `unlisted` says whose something
    /// is that no list has. `headers` must repeat the arguments that a tool wants repeated;
    /// clients that have no headers need not:
    ///
    /// ```text
    ///   tools/call, prompts/get            by name: the table, else the part before `__`
    ///   resources/read, subscribe, …       by URI: who lists it, whose template fits, who has any
    ///   completion/complete                by what is completed
    ///   greetings, lists, levels, listens  none: the gateway answers
    /// ```
    pub fn find_destination(
        &self,
        request: &Message,
        headers: Option<&[(HeaderName, HeaderValue)]>,
        unlisted: impl FnOnce(ListKind, &str) -> Option<Owned>,
    ) -> Result<Destination, Nowhere> {
        let Some((kind, member)) = named_by(request) else {
            return match request.method() {
                method::INITIALIZE
                | method::PING
                | method::DISCOVER
                | method::LISTEN
                | method::SET_LEVEL => Ok(Destination::Gateway),
                method::COMPLETE => Err(Nowhere::Params { member: "ref.type" }),
                other => {
                    let list = ListKind::ALL.into_iter().find(|kind| kind.method() == other);
                    let unknown = || Refusal::UnknownMethod { method: other.to_owned() };
                    list.map(Destination::List).ok_or_else(|| Nowhere::Refused(unknown()))
                }
            };
        };
        let name = request.string(member).ok_or(Nowhere::Params { member: member.key() })?;
        if let (Some(headers), Some(annotations), ListKind::Tools) =
            (headers, self.annotated.get(&*name), kind)
        {
            let (headers, arguments) =
                (headers.iter().cloned().collect(), request.value(Member::Arguments));
            param::check(annotations, arguments.as_ref(), &headers).map_err(|mismatch| {
                Nowhere::Refused(Refusal::HeaderMismatch { what: mismatch.to_string() })
            })?;
        }
        let found = self.owner(kind, &name);
        if found.is_none() && self.held.get(kind as usize).is_some_and(|it| it.contains(&*name)) {
            return Err(Nowhere::held(kind, &name));
        }
        // Perhaps it is there although no list has it; its server knows better.
        let found = found.or_else(|| unlisted(kind, &name));
        let found = found.ok_or_else(|| Nowhere::unknown(kind, name.to_string()))?;
        let request = match kind {
            ListKind::Tools | ListKind::Prompts => request.with_string(member, &found.name),
            ListKind::Resources | ListKind::Templates => request.clone(),
        };
        Ok(Destination::Server(found.server, request))
    }
}

/// Characters that every client takes.
pub const MAX_OFFERED: usize = 64;

/// What stands between server and name.
pub const BETWEEN: &str = "__";

/// Characters of the hash, with what leads it in.
const HASH_LENGTH: usize = "_h".len() + 8;

/// What a tool or prompt of a server is called when it is offered together with those of
/// others: `<server>__<name>`.
///
/// ```text
///   files, read          files__read
///   files, read.all      files__read_all_h1f0c9a2b     made legal
///   my__files, read      my_files__read_h5d0e11c7      the server's part must end at the first `__`
/// ```
///
/// The names that clients take are short and plain ([`MAX_OFFERED`] characters of
/// `a-z A-Z 0-9 _ -`). A name that had to be changed ends with a hash of what it
/// was, so that it depends on nothing but its own server and name: whatever
/// other servers come and go, it means the same.
///
/// A file may put another word in place of the server's name, or none: then the
/// server's names stay as they are, and which of two servers has one is for the
/// catalog to say.
pub fn offered_name(server: &str, name: &str) -> String {
    let prefix = name_prefix(server);
    let plain: String = name.chars().map(legal_letter).collect();
    let is_unchanged = prefix == server && plain == name && !name.is_empty();
    shortened(format!("{prefix}{BETWEEN}{plain}"), is_unchanged, server, name)
}

/// What `name` is offered as with nothing in front of it.
pub fn bare_name(name: &str) -> String {
    let plain: String = name.chars().map(legal_letter).collect();
    let is_unchanged = plain == name && !name.is_empty();
    shortened(plain, is_unchanged, "", name)
}

/// The name as it is, or with a hash of what it was.
fn shortened(whole: String, is_unchanged: bool, server: &str, name: &str) -> String {
    if is_unchanged && whole.len() <= MAX_OFFERED && !is_hashed(&whole) {
        return whole;
    }
    // All of it is ASCII by now.
    let short = &whole[..whole.len().min(MAX_OFFERED - HASH_LENGTH)];
    format!("{short}_h{:08x}", hash_name(server, name))
}

/// The server and the name that this was made of, if nothing had to be changed.
pub fn split_name(offered: &str) -> Option<(&str, &str)> {
    let (server, name) = offered.split_once(BETWEEN)?;
    (offered_name(server, name) == offered).then_some((server, name))
}

/// Whether it looks like one that was changed.
fn is_hashed(whole: &str) -> bool {
    let hash = whole.rsplit_once("_h").map_or("", |(_, hash)| hash);
    hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The server's part: legal, without [`BETWEEN`], and not to be confused with it at the end.
pub fn name_prefix(server: &str) -> String {
    let mut plain = String::with_capacity(server.len());
    for character in server.chars().map(legal_letter) {
        if !(character == '_' && plain.ends_with('_')) {
            plain.push(character);
        }
    }
    let plain = plain.trim_end_matches('_');
    // Half the room at most, so that something of the name is left.
    let end = plain.len().min(MAX_OFFERED / 2 - BETWEEN.len());
    let plain = plain[..end].trim_end_matches('_');
    if plain.is_empty() { "server".to_owned() } else { plain.to_owned() }
}

fn legal_letter(character: char) -> char {
    if character.is_ascii_alphanumeric() || character == '-' { character } else { '_' }
}

/// FNV-1a, folded to 32 bits: the same on every machine and in every release.
fn hash_name(server: &str, name: &str) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in server.bytes().chain([0xff]).chain(name.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash >> 32) ^ (hash & 0xffff_ffff)
}

#[cfg(test)]
mod tests;
