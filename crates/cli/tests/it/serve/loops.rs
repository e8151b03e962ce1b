//! Gateways that lead back to themselves: that server is refused, the others work.

use serde_json::{Value, json};
use switchboard_net::client::{Client, ClientOptions};
use switchboard_proto::revision::Era;

use super::{ERAS, Gateway, demo, names, text};
use crate::named::Home;
use crate::process::{PATIENCE, Switchboard, until};

const LEADS_BACK: &str = "leads back to this gateway";

fn at(gateway: &Gateway, path: &str) -> Value {
    json!({"url": format!("http://127.0.0.1:{}{path}", gateway.port)})
}

/// A gateway with the built-in server, whose address can be named from here on.
fn plain() -> Gateway {
    Gateway::start(&json!({"demo": demo(&[])}))
}

impl Gateway {
    /// The names of all its tools.
    async fn tools(&self) -> Vec<String> {
        let client = self.client(Era::Legacy, &["demo"]).await;
        let tools = client.tools().await.unwrap();
        client.close().await;
        names(&tools).into_iter().map(str::to_owned).collect()
    }

    /// Waits until a server is refused because it leads back.
    fn until_refused(&self, name: &str) {
        self.until_state(name, "failed");
        let error = self.status()["servers"][name]["error"].clone();
        assert!(error.as_str().is_some_and(|it| it.contains(LEADS_BACK)), "{error}");
    }

    fn is_refused(&self, name: &str) -> bool {
        let server = self.status()["servers"][name].clone();
        server["error"].as_str().is_some_and(|error| error.contains(LEADS_BACK))
    }
}

/// A server is refused in the status, in the log and to callers; the others work.
async fn check_refused(gateway: &mut Gateway, name: &str) {
    let line = gateway.process.until_logged(&format!("server {name:?} {LEADS_BACK}"));
    assert!(line.contains("servers.json"), "what to remove: {line}");
    gateway.until_refused(name);
    for era in ERAS {
        let client = gateway.client(era, &["demo"]).await;
        let tools = client.tools().await.unwrap();
        let tools = names(&tools);
        assert!(tools.iter().all(|tool| tool.starts_with("demo__")), "{era:?}: {tools:?}");
        let add = format!("{name}__add");
        let error = client.call_tool(&add, json!({"a": 1, "b": 2})).await.unwrap_err();
        assert!(error.to_string().contains(LEADS_BACK), "{era:?}: {error}");
        assert!(!error.to_string().contains("servers.json"), "{era:?}: {error}");
        let sum = client.call_tool("demo__add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(text(&sum), "3", "{era:?}");
        client.close().await;
    }
}

#[tokio::test]
async fn a_gateway_that_names_its_own_address_refuses_that_server() {
    for path in ["/mcp", "/sse", "/groups/both/mcp", "/servers/me/mcp"] {
        let mut gateway = plain();
        let servers = json!({"demo": demo(&[]), "me": at(&gateway, path)});
        let groups = json!({"groups": {"both": ["demo", "me"]}});
        gateway.write(&super::file(&servers, &json!({"switchboard": groups})));
        check_refused(&mut gateway, "me").await;
    }
}

#[tokio::test]
async fn a_gateway_may_name_the_path_of_another_server_of_its_own() {
    let mut gateway = plain();
    let servers = json!({"demo": demo(&[]), "me": at(&gateway, "/servers/demo/mcp")});
    gateway.rewrite(&servers, &json!({}));
    gateway.until_ready(&["demo", "me"]);
    let tools = gateway.tools().await;
    assert!(tools.iter().any(|tool| tool == "me__add"), "{tools:?}");
    assert!(tools.iter().all(|tool| tool.matches("__").count() == 1), "{tools:?}");
}

/// Gateways in a ring, each naming the next one, all at once.
async fn check_ring(count: usize) {
    check_ring_of(count, |next| at(next, "/mcp")).await;
}

/// The same, where `server` says how the next one is reached.
async fn check_ring_of(count: usize, server: impl Fn(&Gateway) -> Value) {
    let ring: Vec<_> = (0..count).map(|_| plain()).collect();
    for (number, gateway) in ring.iter().enumerate() {
        let next = server(&ring[(number + 1) % count]);
        gateway.write(&super::file(&json!({"demo": demo(&[]), "next": next}), &json!({})));
    }
    until("the ring is cut", || ring.iter().any(|gateway| gateway.is_refused("next")));
    until("every link is there or refused", || {
        ring.iter().all(|gateway| {
            gateway.is_refused("next") || gateway.status()["servers"]["next"]["state"] == "ready"
        })
    });
    // Nothing comes around, not even late: no name has each gateway twice.
    let around = "next__".repeat(count);
    for gateway in &ring {
        let client = gateway.client(Era::Legacy, &["demo"]).await;
        until_listed(&client, |tools| {
            tools.contains(&"demo__add") && !tools.iter().any(|tool| tool.starts_with(&around))
        })
        .await;
    }
}

#[tokio::test]
async fn two_gateways_that_name_each_other_are_cut_apart() {
    check_ring(2).await;
}

#[tokio::test]
async fn a_ring_of_three_gateways_is_cut() {
    check_ring(3).await;
}

#[tokio::test]
async fn a_loop_through_a_bridge_on_stdio_is_found() {
    let mut gateway = plain();
    let url = format!("http://127.0.0.1:{}/mcp", gateway.port);
    let program = env!("CARGO_BIN_EXE_switchboard");
    let me = json!({"command": program, "args": ["bridge", url]});
    gateway.write(&super::file(&json!({"demo": demo(&[]), "me": me}), &json!({})));
    check_refused(&mut gateway, "me").await;
}

#[tokio::test]
async fn a_gateway_that_starts_itself_without_the_variable_is_found() {
    let mut gateway = plain();
    let file = gateway.home.path.join("servers.json").display().to_string();
    let starts = gateway.home.path.join("starts");
    // More than 20 would be a defect; none may be more than the machine can bear.
    let script = format!(
        "echo start >> '{}'; test $(wc -l < '{}') -gt 20 && exit 1; exec env -i PATH=\"$PATH\" '{}' serve --no-cache --stdio --config '{file}'",
        starts.display(),
        starts.display(),
        env!("CARGO_BIN_EXE_switchboard"),
    );
    let me = json!({"command": "sh", "args": ["-c", script]});
    gateway.write(&super::file(&json!({"demo": demo(&[]), "me": me}), &json!({})));
    check_refused(&mut gateway, "me").await;
    let started = std::fs::read_to_string(&starts).unwrap().lines().count();
    assert!(started <= 20, "{started} processes");
}

/// A bridge of the legacy era that knows nothing of loops: each line of stdin is a POST, without
/// our header, and what an HTTP error says is lost.
const FOREIGN: &str = r#"
import json, sys, urllib.error, urllib.request
session = None
for line in sys.stdin:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if session:
        headers["Mcp-Session-Id"] = session
    request = urllib.request.Request(sys.argv[1], line.encode(), headers)
    try:
        answer = urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        failed = {"code": -32000, "message": "HTTP %d" % error.code}
        print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "error": failed}), flush=True)
        continue
    session = answer.headers.get("Mcp-Session-Id") or session
    body = answer.read().decode()
    if answer.headers.get("Content-Type", "").startswith("text/event-stream"):
        body = "\n".join(line[6:] for line in body.splitlines() if line.startswith("data: {"))
    if "id" in json.loads(line) and body:
        print(body, flush=True)
"#;

#[tokio::test]
async fn a_loop_through_a_foreign_bridge_is_found() {
    let mut gateway = plain();
    let url = format!("http://127.0.0.1:{}/mcp", gateway.port);
    let me = json!({"command": "python3", "args": ["-c", FOREIGN, url]});
    gateway.write(&super::file(&json!({"demo": demo(&[]), "me": me}), &json!({})));
    check_refused(&mut gateway, "me").await;
}

#[tokio::test]
async fn two_gateways_that_start_bridges_to_each_other_are_cut_apart() {
    let program = env!("CARGO_BIN_EXE_switchboard");
    for foreign in [false, true] {
        let next = |gateway: &Gateway| {
            let url = format!("http://127.0.0.1:{}/mcp", gateway.port);
            if foreign {
                json!({"command": "python3", "args": ["-c", FOREIGN, url]})
            } else {
                json!({"command": program, "args": ["bridge", url]})
            }
        };
        check_ring_of(2, next).await;
    }
}

#[tokio::test]
async fn a_gateway_that_starts_itself_refuses_that_server() {
    let program = env!("CARGO_BIN_EXE_switchboard");
    for is_bridged in [false, true] {
        let home = Home::new();
        let config = home.path.join("servers.json").display().to_string();
        let link = home.path.join("link.json");
        let mut args = json!(["serve", "--stdio", "--no-cache", "--config", config]);
        if is_bridged {
            // Through a link it is the same file.
            std::os::unix::fs::symlink(&config, &link).unwrap();
            args = json!(["bridge", "--", program, "serve", "--stdio", "--config", link]);
        }
        let me = json!({"command": program, "args": args});
        let servers = json!({"demo": demo(&[]), "me": me});
        let mut gateway = Gateway::start_in(home, &servers, &json!({}));
        check_refused(&mut gateway, "me").await;
    }
}

#[test]
fn a_gateway_on_stdio_that_starts_itself_says_so() {
    let home = Home::new();
    let config = home.path.join("servers.json").display().to_string();
    let program = env!("CARGO_BIN_EXE_switchboard");
    let me = json!({"command": program, "args": ["serve", "--stdio", "--config", config]});
    home.write("servers.json", &super::file(&json!({"demo": demo(&[]), "me": me}), &json!({})));
    let mut gateway = Switchboard::start(&["serve", "--stdio", "--no-cache", "--config", &config]);
    let line = gateway.until_logged(LEADS_BACK);
    assert!(line.contains("\"me\""), "{line}");
    // A gateway that listens for itself is not started a second time either.
    let port = json!({"command": program, "args": ["serve", "--port", "0", "--config", config]});
    home.write("servers.json", &super::file(&json!({"demo": demo(&[]), "me": port}), &json!({})));
    let mut gateway = Switchboard::start(&["serve", "--stdio", "--no-cache", "--config", &config]);
    gateway.until_logged("started by a gateway that serves the same configuration");
}

#[tokio::test]
async fn a_chain_and_a_diamond_of_gateways_are_no_loops() {
    let last = plain();
    let sides =
        [(), ()].map(|()| Gateway::start(&json!({"demo": demo(&[]), "last": at(&last, "/mcp")})));
    let servers = json!({
        "demo": demo(&[]),
        "left": at(&sides[0], "/mcp"),
        "right": at(&sides[1], "/mcp"),
        "again": at(&sides[1], "/mcp"),
    });
    let first = Gateway::start(&servers);
    first.until_ready(&["demo", "left", "right", "again"]);
    for side in &sides {
        side.until_ready(&["last"]);
    }
    let client = first.client_at("/mcp", Era::Modern, ClientOptions::default()).await;
    for server in ["left", "right", "again"] {
        let tool = format!("{server}__last__demo__add");
        until_listed(&client, |tools| tools.contains(&tool.as_str())).await;
        let sum = client.call_tool(&tool, json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(text(&sum), "3");
    }
}

/// Waits until the list of tools is as it should be.
async fn until_listed(client: &Client, holds: impl Fn(&[&str]) -> bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let tools = client.tools().await.unwrap();
        if holds(&names(&tools)) {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "never listed: {:?}", names(&tools));
    }
}
