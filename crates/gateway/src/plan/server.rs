//! One server of a plan.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use switchboard_net::http::fetch::Fetch;
use switchboard_net::roster::Kind;
use switchboard_net::upstream::{Server, Target};

use crate::config::{Edit, Process, Sleep};
use crate::credential::{Credentials, Source, replace};
use crate::glob::Filter;
use crate::name;

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
    /// Which of its resources clients see, by URI or template.
    pub resources: Filter,
    /// What clients see of a tool instead of what the server says, by its name there.
    pub tool_edits: BTreeMap<String, Edit>,
    /// The same for prompts.
    pub prompt_edits: BTreeMap<String, Edit>,
    /// What stands before the names of its tools and prompts in place of its
    /// own; empty for nothing.
    pub prefix: Option<String>,
    /// What else is sent with each request, beyond the headers of `target`.
    pub credentials: Credentials,
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
            prefix: None,
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
                let server = Server::url(url, strategy, headers.clone(), fetch);
                if self.credentials.is_static() {
                    return server;
                }
                let credentials = self.credentials.clone();
                server.showing(Arc::new(Source::new(credentials, headers, environment)))
            }
        }
    }

    /// Which of a kind clients see; templates by what is said of resources.
    pub fn filter(&self, kind: Kind) -> &Filter {
        match kind {
            Kind::Tools => &self.tools,
            Kind::Prompts => &self.prompts,
            Kind::Resources | Kind::Templates => &self.resources,
        }
    }

    /// What `name` of it is called where servers are offered together.
    pub fn offered(&self, name: &str) -> String {
        match self.prefix.as_deref() {
            Some("") => name::bare(name),
            Some(prefix) => name::offered(prefix, name),
            None => name::offered(&self.name, name),
        }
    }

    /// What clients see of a kind instead of what the server says, by its name there.
    pub fn edits(&self, kind: Kind) -> &BTreeMap<String, Edit> {
        match kind {
            Kind::Tools => &self.tool_edits,
            Kind::Prompts => &self.prompt_edits,
            Kind::Resources | Kind::Templates => const { &BTreeMap::new() },
        }
    }

    /// What it calls something of a kind that is offered under this name, if that can
    /// be told from the name: none if it is offered under another.
    pub fn meant(&self, kind: Kind, offered: &str) -> Option<String> {
        let edits = self.edits(kind);
        let named = edits.iter().filter_map(|(own, edit)| Some((own, edit.name.as_deref()?)));
        if let Some((own, _)) = named.clone().find(|(_, name)| self.offered(name) == offered) {
            return Some(own.clone());
        }
        let prefix = self.prefix.as_deref().unwrap_or(&self.name);
        let name = match name::parts(offered) {
            _ if prefix.is_empty() => offered,
            Some((server, name)) if server == prefix => name,
            _ => return None,
        };
        let is_away = named.into_iter().any(|(own, _)| own == name);
        (!is_away).then(|| name.to_owned())
    }

    /// Whether what it offers may be another thing for each client: each has a
    /// process of its own, or is known there by headers of its own.
    pub fn is_personal(&self) -> bool {
        let is_shared = matches!(self.process, Process::Shared | Process::PerRequest);
        !is_shared || !self.passes().is_empty()
    }

    /// Whether it can tell people apart: each has a process of their own, or is
    /// known there by headers of their own.
    pub fn knows_people(&self) -> bool {
        self.process == Process::PerUser || !self.passes().is_empty()
    }

    /// How long nobody uses it before it is put to sleep; none if it stays.
    pub(crate) fn idle(&self) -> Option<Duration> {
        match self.sleep {
            Sleep::Never => None,
            Sleep::After(idle) => Some(idle),
        }
    }

    /// Headers of clients that it is sent: a command is sent none, whatever its file says.
    pub fn passes(&self) -> &[HeaderName] {
        match &self.target {
            Target::Command(_) => &[],
            Target::Url { .. } => &self.credentials.pass,
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
    /// what clients see of it differs. How long a call may take is part of each
    /// connection.
    pub fn runs_as(&self, old: &Self) -> bool {
        self.name == old.name
            && self.target == old.target
            && self.process == old.process
            && self.credentials == old.credentials
            && self.call == old.call
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
