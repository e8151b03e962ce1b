//! What servers offer, as the bytes it came in.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use switchboard_proto::{method, patch};

/// What a list is a list of.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// Tools.
    Tools,
    /// Prompts.
    Prompts,
    /// Resources.
    Resources,
    /// Patterns of resources.
    Templates,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The method that lists it.
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => method::LIST_TOOLS,
            Self::Prompts => method::LIST_PROMPTS,
            Self::Resources => method::LIST_RESOURCES,
            Self::Templates => method::LIST_TEMPLATES,
        }
    }

    /// The member of the result that has the list.
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The capability that a server declares for it.
    pub fn capability(self) -> &'static str {
        if self == Self::Templates { "resources" } else { self.member() }
    }

    /// The member that tells one definition from another.
    fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// What a notification says has changed.
    pub(super) fn changed_by(note: &str) -> impl Iterator<Item = Self> {
        let says = |kind: &Self| method::list_changed(kind.capability()) == Some(note);
        Self::ALL.into_iter().filter(says)
    }
}

/// One thing that a server offers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Definition {
    /// The server that offers it.
    pub server: Arc<str>,
    /// What it is.
    pub kind: Kind,
    /// The definition as it came.
    pub text: Bytes,
    /// Whether it is from an earlier time, for the server is not ready.
    pub is_cached: bool,
}

impl Definition {
    /// Its name, or its URI, or its pattern; empty if it has none.
    pub fn name(&self) -> Cow<'_, str> {
        patch::string(&self.text, &[self.kind.key()]).unwrap_or_default()
    }

    /// The definition as a value.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.text).unwrap_or_default()
    }
}

/// All that one server offers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Definitions {
    lists: [Vec<Bytes>; 4],
}

impl Definitions {
    pub(super) fn list(&self, kind: Kind) -> &[Bytes] {
        &self.lists[kind as usize]
    }

    pub(super) fn set(&mut self, kind: Kind, list: Vec<Bytes>) {
        self.lists[kind as usize] = list;
    }
}
