//! The keys of a server, in the file of any client: one table for reading and for the schema.

use serde_json::Value as Json;
use switchboard_net::upstream::Strategy;

use super::entry::{self, EntryDraft, TransportKind};
use super::schema::{
    COMMAND, COUNT, EDITS, EDITS_OR_WORDS, FLAG, IDLE, NUMBER, OAUTH, PAIRS, PREFIX, PROCESS,
    Shape, TEXT, TIME, TOOL_FILTER, TRANSPORT, URL, WORD_OR_WORDS, WORDS, describe,
};
use super::tree::{KeyValue, Placed};
use super::{oauth, settings};

/// A key of a part of a file.
pub(super) struct FileKey<R> {
    /// Its names, in `camelCase` or in the spelling of the tool that has it. For `camelCase`
    /// `snake_case` is as good, for TOML.
    pub(super) names: &'static [&'static str],
    /// What its value may be.
    shape: Shape,
    /// What it is for.
    about: &'static str,
    /// Takes in its value.
    pub(super) read: R,
}

pub(super) const fn key<R: Copy>(
    names: &'static [&'static str],
    shape: Shape,
    about: &'static str,
    read: R,
) -> FileKey<R> {
    FileKey { names, shape, about, read }
}

impl<R> FileKey<R> {
    /// Its schema, under each of its names.
    pub(super) fn schemas(&self) -> impl Iterator<Item = (&'static str, Json)> {
        self.names.iter().map(|name| (*name, describe(self.shape, self.about)))
    }
}

/// The key that a name in a file means, however it is written.
pub(super) fn find<'k, R>(keys: &'k [FileKey<R>], name: &str) -> Option<&'k FileKey<R>> {
    let camel = camel(name);
    let exact = keys.iter().find(|key| key.names.contains(&name));
    exact.or_else(|| keys.iter().find(|key| key.names.contains(&&*camel)))
}

/// The names of keys, the first of each.
pub(super) fn names<R>(keys: &[FileKey<R>]) -> Vec<&'static str> {
    keys.iter().map(|key| key.names[0]).collect()
}

/// The keys that have an effect only on servers that are commands, by their first names.
pub(super) const FOR_COMMANDS: &str = "cwd env envFile env_vars";

/// The same for servers at URLs.
pub(super) const FOR_URLS: &str = "bearer_token_env_var caFile clientCert clientKey env_http_headers headerFile headers headersHelper insecure oauth_resource passHeaders scopes";

/// The names of the keys that say where a server is.
pub(super) const PLACES: [&str; 4] = ["command", "httpUrl", "serverUrl", "url"];

/// A key of a server.
type ServerKey = FileKey<fn(&mut EntryDraft<'_, '_>, KeyValue<'_>)>;

/// Every key that some tool knows, and the keys that only we have.
pub(super) const KEYS: &[ServerKey] = &[
    key(&["args"], WORDS, "Arguments of the command.", |it, at| {
        let place = at.1.place.clone();
        it.args = it.reader.arguments(at).map(|value| Placed { place, value });
    }),
    key(
        &["bearer_token_env_var"],
        TEXT,
        "The variable that holds the bearer token.",
        entry::bearer,
    ),
    key(
        &["command"],
        COMMAND,
        "The program to start, or a list of the program and its arguments.",
        entry::program,
    ),
    key(
        &["cwd", "workingDirectory"],
        TEXT,
        "The folder that the command is started in.",
        |it, at| it.cwd = it.reader.placed_text(at),
    ),
    key(&["description"], TEXT, "What the server is for, in words.", entry::describe),
    key(&["disabled"], FLAG, "Whether the gateway leaves the server out.", |it, at| {
        it.enabled = !it.reader.flag(at).unwrap_or(false);
    }),
    key(&["enabled"], FLAG, "Whether the gateway uses the server.", |it, at| {
        it.enabled = it.reader.flag(at).unwrap_or(true);
    }),
    key(&["env", "environment"], PAIRS, "Variables for the command.", |it, at| {
        let pairs = it.reader.pairs(at);
        it.env.extend(pairs.into_iter().map(|(key, value)| (key.value, value)));
    }),
    key(&["envFile"], TEXT, "A file of variables for the command.", |it, at| {
        it.env_file = it.reader.placed_text(at);
    }),
    key(&["env_vars"], WORDS, "Environment variables that the command inherits.", entry::passed_on),
    key(
        &["env_http_headers"],
        PAIRS,
        "Headers to send, each with the name of the variable that has its value.",
        entry::header_variables,
    ),
    key(
        &["excludeTools", "disabledTools", "disabled_tools"],
        WORDS,
        "Tools that clients do not see; * stands for anything.",
        |it, at| it.plan.tools.never = it.reader.words(at).unwrap_or_default(),
    ),
    key(&["headers", "http_headers"], PAIRS, "Headers to send to the URL.", |it, at| {
        let pairs = it.reader.pairs(at);
        it.headers.extend(pairs);
    }),
    // A URL of the transport that its name says.
    key(&["httpUrl"], URL, "A URL of Streamable HTTP.", |it, at| {
        it.url = it.reader.placed_text(at);
        let value = TransportKind::Url(Strategy::HttpOnly);
        it.kind = it.kind.take().or(Some(Placed { place: at.1.place.clone(), value }));
    }),
    key(
        &["includeTools", "enabledTools", "enabled_tools"],
        WORDS,
        "The only tools clients see; * stands for anything.",
        |it, at| it.plan.tools.only = it.reader.words(at),
    ),
    key(&["name"], TEXT, "The server's name, where servers are a list.", |_, _| {}),
    key(
        &["oauth", "auth", "requires_oauth"],
        OAUTH,
        "How to sign in to the server; true or false for whether to.",
        oauth::read,
    ),
    key(&["oauth_resource"], TEXT, "What tokens for the server are for.", oauth::resource),
    key(&["scopes", "oauthScopes"], WORD_OR_WORDS, "The scopes to ask for.", oauth::scopes),
    key(&["startup_timeout_ms"], NUMBER, "How long the server may take to start.", |it, at| {
        it.options.start = it.reader.millis(at);
    }),
    key(&["startup_timeout_sec"], NUMBER, "How long the server may take to start.", |it, at| {
        it.options.start = it.reader.seconds(at);
    }),
    // Seconds or milliseconds, by its size: clients differ.
    key(
        &["timeout", "requestTimeout"],
        TIME,
        "The timeout of a call: seconds, or milliseconds if above 999.",
        |it, at| it.options.call = it.reader.either(at),
    ),
    key(&["timeoutMs"], NUMBER, "The timeout of a call.", |it, at| {
        it.options.call = it.reader.millis(at);
    }),
    key(&["toolFilter"], TOOL_FILTER, "Which tools clients see.", entry::tool_filter),
    key(&["tool_timeout_sec"], NUMBER, "The timeout of a call.", |it, at| {
        it.options.call = it.reader.seconds(at);
    }),
    key(&["type", "transport", "transportType"], TRANSPORT, "The transport.", entry::transport),
    key(&["url", "serverUrl"], URL, "The URL of the server.", |it, at| {
        it.url = it.reader.placed_text(at);
    }),
    // From here on the keys that only we have.
    key(
        &["caFile"],
        TEXT,
        "A PEM file of certificates to trust beside the system's: of authorities, or of the server.",
        |it, at| it.tls.ca_file = it.reader.placed_text(at),
    ),
    key(
        &["clientCert"],
        TEXT,
        "A PEM file with the client certificate to show to the server.",
        |it, at| it.tls.client_cert = it.reader.placed_text(at),
    ),
    key(
        &["clientKey"],
        TEXT,
        "A PEM file with the private key of clientCert; left out if that file has it.",
        |it, at| it.tls.client_key = it.reader.placed_text(at),
    ),
    key(&["excludePrompts"], WORDS, "Prompts that clients do not see.", |it, at| {
        it.plan.prompts.never = it.reader.words(at).unwrap_or_default();
    }),
    key(&["excludeResources"], WORDS, "Resources that clients do not see, by URI.", |it, at| {
        it.plan.resources.never = it.reader.words(at).unwrap_or_default();
    }),
    key(
        &["headerFile"],
        WORD_OR_WORDS,
        "A file with a header to send on each line, Name: value.",
        |it, at| it.plan.credentials.files = settings::header_files(it.reader, at),
    ),
    key(
        &["headersHelper"],
        COMMAND,
        "A program that prints a JSON object of headers to send.",
        |it, at| it.plan.credentials.command = settings::helper(it.reader, at),
    ),
    key(
        &["idleTimeout"],
        IDLE,
        "Stop the server after this time without a call; the next call starts it.",
        |it, at| it.options.idle = settings::idle(it.reader, at),
    ),
    key(&["includePrompts"], WORDS, "The only prompts that clients see.", |it, at| {
        it.plan.prompts.only = it.reader.words(at);
    }),
    key(&["includeResources"], WORDS, "The only resources that clients see, by URI.", |it, at| {
        it.plan.resources.only = it.reader.words(at);
    }),
    key(
        &["insecure"],
        FLAG,
        "Whether the certificate of the server is not verified; for trials only.",
        |it, at| {
            let place = at.1.place.clone();
            it.tls.insecure = it.reader.flag(at).map(|value| Placed { place, value });
        },
    ),
    key(
        &["maxConcurrency"],
        COUNT,
        "How many calls the server handles at once; more calls wait.",
        |it, at| it.options.calls = it.reader.count(at),
    ),
    key(
        &["passHeaders"],
        WORDS,
        "Headers of the client's request that the gateway sends on to the server.",
        |it, at| it.plan.credentials.pass = settings::passed(it.reader, at),
    ),
    key(
        &["prefix"],
        PREFIX,
        "The prefix of the server's tools and prompts; its name by default, \"\" or false for none.",
        |it, at| it.plan.prefix = settings::prefix(it.reader, at),
    ),
    key(&["process"], PROCESS, "Which clients share a process of the server.", |it, at| {
        it.options.process = settings::process(it.reader, at);
    }),
    key(
        &["prompts"],
        EDITS,
        "Names, titles and descriptions that replace the server's own, by prompt.",
        |it, at| it.plan.prompt_edits = settings::edits(it.reader, at, "prompt"),
    ),
    key(&["startTimeout"], TIME, "How long the server may take to start.", |it, at| {
        it.options.start = it.reader.duration(at);
    }),
    key(
        &["tools"],
        EDITS_OR_WORDS,
        "Names, titles and descriptions that replace the server's own, by tool; or a list of the \
         only tools that clients see.",
        |it, at| {
            if at.1.table().is_none() {
                // A list of the wanted ones, as Copilot has it.
                it.plan.tools.only = it.reader.words(at);
            } else {
                it.plan.tool_edits = settings::edits(it.reader, at, "tool");
            }
        },
    ),
];

/// Keys of other tools that ask nothing of us.
pub(super) const THEIRS: &str = "$schema alwaysAllow autoApprove dev disabledReason displayName fromGalleryId gallery icon id metadata \
    options required sandbox settings source tags trust version";

fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |camel, part| {
        let mut letters = part.chars();
        let head = letters.next().map(|letter| letter.to_ascii_uppercase());
        camel + &head.into_iter().chain(letters).collect::<String>()
    })
}

/// The key that was probably meant.
pub(super) fn similar(name: &str) -> Option<&'static str> {
    let meant = match simple(name).as_str() {
        "arguments" | "params" => Some("args"),
        "cmd" | "exec" | "program" => Some("command"),
        "dir" | "directory" | "workdir" => Some("cwd"),
        "endpoint" | "uri" => Some("url"),
        _ => None,
    };
    meant.or_else(|| nearest(name, KEYS.iter().flat_map(|key| key.names).copied()))
}

/// The candidate that differs from `name` in case, dashes or a letter or two.
pub fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let name = simple(name);
    let scored = candidates.map(|candidate| (distance(&name, &simple(candidate)), candidate));
    let (score, candidate) = scored.min_by_key(|(score, _)| *score)?;
    // Of short words everything is near.
    (score <= name.len().min(candidate.len()) / 3).then_some(candidate)
}

fn simple(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// Letters to add, drop, change, or swap with the next.
fn distance(left: &str, right: &str) -> usize {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let changed = last[j] + usize::from(a != b);
            let mut best = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests;
