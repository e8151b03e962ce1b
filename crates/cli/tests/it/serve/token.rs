//! Where clients with access tokens find the gateway: behind proxies, at every path.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use switchboard_net::client::ClientOptions;
use switchboard_net::http::fetch::{Fetch, FetchBody, FetchOptions};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_testkit::issuer::Issuer;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;

use super::access::keyed;
use super::{ERAS, Gateway, demo, rude, rude_with};
use crate::named::Home;
use crate::web::{post_to, send};

const PAGE: &str = "/.well-known/oauth-protected-resource";

/// A section that accepts the tokens of this issuer, and what else it has.
fn accepting(issuer: &Issuer, more: Value) -> Value {
    let mut section = more;
    section["oauth"]["issuers"]["corp"] = json!({"issuer": issuer.url, "grant": {}});
    json!({ "switchboard": section })
}

/// What a request with these headers hears of the URL of `/mcp`: by metadata and challenge.
fn told(gateway: &Gateway, headers: &[(&str, &str)]) -> String {
    let page = send(gateway.port, &format!("GET {PAGE}/mcp"), headers, b"");
    let denied = post_to(gateway.port, "/mcp", headers, b"{}");
    let challenge = denied.header("www-authenticate").unwrap_or_default().to_owned();
    if page.status == 401 {
        assert_eq!((denied.status, &*challenge), (401, "Bearer"), "{denied:?}");
        return "nothing".to_owned();
    }
    let resource = page.message()["resource"].as_str().unwrap().to_owned();
    let base = resource.strip_suffix("/mcp").unwrap();
    assert_eq!(challenge, format!("Bearer resource_metadata=\"{base}{PAGE}/mcp\""));
    resource
}

// wire: OR-4, OA-16
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_listed_proxies_say_where_clients_find_us() {
    let issuer = Issuer::start().await;
    let start = |trusted: &[&str], args: &[&str]| {
        let hosts = ["gw.example", "127.0.0.1"];
        let section = json!({"trustedProxies": trusted, "allowedHosts": hosts});
        Gateway::start_with(Home::new(), &json!({"a": rude()}), &accepting(&issuer, section), args)
    };
    let proxied = [("X-Forwarded-Host", "gw.example"), ("X-Forwarded-Proto", "https")];
    let standard = [("Forwarded", "for=192.0.2.1;host=gw.example;proto=https")];
    let public = "https://gw.example/mcp".to_owned();
    let trusting = [start(&["127.0.0.0/8"], &[]), start(&[], &["--trusted-proxy", "127.0.0.1"])];
    for gateway in &trusting {
        let own = format!("http://127.0.0.1:{}/mcp", gateway.port);
        assert_eq!(told(gateway, &proxied), public);
        assert_eq!(told(gateway, &standard), public);
        assert_eq!(told(gateway, &[]), own);
        let below = [proxied[0], proxied[1], ("X-Forwarded-Prefix", "/tools")];
        assert_eq!(told(gateway, &below), "https://gw.example/tools/mcp");
        let kept = [("Host", "gw.example"), ("X-Forwarded-Proto", "https")];
        assert_eq!(told(gateway, &kept), public, "a proxy that passes the Host on");
        // A client may send through the proxy what the proxy does not replace.
        for forged in [
            &[("X-Forwarded-Host", "evil.example"), ("X-Forwarded-Proto", "https")][..],
            &[proxied[0], proxied[1], ("Forwarded", "host=evil.example")],
            &[proxied[0], ("X-Forwarded-Proto", "javascript")],
            &[proxied[0], ("X-Forwarded-Prefix", "//evil.example")],
        ] {
            assert_eq!(told(gateway, forged), "nothing", "{forged:?}");
        }
    }
    let gateway = start(&["10.0.0.0/8"], &[]);
    let own = format!("http://127.0.0.1:{}/mcp", gateway.port);
    for spoofed in [&proxied[..], &standard, &[("X-Forwarded-Prefix", "/tools")]] {
        assert_eq!(told(&gateway, spoofed), own, "{spoofed:?}");
    }
    // The audience goes by the same URL: what a client says does not make a token fit.
    let token = format!("Bearer {}", issuer.token("ada", &public, &json!({})));
    let showing = [proxied[0], proxied[1], ("Authorization", &*token)];
    assert_eq!(post_to(gateway.port, "/mcp", &showing, b"{}").status, 401);
    assert_eq!(post_to(trusting[0].port, "/mcp", &showing, b"{}").status, 400, "it is let in");
    // Nor does a prefix that the proxy passes on: the neighbour's token is for the neighbour.
    let token = issuer.token("ada", "https://gw.example/neighbour/mcp", &json!({}));
    let token = format!("Bearer {token}");
    let prefix = ("X-Forwarded-Prefix", "/neighbour");
    let showing = [proxied[0], proxied[1], prefix, ("Authorization", &*token)];
    assert_eq!(post_to(trusting[0].port, "/mcp", &showing, b"{}").status, 401);
}

// wire: OS-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_facade_that_comes_later_waits_for_the_next_start() {
    let issuer = Issuer::start().await;
    let mut section = accepting(&issuer, json!({"publicUrl": "https://gw.example"}));
    let servers = json!({"a": rude()});
    let mut gateway = Gateway::start_with(Home::new(), &servers, &section, &[]);
    section["switchboard"]["oauth"]["facade"] = json!({"issuer": "corp", "clientId": "gw"});
    gateway.write(&super::file(&servers, &section));
    gateway.process.until_logged("a facade that was added");
    gateway.process.until_logged("configuration is in force");
    let page = send(gateway.port, &format!("GET {PAGE}/mcp"), &[], b"").message();
    assert_eq!(page["authorization_servers"], json!([issuer.url]), "where something answers");
}

/// A proxy that speaks TLS as `localhost`, in front of a port.
async fn tls_proxy() -> (TcpListener, TlsAcceptor, FetchOptions) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    let extra_roots = vec![certificate.der().clone()];
    let trusting = FetchOptions::default().extra_roots(extra_roots);
    (listener, TlsAcceptor::from(Arc::new(config)), trusting)
}

async fn ask(fetch: &Fetch, method: Method, url: &str) -> Response<FetchBody> {
    let mut request = Request::new("{}".into());
    (*request.method_mut(), *request.uri_mut()) = (method, url.parse().unwrap());
    request.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
    fetch.send(request).await.unwrap()
}

// wire: OR-1, OR-2, OR-5, OR-11, AUTH-30, AUTH-31, AUTH-32
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_challenge_and_audience_are_right_at_every_path_behind_a_tls_proxy() {
    let issuer = Issuer::start().await;
    let (listener, acceptor, trusting) = tls_proxy().await;
    let public = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let servers = json!({
        "files": rude_with(&["pid"], &json!({})),
        "my notes": rude_with(&["pid"], &json!({})),
        "größe+%2F": rude_with(&["pid"], &json!({})),
    });
    let groups = json!({"all": ["*"], "a.b-c_d": ["my notes"]});
    let section = accepting(&issuer, json!({"publicUrl": public, "groups": groups}));
    let gateway = Gateway::start_in(Home::new(), &servers, &section);
    let port = gateway.port;
    let proxying = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut secure = acceptor.accept(stream).await.unwrap();
                let mut plain = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                _ = copy_bidirectional(&mut secure, &mut plain).await;
            });
        }
    });
    let fetch = Fetch::new(trusting).unwrap();
    let paths = [
        "/mcp",
        "/servers/files/mcp",
        "/servers/my%20notes/mcp",
        "/servers/gr%C3%B6%C3%9Fe%2B%252F/mcp",
        "/groups/all/mcp",
        "/groups/a.b-c_d/mcp",
    ];
    for path in paths {
        let denied = ask(&fetch, Method::POST, &format!("{public}{path}")).await;
        let page = format!("{public}{PAGE}{path}");
        let challenge = format!("Bearer resource_metadata=\"{page}\"");
        assert_eq!(denied.status(), 401);
        assert_eq!(denied.headers()["www-authenticate"], challenge);
        let found = ask(&fetch, Method::GET, &page).await.into_body().collect().await;
        let found: Value = serde_json::from_slice(&found.unwrap().to_bytes()).unwrap();
        assert_eq!(found["resource"], format!("{public}{path}"));
        let token = issuer.token("ada", found["resource"].as_str().unwrap(), &json!({}));
        for other in paths {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
            let url = format!("{public}{other}").parse().unwrap();
            let server = ServerTarget::url(url, Strategy::HttpOnly, headers, fetch.clone());
            for era in ERAS {
                let options = ClientOptions::default().era(era);
                let client = options.connect(server.clone()).await;
                assert_eq!(client.is_ok(), path == other, "{path} {other} {era:?}");
            }
        }
    }
    proxying.abort();
}

// wire: OR-5, OR-20, OA-24
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_learns_the_rule_and_the_log_the_reason_but_nobody_the_token() {
    let issuer = Issuer::start().await;
    let section = accepting(&issuer, json!({"publicUrl": "https://gw.example"}));
    let mut gateway = Gateway::start_in(Home::new(), &json!({"a": rude()}), &section);
    let now = issuer.claims("ada", "", &json!({}))["iat"].as_u64().unwrap();
    let door = "https://gw.example/mcp";
    let stranger = Issuer::start().await;
    for (what, token, reason) in [
        ("over", issuer.token("ada", door, &json!({"exp": now - 100})), "exp"),
        ("too early", issuer.token("ada", door, &json!({"nbf": now + 100})), "nbf"),
        ("for another", issuer.token("ada", "https://other.example", &json!({})), "aud"),
        ("of a stranger", stranger.token("ada", door, &json!({})), "issuer"),
        ("opaque", "neither-key-nor-token".to_owned(), "JWT"),
    ] {
        let shown = format!("Bearer {token}");
        let denied = post_to(gateway.port, "/mcp", &[("Authorization", &*shown)], b"{}");
        assert_eq!(denied.status, 401, "{what}");
        let text = String::from_utf8_lossy(&denied.body).into_owned();
        assert_eq!(text, "the access token is not valid here; sign in again\n", "{what}");
        let challenge = denied.header("www-authenticate").unwrap();
        assert!(challenge.contains("error=\"invalid_token\""), "{what}: {challenge}");
        let line = gateway.process.until_logged("access token refused");
        assert!(line.contains(reason), "{what}: {line}");
        let signature = token.rsplit('.').next().unwrap();
        assert!(!line.contains(&token) && !line.contains(signature), "{what}: {line}");
        let hash: Vec<_> = line.split("token=").nth(1).into_iter().flat_map(str::chars).collect();
        let digits = hash.iter().take_while(|sign| sign.is_ascii_hexdigit()).count();
        assert!(digits == 8 || what == "for another", "{what}: {line}");
    }
}

/// A request of a modern client with this token, by hand.
fn ask_as(gateway: &Gateway, token: &str, method: &str, params: Value) -> Value {
    let mut params = params;
    let tasks = json!({"io.modelcontextprotocol/tasks": {}});
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": tasks},
    });
    let bearer = format!("Bearer {token}");
    let named = params.get("name").or_else(|| params.get("taskId")).and_then(Value::as_str);
    let named = named.map(str::to_owned);
    let mut headers = vec![
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", method),
        ("Authorization", &bearer),
    ];
    headers.extend(named.as_deref().map(|name| ("Mcp-Name", name)));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    post_to(gateway.port, "/mcp", &headers, body.as_bytes()).message()
}

// wire: OA-23, MRTR-8, TASK-8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_user_has_open_is_nothing_to_the_token_of_another() {
    let issuer = Issuer::start().await;
    let mut section = json!({"publicUrl": "https://gw.example"});
    let groups = json!({"all": {}, "few": {"servers": ["new"]}});
    section["oauth"]["issuers"]["corp"] =
        json!({"issuer": issuer.url, "claims": {"group": groups}});
    let servers = json!({"new": demo(&["--era", "modern"]), "old": demo(&["--era", "legacy"])});
    let gateway = keyed(&servers, section);
    gateway.ready(&["new", "old"]);
    let token = |user: &str, group: &str| {
        issuer.token(user, "https://gw.example/mcp", &json!({"group": group}))
    };
    let [ada, bob, few] = [token("ada", "all"), token("bob", "all"), token("eve", "few")];

    // A call that waits for input.
    for tool in ["old__test_elicitation", "new__test_input_required_result_elicitation"] {
        let call = json!({"name": tool, "arguments": {"message": "Who?"}});
        let asked = ask_as(&gateway, &ada, "tools/call", call.clone())["result"].clone();
        let mut again = call;
        again["requestState"] = asked["requestState"].clone();
        for name in asked["inputRequests"].as_object().unwrap().keys() {
            let content = json!({"name": "Ann", "response": "Ann"});
            again["inputResponses"][name] = json!({"action": "accept", "content": content});
        }
        let theirs = ask_as(&gateway, &bob, "tools/call", again.clone());
        let why = theirs["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("requestState"), "{tool}: {theirs}");
        let own = ask_as(&gateway, &ada, "tools/call", again);
        assert!(own["result"]["content"].to_string().contains("Ann"), "{tool}: {own}");
    }

    // A task.
    for server in ["old", "new"] {
        let call = json!({"name": format!("{server}__slow_compute"), "arguments": {"seconds": 60}});
        let made = ask_as(&gateway, &ada, "tools/call", call);
        let id = json!({"taskId": made["result"]["taskId"].as_str().expect("a task")});
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let theirs = ask_as(&gateway, &bob, method, id.clone());
            assert_eq!(theirs["error"]["code"], -32602, "{server} {method}: {theirs}");
        }
        let renewed =
            issuer.token("ada", "https://gw.example/mcp", &json!({"group": "all", "jti": 2}));
        let own = ask_as(&gateway, &renewed, "tasks/get", id.clone());
        assert_eq!(own["result"]["status"], "working", "{server}: {own}");
        ask_as(&gateway, &ada, "tasks/cancel", id);
    }

    // A place in a list: it goes on with what the user has themselves.
    let place = json!({"cursor": "0:old"});
    let count = |token: &str| {
        let list = ask_as(&gateway, token, "tools/list", place.clone());
        let tools = list["result"]["tools"].as_array().expect("a list").clone();
        tools.iter().filter(|tool| tool["name"].as_str().unwrap().starts_with("old__")).count()
    };
    assert!(count(&ada) > 0);
    assert_eq!(count(&few), 0);
}
