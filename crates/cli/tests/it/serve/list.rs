//! The lists of many servers as one: names, words, how long they may be kept.

use std::fs;

use serde_json::{Value, json};
use switchboard_net::client::{ClientOptions, ListenFilter};
use switchboard_proto::revision::Era;

use super::{ERAS, Gateway, demo, late, names, rude, text};
use crate::named::Home;
use crate::process::run;
use crate::terminal::Terminal;

/// A modern server whose list is in a file, one tool a line, with how long it may
/// be kept and by whom. It never says that its list has changed.
const LISTS: &str = r#"
import json, sys
file, ttl, scope = sys.argv[1], int(sys.argv[2]), sys.argv[3]
for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), None
    if method == "server/discover":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                  "ttlMs": 0, "cacheScope": "private"}
    if method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}, "_meta": {"com.example/x": [1]}}
                 for name in open(file).read().split()]
        result = {"tools": tools, "ttlMs": ttl, "cacheScope": scope}
    if "id" in message:
        error = {"code": -32601, "message": "no such method"}
        outcome = {"error": error} if result is None else {"result": {"resultType": "complete", **result}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
"#;

fn lists(home: &Home, name: &str, ttl: u64, scope: &str) -> Value {
    let file = home.write(name, "first");
    json!({"command": "python3", "args": ["-c", LISTS, file, ttl.to_string(), scope]})
}

/// wire: CACHE-2, CACHE-4, GW-83
#[tokio::test]
async fn a_list_may_be_kept_as_long_as_every_server_says_and_by_those_whom_all_mean() {
    let home = Home::new();
    let servers = json!({
        "a": lists(&home, "a", 100_000_000, "public"),
        "b": lists(&home, "b", 60_000, "public"),
        "c": lists(&home, "c", 90_000, "private"),
        "d": rude(),
    });
    let groups = json!({"ab": ["a", "b"], "bc": ["b", "c"], "ad": ["a", "d"]});
    let gateway = Gateway::start_in(home, &servers, &json!({"switchboard": {"groups": groups}}));
    gateway.until_ready(&["a", "b", "c", "d"]);
    let hints = async |path: &str| {
        let client = gateway.client_at(path, Era::Modern, ClientOptions::default()).await;
        let list = client.request("tools/list", json!({})).await.unwrap();
        assert_eq!(list["tools"][0]["_meta"]["com.example/x"], json!([1]));
        (list["ttlMs"].as_u64().unwrap(), list["cacheScope"].as_str().unwrap().to_owned())
    };
    let (ttl, scope) = hints("/groups/ab/mcp").await;
    assert!((1..=60_000).contains(&ttl) && scope == "public", "{ttl} {scope}");
    let (ttl, scope) = hints("/groups/bc/mcp").await;
    assert!((1..=60_000).contains(&ttl) && scope == "private", "{ttl} {scope}");
    assert_eq!(
        hints("/groups/ad/mcp").await,
        (0, "private".to_owned()),
        "a legacy server says nothing"
    );
}

/// wire: CACHE-2, CACHE-5
#[tokio::test]
async fn a_list_whose_time_is_over_is_shown_once_more_while_it_is_read_again() {
    for era in ERAS {
        let home = Home::new();
        let servers = json!({"a": lists(&home, "a", 0, "public"), "b": lists(&home, "b", 1_000_000, "public")});
        let gateway = Gateway::start_in(home, &servers, &json!({}));
        let client = gateway.client(era, &["a", "b"]).await;
        let filter = ListenFilter { tools: true, ..ListenFilter::default() };
        let mut listening = client.listen(filter).await.unwrap();
        assert_eq!(names(&client.tools().await.unwrap()), ["a__first", "b__first"]);
        for file in ["a", "b"] {
            fs::write(gateway.home.path.join(file), "second").unwrap();
        }
        // It is not read again within a second, however often it is asked for.
        let reader = client.clone();
        let asking = tokio::spawn(async move {
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                reader.tools().await.unwrap();
            }
        });
        let heard = listening.next().await.unwrap();
        asking.abort();
        assert_eq!(heard.method, "notifications/tools/list_changed", "{era:?}");
        let after = client.tools().await.unwrap();
        assert_eq!(names(&after), ["a__second", "b__first"], "{era:?}: what b says lasts longer");
    }
}

#[tokio::test]
async fn a_server_may_keep_its_names_or_have_another_before_them() {
    let mut bare = demo(&[]);
    bare["prefix"] = "".into();
    let mut other = rude();
    other["prefix"] = "r".into();
    let gateway = Gateway::start(&json!({"bare": bare, "rude": other}));
    for era in ERAS {
        let client = gateway.client(era, &["bare", "rude"]).await;
        let tools = client.tools().await.unwrap();
        let tools = names(&tools);
        assert!(tools.contains(&"add") && tools.contains(&"r__echo"), "{tools:?}");
        assert!(!tools.iter().any(|name| name.starts_with("bare__") || name.starts_with("rude__")));
        let sum = client.call_tool("add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(text(&sum), "3");
        let echo = client.call_tool("r__echo", json!({"text": "hi"})).await.unwrap();
        assert_eq!(text(&echo), "hi");
        let prompts = client.prompts().await.unwrap();
        assert!(names(&prompts).contains(&"test_simple_prompt"), "{prompts:?}");
    }
}

/// A server that lists tools only to clients that can be asked, as some do.
const SHY: &str = r#"
import json, sys
able = []
def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        able = sorted(params["capabilities"])
        send({"id": message["id"], "result": {"protocolVersion": params["protocolVersion"],
              "capabilities": {"tools": {}}, "serverInfo": {"name": "shy", "version": "1"}}})
    elif method == "notifications/initialized" and "roots" in able:
        send({"id": "roots", "method": "roots/list"})
    elif method == "tools/list":
        tools = [{"name": "ask_" + name, "inputSchema": {"type": "object"}} for name in able]
        send({"id": message["id"], "result": {"tools": tools}})
    elif method == "tools/call":
        known = params["name"].removeprefix("ask_") in able
        content = [{"type": "text", "text": "asked" if known else "you cannot be asked"}]
        send({"id": message["id"], "result": {"content": content, "isError": not known}})
    elif method and "id" in message:
        send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
"#;

#[tokio::test]
async fn tools_for_clients_that_can_be_asked_are_listed_and_the_server_says_who_can() {
    let gateway = Gateway::start(&json!({"shy": {"command": "python3", "args": ["-c", SHY]}}));
    gateway.until_ready(&["shy"]);
    for era in ERAS {
        let able =
            ClientOptions::default().on_elicitation(async |_| Ok(json!({"action": "decline"})));
        let able = gateway.client_at("/mcp", era, able).await;
        let tools = able.tools().await.unwrap();
        let all = ["shy__ask_elicitation", "shy__ask_roots", "shy__ask_sampling"];
        assert_eq!(names(&tools), all, "{era:?}");
        let asked = able.call_tool("shy__ask_elicitation", json!({})).await.unwrap();
        assert_eq!(text(&asked), "asked", "{era:?}");
        let unable = gateway.client_at("/mcp", era, ClientOptions::default()).await;
        let refused = unable.call_tool("shy__ask_sampling", json!({})).await.unwrap();
        assert_eq!((text(&refused), &refused["isError"]), ("you cannot be asked", &json!(true)));
    }
}

/// wire: GW-44, GW-70
#[tokio::test]
async fn definitions_are_in_the_words_of_who_reads_them() {
    let gateway = Gateway::start(&json!({"old": demo(&["--era", "legacy"])}));
    gateway.until_ready(&["old"]);
    let mut supports = Vec::new();
    for era in ERAS {
        let client = gateway.client_at("/mcp", era, ClientOptions::default()).await;
        let tools = client.tools().await.unwrap();
        let slow = tools.iter().find(|tool| tool["name"] == "old__slow_compute").unwrap();
        supports.push(slow["execution"]["taskSupport"].clone());
    }
    assert_eq!(supports, [json!("optional"), Value::Null]);
}

/// A gateway answers at once; the command line waits for servers that are still starting.
#[test]
fn the_command_line_waits_for_servers_that_start() {
    let home = Home::new();
    let servers = json!({ "late": late(&home, "") });
    let gateway = Gateway::start_in(home, &servers, &json!({}));
    let url = format!("http://127.0.0.1:{}/mcp", gateway.port);
    let mut waiting = Terminal::start(&["tools", &url, "--timeout", "60"]);
    waiting.until("waiting for late to start");
    let mut calling =
        Terminal::start(&["call", &url, "late__add", "a=1", "b=2", "--timeout", "60"]);
    calling.until("waiting for late to start");
    fs::write(gateway.home.path.join("go"), "").unwrap();
    waiting.until("late__echo").ends_with(0);
    calling.until("3").ends_with(0);
}

#[test]
fn the_command_line_names_the_servers_that_are_missing() {
    let home = Home::new();
    let servers = json!({ "late": late(&home, "") });
    let gateway = Gateway::start_in(home, &servers, &json!({}));
    let url = format!("http://127.0.0.1:{}/mcp", gateway.port);
    let none = run(&["tools", &url, "--timeout", "1"], &[]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(4), ""), "{}", none.stderr);
    let line: Value = serde_json::from_str(&none.stderr).unwrap();
    assert_eq!(line["error"]["message"], "no tools yet: late (starting)");
    assert_eq!(line["error"]["missing"][0]["server"], "late");
    let home = Home::new();
    let servers = json!({"late": late(&home, ""), "good": demo(&[])});
    let gateway = Gateway::start_in(home, &servers, &json!({}));
    gateway.until_ready(&["good"]);
    let url = format!("http://127.0.0.1:{}/mcp", gateway.port);
    let some = run(&["tools", &url, "--timeout", "1"], &[]);
    assert_eq!((some.code, some.stderr.as_str()), (Some(0), "missing: late (starting)"));
    assert!(some.stdout.contains("good__echo"), "{}", some.stdout);
    let json = run(&["tools", &url, "--timeout", "1", "--output", "json"], &[]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["missing"][0]["state"], "starting", "{}", json["missing"]);
}
