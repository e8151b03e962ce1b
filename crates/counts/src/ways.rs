//! Whole calls: a client in memory, the HTTP endpoint, and what stands behind it.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_gateway::fleet::FleetOptions;
use switchboard_gateway::gateway::{Gateway, Place};
use switchboard_gateway::plan::{Plan, ServerPlan};
use switchboard_gateway::policy::Access;
use switchboard_gateway::status::status;
use switchboard_gateway::token::IssuerRule;
use switchboard_net::backend::Backend;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::http::site::{Site, SiteOptions, Sites};
use switchboard_net::server::{Server, Tool};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{ServerTarget, Strategy, Target};
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;
use switchboard_testkit::issuer::Issuer;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::caller::{DEADLINE, MemoryCaller};
use crate::echo::EchoServer;
use crate::server::serve_http;
use crate::{Work, warm};

/// The key of the clients of a gateway that has keys.
const KEY: &str = "key-of-ada-0123456789abcdef";
/// Where the clients of a gateway that accepts tokens think that it is.
const PUBLIC_URL: &str = "https://gw.example";

/// A call of a server of the library.
pub fn server(era: Era, size: usize) -> Work {
    let runtime = runtime();
    let caller = runtime.block_on(async {
        let echo = Tool::new("echo").run(async |args: Value, _| {
            args["text"].as_str().expect("calls have a text").to_owned()
        });
        let server = Server::builder("echo", "1.0.0").tool(echo).build().expect("a sound server");
        MemoryCaller::connect(one_site(server), era, "").await
    });
    calls(runtime, caller, "tools/call", echo_params("echo", size))
}

/// A call through the bridge, to a child process of the same era.
pub fn bridge_to_stdio(era: Era, program: &str) -> Work {
    let runtime = runtime();
    let mut command = Command::new(program);
    command.args = vec![if era == Era::Modern { "modern" } else { "legacy" }.into()];
    let caller = runtime.block_on(async {
        let bridge = Bridge::new(
            ServerTarget::command(command, Vec::new()),
            Children::PerSession,
            Arc::default(),
        );
        MemoryCaller::connect(one_site(bridge), era, "").await
    });
    calls(runtime, caller, "tools/call", echo_params("echo", 100))
}

/// A call through the bridge, to a server over HTTP.
pub fn bridge_to_http(client: Era, server: Era, size: usize) -> Work {
    let runtime = runtime();
    let caller = runtime.block_on(async {
        let url = serve_http(EchoServer::new(server == Era::Modern, 1)).await;
        let target = ServerTarget::url(
            url.parse().expect("a URL"),
            Strategy::HttpOnly,
            HeaderMap::new(),
            fetch(),
        );
        let bridge = Bridge::new(target, Children::PerSession, Arc::default());
        MemoryCaller::connect(one_site(bridge), client, "").await
    });
    calls(runtime, caller, "tools/call", echo_params("echo", size))
}

/// A call at `/mcp` of a gateway that everybody may use, with one server over HTTP.
pub fn gateway(era: Era, size: usize) -> Work {
    let runtime = runtime();
    let caller = runtime.block_on(connect_gateway(era, 1, Access::default(), ""));
    calls(runtime, caller, "tools/call", echo_params("it__echo", size))
}

/// The same with a key.
pub fn gateway_with_key(era: Era) -> Work {
    let runtime = runtime();
    let header = format!("authorization: Bearer {KEY}\r\n");
    let access = Access::default().with_key("ada", KEY.as_bytes());
    let caller = runtime.block_on(connect_gateway(era, 1, access, &header));
    calls(runtime, caller, "tools/call", echo_params("it__echo", 100))
}

/// The same with an access token, which the gateway has checked before.
pub fn gateway_with_token(era: Era) -> Work {
    let runtime = runtime();
    let (caller, issuer) = runtime.block_on(async {
        let issuer = Issuer::start().await;
        let rule = IssuerRule {
            name: "corp".to_owned(),
            issuer: issuer.url.clone(),
            ..IssuerRule::default()
        };
        let access = Access::default().with_issuer(rule, Some(PUBLIC_URL.to_owned()));
        let token = issuer.token("ada", &format!("{PUBLIC_URL}/mcp"), &json!({}));
        let header = format!("authorization: Bearer {token}\r\n");
        (connect_gateway(era, 1, access, &header).await, issuer)
    });
    let mut work = calls(runtime, caller, "tools/call", echo_params("it__echo", 100));
    Box::new(move || {
        let _issuer = &issuer;
        work();
    })
}

/// The first page of `tools/list` at `/mcp` of a gateway whose server has so many tools.
pub fn gateway_list(era: Era, tools: usize) -> Work {
    let runtime = runtime();
    let caller = runtime.block_on(connect_gateway(era, tools, Access::default(), ""));
    calls(runtime, caller, "tools/list", json!({}))
}

/// One thread, so that what happens is the same each time.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn fetch() -> Fetch {
    Fetch::new(FetchOptions::default()).expect("plain options")
}

fn echo_params(tool: &str, size: usize) -> Value {
    json!({"name": tool, "arguments": {"text": "x".repeat(size)}})
}

/// Answers never become streams because they are late, as some are in valgrind.
fn site_options() -> SiteOptions {
    let limits = Limits { stream_after: DEADLINE, ..Limits::default() };
    SiteOptions::default().limits(limits)
}

fn one_site(backend: Arc<dyn Backend>) -> Sites {
    let options = site_options();
    let guard = options.guard.clone();
    Sites::new(guard, vec![Site::new(backend, options)], Vec::new())
}

/// The same call again and again.
fn calls(runtime: Runtime, mut caller: MemoryCaller, method: &str, params: Value) -> Work {
    let mut call = runtime.block_on(caller.prepare(method, params));
    warm(move || runtime.block_on(caller.call(&mut call)))
}

/// A client of a gateway with one server of the same era, `it`, once that is ready.
async fn connect_gateway(era: Era, tools: usize, access: Access, more: &str) -> MemoryCaller {
    let url = serve_http(EchoServer::new(era == Era::Modern, tools)).await;
    let url = url.parse().expect("a URL");
    let target = Target::Url { url, strategy: Strategy::HttpOnly, headers: HeaderMap::new() };
    let mut plan = Plan { access, ..Plan::default() };
    plan.servers.insert("it".to_owned(), ServerPlan::new("it", target));
    let gateway = Gateway::start(plan, FleetOptions::default(), |server| {
        server.server(Vec::new(), fetch(), None)
    })
    .expect("a sound plan");
    let all = gateway.places().into_iter().find(|offered| offered.place == Place::All);
    let all = all.expect("every gateway has /mcp");
    let gate = gateway.authenticator().gate_at(Some(Place::All), vec!["/mcp".to_owned()]);
    let options = site_options().authenticator(Some(gate)).sharing(all.sharing);
    let guard = options.guard.clone();
    let sites = Sites::new(guard, vec![Site::new(all.backend, options)], Vec::new());
    let starting = async {
        while status(gateway.fleet(), &sites)["servers"]["it"]["state"] != "ready" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, starting).await.expect("the server is ready");
    MemoryCaller::connect(sites, era, more).await
}
