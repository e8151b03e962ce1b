//! One server of a file.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use switchboard_net::http::fetch::Fetch;
use switchboard_net::upstream::{ServerTarget, Target};

use super::client_files::Section;
use super::expand::Variables;
use super::key::{KEYS, Side, THEIRS, find, similar};
use super::reader::Reader;
use super::settings::Settings;
use super::tree::{Key, KeyValue, Node, Value};
use super::{Problem, SourceLocation, Surroundings, Weight};
use crate::glob::NameFilter;

mod target;

/// A server, with its variables filled in.
#[derive(Clone, PartialEq)]
pub struct Entry {
    /// What the file calls it.
    pub name: String,
    /// Where in the file it is.
    pub place: SourceLocation,
    /// Where the server is.
    pub target: Target,
    /// Whether its user wants it to be used.
    pub enabled: bool,
    /// In words.
    pub description: Option<String>,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// Which of its tools are wanted.
    pub tools: NameFilter,
    /// How a gateway is to treat it.
    pub settings: Settings,
}

/// How long a server may take, where its file says so.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Timeouts {
    /// To start and to be greeted.
    pub start: Option<Duration>,
    /// To answer a call.
    pub call: Option<Duration>,
}

impl Entry {
    /// The server, to connect to. `environment` is ours, of which a command gets
    /// what it may have; `fetch` is how URLs are reached.
    pub fn server(&self, environment: Vec<(OsString, OsString)>, fetch: Fetch) -> ServerTarget {
        match self.target.clone() {
            Target::Command(command) => ServerTarget::command(command, environment),
            Target::Url { url, strategy, headers } => {
                ServerTarget::url(url, strategy, headers, fetch)
            }
        }
    }
}

impl fmt::Debug for Entry {
    /// Leaves out what may be a secret: arguments, values, the query of a URL.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = out.debug_struct("Entry");
        shown.field("name", &self.name).field("place", &self.place.to_string());
        match &self.target {
            Target::Command(command) => shown.field("command", command),
            Target::Url { url, .. } => shown.field("host", &url.host()).field("path", &url.path()),
        };
        shown.field("enabled", &self.enabled).finish_non_exhaustive()
    }
}

/// Reads a server; none if it has mistakes, which are told.
pub(super) fn read(
    name: &Key,
    node: &Node,
    section: &Section<'_>,
    around: &Surroundings,
    problems: &mut Vec<Problem>,
    besides: &mut Vec<PathBuf>,
) -> Option<Entry> {
    let Some(members) = node.table() else {
        let what = format!("server {:?} is {}", name.text, node.kind());
        let instead = "write an object: { \"command\": \"…\" } or { \"url\": \"…\" }";
        problems.push(Problem::error(&node.place, what, instead));
        return None;
    };
    let variables = Variables { around, inputs: section.inputs, braces: section.braces };
    let mut draft = Draft::new(variables);
    if matches!(name.text.as_str(), "" | "." | "..") {
        // Clients make another path of it before they ask for it.
        let what = format!("{:?} is no name for a server: it is part of a URL", name.text);
        draft.reader.error(&name.place, what, "use letters, digits, _, - and .");
    }
    for (key, value) in members {
        draft.member((key, value));
    }
    let target = draft.target(name);
    let Draft { enabled, description, timeouts, tools, settings, reader, .. } = draft;
    besides.extend(reader.besides);
    let mut found = reader.problems;
    let is_whole = found.iter().all(|problem| problem.weight != Weight::Error);
    if !enabled {
        // A server that is switched off may have mistakes.
        for problem in &mut found {
            problem.weight = Weight::Note;
        }
    }
    problems.extend(found);
    let target = target.filter(|_| is_whole)?;
    let (name, place) = (name.text.clone(), name.place.clone());
    Some(Entry { name, place, target, enabled, description, timeouts, tools, settings })
}

/// What is known so far.
pub(super) struct Draft<'t> {
    pub(super) reader: Reader<'t>,
    /// A program, and its arguments if they are in the same list.
    pub(super) command: Option<(SourceLocation, Vec<String>)>,
    pub(super) args: Option<(SourceLocation, Vec<String>)>,
    pub(super) env: Vec<(String, String)>,
    pub(super) env_file: Option<(SourceLocation, String)>,
    pub(super) cwd: Option<(SourceLocation, String)>,
    pub(super) url: Option<(SourceLocation, String)>,
    pub(super) headers: Vec<(Key, String)>,
    pub(super) kind: Option<(SourceLocation, TransportKind)>,
    pub(super) enabled: bool,
    pub(super) description: Option<String>,
    pub(super) timeouts: Timeouts,
    pub(super) tools: NameFilter,
    pub(super) settings: Settings,
    /// Keys that are for servers of one kind.
    pub(super) sided: Vec<(Key, Side)>,
}

/// What a file calls a transport.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TransportKind {
    Stdio,
    Http,
    StreamableHttp,
    Sse,
    Auto,
}

impl TransportKind {
    fn parse(name: &str) -> Option<Self> {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        match letters.collect::<String>().to_ascii_lowercase().as_str() {
            "stdio" | "local" => Some(Self::Stdio),
            // Clients with this name for it fall back to the older transport.
            "http" | "remote" => Some(Self::Http),
            "streamablehttp" => Some(Self::StreamableHttp),
            "sse" => Some(Self::Sse),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }
}

impl<'t> Draft<'t> {
    pub(super) fn new(variables: Variables<'t>) -> Self {
        Self {
            reader: Reader::new(variables),
            command: None,
            args: None,
            env: Vec::new(),
            env_file: None,
            cwd: None,
            url: None,
            headers: Vec::new(),
            kind: None,
            enabled: true,
            description: None,
            timeouts: Timeouts::default(),
            tools: NameFilter::default(),
            settings: Settings::default(),
            sided: Vec::new(),
        }
    }

    /// Takes in one member of the server.
    fn member(&mut self, (key, node): KeyValue<'_>) {
        let Some(known) = find(KEYS, &key.text) else {
            if !THEIRS.contains(&&*key.text) {
                self.unknown(key);
            }
            return;
        };
        // Some clients write all keys into each server.
        if let Some(side) = known.side.filter(|_| !node.is_empty()) {
            self.sided.push((key.clone(), side));
        }
        (known.read)(self, (key, node));
    }

    /// A text, and where it is.
    pub(super) fn placed_text(
        &mut self,
        (key, node): KeyValue<'_>,
    ) -> Option<(SourceLocation, String)> {
        Some((node.place.clone(), self.reader.text((key, node))?))
    }

    /// Tells of keys that do nothing for a server of this kind.
    fn tell_idle(&mut self, side: Side) {
        let (what, instead) = match side {
            Side::Command => {
                ("a command", "leave it out; what a command needs goes into \"env\" or \"args\"")
            }
            Side::Url => ("elsewhere", "leave it out; what a URL needs goes into \"headers\""),
        };
        for (key, _) in self.sided.iter().filter(|(_, other)| *other != side) {
            let what = format!("{:?} has no effect: the server is {what}", key.text);
            self.reader.problems.push(Problem::note(&key.place, what, instead));
        }
    }

    fn unknown(&mut self, key: &Key) {
        let what = format!("unknown key {:?}", key.text);
        let problem = match similar(&key.text) {
            Some(meant) => Problem::error(&key.place, what, format!("write {meant:?}")),
            None => Problem::note(&key.place, what, "it is ignored; remove it or correct its name"),
        };
        self.reader.problems.push(problem);
    }

    pub(super) fn program(
        &mut self,
        (key, node): KeyValue<'_>,
    ) -> Option<(SourceLocation, Vec<String>)> {
        let words = match &node.value {
            Value::List(words) => {
                // What follows the program are its arguments.
                if let Some(program) = words.first().filter(|word| word.text().is_none()) {
                    self.reader.wrong((key, program), "write a text in quotes");
                    return None;
                }
                self.reader.arguments((key, node))?
            }
            _ => vec![self.reader.text((key, node))?],
        };
        Some((node.place.clone(), words))
    }

    /// As it is: what looks like a variable is a word.
    pub(super) fn describe(&mut self, (key, node): KeyValue<'_>) {
        self.description = node.text().map(ToOwned::to_owned);
        if self.description.is_none() {
            self.reader.wrong((key, node), "write a text in quotes");
        }
    }

    pub(super) fn kind(&mut self, (key, node): KeyValue<'_>) {
        let Some(name) = node.text() else {
            return self.reader.wrong((key, node), "write \"stdio\", \"http\" or \"sse\"");
        };
        if let Some(kind) = TransportKind::parse(name) {
            self.kind = Some((node.place.clone(), kind));
            return;
        }
        let what = format!("{:?} says {name:?}, which is no transport we have", key.text);
        let instead = "write \"stdio\", \"http\", \"sse\", \"streamable-http\" or \"auto\"";
        self.reader.error(&node.place, what, instead);
    }

    pub(super) fn bearer(&mut self, (key, node): KeyValue<'_>) {
        if let Some(token) = self.reader.variable((key, node)) {
            let name = Key { text: "Authorization".to_owned(), place: node.place.clone() };
            self.headers.push((name, format!("Bearer {token}")));
        }
    }

    pub(super) fn header_variables(&mut self, (key, node): KeyValue<'_>) {
        let Some(members) = node.table() else {
            return self.reader.wrong((key, node), "write an object: { \"Header\": \"VARIABLE\" }");
        };
        for (header, node) in members {
            if let Some(value) = self.reader.variable((header, node)) {
                self.headers.push((header.clone(), value));
            }
        }
    }

    /// Variables to pass on if they are there.
    pub(super) fn passed_on(&mut self, (key, node): KeyValue<'_>) {
        for name in self.reader.words((key, node)).unwrap_or_default() {
            if let Some(value) = self.reader.variables.around.variable(&name) {
                self.env.push((name, value.to_owned()));
            }
        }
    }

    pub(super) fn tool_filter(&mut self, (key, node): KeyValue<'_>) {
        let list = node.get("list").and_then(|list| self.reader.words((key, list)));
        match (node.get("mode").and_then(Node::text), list) {
            (Some("allow"), Some(list)) => self.tools.only = Some(list),
            (Some("block" | "deny"), Some(list)) => self.tools.never = list,
            _ => self.reader.wrong(
                (key, node),
                "write { \"mode\": \"allow\" or \"block\", \"list\": [\"…\"] }",
            ),
        }
    }
}
