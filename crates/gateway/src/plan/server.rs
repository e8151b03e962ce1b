//! One server of a plan.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use serde_json::{Map, Value};
use switchboard_net::http::fetch::Fetch;
use switchboard_net::upstream::{Server, Target};

use crate::glob::Filter;

/// How to reach a server, how to treat it, and what of it clients see.
#[derive(Clone, PartialEq)]
pub struct ServerPlan {
    /// What the file calls it.
    pub name: String,
    /// Where it is.
    pub target: Target,
    /// In words.
    pub description: Option<String>,
    /// Who shares a process, or a session, with whom.
    pub process: Process,
    /// How long it may take to start and to be greeted.
    pub start: Duration,
    /// How long a call may take; none for what the protocol's limits say.
    pub call: Option<Duration>,
    /// When it may be put to sleep.
    pub sleep: Sleep,
    /// Calls it gets at once; further ones wait for their turn.
    pub calls: NonZeroUsize,
    /// Which of its tools clients see.
    pub tools: Filter,
    /// Which of its prompts clients see.
    pub prompts: Filter,
    /// Which of its resources clients see, by URI.
    pub resources: Filter,
    /// What clients see of a tool instead of what the server says, by its name there.
    pub tool_edits: BTreeMap<String, Edit>,
    /// The same for prompts.
    pub prompt_edits: BTreeMap<String, Edit>,
    /// What else is sent with each request, beyond the headers of `target`.
    pub credentials: Credentials,
}

/// Who shares a process with whom; for a URL, who shares a session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Process {
    /// Everybody shares one.
    #[default]
    Shared,
    /// Each client session has its own.
    PerSession,
    /// Each principal has its own.
    PerUser,
    /// Each call has its own.
    PerRequest,
    /// Calls are spread over so many, started ahead.
    Pool(NonZeroUsize),
}

/// When a server that nobody uses is stopped; the next call wakes it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Sleep {
    /// It stays.
    #[default]
    Never,
    /// After so long without a call.
    After(Duration),
}

/// What clients see of a tool or prompt instead of what its server says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edit {
    /// Another name, before the server's name is put in front.
    pub name: Option<String>,
    /// Another title.
    pub title: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Members to set in its annotations; `null` takes one out.
    pub annotations: Map<String, Value>,
}

/// What is sent along beyond the headers that the file spells out.
///
/// Later ones replace earlier ones, and nothing replaces the protocol's own:
/// headers of the client that are passed on, headers of the file, of header
/// files, of the command. The client's `Authorization` is never among them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Credentials {
    /// Headers of the client's request to pass on.
    pub pass: Vec<HeaderName>,
    /// Files with a `Name: value` on each line, read at each connection.
    pub files: Vec<PathBuf>,
    /// A program that prints a JSON object of headers, run at each connection:
    /// itself and its arguments.
    pub command: Option<Vec<String>>,
}

impl ServerPlan {
    /// How long a server may take to start: `npx` may have to download it first,
    /// and nobody waits for it.
    pub const START: Duration = Duration::from_mins(1);
    /// Calls a server gets at once: more than any that works alone can use.
    pub const CALLS: NonZeroUsize = NonZeroUsize::new(128).expect("128 is not 0");

    /// A server with nothing said about it but where it is.
    pub fn new(name: impl Into<String>, target: Target) -> Self {
        Self {
            name: name.into(),
            target,
            description: None,
            process: Process::default(),
            start: Self::START,
            call: None,
            sleep: Sleep::default(),
            calls: Self::CALLS,
            tools: Filter::default(),
            prompts: Filter::default(),
            resources: Filter::default(),
            tool_edits: BTreeMap::new(),
            prompt_edits: BTreeMap::new(),
            credentials: Credentials::default(),
        }
    }

    /// The server, to connect to. `environment` is ours, of which a command gets
    /// what it may have; `more` are headers that join or replace those of the
    /// file: what [`Credentials::merge`] gives.
    pub fn server(
        &self,
        environment: Vec<(OsString, OsString)>,
        fetch: Fetch,
        more: &HeaderMap,
    ) -> Server {
        match self.target.clone() {
            Target::Command(command) => Server::command(command, environment),
            Target::Url { url, strategy, mut headers } => {
                replace(&mut headers, more);
                Server::url(url, strategy, headers, fetch)
            }
        }
    }

    /// The headers that the file spells out.
    pub fn headers(&self) -> HeaderMap {
        match &self.target {
            Target::Command(_) => HeaderMap::new(),
            Target::Url { headers, .. } => headers.clone(),
        }
    }

    /// Whether a running server goes on under this plan as under `old`: only
    /// what clients see of it differs.
    pub fn runs_as(&self, old: &Self) -> bool {
        self.name == old.name
            && self.target == old.target
            && self.process == old.process
            && self.credentials == old.credentials
    }
}

impl Credentials {
    /// Whether all that is ever sent is in the file.
    pub fn is_static(&self) -> bool {
        *self == Self::default()
    }

    /// What a request carries: `client` is what our client sent, `configured` what
    /// the file spells out, `fetched` what the files and the command gave, in order.
    pub fn merge<'h>(
        &self,
        client: &HeaderMap,
        configured: &HeaderMap,
        fetched: impl IntoIterator<Item = &'h HeaderMap>,
    ) -> HeaderMap {
        let mut merged = HeaderMap::new();
        for name in self.pass.iter().filter(|name| may_pass(name)) {
            for value in client.get_all(name) {
                merged.append(name, value.clone());
            }
        }
        replace(&mut merged, configured);
        for headers in fetched {
            replace(&mut merged, headers);
        }
        merged
    }
}

/// Whether a client's header may go on to a server. What shows who the client is
/// to us must not show up elsewhere, and how a message travels is ours to say.
pub fn may_pass(name: &HeaderName) -> bool {
    const NEVER: [&str; 15] = [
        "accept",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "last-event-id",
        "origin",
        "proxy-authorization",
        "te",
        "transfer-encoding",
        "upgrade",
        "x-api-key",
    ];
    !NEVER.contains(&name.as_str()) && !name.as_str().starts_with("mcp-")
}

/// Puts `newer` in the place of what has the same names.
fn replace(headers: &mut HeaderMap, newer: &HeaderMap) {
    for name in newer.keys() {
        headers.remove(name);
        for value in newer.get_all(name) {
            headers.append(name, value.clone());
        }
    }
}

impl fmt::Debug for ServerPlan {
    /// Leaves out what may be a secret: arguments, values, the query of a URL.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = out.debug_struct("ServerPlan");
        shown.field("name", &self.name);
        match &self.target {
            Target::Command(command) => shown.field("command", command),
            Target::Url { url, .. } => shown.field("host", &url.host()).field("path", &url.path()),
        };
        shown.field("process", &self.process).finish_non_exhaustive()
    }
}
