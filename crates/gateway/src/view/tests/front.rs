//! A front before a real child.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::roster::{Change, ListKind};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{ServerTarget, Target};
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Carrier, Lane};
use switchboard_proto::jsonrpc::parse;
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;
use switchboard_proto::server::Frame;

use super::super::*;
use crate::fleet::FleetOptions;
use crate::plan::{Plan, ServerPlan};
use crate::policy::Access;

/// A server with one tool, in a few lines of shell.
pub(crate) const SERVER: &str = r#"while read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
    *'"tools/list"'*) result='{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}';;
    *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id"; continue;;
    *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

/// Answers calls of its tool after they were cancelled; the first one at once.
const LATE: &str = r#"    *'"first"'*) result='{"content":[]}';;
    *'"tools/call"'*) held=$id; continue;;
    *'notifications/cancelled'*) id=$held; result='{"content":[],"late":true}';;
    *'"tools/list"'*"#;

/// Asks on each call, and answers the call with what the client says of its progress.
const ASKING: &str = r#"    *'"tools/call"'*) held=$id; printf '{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{"of":"%s","_meta":{"progressToken":1}}}\n' "$0"; continue;;
    *'notifications/progress'*) id=$held; result="{\"heard\":$line}";;
    *'"tools/list"'*"#;

/// A front before one server in shell.
fn before(script: &str) -> (Arc<Fleet>, Arc<Views>) {
    before_all(&["s"], script)
}

/// The same before several, each of which knows its name.
fn before_all(names: &[&str], script: &str) -> (Arc<Fleet>, Arc<Views>) {
    let server = |name: &&str| {
        let args = ["-c", script, *name].map(str::to_owned);
        let target = Target::Command(Command::new("sh").args(&args));
        ((*name).to_owned(), ServerPlan::new(*name, target))
    };
    let plan = Plan { servers: names.iter().map(server).collect(), ..Plan::default() };
    let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
    let environment: Vec<_> = path.into_iter().collect();
    let fleet = Fleet::start(&plan, FleetOptions::default(), move |plan| {
        let Target::Command(command) = &plan.target else { panic!("{:?}", plan.target) };
        ServerTarget::command(command.clone(), environment.clone())
    });
    let fleet = fleet.unwrap();
    let authenticator = Authenticator::new(Access::default(), 100);
    let views = Views::new(&fleet, fleet.names(), None, &authenticator);
    (fleet, views)
}

/// Waits until the tool of a server can be called.
async fn until_listed(fleet: &Fleet, views: &Views, tool: &str) {
    let front = Front::new(views, &Grant::default(), None);
    let mut changes = fleet.roster.changes();
    while front.catalog().tool(tool).is_none() {
        changes.next().await.unwrap();
    }
}

fn say(client: &Arc<ClientConnection>, line: &str) {
    let incoming = parse(line.to_owned().into()).unwrap();
    client.step(|half| half.handle_incoming(Lane::MAIN, incoming, None)).1.detach();
}

async fn heard(client: &ClientConnection) -> String {
    let frame = tokio::time::timeout(Duration::from_secs(30), client.next_frame(Lane::MAIN)).await;
    match frame.expect("in time") {
        Some(Frame::Message { text, .. }) => String::from_utf8(text.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// wire: UTL-1
#[tokio::test]
async fn a_server_that_answers_a_cancelled_call_is_passed_on() {
    let (fleet, views) = before(&SERVER.replacen("    *'\"tools/list\"'*", LATE, 1));
    until_listed(&fleet, &views, "s__t").await;
    let client = ClientConnection::new(
        Era::Legacy,
        Carrier::Pipe,
        views,
        &Limits::default(),
        Sharing::Alone,
    );
    for line in [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__t","arguments":{"first":1}}}"#,
    ] {
        say(&client, line);
    }
    while !heard(&client).await.starts_with(r#"{"jsonrpc":"2.0","id":1,"#) {}
    say(&client, r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"s__t"}}"#);
    say(
        &client,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#,
    );
    let answer = heard(&client).await;
    assert!(answer.contains("\"id\":2") && answer.contains("\"late\":true"), "{answer}");
    fleet.close().await;
}

#[tokio::test]
async fn progress_on_a_question_goes_to_the_server_that_asked_it() {
    let script = SERVER.replacen("    *'\"tools/list\"'*", ASKING, 1);
    let (fleet, views) = before_all(&["a", "b"], &script);
    for tool in ["a__t", "b__t"] {
        until_listed(&fleet, &views, tool).await;
    }
    let client = ClientConnection::new(
        Era::Legacy,
        Carrier::Pipe,
        views,
        &Limits::default(),
        Sharing::Alone,
    );
    for line in [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"a__t"}}"#,
        r#"{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"b__t"}}"#,
    ] {
        say(&client, line);
    }
    let hear = async || serde_json::from_str::<Value>(&heard(&client).await).unwrap();
    let mut questions = Vec::new();
    while questions.len() < 2 {
        let heard = hear().await;
        questions.extend(Some(heard).filter(|it| it["method"] == "sampling/createMessage"));
    }
    // Both servers have chosen the same token.
    for question in &questions {
        let (token, of) =
            (&question["params"]["_meta"]["progressToken"], &question["params"]["of"]);
        let params = json!({"progressToken": token, "progress": 1, "message": of});
        let note = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        say(&client, &note.to_string());
    }
    for _ in 0..2 {
        let answer = hear().await;
        let told = &answer["result"]["heard"]["params"];
        assert_eq!(told["message"], answer["id"], "{answer}");
        assert_eq!(told["progressToken"], 1, "its own words: {answer}");
    }
    fleet.close().await;
}

/// However far behind the task is that tells clients of changes.
#[tokio::test]
async fn who_hears_that_a_server_offers_something_finds_it_at_once() {
    let (fleet, views) = before(SERVER);
    let front = Front::new(&views, &Grant::default(), None);
    let mut changes = fleet.roster.changes();
    let is_tools = |change| matches!(change, Change::Definitions { kind: ListKind::Tools, .. });
    while !is_tools(changes.next().await.unwrap()) {}
    assert!(front.catalog().tool("s__t").is_some());
    fleet.close().await;
}

/// A server that lists a resource to the first that asks, and never greets another.
const LATER: &str = r#"if ! mkdir "$FOLDER" 2>/dev/null; then exec sleep 1000; fi
while read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}';;
    *'"resources/list"'*) result='{"resources":[{"uri":"x://1","name":"one"}]}';;
    *'"id"'*) result='{"resourceTemplates":[]}';;
    *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

/// A client on a pipe.
fn client(era: Era, views: &Arc<Views>) -> Arc<ClientConnection> {
    let backend: Arc<Views> = Arc::clone(views);
    ClientConnection::new(era, Carrier::Pipe, backend, &Limits::default(), Sharing::Alone)
}

/// The calls that wait for the only server, and that are open there.
fn calls(fleet: &Fleet) -> (usize, usize) {
    let all = fleet.running_servers();
    let bridges = all.values().map(|running| (running.bridge.queued(), running.bridge.calls()));
    bridges.into_iter().next().unwrap_or_default()
}

/// That a client that goes leaves nothing behind.
async fn goes_without_a_trace(fleet: &Fleet, client: Arc<ClientConnection>) {
    let left = Arc::downgrade(&client);
    client.end();
    drop(client);
    let gone = async {
        while left.strong_count() > 0 || calls(fleet) != (0, 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(5), gone).await;
    let left = left.strong_count();
    assert!(gone.is_ok(), "{left} of its connection, calls {:?}", calls(fleet));
}

#[tokio::test]
async fn a_listen_whose_client_hangs_up_while_its_server_is_reached_leaves_nothing_behind() {
    let folder = std::env::temp_dir().join(format!("switchboard-later-{}", std::process::id()));
    _ = std::fs::remove_dir(&folder);
    let (fleet, views) = before(&LATER.replace("$FOLDER", &folder.to_string_lossy()));
    let front = Front::new(&views, &Grant::default(), None);
    let mut changes = fleet.roster.changes();
    while front.catalog().resource("x://1").is_none() {
        changes.next().await.unwrap();
    }
    let client = client(Era::Modern, &views);
    say(
        &client,
        r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["x://1"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    );
    let front = views.find_front(&client, None);
    assert!(front.is_occupied() && calls(&fleet).1 > 0, "it listens, and its server is asked");
    goes_without_a_trace(&fleet, client).await;
    assert!(!front.is_occupied());
    fleet.close().await;
    _ = std::fs::remove_dir(&folder);
}

#[tokio::test]
async fn a_call_that_waits_for_a_greeting_goes_with_its_client() {
    let (fleet, views) = before("exec sleep 1000");
    let client = client(Era::Legacy, &views);
    for line in [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__t"}}"#,
    ] {
        say(&client, line);
    }
    assert_eq!(calls(&fleet).0, 1, "the greeting waits for the server");
    let server = fleet.running("s").unwrap();
    let held = Arc::strong_count(&server);
    // Before its calls are given up, which lets go of them too.
    views.forget(&client);
    assert_eq!(Arc::strong_count(&server), held - 1, "what waits keeps the server no longer");
    drop(server);
    goes_without_a_trace(&fleet, client).await;
    fleet.close().await;
}
