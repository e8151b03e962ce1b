//! Where in a file the servers are.

use std::path::Path;

use super::key::nearest;
use super::problem::Problem;
use super::surroundings::Surroundings;
use super::tree::{Key, Node, Value};

/// Members that hold servers, by name.
pub(super) const SECTIONS: [&str; 5] =
    ["mcpServers", "servers", "mcp_servers", "context_servers", "amp.mcpServers"];

/// What a section is to be.
const OBJECT: &str = "write an object with a member for each: { \"NAME\": { … } }";

/// A part of a file that holds servers.
pub(super) struct Section<'t> {
    node: &'t Node,
    /// What `${input:…}` stands for (VS Code).
    pub(super) inputs: Option<&'t Node>,
    /// Whether `{env:VAR}` is a variable too (opencode).
    pub(super) braces: bool,
}

/// Every part of a file that holds servers, the nearest to the user first.
pub(super) fn servers<'t>(tree: &'t Node, around: &Surroundings) -> Vec<Section<'t>> {
    let mut found = Vec::new();
    let plain = |node| Section { inputs: tree.get("inputs"), ..Section::plain(node) };
    // Claude Code keeps what belongs to a folder beside what belongs to the user.
    let folder = around.folder().to_string_lossy();
    let project = tree.get("projects").and_then(|projects| projects.get(&folder));
    found.extend(project.and_then(|project| project.get("mcpServers")).map(plain));
    found.extend(SECTIONS.iter().filter_map(|name| tree.get(name)).map(plain));
    if let Some(mcp) = tree.get("mcp") {
        match mcp.get("servers") {
            Some(node) => {
                found.push(Section { node, inputs: mcp.get("inputs"), braces: false });
            }
            None => found.push(Section { node: mcp, inputs: None, braces: true }),
        }
    }
    found
}

/// Whether the file is of a known kind, even if it names no server.
pub(super) fn has_section(tree: &Node) -> bool {
    SECTIONS
        .iter()
        .chain(&["mcp", "projects", super::gateway::NAME])
        .any(|name| tree.get(name).is_some())
}

/// What to write into a file without servers.
pub(super) fn instead(tree: &Node, file: &Path) -> String {
    let keys = tree.table().into_iter().flatten();
    let names = SECTIONS.into_iter().chain([super::gateway::NAME]);
    for (key, _) in keys {
        if let Some(name) = nearest(&key.text, names.clone()) {
            return format!("line {}: write {name:?} for {:?}", key.place.line, key.text);
        }
    }
    if file.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml")) {
        return "write [mcp_servers.NAME] and below it command = \"…\" or url = \"…\"".to_owned();
    }
    "write { \"mcpServers\": { \"NAME\": { \"command\": \"…\" } } }, or \"url\" for \"command\""
        .to_owned()
}

impl<'t> Section<'t> {
    /// A section with nothing special about it.
    pub(super) fn plain(node: &'t Node) -> Self {
        Self { node, inputs: None, braces: false }
    }

    /// The servers in it: an object by name, or a list whose members have one.
    pub(super) fn servers(&self, problems: &mut Vec<Problem>) -> Vec<(Key, &'t Node)> {
        match &self.node.value {
            Value::Table(members) => {
                members.iter().map(|(key, node)| (key.clone(), node)).collect()
            }
            Value::List(items) if items.is_empty() => {
                let what = "the servers are an empty list";
                let note = Problem::note(&self.node.place, what, OBJECT);
                problems.push(note);
                Vec::new()
            }
            Value::List(items) => items.iter().filter_map(|item| named(item, problems)).collect(),
            // An empty section, as some clients write it.
            Value::Null => Vec::new(),
            _ => {
                let what = format!("the servers are {}", self.node.kind());
                problems.push(Problem::error(&self.node.place, what, OBJECT));
                Vec::new()
            }
        }
    }
}

fn named<'t>(item: &'t Node, problems: &mut Vec<Problem>) -> Option<(Key, &'t Node)> {
    let name = item.get("name");
    let key = name
        .and_then(|node| Some(Key { text: node.text()?.to_owned(), place: node.place.clone() }));
    if key.is_none() {
        let what = "a server in a list has no name";
        problems.push(Problem::error(&item.place, what, "add \"name\": \"…\""));
    }
    Some((key?, item))
}
