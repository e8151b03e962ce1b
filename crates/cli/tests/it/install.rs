//! `switchboard install`: entries in the files of clients.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::named::Home;
use crate::process::run;
use crate::terminal::Terminal;

const URL: &str = "http://127.0.0.1:3001/mcp";

/// Each client, its file, and what is in it before.
const CLIENTS: [(&str, &str, &str); 17] = [
    ("amazon-q", ".aws/amazonq/mcp.json", "{\"mcpServers\": {}}"),
    ("claude-code", ".claude.json", "{\n  \"numStartups\": 3,\n  \"projects\": {}\n}"),
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        "{ \"mcpServers\": { \"a\": { \"command\": \"b\" } } }\n",
    ),
    (
        "cline",
        ".cline/data/settings/cline_mcp_settings.json",
        "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"b\"\n    } // why\n  }\n}\n",
    ),
    (
        "codex",
        ".codex/config.toml",
        "# mine\nmodel = \"m\" # why\n\n[mcp_servers.a]\ncommand = \"b\"\n\n[tui]\nx = 1",
    ),
    (
        "continue",
        ".continue/config.yaml",
        "name: mine\nversion: 0.0.1\n\n# tools\nmcpServers:\n  - name: a\n    command: b\n\nmodels: []\n",
    ),
    ("copilot", ".copilot/mcp-config.json", ""),
    (
        "cursor",
        ".cursor/mcp.json",
        "// mine\n{\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"b\" }, // why\n\t},\n}\n",
    ),
    (
        "gemini",
        ".gemini/settings.json",
        "{\r\n  \"mcp\": { \"excluded\": [\"b\"] },\r\n  \"mcpServers\": {\r\n  }\r\n}\r\n",
    ),
    (
        "goose",
        ".config/goose/config.yaml",
        "GOOSE_PROVIDER: x\nextensions:\n  git:\n    enabled: true\n    type: stdio\n    name: git\n    cmd: uvx # why\n    args: []\nGOOSE_MODEL: y\n",
    ),
    ("lmstudio", ".lmstudio/mcp.json", "\u{feff}{ }"),
    ("opencode", ".config/opencode/opencode.jsonc", "{\n  \"$schema\": \"x\",\n  \"mcp\": {}\n}\n"),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        "{\n    \"inputs\": [],\n    \"servers\": {\n        // none yet\n    }\n}",
    ),
    ("vscode-insiders", ".config/Code - Insiders/User/mcp.json", "{}"),
    ("vscodium", ".config/VSCodium/User/mcp.json", "{}"),
    ("windsurf", ".codeium/windsurf/mcp_config.json", "{}"),
    ("zed", ".config/zed/settings.json", "// Zed settings\n{\n  \"theme\": \"One\",\n}\n"),
];

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap()
}

/// What `import` says of the entries called `switchboard`.
fn imported(home: &Home) -> Vec<Value> {
    let shown = home.run(&["import", "--output", "json"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let servers = shown["servers"].as_array().unwrap().clone();
    servers.into_iter().filter(|server| server["name"] == "switchboard").collect()
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|it| if it.is_dir() { files(&it) } else { vec![it] });
    below.collect()
}

#[test]
fn every_client_is_installed_found_by_import_and_removed_again() {
    for (client, file, before) in CLIENTS {
        let home = Home::new();
        let file = PathBuf::from(home.write(file, before));
        let written = home.run(&["install", "--client", client, "--yes"]);
        assert_eq!((written.code, written.stderr.as_str()), (Some(0), ""), "{client}");
        assert!(!written.stdout.contains("that is there"), "{client}: {}", written.stdout);
        let after = read(&file);
        assert!(after.contains(URL) && written.stdout.contains(URL), "{client}: {after}");
        let found = imported(&home);
        assert_eq!(found.len(), 1, "{client}: {found:?} in {after}");
        assert_eq!(
            (&found[0]["status"], &found[0]["problems"]),
            (&"gateway".into(), &Value::Array(Vec::new())),
            "{client}"
        );
        let copy = PathBuf::from(format!("{}.switchboard.bak", file.display()));
        assert_eq!(read(&copy), before, "{client}");
        let again = home.run(&["install", "--client", client, "--yes"]);
        assert!(again.stdout.contains("Nothing is changed"), "{client}: {}", again.stdout);
        assert_eq!(read(&file), after, "{client}");
        let removed = home.run(&["install", "--client", client, "--remove", "--yes"]);
        assert_eq!((removed.code, removed.stderr.as_str()), (Some(0), ""), "{client}");
        assert_eq!(read(&file), before, "{client}");
        assert_eq!(files(&home.path), [file], "{client}: no copy and no draft is left");
    }
}

#[test]
fn a_file_that_install_made_is_gone_when_its_entry_is() {
    for (client, file, _) in CLIENTS {
        let home = Home::new();
        let file = match client {
            "opencode" => home.path.join(".config/opencode/opencode.json"),
            _ => home.path.join(file),
        };
        let written = home.run(&["install", "--client", client, "-y"]);
        assert_eq!(written.code, Some(0), "{client}: {}", written.stderr);
        assert!(written.stdout.contains("a new file"), "{client}: {}", written.stdout);
        assert_eq!(imported(&home).len(), 1, "{client}: {}", read(&file));
        let removed = home.run(&["install", "--client", client, "-y", "--remove"]);
        assert_eq!(removed.code, Some(0), "{client}: {}", removed.stderr);
        assert_eq!(files(&home.path), Vec::<PathBuf>::new(), "{client}");
    }
}

#[test]
fn what_came_after_the_entry_stays_when_it_goes() {
    for (client, file, before) in CLIENTS {
        let home = Home::new();
        let file = PathBuf::from(home.write(file, before));
        home.run(&["install", "--client", client, "-y"]);
        home.run(&["install", "--client", client, "-y", "--server", "a b"]);
        assert!(read(&file).contains("/servers/a%20b/mcp"), "{client}: {}", read(&file));
        let removed = home.run(&["install", "--client", client, "-y", "--remove"]);
        assert_eq!((removed.code, removed.stderr.as_str()), (Some(0), ""), "{client}");
        let after = read(&file);
        assert!(after.contains("/servers/a%20b/mcp") && !after.contains(URL), "{client}: {after}");
        assert_eq!(imported(&home).len(), 0, "{client}");
        for comment in ["// mine", "# mine", "# why", "// why", "# tools", "// Zed settings"] {
            assert_eq!(before.contains(comment), after.contains(comment), "{client}: {after}");
        }
    }
}

#[test]
fn a_broken_file_is_left_alone() {
    for (client, file, _) in CLIENTS {
        let home = Home::new();
        let is_yaml = ["continue", "goose"].contains(&client);
        let text = if is_yaml { "a: 1\n  b: 2\n" } else { "{\n  \"a\": \n" };
        let file = PathBuf::from(home.write(file, text));
        let refused = home.run(&["install", "--client", client, "--yes"]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{client}");
        let told = format!("{}:", file.display());
        assert!(refused.stderr.contains(&told), "{client}: {}", refused.stderr);
        assert!(refused.stderr.contains("left as it is"), "{client}: {}", refused.stderr);
        assert_eq!(files(&home.path), std::slice::from_ref(&file), "{client}");
        assert_eq!(read(&file), text, "{client}");
    }
}

#[test]
fn what_cannot_be_edited_is_shown_to_be_pasted() {
    let home = Home::new();
    home.write(".config/goose/config.yaml", "extensions: {git: {cmd: x}}\n");
    let refused = home.run(&["install", "--client", "goose", "--yes"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stdout.starts_with("Add this to ~/.config/goose/config.yaml"),
        "{}",
        refused.stdout
    );
    assert!(refused.stdout.contains(&format!("uri: {URL}")), "{}", refused.stdout);
    assert!(refused.stderr.contains("by hand"), "{}", refused.stderr);
}

#[test]
fn nothing_is_written_without_a_yes() {
    let home = Home::new();
    let file = home.write(
        ".cursor/mcp.json",
        "{\n  \"mcpServers\": {\"a\": {\"env\": {\"K\": \"s3cret\"}}}\n}\n",
    );
    let before = read(Path::new(&file));
    let asked = home.run(&["install", "--client", "cursor"]);
    assert_eq!(asked.code, Some(1));
    assert!(asked.stderr.contains("--yes"), "{}", asked.stderr);
    assert!(asked.stdout.contains("~/.cursor/mcp.json, line 2:"), "{}", asked.stdout);
    assert!(!asked.stdout.contains("s3cret"), "{}", asked.stdout);
    let place = home.path.to_str().unwrap();
    let vars = [("HOME", place), ("XDG_CONFIG_HOME", ""), ("CODEX_HOME", "")];
    let mut terminal = Terminal::start_with(&["install", "--client", "cursor"], &vars);
    terminal.until("Write it? [y/N]").types("n\n");
    terminal.until("Nothing was written");
    assert_eq!(read(Path::new(&file)), before);
    // The client may write its file meanwhile.
    let mut terminal = Terminal::start_with(&["install", "--client", "cursor"], &vars);
    terminal.until("Write it? [y/N]");
    let meanwhile = before.replace("s3cret", "n3w");
    fs::write(&file, &meanwhile).unwrap();
    terminal.types("y\n");
    terminal.until("has changed meanwhile");
    assert_eq!(read(Path::new(&file)), meanwhile);
    let mut terminal = Terminal::start_with(&["install", "--client", "cursor"], &vars);
    terminal.until("Write it? [y/N]").types("y\n");
    terminal.until("Now restart Cursor");
    assert!(read(Path::new(&file)).contains(URL));
}

#[test]
fn an_entry_is_printed_with_a_link_where_the_client_has_one() {
    let home = Home::new();
    let shown =
        home.run(&["install", "--client", "cursor", "--print", "--url", "https://e.com/mcp"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    assert!(shown.stdout.contains("\"url\": \"https://e.com/mcp\""), "{}", shown.stdout);
    // {"url":"https://e.com/mcp"}
    let link = "cursor://anysphere.cursor-deeplink/mcp/install?name=switchboard&config=eyJ1cmwiOiJodHRwczovL2UuY29tL21jcCJ9";
    assert!(shown.stdout.ends_with(link), "{}", shown.stdout);
    assert_eq!(files(&home.path), Vec::<PathBuf>::new());
    let wrong = home.run(&["install", "--client", "cursor", "--url", "e.com"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
    let nobody = home.run(&["install", "--client", "nobody"]);
    assert!(
        nobody.code == Some(2) && nobody.stderr.contains("claude-desktop"),
        "{}",
        nobody.stderr
    );
}

#[test]
fn a_header_goes_into_the_file_and_nowhere_else() {
    for (client, kept) in [
        ("cursor", "\"Authorization\": \"Bearer s3cret\""),
        ("codex", "http_headers = { Authorization = \"Bearer s3cret\" }"),
        ("continue", "        Authorization: \"Bearer s3cret\""),
        ("claude-desktop", "\"Authorization:${HEADER_1}\"]"),
    ] {
        let home = Home::new();
        let header = "Authorization: Bearer s3cret";
        let args = ["install", "--client", client, "-y", "--header", header];
        let written = home.run(&args);
        assert_eq!((written.code, written.stderr.as_str()), (Some(0), ""), "{client}");
        assert!(!written.stdout.contains("s3cret"), "{client}: {}", written.stdout);
        let text = read(&files(&home.path)[0]);
        assert!(text.contains(kept) && text.contains("Bearer s3cret"), "{client}: {text}");
        let replaced = home.run(&["install", "--client", client, "-y"]);
        assert!(replaced.stdout.contains("- the entry"), "{client}: {}", replaced.stdout);
        let text = read(&home.path.join(text_file(client)));
        assert!(!text.contains("s3cret"), "{client}: {text}");
        let args = ["install", "--client", client, "-y", "--header", "Cookie: sid=\"s3cret\""];
        let written = home.run(&args);
        assert!(!written.stdout.contains("s3cret"), "{client}: {}", written.stdout);
    }
}

/// A gateway has its servers at these paths, and at no others.
#[test]
fn the_url_of_a_server_is_the_one_that_the_gateway_has() {
    let home = Home::new();
    let shown = home.run(&["install", "--client", "cursor", "--print", "--server", "a-b_c.d~ e"]);
    assert!(shown.stdout.contains("/servers/a-b_c.d~%20e/mcp"), "{}", shown.stdout);
}

fn text_file(client: &str) -> &'static str {
    CLIENTS.iter().find(|(id, ..)| *id == client).unwrap().1
}

#[cfg(unix)]
#[test]
fn a_link_is_followed_and_the_mode_is_kept() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let home = Home::new();
    let real = PathBuf::from(home.write("dotfiles/cursor.conf", "{}\n"));
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir(home.path.join(".cursor")).unwrap();
    let link = home.path.join(".cursor/mcp.json");
    symlink(&real, &link).unwrap();
    let written = home.run(&["install", "--client", "cursor", "-y"]);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    assert!(link.is_symlink() && read(&real).contains(URL));
    let copy = home.path.join("dotfiles/cursor.conf.switchboard.bak");
    for file in [&real, &copy] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o640, "{file:?}");
    }
    home.run(&["install", "--client", "cursor", "-y", "--remove"]);
    assert_eq!((read(&real).as_str(), link.is_symlink()), ("{}\n", true));
    fs::remove_file(&real).unwrap();
    let nowhere = home.run(&["install", "--client", "cursor", "-y"]);
    assert!(nowhere.stderr.contains("leads nowhere"), "{}", nowhere.stderr);
    assert!(link.is_symlink());
}

/// Other editors made from VS Code have files of the same form.
#[test]
fn vs_code_is_installed_into_its_own_file() {
    for other in ["Code - Insiders", "VSCodium", "Cursor", "Windsurf"] {
        let home = Home::new();
        let theirs = home.write(&format!(".config/{other}/User/mcp.json"), "{}\n");
        let written = home.run(&["install", "--client", "vscode", "-y"]);
        assert_eq!(written.code, Some(0), "{}", written.stderr);
        assert_eq!(read(Path::new(&theirs)), "{}\n", "{other}");
        assert!(read(&home.path.join(".config/Code/User/mcp.json")).contains(URL), "{other}");
    }
}

/// macOS has a folder of its own for settings, which some programs do not use.
#[test]
fn on_macos_each_client_has_its_own_folder() {
    const LIBRARY: &str = "Library/Application Support";
    for (client, file) in [
        ("claude-desktop", format!("{LIBRARY}/Claude/claude_desktop_config.json")),
        ("goose", ".config/goose/config.yaml".to_owned()),
        ("opencode", ".config/opencode/opencode.json".to_owned()),
        ("vscode", format!("{LIBRARY}/Code/User/mcp.json")),
        ("zed", ".config/zed/settings.json".to_owned()),
    ] {
        let home = Home::new();
        fs::create_dir_all(home.path.join(LIBRARY)).unwrap();
        let written = home.run(&["install", "--client", client, "-y"]);
        assert_eq!(written.code, Some(0), "{client}: {}", written.stderr);
        assert_eq!(files(&home.path), [home.path.join(file)], "{client}");
    }
}

#[test]
fn claude_code_is_where_its_variable_says() {
    let home = Home::new();
    let (place, moved) = (home.path.to_str().unwrap(), home.path.join("moved"));
    let vars = [("HOME", place), ("CLAUDE_CONFIG_DIR", moved.to_str().unwrap())];
    let written = run(&["install", "--client", "claude-code", "-y"], &vars);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    assert_eq!(files(&home.path), [moved.join(".claude.json")]);
}

#[test]
fn another_server_of_that_name_gives_way_only_if_told_and_no_copy_is_lost() {
    let home = Home::new();
    let own =
        r#"{"mcpServers": {"github": {"url": "https://e.com/mcp", "headers": {"T": "s3cret"}}}}"#;
    let file = PathBuf::from(home.write(".cursor/mcp.json", own));
    let install = |more: &[&str]| {
        home.run(&[&["install", "--client", "cursor", "--yes", "--server"], more].concat())
    };
    let refused = install(&["github"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    for text in ["another server", "--name NAME", "--replace"] {
        assert!(refused.stderr.contains(text), "{}", refused.stderr);
    }
    assert_eq!(read(&file), own);
    assert_eq!(install(&["github", "--replace"]).code, Some(0));
    assert!(!read(&file).contains("s3cret"));
    let files_written = install(&["files"]);
    assert!(files_written.stdout.contains("switchboard.bak2"), "{}", files_written.stdout);
    let copy = |end: &str| PathBuf::from(format!("{}.switchboard.bak{end}", file.display()));
    assert_eq!(read(&copy("")), own, "the first copy is the only one with the token");
    let after = read(&copy("2"));
    assert_eq!(install(&["files", "--remove"]).code, Some(0));
    assert_eq!(read(&file), after, "as it was before the second");
    assert!(!copy("2").exists() && copy("").exists());
}

#[test]
fn what_the_user_chose_for_an_entry_stays_when_it_is_written_anew() {
    let home = Home::new();
    let file = home.write(
        ".cline/data/settings/cline_mcp_settings.json",
        r#"{"mcpServers": {"switchboard": {"type": "sse", "url": "http://127.0.0.1:9/sse", "autoApprove": ["add"], "disabled": true}}}"#,
    );
    let written = home.run(&["install", "--client", "cline", "--yes"]);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let after: Value = serde_json::from_str(&read(Path::new(&file))).unwrap();
    let entry = &after["mcpServers"]["switchboard"];
    assert_eq!((&entry["url"], &entry["type"]), (&URL.into(), &"streamableHttp".into()));
    assert_eq!((&entry["autoApprove"][0], &entry["disabled"]), (&"add".into(), &true.into()));
}

#[test]
fn a_file_keeps_its_owner() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let home = Home::new();
    let file = PathBuf::from(home.write(".cursor/mcp.json", "{}\n"));
    let copy = PathBuf::from(format!("{}.switchboard.bak", file.display()));
    // Only root can give files away; others keep what is theirs.
    let owner = match chown(&file, Some(4242), Some(4242)) {
        Ok(()) => 4242,
        Err(_) => fs::metadata(&file).unwrap().uid(),
    };
    assert_eq!(home.run(&["install", "--client", "cursor", "--yes"]).code, Some(0));
    for file in [&file, &copy] {
        assert_eq!(fs::metadata(file).unwrap().uid(), owner, "{}", file.display());
    }
}

#[test]
fn a_file_of_several_documents_is_left_as_it_is() {
    let text = "---\nextensions:\n  switchboard:\n    uri: x\n---\nother: 1\n";
    for more in [&["--yes"][..], &["--yes", "--remove"]] {
        let home = Home::new();
        let file = home.write(".config/goose/config.yaml", text);
        let refused = home.run(&[&["install", "--client", "goose"], more].concat());
        assert_eq!(refused.code, Some(1), "{}", refused.stdout);
        assert!(refused.stderr.contains("by hand"), "{}", refused.stderr);
        assert_eq!(read(Path::new(&file)), text);
    }
}
