//! What servers are shown besides what their file spells out.

use std::fs;

use serde_json::json;
use switchboard_net::client::Client;
use switchboard_proto::revision::Era;

use super::access::keyed;
use super::{ERAS, Gateway, text};
use crate::named::Home;
use crate::process::{Switchboard, greeting};
use crate::upstream::Upstream;
use crate::web::{post_to, send};

/// What each call showed of these headers, in order.
fn shown(server: &Upstream, names: &[&str]) -> Vec<Vec<String>> {
    let heads = server.heads();
    let of = |head: &String| {
        let header = |name: &&str| {
            let found = head.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            });
            found.unwrap_or_default()
        };
        names.iter().map(header).collect::<Vec<_>>()
    };
    heads.iter().map(of).collect()
}

async fn echo(client: &Client) -> String {
    let answer = client.call_tool("it__echo", json!({"text": "hello"})).await.unwrap();
    text(&answer).to_owned()
}

#[tokio::test]
async fn headers_of_files_and_commands_are_read_at_each_connection_and_the_last_one_wins() {
    let server = Upstream::start();
    let home = Home::new();
    let file = home.write("headers", "X-One: file\nX-Two: file\nX-Three: file\n");
    let program = "printf '{\"X-Three\": \"command\"}'";
    let it = json!({
        "type": "http", "url": server.url(),
        "headers": {"X-Zero": "static", "X-One": "static"},
        "headerFile": file, "headersHelper": program,
    });
    let gateway = Gateway::start_in(home, &json!({"it": it}), &json!({}));
    gateway.until_ready(&["it"]);
    let names = ["X-Zero", "X-One", "X-Two", "X-Three"];
    let client = gateway.client(Era::Legacy, &["it"]).await;
    assert_eq!(echo(&client).await, "hello");
    let all = shown(&server, &names);
    assert!(all.iter().all(|it| *it == ["static", "file", "file", "command"]), "{all:?}");
    fs::write(gateway.home.path.join("headers"), "X-Two: other\n").unwrap();
    let client = gateway.client(Era::Legacy, &["it"]).await;
    assert_eq!(echo(&client).await, "hello");
    let last = shown(&server, &names).pop().unwrap();
    assert_eq!(last, ["static", "static", "other", "command"]);
}

#[tokio::test]
async fn headers_of_clients_are_passed_on_by_name_and_never_by_the_connection_of_another() {
    for process in ["shared", "per-session"] {
        let server = Upstream::start();
        let it = json!({
            "type": "http", "url": server.url(), "process": process,
            "passHeaders": ["X-Tenant"], "headers": {"Authorization": "Bearer ours"},
        });
        let gateway = Gateway::start(&json!({"it": it}));
        gateway.until_ready(&["it"]);
        for era in ERAS {
            let mut clients = Vec::new();
            for tenant in ["a", "b"] {
                let headers =
                    [("X-Tenant", tenant), ("X-Other", "x"), ("Authorization", "Bearer theirs")];
                clients.push(gateway.client_with(era, &headers).await);
            }
            for round in 0..2 {
                for (client, tenant) in clients.iter().zip(["a", "b"]) {
                    echo(client).await;
                    let last = shown(&server, &["X-Tenant", "X-Other", "Authorization"]).pop();
                    let expected = [tenant, "", "Bearer ours"].map(str::to_owned).to_vec();
                    assert_eq!(last, Some(expected), "{process}, {era:?}, {round}");
                }
            }
        }
        let all = shown(&server, &["Authorization"]);
        assert!(all.iter().all(|it| it[0] == "Bearer ours"), "{all:?}");
    }
}

#[tokio::test]
async fn credentials_that_cannot_be_read_are_told_without_their_place() {
    let server = Upstream::start();
    let home = Home::new();
    let file = home.path.join("headers");
    let it = json!({"type": "http", "url": server.url(), "headerFile": file.to_str().unwrap()});
    let mut gateway = Gateway::start_in(home, &json!({"it": it}), &json!({}));
    gateway.process.until_logged("cannot read");
    gateway.until_state("it", "retrying");
    let client = gateway.client_with(Era::Legacy, &[]).await;
    let failed = client.call_tool("it__echo", json!({"text": "x"})).await.unwrap_err().to_string();
    assert!(!failed.contains("headers\""), "{failed}");
    assert_eq!(server.heads(), Vec::<String>::new(), "nothing is sent without them");
    fs::write(&file, "X-One: 1\n").unwrap();
    gateway.until_ready(&["it"]);
    assert_eq!(echo(&client).await, "hello");
}

#[tokio::test]
async fn a_server_that_lets_in_only_clients_is_reached_by_them() {
    let line = crate::process::server_line();
    let args = ["bridge", "--stdio", &line, "--port", "0", "--api-key", "s3cret"];
    let mut server = Switchboard::start(&args);
    let url = format!("http://127.0.0.1:{}/mcp", server.port());
    // The word that the server wants to hear comes by another name.
    let it = json!({"type": "http", "url": url, "passHeaders": ["X-Word"]});
    let keyed = json!({
        "type": "http", "url": url, "headersHelper": r#"printf '{"X-API-Key": "s3cret"}'"#,
    });
    let gateway = Gateway::start(&json!({"it": it, "keyed": keyed}));
    gateway.until_ready(&["keyed"]);
    // We are not let in, but others may be.
    gateway.until_state("it", "personal");
    for era in ERAS {
        let client = gateway.client_with(era, &[("X-Word", "none")]).await;
        let refused = client.call_tool("it__echo", json!({"text": "x"})).await.unwrap_err();
        assert!(refused.to_string().contains("401"), "{era:?}: it is asked: {refused}");
        let answer = client.call_tool("keyed__echo", json!({"text": "hello"})).await.unwrap();
        assert_eq!(text(&answer), "hello", "{era:?}");
    }
}

/// wire: HTTP-29
#[test]
fn a_web_page_may_send_what_is_passed_on() {
    let server = Upstream::start();
    let it = json!({"type": "http", "url": server.url(), "passHeaders": ["X-Tenant"]});
    let other = json!({"type": "http", "url": server.url(), "passHeaders": ["X-Other"]});
    let gateway = Gateway::start(&json!({"it": it, "other": other}));
    for (path, names) in [
        ("/mcp", &["x-tenant", "x-other"][..]),
        ("/servers/it/mcp", &["x-tenant"]),
        ("/servers/other/mcp", &["x-other"]),
    ] {
        let asks = [
            ("Origin", "http://localhost:6274"),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "x-tenant, x-other"),
        ];
        let passed = send(gateway.port, &format!("OPTIONS {path}"), &asks, b"");
        let allowed = passed.header("access-control-allow-headers").unwrap();
        let is_allowed = |name: &&str| allowed.split(", ").any(|allowed| allowed == *name);
        let found: Vec<_> = ["x-tenant", "x-other"].into_iter().filter(is_allowed).collect();
        assert_eq!(found, names, "{path}: {allowed}");
    }
}

/// wire: HTTP-29
#[test]
fn a_preflight_without_a_key_does_not_tell_which_servers_exist() {
    let server = Upstream::start();
    let it = json!({"type": "http", "url": server.url(), "passHeaders": ["X-Tenant"]});
    let gateway = keyed(&json!({"it": it}), json!({}));
    let asks = [
        ("Origin", "http://localhost:6274"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type, x-tenant, x-other"),
    ];
    let seen = |path: &str, asks: &[(&str, &str)]| {
        let answer = send(gateway.port, &format!("OPTIONS {path}"), asks, b"");
        let names = ["allow", "access-control-allow-headers", "access-control-allow-origin"];
        (answer.status, names.map(|name| answer.header(name).map(ToOwned::to_owned)))
    };
    for asks in [&asks[..], &asks[..2], &[]] {
        let none = seen("/servers/none/mcp", asks);
        for path in ["/servers/it/mcp", "/mcp", "/status", "/groups/none/mcp"] {
            assert_eq!(seen(path, asks), none, "{path}");
        }
    }
    let (_, [_, allowed, _]) = seen("/servers/it/mcp", &asks);
    assert!(allowed.unwrap().contains("x-tenant"), "pages may send what is passed on");
}

#[test]
fn a_header_that_the_client_names_in_connection_is_not_passed_on() {
    let server = Upstream::start();
    let names = ["X-Tenant", "X-Hop", "X-Other"];
    let it = json!({
        "type": "http", "url": server.url(), "process": "per-session", "passHeaders": names,
    });
    let gateway = Gateway::start(&json!({"it": it}));
    gateway.until_ready(&["it"]);
    let before = server.heads().len();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting()});
    let headers = [
        ("Connection", "keep-alive, x-hop"),
        ("Connection", "X-Other"),
        ("X-Tenant", "a"),
        ("X-Hop", "b"),
        ("X-Other", "c"),
    ];
    let path = "/servers/it/mcp";
    let answer = post_to(gateway.port, path, &headers, hello.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    let all = shown(&server, &names).split_off(before);
    let last = all.iter().find(|one| one[0] == "a").expect("the session of this client");
    assert_eq!(last, &["a", "", ""]);
}
