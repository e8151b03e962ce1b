//! From files to a plan.

use super::{Plan, ServerPlan};
use crate::config::{Config, Entry, Problem};

impl Plan {
    /// What these files mean together, and all that is wrong with them. Of two
    /// servers with one name the first counts; a server with mistakes is left out.
    pub fn build(files: &[Config]) -> (Self, Vec<Problem>) {
        let mut plan = Self::default();
        let mut problems = Vec::new();
        for file in files {
            problems.extend(file.problems.iter().cloned());
            for entry in file.servers.iter().filter(|entry| entry.enabled) {
                plan.servers.entry(entry.name.clone()).or_insert_with(|| ServerPlan::from(entry));
            }
        }
        (plan, problems)
    }
}

impl From<&Entry> for ServerPlan {
    fn from(entry: &Entry) -> Self {
        let mut plan = Self::new(&entry.name, entry.target.clone());
        plan.description.clone_from(&entry.description);
        plan.start = entry.timeouts.start.unwrap_or(Self::START);
        plan.call = entry.timeouts.call;
        plan.tools = entry.tools.clone();
        plan
    }
}
