//! Files of several clients, and the one that comes of them.

use std::fs;

use super::*;

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("switchboard-import-{}-{name}", std::process::id());
        let folder = Self(std::env::temp_dir().join(folder));
        fs::create_dir_all(&folder.0).expect("a folder for the test");
        folder
    }

    fn file(&self, client: &str, name: &str, text: &str) -> (String, PathBuf) {
        let file = self.0.join(name);
        fs::write(&file, text).expect("a file to write");
        (client.to_owned(), file)
    }

    fn around(&self) -> Surroundings {
        Surroundings::new([("TOKEN".to_owned(), "s3cret".to_owned())], &self.0)
    }

    fn gather(&self, from: &[(String, PathBuf)], into: Option<&str>) -> Import {
        let into = into.map(|name| self.0.join(name));
        Import::gather(from, into.as_deref(), &self.around()).expect("files to read")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn fates(import: &Import) -> Vec<String> {
    let fate = |found: &Candidate| format!("{} {}: {:?}", found.client, found.name, found.fate);
    import.candidates.iter().map(fate).collect()
}

#[test]
fn servers_of_all_clients_come_together_once() {
    let folder = Folder::new("together");
    let from = [
        folder.file(
            "Claude Code",
            "a.json",
            r#"{"mcpServers": {"github": {"url": "https://e.com/mcp", "headers":
                {"Authorization": "Bearer ${TOKEN}"}}, "files": {"command": "fs", "args": ["/a"]}}}"#,
        ),
        folder.file(
            "VS Code",
            "b.json",
            r#"{"inputs": [{"id": "key", "type": "promptString"}], "servers": {
                "files": {"command": "fs", "args": ["/b"]}, "fs": {"args": ["/a"], "command": "fs"},
                "asks": {"command": "c", "env": {"K": "${input:key}"}}}}"#,
        ),
        folder.file(
            "opencode",
            "c.json",
            r#"{"mcp": {"gh": {"type": "remote", "url": "https://e.com/mcp",
                "headers": {"Authorization": "Bearer {env:TOKEN}"}}, "bad": {"comand": "x"}}}"#,
        ),
        folder.file("Codex", "d.toml", "[mcp_servers.docs]\ncommand = \"d\"\nenv = { A = \"1\" }\n"),
        folder.file("Zed", "settings.json", r#"{"theme": "dark"}"#),
        ("Nobody".to_owned(), folder.0.join("none.json")),
    ];
    let import = folder.gather(&from, None);
    assert_eq!(
        fates(&import),
        [
            "Claude Code github: Added(\"github\")",
            "Claude Code files: Added(\"files\")",
            "VS Code files: Added(\"files-vs-code\")",
            "VS Code fs: Same(\"files\")",
            "VS Code asks: Added(\"asks\")",
            "opencode gh: Same(\"github\")",
            "opencode bad: Broken",
            "Codex docs: Added(\"docs\")",
        ]
    );
    assert_eq!((import.added(), import.files.len(), import.unread.len()), (5, 4, 0));
    let text = import.merge(Path::new("m.json"), "").unwrap();
    assert!(!text.contains("s3cret") && text.contains("Bearer ${TOKEN}"), "{text}");
    assert!(text.contains("${INPUT_KEY}"), "{text}");
    let around = folder.around();
    let read = Config::parse(Path::new("m.json"), &text, &around.literal()).unwrap();
    assert_eq!(read.problems, []);
    let names: Vec<_> = read.names().collect();
    assert_eq!(names, ["github", "files", "files-vs-code", "asks", "docs"]);
}

#[test]
fn variables_in_places_and_urls_are_left_for_whoever_reads_them() {
    let folder = Folder::new("variables");
    folder.file("", "dot.env", "A=1\n");
    let from = [folder.file(
        "VS Code",
        "mcp.json",
        r#"{"servers": {
            "v": {"command": "run", "envFile": "${workspaceFolder}/dot.env"},
            "w": {"command": "run", "envFile": "${HOME}/other.env"},
            "again": {"command": "run", "envFile": "${HOME}/other.env"},
            "far": {"url": "${BASE}/mcp"}, "whole": {"url": "${BASE}"},
            "near": {"url": "https://${env:HOST}:${PORT}/mcp"},
            "nearer": {"url": "https://${HOST}:${OTHER_PORT}/mcp"},
            "gone": {"command": "run", "envFile": "none.env"},
            "half": {"url": "e.com/mcp"}}}"#,
    )];
    let import = folder.gather(&from, None);
    assert_eq!(
        fates(&import),
        [
            "VS Code v: Added(\"v\")",
            "VS Code w: Added(\"w\")",
            "VS Code again: Same(\"w\")",
            "VS Code far: Added(\"far\")",
            "VS Code whole: Added(\"whole\")",
            "VS Code near: Added(\"near\")",
            "VS Code nearer: Added(\"nearer\")",
            "VS Code gone: Broken",
            "VS Code half: Broken",
        ]
    );
    let text = import.merge(Path::new("m.json"), "").unwrap();
    assert!(text.contains("\"${workspaceFolder}/dot.env\""), "{text}");
    assert!(text.contains("\"https://${HOST}:${PORT}/mcp\""), "{text}");
    let pairs = [("BASE", "http://h"), ("HOST", "h"), ("PORT", "1"), ("OTHER_PORT", "2")];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let home = [("HOME".to_owned(), folder.0.display().to_string())];
    let around = Surroundings::new(pairs.into_iter().chain(home), &folder.0);
    let read = Config::parse(Path::new("m.json"), &text, &around).unwrap();
    let broken: Vec<_> = read.errors().filter_map(|error| error.server.as_deref()).collect();
    assert_eq!(broken, ["w"], "its file is not there");
}

#[test]
fn a_file_that_is_there_keeps_all_it_has() {
    let folder = Folder::new("keeps");
    let before = "// mine\n{\n  \"servers\": {\n    // old\n    \"a\": { \"command\": \"old\" }, // why\n  },\n  \"x\": 1\n}\n";
    folder.file("", "into.json", before);
    let from = [folder.file(
        "Cursor",
        "from.json",
        r#"{"mcpServers": {"a": {"command": "new"}, "b": {"command": "old"}, "c": {"command": "c"}}}"#,
    )];
    let import = folder.gather(&from, Some("into.json"));
    let expected =
        ["Cursor a: Added(\"a-cursor\")", "Cursor b: Same(\"a\")", "Cursor c: Added(\"c\")"];
    assert_eq!(fates(&import), expected);
    let after = import.merge(Path::new("into.json"), before).unwrap();
    for kept in ["// mine", "// old", "// why", "\"a\": { \"command\": \"old\" }", "\"x\": 1"] {
        assert!(after.contains(kept), "{kept} in {after}");
    }
    let read = Config::parse(Path::new("m.json"), &after, &folder.around()).unwrap();
    assert_eq!(read.names().collect::<Vec<_>>(), ["a", "a-cursor", "c"]);
    fs::write(folder.0.join("into.json"), &after).unwrap();
    assert_eq!(folder.gather(&from, Some("into.json")).added(), 0, "a second time adds nothing");
}

#[test]
fn what_cannot_be_added_to_is_left_alone() {
    let folder = Folder::new("alone");
    let from = [folder.file("Cursor", "from.json", r#"{"mcpServers": {"a": {"command": "c"}}}"#)];
    let import = folder.gather(&from, None);
    let merge = |text: &str| import.merge(Path::new("m.json"), text);
    assert_eq!(merge("[]"), Err(EditError::NoObject));
    assert_eq!(merge(r#"{"servers": ["a"]}"#), Err(EditError::NoObject));
    assert!(matches!(merge("{"), Err(EditError::Syntax(_))));
    folder.file("", "broken.json", "{");
    let into = folder.0.join("broken.json");
    let refused = Import::gather(&from, Some(&into), &folder.around());
    assert!(matches!(refused, Err(ReadError::Syntax(_))));
    let itself = folder.gather(&from, Some("from.json"));
    assert!(itself.candidates.is_empty(), "a file is not put into itself");
}

/// Gemini's `mcp` says which servers of `mcpServers` are wanted; it names none itself.
#[test]
fn what_gemini_allows_and_excludes_are_names_and_no_servers() {
    let folder = Folder::new("gemini");
    fs::create_dir_all(folder.0.join(".gemini")).unwrap();
    let from = [folder.file(
        "Gemini CLI",
        ".gemini/settings.json",
        r#"{"mcp": {"allowed": ["a", "b"], "excluded": ["b"], "serverCommand": "x"},
            "mcpServers": {"a": {"command": "run", "env": {"K": "$MY_TOKEN", "L": "pa$word"}},
              "b": {"httpUrl": "https://e.com/${MY_PATH}"}, "c": {"command": "c"}}}"#,
    )];
    let import = folder.gather(&from, None);
    assert_eq!(import.candidates.iter().flat_map(Candidate::errors).count(), 0);
    let enabled = |found: &Candidate| found.entry.as_ref().map(|entry| entry.enabled);
    let found: Vec<_> = import.candidates.iter().map(|it| (&*it.name, enabled(it))).collect();
    assert_eq!(found, [("a", Some(true)), ("b", Some(false)), ("c", Some(false))]);
    let text = import.merge(Path::new("m.json"), "").unwrap();
    assert!(text.contains(r#""K": "${MY_TOKEN}""#) && text.contains(r#""L": "pa$word""#), "{text}");
    let read = Config::parse(Path::new("m.json"), &text, &folder.around().literal()).unwrap();
    let off: Vec<_> = read.servers.iter().filter(|entry| !entry.enabled).collect();
    assert_eq!(off.len(), 2, "what is switched off there is switched off here: {text}");
}

#[test]
fn the_yaml_of_continue_and_goose_is_read() {
    let folder = Folder::new("yaml");
    let from = [
        folder.file(
            "Continue",
            "config.yaml",
            "name: mine\nversion: 0.0.1\nschema: v1\nmodels:\n  - &base {name: m, provider: p}\n  \
             - <<: *base\n    name: n\nmcpServers:\n  # files\n  - name: files\n    command: npx\n    \
             args: [\"-y\", fs]\n    env:\n      K: ${{ secrets.MY_KEY }}\n    connectionTimeout: 5000\n  \
             - name: far\n    type: streamable-http\n    url: https://e.com/mcp\n    requestOptions:\n      \
             timeout: 7\n      headers:\n        Authorization: Bearer ${{ inputs.TOKEN }}\n",
        ),
        folder.file(
            "Goose",
            "goose.yaml",
            "GOOSE_PROVIDER: x\nextensions:\n  developer:\n    bundled: true\n    enabled: true\n    \
             name: developer\n    type: builtin\n  todo: {enabled: true, type: platform, name: todo}\n  \
             git:\n    enabled: false\n    type: stdio\n    name: git\n    description: null\n    \
             cmd: uvx\n    args:\n    - mcp-server-git\n    envs:\n      A: b\n    env_keys: []\n    \
             timeout: 300\n    bundled: null\n    available_tools: []\n  web:\n    enabled: true\n    \
             type: streamable_http\n    name: web\n    description: ''\n    uri: https://e.com/web\n    \
             headers:\n      X: y\n",
        ),
    ];
    let import = folder.gather(&from, None);
    assert_eq!(
        fates(&import),
        [
            "Continue files: Added(\"files\")",
            "Continue far: Added(\"far\")",
            "Goose git: Added(\"git\")",
            "Goose web: Added(\"web\")",
        ]
    );
    let problems: Vec<_> = import.candidates.iter().flat_map(|found| &found.problems).collect();
    assert!(problems.is_empty(), "{problems:?}");
    assert!(!import.candidates[2].entry.as_ref().unwrap().enabled);
    assert_eq!(import.candidates[1].place.line, 16);
    let text = import.merge(Path::new("m.json"), "").unwrap();
    for part in [
        r#""K": "${MY_KEY}""#,
        r#""Authorization": "Bearer ${TOKEN}""#,
        r#""startup_timeout_ms": 5000"#,
        r#""command": "uvx""#,
        r#""A": "b""#,
        r#""url": "https://e.com/web""#,
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let broken = folder.file("Continue", "broken.yaml", "mcpServers:\n - name: a\n  b: 1\n");
    let import = folder.gather(&[broken], None);
    let told = import.unread[0].line();
    assert!(told.contains("broken.yaml:3:") && told.contains("this is not YAML"), "{told}");
}

#[test]
fn servers_of_a_folder_and_what_is_switched_off_there_are_those_of_claude_code() {
    let folder = Folder::new("claude");
    let here = folder.0.display().to_string();
    fs::create_dir_all(folder.0.join(".claude")).unwrap();
    folder.file("", ".claude/settings.local.json", r#"{"disabledMcpjsonServers": ["local"]}"#);
    let projects = serde_json::json!({
        "mcpServers": {"user": {"command": "u"}, "other": {"command": "o"}},
        "projects": {
            &here: {"mcpServers": {"mine": {"command": "m"}, "idle": {"command": "i"}},
                "disabledMcpServers": ["user", "idle"], "disabledMcpjsonServers": ["shared"]},
            "/elsewhere": {"mcpServers": {"theirs": {"command": "t"}}},
        },
    });
    let from = [
        folder.file("Claude Code", ".claude.json", &projects.to_string()),
        folder.file(
            "Claude Code",
            ".mcp.json",
            r#"{"mcpServers": {"shared": {"command": "s"}, "local": {"command": "l"},
                "kept": {"command": "k"}}}"#,
        ),
    ];
    let around = Surroundings::new([("HOME".to_owned(), here)], &folder.0);
    let import = Import::gather(&from, None, &around).unwrap();
    let enabled = |found: &Candidate| found.entry.as_ref().is_some_and(|entry| entry.enabled);
    let mut found: Vec<_> = import.candidates.iter().map(|it| (&*it.name, enabled(it))).collect();
    found.sort_unstable();
    let expected = [
        ("idle", false),
        ("kept", true),
        ("local", false),
        ("mine", true),
        ("other", true),
        ("shared", false),
        ("user", false),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_gateway_itself_is_not_offered_as_a_server() {
    let folder = Folder::new("gateway");
    let text = r#"{"mcpServers": {
        "everything": {"url": "http://127.0.0.1:3001/mcp"},
        "files": {"url": "http://127.0.0.1:3001/servers/files/mcp"},
        "desktop": {"command": "/opt/bin/switchboard", "args": ["bridge", "http://127.0.0.1:3001/mcp"]},
        "switchboard": {"url": "http://localhost:4000/mcp", "disabled": true},
        "team": {"url": "https://mcp.example.com/mcp"},
        "dev": {"url": "http://localhost:4000/mcp"},
        "stdio": {"command": "switchboard", "args": ["bridge", "https://mcp.example.com/sse"]}}}"#;
    let import = folder.gather(&[folder.file("Cursor", "from.json", text)], None);
    assert_eq!(
        fates(&import),
        [
            "Cursor everything: Added(\"everything\")",
            "Cursor files: Gateway",
            "Cursor desktop: Gateway",
            "Cursor switchboard: Gateway",
            "Cursor team: Added(\"team\")",
            "Cursor dev: Added(\"dev\")",
            "Cursor stdio: Added(\"stdio\")",
        ]
    );
    let text = import.merge(Path::new("m.json"), "").unwrap();
    assert_eq!(text.matches("3001").count(), 1, "a port that others have, too: {text}");
    let text = r#"{"mcpServers": {"switchboard": {"url": "https://mcp.example.com/mcp"}}}"#;
    let import = folder.gather(&[folder.file("Cursor", "team.json", text)], None);
    assert_eq!(fates(&import), ["Cursor switchboard: Added(\"switchboard\")"], "another gateway");
}

#[test]
fn of_two_entries_for_a_server_the_one_that_is_switched_on_is_added() {
    let folder = Folder::new("twins");
    let off = r#"{"mcpServers": {"git": {"command": "git-mcp", "disabled": true},
        "idle": {"command": "idle", "disabled": true}}}"#;
    let on = r#"{"mcpServers": {"git": {"command": "git-mcp"}}}"#;
    let from = [folder.file("Cline", "a.json", off), folder.file("Cursor", "b.json", on)];
    let import = folder.gather(&from, None);
    let expected =
        ["Cline git: Same(\"git\")", "Cline idle: Added(\"idle\")", "Cursor git: Added(\"git\")"];
    assert_eq!(fates(&import), expected);
    let text = import.merge(Path::new("m.json"), "").unwrap();
    let read = Config::parse(Path::new("m.json"), &text, &folder.around()).unwrap();
    let is_on = |name: &str| read.server(name).unwrap().unwrap().enabled;
    assert!(is_on("git") && !is_on("idle"), "{text}");
}
