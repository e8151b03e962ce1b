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
}

impl Grant {
    /// Nothing at all.
    pub fn nothing() -> Self {
        let none = Some(Vec::new());
        Self { servers: none.clone(), groups: none, ..Self::default() }
    }

    /// Whether nothing is kept from them.
    pub fn is_open(&self) -> bool {
        self.servers.is_none() && self.groups.is_none() && self.tools.is_open()
    }

    pub(crate) fn has_server(&self, name: &str) -> bool {
        let named = self.servers.as_deref();
        let named = named.map(|servers| servers.iter().any(|pattern| fits(pattern, name)));
        named.unwrap_or(self.groups.is_none()) || self.members.iter().any(|member| member == name)
    }

    pub(super) fn has_group(&self, name: &str) -> bool {
        let named = self.groups.as_deref();
        named.is_none_or(|groups| groups.iter().any(|pattern| fits(pattern, name)))
    }

    pub(crate) fn has_tool(&self, server: &str, tool: &str) -> bool {
        self.tools.is_open() || self.tools.lets(&format!("{server}__{tool}"))
    }
}
