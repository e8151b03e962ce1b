//! What the README and the pages for tasks say to type does what it says.
//!
//! Every command and client configuration is run, with servers from elsewhere
//! replaced by the demo, and every configuration of a gateway (`jsonc`) is
//! checked. Output (`text`) and diagrams are not run. A block of another kind
//! fails the test. Rust is a documentation test of `switchboard-net`.

use rustix::process::Signal;
use serde_json::{Value, json};
use switchboard_net::stdio::child::Command;

use crate::process::{Switchboard, run, until};
use crate::web::send;

const README: &str = include_str!("../../../../README.md");
const RECIPES: &str = include_str!("../../../../docs/recipes.md");
const STDIO_OVER_HTTP: &str = include_str!("../../../../docs/stdio-over-http.md");
const REMOTE_SERVER: &str = include_str!("../../../../docs/remote-server.md");
const TEAM: &str = include_str!("../../../../docs/team.md");
const PAGES: [&str; 5] = [README, RECIPES, STDIO_OVER_HTTP, REMOTE_SERVER, TEAM];
/// What the README says to type that would build or test this workspace once more.
const BUILDS: [&str; 2] = [
    "cargo install --path crates/cli --locked --no-default-features --features console",
    "./test.sh",
];
const BINARY: &str = env!("CARGO_BIN_EXE_switchboard");

/// A block of code: its language, and its text.
struct Block {
    language: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block { language: language.to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {
                assert!(!line.starts_with("    "), "fence it, and name its language: {line}");
            }
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

/// Words between single backquotes, outside of blocks.
fn inline(page: &str) -> Vec<&str> {
    let mut outside = true;
    let lines = page.lines().filter(|line| {
        outside ^= line.starts_with("```");
        outside && !line.starts_with("```")
    });
    lines.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// A server at a URL, as `mcp.example.com` is one.
fn remote() -> (Switchboard, String) {
    let mut demo = Switchboard::start(&["demo", "--http", "--port", "0"]);
    let port = demo.port();
    (demo, format!("http://127.0.0.1:{port}"))
}

/// What the first command serves, at a port of its own.
fn gateway() -> (Switchboard, String) {
    let mut gateway = Switchboard::start(&["serve", "--port", "0", "--no-cache"]);
    let port = gateway.port();
    until("the gateway is ready", || send(port, "GET /readyz", &[], b"").status == 200);
    (gateway, format!("http://127.0.0.1:{port}"))
}

/// The same command for this machine: our binary, our servers, any free port.
fn here(line: &str, remote: &str, gateway: &str) -> Vec<String> {
    let demo = format!("{BINARY} demo");
    let line = line
        .replace("cargo run --release --", "switchboard")
        .replace("https://mcp.example.com", remote)
        .replace("npx -y @modelcontextprotocol/server-everything", &demo)
        .replace("uvx mcp-server-git", &demo)
        .replace("get-sum", "add")
        .replace("${TOKEN}", "of-nobody")
        .replace("\"switchboard demo\"", &format!("\"{demo}\""))
        .replace("http://127.0.0.1:3000", remote)
        .replace("http://127.0.0.1:3001", gateway)
        .replace("servers.json", &github())
        .replace("tools github", &format!("tools github --config {}", github()))
        .replace("--port 3000", "--port 0");
    assert!(!line.contains("https://"), "this test would use the network: {line}");
    let command = Command::parse(&line).unwrap();
    assert_eq!(command.program, "switchboard", "this test cannot run it: {line}");
    command.args
}

/// A file of some client that names a server `github`.
fn github() -> String {
    let path = format!("{}/readme.json", env!("CARGO_TARGET_TMPDIR"));
    let server = json!({ "command": BINARY, "args": ["demo"] });
    let config = json!({ "mcpServers": { "github": server } });
    // Whole at once: two tests write the same words.
    let new = format!("{path}.{}.{:?}", std::process::id(), std::thread::current().id());
    std::fs::write(&new, config.to_string()).unwrap();
    std::fs::rename(new, &path).unwrap();
    path
}

fn type_it(args: &[String]) {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[0] {
        _ if args.contains(&"--help") => assert_eq!(run(&args, &[]).code, Some(0), "{args:?}"),
        "bridge" | "demo" if args.contains(&"--port") => serves_http(&args),
        "bridge" | "demo" | "mcp-remote" => serves_stdio(&args),
        "serve" => serves_http(&[&args, &["--port", "0", "--no-cache"][..]].concat()),
        "tools" if args.get(2).is_some_and(|word| word.ends_with("add")) => {
            prints(&args, "Call it:\n  switchboard call ");
        }
        "tools" => prints(&args, "echo"),
        "call" => prints(&args, "3"),
        "doctor" => prints(&args, "healthy"),
        "status" => shows_status(&args),
        "key" => prints(&args, "sha256:"),
        "config" => prints(&args, "no mistakes"),
        // `login.rs` has a server to sign in to.
        "auth" | "install" | "login" | "logout" | "whoami" => prints(&[args[0], "--help"], "Usage"),
        other => panic!("say here how to see that {other} works"),
    }
}

fn prints(args: &[&str], text: &str) {
    let run = run(args, &[]);
    assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    assert!(run.stdout.contains(text), "{args:?}: {}", run.stdout);
}

/// Of a gateway elsewhere: the usual port may be somebody's.
fn shows_status(args: &[&str]) {
    let mut gateway = Switchboard::start(&["serve", "--port", "0", "--no-cache"]);
    let url = format!("http://127.0.0.1:{}", gateway.port());
    prints(&[args, &[url.as_str()]].concat(), "demo");
}

fn serves_http(args: &[&str]) {
    let mut serving = Switchboard::start(args);
    let port = serving.port();
    if args[0] == "serve" {
        until("a server is ready", || send(port, "GET /readyz", &[], b"").status == 200);
    }
    for (path, transport) in [("mcp", "http-only"), ("sse", "sse-only")] {
        let url = format!("http://127.0.0.1:{port}/{path}");
        prints(&["tools", &url, "--transport", transport], "echo");
    }
    serving.signal(Signal::TERM);
    assert_eq!(serving.exit_code(), Some(0), "{args:?}");
}

fn serves_stdio(args: &[&str]) {
    let mut serving = Switchboard::start(args);
    serving.greet_one("switchboard-demo");
    serving.close_stdin();
    assert_eq!(serving.exit_code(), Some(0), "{args:?}");
}

/// A configuration of a gateway loads without mistakes.
fn loads(text: &str) {
    // Tests are threads of one process, or each has its own.
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let path = format!("{}/readme.{process}.{thread:?}.jsonc", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, text).unwrap();
    let run = run(&["config", "check", &path], &[("TOKEN", "of-nobody")]);
    assert_eq!(run.code, Some(0), "{}\n{text}", run.stdout);
}

/// What clients have in their files, with the first server's command.
fn configured(text: &str) -> String {
    let config: Value = serde_json::from_str(text).unwrap();
    let server = config["mcpServers"].as_object().and_then(|servers| servers.values().next());
    let server = server.expect("a configuration of servers");
    let words = server["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let words = [server["command"].as_str().unwrap()].into_iter().chain(words);
    let quoted: Vec<_> = words.map(|word| format!("'{word}'")).collect();
    quoted.join(" ")
}

#[test]
fn every_block_of_the_readme_works() {
    every_block_works(README);
}

#[test]
fn every_block_of_the_recipes_works() {
    every_block_works(RECIPES);
}

#[test]
fn every_block_of_the_pages_for_tasks_works() {
    for page in [STDIO_OVER_HTTP, REMOTE_SERVER, TEAM] {
        every_block_works(page);
    }
}

fn every_block_works(page: &str) {
    let (_demo, remote) = remote();
    let (_gateway, gateway) = gateway();
    for Block { language, text } in blocks(page) {
        match language.as_str() {
            "sh" => {
                for line in text.lines().filter(|line| !BUILDS.contains(line)) {
                    type_it(&here(line, &remote, &gateway));
                }
            }
            "json" => type_it(&here(&configured(&text), &remote, &gateway)),
            "jsonc" => loads(&text),
            "mermaid" | "rust" | "text" => {}
            other => panic!("nobody runs blocks of {other:?}:\n{text}"),
        }
    }
}

#[test]
fn every_command_and_option_within_the_text_is_there() {
    let (_demo, remote) = remote();
    let (_gateway, gateway) = gateway();
    let helps: Vec<_> =
        ["bridge", "call", "demo"].map(|name| run(&[name, "--help"], &[]).stdout).into();
    for code in PAGES.into_iter().flat_map(inline) {
        if code.starts_with("switchboard ") {
            type_it(&here(code, &remote, &gateway));
        } else if code.starts_with("--") {
            let option = code.split([' ', '=']).next().unwrap_or_default();
            let shown = [format!("{option} "), format!("{option}\n")];
            let known = helps.iter().any(|help| shown.iter().any(|shown| help.contains(shown)));
            assert!(known, "no such option: {code}");
        }
    }
}

#[test]
fn the_script_of_the_readme_is_there_and_names_its_parts() {
    assert!(blocks(README).iter().any(|block| block.text == "./test.sh\n"));
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let help = std::process::Command::new("./test.sh").arg("help").current_dir(root).output();
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    assert!(help.contains("conformance") && help.contains("peers"), "{help}");
}
