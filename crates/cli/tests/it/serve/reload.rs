//! Files that change while clients call.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use switchboard_net::client::{Client, ClientOptions, ListenFilter, Listening};
use switchboard_proto::revision::Era;

use super::{ERAS, Gateway, demo, file, late, names, text};
use crate::named::Home;
use crate::process::{PATIENCE, SERVER, Switchboard, families, running, text_of, until};
use crate::web::{Session, post_to, send};

/// The test server with its tools, in a process that this word tells from others.
pub(super) fn rude(word: &str) -> Value {
    let args = json!([SERVER[1], "wait", "pid", "mark"]);
    json!({"command": SERVER[0], "args": args, "env": {"WORD": word}})
}

/// A server whose process all clients share.
pub(super) fn shared(mut server: Value) -> Value {
    server["process"] = "shared".into();
    server
}

async fn pid(client: &Client, tool: &str) -> u32 {
    text(&client.call_tool(tool, json!({})).await.unwrap()).parse().unwrap()
}

async fn listening(client: &Client) -> Listening {
    client.listen(ListenFilter { tools: true, ..ListenFilter::default() }).await.unwrap()
}

async fn hears(listening: &mut Listening) {
    let heard = tokio::time::timeout(PATIENCE, listening.next()).await.unwrap().unwrap();
    assert_eq!(heard.method, "notifications/tools/list_changed");
}

#[tokio::test]
async fn servers_and_groups_come_and_go_and_the_others_do_not_notice() {
    for era in ERAS {
        let mut gateway = Gateway::start(&json!({"a": rude(""), "b": rude("")}));
        let client = gateway.client(era, &["a", "b"]).await;
        let (before, mut heard) = (pid(&client, "a__pid").await, listening(&client).await);
        let groups = json!({"switchboard": {"groups": {"few": ["c", "a"]}}});
        gateway.rewrite(&json!({"a": rude(""), "c": rude("")}), &groups);
        gateway.until_ready(&["a", "c"]);
        hears(&mut heard).await;
        let tools = client.tools().await.unwrap();
        assert!(names(&tools).contains(&"c__echo") && !names(&tools).contains(&"b__echo"));
        let echo = client.call_tool("c__echo", json!({"text": "new"})).await.unwrap();
        assert_eq!(text(&echo), "new", "{era:?}");
        let gone = client.call_tool("b__echo", json!({"text": "x"})).await.unwrap_err();
        assert!(gone.to_string().contains("Unknown tool"), "{gone}");
        for path in ["/servers/c/mcp", "/groups/few/mcp"] {
            let there = gateway.client_at(path, era, ClientOptions::default()).await;
            assert!(!there.tools().await.unwrap().is_empty(), "{path}");
        }
        assert_eq!(send(gateway.port, "GET /servers/b/mcp", &[], b"").status, 404);
        assert_eq!(pid(&client, "a__pid").await, before, "{era:?}: it was not started anew");
        gateway.rewrite(&json!({"a": rude("")}), &json!({}));
        assert_eq!(send(gateway.port, "GET /groups/few/mcp", &[], b"").status, 404);
        assert_eq!(pid(&client, "a__pid").await, before, "{era:?}: it was not started anew");
    }
}

/// A session of a client that speaks HTTP by hand, at any path.
pub(super) fn session_at(port: u16, path: &str) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": crate::process::greeting()});
    let answer = post_to(port, path, &[], hello.to_string().as_bytes());
    let id = answer.header("mcp-session-id").expect("a session id").to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(post_to(port, path, &[("Mcp-Session-Id", &id)], ready.as_bytes()).status, 202);
    id
}

pub(super) fn call_at(
    port: u16,
    path: &str,
    session: &str,
    tool: &str,
    args: &Value,
) -> (u16, Value) {
    let params = json!({"name": tool, "arguments": args});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answer = post_to(port, path, &[("Mcp-Session-Id", session)], call.to_string().as_bytes());
    (answer.status, if answer.status == 200 { answer.message() } else { Value::Null })
}

#[test]
fn sessions_outlive_a_server_that_is_started_anew_but_not_one_that_is_gone() {
    let servers = json!({"a": rude("one"), "b": rude("")});
    let mut gateway = Gateway::start(&servers);
    gateway.until_ready(&["a", "b"]);
    let port = gateway.port;
    let places = [("/mcp", "a__pid"), ("/servers/a/mcp", "pid")];
    let sessions = places.map(|(path, _)| session_at(port, path));
    let pids = |sessions: &[String; 2]| {
        [0, 1].map(|at| {
            let (path, tool) = places[at];
            let (_, answer) = call_at(port, path, &sessions[at], tool, &json!({}));
            text_of(&answer)
        })
    };
    let before = pids(&sessions);
    let other = session_at(port, "/servers/b/mcp");
    gateway.rewrite(&json!({"a": rude("two")}), &json!({}));
    let after = pids(&sessions);
    assert!(before.iter().all(|old| !after.contains(old)), "{before:?} {after:?}");
    let echo = call_at(port, "/servers/b/mcp", &other, "echo", &json!({"text": "x"}));
    assert_eq!(echo.0, 404);
    until("the old ones are gone", || {
        running(&before.clone().map(|pid| pid.parse().unwrap())).is_empty()
    });
}

/// The stream of a session at a server's own path.
pub(super) fn events(port: u16, path: &str, session: &str) -> std::net::TcpStream {
    use std::io::Write as _;
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nMcp-Session-Id: {session}\r\n\
         Accept: text/event-stream\r\n\r\n"
    )
    .unwrap();
    stream
}

fn until_heard(stream: &std::net::TcpStream, text: &str) {
    use std::io::{BufRead as _, BufReader};
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.any(|line| line.unwrap().contains(text)), "never {text}");
}

#[tokio::test]
async fn other_filters_and_names_hold_at_once_and_start_nothing_anew() {
    let mut gateway = Gateway::start(&json!({"a": rude("")}));
    let legacy = gateway.client(Era::Legacy, &["a"]).await;
    let modern = gateway.client(Era::Modern, &["a"]).await;
    let before = (pid(&legacy, "a__pid").await, pid(&modern, "a__pid").await);
    let (mut one, mut other) = (listening(&legacy).await, listening(&modern).await);
    let path = "/servers/a/mcp";
    let alone = session_at(gateway.port, path);
    // It has a connection to the server, which is where it is found.
    assert_eq!(call_at(gateway.port, path, &alone, "echo", &json!({"text": "x"})).0, 200);
    let stream = events(gateway.port, path, &alone);
    until_heard(&stream, "event-stream");
    let hearing = gateway.client_at(path, Era::Modern, ClientOptions::default()).await;
    let mut server = rude("");
    server["excludeTools"] = json!(["echo"]);
    server["tools"] = json!({"mark": {"name": "note", "description": "as we like it"}});
    gateway.rewrite(&json!({"a": server}), &json!({}));
    hears(&mut one).await;
    hears(&mut other).await;
    until_heard(&stream, "notifications/tools/list_changed");
    for client in [&legacy, &modern] {
        let tools = client.tools().await.unwrap();
        assert_eq!(names(&tools), ["a__wait", "a__pid", "a__note"]);
        client.call_tool("a__echo", json!({"text": "x"})).await.unwrap_err();
    }
    assert!(!names(&hearing.tools().await.unwrap()).contains(&"echo"));
    let (_, answer) = call_at(gateway.port, path, &alone, "echo", &json!({"text": "x"}));
    assert_eq!(answer["error"]["message"], "Unknown tool: echo", "{answer}");
    assert_eq!((pid(&legacy, "a__pid").await, pid(&modern, "a__pid").await), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_answered_by_the_server_it_was_made_to_although_that_is_gone() {
    for (path, prefix) in [("/mcp", "a__"), ("/servers/a/mcp", "")] {
        for era in ERAS {
            let mut gateway = Gateway::start(&json!({"a": rude("one"), "b": rude("")}));
            gateway.until_ready(&["a", "b"]);
            let client = gateway.client_at(path, era, ClientOptions::default()).await;
            let tool = |name: &str| format!("{prefix}{name}");
            let old = pid(&client, &tool("pid")).await;
            let gate = gateway.home.path.join("gate");
            let call = |client: &Client| {
                let (client, tool) = (client.clone(), tool("wait"));
                let arguments = json!({"file": gate.to_str().unwrap()});
                tokio::spawn(async move { client.call_tool(&tool, arguments).await })
            };
            let first = call(&client);
            gateway.process.until_logged("waiting for gate");
            gateway.rewrite(&json!({"a": rude("two"), "b": rude("")}), &json!({}));
            let new = pid(&client, &tool("pid")).await;
            assert_ne!(new, old, "{path} {era:?}");
            let second = call(&client);
            gateway.process.until_logged("waiting for gate");
            gateway.rewrite(&json!({"b": rude("")}), &json!({}));
            assert_eq!(running(&[old, new]).len(), 2, "{path} {era:?}");
            fs::write(&gate, "").unwrap();
            for waiting in [first, second] {
                let answer = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
                assert_eq!(text(&answer.unwrap()), "waited", "{path} {era:?}");
            }
            until("both are gone", || running(&[old, new]).is_empty());
        }
    }
}

#[tokio::test]
async fn what_a_server_offered_is_offered_until_the_new_one_is_ready() {
    let home = Home::new();
    let mut gateway = Gateway::start_in(home, &json!({"a": demo(&[])}), &json!({}));
    for era in ERAS {
        let client = gateway.client(era, &["a"]).await;
        let before = client.tools().await.unwrap();
        gateway.rewrite(
            &json!({"a": late(&gateway.home, &format!("--era {}", word(era)))}),
            &json!({}),
        );
        assert_eq!(client.tools().await.unwrap(), before, "{era:?}");
        let caller = client.clone();
        let call = async move { caller.call_tool("a__add", json!({"a": 1, "b": 2})).await };
        let waiting = tokio::spawn(call);
        fs::write(gateway.home.path.join("go"), "").unwrap();
        assert_eq!(text(&waiting.await.unwrap().unwrap()), "3", "{era:?}");
        gateway.until_ready(&["a"]);
        fs::remove_file(gateway.home.path.join("go")).unwrap();
        gateway.rewrite(&json!({"a": demo(&[])}), &json!({}));
    }
}

fn word(era: Era) -> &'static str {
    if era == Era::Legacy { "legacy" } else { "modern" }
}

#[tokio::test]
async fn who_watches_a_resource_still_hears_of_it_from_the_server_that_comes_after() {
    let server = |word: &str| {
        let mut server = demo(&["--era", "legacy"]);
        server["env"] = json!({"WORD": word});
        server
    };
    for (path, touch) in [("/mcp", "a__touch"), ("/servers/a/mcp", "touch")] {
        let mut gateway = Gateway::start(&json!({"a": server("one")}));
        gateway.until_ready(&["a"]);
        let client = gateway.client_at(path, Era::Legacy, ClientOptions::default()).await;
        let uris = vec!["test://watched-resource".to_owned()];
        let mut heard =
            client.listen(ListenFilter { uris, ..ListenFilter::default() }).await.unwrap();
        gateway.rewrite(&json!({"a": server("two")}), &json!({}));
        // Before that the new one is greeted, and told what is watched.
        client.call_tool(touch, json!({})).await.unwrap();
        let note = tokio::time::timeout(PATIENCE, heard.next()).await.unwrap().unwrap();
        assert_eq!(note.method, "notifications/resources/updated", "{path}");
    }
}

#[test]
fn a_broken_file_leaves_the_old_one_in_force_and_says_where_it_is_broken() {
    let servers = json!({"a": rude("")});
    let mut gateway = Gateway::start(&servers);
    gateway.until_ready(&["a"]);
    let session = Session::open_at(gateway.port, "switchboard");
    assert_eq!(gateway.status()["config"]["problems"], 0);
    for broken in ["{\n  \"mcpServers\": {", "{\n  \"mcpServers\": {\"a\": {\"comand\": \"x\"}}}"] {
        gateway.write(broken);
        let line = gateway.process.until_logged("servers.json:2:");
        assert!(line.contains("[ERROR]"), "{line}");
        gateway.process.until_logged("stays in force");
        until("the page tells it", || gateway.status()["config"]["problems"] != 0);
        let answer = session.call("a__echo", &json!({"text": "on"})).message();
        assert_eq!(text_of(&answer), "on");
    }
    fs::remove_file(gateway.home.path.join("servers.json")).unwrap();
    gateway.process.until_logged("stays in force");
    gateway.rewrite(&servers, &json!({}));
    until("all is well", || gateway.status()["config"]["problems"] == 0);
    assert_eq!(text_of(&session.call("a__echo", &json!({"text": "on"})).message()), "on");
}

#[test]
fn a_signal_reads_the_files_again_and_what_cannot_change_is_said() {
    let servers = json!({"a": rude("")});
    let mut gateway = Gateway::start(&servers);
    gateway.until_ready(&["a"]);
    gateway.process.signal(Signal::HUP);
    gateway.process.until_logged("SIGHUP");
    let line = gateway.process.until_logged("configuration is in force");
    assert!(line.contains("added=[]"), "{line}");
    gateway.write(&file(&servers, &json!({"switchboard": {"port": 1}})));
    gateway.process.until_logged("from the next start on");
    assert_eq!(gateway.status()["servers"]["a"]["state"], "ready");
}

#[test]
fn variables_in_a_file_beside_it_start_their_server_anew() {
    let home = Home::new();
    home.write(".env", "WORD=one");
    let mut server = rude("");
    server["env"] = json!({});
    server["envFile"] = home.path.join(".env").to_str().unwrap().into();
    let mut gateway = Gateway::start_in(home, &json!({"a": server}), &json!({}));
    gateway.until_ready(&["a"]);
    gateway.home.write(".env", "WORD=two");
    let line = gateway.process.until_logged("configuration is in force");
    assert!(line.contains("restarted=[\"a\"]"), "{line}");
}

#[test]
fn a_client_on_stdio_hears_of_other_servers() {
    let home = Home::new();
    let path = home.write("servers.json", &file(&json!({"a": rude("")}), &json!({})));
    let mut gateway = Switchboard::start(&["serve", "--stdio", "--config", &path, "--no-cache"]);
    gateway.greet_one("switchboard");
    home.write("servers.json", &file(&json!({"a": rude(""), "b": rude("")}), &json!({})));
    let mut tools = Value::Null;
    until("the new one is listed", || {
        while gateway.message()["method"] != "notifications/tools/list_changed" {}
        gateway.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"}));
        let answer = std::iter::repeat_with(|| gateway.message()).find(|it| it["id"] == 7);
        tools = answer.unwrap()["result"]["tools"].clone();
        names(tools.as_array().unwrap()).contains(&"b__echo")
    });
    let family = families(&gateway.children());
    gateway.close_stdin();
    assert_eq!(gateway.exit_code(), Some(0));
    until("the children are gone", || running(&family).is_empty());
}
