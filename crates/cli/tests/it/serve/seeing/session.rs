//! Sessions one by one, on the page and in the table.

use serde_json::{Value, json};
use switchboard_net::client::{ClientOptions, ListenFilter};
use switchboard_proto::revision::Era;

use super::{Gateway, Session};
use crate::named::Home;
use crate::process::{greeting, run};
use crate::serve::access::{ADA, ROOT, key};
use crate::serve::reload::{call_at, events};
use crate::serve::{demo, eventually, rude_with};
use crate::web::{Events, post_to};

/// The rows that a gateway shows to whoever has this key.
fn rows(gateway: &Gateway) -> Vec<Value> {
    let status = gateway.status_as(ROOT).message();
    status["sessions"]["list"].as_array().unwrap_or_else(|| panic!("{status}")).clone()
}

fn row<'r>(rows: &'r [Value], transport: &str, era: &str) -> &'r Value {
    let mut of = rows.iter().filter(|row| row["transport"] == transport && row["era"] == era);
    of.next().unwrap_or_else(|| panic!("no {era} client by {transport}: {rows:?}"))
}

/// Greets as somebody with a name that means no good; the id of the session.
fn greet_badly(port: u16) -> String {
    let mut params = greeting();
    params["clientInfo"] = json!({"name": "evil\u{1b}[2J\u{202e}", "version": "9".repeat(5000)});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = post_to(port, "/mcp", &[("X-API-Key", ADA)], hello.to_string().as_bytes());
    answer.header("mcp-session-id").unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_shows_whose_it_is_who_they_say_they_are_and_what_goes_on() {
    let keys = json!({"ada": key(ADA, json!({"servers": ["it"]})), "root": key(ROOT, json!({}))});
    let servers = json!({"it": rude_with(&["wait"], &json!({})), "modern": demo(&[])});
    let section = json!({"switchboard": {"keys": keys}});
    let gateway = Gateway::start_in(Home::new(), &servers, &section);
    gateway.ready(&["it", "modern"]);
    let (port, ada) = (gateway.port, [("X-API-Key", ADA)]);
    let session = Session::open(port, "/mcp", &ada);
    let bad = greet_badly(port);
    let mut old = Events::open_as(port, "/servers/it/sse", ADA);
    old.next("event: endpoint");
    let options = ClientOptions::default();
    let client = gateway.client_as_with(ROOT, "/servers/modern/mcp", Era::Modern, options).await;
    let _listening =
        client.listen(ListenFilter { tools: true, ..ListenFilter::default() }).await.unwrap();
    let file = gateway.home.path.join("go");
    let arguments = json!({"name": "it__wait", "arguments": {"file": file}});
    let calling = std::thread::spawn({
        let id = session.id.clone();
        move || Session { port, path: "/mcp", id }.call(&arguments, &[("X-API-Key", ADA)])
    });
    let is_stream = |row: &Value| row["calls"] == 1 && row["streams"] == 1;
    eventually("the call is a stream", || is_stream(&rows(&gateway)[0])).await;

    let seen = rows(&gateway);
    assert_eq!(seen.len(), 4, "{seen:?}");
    let busy = json!({
        "session": &session.id[..6], "principal": "ada", "client": "test", "version": "1",
        "era": "legacy", "revision": "2025-11-25", "transport": "http", "path": "/mcp",
        "ageSeconds": seen[0]["ageSeconds"], "idleSeconds": seen[0]["idleSeconds"], "calls": 1, "streams": 1,
    });
    assert_eq!(seen[0], busy, "the busiest is the first");
    assert!(busy["ageSeconds"].is_u64() && busy["idleSeconds"].is_u64());
    let evil = seen.iter().find(|row| row["session"] == bad[..6]).unwrap();
    assert_eq!(evil["client"], r"evil\u{1b}[2J\u{202e}");
    assert_eq!(evil["version"].as_str().map(str::len), Some(64));
    let old = row(&seen, "sse", "legacy");
    assert_eq!((&old["path"], &old["streams"]), (&json!("/servers/it/sse"), &json!(1)));
    assert_eq!((&old["client"], &old["revision"]), (&Value::Null, &Value::Null));
    let listen = row(&seen, "http", "modern");
    assert_eq!((&listen["session"], &listen["streams"]), (&Value::Null, &json!(1)));
    assert_eq!((&listen["principal"], &listen["calls"]), (&json!("root"), &json!(0)));
    assert!(listen["client"].is_string() && listen["revision"].is_string(), "{listen}");

    let url = format!("http://127.0.0.1:{port}");
    let table = run(&["status", &url], &[("SWITCHBOARD_KEY", ROOT)]).stdout;
    let all = table.clone() + &gateway.status_as(ROOT).message().to_string();
    assert!(!all.contains(&session.id) && !all.contains(&bad), "ids are secret");
    let line = table.lines().find(|line| line.starts_with(&session.id[..6])).unwrap();
    let cells: Vec<_> = line.split_whitespace().collect();
    assert_eq!(cells[1..6], ["ada", "test", "1", "2025-11-25", "http"], "{table}");
    assert_eq!((cells[6], &cells[cells.len() - 2..]), ("/mcp", &["1", "1"][..]), "{table}");
    assert!(table.contains(r"evil\u{1b}[2J\u{202e}"), "{table}");
    assert!(!table.contains(['\u{1b}', '\u{202e}']), "{table}");
    assert_eq!(gateway.status_as(ADA).status, 403, "who may not see everything sees none of it");
    std::fs::write(&file, "").unwrap();
    calling.join().unwrap();
}

#[test]
fn many_sessions_are_shown_in_part_with_the_busiest_among_them() {
    let servers = json!({"it": demo(&["--era", "legacy"])});
    let gateway = Gateway::told(&json!({"mcpServers": servers}), &[], &[]);
    gateway.until_ready(&["it"]);
    let open = |_| Session::open(gateway.port, "/mcp", &[]);
    let first = open(0);
    let rest: Vec<_> = (1..230).map(open).collect();
    let _stream = events(gateway.port, "/mcp", &rest[3].id);
    call_at(gateway.port, "/mcp", &first.id, "it__add", &json!({"a": 1, "b": 2}));
    let status = gateway.status();
    let list = status["sessions"]["list"].as_array().unwrap();
    assert_eq!((&status["sessions"]["count"], list.len()), (&json!(230), 200));
    assert_eq!(list[..2].iter().filter(|row| row["session"] == first.id[..6]).count(), 1);
    let table = run(&["status", &format!("http://127.0.0.1:{}", gateway.port)], &[]).stdout;
    assert!(table.contains("\nand 210 more\n\n230 sessions (anonymous 230)"), "{table}");
    assert_eq!(table.lines().filter(|line| line.contains(" test 1 ")).count(), 20, "{table}");
}
