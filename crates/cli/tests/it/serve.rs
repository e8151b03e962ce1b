//! `serve`: many servers behind one address, good ones and bad ones.

use http::{HeaderMap, HeaderName};
use serde_json::{Value, json};
use switchboard_net::client::{Client, ClientOptions};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::revision::Era;

use crate::named::Home;
use crate::process::{PATIENCE, SERVER, Switchboard, until};
use crate::web::send;

mod access;
mod bad;
mod bounds;
#[cfg(feature = "redis")]
mod cluster;
mod common;
mod console;
mod credential;
mod exposed;
mod failed;
mod feature;
mod flood;
mod full;
mod grant;
mod hide;
mod limit;
mod list;
mod load;
mod loops;
mod owner;
mod place;
mod policy;
mod reach;
mod recover;
mod reload;
mod search;
mod seeing;
mod sleep;
mod start;
mod task;
mod token;
mod turn;

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// A gateway that runs until it is dropped.
pub(crate) struct Gateway {
    pub(crate) process: Switchboard,
    pub(crate) port: u16,
    pub(crate) home: Home,
}

/// The built-in server as a server of a file.
pub(crate) fn demo(args: &[&str]) -> Value {
    let args = [&["demo"], args].concat();
    json!({"command": env!("CARGO_BIN_EXE_switchboard"), "args": args})
}

/// The test server as one.
pub(crate) fn rude() -> Value {
    json!({"command": SERVER[0], "args": [SERVER[1], "wait"]})
}

/// The test server, with these tools in its list and these keys beside.
pub(crate) fn rude_with(tools: &[&str], more: &Value) -> Value {
    let args = [&[SERVER[1]], tools].concat();
    let mut server = json!({"command": SERVER[0], "args": args});
    for (key, value) in more.as_object().unwrap() {
        server[key] = value.clone();
    }
    server
}

/// A server that starts when a file is there.
pub(crate) fn late(home: &Home, args: &str) -> Value {
    let (file, program) = (home.path.join("go"), env!("CARGO_BIN_EXE_switchboard"));
    let wait = format!("while [ ! -e '{}' ]; do sleep 0.02; done", file.display());
    json!({"command": "sh", "args": ["-c", format!("{wait}; exec '{program}' demo {args}")]})
}

impl Gateway {
    pub(crate) fn start(servers: &Value) -> Self {
        Self::start_in(Home::new(), servers, &json!({}))
    }

    pub(crate) fn start_in(home: Home, servers: &Value, more: &Value) -> Self {
        Self::start_with(home, servers, more, &[])
    }

    pub(crate) fn start_with(home: Home, servers: &Value, more: &Value, args: &[&str]) -> Self {
        let file = home.write("servers.json", &file(servers, more));
        let usual = ["serve", "--config", &file, "--port", "0", "--no-cache"];
        let mut process = Switchboard::start(&[&usual, args].concat());
        let port = process.port();
        Self { process, port, home }
    }

    /// A client of all servers together, once these are ready.
    pub(crate) async fn client(&self, era: Era, ready: &[&str]) -> Client {
        self.until_ready(ready);
        self.client_at("/mcp", era, ClientOptions::default()).await
    }

    pub(crate) async fn client_at(&self, path: &str, era: Era, options: ClientOptions) -> Client {
        let options = options.era(era);
        options.connect(server(&format!("http://127.0.0.1:{}{path}", self.port))).await.unwrap()
    }

    /// A client that sends these headers with each request.
    pub(crate) async fn client_with(&self, era: Era, headers: &[(&str, &str)]) -> Client {
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            sent.append(name, value.parse().unwrap());
        }
        let url = format!("http://127.0.0.1:{}/mcp", self.port).parse().unwrap();
        let fetch = Fetch::new(FetchOptions::default()).unwrap();
        let server = ServerTarget::url(url, Strategy::HttpOnly, sent, fetch);
        let options = ClientOptions::default().era(era);
        options.connect(server).await.unwrap()
    }

    /// Waits until a server is in this state.
    pub(crate) fn until_state(&self, name: &str, state: &str) {
        until(&format!("{name} is {state}"), || self.status()["servers"][name]["state"] == state);
    }

    /// Waits until these servers can be called.
    pub(crate) fn until_ready(&self, names: &[&str]) {
        until(&format!("{names:?} are ready"), || {
            let status = self.status();
            // One that sleeps early on a busy machine was ready, and wakes for a call.
            let can_be_called = |state: &Value| state == "ready" || state == "asleep";
            names.iter().all(|name| can_be_called(&status["servers"][name]["state"]))
        });
    }

    /// Puts another file in the place of the one that is followed, as editors
    /// do, and waits until it is in force.
    pub(crate) fn rewrite(&mut self, servers: &Value, more: &Value) {
        self.write(&file(servers, more));
        self.process.until_logged("configuration is in force");
    }

    /// The same with any text, and without waiting.
    pub(crate) fn write(&self, text: &str) {
        let draft = self.home.write("servers.json~", text);
        std::fs::rename(draft, self.home.path.join("servers.json")).unwrap();
    }

    /// Waits until so many calls are open at a server.
    pub(crate) async fn until_calls(&self, server: &str, wanted: u64) {
        let calls = || self.status()["servers"][server]["calls"] == wanted;
        eventually(&format!("{server} has {wanted} calls"), calls).await;
    }

    pub(crate) fn status(&self) -> Value {
        send(self.port, "GET /status", &[], b"").message()
    }
}

/// A file with these servers and something besides.
pub(crate) fn file(servers: &Value, more: &Value) -> String {
    let mut config = json!({"mcpServers": servers});
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config.to_string()
}

/// Waits for something that clients on this runtime have a part in.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < until, "never: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

pub(crate) fn server(url: &str) -> ServerTarget {
    let fetch = Fetch::new(FetchOptions::default()).unwrap();
    ServerTarget::url(url.parse().unwrap(), Strategy::HttpOnly, HeaderMap::new(), fetch)
}

pub(crate) fn names(list: &[Value]) -> Vec<&str> {
    list.iter().map(|item| item["name"].as_str().unwrap()).collect()
}

/// The number of the process that answers.
pub(crate) async fn pid(client: &Client, tool: &str) -> u32 {
    let answer = client.call_tool(tool, json!({})).await.unwrap();
    text(&answer).parse().unwrap()
}

pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result:.300}"))
}
