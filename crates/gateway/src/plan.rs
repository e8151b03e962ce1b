//! What the files mean for a gateway.
//!
//! ```text
//!   config::Config… ──▶ build.rs ──▶ Plan ──▶ diff.rs (old and new) ──▶ Changes
//! ```
//!
//! A plan is a value: it holds no connection and starts nothing. Two plans of
//! the same files are equal, wherever in the files things stand, so that a
//! reload touches only what has another meaning.

use std::collections::BTreeMap;

pub use crate::glob::Filter;
use crate::policy::Access;
pub use diff::Changes;
pub use server::{Credentials, Edit, Process, ServerPlan, Sleep, may_pass};

mod build;
mod diff;
mod server;

/// All that a gateway is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The servers that are wanted, by name.
    pub servers: BTreeMap<String, ServerPlan>,
    /// Sets of servers under a name of their own. Every member is a key of
    /// `servers`, and is there once.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Who may come in, and what they may do.
    pub access: Access,
    /// Where clients find us.
    pub listen: Listen,
    /// Bounds, where the files say so.
    pub bounds: Bounds,
    /// Whether clients get two tools for finding and calling in place of all tools.
    pub search: ToolSearch,
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
