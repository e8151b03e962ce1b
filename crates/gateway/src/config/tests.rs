//! Files as people have them, and what must come of them.

use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::upstream::{Strategy, Target};

use super::*;

fn around() -> Surroundings {
    let variables = [("TOKEN", "s3cret"), ("HOME", "/u"), ("PATH", "/bin")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Surroundings::new(variables, "/p")
}

fn read(file: &str, text: &str) -> Config {
    Config::parse(Path::new(file), text, &around()).unwrap()
}

/// What is wrong with a file of JSON, a line each: place, fact, remedy.
#[track_caller]
fn check(text: &str, expected: &[&str]) -> Config {
    let config = read("m.json", text);
    let told = config.problems.iter();
    let told: Vec<_> = told.map(|problem| format!("{problem} -> {}", problem.instead)).collect();
    assert_eq!(told, expected);
    for line in &told {
        assert!(!line.contains("s3cret"), "{line}");
    }
    config
}

/// A server as one line.
fn line(config: &Config, name: &str) -> String {
    match &config.server(name).unwrap().unwrap().plan.target {
        Target::Command(command) => {
            let env = command.env.iter().map(|(name, value)| format!("{name}={value}"));
            let words = env.chain([command.program.clone()]).chain(command.args.clone());
            let cwd = command.cwd.iter().map(|cwd| format!("in {}", cwd.display()));
            words.chain(cwd).collect::<Vec<_>>().join(" ")
        }
        Target::Url { url, strategy, headers } => {
            let headers = headers.iter();
            let headers =
                headers.map(|(name, value)| format!(" {name}: {}", value.to_str().unwrap()));
            format!("{strategy:?} {url}{}", headers.collect::<String>())
        }
    }
}

#[test]
fn the_file_of_a_desktop_client_is_read_with_comments_and_trailing_commas() {
    let config = read(
        "claude_desktop_config.json",
        r#"{
          // what I use every day
          "mcpServers": {
            "files": { "command": "npx", "args": ["-y", "fs", "${HOME}/a",], "env": {"N": 1}, },
            "remote": { "type": "http", "url": "https://e.com/mcp",
                        "headers": { "Authorization": "Bearer ${TOKEN}" } }, /* mine */
          },
          "globalShortcut": "x",
        }"#,
    );
    assert_eq!(config.problems, []);
    assert_eq!(line(&config, "files"), "N=1 npx -y fs /u/a");
    let remote = "HttpFirst https://e.com/mcp authorization: Bearer s3cret";
    assert_eq!(line(&config, "remote"), remote);
    assert_eq!(config.servers[0].place.to_string(), "claude_desktop_config.json:4:13");
}

#[test]
fn arguments_may_name_variables_that_their_own_entry_sets() {
    // As people write it for mcp-remote, whose clients break arguments at blanks.
    let config = read(
        "mcp.json",
        r#"{"mcpServers": {
          "a": { "command": "npx", "args": ["mcp-remote", "https://e.com", "--header", "Authorization:${AUTH}"],
                 "env": {"AUTH": "Bearer ${TOKEN}", "HOME": "/mine"} },
          "b": { "env": {"TOKEN": "own"}, "command": ["run", "${TOKEN}", "${HOME}"] },
          "c": { "url": "https://e.com/${TOKEN}", "env": {} }
        }}"#,
    );
    assert_eq!(config.problems, []);
    let a = "AUTH=Bearer s3cret HOME=/mine npx mcp-remote https://e.com --header Authorization:Bearer s3cret";
    assert_eq!(line(&config, "a"), a);
    assert_eq!(line(&config, "b"), "TOKEN=own run own /u");
    assert_eq!(line(&config, "c"), "HttpFirst https://e.com/s3cret");
}

#[test]
fn the_file_of_an_editor_is_read_with_its_inputs() {
    let config = read(
        ".vscode/mcp.json",
        r#"{
          "inputs": [{ "type": "promptString", "id": "key", "default": "none", "password": true }],
          "servers": {
            "a": { "type": "stdio", "command": "${workspaceFolder}/run", "cwd": "sub", "dev": {} },
            "b": { "type": "sse", "url": "http://localhost:1/sse?k=${input:key}" }
          }
        }"#,
    );
    let told: Vec<_> = config.problems.iter().map(ToString::to_string).collect();
    assert_eq!(told, [".vscode/mcp.json:4:81: there is no folder /p/sub"]);
    assert_eq!(line(&config, "a"), "/p/run in /p/sub");
    assert_eq!(line(&config, "b"), "SseOnly http://localhost:1/sse?k=none");
}

#[test]
fn the_toml_of_codex_is_read() {
    let config = read(
        "config.toml",
        r#"
model = "x"
[mcp_servers.docs]
command = "npx"
args = ["-y", "docs"]
env_vars = ["TOKEN", "ABSENT"]
startup_timeout_sec = 20
tool_timeout_sec = 1.5
enabled_tools = ["find"]
[mcp_servers.docs.env]
A = "b"

[mcp_servers.figma]
url = "https://e.com/mcp"
bearer_token_env_var = "TOKEN"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-Token" = "TOKEN" }
enabled = false
"#,
    );
    assert_eq!(config.problems, []);
    assert_eq!(line(&config, "docs"), "TOKEN=s3cret A=b npx -y docs");
    let docs = &config.servers[0];
    assert_eq!(docs.options.start.map(|time| time.as_millis()), Some(20_000));
    assert_eq!(docs.options.call.map(|time| time.as_millis()), Some(1500));
    assert_eq!(docs.plan.tools.only.as_deref(), Some(&["find".to_owned()][..]));
    assert!(docs.enabled && !config.servers[1].enabled);
    let figma = line(&config, "figma");
    assert!(figma.contains("authorization: Bearer s3cret"), "{figma}");
    assert!(figma.contains("x-region: eu") && figma.contains("x-token: s3cret"), "{figma}");
}

#[test]
fn other_dialects_are_read_too() {
    let config = read(
        "opencode.json",
        r#"{"mcp": {"o": {"type": "local",
        "command": ["bun", "x"], "environment": {"K": "{env:TOKEN}"}, "timeout": 5000}}}"#,
    );
    assert_eq!(line(&config, "o"), "K=s3cret bun x");
    assert_eq!(config.servers[0].options.call.map(|time| time.as_secs()), Some(5));
    let config = read("settings.json", r#"{"mcp": {"servers": {"v": {"command": "c"}}}}"#);
    assert_eq!(line(&config, "v"), "c");
    let inputs = r#"{"mcp": {"inputs": [{"id": "k", "default": "d"}], "servers": {"v": {
        "command": "c", "args": ["${input:k}"]}}}, "editor.fontSize": 12}"#;
    assert_eq!(line(&read("settings.json", inputs), "v"), "c d");
    let nothing = read("settings.json", r#"{"mcp": {"inputs": []}}"#);
    assert_eq!((nothing.names().count(), nothing.problems), (0, Vec::new()));
    let config = read(
        "w.json",
        r#"{"mcpServers": {"w": {"serverUrl": "https://e.com/mcp"},
        "g": {"httpUrl": "https://e.com/g", "timeout": 30, "trust": true}}}"#,
    );
    assert_eq!(line(&config, "w"), "HttpFirst https://e.com/mcp");
    assert_eq!(line(&config, "g"), "HttpOnly https://e.com/g");
    assert_eq!(config.servers[1].options.call.map(|time| time.as_secs()), Some(30));
    let claude = r#"{"mcpServers": {"all": {"command": "a"}},
        "projects": {"/p": {"mcpServers": {"here": {"command": "h"}}}, "/q": {}}}"#;
    let config = read(".claude.json", claude);
    assert_eq!(config.names().collect::<Vec<_>>(), ["here", "all"]);
    let config = read("l.json", r#"{"mcpServers": [{"name": "n", "command": "c"}]}"#);
    assert_eq!(line(&config, "n"), "c");
}

#[test]
fn every_name_of_a_transport_is_understood() {
    let strategy = |kind: &str| {
        let text =
            format!(r#"{{"mcpServers": {{"a": {{"transport": "{kind}", "url": "http://h"}}}}}}"#);
        match &read("m.json", &text).servers[0].plan.target {
            Target::Url { strategy, .. } => *strategy,
            Target::Command(_) => panic!("{kind}"),
        }
    };
    for kind in ["streamable-http", "streamableHttp", "streamablehttp", "streamable_http"] {
        assert_eq!(strategy(kind), Strategy::HttpOnly, "{kind}");
    }
    assert_eq!([strategy("http"), strategy("auto")], [Strategy::HttpFirst; 2]);
    assert_eq!(strategy("sse"), Strategy::SseOnly);
}

#[test]
fn a_mistake_is_told_with_its_place_and_what_to_write() {
    check(
        "{\"mcpServers\": {\n  \"a\": {\"comand\": \"x\"},\n  \"b\": {\"command\": \"x\", \"args\": \"y\"}\n}}",
        &[
            "m.json:2:9: unknown key \"comand\" -> write \"command\"",
            "m.json:3:33: \"args\" is text -> write a list of texts: [\"…\", \"…\"]",
        ],
    );
    check(
        "{\"mcpServers\": {\"a\": {\"url\": \"https://e.com\",\n \"headers\": {\"A\": \"${NONE}\"}}}}",
        &["m.json:2:19: \"A\": the environment variable NONE is not set \
           -> export NONE=…, or give a default: ${NONE:-value}"],
    );
    check(
        "{\"servers\": {\"a\": {}, \"b\": 3}}",
        &[
            "m.json:1:14: server \"a\" has neither a command nor a URL \
             -> add \"command\": \"…\" for a program, or \"url\": \"https://…\"",
            "m.json:1:28: server \"b\" is a number \
             -> write an object: { \"command\": \"…\" } or { \"url\": \"…\" }",
        ],
    );
    check(
        "{\"mcpServers\": {\"a\": {\"url\": \"example.com\", \"type\": \"ws\"}}}",
        &[
            "m.json:1:53: \"type\" says \"ws\", which is no transport we have \
             -> write \"stdio\", \"http\", \"sse\", \"streamable-http\" or \"auto\"",
            "m.json:1:30: the URL is not one of http:// or https:// \
             -> write it in full: \"https://example.com/mcp\"",
        ],
    );
}

#[test]
fn a_section_of_ours_under_a_name_that_is_nearly_right_is_a_mistake() {
    for name in ["switchbord", "swichboard", "Switchboard", "switch_board", "switchBoards"] {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "c"}}}}, "{name}": {{}}}}"#);
        let told = format!(
            "m.json:1:41: {name:?} is nearly \"switchboard\", and nothing in it holds \
             -> write \"switchboard\""
        );
        check(&text, &[&told]);
        let config = read("m.json", &text);
        let error = config.errors().next().expect("it is no note");
        assert_eq!(error.server, None, "it stops the gateway");
    }
    let twice = r#"{"mcpServers": {}, "switchboard": {"keys": {}}, "switchboard": {}}"#;
    let told = "m.json:1:20: \"switchboard\" is there twice; the last one counts \
                -> put all of it into one";
    check(twice, &[told]);
    let alone = Config::parse(Path::new("m.json"), r#"{"switchbord": {}}"#, &around());
    let instead = "line 1: write \"switchboard\" for \"switchbord\"";
    assert_eq!(alone.unwrap_err().instead(), instead);
    let toml = read("m.toml", "[mcp_servers.a]\ncommand = \"c\"\n[switchbord.keys]\n");
    assert_eq!(toml.errors().count(), 1);
    let theirs = r#"{"mcpServers": {}, "dashboard": {}, "keyboard": {}, "switches": {}}"#;
    check(theirs, &[]);
}

#[test]
fn a_section_of_ours_among_the_servers_is_a_mistake() {
    let neither = "add \"command\": \"…\" for a program, or \"url\": \"https://…\"";
    check(
        r#"{"mcpServers": {"switchboard": {"keys": {}}}}"#,
        &[
            "m.json:1:33: unknown key \"keys\" -> it is ignored; remove it or correct its name",
            &format!(
                "m.json:1:17: server \"switchboard\" has neither a command nor a URL -> {neither}"
            ),
        ],
    );
}

#[test]
fn one_bad_server_does_not_cost_the_others() {
    let config = read(
        "m.json",
        r#"{"mcpServers": {"good": {"command": "c"}, "bad": {"command": "c", "cwd": []},
            "off": {"command": "${NONE}", "disabled": true}, "good": {"command": "d"}}}"#,
    );
    assert_eq!(line(&config, "good"), "c");
    assert_eq!(config.server("bad").unwrap().unwrap_err().len(), 1);
    assert!(config.server("none").is_none());
    let errors: Vec<_> = config.errors().map(|problem| problem.server.as_deref()).collect();
    assert_eq!(errors, [Some("bad"), None], "what is off is no error");
    assert!(config.server("off").unwrap().is_err());
}

#[test]
fn keys_of_other_tools_are_no_mistakes_and_unknown_ones_a_note() {
    check(
        r#"{"mcpServers": {"a": {"command": "c", "autoApprove": [], "alwaysAllow": ["x"],
            "sandbox": {"clientId": "x"}, "trust": true, "$schema": "s"}}}"#,
        &[],
    );
    let config = read("m.json", r#"{"mcpServers": {"a": {"command": "c", "mascot": "cat"}}}"#);
    assert_eq!(config.servers.len(), 1);
    assert_eq!(config.problems[0].weight, Weight::Note);
}

#[test]
fn what_has_no_effect_is_worth_a_note() {
    let config = check(
        r#"{"mcpServers": {
          "a": {"command": "c", "headers": {"X": "y"}, "bearer_token_env_var": "TOKEN",
                "passHeaders": ["X-Tenant"], "headersHelper": "h", "args": [], "env": {"A": "b"}},
          "b": {"url": "https://e.com/mcp", "env": {"A": "b"}, "cwd": "/", "envFile": "none.env",
                "headers": {"X": "y"}},
          "of others": {"command": "c", "headers": {}, "passHeaders": []},
          "too": {"url": "https://e.com/mcp", "env": {}, "type": "http"}}}"#,
        &[
            "m.json:2:33: \"headers\" has no effect: the server is a command \
             -> leave it out; what a command needs goes into \"env\" or \"args\"",
            "m.json:2:56: \"bearer_token_env_var\" has no effect: the server is a command \
             -> leave it out; what a command needs goes into \"env\" or \"args\"",
            "m.json:3:17: \"passHeaders\" has no effect: the server is a command \
             -> leave it out; what a command needs goes into \"env\" or \"args\"",
            "m.json:3:46: \"headersHelper\" has no effect: the server is a command \
             -> leave it out; what a command needs goes into \"env\" or \"args\"",
            "m.json:4:45: \"env\" has no effect: the server is elsewhere \
             -> leave it out; what a URL needs goes into \"headers\"",
            "m.json:4:64: \"cwd\" has no effect: the server is elsewhere \
             -> leave it out; what a URL needs goes into \"headers\"",
            "m.json:4:76: \"envFile\" has no effect: the server is elsewhere \
             -> leave it out; what a URL needs goes into \"headers\"",
        ],
    );
    assert_eq!((config.errors().count(), config.servers.len()), (0, 4));
}

#[test]
fn a_folder_or_a_file_of_headers_that_is_not_there_is_worth_a_note() {
    let text = r#"{"servers": {
      "a": {"command": "c", "cwd": "src"}, "b": {"command": "c", "cwd": "no/such"},
      "c": {"url": "http://h/", "headerFile": "tests/some.env"},
      "d": {"url": "http://h/", "headerFile": ["tests/some.env",
        "no.headers"]}}}"#;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let around = Surroundings::new([], folder);
    let config = Config::parse(Path::new("m.json"), text, &around).unwrap();
    assert_eq!((config.errors().count(), config.servers.len()), (0, 4));
    let told: Vec<_> = config.problems.iter().map(ToString::to_string).collect();
    let at = |path: &str| folder.join(path).display().to_string();
    let expected = [
        format!("m.json:2:73: there is no folder {}", at("no/such")),
        format!("m.json:5:9: there is no file {}", at("no.headers")),
    ];
    assert_eq!(told, expected);
    let files = &config.servers[3].plan.credentials.files;
    assert_eq!(files, &[folder.join("tests/some.env"), folder.join("no.headers")]);
    let literal = Config::parse(Path::new("m.json"), text, &around.literal()).unwrap();
    assert_eq!(literal.problems, [], "that is for whoever uses it");
}

#[test]
fn a_name_that_is_lost_in_a_url_is_no_name_for_a_server() {
    let told = |place: &str, name: &str| {
        format!(
            "m.json:{place}: {name:?} is no name for a server: it is part of a URL -> use letters, digits, _, - and ."
        )
    };
    let expected = [told("1:14", ""), told("1:36", "."), told("1:59", "..")];
    let expected = expected.each_ref().map(String::as_str);
    let text = r#"{"servers": {"": {"command": "c"}, ".": {"command": "c"}, "..": {"command": "c"},
        "...": {"command": "c"}, "a b": {"command": "c"}, ".x": {"command": "c"}}}"#;
    let config = check(text, &expected);
    assert_eq!(config.errors().count(), 3);
    assert_eq!(config.servers.len(), 3);
    check(r#"{"servers": [{"name": "..", "command": "c"}]}"#, &[&told("1:23", "..")]);
}

#[test]
fn what_may_be_a_secret_is_shown_nowhere() {
    let config = read(
        "m.json",
        r#"{"mcpServers": {"a": {"command": "c", "args": ["${TOKEN}"], "env": {"K": "${TOKEN}"}},
            "b": {"url": "https://e.com/mcp?key=${TOKEN}", "headers": {"X": "${TOKEN}"}},
            "c": {"url": "https://u:${TOKEN}@e.com/", "headers": {"bad name": "${TOKEN}"}}}}"#,
    );
    let shown = format!("{config:?} {:?}", around());
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("a user name or a password"), "{shown}");
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let check = |file: &str, text: &str| {
        let error = Config::parse(Path::new(file), text, &around()).unwrap_err();
        format!("{error} -> {}", error.instead())
    };
    let told =
        check("m.json", "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"c\" \"x\": 1 }\n");
    assert!(told.starts_with("m.json:3:26: this is not JSON:"), "{told}");
    let told = check("m.toml", "[mcp_servers.a]\ncommand = x\n");
    assert!(told.starts_with("m.toml:2:11: this is not TOML:"), "{told}");
    let told = check("m.json", "{\"mcpserver\": {}}");
    assert_eq!(told, "m.json names no servers -> line 1: write \"mcpServers\" for \"mcpserver\"");
    assert!(check("m.json", "{}").contains("\"mcpServers\""));
    assert!(check("m.toml", "").contains("[mcp_servers.NAME]"));
    assert!(check("m.json", "").contains("the file is empty"));
    let absent = Config::read(Path::new("/no/such.json"), &around()).unwrap_err();
    assert!(absent.is_absent(), "{absent}");
    assert_eq!(read("m.json", "\u{feff}{\"mcpServers\": {}}").servers, []);
}

#[test]
fn variables_of_a_file_come_before_those_of_the_server() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let around = Surroundings::new([], folder);
    let text = r#"{"servers": {"a": {"command": "c", "envFile": "tests/some.env", "env": {"B": "3"}},
        "b": {"command": "c", "envFile": "tests/none.env"}}}"#;
    let config = Config::parse(Path::new("m.json"), text, &around).unwrap();
    assert_eq!(line(&config, "a"), "A=1 B=2 B=3 c");
    assert!(config.server("b").unwrap().is_err());
}

#[test]
fn an_entry_is_a_server_to_connect_to() {
    let text = r#"{"servers": {"a": {"command": "c"}, "b": {"url": "http://h/mcp?key=${TOKEN}"}}}"#;
    let config = read("m.json", text);
    let fetch = Fetch::new(FetchOptions::default()).unwrap();
    let names = config
        .servers
        .iter()
        .map(|entry| entry.plan.server(Vec::new(), fetch.clone(), None).name());
    assert_eq!(names.collect::<Vec<_>>(), ["a", "h/mcp"]);
}

#[test]
fn only_arguments_variables_and_headers_may_lack_their_quotes() {
    let config = read(
        "m.json",
        r#"{ "servers": {
          "a": { "command": "x", "args": [1, true], "env": { "N": 2.5, "B": false } },
          "b": { "command": ["y", 3] },
          "c": { "url": "http://e.com/mcp", "headers": { "N": 4 } } } }"#,
    );
    assert_eq!(config.problems, []);
    assert_eq!(line(&config, "a"), "N=2.5 B=false x 1 true");
    assert_eq!(line(&config, "b"), "y 3");
    assert_eq!(line(&config, "c"), "HttpFirst http://e.com/mcp n: 4");
    check(
        r#"{ "servers": {
          "a": { "command": 5 },
          "b": { "command": true },
          "c": { "command": [5, "x"] },
          "d": { "command": "x", "cwd": 5, "description": 6 },
          "e": { "command": "x", "envFile": 7, "includeTools": [8] },
          "f": { "url": 9 } },
          "switchboard": { "host": 5, "port": 5, "allowedHosts": [true] } }"#,
        &[
            "m.json:2:29: \"command\" is a number -> write a text in quotes",
            "m.json:3:29: \"command\" is true or false -> write a text in quotes",
            "m.json:4:30: \"command\" is a number -> write a text in quotes",
            "m.json:5:41: \"cwd\" is a number -> write a text in quotes",
            "m.json:5:59: \"description\" is a number -> write a text in quotes",
            "m.json:6:45: \"envFile\" is a number -> write a text in quotes",
            "m.json:6:65: \"includeTools\" is a number -> write a text in quotes",
            "m.json:7:25: \"url\" is a number -> write a text in quotes",
            "m.json:8:36: \"host\" is a number -> write a text in quotes",
            "m.json:8:67: \"allowedHosts\" is true or false -> write a text in quotes",
        ],
    );
}

#[test]
fn an_empty_list_of_servers_is_told_where_it_is() {
    let expected = "m.json:2:17: the servers are an empty list -> \
                    write an object with a member for each: { \"NAME\": { … } }";
    check("{\n  \"mcpServers\": []\n}", &[expected]);
}

#[cfg(unix)]
#[test]
fn a_pipe_that_nobody_writes_to_is_a_mistake_and_one_that_somebody_does_is_read() {
    use std::io::Write as _;

    let path = std::env::temp_dir().join(format!("switchboard-pipe-{}", std::process::id()));
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let error = read_file(&path, 100).unwrap_err();
    assert_eq!(error.to_string(), "nobody writes to this pipe");
    // Open for both, so that the reader finds somebody at the other end.
    let mut writer = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    writer.write_all(&[b'x'; 100]).unwrap();
    assert_eq!(read_file(&path, 100).unwrap(), [b'x'; 100]);
    std::fs::remove_file(&path).unwrap();
}
