//! The console as a browser meets it: sign-in, what each key sees, MCP by cookie, the feed, and
//! what must never be told.

use serde_json::{Value, json};

use crate::browser::{Browser, Feed, OWN, ask, assert_safe, send, two_servers};
use crate::served::{ADA, BOB, ERAS, Served, eventually, key, names, rude_with, text};

#[tokio::test]
async fn strangers_get_the_page_and_nothing_of_the_gateway() {
    // C-31, C-32, C-33, C-34, B-9
    let gateway = two_servers().await;
    let at = gateway.address;
    let root = ask(at, ("GET", "/"), &[("accept", "text/html,*/*")], "").await;
    assert_eq!((root.status, root.header("location")), (302, "/console/"));
    // A client that has forgotten the path is no browser.
    let lost = ask(at, ("POST", "/"), &[("x-api-key", ADA)], "{}").await;
    assert_eq!(lost.status, 404, "{}", lost.body);
    assert!(lost.body.contains("the MCP endpoint is"), "{}", lost.body);
    let page = ask(at, ("GET", "/console/"), &[], "").await;
    assert_eq!((page.status, page.header("cache-control")), (200, "no-cache"));
    assert_safe(&page);
    let paths = "me overview servers servers/small servers/small/stderr calls calls/1 calls/open sessions \
         charts snippets capture config config/versions found keys accounts as/ada/servers";
    for path in paths.split(' ') {
        let reply = ask(at, ("GET", &format!("/console/api/{path}")), &[], "").await;
        assert_eq!((reply.status, &*reply.code()), (401, "sign_in"), "{path}");
        assert_safe(&reply);
    }
    let feed = ask(at, ("GET", "/console/feed?views=servers"), &[], "").await;
    assert_eq!(feed.status, 401);
    assert_safe(&feed);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for path in ["/console/mcp", "/console/servers/small/mcp"] {
        let reply = ask(at, ("POST", path), &OWN, ping).await;
        assert_eq!(reply.status, 401, "{path}");
        assert_safe(&reply);
    }
    let foreign = ask(at, ("GET", "/console/"), &[("host", "evil.example")], "").await;
    assert_eq!(foreign.status, 403);
    let shown = json!({"key": ADA}).to_string();
    for headers in [
        &[("x-switchboard", "console")][..],
        &[("sec-fetch-site", "same-origin")],
        &[("sec-fetch-site", "cross-site"), ("x-switchboard", "console")],
        &[("origin", "http://127.0.0.1:1"), ("x-switchboard", "console")],
    ] {
        let reply = ask(at, ("POST", "/console/api/sign-in"), headers, &shown).await;
        assert_eq!((reply.status, &*reply.code()), (403, "foreign"), "{headers:?}");
    }
}

#[tokio::test]
async fn each_key_sees_what_it_is_granted_and_hears_of_nothing_else() {
    // C-1, C-2, C-6, C-9, C-38, B-9
    let gateway = two_servers().await;
    let client = gateway.client_as(ADA, "/mcp", ERAS[0]).await;
    client.call_tool("withheld__pid", json!({})).await.unwrap();
    client.call_tool("small__pid", json!({})).await.unwrap();
    let own = gateway.client_as(BOB, "/mcp", ERAS[0]).await;
    own.call_tool("small__echo", json!({"text": "a"})).await.unwrap();
    let (ada, bob) = (
        Browser::sign_in(&gateway, json!({"key": ADA})).await,
        Browser::sign_in(&gateway, json!({"key": BOB})).await,
    );
    let (all, some) = (ada.read("servers").await, bob.read("servers").await);
    assert_eq!(names(all["rows"].as_array().unwrap()), ["small", "withheld"]);
    assert_eq!(names(some["rows"].as_array().unwrap()), ["small"]);
    assert_eq!(all["rows"][0]["tools"], 2);
    assert_eq!(some["rows"][0]["tools"], 1, "{some}");
    assert_eq!((&all["rows"][0]["calls"], &some["rows"][0]["calls"]), (&json!(2), &json!(1)));
    assert!(some["rows"][0].get("children").is_none());
    assert_eq!(ada.read("me").await["isWhole"], true);
    let me = bob.read("me").await;
    assert_eq!(
        (&me["principal"], &me["isWhole"], &me["by"]),
        (&json!("bob"), &json!(false), &json!("key"))
    );
    for (path, status, code) in [
        ("servers/withheld", 404, "not_found"),
        ("servers/withheld/stderr", 404, "not_found"),
        ("servers/small/stderr", 403, "not_granted"),
        ("charts?server=withheld", 404, "not_found"),
    ] {
        let reply = bob.get(path).await;
        assert_eq!((reply.status, &*reply.code()), (status, code), "{path}");
    }
    let (calls, own) = (ada.read("calls?method=tools/call").await, bob.read("calls").await);
    assert_eq!(calls["rows"].as_array().unwrap().len(), 3, "{calls}");
    let own = own["rows"].as_array().unwrap();
    assert!(!own.is_empty() && own.iter().all(|row| row["principal"] == "bob"), "{own:?}");
    let other = calls["rows"].as_array().unwrap().iter().find(|row| row["principal"] == "ada");
    let other = other.unwrap()["id"].as_str().unwrap();
    assert_eq!(bob.get(&format!("calls/{other}")).await.status, 404);
    let overview = bob.read("overview").await;
    assert_eq!(overview["totals"]["servers"], 1);
    assert_eq!(overview["totals"]["sessions"], 1);
    assert_eq!(overview["totals"]["callsPerMinute"], 1, "{overview}");
    for path in "overview servers servers/small calls sessions charts me".split(' ') {
        let said = bob.read(path).await.to_string();
        assert!(!said.contains("withheld") && !said.contains("ada"), "{path}: {said}");
    }
}

#[tokio::test]
async fn the_page_calls_tools_over_mcp_with_the_grants_of_who_is_signed_in() {
    // C-5, C-28, C-33
    let gateway = two_servers().await;
    for era in ERAS {
        let bob = Browser::sign_in(&gateway, json!({"key": BOB})).await;
        let client = bob.client("/console/mcp", era).await;
        assert_eq!(names(&client.tools().await.unwrap()), ["small__echo"]);
        let answer = client.call_tool("small__echo", json!({"text": "hello"})).await.unwrap();
        assert_eq!(text(&answer), "hello");
        let operator = Browser::operator(&gateway).await;
        let client = operator.client("/console/servers/withheld/mcp", era).await;
        client.call_tool("pid", json!({})).await.unwrap();
        let rows = operator.read("calls?server=withheld&name=pid").await;
        assert_eq!(rows["rows"][0]["principal"], "operator", "{rows}");
    }
    let bob = Browser::sign_in(&gateway, json!({"key": BOB})).await;
    let cookie = ("cookie", &*bob.cookie);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let hidden = "/console/servers/withheld/mcp";
    let reply = ask(bob.address, ("POST", hidden), &[cookie, OWN[0], OWN[1]], ping).await;
    assert_eq!(reply.status, 404);
    let unmarked = ask(bob.address, ("POST", "/console/mcp"), &[cookie, OWN[0]], ping).await;
    assert_eq!(unmarked.status, 403);
    for path in ["/mcp", "/status", "/servers/small/mcp"] {
        let reply = ask(bob.address, ("POST", path), &[cookie, OWN[0], OWN[1]], ping).await;
        assert_eq!(reply.status, 401, "{path}: a cookie of the console opens the console alone");
    }
}

#[tokio::test]
async fn a_call_is_shown_with_what_took_how_long() {
    // C-6, C-8
    let gateway = two_servers().await;
    let client = gateway.client_as(ADA, "/mcp", ERAS[1]).await;
    client.call_tool("small__echo", json!({"text": "a"})).await.unwrap();
    client.call_tool("small__echo", json!({})).await.unwrap_err();
    let operator = Browser::operator(&gateway).await;
    let failed = operator.read("calls?outcome=failed").await;
    assert_eq!(failed["rows"].as_array().unwrap().len(), 1, "{failed}");
    let rows = operator.read("calls?server=small&name=ECHO&outcome=ok&principal=ada").await;
    let row = &rows["rows"][0];
    assert_eq!((&row["name"], &row["target"]), (&json!("small__echo"), &json!("echo")));
    assert_eq!(row["era"], "modern");
    assert!(row["client"].is_string(), "{row}");
    let one = operator.read(&format!("calls/{}", row["id"].as_str().unwrap())).await;
    assert_eq!(one["call"], *row);
    let spans = one["spans"].as_array().unwrap();
    let kinds: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert!(kinds.starts_with(&["gateway"]) && kinds.ends_with(&["server", "way_back"]), "{one}");
    let sum: f64 = spans.iter().map(|span| span["ms"].as_f64().unwrap()).sum();
    let whole = row["ms"].as_f64().unwrap();
    assert!((sum - whole).abs() < 0.01, "{sum} of {whole}");
    let lines = operator.get("calls?format=jsonl").await;
    assert_eq!(lines.header("content-type"), "application/x-ndjson");
    assert!(lines.body.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert_eq!(operator.get("calls?slower=9999999").await.json()["rows"], json!([]));
    assert_eq!(operator.get("calls?outcome=nice").await.status, 400);
}

#[tokio::test]
async fn what_a_server_says_on_stderr_is_shown_to_whoever_may_use_everything() {
    // C-3
    let gateway = two_servers().await;
    let file = gateway.folder.join("go");
    std::fs::write(&file, "").unwrap();
    let client = gateway.client_as(ADA, "/mcp", ERAS[0]).await;
    client.call_tool("withheld__wait", json!({"file": file})).await.unwrap();
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    let logs = gateway.gateway.fleet().stderr().unwrap();
    eventually("the line is read", || !logs.after("withheld", 0).lines.is_empty()).await;
    let said = ada.read("servers/withheld/stderr").await;
    let next = said["next"].as_u64().unwrap();
    let lines = said["lines"].as_array().unwrap();
    assert!(lines.iter().any(|line| line["text"] == "waiting for go"), "{said}");
    let more = ada.read(&format!("servers/withheld/stderr?after={next}")).await;
    assert_eq!((&more["lines"], &more["lost"]), (&json!([]), &json!(0)));
}

#[tokio::test]
async fn the_feed_tells_what_changes_and_ends_with_the_key() {
    // C-29, C-38
    let gateway = two_servers().await;
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    let bob = Browser::sign_in(&gateway, json!({"key": BOB})).await;
    let mut all = ada.feed("views=servers,calls,sessions,charts").await;
    let mut some = bob.feed("views=servers,calls,sessions,charts").await;
    let head = all.until("\r\n\r\n").await.to_lowercase();
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    all.until("event: servers").await;
    assert!(all.until("\"withheld\"").await.contains("event: servers"));
    some.until("\"small\"").await;
    let client = gateway.client_as(ADA, "/mcp", ERAS[0]).await;
    client.call_tool("withheld__pid", json!({})).await.unwrap();
    let own = gateway.client_as(BOB, "/mcp", ERAS[0]).await;
    own.call_tool("small__echo", json!({"text": "a"})).await.unwrap();
    all.until("withheld__pid").await;
    some.until("small__echo").await;
    let last = all.seen.rsplit("\nid: ").next().unwrap().lines().next().unwrap().to_owned();
    drop(all);
    client.call_tool("small__pid", json!({})).await.unwrap();
    let headers = [("cookie", &*ada.cookie), ("last-event-id", &*last)];
    let stream = send(ada.address, ("GET", "/console/feed?views=calls"), &headers, "").await;
    let mut again = Feed { stream, seen: String::new() };
    assert!(!again.until("small__pid").await.contains("event: reset"), "{}", again.seen);
    let headers = [("cookie", &*ada.cookie), ("last-event-id", "another-7")];
    let stream = send(ada.address, ("GET", "/console/feed?views=calls"), &headers, "").await;
    Feed { stream, seen: String::new() }.until("event: reset").await;
    let servers = json!({"small": rude_with(&["pid"], &json!({}))});
    gateway.rewrite(&servers, &json!({"keys": {"ada": key(ADA, json!({}))}}));
    let said = some.rest().await;
    assert!(said.contains("event: end") && said.contains("\"sign_in\""), "{said}");
    assert!(!said.contains("withheld"), "{said}");
    assert_eq!(bob.get("me").await.status, 401);
    gateway.console.close();
    assert!(again.rest().await.contains("\"stopping\""));
}

#[tokio::test]
async fn no_secret_is_in_any_answer_or_event() {
    // C-36, B-9
    let canaries =
        ["canary-env-1234", "canary-arg-1234", "canary-header-1234", "canary-query-1234"];
    let [env, arg, header, query] = canaries;
    let local = rude_with(&["wait", "--token", arg], &json!({"env": {"API_TOKEN": env}}));
    let far = json!({
        "url": format!("http://127.0.0.1:9/mcp?key={query}"),
        "headers": {"Authorization": format!("Bearer {header}")},
    });
    let section = json!({"keys": {"ada": key(ADA, json!({}))}});
    let servers = json!({"local": local, "far": far});
    let gateway = Served::start_with(&servers, &section, &["local"]).await;
    let file = gateway.folder.join(env);
    std::fs::write(&file, "").unwrap();
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    assert_eq!(ada.change("POST", "capture", r#"{"server": "local"}"#).await.status, 200);
    let client = gateway.client_as(ADA, "/mcp", ERAS[0]).await;
    client.call_tool("local__wait", json!({"file": file})).await.unwrap();
    let logs = gateway.gateway.fleet().stderr().unwrap();
    eventually("the line is read", || !logs.after("local", 0).lines.is_empty()).await;
    let mut said = String::new();
    let paths = "me overview servers servers/local servers/far servers/local/stderr calls calls/1 \
                 calls/2 calls/3 sessions charts calls?format=jsonl config config/versions found keys \
                 calls/open capture snippets";
    for path in paths.split_ascii_whitespace() {
        said.push_str(&ada.get(path).await.body);
    }
    let mut feed = ada.feed("views=servers,calls,sessions,charts,stderr&server=local").await;
    feed.until("event: charts").await;
    said.push_str(feed.until("event: stderr").await);
    assert!(said.contains("\"captured\""), "{said}");
    assert!(said.contains("${API_TOKEN}") && said.contains("waiting for ${API_TOKEN}"), "{said}");
    for canary in canaries.into_iter().chain([ADA]) {
        assert!(!said.contains(canary), "{canary}: {said}");
    }
}

#[tokio::test]
async fn a_console_that_is_switched_off_is_not_there() {
    // C-26
    let servers = json!({"small": rude_with(&[], &json!({}))});
    let gateway = Served::start(&servers, &json!({})).await;
    let operator = Browser::operator(&gateway).await;
    assert_eq!(operator.read("me").await["canWrite"], true);
    gateway.rewrite(&servers, &json!({"console": "read"}));
    assert_eq!(operator.read("me").await["canWrite"], false);
    gateway.console.require_keys();
    gateway.rewrite(&servers, &json!({}));
    assert_eq!(operator.get("me").await.status, 404, "anybody comes in without a key");
    gateway.rewrite(&servers, &json!({"keys": {"ada": key(ADA, json!({}))}}));
    assert_eq!(operator.get("me").await.status, 200);
    gateway.rewrite(&servers, &json!({"console": false}));
    assert_eq!(operator.get("me").await.status, 404);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let headers = [("cookie", &*operator.cookie), OWN[0], OWN[1]];
    let mcp = ask(gateway.address, ("POST", "/console/mcp"), &headers, ping).await;
    assert_eq!(mcp.status, 404, "{}", mcp.body);
    let page = ask(gateway.address, ("GET", "/console/"), &[], "").await;
    assert_eq!(page.status, 404);
}
