//! Servers by their name in a configuration file.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::process::{Run, SERVER, Switchboard, run, text_of};
use crate::upstream::Upstream;
use crate::web::Session;

static FOLDERS: AtomicU64 = AtomicU64::new(1);

/// A home with files in it. Gone when dropped.
pub(crate) struct Home {
    pub(crate) path: PathBuf,
}

impl Home {
    pub(crate) fn new() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("home-{}-{number}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub(crate) fn write(&self, file: &str, text: &str) -> String {
        let path = self.path.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        let home = self.path.to_str().unwrap();
        let none = ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"].map(|name| (name, ""));
        run(args, &[&[("HOME", home)], &none[..]].concat())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What is left is swept with the build.
        _ = fs::remove_dir_all(&self.path);
    }
}

/// The test server under a name.
fn rude() -> String {
    json!({"mcpServers": {"rude": {"command": SERVER[0], "args": [SERVER[1]]}}}).to_string()
}

#[track_caller]
fn refused(run: &Run) -> Value {
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
    let line: Value = serde_json::from_str(&run.stderr)
        .unwrap_or_else(|error| panic!("{error}: {:?}", run.stderr));
    assert_eq!(line["error"]["kind"], "usage");
    line["error"].clone()
}

#[test]
fn a_name_in_a_given_file_is_a_server() {
    let home = Home::new();
    let upstream = Upstream::start();
    let text = format!(
        "[mcp_servers.remote]\nurl = {:?}\nhttp_headers = {{ X-Key = \"${{HOME}}\" }}\n",
        upstream.url()
    );
    let (json, toml) = (home.write("a.json", &rude()), home.write("b.toml", &text));
    let files = ["--config", json.as_str(), "--config", toml.as_str()];
    let local = home.run(&[&["call", "rude", "echo", "text=hi"][..], &files].concat());
    assert_eq!((local.code, local.stdout.as_str(), local.stderr.as_str()), (Some(0), "hi", ""));
    let remote = home.run(&[&["call", "remote", "echo", "text=ho"][..], &files].concat());
    assert_eq!((remote.code, remote.stdout.as_str(), remote.stderr.as_str()), (Some(0), "ho", ""));
    let key = format!("x-key: {}", home.path.display());
    assert!(upstream.heads().iter().all(|head| head.contains(&key)), "{:?}", upstream.heads());
}

#[test]
fn a_name_is_found_where_clients_keep_theirs() {
    for file in [
        ".config/switchboard/config.json",
        ".cursor/mcp.json",
        ".claude.json",
        ".config/Claude/claude_desktop_config.json",
    ] {
        let home = Home::new();
        home.write(file, &rude());
        let run = home.run(&["tools", "rude"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "NAME  DESCRIPTION\necho"), "{file}");
    }
}

#[test]
fn a_name_that_nobody_has_says_where_we_looked_and_what_there_is() {
    let home = Home::new();
    home.write(".cursor/mcp.json", &rude());
    home.write(".codex/config.toml", "not toml");
    let error = refused(&home.run(&["tools", "rud"]));
    assert_eq!(error["message"], "no configuration file names a server \"rud\"");
    let hints = error["hints"].to_string();
    for text in [
        "did you mean",
        "~/.cursor/mcp.json names rude",
        ".codex/config.toml:1:",
        "./.mcp.json",
        "~/.config/switchboard/config.json",
        "--config FILE",
    ] {
        assert!(hints.contains(text), "no {text:?} in {hints}");
    }
}

#[test]
fn a_mistake_in_a_server_is_told_with_its_line() {
    let home = Home::new();
    let text = "{\"mcpServers\": {\n  \"a\": {\"command\": \"x\", \"env\": {\"K\": \"${NOT_SET_HERE}\"}}}}";
    let file = home.write("a.json", text);
    let error = refused(&home.run(&["tools", "a", "--config", &file]));
    let expected = format!("{file}:2:38: \"K\": the environment variable NOT_SET_HERE is not set");
    assert_eq!(error["message"], expected);
    assert!(error["hints"][0].as_str().unwrap().starts_with("export NOT_SET_HERE"), "{error}");
    let broken = home.write("b.json", "{\n  mcpServers: {}\n}");
    let error = refused(&home.run(&["tools", "a", "--config", &broken]));
    assert!(error["message"].as_str().unwrap().starts_with(&format!("{broken}:2:3: ")), "{error}");
    let error = refused(&home.run(&["tools", "a", "--config", "/no/such.json"]));
    assert!(error["message"].as_str().unwrap().starts_with("cannot read /no/such.json"), "{error}");
}

#[test]
fn a_name_is_bridged_like_anything_else() {
    let home = Home::new();
    let file = home.write("a.json", &rude());
    let mut bridge = Switchboard::start(&["bridge", "rude", "--config", &file]);
    bridge.greet();
    assert_eq!(bridge.call(1, "echo", &json!({"text": "hi"})), "hi");
}

/// `git` is a program too, and `--port` is a flag of ours.
#[test]
fn a_name_is_bridged_before_a_program_of_that_name() {
    let home = Home::new();
    home.write(".cursor/mcp.json", &rude().replace("\"rude\"", "\"git\""));
    let place = home.path.to_str().unwrap();
    let vars = [("HOME", place), ("XDG_CONFIG_HOME", ""), ("CODEX_HOME", "")];
    let mut bridge = Switchboard::start_with(&["bridge", "git", "--port", "0"], &vars);
    let session = Session::open(bridge.port());
    let answer = session.call("echo", &json!({"text": "hi"}));
    assert_eq!(text_of(&answer.message()), "hi");
}

#[test]
fn flags_of_the_bridge_may_stand_after_a_command() {
    let args = [&["bridge"], &SERVER[..], &["--port", "0"]].concat();
    let mut bridge = Switchboard::start(&args);
    let session = Session::open(bridge.port());
    let answer = session.call("echo", &json!({"text": "hi"}));
    assert_eq!(text_of(&answer.message()), "hi");
    let neither = run(&["bridge", "no-such-program-here", "server.js"], &[]);
    assert_eq!(neither.code, Some(2), "{}", neither.stderr);
    assert!(neither.stderr.contains("bridge -- no-such-program-here"), "{}", neither.stderr);
}
