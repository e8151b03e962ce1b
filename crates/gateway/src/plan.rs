//! What the files mean for a gateway.
//!
//! ```text
//!   files ──▶ reading.rs ──▶ config::Config… ──▶ build.rs ──▶ Plan ──▶ diff.rs ──▶ Changes
//! ```
//!
//! A plan is a value: it holds no connection and starts nothing. Two plans of
//! the same files are equal, wherever in the files things stand, so that a
//! reload touches only what has another meaning.

use std::collections::BTreeMap;

pub use crate::config::{Bounds, Edit, Listen, Process, Sleep, ToolSearch};
pub use crate::credential::{Credentials, may_pass};
pub use crate::glob::Filter;
use crate::policy::Access;
pub use diff::Changes;
pub use reading::Reading;
pub use secret::Secret;
pub use server::ServerPlan;

mod build;
mod diff;
mod reading;
mod secret;
mod server;
#[cfg(test)]
mod tests;

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
    /// Whether the gateway has tools of its own, which tell of it and of calls.
    pub diagnostics: bool,
}
