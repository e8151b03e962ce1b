//! Where servers are found, by whom, and until when.

use std::fs;
use std::sync::Arc;

use http::HeaderMap;
use rustix::process::Signal;
use serde_json::json;
use switchboard_net::client::{Client, ClientOptions, ListenFilter};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::revision::Era;

use super::feature::asked;
use super::{ERAS, Gateway, demo, names, rude, text};
use crate::named::Home;
use crate::process::{Switchboard, families, run, running, text_of, until};
use crate::web::{Session, send};

#[tokio::test]
async fn each_server_alone_is_as_it_is() {
    let gateway = Gateway::start(&json!({"a b": demo(&[]), "rude": rude()}));
    gateway.until_ready(&["a b", "rude"]);
    for era in ERAS {
        let client = gateway.client_at("/servers/a%20b/mcp", era, ClientOptions::default()).await;
        assert_eq!(client.server()["name"], "switchboard-demo");
        let tools = client.tools().await.unwrap();
        assert!(names(&tools).contains(&"echo"), "{:?}", names(&tools));
        let sum = client.call_tool("add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(text(&sum), "3");
        let all = gateway.client_at("/mcp", era, ClientOptions::default()).await;
        let tools = all.tools().await.unwrap();
        let echo = names(&tools).into_iter().find(|name| name.starts_with("a_b__echo")).unwrap();
        let echo = all.call_tool(echo, json!({"message": "hi"})).await.unwrap();
        assert_eq!(text(&echo), "hi");
    }
}

#[tokio::test]
async fn a_group_is_some_of_the_servers() {
    let servers = json!({"demo": demo(&[]), "rude": rude(), "other": rude()});
    let gateway = Gateway::start_in(
        Home::new(),
        &servers,
        &json!({"switchboard": {"groups": {"few": ["demo", "rude"]}}}),
    );
    gateway.until_ready(&["demo", "rude", "other"]);
    for era in ERAS {
        let client = gateway.client_at("/groups/few/mcp", era, ClientOptions::default()).await;
        let tools = client.tools().await.unwrap();
        let tools = names(&tools);
        assert!(tools.contains(&"demo__echo") && tools.contains(&"rude__echo"), "{tools:?}");
        assert!(!tools.contains(&"other__echo"), "{tools:?}");
        let denied = client.call_tool("other__echo", json!({"text": "x"})).await.unwrap_err();
        assert!(denied.to_string().contains("Unknown tool"), "{denied}");
    }
}

#[tokio::test]
async fn tools_that_the_file_excludes_are_neither_seen_nor_called() {
    let mut server = demo(&[]);
    server["excludeTools"] = json!(["ec*"]);
    let gateway = Gateway::start(&json!({"demo": server}));
    for era in ERAS {
        let client = gateway.client(era, &["demo"]).await;
        assert!(!names(&client.tools().await.unwrap()).contains(&"demo__echo"));
        client.call_tool("demo__echo", json!({"message": "x"})).await.unwrap_err();
        let alone = gateway.client_at("/servers/demo/mcp", era, ClientOptions::default()).await;
        assert!(!names(&alone.tools().await.unwrap()).contains(&"echo"));
        alone.call_tool("echo", json!({"message": "x"})).await.unwrap_err();
    }
}

/// Clients of both eras, at every place, with all that calls need on the way.
#[tokio::test]
async fn every_place_serves_both_eras() {
    let servers = json!({"it": demo(&[]), "rude": rude()});
    let more = json!({"switchboard": {"groups": {"few": ["it"]}}});
    let gateway = Gateway::start_in(Home::new(), &servers, &more);
    gateway.until_ready(&["it", "rude"]);
    let places = [("/mcp", "it__"), ("/groups/few/mcp", "it__"), ("/servers/it/mcp", "")];
    for ((path, prefix), era) in places.into_iter().flat_map(|it| ERAS.map(|era| (it, era))) {
        let client = gateway.client_at(path, era, asked(&Arc::default())).await;
        check(&client, prefix, &format!("{path} {era:?}")).await;
    }
    for (path, prefix) in places {
        let url = format!("http://127.0.0.1:{}{}", gateway.port, path.replace("/mcp", "/sse"));
        let fetch = Fetch::new(FetchOptions::default()).unwrap();
        let url = url.parse().unwrap();
        let server = ServerTarget::url(url, Strategy::SseOnly, HeaderMap::new(), fetch);
        let options = asked(&Arc::default()).era(Era::Legacy);
        let client = options.connect(server).await.unwrap();
        check(&client, prefix, &format!("/sse beside {path}")).await;
    }
    let config = gateway.home.path.join("servers.json");
    for era in ERAS {
        let line = ["serve", "--stdio", "--no-cache", "--config", config.to_str().unwrap()];
        let command = Command::new(env!("CARGO_BIN_EXE_switchboard")).args(line.map(str::to_owned));
        let server = ServerTarget::command(command, std::env::vars_os().collect());
        let options = asked(&Arc::default()).era(era);
        let client = options.connect(server).await.unwrap();
        check(&client, "it__", &format!("stdio {era:?}")).await;
        client.close().await;
    }
}

async fn check(client: &Client, prefix: &str, what: &str) {
    let named = |name: &str| format!("{prefix}{name}");
    let answer = json!({"message": what});
    let answer = client.call_tool(&named("test_elicitation"), answer).await.unwrap();
    assert!(text(&answer).contains(what), "{answer}");
    let tools = client.tools().await.unwrap();
    assert!(names(&tools).contains(&&*named("echo")), "{what}: {tools:?}");
    let read = client.read("test://static-text").await.unwrap();
    assert_eq!(read["contents"][0]["uri"], "test://static-text", "{what}");
    let uris = vec!["test://watched-resource".to_owned()];
    let mut watching =
        client.listen(ListenFilter { uris, ..ListenFilter::default() }).await.unwrap();
    client.call_tool(&named("touch"), json!({})).await.unwrap();
    assert_eq!(watching.next().await.unwrap().params["uri"], "test://watched-resource", "{what}");
}

#[test]
fn without_a_configuration_the_built_in_server_is_served() {
    let mut gateway = Switchboard::start(&["serve", "--port", "0", "--no-cache"]);
    let port = gateway.port();
    let is_ready = || send(port, "GET /readyz", &[], b"").status == 200;
    until("the demo is ready", is_ready);
    assert_eq!(send(port, "GET /healthz", &[], b"").body, b"ok");
    let url = format!("http://127.0.0.1:{port}/mcp");
    let called = run(&["call", &url, "demo__add", "a:=1", "b:=2"], &[]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "3"), "{}", called.stderr);
}

#[test]
fn a_client_that_starts_commands_gets_all_servers_on_stdio() {
    let home = Home::new();
    let servers = json!({"mcpServers": {"demo": demo(&[]), "rude": rude()}});
    let file = home.write("servers.json", &servers.to_string());
    let mut gateway = Switchboard::start(&["serve", "--stdio", "--config", &file, "--no-cache"]);
    gateway.greet_one("switchboard");
    for (id, (tool, arguments)) in
        [("demo__echo", json!({"message": "a"})), ("rude__echo", json!({"text": "a"}))]
            .into_iter()
            .enumerate()
    {
        let params = json!({"name": tool, "arguments": arguments});
        gateway
            .send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        // Servers may come late, which is announced.
        let answer = std::iter::repeat_with(|| gateway.message()).find(|it| it["id"] == id);
        assert_eq!(text_of(&answer.unwrap()), "a", "{tool}");
    }
    gateway.close_stdin();
    assert_eq!(gateway.exit_code(), Some(0));
}

#[test]
fn told_to_stop_it_finishes_what_is_in_flight_and_leaves_nobody_behind() {
    let home = Home::new();
    let servers = json!({"mcpServers": {"rude": rude()}});
    let config = home.write("servers.json", &servers.to_string());
    let mut gateway =
        Switchboard::start(&["serve", "--config", &config, "--port", "0", "--no-cache"]);
    let session = Session::open_at(gateway.port(), "switchboard");
    let file = home.path.join("go");
    let arguments = json!({"file": file.to_str().unwrap()});
    let waiting = std::thread::spawn(move || session.call("rude__wait", &arguments));
    gateway.until_logged("waiting for go");
    let family = families(&gateway.children());
    assert!(!family.is_empty());
    gateway.signal(Signal::TERM);
    gateway.until_logged("finishing what is in flight");
    fs::write(&file, "").unwrap();
    assert_eq!(text_of(&waiting.join().unwrap().message()), "waited");
    assert_eq!(gateway.exit_code(), Some(0));
    until("the children are gone", || running(&family).is_empty());
}

#[test]
fn other_machines_come_in_only_if_the_user_says_so() {
    let refused = run(&["serve", "--host", "0.0.0.0", "--port", "0", "--no-cache"], &[]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("--allow-unauthenticated"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--api-key"), "{}", refused.stderr);
    let args = ["serve", "--host", "0.0.0.0", "--port", "0", "--no-cache"];
    let args = [&args[..], &["--api-key", "a key of some length"]].concat();
    let mut let_in = Switchboard::start(&args);
    let served = let_in.until_logged("serving http://0.0.0.0:");
    let (_, port) = served.split_once("0.0.0.0:").unwrap();
    let port = port.split_once("/mcp").unwrap().0.parse().unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let denied = send(port, "POST /mcp", &[], hello.as_bytes());
    assert_eq!(denied.status, 401, "{denied:?}");
}

#[test]
fn a_check_tells_where_a_file_is_wrong_and_serves_nothing() {
    let home = Home::new();
    let right = json!({"mcpServers": {"demo": demo(&[])}});
    let file = home.write("right.json", &right.to_string());
    let checked = run(&["serve", "--check", "--config", &file], &[]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert_eq!(checked.stdout, "no mistakes: 1 server, 0 groups, 0 keys");
    assert_eq!(checked.stderr, "");
    let wrong = "{\n\"mcpServers\": {\"a\": {\"command\": 5}, \"b\": {\"comand\": \"x\"}}}";
    let (file, broken) = (home.write("wrong.json", wrong), home.write("broken.json", "{"));
    let checked = run(&["serve", "--check", "--config", &file, "--config", &broken], &[]);
    assert_eq!((checked.code, checked.stdout.as_str()), (Some(1), ""), "{}", checked.stderr);
    let told = |what: &str| checked.stderr.lines().any(|line| line.starts_with(what));
    assert!(told(&format!("{broken}:1:1: ")), "{}", checked.stderr);
    let number = format!("{file}:2:33: \"command\" is a number; write a text in quotes");
    assert!(told(&number), "{}", checked.stderr);
    assert!(told(&format!("{file}:2:43: ")), "{}", checked.stderr);
    let file = home.write("empty.json", "{\"mcpServers\": []}");
    let checked = run(&["serve", "--check", "--config", &file], &[]);
    assert_eq!(checked.code, Some(1), "{}", checked.stderr);
    let first = format!("{file}:1:16: the servers are an empty list (a note)");
    assert!(checked.stderr.starts_with(&first), "{}", checked.stderr);
}
