//! A gateway that is served on a port of this process, with the servers of a file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_gateway::authenticator::Hearing;
use switchboard_gateway::config::Surroundings;
use switchboard_gateway::console::Console;
use switchboard_gateway::fleet::FleetOptions;
use switchboard_gateway::gateway::{Gateway, Offered, Place};
use switchboard_gateway::plan::{Plan, Reading};
use switchboard_gateway::policy::KeyHash;
use switchboard_gateway::status::status;
use switchboard_net::client::{Client, ClientOptions};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::http::listen::{self, ListenOptions};
use switchboard_net::http::site::Sites;
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::revision::Era;
use tokio::net::TcpListener;

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
pub(crate) const ADA: &str = "key-of-ada-0123456789abcdef";
pub(crate) const BOB: &str = "key-of-bob-0123456789abcdef";

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A gateway until it is dropped.
pub(crate) struct Served {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) console: Arc<Console>,
    sites: Sites,
    pub(crate) address: SocketAddr,
    pub(crate) folder: PathBuf,
    _hearing: Hearing,
}

/// A server of a file that is one of the scripts of the tests, with these keys beside.
fn script(path: &str, args: &[&str], more: &Value) -> Value {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    let args = [&[&*path], args].concat();
    let mut server = json!({"command": "python3", "args": args});
    for (key, value) in more.as_object().unwrap() {
        server[key] = value.clone();
    }
    server
}

/// The test server of the binary, with these tools in its list.
pub(crate) fn rude_with(tools: &[&str], more: &Value) -> Value {
    script("../cli/tests/it/server.py", tools, more)
}

/// A server whose lists grow with what its user does.
pub(crate) fn personal(more: &Value) -> Value {
    script("tests/it/personal.py", &[], more)
}

/// A server that takes any spelling of a URI.
pub(crate) fn lenient(more: &Value) -> Value {
    script("tests/it/lenient.py", &[], more)
}

/// A key that may do what `grant` says, as a file has it.
pub(crate) fn key(key: &str, grant: Value) -> Value {
    let mut entry = grant;
    entry["hash"] = KeyHash::compute(key.as_bytes()).to_string().into();
    entry
}

pub(crate) fn fetch() -> Fetch {
    Fetch::new(FetchOptions::default()).unwrap()
}

/// A folder that no other test has.
fn folder() -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("gateway-{}-{number}", std::process::id());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

impl Served {
    /// The servers of a file with this section `switchboard`, once they are ready.
    pub(crate) async fn start(servers: &Value, section: &Value) -> Self {
        let names: Vec<_> = servers.as_object().unwrap().keys().map(String::as_str).collect();
        Self::start_with(servers, section, &names).await
    }

    /// The same, once these servers are ready.
    pub(crate) async fn start_with(servers: &Value, section: &Value, names: &[&str]) -> Self {
        let folder = folder();
        let plan = plan(&folder, servers, section);
        let stderr = Some(Arc::default());
        let options = FleetOptions { stderr, ..FleetOptions::default() };
        let gateway = Gateway::start(plan, options, |server| {
            server.server(std::env::vars_os().collect(), fetch(), None)
        });
        let gateway = gateway.unwrap();
        let console = Console::start(&gateway, None).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let places = gateway.places();
        let own = places.iter().cloned().map(|offered| site(&gateway, None, offered));
        let shown = places.iter().cloned().map(|offered| site(&gateway, Some(&console), offered));
        let sites = own.chain(shown).collect();
        let gate = Some(gateway.authenticator().gate(None));
        let sites = Sites::behind(gate, SiteOptions::default().guard, sites, console.pages());
        let files = vec![folder.join("servers.json")];
        console.follow_files(files, Surroundings::new(std::env::vars(), &folder));
        let base = format!("http://{address}");
        console.found_at(&base, &base, address.port(), std::slice::from_ref(&sites));
        let again = sites.clone();
        let hearing = gateway.authenticator().on_replace(move || again.recheck());
        let serving = sites.clone();
        let options = ListenOptions::default();
        tokio::spawn(listen::serve(listener, serving, options, std::future::pending()));
        let served = Self { gateway, console, sites, address, folder, _hearing: hearing };
        for name in names {
            let what = format!("{name} is ready");
            eventually(&what, || served.server(name)["state"] == "ready").await;
        }
        served
    }

    /// Follows another file from here on.
    pub(crate) fn rewrite(&self, servers: &Value, section: &Value) {
        self.gateway.apply(plan(&self.folder, servers, section)).unwrap();
    }

    /// Follows the file as it is, as `serve` does after a change.
    pub(crate) fn follow_file(&self) {
        let around = Surroundings::new(std::env::vars(), &self.folder);
        let reading = Reading::read(&[self.folder.join("servers.json")], &around);
        assert!(reading.is_sound(), "{:?}", reading.lines());
        self.gateway.apply(reading.plan).unwrap();
    }

    /// What is known of a server.
    pub(crate) fn server(&self, name: &str) -> Value {
        status(self.gateway.fleet(), &self.sites)["servers"][name].take()
    }

    pub(crate) async fn client(&self, path: &str, era: Era) -> Client {
        self.client_with(path, era, HeaderMap::new()).await
    }

    /// A client that shows this token with each request.
    pub(crate) async fn client_as(&self, token: &str, path: &str, era: Era) -> Client {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        self.client_with(path, era, headers).await
    }

    async fn client_with(&self, path: &str, era: Era, headers: HeaderMap) -> Client {
        let url = format!("http://{}{path}", self.address).parse().unwrap();
        let server = ServerTarget::url(url, Strategy::HttpOnly, headers, fetch());
        let options = ClientOptions::default().era(era);
        options.connect(server).await.unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.console.close();
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn plan(folder: &std::path::Path, servers: &Value, section: &Value) -> Plan {
    let file = folder.join("servers.json");
    let config = json!({"mcpServers": servers, "switchboard": section});
    std::fs::write(&file, config.to_string()).unwrap();
    let reading = Reading::read(&[file], &Surroundings::new(std::env::vars(), folder));
    assert!(reading.is_sound(), "{:?}", reading.lines());
    reading.plan
}

/// What the gateway offers, at its path; for the page of a console, if there is one.
fn site(gateway: &Gateway, console: Option<&Arc<Console>>, offered: Offered) -> Site {
    let Offered { place, backend, sharing, .. } = offered;
    let prefix = match &place {
        Place::All => String::new(),
        Place::Group(name) => format!("/groups/{name}"),
        Place::Server(name) => format!("/servers/{name}"),
    };
    let before = if console.is_some() { "/console" } else { "" };
    let path = format!("{before}{prefix}/mcp");
    let own = || gateway.authenticator().gate_at(Some(place.clone()), vec![path.clone()]);
    let gate = Some(console.map_or_else(own, |console| console.gate(place.clone())));
    let headers = console.map(|_| Console::headers()).unwrap_or_default();
    let other = SiteOptions::default().sse_path("").message_path("").ws_path("").headers(headers);
    Site::new(backend, other.path(path).authenticator(gate).sharing(sharing))
}

/// Waits for something that this process has a part in.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < until, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn names(list: &[Value]) -> Vec<&str> {
    list.iter().map(|item| item["name"].as_str().unwrap()).collect()
}

pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result:.300}"))
}

/// The number of the process that answers.
pub(crate) async fn pid(client: &Client, tool: &str) -> u32 {
    let answer = client.call_tool(tool, json!({})).await.unwrap();
    text(&answer).parse().unwrap()
}
