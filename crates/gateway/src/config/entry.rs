//! One server of a file.

use std::path::PathBuf;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use switchboard_net::http::fetch::ServerTls;
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{Strategy, Target};
use switchboard_proto::auth::{GrantType, ResourceParameter};

use super::expand;
use super::key::{FOR_COMMANDS, FOR_URLS, KEYS, THEIRS, find, similar};
use super::reader::Reader;
use super::settings::ServerOptions;
use super::tls::TlsDraft;
use super::tree::{KeyValue, MemberKey, Node, Placed, Value};
use super::{SourceLocation, Weight};
use crate::plan::ServerPlan;

/// A server, with its variables filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where in the file it is.
    pub place: SourceLocation,
    /// Whether its user wants it to be used.
    pub enabled: bool,
    /// What it says itself; where it says nothing, what is usual.
    pub plan: ServerPlan,
    /// What of it is said, and holds whatever the defaults of the files are.
    pub options: ServerOptions,
}

impl Entry {
    /// What it means, with `defaults` for what it does not say, the first ones first.
    pub(crate) fn with_defaults(&self, defaults: &[&ServerOptions]) -> ServerPlan {
        let all = || std::iter::once(&self.options).chain(defaults.iter().copied());
        let plan = self.plan.clone();
        ServerPlan {
            process: all().find_map(|said| said.process).unwrap_or(plan.process),
            start: all().find_map(|said| said.start).unwrap_or(plan.start),
            call: all().find_map(|said| said.call),
            idle: all().find_map(|said| said.idle).filter(|idle| !idle.is_zero()),
            calls: all().find_map(|said| said.calls).unwrap_or(plan.calls),
            ..plan
        }
    }
}

/// Reads a server; none if it has mistakes, which are told.
pub(super) fn read(name: &MemberKey, node: &Node, reader: &mut Reader<'_>) -> Option<Entry> {
    let Some(members) = node.table() else {
        let what = format!("server {:?} is {}", name.value, node.kind());
        let instead = "write an object: { \"command\": \"…\" } or { \"url\": \"…\" }";
        reader.error(&node.place, what, instead);
        return None;
    };
    let (before, words_before) = (reader.problems.len(), reader.default_words.len());
    let filled_before = reader.filled_in.len();
    let mut draft = EntryDraft::new(&name.value, reader);
    if matches!(name.value.as_str(), "" | "." | "..") {
        // Clients make another path of it before they ask for it.
        let what = format!("{:?} is no name for a server: it is part of a URL", name.value);
        draft.reader.error(&name.place, what, "use letters, digits, _, - and .");
    }
    let mut of_command = Vec::new();
    for (key, value) in members {
        match find(KEYS, &key.value) {
            Some(known) if matches!(known.names[0], "args" | "command") => {
                of_command.push((known, (key, value)));
            }
            Some(known) => (known.read)(&mut draft, (key, value)),
            None if THEIRS.split(' ').any(|name| name == key.value) => {}
            None => draft.unknown(key),
        }
    }
    // Arguments may name a variable that the entry sets itself, before or after them.
    draft.reader.set_beside.clone_from(&draft.env);
    for (known, at) in of_command {
        (known.read)(&mut draft, at);
    }
    draft.reader.set_beside.clear();
    let is_told = draft.reader.has_mistakes(before);
    let target = draft.target(name, members, is_told);
    let EntryDraft { enabled, mut plan, options, reader, .. } = draft;
    let is_whole = !reader.has_mistakes(before);
    if !enabled {
        // A server that is switched off may have mistakes.
        for problem in &mut reader.problems[before..] {
            problem.weight = Weight::Note;
        }
    }
    plan.default_words = reader.default_words.split_off(words_before);
    plan.filled_in = reader.filled_in.split_off(filled_before);
    plan.target = target.filter(|_| is_whole)?;
    Some(Entry { place: name.place.clone(), enabled, plan, options })
}

/// What is known so far.
pub(super) struct EntryDraft<'r, 't> {
    pub(super) reader: &'r mut Reader<'t>,
    /// A program, and its arguments if they are in the same list.
    pub(super) command: Option<Placed<Vec<String>>>,
    pub(super) args: Option<Placed<Vec<String>>>,
    pub(super) env: Vec<(String, String)>,
    pub(super) env_file: Option<Placed<String>>,
    pub(super) cwd: Option<Placed<String>>,
    pub(super) url: Option<Placed<String>>,
    pub(super) headers: Vec<(MemberKey, String)>,
    pub(super) kind: Option<Placed<TransportKind>>,
    pub(super) tls: TlsDraft,
    pub(super) enabled: bool,
    /// Its target is known last.
    pub(super) plan: ServerPlan,
    pub(super) options: ServerOptions,
}

/// What a file calls a transport: that of commands, one of URLs, or either.
pub(super) enum TransportKind {
    Stdio,
    Url(Strategy),
    Auto,
}

impl TransportKind {
    fn parse(name: &str) -> Option<Self> {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        match letters.collect::<String>().to_ascii_lowercase().as_str() {
            "stdio" | "local" => Some(Self::Stdio),
            // Clients with this name for it fall back to the older transport.
            "http" | "remote" => Some(Self::Url(Strategy::HttpFirst)),
            "streamablehttp" => Some(Self::Url(Strategy::HttpOnly)),
            "sse" => Some(Self::Url(Strategy::SseOnly)),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }
}

impl<'r, 't> EntryDraft<'r, 't> {
    pub(super) fn new(name: &str, reader: &'r mut Reader<'t>) -> Self {
        Self {
            reader,
            command: None,
            args: None,
            env: Vec::new(),
            env_file: None,
            cwd: None,
            url: None,
            headers: Vec::new(),
            kind: None,
            tls: TlsDraft::default(),
            enabled: true,
            plan: ServerPlan::new(name, Target::Command(Command::new(""))),
            options: ServerOptions::default(),
        }
    }

    /// Tells of these keys, which do nothing for this server, as it is `what`.
    fn tell_idle(
        &mut self,
        members: &[(MemberKey, Node)],
        idle: &str,
        (what, instead): (&str, &str),
    ) {
        let is_idle = |key: &str| {
            find(KEYS, key).is_some_and(|it| idle.split(' ').any(|name| name == it.names[0]))
        };
        // Some clients write all keys into each server.
        for (key, _) in members.iter().filter(|(_, node)| !node.is_empty()) {
            if is_idle(&key.value) {
                let what = format!("{:?} has no effect: the server is {what}", key.value);
                self.reader.note(&key.place, what, instead);
            }
        }
    }

    /// A command whose token we get: it has to be said who issues it.
    fn check_injection(&mut self, name: &MemberKey) {
        let settings = &mut self.plan.oauth.settings;
        (settings.is_local, settings.resource) = match settings.resource {
            ResourceParameter::OfServer => (true, ResourceParameter::LeftOut),
            ref said => (true, said.clone()),
        };
        if settings.issuer.is_none() && settings.endpoints.token.is_none() {
            let what = "\"oauth\" does not say who issues the token of this command".to_owned();
            self.reader.error(&name.place, what, "add \"issuer\": \"https://…\" to \"oauth\"");
        }
    }

    /// The tokens of users go to whom the file names, and nowhere else (OX-6).
    fn check_exchange(&mut self, name: &MemberKey, is_command: bool) {
        let settings = &self.plan.oauth.settings;
        if !matches!(settings.grant, GrantType::Exchange { .. }) {
            return;
        }
        let (what, instead) = if is_command {
            ("a command cannot have the grant \"token-exchange\"", "use another grant")
        } else if !settings.names_issuer() || settings.client_id.is_none() {
            let instead = "add \"issuer\" (or \"tokenUrl\") and \"clientId\" to \"oauth\"";
            ("the grant \"token-exchange\" is not complete", instead)
        } else if settings.dpop {
            ("tokens that are exchanged are bound to no key", "leave out \"dpop\"")
        } else {
            return;
        };
        self.reader.error(&name.place, what.to_owned(), instead);
    }

    fn unknown(&mut self, key: &MemberKey) {
        let what = format!("unknown key {:?}", key.value);
        match similar(&key.value) {
            Some(meant) => self.reader.error(&key.place, what, format!("write {meant:?}")),
            None => {
                self.reader.note(&key.place, what, "it is ignored; remove it or correct its name");
            }
        }
    }
}

pub(super) fn program(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) {
    let words = match &node.value {
        // What follows the program are its arguments.
        Value::List(words) => match words.first().filter(|word| word.text().is_none()) {
            Some(program) => it.reader.wrong((key, program), "write a text in quotes"),
            None => it.reader.arguments((key, node)),
        },
        _ => it.reader.text((key, node)).map(|program| vec![program]),
    };
    it.command = words.map(|value| Placed { place: node.place.clone(), value });
}

/// As it is: what looks like a variable is a word.
pub(super) fn describe(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) {
    let text = node.text().map(ToOwned::to_owned);
    let text = text.or_else(|| it.reader.wrong((key, node), "write a text in quotes"));
    it.plan.description = text;
}

pub(super) fn transport(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) {
    let kind = match node.text().map(|name| (name, TransportKind::parse(name))) {
        Some((_, Some(value))) => Some(Placed { place: node.place.clone(), value }),
        Some((name, None)) => {
            let what = format_args!(" says {name:?}, which is no transport we have");
            let instead = "write \"stdio\", \"http\", \"sse\", \"streamable-http\" or \"auto\"";
            it.reader.fail((key, node), what, instead)
        }
        None => it.reader.wrong((key, node), "write \"stdio\", \"http\" or \"sse\""),
    };
    it.kind = kind.or(it.kind.take());
}

pub(super) fn bearer(it: &mut EntryDraft<'_, '_>, at: KeyValue<'_>) {
    let name = MemberKey { place: at.1.place.clone(), value: "Authorization".to_owned() };
    it.headers.extend(it.reader.variable(at).map(|token| (name, format!("Bearer {token}"))));
}

pub(super) fn header_variables(it: &mut EntryDraft<'_, '_>, at: KeyValue<'_>) {
    for (header, node) in it.reader.members(at, "write an object: { \"Header\": \"VARIABLE\" }") {
        it.headers.extend(it.reader.variable((header, node)).map(|value| (header.clone(), value)));
    }
}

/// Variables to pass on if they are there.
pub(super) fn passed_on(it: &mut EntryDraft<'_, '_>, at: KeyValue<'_>) {
    for name in it.reader.words(at).unwrap_or_default() {
        let value = it.reader.variables.around.variable(&name);
        it.env.extend(value.map(|value| (name, value.to_owned())));
    }
}

pub(super) fn tool_filter(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) {
    let list = node.get("list").and_then(|list| it.reader.words((key, list)));
    match (node.get("mode").and_then(Node::text), list) {
        (Some("allow"), Some(list)) => it.plan.tools.only = Some(list),
        (Some("block" | "deny"), Some(list)) => it.plan.tools.never = list,
        _ => {
            let instead = "write { \"mode\": \"allow\" or \"block\", \"list\": [\"…\"] }";
            it.reader.wrong::<()>((key, node), instead);
        }
    }
}

impl EntryDraft<'_, '_> {
    /// The server's command or URL; none if it has neither, which is told.
    fn target(
        &mut self,
        name: &MemberKey,
        members: &[(MemberKey, Node)],
        is_told: bool,
    ) -> Option<Target> {
        match (self.command.take(), self.url.take()) {
            (Some(command), None) => {
                let instead = "leave it out; what a command needs goes into \"env\" or \"args\"";
                if self.plan.oauth.inject.is_some() {
                    self.check_injection(name);
                } else {
                    self.tell_idle(members, "oauth", ("a command", instead));
                }
                self.tell_idle(members, FOR_URLS, ("a command", instead));
                self.check_exchange(name, true);
                self.command(name, command)
            }
            (None, Some(url)) => {
                let instead = "leave it out; what a URL needs goes into \"headers\"";
                self.tell_idle(members, FOR_COMMANDS, ("elsewhere", instead));
                self.check_exchange(name, false);
                self.remote(url)
            }
            (Some(_), Some(url)) => {
                let what = "the server has a command and a URL".to_owned();
                self.reader.error(&url.place, what, "keep one of \"command\" and \"url\"");
                None
            }
            // What is wrong with either was told already.
            (None, None) if is_told => None,
            (None, None) => {
                let what = format!("server {:?} has neither a command nor a URL", name.value);
                let instead = "add \"command\": \"…\" for a program, or \"url\": \"https://…\"";
                self.reader.error(&name.place, what, instead);
                None
            }
        }
    }

    fn command(
        &mut self,
        name: &MemberKey,
        Placed { place, value: words }: Placed<Vec<String>>,
    ) -> Option<Target> {
        if let Some(Placed { place, value: TransportKind::Url(_) }) = self.kind.take() {
            let what = "the transport is for URLs, but the server is a command".to_owned();
            self.reader.error(&place, what, "write \"stdio\", or leave it out");
        }
        let mut words = words.into_iter();
        let Some(program) = words.next().filter(|program| !program.trim().is_empty()) else {
            self.reader.error(&place, "the command is empty".to_owned(), "name the program to run");
            return None;
        };
        let args = self.args.take();
        if args.is_none() && words.len() == 0 && program.contains(' ') && !program.contains('/') {
            let what = "the command contains blanks, and is taken for the name of one program";
            let instead = "put what follows the program into \"args\": [\"…\"]";
            self.reader.note(&place, what, instead);
        }
        let mut command = Command::new(self.reader.at_home(program));
        command.args = words.chain(args.into_iter().flat_map(|args| args.value)).collect();
        command.name.clone_from(&name.value);
        command.env = self.env_file.take().map(|file| self.file(file)).unwrap_or_default();
        command.env.append(&mut self.env);
        command.cwd = self.cwd.take().map(|cwd| self.folder(cwd));
        Some(Target::Command(command))
    }

    /// A folder may be made before the command is started.
    fn folder(&mut self, cwd: Placed<String>) -> PathBuf {
        let path = self.reader.path(cwd.value);
        if !self.reader.variables.around.is_literal && !path.is_dir() {
            let what = format!("there is no folder {}", path.display());
            let instead = "make it before the server is started, or change \"cwd\"";
            self.reader.note(&cwd.place, what, instead);
        }
        path
    }

    fn file(&mut self, Placed { place, value: path }: Placed<String>) -> Vec<(String, String)> {
        if self.reader.variables.are_left_in(&path) {
            // Nobody knows where it is; servers with other files are others.
            return vec![(path, String::new())];
        }
        let path = self.reader.path(path);
        self.reader.besides.push(path.clone());
        expand::read_env_file(&path).unwrap_or_else(|error| {
            let what = format!("cannot read {}: {error}", path.display());
            self.reader.error(&place, what, "check \"envFile\", or put the variables into \"env\"");
            Vec::new()
        })
    }

    fn remote(&mut self, Placed { place, value: text }: Placed<String>) -> Option<Target> {
        let strategy = match self.kind.take() {
            None | Some(Placed { value: TransportKind::Auto, .. }) => Strategy::HttpFirst,
            Some(Placed { value: TransportKind::Url(strategy), .. }) => strategy,
            Some(Placed { place, value: TransportKind::Stdio }) => {
                let what = "the transport is for commands, but the server is a URL".to_owned();
                self.reader.error(&place, what, "write \"http\", or leave it out");
                return None;
            }
        };
        if let Some(args) = self.args.take() {
            let what = "a URL has no arguments".to_owned();
            self.reader.error(&args.place, what, "leave \"args\" out, or name a \"command\"");
        }
        let url: Option<Uri> = text.trim().parse().ok();
        let url = url.filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
        let url = url.or_else(|| self.unfilled(&text));
        let Some(url) = url.filter(|url| url.host().is_some_and(|host| !host.is_empty())) else {
            let what = "the URL is not one of http:// or https://".to_owned();
            self.reader.error(&place, what, "write it in full: \"https://example.com/mcp\"");
            return None;
        };
        if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            let what = "the URL contains a user name or a password".to_owned();
            let instead = "send it as a header: \"headers\": { \"Authorization\": \"Basic ${…}\" }";
            self.reader.error(&place, what, instead);
            return None;
        }
        let headers = self.header_map();
        self.plan.tls = std::mem::take(&mut self.tls).read(&self.plan.name, self.reader);
        if url.scheme_str() == Some("http") && self.plan.tls != ServerTls::default() {
            let what = "the settings for TLS have no effect: the URL is http://";
            self.reader.note(&place, what, "write https://, or leave them out");
        }
        Some(Target::Url { url, strategy, headers })
    }

    /// What stands for a URL whose variables stay what they are, and which is none
    /// without them: its host is the first of them.
    fn unfilled(&self, text: &str) -> Option<Uri> {
        if !self.reader.variables.are_left_in(text) {
            return None;
        }
        let name = text.split_once("${")?.1;
        let end = name.find(|c: char| c != '_' && !c.is_ascii_alphanumeric())?;
        let path = text.bytes().fold(String::new(), |path, byte| format!("{path}{byte:02x}"));
        format!("http://{}/{path}", &name[..end]).parse().ok()
    }

    fn header_map(&mut self) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (key, value) in std::mem::take(&mut self.headers) {
            let Ok(name) = key.value.trim().parse::<HeaderName>() else {
                let what = format!("{:?} is no name of a header", key.value);
                self.reader.error(&key.place, what, "use letters, digits and dashes");
                continue;
            };
            let Ok(mut value) = HeaderValue::from_str(value.trim()) else {
                let what = format!("header {name} contains what no header may contain");
                self.reader.error(&key.place, what, "look for a line break, also in its variables");
                continue;
            };
            // Any of them may be a token.
            value.set_sensitive(true);
            map.insert(name, value);
        }
        map
    }
}
