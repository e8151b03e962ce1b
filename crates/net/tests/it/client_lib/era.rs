//! Which era a server turns out to speak.

use std::time::Duration;

use http::HeaderMap;
use serde_json::json;
use switchboard_net::client::{CallError, Client, ClientOptions, ConnectError, call_once};
use switchboard_net::http::fetch::FetchError;
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::failure::Failure;
use switchboard_proto::revision::Era;
use switchboard_testkit::caller::LEGACY;
use switchboard_testkit::http::{HttpServer, welcome};
use switchboard_testkit::within;

use super::{MODERN, at, child, connected, discovered, legacy, modern};
use crate::upstream::{fetch, journal};

/// wire: NEG-3, LIF-1, LIF-2
#[tokio::test]
async fn a_legacy_child_that_answers_the_question_is_kept() {
    let journal = journal();
    let client = within(connected(&journal, ClientOptions::default())).await;
    assert_eq!((client.era(), client.server()["name"].as_str()), (Era::Legacy, Some("scripted")));
    client.ping().await.unwrap();
    let said: Vec<_> = journal
        .lines()
        .iter()
        .filter_map(|line| line.split(' ').nth(1).map(str::to_owned))
        .collect();
    assert_eq!(said[1..], ["server/discover", "initialize", "notifications/initialized", "ping"]);
    within(client.close()).await;
    journal.all_gone().await;
}

/// wire: NEG-3, NEG-7
#[tokio::test]
async fn a_child_that_dies_of_the_question_is_started_again() {
    let journal = journal();
    let client = within(Client::connect(child(&journal, &["fragile"]))).await.unwrap();
    assert_eq!(client.era(), Era::Legacy);
    assert_eq!(journal.pids().len(), 2);
    within(client.close()).await;
    journal.all_gone().await;
}

/// wire: NEG-3, NEG-8
#[tokio::test]
async fn a_child_that_stays_silent_is_replaced() {
    let journal = journal();
    // Longer than a child takes to begin, even on a busy machine.
    let options = ClientOptions::default().probe_timeout(Duration::from_secs(1));
    let client = within(options.connect(child(&journal, &["mute"]))).await.unwrap();
    assert_eq!((client.era(), journal.pids().len()), (Era::Legacy, 2));
    within(client.close()).await;
    journal.all_gone().await;
}

/// wire: NEG-3, NEG-10
#[tokio::test]
async fn a_child_that_the_question_has_pinned_to_an_era_is_replaced() {
    let journal = journal();
    let client = within(Client::connect(child(&journal, &["pins"]))).await.unwrap();
    assert_eq!((client.era(), journal.pids().len()), (Era::Legacy, 2));
    within(client.close()).await;
    journal.all_gone().await;
}

/// wire: OLD-7
#[tokio::test]
async fn a_server_that_answers_with_the_stream_of_the_oldest_transport_is_met_by_it() {
    let mut server = HttpServer::start().await;
    let connecting = Client::connect(at(&server));
    let (client, _stream) = tokio::join!(connecting, async {
        let mut stray = server.post("server/discover").await.stream().await;
        stray.write("event: endpoint\ndata: /stray\n\n").await;
        let mut stream = server.get().await.stream().await;
        stream.write("event: endpoint\ndata: /messages\n\n").await;
        let hello = server.post("initialize").await;
        assert_eq!(hello.path, "/messages");
        let result = welcome(LEGACY);
        let answer = json!({"jsonrpc": "2.0", "id": hello.message()["id"], "result": result});
        hello.answer(202, &[], "").await;
        stream.event(&answer).await;
        stream
    });
    assert_eq!(client.unwrap().era(), Era::Legacy);
}

/// wire: NEG-3, MOD-2
#[tokio::test]
async fn a_modern_child_is_not_greeted() {
    let journal = journal();
    let client = Client::connect(child(&journal, &["modern"]));
    let client = within(client).await.unwrap();
    assert_eq!((client.era(), client.revision()), (Era::Modern, MODERN));
    let echoed = client.call_tool("echo", json!({"k": 1})).await.unwrap();
    assert_eq!(echoed["structuredContent"], json!({"k": 1}));
    assert!(!journal.lines().iter().any(|line| line.contains("initialize")));
    within(client.close()).await;
    journal.all_gone().await;
}

/// wire: NEG-9
#[tokio::test]
async fn what_is_remembered_is_not_asked_again() {
    let first = journal();
    let client = within(connected(&first, ClientOptions::default())).await;
    let remembered = Some(client.remembered());
    within(client.close()).await;
    let second = journal();
    let options = ClientOptions::default().remembered(remembered);
    let client = within(connected(&second, options)).await;
    assert!(!second.lines().iter().any(|line| line.contains("discover")));
    within(client.close()).await;
}

/// wire: NEG-5
#[tokio::test]
async fn an_endpoint_that_knows_no_such_method_is_greeted() {
    let mut server = HttpServer::start().await;
    let client = legacy(&mut server, ClientOptions::default()).await;
    assert_eq!(client.era(), Era::Legacy);
    let (pinged, ()) = tokio::join!(client.ping(), async {
        let hit = server.post("ping").await;
        assert_eq!(hit.header("mcp-session-id"), Some("s1"));
        hit.result(json!({})).await;
    });
    pinged.unwrap();
    let ((), ()) = tokio::join!(client.close(), async {
        server.delete().await.answer(204, &[], "").await;
    });
}

/// wire: NEG-5, META-1, HDR-1, HDR-2
#[tokio::test]
async fn a_modern_endpoint_gets_an_envelope_with_each_request() {
    let mut server = HttpServer::start().await;
    let options =
        ClientOptions::default().on_elicitation(|_| async { Ok(json!({"action": "decline"})) });
    let client = modern(&mut server, options).await;
    assert_eq!(client.server()["name"], "scripted");
    let (called, ()) = tokio::join!(client.call_tool("x", json!({})), async {
        let hit = server.post("tools/call").await;
        assert_eq!(hit.header("mcp-name"), Some("x"));
        assert_eq!(hit.header("mcp-protocol-version"), Some(MODERN));
        let meta = &hit.message()["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], MODERN);
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "switchboard");
        let can = json!({"elicitation": {"form": {}}});
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], can);
        hit.result(json!({"resultType": "complete", "content": []})).await;
    });
    assert_eq!(called.unwrap()["content"], json!([]));
}

/// wire: NEG-6
#[tokio::test]
async fn a_refusal_to_let_us_in_says_nothing_about_the_era() {
    let mut server = HttpServer::start().await;
    let connecting = Client::connect(at(&server));
    let refuse = async {
        let hit = server.post("server/discover").await;
        hit.answer(401, &[("www-authenticate", "Bearer realm=x")], "who are you").await;
    };
    let (connected, ()) = tokio::join!(connecting, refuse);
    let error = connected.unwrap_err();
    let text = "HTTP 401: who are you (www-authenticate: Bearer realm=x)";
    assert_eq!(error.to_string(), text);
    let ConnectError::Failed(CallError::Failed(Failure::HttpStatus { status, challenge, .. })) =
        error
    else {
        panic!("{error:?}")
    };
    assert_eq!((status, challenge.as_deref()), (401, Some("Bearer realm=x")));
    assert_eq!(server.waiting(|_| true), 0, "nothing else was tried");
}

/// wire: NEG-6
#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_that_says_so() {
    let server = HttpServer::start().await;
    let url = at(&server);
    drop(server);
    let error = within(Client::connect(url)).await.unwrap_err();
    let ConnectError::Failed(CallError::Failed(Failure::Unreachable { source })) = error else {
        panic!("{error:?}")
    };
    let fetch: Option<&FetchError> = source.error().downcast_ref();
    assert!(fetch.is_some_and(FetchError::is_connect), "{source:?}");
}

/// wire: LIF-1
#[tokio::test]
async fn a_version_that_nobody_knows_ends_the_connection() {
    let mut server = HttpServer::start().await;
    let options = ClientOptions::default().era(Era::Legacy);
    let connecting = options.connect(at(&server));
    let (connected, ()) = tokio::join!(connecting, async {
        server.post("initialize").await.welcome(None, "2099-01-01").await;
    });
    assert!(matches!(connected, Err(ConnectError::NoCommonRevision { .. })), "{connected:?}");
}

#[tokio::test]
async fn one_call_can_be_made_without_more_ado() {
    let journal = journal();
    let params = json!({"name": "echo", "arguments": {"k": 2}});
    let server = child(&journal, &[]);
    let result = call_once(server, "tools/call", params, ClientOptions::default());
    assert_eq!(within(result).await.unwrap()["structuredContent"], json!({"k": 2}));
    journal.all_gone().await;
}

#[tokio::test]
async fn a_connection_that_is_not_wanted_any_more_leaves_no_child() {
    let journal = journal();
    let connecting = Client::connect(child(&journal, &["mute"]));
    // Once the child has been asked, and before anybody gives up on it.
    let mut asked = Box::pin(journal.saw("discover"));
    let mut connecting = Box::pin(connecting);
    std::future::poll_fn(|cx| {
        assert!(connecting.as_mut().poll(cx).is_pending());
        asked.as_mut().poll(cx)
    })
    .await;
    drop(connecting);
    journal.all_gone().await;
}

/// wire: NEG-5
#[tokio::test]
async fn an_endpoint_that_answers_anything_with_nothing_is_greeted() {
    let mut server = HttpServer::start().await;
    let options = ClientOptions::default().era(Era::Modern);
    let (refused, ()) = tokio::join!(options.connect(at(&server)), async {
        server.post("server/discover").await.result(json!({})).await;
    });
    let why = "its answer names no versions".to_owned();
    assert_eq!(refused.unwrap_err(), ConnectError::NotModern { why });
    let connecting = Client::connect(at(&server));
    let (client, ()) = tokio::join!(connecting, async {
        server.post("server/discover").await.result(json!({})).await;
        server.greet(None, LEGACY).await;
    });
    assert_eq!(client.unwrap().era(), Era::Legacy);
}

/// Servers drop what they want to say before they are listened to.
#[tokio::test]
async fn calls_wait_until_the_server_is_listened_to() {
    let mut server = HttpServer::start().await;
    let options = ClientOptions::default().era(Era::Legacy);
    let target = at(&server);
    let call = tokio::spawn(call_once(target, "tools/list", json!({}), options));
    server.post("initialize").await.welcome(Some("s1"), LEGACY).await;
    server.post("notifications/initialized").await.answer(202, &[], "").await;
    let first = server.take(|_| true).await;
    assert_eq!(first.method, "GET");
    let _stream = first.stream().await;
    server.post("tools/list").await.result(json!({"tools": []})).await;
    server.delete().await.answer(204, &[], "").await;
    within(call).await.unwrap().unwrap();
}

/// wire: OLD-7, NEG-2
#[tokio::test]
async fn a_modern_server_is_met_even_where_the_oldest_transport_is_tried_first() {
    let mut server = HttpServer::start().await;
    let url = server.url("/mcp");
    let target = ServerTarget::url(url, Strategy::SseFirst, HeaderMap::new(), fetch());
    let connecting = Client::connect(target.clone());
    let (client, ()) = tokio::join!(connecting, async {
        server.get().await.answer(405, &[], "").await;
        let hello = server.post("initialize").await;
        let error = json!({"code": -32022, "message": "no", "data": {"supported": [MODERN]}});
        let id = &hello.message()["id"];
        hello.json(400, &json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
        server.post("server/discover").await.result(discovered()).await;
    });
    assert_eq!(client.unwrap().era(), Era::Modern);
    // A server that is neither is refused in the words that came first.
    let connecting = Client::connect(target);
    let (refused, ()) = tokio::join!(connecting, async {
        server.get().await.answer(405, &[], "").await;
        server.post("initialize").await.answer(403, &[], "first").await;
        server.post("server/discover").await.answer(404, &[], "second").await;
    });
    assert!(refused.unwrap_err().to_string().contains("first"));
}
