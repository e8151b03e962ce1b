//! How a gateway is to treat a server: keys of ours, beside those of everybody.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::credential::Credentials;
use crate::glob::Filter;

mod read;

/// What the file says; the default is that it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Who shares a process with whom.
    pub process: Option<Process>,
    /// When it may be put to sleep.
    pub sleep: Option<Sleep>,
    /// Calls it gets at once.
    pub calls: Option<NonZeroUsize>,
    /// Which of its prompts are wanted.
    pub prompts: Filter,
    /// Which of its resources are wanted, by URI.
    pub resources: Filter,
    /// What clients see of its tools instead, by their names there.
    pub tool_edits: BTreeMap<String, Edit>,
    /// The same for its prompts.
    pub prompt_edits: BTreeMap<String, Edit>,
    /// What stands before its names in place of its own; empty for nothing.
    pub prefix: Option<String>,
    /// What else is sent with each request.
    pub credentials: Credentials,
}

/// Who shares a process with whom; for a URL, who shares a session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Process {
    /// Everybody shares one. What a client can do, and which logs and questions
    /// are whose, is then not told apart by every server.
    Shared,
    /// Each client session has its own; it is started when the client first calls.
    #[default]
    PerSession,
    /// Each principal has its own.
    PerUser,
    /// Each call has its own.
    PerRequest,
    /// Each client session has its own, and so many are started ahead.
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
