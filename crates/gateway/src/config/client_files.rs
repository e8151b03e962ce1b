//! Where in the files of MCP clients servers are named, and what a client writes otherwise than
//! most do.

use std::borrow::Cow;
use std::path::Path;

use super::client_table::path_in;
use super::expand::FileVariables;
use super::key::nearest;
use super::reader::Reader;
use super::tree::{FileFormat, MemberKey, Node, Value};
use super::{Surroundings, tree};

/// Members that hold servers, by name.
pub(super) const SECTIONS: [&str; 5] =
    ["mcpServers", "servers", "mcp_servers", "context_servers", "amp.mcpServers"];

/// What a section is to be.
const OBJECT_HINT: &str = "write an object with a member for each: { \"NAME\": { … } }";

/// A part of a file that holds servers.
#[derive(Clone, Copy)]
pub(super) struct Section<'t> {
    node: &'t Node,
    pub(super) variables: FileVariables<'t>,
    dialect: Dialect,
    /// Lists of names: the only servers that the user wants, and those that they do not want.
    allowed: Option<&'t Node>,
    excluded: Option<&'t Node>,
}

/// Whose words the servers of a section are in.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Dialect {
    /// Words that [`KEYS`](super::key::KEYS) has.
    Common,
    Continue,
    Goose,
}

/// Every part of a file that holds servers, the nearest to the user first.
pub(super) fn server_sections<'t>(tree: &'t Node, around: &'t Surroundings) -> Vec<Section<'t>> {
    let file = &tree.place.file;
    let is_yaml = FileFormat::of(file) == FileFormat::Yaml;
    let mcp = tree.get("mcp");
    let lists_names = mcp.filter(|mcp| is_about_servers(mcp));
    // Claude Code keeps what belongs to a folder beside what belongs to the user.
    let folder = around.folder().to_string_lossy();
    let project = tree.get("projects").and_then(|projects| projects.get(&folder));
    let plain = |node| Section {
        node,
        variables: FileVariables {
            around,
            inputs: tree.get("inputs"),
            braces: false,
            dollars: file.parent().is_some_and(|folder| folder.ends_with(".gemini")),
        },
        dialect: if is_yaml { Dialect::Continue } else { Dialect::Common },
        allowed: lists_names.and_then(|mcp| mcp.get("allowed")),
        excluded: lists_names
            .and_then(|mcp| mcp.get("excluded"))
            .or_else(|| project?.get("disabledMcpServers")),
    };
    let mut found = Vec::new();
    found.extend(project.and_then(|project| project.get("mcpServers")).map(plain));
    found.extend(SECTIONS.iter().filter_map(|name| tree.get(name)).map(plain));
    let extensions = tree.get("extensions").filter(|_| is_yaml);
    found.extend(extensions.map(|node| Section { dialect: Dialect::Goose, ..plain(node) }));
    if let Some(node) = mcp.and_then(|mcp| mcp.get("servers")) {
        let mut section = plain(node);
        section.variables.inputs = mcp.and_then(|mcp| mcp.get("inputs"));
        found.push(section);
    } else if let Some(node) = mcp.filter(|_| lists_names.is_none()) {
        let mut section = plain(node);
        (section.variables.inputs, section.variables.braces) = (None, true);
        found.push(section);
    }
    found
}

/// Whether a member `mcp` says something about servers that are named elsewhere (Gemini CLI, VS
/// Code), rather than naming them (opencode).
fn is_about_servers(mcp: &Node) -> bool {
    let is_said = |name: &&str| mcp.get(name).is_some_and(|node| node.table().is_none());
    ["allowed", "excluded", "inputs", "serverCommand"].iter().any(is_said)
}

/// The servers of `.mcp.json` that the user of Claude Code has rejected in this folder.
pub(super) fn rejected_in_claude_code(around: &Surroundings) -> Vec<String> {
    let read = |file: &Path| tree::parse(file, &super::text_of(file).ok()?).ok();
    let names = |node: Option<&Node>| {
        let list = node.and_then(|node| node.get("disabledMcpjsonServers"));
        texts(list).map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let folder = around.folder().join(".claude");
    let mut rejected = Vec::new();
    let moved = path_in(around, "CLAUDE_CONFIG_DIR");
    let of_user = moved.clone().or_else(|| Some(around.home()?.join(".claude")));
    let of_user = of_user.map(|folder| folder.join("settings.json"));
    let settings = ["settings.json", "settings.local.json"].map(|name| folder.join(name));
    for file in settings.iter().chain(&of_user) {
        rejected.extend(names(read(file).as_ref()));
    }
    let of_projects = moved.or_else(|| around.home());
    let of_projects = of_projects.and_then(|folder| read(&folder.join(".claude.json")));
    let projects = of_projects.as_ref().and_then(|file| file.get("projects"));
    let here = around.folder().to_string_lossy();
    rejected.extend(names(projects.and_then(|projects| projects.get(&here))));
    rejected
}

/// The texts of a list.
fn texts(list: Option<&Node>) -> impl Iterator<Item = &str> {
    let items = list.and_then(|list| match &list.value {
        Value::List(items) => Some(items),
        _ => None,
    });
    items.into_iter().flatten().filter_map(Node::text)
}

/// Whether the file is of a known kind, even if it names no server.
pub(super) fn has_section(tree: &Node) -> bool {
    SECTIONS
        .iter()
        .chain(&["extensions", "mcp", "projects", super::gateway::NAME])
        .any(|name| tree.get(name).is_some())
}

/// What to write into a file without servers.
pub(super) fn section_hint(tree: &Node, file: &Path) -> String {
    let keys = tree.table().into_iter().flatten();
    let names = SECTIONS.into_iter().chain([super::gateway::NAME]);
    for (key, _) in keys {
        if let Some(name) = nearest(&key.value, names.clone()) {
            return format!("line {}: write {name:?} for {:?}", key.place.line, key.value);
        }
    }
    let example = match FileFormat::of(file) {
        FileFormat::Json => {
            "write { \"mcpServers\": { \"NAME\": { \"command\": \"…\" } } }, or \"url\" for \"command\""
        }
        FileFormat::Toml => "write [mcp_servers.NAME] and below it command = \"…\" or url = \"…\"",
        FileFormat::Yaml => "write mcpServers: [{ name: NAME, command: … }], or url for command",
    };
    example.to_owned()
}

impl<'t> Section<'t> {
    /// The servers in it, in words of ours.
    pub(super) fn servers(&self, reader: &mut Reader<'_>) -> Vec<(MemberKey, Cow<'t, Node>)> {
        let named = self.named(reader).into_iter();
        named
            .filter_map(|(key, node)| self.translated(&key.value, node).map(|it| (key, it)))
            .collect()
    }

    /// The servers in it: an object by name, or a list whose members have one.
    fn named(&self, reader: &mut Reader<'_>) -> Vec<(MemberKey, &'t Node)> {
        match &self.node.value {
            Value::Table(members) => {
                members.iter().map(|(key, node)| (key.clone(), node)).collect()
            }
            Value::List(items) if items.is_empty() => {
                reader.note(&self.node.place, "the servers are an empty list", OBJECT_HINT);
                Vec::new()
            }
            Value::List(items) => {
                items.iter().filter_map(|item| named_item(item, reader)).collect()
            }
            // An empty section, as some clients write it.
            Value::Null => Vec::new(),
            _ => {
                let what = format!("the servers are {}", self.node.kind());
                reader.error(&self.node.place, what, OBJECT_HINT);
                Vec::new()
            }
        }
    }
}

impl<'t> Section<'t> {
    /// A server in words of ours; none if it is a part of the client, and no server.
    fn translated(&self, name: &str, node: &'t Node) -> Option<Cow<'t, Node>> {
        let is_allowed = self.allowed.is_none_or(|list| texts(Some(list)).any(|it| it == name));
        let is_off = !is_allowed || texts(self.excluded).any(|it| it == name);
        let node = match self.dialect {
            Dialect::Common => Cow::Borrowed(node),
            Dialect::Continue => Cow::Owned(of_continue(node)),
            Dialect::Goose => Cow::Owned(of_goose(node)?),
        };
        Some(if is_off { Cow::Owned(switched_off(&node)) } else { node })
    }
}

/// The same server, and that the user does not want it.
pub(super) fn switched_off(node: &Node) -> Node {
    let Some(members) = node.table() else { return node.clone() };
    let is_other = |(key, _): &&(MemberKey, Node)| !["disabled", "enabled"].contains(&&*key.value);
    let mut members: Vec<_> = members.iter().filter(is_other).cloned().collect();
    let place = node.place.clone();
    let key = MemberKey { place: place.clone(), value: "disabled".to_owned() };
    members.push((key, Node { place: place.clone(), value: Value::Bool(true) }));
    Node { place, value: Value::Table(members) }
}

/// Continue has headers among other options of requests, and its own form of variables.
fn of_continue(node: &Node) -> Node {
    let node = node.map_texts(&|text| {
        let mut parts = text.split("${{");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |filled, part| match part.split_once("}}") {
            Some((inner, rest)) => {
                let name = inner.trim().rsplit('.').next().unwrap_or_default();
                format!("{filled}${{{name}}}{rest}")
            }
            None => format!("{filled}${{{{{part}"),
        })
    });
    let Some(members) = node.table() else { return node };
    let mut ours = Vec::new();
    for (key, value) in members {
        match key.value.as_str() {
            "requestOptions" => {
                let headers =
                    value.get("headers").map(|headers| (renamed(key, "headers"), headers));
                ours.extend(headers.map(|(key, headers)| (key, headers.clone())));
            }
            "connectionTimeout" => ours.push((renamed(key, "startup_timeout_ms"), value.clone())),
            "faviconUrl" | "serverName" | "sourceFile" => {}
            _ => ours.push((key.clone(), value.clone())),
        }
    }
    Node { place: node.place.clone(), value: Value::Table(ours) }
}

/// Goose has its own word for most keys. Its own parts are extensions as well.
fn of_goose(node: &Node) -> Option<Node> {
    let Some(members) = node.table() else { return Some(node.clone()) };
    let is_bundled = node.get("bundled").is_some_and(|node| node.value == Value::Bool(true));
    let own = ["builtin", "frontend", "inline_python", "platform"];
    if is_bundled || node.get("type").and_then(Node::text).is_some_and(|kind| own.contains(&kind)) {
        return None;
    }
    let mut ours = Vec::new();
    for (key, value) in members {
        let name = match key.value.as_str() {
            "available_tools" if value.is_empty() => continue,
            "available_tools" => "includeTools",
            "bundled" | "display_name" | "name" => continue,
            "cmd" => "command",
            "env_keys" => "env_vars",
            "envs" => "env",
            "timeout" | "description" if value.value == Value::Null => continue,
            "uri" => "url",
            other => other,
        };
        ours.push((renamed(key, name), value.clone()));
    }
    Some(Node { place: node.place.clone(), value: Value::Table(ours) })
}

fn renamed(key: &MemberKey, name: &str) -> MemberKey {
    MemberKey { place: key.place.clone(), value: name.to_owned() }
}

fn named_item<'t>(item: &'t Node, reader: &mut Reader<'_>) -> Option<(MemberKey, &'t Node)> {
    let named = item.get("name").and_then(|node| Some((node, node.text()?.to_owned())));
    if named.is_none() {
        let what = "a server in a list has no name".to_owned();
        reader.error(&item.place, what, "add \"name\": \"…\"");
    }
    named.map(|(node, value)| (MemberKey { place: node.place.clone(), value }, item))
}
