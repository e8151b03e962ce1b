//! Servers that never start, until they do.

use std::fs;

use serde_json::{Value, json};
use switchboard_net::client::{ClientOptions, ListenFilter};

use super::{ERAS, Gateway, demo, names, text};
use crate::named::Home;

/// A server that leaves a mark each time it is started, and ends unless a file is there.
fn doomed(home: &Home) -> Value {
    let (starts, go) = (home.path.join("starts"), home.path.join("go"));
    let (starts, go) = (starts.display(), go.display());
    let program = env!("CARGO_BIN_EXE_switchboard");
    let line = format!("echo x >> '{starts}'; [ -e '{go}' ] && exec '{program}' demo; exit 1");
    json!({"command": "sh", "args": ["-c", line]})
}

/// Takes the delays as they are, 21 seconds in all; only looking again is sooner.
#[tokio::test]
async fn a_server_that_always_ends_has_failed_in_the_end_and_is_back_once_it_works() {
    let home = Home::new();
    let servers = json!({"good": demo(&[]), "bad": doomed(&home)});
    let args = ["--probe-every", "2"];
    let gateway = Gateway::start_with(home, &servers, &json!({}), &args);
    let starts = || fs::read_to_string(gateway.home.path.join("starts")).unwrap().lines().count();
    gateway.until_state("bad", "retrying");
    gateway.until_state("bad", "failed");
    assert!(starts() >= 4, "started, and three times again: {}", starts());
    let mut listening = Vec::new();
    for era in ERAS {
        let client = gateway.client(era, &["good"]).await;
        let error = client.call_tool("bad__add", json!({"a": 1, "b": 2})).await.unwrap_err();
        let told = "server \"bad\" is down (Transport closed (exit status 1)); next try in ";
        assert!(error.to_string().contains(told), "{era:?}: {error}");
        let sum = client.call_tool("good__add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(text(&sum), "3", "{era:?}");
        let list = client.request("tools/list", json!({})).await.unwrap();
        let missing = json!([{"server": "bad", "state": "failed", "cached": false,
            "reason": "Transport closed (exit status 1)"}]);
        assert_eq!(list["_meta"]["switchboard/deferred"], missing, "{era:?}");
        let filter = ListenFilter { tools: true, ..ListenFilter::default() };
        let heard = client.listen(filter).await.unwrap();
        listening.push((era, client, heard));
    }
    let before = starts();
    crate::process::until("it is looked at", || starts() > before);
    assert_eq!(gateway.status()["servers"]["bad"]["state"], "failed", "a look in vain");
    fs::write(gateway.home.path.join("go"), "").unwrap();
    gateway.until_ready(&["bad"]);
    for (era, client, mut heard) in listening {
        assert!(heard.next().await.is_some(), "{era:?}: it is announced");
        assert!(names(&client.tools().await.unwrap()).contains(&"bad__add"), "{era:?}");
        let sum = client.call_tool("bad__add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(text(&sum), "3", "{era:?}");
        client.close().await;
    }
    let alone = gateway.client_at("/servers/bad/mcp", ERAS[0], ClientOptions::default()).await;
    assert!(names(&alone.tools().await.unwrap()).contains(&"add"));
}
