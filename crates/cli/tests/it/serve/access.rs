//! Who may come in, and what each sees and calls.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use switchboard_gateway::policy::KeyHash;
use switchboard_net::client::{CallError, Client, ClientOptions};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::revision::Era;

use super::{ERAS, Gateway, demo, names, rude, text};
use crate::named::Home;
use crate::process::{PATIENCE, Switchboard, greeting, run, until};
use crate::web::{Response, post_to, send};

pub(super) const ADA: &str = "key-of-ada-0123456789abcdef";
pub(super) const BOB: &str = "key-of-bob-0123456789abcdef";
pub(super) const ROOT: &str = "key-of-root-0123456789abcdef";

/// A key that may do what `grant` says, as a file has it.
pub(super) fn key(key: &str, grant: Value) -> Value {
    let mut entry = grant;
    entry["hash"] = KeyHash::compute(key.as_bytes()).to_string().into();
    entry
}

/// A gateway with what the section `switchboard` says, and a key for everything.
pub(super) fn keyed(servers: &Value, mut section: Value) -> Gateway {
    section["keys"]["root"] = key(ROOT, json!({}));
    Gateway::start_in(Home::new(), servers, &json!({"switchboard": section}))
}

impl Gateway {
    pub(super) fn status_as(&self, key: &str) -> Response {
        send(self.port, "GET /status", &[("X-API-Key", key)], b"")
    }

    /// Waits until these servers can be called.
    pub(super) fn ready(&self, names: &[&str]) {
        until(&format!("{names:?} are ready"), || {
            let status = self.status_as(ROOT).message();
            names.iter().all(|name| status["servers"][name]["state"] == "ready")
        });
    }

    pub(super) async fn client_as(&self, key: &str, path: &str, era: Era) -> Client {
        self.client_as_with(key, path, era, ClientOptions::default()).await
    }

    pub(super) async fn client_as_with(
        &self,
        key: &str,
        path: &str,
        era: Era,
        options: ClientOptions,
    ) -> Client {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let headers = [("authorization", format!("Bearer {key}"))];
        let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let fetch = Fetch::new(FetchOptions::default()).unwrap();
        let headers = headers.into_iter().collect();
        let server = ServerTarget::url(url.parse().unwrap(), Strategy::HttpOnly, headers, fetch);
        let options = options.era(era);
        options.connect(server).await.unwrap()
    }
}

/// Two servers that are there and one that never will be; `ada` has a part of
/// the first, `bob` the group of the second.
fn shared_out() -> Gateway {
    let hang = json!({"command": "sleep", "args": ["1000"]});
    let servers = json!({"first": demo(&[]), "zulu": rude(), "yankee": hang});
    let gateway = keyed(
        &servers,
        json!({
            "groups": {"zulus": ["zulu"], "all": ["*"]},
            "keys": {
                "ada": key(ADA, json!({"servers": ["first"], "includeTools": ["first__echo", "first__add"]})),
                "bob": key(BOB, json!({"groups": ["zulus"]})),
            },
        }),
    );
    gateway.ready(&["first", "zulu"]);
    gateway
}

#[test]
fn every_path_asks_for_a_key_but_those_that_say_whether_we_are_well() {
    let gateway = shared_out();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting()});
    let hello = hello.to_string();
    for place in ["", "/servers/first", "/groups/all", "/servers/none"] {
        for (line, body) in [
            (format!("POST {place}/mcp"), hello.as_str()),
            (format!("GET {place}/mcp"), ""),
            (format!("DELETE {place}/mcp"), ""),
            (format!("GET {place}/sse"), ""),
            (format!("POST {place}/message?sessionId=1"), hello.as_str()),
            (format!("GET {place}/status"), ""),
            (format!("GET {place}/metrics"), ""),
            (format!("GET {place}/nothing"), ""),
        ] {
            let bare = send(gateway.port, &line, &[], body.as_bytes());
            assert_eq!(
                (bare.status, bare.header("www-authenticate")),
                (401, Some("Bearer")),
                "{line}"
            );
            for shown in [("X-API-Key", "wrong"), ("Authorization", "Bearer wrong")] {
                let wrong = send(gateway.port, &line, &[shown], body.as_bytes());
                assert_eq!(wrong.status, 401, "{line}");
            }
        }
    }
    for page in ["/healthz", "/readyz"] {
        assert_eq!(send(gateway.port, &format!("GET {page}"), &[], b"").status, 200);
    }
    let bearer = format!("Bearer {ROOT}");
    for shown in [("X-API-Key", ROOT), ("Authorization", &bearer)] {
        for place in ["/mcp", "/servers/first/mcp", "/groups/all/mcp"] {
            let welcome = post_to(gateway.port, place, &[shown], hello.as_bytes());
            assert_eq!(welcome.status, 200, "{place}: {welcome:?}");
        }
    }
}

/// wire: GW-83
#[tokio::test]
async fn each_sees_what_is_granted_and_no_name_of_anything_else() {
    let gateway = shared_out();
    for era in ERAS {
        let ada = gateway.client_as(ADA, "/mcp", era).await;
        assert_eq!(names(&ada.tools().await.unwrap()), ["first__echo", "first__add"], "{era:?}");
        let bob = gateway.client_as(BOB, "/mcp", era).await;
        assert_eq!(names(&bob.tools().await.unwrap()), ["zulu__echo", "zulu__wait"], "{era:?}");
        let mut seen = format!("{} {}", ada.welcome(), ada.capabilities());
        for list in ["tools", "prompts", "resources", "resources/templates"] {
            seen += &ada.request(&format!("{list}/list"), json!({})).await.unwrap().to_string();
        }
        for name in ["zulu", "yankee", "rude", "file:///a", "deferred", "test_error"] {
            assert!(!seen.contains(name), "{era:?}: {name} in {seen}");
        }
        let root = gateway.client_as(ROOT, "/mcp", era).await;
        let list = root.request("tools/list", json!({})).await.unwrap();
        assert_eq!(list["_meta"]["switchboard/deferred"][0]["server"], "yankee", "{era:?}");
    }
}

fn told(outcome: Result<Value, CallError>) -> String {
    outcome.unwrap_err().to_string()
}

#[tokio::test]
async fn what_is_not_granted_answers_just_like_what_is_not_there() {
    let gateway = shared_out();
    for era in ERAS {
        let ada = gateway.client_as(ADA, "/mcp", era).await;
        let sum = ada.call_tool("first__add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(text(&sum), "3", "{era:?}");
        let same = |one: String, name: &str, other: String, none: &str| {
            assert_eq!(one.replace(name, none), other, "{era:?}");
        };
        let unknown = told(ada.call_tool("first__nothing", json!({})).await);
        for tool in ["first__test_error_handling", "zulu__echo", "yankee__anything"] {
            let denied = told(ada.call_tool(tool, json!({"text": "x"})).await);
            same(denied, tool, unknown.clone(), "first__nothing");
        }
        let denied = told(ada.prompt("zulu__p", json!({"a": "x"})).await);
        same(denied, "zulu__p", told(ada.prompt("no__p", json!({})).await), "no__p");
        let denied = told(ada.read("file:///a").await);
        same(denied, "file:///a", told(ada.read("file:///no").await), "file:///no");
        let complete = |name: &str| {
            let ask = json!({"type": "ref/prompt", "name": name});
            let ask = json!({"ref": ask, "argument": {"name": "a", "value": ""}});
            ada.request("completion/complete", ask)
        };
        let denied = told(complete("zulu__p").await);
        same(denied, "zulu__p", told(complete("no__p").await), "no__p");
    }
}

#[tokio::test]
async fn a_server_alone_shows_each_what_is_theirs() {
    let gateway = shared_out();
    for era in ERAS {
        let ada = gateway.client_as(ADA, "/servers/first/mcp", era).await;
        assert_eq!(names(&ada.tools().await.unwrap()), ["echo", "add"], "{era:?}");
        let sum = ada.call_tool("add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(text(&sum), "3", "{era:?}");
        let denied = told(ada.call_tool("test_error_handling", json!({})).await);
        assert!(denied.contains("Unknown tool: test_error_handling"), "{era:?}: {denied}");
        let root = gateway.client_as(ROOT, "/servers/first/mcp", era).await;
        assert!(names(&root.tools().await.unwrap()).len() > 2, "{era:?}");
        let bob = gateway.client_as(BOB, "/groups/zulus/mcp", era).await;
        assert_eq!(names(&bob.tools().await.unwrap()), ["zulu__echo", "zulu__wait"]);
    }
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let ask = |path: &str| {
        let answer = post_to(gateway.port, path, &[("X-API-Key", ADA)], hello.as_bytes());
        (answer.status, String::from_utf8(answer.body).unwrap())
    };
    let nothing = ask("/servers/nothing/mcp");
    assert_eq!(nothing.0, 404);
    for path in ["/servers/zulu/mcp", "/servers/yankee/mcp", "/groups/zulus/mcp"] {
        assert_eq!(ask(path), nothing, "{path}");
    }
    let ada = gateway.client_as(ADA, "/groups/all/mcp", Era::Legacy).await;
    assert_eq!(names(&ada.tools().await.unwrap()), ["first__echo", "first__add"]);
    assert_eq!(gateway.status_as(ADA).status, 403);
    let metrics = |key| send(gateway.port, "GET /metrics", &[("X-API-Key", key)], b"").status;
    assert_eq!((metrics(ADA), metrics(ROOT)), (403, 200));
    assert_eq!(gateway.status_as(ROOT).status, 200);
}

/// Sends the head of a request and reads the head of its answer; it goes on until dropped.
pub(super) fn begin(port: u16, line: &str, headers: &[(&str, &str)]) -> TcpStream {
    let mut stream = begin_raw(port, line, headers);
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    stream
}

/// Sends the head of a request, and nothing else.
pub(super) fn begin_raw(port: u16, line: &str, headers: &[(&str, &str)]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = format!("{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream
}

#[test]
fn other_machines_come_in_by_the_keys_of_the_file() {
    let home = Home::new();
    let keys = json!({"ada": key(ADA, json!({}))});
    let config = json!({"mcpServers": {"it": rude()}, "switchboard": {"keys": keys}});
    let file = home.write("servers.json", &config.to_string());
    let args = ["serve", "--config", &file, "--host", "0.0.0.0", "--port", "0", "--no-cache"];
    let mut gateway = Switchboard::start(&args);
    let served = gateway.until_logged("serving http://0.0.0.0:");
    assert!(!gateway.logged.iter().any(|line| line.contains("no authentication")));
    let (_, port) = served.split_once("0.0.0.0:").unwrap();
    let port = port.split_once("/mcp").unwrap().0.parse().unwrap();
    assert_eq!(send(port, "GET /status", &[], b"").status, 401);
    assert_eq!(send(port, "GET /status", &[("X-API-Key", ADA)], b"").status, 200);
    let open = json!({"mcpServers": {"it": rude()}, "switchboard": {"keys": {"ada": key(ADA, json!({}))}, "anonymous": true}});
    let file = home.write("open.json", &open.to_string());
    let refused = run(&["serve", "--config", &file, "--host", "0.0.0.0", "--port", "0"], &[]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("--allow-unauthenticated"), "{}", refused.stderr);
}

/// The address is what was bound, whatever the file says now.
#[test]
fn a_changed_file_lets_nobody_in_from_other_machines_without_a_key() {
    let home = Home::new();
    let write = |section: Value| {
        let config = json!({"mcpServers": {"it": rude()}, "switchboard": section});
        let draft = home.write("draft.json", &config.to_string());
        let file = home.path.join("servers.json");
        std::fs::rename(draft, &file).unwrap();
        file.display().to_string()
    };
    let file = write(json!({"host": "0.0.0.0", "keys": {"ada": key(ADA, json!({}))}}));
    let mut gateway =
        Switchboard::start(&["serve", "--config", &file, "--port", "0", "--no-cache"]);
    let served = gateway.until_logged("serving http://0.0.0.0:");
    let (_, port) = served.split_once("0.0.0.0:").unwrap();
    let port = port.split_once("/mcp").unwrap().0.parse().unwrap();
    for section in [
        json!({"host": "127.0.0.1"}),
        json!({}),
        json!({"host": "0.0.0.0"}),
        json!({"host": "0.0.0.0", "allowUnauthenticated": true}),
    ] {
        write(section.clone());
        gateway.until_logged("any client that reaches this machine could connect");
        assert_eq!(send(port, "GET /status", &[], b"").status, 401, "{section}");
        assert_eq!(send(port, "GET /status", &[("X-API-Key", ADA)], b"").status, 200, "{section}");
    }
}

#[test]
fn that_no_key_is_needed_any_more_is_told() {
    let keys = json!({"keys": {"ada": key(ADA, json!({}))}});
    let mut gateway = keyed(&json!({"it": rude()}), keys);
    gateway.rewrite(&json!({"it": rude()}), &json!({}));
    gateway.process.until_logged("no key is needed any more");
    assert_eq!(send(gateway.port, "GET /status", &[], b"").status, 200);
}

#[test]
fn a_mistake_in_who_may_come_in_lets_nobody_in() {
    let home = Home::new();
    for section in [
        json!({"keys": ["not", "an", "object"]}),
        json!({"keys": {"ada": key(ADA, json!({"sevrers": ["it"]}))}}),
        json!({"anonymous": "perhaps"}),
    ] {
        let config = json!({"mcpServers": {"it": rude()}, "switchboard": section});
        let file = home.write("servers.json", &config.to_string());
        let refused = run(&["serve", "--config", &file, "--port", "0", "--no-cache"], &[]);
        assert_eq!(refused.code, Some(1), "{section}: {}", refused.stderr);
        assert!(refused.stderr.contains("servers.json:1"), "{}", refused.stderr);
    }
}

/// wire: HTTP-29
#[test]
fn a_web_page_with_a_key_works() {
    let page = "https://app.example";
    let keys = json!({"ada": key(ADA, json!({}))});
    let gateway = keyed(&json!({"it": rude()}), json!({"keys": keys, "allowedOrigins": [page]}));
    gateway.ready(&["it"]);
    let pages = [page, "http://localhost:6274"];
    let paths = ["/mcp", "/servers/it/mcp", "/status"];
    for (path, page) in paths.into_iter().flat_map(|path| pages.map(|page| (path, page))) {
        let asks = "authorization, content-type, mcp-protocol-version, mcp-session-id, x-api-key";
        let preflight = [
            ("Origin", page),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", asks),
        ];
        let passed = send(gateway.port, &format!("OPTIONS {path}"), &preflight, b"");
        assert_eq!(passed.status, 204, "{path}: {passed:?}");
        assert_eq!(passed.header("access-control-allow-origin"), Some(page));
        let allowed = passed.header("access-control-allow-headers").unwrap();
        for name in asks.split(", ") {
            assert!(allowed.split(", ").any(|allowed| allowed == name), "{name}: {allowed}");
        }
    }
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting()});
    for (shown, status) in [("wrong", 401), (ADA, 200)] {
        let headers = [("Origin", page), ("X-API-Key", shown)];
        let answer = post_to(gateway.port, "/mcp", &headers, hello.to_string().as_bytes());
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(page));
        let exposed = answer.header("access-control-expose-headers").unwrap();
        assert!(exposed.contains("mcp-session-id") && exposed.contains("www-authenticate"));
    }
}
