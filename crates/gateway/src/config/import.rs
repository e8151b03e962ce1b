//! Gathers the servers of several files, to put them into one.
//!
//! Servers are compared and copied as their files write them: a variable stays a
//! variable, so that no secret ends up where none was. Nothing is overwritten. The entry of our
//! own gateway is left out: behind itself, the gateway would be a loop.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use switchboard_net::upstream::Target;

use super::client_entry::{GATEWAY_NAME, USUAL_GATEWAY};
use super::client_files::{self, SECTIONS, rejected_in_claude_code, switched_off};
use super::expand::FileVariables;
use super::reader::Reader;
use super::text_edit::{EditError, EntryPath, with_entry};
use super::tree::{self, MemberKey, Node};
use super::{
    Config, Entry, Problem, ReadError, SourceLocation, Surroundings, Weight, entry, text_of,
};

/// Servers of one file; more is not a configuration.
const MAX_SERVERS: usize = 1000;

/// A server that was found.
#[derive(Clone)]
pub struct Candidate {
    /// What its file calls it.
    pub name: String,
    /// Whose file it is.
    pub client: String,
    /// Where in the file it is.
    pub place: SourceLocation,
    /// What it says, with its variables as they are; none if it has mistakes.
    pub entry: Option<Entry>,
    /// What is wrong or worth a note.
    pub problems: Vec<Problem>,
    /// What becomes of it.
    pub fate: ImportOutcome,
    /// As it is written.
    node: Node,
}

/// What becomes of a server that was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ImportOutcome {
    /// It is added, under this name.
    Added(String),
    /// It is there already, under this name.
    Same(String),
    /// It has mistakes, and is left out.
    Broken,
    /// It is our own gateway, and is left out.
    Gateway,
}

/// What was found, and what would be added.
#[derive(Default)]
pub struct Import {
    /// In the order of the files.
    pub candidates: Vec<Candidate>,
    /// Files that are there and make no sense.
    pub unread: Vec<ReadError>,
    /// Files that were looked into and had servers.
    pub files: Vec<PathBuf>,
}

impl Import {
    /// Looks into `from`, files of whom, and says what would be added to the file
    /// `into`, which need not be there.
    pub fn gather(
        from: &[(String, PathBuf)],
        into: Option<&Path>,
        around: &Surroundings,
    ) -> Result<Self, ReadError> {
        let around = around.literal();
        let mut import = Self::default();
        let mut taken = match into.map(|file| Config::read(file, &around)) {
            Some(Ok(config)) => {
                let entry = |name: &str| config.server(name)?.ok();
                let target = |name: &str| Some(nameless(&entry(name)?.plan.target));
                config.names().map(|name| (name.to_owned(), target(name))).collect()
            }
            Some(Err(error)) if !error.is_without_servers() => return Err(error),
            _ => Taken::new(),
        };
        // One file under one name, wherever links lead.
        let mut seen: Vec<PathBuf> = into.iter().filter_map(|it| it.canonicalize().ok()).collect();
        for (client, file) in from {
            match file.canonicalize() {
                Ok(real) if !seen.contains(&real) => seen.push(real),
                _ => continue,
            }
            match candidates(client, file, &around) {
                Ok(found) if found.is_empty() => {}
                Ok(found) => {
                    import.files.push(file.clone());
                    import.candidates.extend(found);
                }
                Err(error) if error.is_without_servers() => {}
                Err(error) => import.unread.push(error),
            }
        }
        // Of two entries for one server, the one that is switched on counts.
        let is_off = |found: &Candidate| found.entry.as_ref().is_some_and(|it| !it.enabled);
        let (off, on): (Vec<_>, Vec<_>) = import.candidates.iter_mut().partition(|it| is_off(it));
        for candidate in on.into_iter().chain(off) {
            candidate.fate = decide(candidate, &mut taken);
        }
        Ok(import)
    }

    /// How many servers would be added.
    pub fn added(&self) -> usize {
        self.candidates.iter().filter(|found| matches!(found.fate, ImportOutcome::Added(_))).count()
    }
}

fn candidates(
    client: &str,
    file: &Path,
    around: &Surroundings,
) -> Result<Vec<Candidate>, ReadError> {
    let text = text_of(file)?;
    let tree = tree::parse(file, &text).map_err(ReadError::Syntax)?;
    let mut found: Vec<Candidate> = Vec::new();
    let is_approved = file.ends_with(".mcp.json");
    let rejected = if is_approved { rejected_in_claude_code(around) } else { Vec::new() };
    for section in &client_files::server_sections(&tree, around) {
        // `Config::parse` has reported the mistakes of the section.
        for (name, node) in section.servers(&mut Reader::new(section.variables)) {
            if found.len() >= MAX_SERVERS || found.iter().any(|other| other.name == name.value) {
                continue;
            }
            let node = node.map_texts(&|text| section.variables.portable(text));
            let node = if rejected.contains(&name.value) { switched_off(&node) } else { node };
            let mut reader = Reader::new(FileVariables::plain(around));
            let entry = entry::read(&name, &node, &mut reader);
            let problems = reader.problems;
            let MemberKey { value: name, place } = name;
            let (client, fate) = (client.to_owned(), ImportOutcome::Broken);
            found.push(Candidate { name, client, place, entry, problems, fate, node });
        }
    }
    Ok(found)
}

/// Names that are taken, and what they lead to.
type Taken = Vec<(String, Option<Target>)>;

/// What becomes of a server, whose name is taken from here on.
fn decide(candidate: &Candidate, taken: &mut Taken) -> ImportOutcome {
    let Some(entry) = &candidate.entry else { return ImportOutcome::Broken };
    if is_gateway(&candidate.name, &entry.plan.target) {
        return ImportOutcome::Gateway;
    }
    let target = nameless(&entry.plan.target);
    let same = taken.iter().find(|(_, other)| other.as_ref() == Some(&target));
    if let Some((name, _)) = same {
        return ImportOutcome::Same(name.clone());
    }
    let name = free_name(taken, &candidate.name, &candidate.client);
    taken.push((name.clone(), Some(target)));
    ImportOutcome::Added(name)
}

/// Whether an entry leads to our own gateway, as `install` writes it: under our name to this
/// machine, or to the usual address by our bridge or by the path of one server. Other programs
/// have that port, too, and a gateway elsewhere is a server like others.
fn is_gateway(name: &str, target: &Target) -> bool {
    let (url, is_bridge) = match target {
        Target::Url { url, .. } => (url.clone(), false),
        Target::Command(command) => {
            let is_ours = Path::new(&command.program).file_stem() == Some(GATEWAY_NAME.as_ref());
            let url = match command.args.as_slice() {
                [verb, url, ..] if is_ours && verb == "bridge" => url.parse().ok(),
                _ => None,
            };
            let Some(url) = url else { return false };
            (url, true)
        }
    };
    let address = url.authority().map_or("", |it| it.as_str());
    let is_usual = USUAL_GATEWAY.strip_prefix("http://") == Some(address);
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse().is_ok_and(|it: IpAddr| it.is_loopback());
    let is_server = ["/servers/", "/groups/"].iter().any(|start| url.path().starts_with(start));
    (is_usual && (is_bridge || is_server)) || (is_here && name == GATEWAY_NAME)
}

/// A free name: the server's own, then with the client's name, then with a number.
fn free_name(taken: &Taken, name: &str, client: &str) -> String {
    let letters = client.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let client = letters.collect::<String>().to_ascii_lowercase();
    let whose = format!("{name}-{client}");
    let numbered = (2..).map(|number| format!("{whose}-{number}"));
    let mut names = [name.to_owned(), whose.clone()].into_iter().chain(numbered);
    let is_free = |name: &String| taken.iter().all(|(other, _)| other != name);
    names.find(is_free).unwrap_or(whose)
}

/// Where a server is, whatever it is called.
fn nameless(target: &Target) -> Target {
    let mut target = target.clone();
    if let Target::Command(command) = &mut target {
        command.name.clear();
    }
    target
}

impl Candidate {
    /// The mistakes; what is left are notes.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.weight == Weight::Error)
    }
}

impl Import {
    /// `text`, which is in `file`, with what is added. Comments, order and the way it is written
    /// stay. The section that has servers gets them, else `mcpServers`.
    pub fn merge(&self, file: &Path, text: &str) -> Result<String, EditError> {
        let tree = tree::parse(file, text).ok();
        let is_there = |name: &&&str| tree.as_ref().is_some_and(|tree| tree.get(name).is_some());
        let section = SECTIONS.iter().find(is_there).unwrap_or(&SECTIONS[0]);
        let mut text = text.to_owned();
        for candidate in &self.candidates {
            if let ImportOutcome::Added(name) = &candidate.fate {
                let at = EntryPath { section: &[section], is_list: false, name };
                text = with_entry(file, &text, &at, &candidate.node)?;
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
