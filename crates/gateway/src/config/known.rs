//! Where clients keep the files that name their servers.

use std::path::PathBuf;

use super::surroundings::Surroundings;

/// A file that may be there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Known {
    /// Whose it is.
    pub client: &'static str,
    /// Where it would be.
    pub file: PathBuf,
}

/// In the folder that somebody works in, the nearest first.
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

/// All places, in the order in which a name is looked for: the folder, ours,
/// then the other clients of the user.
pub fn known(around: &Surroundings) -> Vec<Known> {
    let mut places = Vec::new();
    let mut add = |base: &PathBuf, files: &[(&'static str, &str)]| {
        let files = files.iter().map(|&(client, file)| Known { client, file: base.join(file) });
        places.extend(files);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_comes_first_and_then_what_the_user_has() {
        let around = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let places = known(&Surroundings::new(pairs, "/p"));
            places.into_iter().map(|known| known.file.to_string_lossy().into_owned()).collect()
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
