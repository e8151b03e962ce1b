//! `switchboard import`, `config` and `key`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::named::Home;
use crate::process::{Switchboard, run};

fn home() -> Home {
    let home = Home::new();
    home.write(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"github": {"url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer ${GITHUB_TOKEN_OF_NOBODY}"}},
            "files": {"command": "npx", "args": ["-y", "fs", "s3cret"]}}}"#,
    );
    home.write(
        ".claude.json",
        r#"{"mcpServers": {"files": {"command": "other"}, "again": {"command": "npx",
            "args": ["-y", "fs", "s3cret"]}, "bad": {"comand": "x"}}}"#,
    );
    home.write(".codex/config.toml", "[mcp_servers.docs]\ncommand = \"docs\"\nenabled = false\n");
    home
}

#[test]
fn what_other_clients_have_is_shown_and_nothing_is_written() {
    let home = home();
    let shown = home.run(&["import"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    for (name, place, fate) in [
        ("files", "other", "new"),
        ("again", "npx", "new"),
        ("bad", "?", "left out: it has mistakes"),
        ("github", "example.com", "new"),
        ("files", "npx", "the same as again"),
        ("docs", "docs", "new, switched off"),
    ] {
        let is_it = |line: &str| {
            let mut words = line.split_whitespace();
            words.next() == Some(name) && words.next() == Some(place) && line.ends_with(fate)
        };
        assert!(shown.stdout.lines().any(is_it), "{name} {fate}: {}", shown.stdout);
    }
    assert!(shown.stdout.contains(".claude.json:2:"), "{}", shown.stdout);
    assert!(shown.stdout.contains("write \"command\""), "{}", shown.stdout);
    assert!(!shown.stdout.contains("s3cret"), "{}", shown.stdout);
    assert!(shown.stdout.contains("--write FILE"), "{}", shown.stdout);
}

/// Cline keeps its file inside of the editor, VS Code has one beside its settings or in them.
#[test]
fn files_inside_of_editors_and_of_other_formats_are_found() {
    let home = Home::new();
    let cline = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
    let json = |section: &str, name: &str| {
        format!(r#"{{"{section}": {{"{name}": {{"command": "run-{name}"}}}}}}"#)
    };
    home.write(&format!(".config/Code/User/{cline}"), &json("mcpServers", "in-code"));
    home.write(&format!(".config/VSCodium/User/{cline}"), &json("mcpServers", "in-codium"));
    home.write(".config/Code/User/mcp.json", &json("servers", "user"));
    // The whole line in the place of the program: what may be a secret in it is not shown.
    let line = r#"{"mcpServers": {"line": {"command": "run-line -y @a/b --token s3cret"}}}"#;
    home.write(".cursor/mcp.json", line);
    let settings = r#"{"mcp": {"servers": {"settings": {"command": "run-settings"}}}}"#;
    home.write(".config/Code/User/settings.json", settings);
    home.write(".continue/config.yaml", "mcpServers:\n  - name: yaml\n    command: run-yaml\n");
    let goose = "extensions:\n  goose: {type: stdio, cmd: run-goose, enabled: true, args: []}\n";
    home.write(".config/goose/config.yaml", goose);
    let shown = home.run(&["import"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    for name in ["in-code", "in-codium", "user", "settings", "yaml", "goose", "line"] {
        assert!(shown.stdout.contains(&format!("run-{name} ")), "{name}: {}", shown.stdout);
    }
    assert!(!shown.stdout.contains("s3cret"), "{}", shown.stdout);
    let yaml = home.run(&["import", "-y", "--write", "x.yaml"]);
    assert!(yaml.code == Some(2) && yaml.stderr.contains(".json"), "{}", yaml.stderr);
}

#[test]
fn what_is_new_is_added_to_a_file_that_keeps_what_it_has() {
    let home = home();
    let file = home.write("mine.json", "{\n  // mine\n  \"mcpServers\": {}\n}\n");
    let asked = home.run(&["import", "--write", &file]);
    assert_eq!(asked.code, Some(1), "{}", asked.stdout);
    assert!(asked.stderr.contains("--yes"), "{}", asked.stderr);
    let written = home.run(&["import", "--write", &file, "--yes"]);
    assert_eq!((written.code, written.stderr.as_str()), (Some(0), ""));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("// mine") && text.contains("${GITHUB_TOKEN_OF_NOBODY}"), "{text}");
    let again = home.run(&["import", "--write", &file, "--yes"]);
    assert!(again.stdout.contains("Nothing to add"), "{}", again.stdout);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    let left = fs::read_dir(&home.path).unwrap().count();
    assert_eq!(left, 4, "no draft is left behind");
}

#[test]
fn a_server_is_not_left_out_for_a_variable_in_its_places() {
    let home = Home::new();
    let text = r#"{"servers": {"v": {"command": "./run.sh", "envFile": "${HOME}/.env"},
        "far": {"url": "${BASE_OF_NOBODY}/mcp"}}}"#;
    let from = home.write("mcp.json", text);
    home.write(".env", "A=1\n");
    let shown = home.run(&["import", "--from", &from]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    assert!(!shown.stdout.contains("left out"), "{}", shown.stdout);
    let file = home.path.join("mine.json").to_str().unwrap().to_owned();
    let written = home.run(&["import", "--from", &from, "--write", &file, "--yes"]);
    assert!(written.stdout.contains("Added 2 servers"), "{}", written.stdout);
    let checked = home.run(&["config", "check", &file]);
    let base = "the environment variable BASE_OF_NOBODY is not set";
    assert!(checked.stdout.contains(base), "{}", checked.stdout);
    assert_eq!(checked.stdout.lines().count(), 1, "{}", checked.stdout);
}

#[cfg(unix)]
#[test]
fn a_new_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = home();
    let file = home.path.join("new.json");
    let written = home.run(&["import", "-y", "--write", file.to_str().unwrap()]);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let toml = home.run(&["import", "-y", "--write", "x.toml"]);
    assert!(toml.code == Some(2) && toml.stderr.contains(".json"), "{}", toml.stderr);
}

#[test]
fn scripts_get_json_and_may_name_a_file() {
    let home = home();
    let from = home.path.join(".cursor/mcp.json");
    let shown = home.run(&["import", "--output", "json", "--from", from.to_str().unwrap()]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let servers = shown["servers"].as_array().unwrap();
    let line = |server: &Value| format!("{} {} {}", server["name"], server["as"], server["status"]);
    let lines: Vec<_> = servers.iter().map(line).collect();
    assert_eq!(lines, ["\"github\" \"github\" \"new\"", "\"files\" \"files\" \"new\""]);
    let none = home.run(&["import", "--from", "/no/such/file.json"]);
    assert!(none.code == Some(1) && none.stderr.contains("cannot read"), "{}", none.stderr);
}

#[test]
fn what_has_no_effect_is_told_and_is_no_mistake() {
    let home = Home::new();
    let text = r#"{"mcpServers": {
  "a": {"command": "x", "headers": {"X": "y"}, "cwd": "/no/such/folder"},
  "b": {"url": "http://localhost:1/mcp", "env": {"A": "b"}}}}"#;
    let file = home.write("m.json", text);
    let notes = [
        format!("{file}:2:25: \"headers\" has no effect: the server is a command (a note); leave"),
        format!("{file}:2:55: there is no folder /no/such/folder (a note); make it before"),
        format!("{file}:3:42: \"env\" has no effect: the server is elsewhere (a note); leave"),
    ];
    let checked = run(&["serve", "--check", "--config", &file], &[]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert_eq!(checked.stdout, "no mistakes: 2 servers, 0 groups, 0 keys");
    let lines: Vec<_> = checked.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{}", checked.stderr);
    for note in notes {
        assert!(lines.iter().any(|line| line.starts_with(&note)), "{note}: {}", checked.stderr);
    }
}

#[test]
fn a_section_with_a_slip_in_its_name_is_no_section_without_mistakes() {
    let home = Home::new();
    let text = r#"{"mcpServers": {"a": {"command": "x"}},
  "switchbord": {"keys": {"ada": {"hash": "sha256:0"}}}}"#;
    let file = home.write("m.json", text);
    let told = format!("{file}:2:3: \"switchbord\" is nearly \"switchboard\"");
    let checked = run(&["config", "check", &file], &[]);
    assert_eq!(checked.code, Some(1), "{}", checked.stdout);
    assert!(checked.stdout.starts_with(&told), "{}", checked.stdout);
    let checked = run(&["serve", "--check", "--config", &file], &[]);
    assert_eq!((checked.code, checked.stdout.as_str()), (Some(1), ""), "{}", checked.stderr);
    assert!(checked.stderr.starts_with(&told), "{}", checked.stderr);
}

#[test]
fn a_file_is_checked_with_places_and_remedies() {
    let home = Home::new();
    let good = home.write("good.json", r#"{"mcpServers": {"a": {"command": "c"}}}"#);
    let checked = run(&["config", "check", &good], &[]);
    assert_eq!(checked.code, Some(0));
    assert_eq!(checked.stdout.trim(), "no mistakes: 1 server, 0 groups, 0 keys");
    let bad =
        home.write("bad.json", "{\n\"mcpServers\": {\"a\": {\"command\": \"c\", \"args\": 1}}}");
    let checked = run(&["config", "check", &good, &bad], &[]);
    assert_eq!(checked.code, Some(1));
    assert!(checked.stdout.contains("bad.json:2:46: \"args\" is a number; write a list"));
    let none = run(&["config", "check", "/no/such.json"], &[]);
    assert!(
        none.code == Some(1) && none.stdout.contains("cannot read /no/such.json: No such"),
        "{}",
        none.stdout
    );
}

#[test]
fn the_schema_is_the_one_in_the_documentation() {
    let printed = run(&["config", "schema"], &[]);
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.schema.json");
    assert_eq!(printed.stdout.trim(), fs::read_to_string(file).unwrap().trim());
}

#[test]
fn a_new_key_comes_with_the_hash_that_a_file_wants() {
    let made = run(&["key", "new"], &[]);
    let [key, hash] = made.stdout.lines().collect::<Vec<_>>()[..] else { panic!() };
    assert!(key.starts_with("sb_") && key.len() == 46, "{key}");
    assert_ne!(run(&["key", "new"], &[]).stdout.lines().next(), Some(key));
    let mut hashing = Switchboard::start(&["key", "hash"]);
    hashing.write(format!("{key}\n").as_bytes());
    assert_eq!(hashing.finish().stdout.trim(), hash);
    let none = run(&["key", "hash"], &[]);
    assert!(none.code == Some(2) && none.stderr.contains("no key"), "{}", none.stderr);
    let home = Home::new();
    let text = format!(r#"{{"switchboard": {{"keys": {{"ada": {{"hash": "{hash}"}}}}}}}}"#);
    let file = home.write("m.json", &text);
    let checked = run(&["config", "check", &file], &[]);
    assert_eq!(checked.stdout.trim(), "no mistakes: 0 servers, 0 groups, 1 key");
}
