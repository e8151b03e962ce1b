//! What somebody may use.

use crate::glob::{Filter, fits};

/// Servers, groups and tools, by name or with `*`. The default is everything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Grant {
    /// These servers; those of `groups` alone if that is said and this is not.
    pub servers: Option<Vec<String>>,
    /// These groups.
    pub groups: Option<Vec<String>>,
    /// The servers of these groups, which whoever makes the plan looks up.
    pub members: Vec<String>,
    /// These tools, as `<server>__<tool>`.
    pub tools: Filter,
    /// Nothing that this does not grant too.
    pub within: Option<Box<Self>>,
}

impl Grant {
    /// Nothing at all.
    pub fn nothing() -> Self {
        let none = Some(Vec::new());
        Self { servers: none.clone(), groups: none, ..Self::default() }
    }

    /// What both grant.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        if self == other {
            return self.clone();
        }
        Self { within: Some(Box::new(other.clone())), ..self.clone() }
    }

    /// Whether nothing is kept from them.
    pub fn is_open(&self) -> bool {
        self.servers.is_none() && self.groups.is_none() && self.has_all_tools()
    }

    /// Whether no tool is kept from them that a granted server has.
    pub(crate) fn has_all_tools(&self) -> bool {
        self.tools.is_open() && self.within.as_ref().is_none_or(|outer| outer.is_open())
    }

    fn is_within(&self, has: impl Fn(&Self) -> bool) -> bool {
        self.within.as_deref().is_none_or(has)
    }

    pub(crate) fn has_server(&self, name: &str) -> bool {
        if !self.is_within(|outer| outer.has_server(name)) {
            return false;
        }
        let named = self.servers.as_deref();
        let named = named.map(|servers| servers.iter().any(|pattern| fits(pattern, name)));
        named.unwrap_or(self.groups.is_none()) || self.members.iter().any(|member| member == name)
    }

    pub(super) fn has_group(&self, name: &str) -> bool {
        let named = self.groups.as_deref();
        named.is_none_or(|groups| groups.iter().any(|pattern| fits(pattern, name)))
            && self.is_within(|outer| outer.has_group(name))
    }

    pub(crate) fn has_tool(&self, server: &str, tool: &str) -> bool {
        (self.tools.is_open() || self.tools.lets(&format!("{server}__{tool}")))
            && self.is_within(|outer| outer.has_tool(server, tool))
    }
}
