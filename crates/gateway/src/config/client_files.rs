//! The configuration files of MCP clients: where they are, and where in them servers are named.

use std::path::{Path, PathBuf};

use super::Surroundings;
use super::expand::FileVariables;
use super::key::nearest;
use super::reader::Reader;
use super::tree::{MemberKey, Node, Value};

/// In the working folder, the nearest first.
const IN_FOLDER: &[(&str, &str)] = &[
    ("Switchboard", "switchboard.json"),
    ("Switchboard", "switchboard.toml"),
    ("Claude Code", ".mcp.json"),
    ("MCP", "mcp.json"),
    ("VS Code", ".vscode/mcp.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("Codex", ".codex/config.toml"),
    ("Gemini CLI", ".gemini/settings.json"),
    ("opencode", "opencode.json"),
    ("opencode", "opencode.jsonc"),
    ("Zed", ".zed/settings.json"),
];

/// Below the user's folder for settings.
const IN_SETTINGS: &[(&str, &str)] = &[
    ("Claude Desktop", "Claude/claude_desktop_config.json"),
    ("VS Code", "Code/User/mcp.json"),
    ("opencode", "opencode/opencode.json"),
    ("opencode", "opencode/opencode.jsonc"),
    ("Zed", "zed/settings.json"),
];

/// Below the user's home.
const IN_HOME: &[(&str, &str)] = &[
    ("Claude Code", ".claude.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("Windsurf", ".codeium/windsurf/mcp_config.json"),
    ("Gemini CLI", ".gemini/settings.json"),
    ("Copilot CLI", ".copilot/mcp-config.json"),
    ("LM Studio", ".lmstudio/mcp.json"),
    ("Amazon Q", ".aws/amazonq/mcp.json"),
];

/// All files that may be there, each with the client whose it is, in the order in which a name is looked for: the folder, ours,
/// then the other clients of the user.
pub fn known(around: &Surroundings) -> Vec<(String, PathBuf)> {
    let mut places = Vec::new();
    let mut add = |base: &PathBuf, files: &[(&str, &str)]| {
        places.extend(files.iter().map(|(client, file)| ((*client).to_owned(), base.join(file))));
    };
    add(&around.folder().to_owned(), IN_FOLDER);
    let home = around.home();
    let named = |name| around.variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let settings = named("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    if let Some(settings) = &settings {
        let ours = [("Switchboard", "config.json"), ("Switchboard", "config.toml")];
        add(&settings.join("switchboard"), &ours);
    }
    if let Some(home) = &home {
        add(home, IN_HOME);
        // Where macOS has what others have below their settings.
        let library = home.join("Library/Application Support");
        if library.is_dir() {
            add(&library, IN_SETTINGS);
        }
    }
    if let Some(codex) = named("CODEX_HOME").or_else(|| Some(home.as_ref()?.join(".codex"))) {
        add(&codex, &[("Codex", "config.toml")]);
    }
    for base in [settings, named("APPDATA")].into_iter().flatten() {
        add(&base, IN_SETTINGS);
    }
    places
}

/// Members that hold servers, by name.
pub(super) const SECTIONS: [&str; 5] =
    ["mcpServers", "servers", "mcp_servers", "context_servers", "amp.mcpServers"];

/// What a section is to be.
const OBJECT_HINT: &str = "write an object with a member for each: { \"NAME\": { … } }";

/// A part of a file that holds servers.
pub(super) struct Section<'t> {
    node: &'t Node,
    pub(super) variables: FileVariables<'t>,
}

/// Every part of a file that holds servers, the nearest to the user first.
pub(super) fn server_sections<'t>(tree: &'t Node, around: &'t Surroundings) -> Vec<Section<'t>> {
    let mut found = Vec::new();
    let section = |node, inputs, braces| {
        let variables = FileVariables { around, inputs, braces };
        Section { node, variables }
    };
    let plain = |node| section(node, tree.get("inputs"), false);
    // Claude Code keeps what belongs to a folder beside what belongs to the user.
    let folder = around.folder().to_string_lossy();
    let project = tree.get("projects").and_then(|projects| projects.get(&folder));
    found.extend(project.and_then(|project| project.get("mcpServers")).map(plain));
    found.extend(SECTIONS.iter().filter_map(|name| tree.get(name)).map(plain));
    if let Some(mcp) = tree.get("mcp") {
        found.push(match mcp.get("servers") {
            Some(node) => section(node, mcp.get("inputs"), false),
            None => section(mcp, None, true),
        });
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
pub(super) fn section_hint(tree: &Node, file: &Path) -> String {
    let keys = tree.table().into_iter().flatten();
    let names = SECTIONS.into_iter().chain([super::gateway::NAME]);
    for (key, _) in keys {
        if let Some(name) = nearest(&key.value, names.clone()) {
            return format!("line {}: write {name:?} for {:?}", key.place.line, key.value);
        }
    }
    if file.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml")) {
        return "write [mcp_servers.NAME] and below it command = \"…\" or url = \"…\"".to_owned();
    }
    "write { \"mcpServers\": { \"NAME\": { \"command\": \"…\" } } }, or \"url\" for \"command\""
        .to_owned()
}

impl<'t> Section<'t> {
    /// The servers in it: an object by name, or a list whose members have one.
    pub(super) fn servers(&self, reader: &mut Reader<'_>) -> Vec<(MemberKey, &'t Node)> {
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

fn named_item<'t>(item: &'t Node, reader: &mut Reader<'_>) -> Option<(MemberKey, &'t Node)> {
    let named = item.get("name").and_then(|node| Some((node, node.text()?.to_owned())));
    if named.is_none() {
        let what = "a server in a list has no name".to_owned();
        reader.error(&item.place, what, "add \"name\": \"…\"");
    }
    named.map(|(node, value)| (MemberKey { place: node.place.clone(), value }, item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_comes_first_and_then_what_the_user_has() {
        let around = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let places = known(&Surroundings::new(pairs, "/p"));
            places.into_iter().map(|(_, file)| file.to_string_lossy().into_owned()).collect()
        };
        let bare: Vec<String> = around(&[]);
        assert_eq!(bare.len(), IN_FOLDER.len(), "{bare:?}");
        let full: Vec<String> = around(&[("HOME", "/u"), ("CODEX_HOME", "/c")]);
        let at = |file: &str| full.iter().position(|known| known == file).expect(file);
        assert!(at("/p/.mcp.json") < at("/u/.config/switchboard/config.json"));
        assert!(at("/u/.config/switchboard/config.toml") < at("/u/.claude.json"));
        at("/c/config.toml");
        at("/u/.config/Claude/claude_desktop_config.json");
        at("/u/.codeium/windsurf/mcp_config.json");
        let moved: Vec<String> = around(&[("HOME", "/u"), ("XDG_CONFIG_HOME", "/x")]);
        assert!(moved.contains(&"/x/switchboard/config.json".to_owned()), "{moved:?}");
    }
}
