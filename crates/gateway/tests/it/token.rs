//! Clients that come in by access token, of an issuer with real signatures.

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use serde_json::{Value, json};
use switchboard_net::auth::bounded;
use switchboard_net::client::CallError;
use switchboard_testkit::issuer::Issuer;

use super::served::{ADA, ERAS, Served, fetch, key, names, personal, pid, rude_with, text};

/// A gateway that accepts the tokens of an issuer, with this `oauth` beside it.
async fn guarded(issuer: &Issuer, servers: &Value, oauth: Value, grant: Value) -> Served {
    let mut section = json!({
        "publicUrl": "https://gw.example/",
        "keys": {"ada": key(ADA, json!({}))},
        "groups": {"all": ["*"]},
        "oauth": oauth,
    });
    section["oauth"]["issuers"]["corp"] = grant;
    section["oauth"]["issuers"]["corp"]["issuer"] = issuer.url.clone().into();
    Served::start(servers, &section).await
}

const DOOR: &str = "https://gw.example/mcp";

struct Reply {
    status: u16,
    headers: HeaderMap,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Served {
    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Reply {
        let url = format!("http://{}{path}", self.address);
        let mut request = Request::builder().method(method).uri(url);
        request = request.header("content-type", "application/json");
        request = request.header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let body = Bytes::from(text);
        let response = fetch().send_once(request.body(body).unwrap()).await.unwrap();
        Reply { status: response.status().as_u16(), headers: response.headers().clone() }
    }

    async fn greet(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        self.send(Method::POST, path, headers, &hello).await
    }

    async fn shows(&self, path: &str, token: &str) -> u16 {
        self.greet(path, &[("authorization", &format!("Bearer {token}"))]).await.status
    }
}

fn files() -> Value {
    json!({"files": rude_with(&["pid", "arguments"], &json!({})), "notes": rude_with(&["pid"], &json!({}))})
}

// wire: OR-1, OR-2, OR-3, OR-5, AUTH-30, AUTH-31
#[tokio::test]
async fn every_path_has_metadata_and_a_challenge_that_leads_there() {
    let issuer = Issuer::start().await;
    let scopes = json!({"scopes": {"mcp:read": {}, "mcp:write": {"implies": ["mcp:read"]}}});
    let served = guarded(&issuer, &files(), scopes, json!({})).await;
    for path in ["/mcp", "/servers/files/mcp", "/groups/all/mcp", "/servers/none%20such/mcp", ""] {
        let page = format!("/.well-known/oauth-protected-resource{path}");
        let url = format!("http://{}{page}", served.address);
        let found = bounded::get(&fetch(), &url, 9999).await.unwrap();
        assert_eq!(
            Value::Object(found.object),
            json!({
                "resource": format!("https://gw.example{path}"),
                "authorization_servers": [issuer.url],
                "bearer_methods_supported": ["header"],
                "resource_name": "Switchboard",
                "scopes_supported": ["mcp:read"],
            })
        );
        let head = served
            .send(Method::HEAD, &page, &[("origin", "https://x.example")], &Value::Null)
            .await;
        assert_eq!((head.status, head.header("access-control-allow-origin")), (200, "*"));
        assert_eq!(head.header("cache-control"), "max-age=300");
        let evil = served.send(Method::GET, &page, &[("host", "evil.example")], &Value::Null).await;
        assert_eq!(evil.status, 403);
    }
    for path in ["/mcp", "/servers/files/mcp", "/groups/all/mcp"] {
        let challenge = format!(
            "Bearer resource_metadata=\"https://gw.example/.well-known/oauth-protected-resource{path}\", scope=\"mcp:read\""
        );
        let bare = served.greet(path, &[]).await;
        assert_eq!((bare.status, bare.header("www-authenticate")), (401, &*challenge));
        let bad = served.greet(path, &[("authorization", "Bearer eyJhbGciOiJub25lIn0.e30.")]).await;
        let challenge = format!("{challenge}, error=\"invalid_token\"");
        assert_eq!((bad.status, bad.header("www-authenticate")), (401, &*challenge));
    }
    let nowhere = served.greet("/servers/none/mcp", &[]).await;
    assert_eq!(nowhere.status, 401, "what is there is not told");
}

// wire: OR-7, OR-9, OR-10, OR-11, OR-19, OA-12, OA-13, OA-16
#[tokio::test]
async fn tokens_open_the_door_that_they_are_for_and_keys_stay_keys() {
    let issuer = Issuer::start().await;
    let grant = json!({"grant": {}, "audiences": ["api://gw"]});
    let served = guarded(&issuer, &files(), json!({}), grant).await;
    let token = |audience: &str, changes: Value| issuer.token("ada", audience, &changes);
    for (audience, door, at_server) in [
        (DOOR, 200, 401),
        ("https://gw.example/servers/files/mcp", 401, 200),
        ("https://gw.example", 200, 200),
        ("api://gw", 200, 200),
        ("https://other.example/mcp", 401, 401),
    ] {
        let token = token(audience, json!({}));
        assert_eq!(served.shows("/mcp", &token).await, door, "{audience}");
        assert_eq!(served.shows("/servers/files/mcp", &token).await, at_server, "{audience}");
    }
    let now = issuer.claims("ada", DOOR, &json!({}))["iat"].as_u64().unwrap();
    for (changes, status) in [
        (json!({"exp": now - 70}), 401),
        (json!({"exp": now - 50}), 200),
        (json!({"nbf": now + 90}), 401),
        (json!({"aud": ["x", DOOR]}), 200),
        (json!({"aud": null}), 401),
        (json!({"sub": null}), 401),
        (json!({"iss": "https://other.example"}), 401),
    ] {
        assert_eq!(served.shows("/mcp", &token(DOOR, changes.clone())).await, status, "{changes}");
    }
    let good = token(DOOR, json!({}));
    let bearer = format!("bearer {good}");
    let (header, rest) = good.split_once('.').unwrap();
    assert_eq!(served.greet("/mcp", &[("authorization", &bearer)]).await.status, 200);
    for (what, headers, status) in [
        ("two headers", &[("authorization", &*bearer), ("authorization", &*bearer)][..], 400),
        ("no token", &[("authorization", "Bearer")], 400),
        ("two tokens", &[("authorization", &format!("Bearer {good}, {good}"))], 400),
        ("another scheme", &[("authorization", "Basic YTpi")], 401),
        ("as a key", &[("x-api-key", &*good)], 401),
        (
            "two parts",
            &[("authorization", &format!("Bearer {header}.{}", rest.split('.').next().unwrap()))],
            401,
        ),
        ("five parts", &[("authorization", &format!("Bearer {good}.a.b"))], 401),
        ("too long", &[("authorization", &format!("Bearer {good}{}", "A".repeat(17 << 10)))], 401),
        ("a key", &[("authorization", &format!("Bearer {ADA}"))], 200),
        ("a wrong key", &[("authorization", "Bearer sb_wrong")], 401),
    ] {
        let reply = served.greet("/mcp", headers).await;
        assert_eq!(reply.status, status, "{what}");
        if status == 400 {
            assert!(reply.header("www-authenticate").contains("invalid_request"), "{what}");
        }
    }
    let query = served.greet(&format!("/mcp?access_token={good}"), &[]).await;
    assert_eq!(query.status, 401, "tokens in a query are not looked at");
}

// wire: OR-19
#[tokio::test]
async fn a_jwt_that_fails_is_not_tried_as_a_key() {
    let issuer = Issuer::start().await;
    let jwt = issuer.token("ada", "https://other.example/mcp", &json!({}));
    let section = json!({
        "publicUrl": "https://gw.example/",
        "keys": {"ada": key(&jwt, json!({}))},
        "oauth": {"issuers": {"corp": {"issuer": issuer.url, "grant": {}}}},
    });
    let served = Served::start(&files(), &section).await;
    assert_eq!(served.shows("/mcp", &jwt).await, 401);
    assert_eq!(served.greet("/mcp", &[("x-api-key", &jwt)]).await.status, 200);
}

// wire: OR-8, OA-23
#[tokio::test]
async fn a_session_is_of_one_user_whichever_token_they_show() {
    let issuer = Issuer::start().await;
    let served = guarded(&issuer, &files(), json!({}), json!({"grant": {}})).await;
    let token = |user: &str, number: u64| issuer.token(user, DOOR, &json!({"jti": number}));
    let ada = format!("Bearer {}", token("ada", 1));
    let hello = served.greet("/mcp", &[("authorization", &ada)]).await;
    let session = hello.header("mcp-session-id").to_owned();
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    for (shown, status) in [
        (ada.clone(), 200),
        (format!("Bearer {}", token("ada", 2)), 200),
        (format!("Bearer {}", token("bob", 3)), 404),
        (format!("Bearer {ADA}"), 404),
    ] {
        let headers = [("authorization", &*shown), ("mcp-session-id", &*session)];
        let reply = served.send(Method::POST, "/mcp", &headers, &ping).await;
        assert_eq!(reply.status, status);
        if status == 404 {
            let reply = served.send(Method::DELETE, "/mcp", &headers, &Value::Null).await;
            assert_eq!(reply.status, 404);
        }
    }
}

// wire: OR-8, OA-23
#[tokio::test]
async fn two_users_of_a_server_that_knows_people_do_not_meet() {
    let issuer = Issuer::start().await;
    let servers = json!({"mine": personal(&json!({"process": "per-user"}))});
    let served = guarded(&issuer, &servers, json!({}), json!({"grant": {}})).await;
    for era in ERAS {
        let [ada, bob] = ["ada", "bob"].map(|user| issuer.token(user, DOOR, &json!({})));
        let (ada, bob) =
            (served.client_as(&ada, "/mcp", era).await, served.client_as(&bob, "/mcp", era).await);
        let first = pid(&ada, "mine__pid").await;
        assert_ne!(first, pid(&bob, "mine__pid").await, "{era:?}");
        assert_eq!(first, pid(&ada, "mine__pid").await, "{era:?}");
    }
}

// wire: OR-6, OR-14, OR-15, OR-16, AUTH-35
#[tokio::test]
async fn tools_of_other_scopes_are_listed_and_their_call_is_challenged() {
    let issuer = Issuer::start().await;
    let oauth = json!({"scopes": {
        "mcp:read": {"includeTools": ["*__pid"]},
        "mcp:write": {"servers": ["files"], "implies": ["mcp:read"]},
    }});
    let served = guarded(&issuer, &files(), oauth, json!({})).await;
    for era in ERAS {
        let reads = issuer.token("ada", "https://gw.example", &json!({"scope": "mcp:read"}));
        let client = served.client_as(&reads, "/mcp", era).await;
        let tools = client.tools().await.unwrap();
        assert_eq!(
            names(&tools),
            ["files__echo", "files__pid", "files__arguments", "notes__pid"],
            "{era:?}"
        );
        client.call_tool("files__pid", json!({})).await.unwrap();
        let refused = client.call_tool("files__arguments", json!({})).await.unwrap_err();
        let shown = refused.to_string();
        assert!(shown.contains("403") && shown.contains("insufficient_scope"), "{shown}");
        assert!(shown.contains("scope=\"mcp:read mcp:write\""), "{shown}");
        let writes = issuer.token("ada", "https://gw.example", &json!({"scope": "mcp:write"}));
        let client = served.client_as(&writes, "/mcp", era).await;
        client.call_tool("files__arguments", json!({})).await.unwrap();
        client.call_tool("notes__pid", json!({})).await.unwrap();
        let none: Result<Value, CallError> = client.call_tool("notes__arguments", json!({})).await;
        assert!(none.unwrap_err().to_string().contains("Unknown tool"), "{era:?}");
    }
}

// wire: OR-16
#[tokio::test]
async fn hidden_tools_of_other_scopes_are_unknown() {
    let issuer = Issuer::start().await;
    let oauth = json!({"missingScope": "hide", "scopes": {
        "mcp:read": {"includeTools": ["*__pid"]}, "mcp:write": {"servers": ["files"]},
    }});
    let served = guarded(&issuer, &files(), oauth, json!({})).await;
    let reads = issuer.token("ada", DOOR, &json!({"scope": "mcp:read"}));
    for era in ERAS {
        let client = served.client_as(&reads, "/mcp", era).await;
        assert_eq!(names(&client.tools().await.unwrap()), ["files__pid", "notes__pid"]);
        let refused = client.call_tool("files__arguments", json!({})).await.unwrap_err();
        assert!(refused.to_string().contains("Unknown tool"), "{refused}");
    }
}

// wire: OR-17, AUTH-33, OA-17
#[tokio::test]
async fn a_clients_token_is_not_sent_on() {
    let issuer = Issuer::start().await;
    let mut upstream = switchboard_testkit::http::HttpServer::start().await;
    let url = upstream.url("/mcp").to_string();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = std::sync::Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let hit = upstream.take(|_| true).await;
            let mut text = format!("{} {:?} ", hit.path, hit.headers);
            text.push_str(&String::from_utf8_lossy(&hit.body));
            told.lock().unwrap().push(text);
            let message: Value = serde_json::from_slice(&hit.body).unwrap_or_default();
            let result = match message["method"].as_str() {
                Some("initialize") => {
                    hit.welcome(None, "2025-06-18").await;
                    continue;
                }
                Some("tools/list") => {
                    json!({"tools": [{"name": "get", "inputSchema": {"type": "object"}}]})
                }
                Some("tools/call") => json!({"content": [{"type": "text", "text": "done"}]}),
                Some(_) if message["id"].is_null() => {
                    hit.answer(202, &[], "").await;
                    continue;
                }
                Some(_) => {
                    let error = json!({"code": -32601, "message": "no"});
                    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
                    hit.json(200, &answer).await;
                    continue;
                }
                None => {
                    hit.answer(405, &[], "").await;
                    continue;
                }
            };
            hit.result(result).await;
        }
    });
    let servers = json!({"far": {"url": url, "passHeaders": ["x-tenant"]}});
    let served = guarded(&issuer, &servers, json!({}), json!({"grant": {}})).await;
    for era in ERAS {
        let token = issuer.token("ada", DOOR, &json!({}));
        let client = served.client_as(&token, "/mcp", era).await;
        let answer = client.call_tool("far__get", json!({})).await.unwrap();
        assert_eq!(text(&answer), "done");
        let seen = seen.lock().unwrap();
        assert!(seen.len() > 2);
        let signature = token.rsplit_once('.').unwrap().1;
        assert!(!seen.iter().any(|text| text.contains(signature) || text.contains(&token)));
    }
}

// wire: OR-13
#[tokio::test]
async fn an_issuer_that_cannot_be_asked_is_no_reason_to_sign_in_again() {
    let issuer = Issuer::start().await;
    let introspect = json!({"clientId": "gw", "clientSecret": "s3cret"});
    let grant = json!({"grant": {}, "introspect": introspect});
    let served = guarded(&issuer, &files(), json!({}), grant).await;
    issuer.activate("opaque-token", issuer.claims("ada", DOOR, &json!({})));
    assert_eq!(served.shows("/mcp", "opaque-token").await, 200);
    assert_eq!(served.shows("/servers/files/mcp", "opaque-token").await, 401);
    assert_eq!(served.shows("/mcp", "other-token").await, 401);
    issuer.set_down(true);
    let unclear = served.greet("/mcp", &[("authorization", "Bearer third-token")]).await;
    assert_eq!((unclear.status, unclear.header("retry-after")), (503, "5"));
    assert_eq!(unclear.header("www-authenticate"), "");
}

#[tokio::test]
async fn a_reload_ends_what_an_issuer_opened_that_is_gone() {
    let issuer = Issuer::start().await;
    let servers = files();
    let served = guarded(&issuer, &servers, json!({}), json!({"grant": {}})).await;
    let bearer = format!("Bearer {}", issuer.token("ada", DOOR, &json!({})));
    let hello = served.greet("/mcp", &[("authorization", &bearer)]).await;
    let session = hello.header("mcp-session-id").to_owned();
    let section = |grant: Value| {
        json!({"publicUrl": "https://gw.example", "groups": {"all": ["*"]}, "keys": {"ada": key(ADA, json!({}))},
               "oauth": {"issuers": {"corp": {"issuer": issuer.url, "grant": grant}}}})
    };
    served.rewrite(&servers, &section(json!({"servers": ["notes"]})));
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    let headers = [("authorization", &*bearer), ("mcp-session-id", &*session)];
    assert_eq!(served.send(Method::POST, "/mcp", &headers, &ping).await.status, 200);
    let client = served.client_as(&bearer[7..], "/mcp", ERAS[0]).await;
    assert_eq!(names(&client.tools().await.unwrap()), ["notes__echo", "notes__pid"]);
    let without = json!({"groups": {"all": ["*"]}, "keys": {"ada": key(ADA, json!({}))}});
    served.rewrite(&servers, &without);
    assert_eq!(served.send(Method::POST, "/mcp", &headers, &ping).await.status, 401);
    assert_eq!(served.shows("/mcp", ADA).await, 200);
}
