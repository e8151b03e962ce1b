//! Gathers the servers of several files, to put them into one.
//!
//! Servers are compared and copied as their files write them: a variable stays a
//! variable, so that no secret ends up where none was. Nothing is overwritten.

use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstInputValue, CstRootNode};
use switchboard_net::upstream::Target;

use super::client_files::{self, SECTIONS};
use super::expand::FileVariables;
use super::reader::Reader;
use super::tree::{self, MemberKey, Node, Value};
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
        for candidate in &mut import.candidates {
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
    for section in &client_files::server_sections(&tree, around) {
        // `Config::parse` has reported the mistakes of the section.
        for (name, node) in section.servers(&mut Reader::new(section.variables)) {
            if found.len() >= MAX_SERVERS || found.iter().any(|other| other.name == name.value) {
                continue;
            }
            let node = portable(node, &section.variables);
            let mut reader = Reader::new(FileVariables { around, inputs: None, braces: false });
            let entry = entry::read(&name, &node, &mut reader);
            let problems = reader.problems;
            let MemberKey { value: name, place } = name;
            let (client, fate) = (client.to_owned(), ImportOutcome::Broken);
            found.push(Candidate { name, client, place, entry, problems, fate, node });
        }
    }
    Ok(found)
}

/// The same with variables that every file may have.
fn portable(node: &Node, variables: &FileVariables<'_>) -> Node {
    let value = match &node.value {
        Value::Text(text) => Value::Text(variables.portable(text)),
        Value::List(items) => {
            Value::List(items.iter().map(|item| portable(item, variables)).collect())
        }
        Value::Table(members) => {
            let members =
                members.iter().map(|(key, node)| (key.clone(), portable(node, variables)));
            Value::Table(members.collect())
        }
        other => other.clone(),
    };
    Node { place: node.place.clone(), value }
}

/// Names that are taken, and what they lead to.
type Taken = Vec<(String, Option<Target>)>;

/// What becomes of a server, whose name is taken from here on.
fn decide(candidate: &Candidate, taken: &mut Taken) -> ImportOutcome {
    let Some(entry) = &candidate.entry else { return ImportOutcome::Broken };
    let target = nameless(&entry.plan.target);
    let same = taken.iter().find(|(_, other)| other.as_ref() == Some(&target));
    if let Some((name, _)) = same {
        return ImportOutcome::Same(name.clone());
    }
    let name = free_name(taken, &candidate.name, &candidate.client);
    taken.push((name.clone(), Some(target)));
    ImportOutcome::Added(name)
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

/// Why servers cannot be put into a file.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MergeError {
    /// It is not JSON.
    #[error("this is not JSON: {0}")]
    Syntax(String),
    /// Its servers are no object, so that there is no place for names.
    #[error("the file has no object to put servers into")]
    NoObject,
}

impl Import {
    /// `text` with what is added. Comments, order and the way it is written stay.
    /// The section that has servers gets them, else `mcpServers`.
    pub fn merge(&self, text: &str) -> Result<String, MergeError> {
        let text = if text.trim().is_empty() { "{}\n" } else { text };
        let root = CstRootNode::parse(text, &tree::options());
        let root = root.map_err(|error| MergeError::Syntax(error.to_string()))?;
        let file = root.object_value().ok_or(MergeError::NoObject)?;
        let present = SECTIONS.iter().find(|name| file.get(name).is_some());
        file.ensure_multiline();
        let section = file.object_value_or_create(present.unwrap_or(&SECTIONS[0]));
        let section = section.ok_or(MergeError::NoObject)?;
        section.ensure_multiline();
        for candidate in &self.candidates {
            if let ImportOutcome::Added(name) = &candidate.fate {
                section.append(name, input(&candidate.node));
            }
        }
        Ok(root.to_string())
    }
}

fn input(node: &Node) -> CstInputValue {
    match &node.value {
        Value::Null => CstInputValue::Null,
        Value::Bool(bool) => CstInputValue::Bool(*bool),
        Value::Number(number) => CstInputValue::Number(number.clone()),
        Value::Text(text) => CstInputValue::String(text.clone()),
        Value::List(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Table(members) => {
            let members = members.iter().map(|(key, node)| (key.value.clone(), input(node)));
            CstInputValue::Object(members.collect())
        }
    }
}

#[cfg(test)]
mod tests;
