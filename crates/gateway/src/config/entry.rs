//! One server of a file.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use switchboard_net::http::fetch::Fetch;
use switchboard_net::upstream::{Server, Target};

use super::expand::Variables;
use super::problem::{Place, Problem, Weight};
use super::settings::Settings;
use super::shape::Section;
use super::surroundings::Surroundings;
use super::tree::{Key, Node};
use crate::glob::Filter;
use draft::Draft;

mod draft;
mod target;

/// A server, with its variables filled in.
#[derive(Clone, PartialEq)]
pub struct Entry {
    /// What the file calls it.
    pub name: String,
    /// Where in the file it is.
    pub place: Place,
    /// Where the server is.
    pub target: Target,
    /// Whether its user wants it to be used.
    pub enabled: bool,
    /// In words.
    pub description: Option<String>,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// Which of its tools are wanted.
    pub tools: Filter,
    /// How a gateway is to treat it.
    pub settings: Settings,
}

/// How long a server may take, where its file says so.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Timeouts {
    /// To start and to be greeted.
    pub start: Option<Duration>,
    /// To answer a call.
    pub call: Option<Duration>,
}

impl Entry {
    /// The server, to connect to. `environment` is ours, of which a command gets
    /// what it may have; `fetch` is how URLs are reached.
    pub fn server(&self, environment: Vec<(OsString, OsString)>, fetch: Fetch) -> Server {
        match self.target.clone() {
            Target::Command(command) => Server::command(command, environment),
            Target::Url { url, strategy, headers } => Server::url(url, strategy, headers, fetch),
        }
    }
}

impl fmt::Debug for Entry {
    /// Leaves out what may be a secret: arguments, values, the query of a URL.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = out.debug_struct("Entry");
        shown.field("name", &self.name).field("place", &self.place.to_string());
        match &self.target {
            Target::Command(command) => shown.field("command", command),
            Target::Url { url, .. } => shown.field("host", &url.host()).field("path", &url.path()),
        };
        shown.field("enabled", &self.enabled).finish_non_exhaustive()
    }
}

/// Reads a server; none if it has mistakes, which are told.
pub(super) fn read(
    name: &Key,
    node: &Node,
    section: &Section<'_>,
    around: &Surroundings,
    problems: &mut Vec<Problem>,
    besides: &mut Vec<PathBuf>,
) -> Option<Entry> {
    let Some(members) = node.table() else {
        let what = format!("server {:?} is {}", name.text, node.kind());
        let instead = "write an object: { \"command\": \"…\" } or { \"url\": \"…\" }";
        problems.push(Problem::error(&node.place, what, instead));
        return None;
    };
    let variables = Variables { around, inputs: section.inputs, braces: section.braces };
    let mut draft = Draft::new(variables);
    if matches!(name.text.as_str(), "" | "." | "..") {
        // Clients make another path of it before they ask for it.
        let what = format!("{:?} is no name for a server: it is part of a URL", name.text);
        draft.reader.error(&name.place, what, "use letters, digits, _, - and .");
    }
    for (key, value) in members {
        draft.member(key, value);
    }
    let target = draft.target(name);
    let Draft { enabled, description, timeouts, tools, settings, reader, .. } = draft;
    besides.extend(reader.besides);
    let mut found = reader.problems;
    let is_whole = found.iter().all(|problem| problem.weight != Weight::Error);
    if !enabled {
        // Nobody wants it, so nothing is the matter.
        for problem in &mut found {
            problem.weight = Weight::Note;
        }
    }
    problems.extend(found);
    let target = target.filter(|_| is_whole)?;
    let (name, place) = (name.text.clone(), name.place.clone());
    Some(Entry { name, place, target, enabled, description, timeouts, tools, settings })
}
