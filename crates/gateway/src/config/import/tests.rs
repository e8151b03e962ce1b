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
    let text = import.merge("").unwrap();
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
    let text = import.merge("").unwrap();
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
    let after = import.merge(before).unwrap();
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
    assert_eq!(import.merge("[]"), Err(MergeError::NoObject));
    assert_eq!(import.merge(r#"{"servers": []}"#), Err(MergeError::NoObject));
    assert!(matches!(import.merge("{"), Err(MergeError::Syntax(_))));
    folder.file("", "broken.json", "{");
    let into = folder.0.join("broken.json");
    let refused = Import::gather(&from, Some(&into), &folder.around());
    assert!(matches!(refused, Err(ReadError::Syntax(_))));
    let itself = folder.gather(&from, Some("from.json"));
    assert!(itself.candidates.is_empty(), "a file is not put into itself");
}
