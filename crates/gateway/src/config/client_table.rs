//! The MCP clients that we know, in one table: where their files are, and what an entry for a
//! server looks like in them. `import`, `install` and pages for people read it.

use std::path::{Path, PathBuf};

use super::Surroundings;
use super::client_entry::{
    CLINE_ENTRY, CODEX, CONTINUE, COPILOT, CURSOR, EntryShape, GEMINI, GOOSE, HTTP, LM_STUDIO,
    ONLY_COMMANDS, OPENCODE, VS_CODE, VS_CODE_FORK, WINDSURF, ZED,
};

/// An MCP client, and its files.
#[derive(Debug)]
pub struct KnownClient {
    /// What the command line calls it.
    pub id: &'static str,
    /// What it calls itself.
    pub name: &'static str,
    /// How it names servers; none if it is no program, but a form of file.
    pub(super) shape: Option<EntryShape>,
    /// Its files in the working folder.
    in_folder: &'static [&'static str],
    /// Its files of the user, the usual one first.
    of_user: &'static [(UserFolder, &'static str)],
    /// Files of the user that name servers too, and are for other things.
    besides: &'static [(UserFolder, &'static str)],
}

/// A folder of the user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum UserFolder {
    /// Claude Code keeps its files in the home, or where `CLAUDE_CONFIG_DIR` says.
    Claude,
    /// Codex moves its folder where `CODEX_HOME` says.
    Codex,
    /// `~/.config`, for programs that use it on macOS too.
    Config,
    /// The folder `User` of VS Code, or of an editor made from it.
    Editor(&'static str),
    Home,
    /// Where Windows keeps settings.
    Roaming,
    /// Where the system keeps settings, and below it a folder for each program.
    Settings,
}

const CLINE: &str = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";

const fn client(
    (id, name): (&'static str, &'static str),
    shape: EntryShape,
    in_folder: &'static [&'static str],
    of_user: &'static [(UserFolder, &'static str)],
) -> KnownClient {
    KnownClient { id, name, shape: Some(shape), in_folder, of_user, besides: &[] }
}

/// In the order in which their files are looked into.
const CLIENTS: &[KnownClient] = &[
    client(
        ("claude-code", "Claude Code"),
        HTTP,
        &[".mcp.json"],
        &[(UserFolder::Claude, ".claude.json")],
    ),
    KnownClient {
        id: "mcp",
        name: "MCP",
        shape: None,
        in_folder: &["mcp.json"],
        of_user: &[],
        besides: &[],
    },
    KnownClient {
        besides: &[(UserFolder::Editor("Code"), "settings.json")],
        ..client(
            ("vscode", "VS Code"),
            VS_CODE,
            &[".vscode/mcp.json"],
            &[(UserFolder::Editor("Code"), "mcp.json")],
        )
    },
    KnownClient {
        besides: &[(UserFolder::Editor("Code - Insiders"), "settings.json")],
        ..client(
            ("vscode-insiders", "VS Code Insiders"),
            VS_CODE_FORK,
            &[],
            &[(UserFolder::Editor("Code - Insiders"), "mcp.json")],
        )
    },
    KnownClient {
        besides: &[(UserFolder::Editor("VSCodium"), "settings.json")],
        ..client(
            ("vscodium", "VSCodium"),
            VS_CODE_FORK,
            &[],
            &[(UserFolder::Editor("VSCodium"), "mcp.json")],
        )
    },
    KnownClient {
        besides: &[
            (UserFolder::Editor("Cursor"), "mcp.json"),
            (UserFolder::Editor("Cursor"), "settings.json"),
        ],
        ..client(
            ("cursor", "Cursor"),
            CURSOR,
            &[".cursor/mcp.json"],
            &[(UserFolder::Home, ".cursor/mcp.json")],
        )
    },
    client(
        ("codex", "Codex"),
        CODEX,
        &[".codex/config.toml"],
        &[(UserFolder::Codex, "config.toml")],
    ),
    client(
        ("gemini", "Gemini CLI"),
        GEMINI,
        &[".gemini/settings.json"],
        &[(UserFolder::Home, ".gemini/settings.json")],
    ),
    client(
        ("opencode", "opencode"),
        OPENCODE,
        &["opencode.json", "opencode.jsonc"],
        &[
            (UserFolder::Config, "opencode/opencode.json"),
            (UserFolder::Config, "opencode/opencode.jsonc"),
        ],
    ),
    client(
        ("zed", "Zed"),
        ZED,
        &[".zed/settings.json"],
        &[(UserFolder::Roaming, "Zed/settings.json"), (UserFolder::Config, "zed/settings.json")],
    ),
    KnownClient {
        besides: &[
            (UserFolder::Editor("Windsurf"), "mcp.json"),
            (UserFolder::Editor("Windsurf"), "settings.json"),
        ],
        ..client(
            ("windsurf", "Windsurf"),
            WINDSURF,
            &[],
            &[(UserFolder::Home, ".codeium/windsurf/mcp_config.json")],
        )
    },
    client(
        ("copilot", "Copilot CLI"),
        COPILOT,
        &[],
        &[(UserFolder::Home, ".copilot/mcp-config.json")],
    ),
    client(("lmstudio", "LM Studio"), LM_STUDIO, &[], &[(UserFolder::Home, ".lmstudio/mcp.json")]),
    client(
        ("amazon-q", "Amazon Q"),
        ONLY_COMMANDS,
        &[],
        &[(UserFolder::Home, ".aws/amazonq/mcp.json")],
    ),
    client(
        ("claude-desktop", "Claude Desktop"),
        ONLY_COMMANDS,
        &[],
        &[(UserFolder::Settings, "Claude/claude_desktop_config.json")],
    ),
    client(
        ("cline", "Cline"),
        CLINE_ENTRY,
        &[],
        // Those in editors up to version 3.
        &[
            (UserFolder::Home, ".cline/data/settings/cline_mcp_settings.json"),
            (UserFolder::Editor("Code"), CLINE),
            (UserFolder::Editor("Code - Insiders"), CLINE),
            (UserFolder::Editor("VSCodium"), CLINE),
            (UserFolder::Editor("Cursor"), CLINE),
            (UserFolder::Editor("Windsurf"), CLINE),
        ],
    ),
    client(("continue", "Continue"), CONTINUE, &[], &[(UserFolder::Home, ".continue/config.yaml")]),
    client(
        ("goose", "Goose"),
        GOOSE,
        &[],
        &[
            (UserFolder::Roaming, "Block/goose/config/config.yaml"),
            (UserFolder::Config, "goose/config.yaml"),
        ],
    ),
];

/// Ours in the working folder, and in our own folder of the user's settings.
const OURS: [&str; 2] = ["switchboard.json", "switchboard.toml"];
const OURS_OF_USER: [&str; 2] = ["switchboard/config.json", "switchboard/config.toml"];

/// What our own files are called.
const US: &str = "Switchboard";

/// The path that a variable has, if it is set.
pub(super) fn path_in(around: &Surroundings, name: &str) -> Option<PathBuf> {
    around.variable(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The user's folder for settings, as most programs know it.
fn settings(around: &Surroundings) -> Option<PathBuf> {
    path_in(around, "XDG_CONFIG_HOME").or_else(|| Some(around.home()?.join(".config")))
}

impl UserFolder {
    /// The folders that it stands for, the most likely first.
    fn folders(self, around: &Surroundings) -> Vec<PathBuf> {
        let home = around.home();
        let one = match self {
            Self::Claude => path_in(around, "CLAUDE_CONFIG_DIR").or(home),
            Self::Codex => path_in(around, "CODEX_HOME").or_else(|| Some(home?.join(".codex"))),
            Self::Config => settings(around),
            Self::Editor(name) => {
                let all = Self::Settings.folders(around).into_iter();
                return all.map(|folder| folder.join(name).join("User")).collect();
            }
            Self::Home => home,
            Self::Roaming => path_in(around, "APPDATA"),
            Self::Settings => {
                // Where macOS has what others have below their settings.
                let library = home.map(|home| home.join("Library/Application Support"));
                let library = library.filter(|library| library.is_dir());
                let others = [Self::Roaming, Self::Config].map(|it| it.folders(around));
                return library.into_iter().chain(others.into_iter().flatten()).collect();
            }
        };
        one.into_iter().collect()
    }
}

fn below(files: &[(UserFolder, &str)], around: &Surroundings) -> Vec<PathBuf> {
    let all = files.iter().flat_map(|(base, file)| {
        base.folders(around).into_iter().map(move |folder| folder.join(file))
    });
    all.collect()
}

impl KnownClient {
    /// The clients that an entry can be written for, by their names.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        CLIENTS.iter().filter(|client| client.shape.is_some())
    }

    /// The client of that id.
    pub fn find(id: &str) -> Option<&'static Self> {
        Self::all().find(|client| client.id == id)
    }

    /// The user's file for the servers of the client: the one that is there, or the usual one.
    /// None if the environment does not say where the user's files are.
    pub fn file(&self, around: &Surroundings) -> Option<PathBuf> {
        let files = below(self.of_user, around);
        let is_there = files.iter().find(|file| file.exists());
        let has_folder = || files.iter().find(|file| file.parent().is_some_and(Path::is_dir));
        is_there.or_else(has_folder).or(files.first()).cloned()
    }
}

/// The files that may be in the folder, and ours.
pub fn nearby(around: &Surroundings) -> Vec<(String, PathBuf)> {
    let of_clients = CLIENTS.iter().flat_map(|it| it.in_folder.iter().map(|file| (it.name, *file)));
    let all = OURS.map(|file| (US, file)).into_iter().chain(of_clients);
    let mut places: Vec<_> =
        all.map(|(name, file)| (name.to_owned(), around.folder().join(file))).collect();
    let real = |path: &Path| path.canonicalize().ok();
    if around.home().is_some_and(|home| real(&home) == real(around.folder())) {
        // Folders in the user's home are those of the user's other clients.
        places.retain(|(_, file)| file.parent() == Some(around.folder()));
    }
    let ours = settings(around).into_iter().flat_map(|it| OURS_OF_USER.map(|file| it.join(file)));
    places.extend(ours.map(|file| (US.to_owned(), file)));
    places
}

/// All files that may be there, each with the client whose it is, in the order in which a name is looked for: the folder, ours,
/// then the other clients of the user.
pub fn known(around: &Surroundings) -> Vec<(String, PathBuf)> {
    let of_user = CLIENTS.iter().flat_map(|client| {
        let files = [client.of_user, client.besides].map(|files| below(files, around));
        files.into_iter().flatten().map(|file| (client.name.to_owned(), file))
    });
    let mut places = nearby(around);
    places.extend(of_user);
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
            places.into_iter().map(|(_, file)| file.to_string_lossy().into_owned()).collect()
        };
        let bare: Vec<String> = around(&[]);
        assert!(bare.len() > 9 && bare.iter().all(|file| file.starts_with("/p/")), "{bare:?}");
        let full: Vec<String> = around(&[("HOME", "/u"), ("CODEX_HOME", "/c")]);
        let at = |file: &str| full.iter().position(|known| known == file).expect(file);
        assert!(at("/p/switchboard.json") < at("/p/.mcp.json"));
        assert!(at("/p/.mcp.json") < at("/u/.config/switchboard/config.json"));
        assert!(at("/u/.config/switchboard/config.toml") < at("/u/.claude.json"));
        at("/c/config.toml");
        at("/u/.config/Claude/claude_desktop_config.json");
        at("/u/.codeium/windsurf/mcp_config.json");
        at("/u/.config/Code/User/settings.json");
        at(&format!("/u/.config/Code/User/{CLINE}"));
        let moved: Vec<String> = around(&[("HOME", "/u"), ("CLAUDE_CONFIG_DIR", "/c")]);
        let is_there = |file: &str| moved.iter().any(|known| known == file);
        assert!(is_there("/c/.claude.json") && !is_there("/u/.claude.json"), "{moved:?}");
        let moved: Vec<String> = around(&[("HOME", "/u"), ("XDG_CONFIG_HOME", "/x")]);
        assert!(moved.contains(&"/x/switchboard/config.json".to_owned()), "{moved:?}");
    }
}
