//! The examples that serve.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;
use switchboard_net::client::{CallOptions, ClientOptions, ListenFilter};
use switchboard_net::proto::revision::Era;
use switchboard_net::reexports::http::{HeaderMap, HeaderValue};
use switchboard_net::upstream::Strategy;

use tokio::sync::mpsc;

use crate::process::{ERAS, STDIO, Served, command, connect, within};

#[tokio::test]
async fn the_stdio_server_counts_prompts_and_reads() {
    for era in ERAS {
        let client = connect(command(&[STDIO]), era, ClientOptions::default()).await;
        let counted = client.call_tool("count", json!({"text": "two words", "what": "words"}));
        assert_eq!(counted.await.unwrap()["structuredContent"], json!({"count": 2}));
        let wrong = client.call_tool("count", json!({"text": "x", "what": "sheep"}));
        let wrong = wrong.await.unwrap();
        assert_eq!(wrong["isError"], true);
        assert!(wrong["content"][0]["text"].as_str().unwrap().contains("/what: "), "{wrong}");
        let prompt = client.prompt("shorten", json!({"text": "so long"})).await.unwrap();
        let said = &prompt["messages"][0]["content"]["text"];
        assert_eq!(*said, "Say it in half the words: so long");
        let about = client.read("counter://about").await.unwrap();
        assert_eq!(about["contents"][0]["text"], "It counts.");
        within(client.close()).await;
    }
}

#[tokio::test]
async fn the_http_server_asks_and_learns_on_every_transport() {
    let served = Served::start(env!("CARGO_BIN_EXE_serve_http"));
    let ways = [
        (Era::Legacy, Strategy::HttpOnly),
        (Era::Legacy, Strategy::SseOnly),
        (Era::Modern, Strategy::HttpOnly),
    ];
    for (round, (era, strategy)) in ways.into_iter().enumerate() {
        let options = ClientOptions::default().on_elicitation(async |question| {
            assert_eq!(question["message"], "What is your name?");
            Ok(json!({"action": "accept", "content": {"name": "Ann"}}))
        });
        let client = connect(served.server(strategy), era, options).await;
        let greeting = within(client.call_tool("greet", json!({}))).await.unwrap();
        assert_eq!(greeting["content"][0]["text"], "Hello, Ann!");
        let filter = ListenFilter { tools: true, ..ListenFilter::default() };
        let mut listening = within(client.listen(filter)).await.unwrap();
        let name = format!("new_{round}");
        let learn = json!({"name": name, "says": "hi"});
        within(client.call_tool("learn", learn)).await.unwrap();
        assert!(within(listening.next()).await.is_some());
        let said = within(client.call_tool(&name, json!({}))).await.unwrap();
        assert_eq!(said["content"][0]["text"], "hi");
        within(client.close()).await;
    }
}

#[tokio::test]
async fn the_forwarding_server_passes_calls_and_errors_on() {
    for era in ERAS {
        let forward = command(&[env!("CARGO_BIN_EXE_forward"), STDIO]);
        let client = connect(forward, era, ClientOptions::default()).await;
        let tools = within(client.tools()).await.unwrap();
        assert_eq!(tools[0]["name"], "count");
        let counted = within(client.call_tool("count", json!({"text": "four"}))).await.unwrap();
        assert_eq!(counted["structuredContent"], json!({"count": 4}));
        let missing = within(client.prompt("no_such_prompt", json!({}))).await.unwrap_err();
        assert!(missing.to_string().contains("no_such_prompt"), "{missing}");
        within(client.close()).await;
    }
}

#[tokio::test]
async fn the_proxy_passes_a_command_and_a_url_on() {
    let served = Served::start(env!("CARGO_BIN_EXE_embed"));
    for era in ERAS {
        let proxy = command(&[env!("CARGO_BIN_EXE_proxy"), STDIO]);
        let client = connect(proxy, era, ClientOptions::default()).await;
        let counted = within(client.call_tool("count", json!({"text": "four"}))).await.unwrap();
        assert_eq!(counted["structuredContent"], json!({"count": 4}));
        within(client.close()).await;

        let proxy = command(&[env!("CARGO_BIN_EXE_proxy"), &served.url]);
        let client = connect(proxy, era, ClientOptions::default()).await;
        assert_eq!(within(client.tools()).await.unwrap()[0]["name"], "visit");
        within(client.close()).await;
    }
}

#[tokio::test]
async fn the_embedded_server_shares_the_state_of_its_application() {
    let served = Served::start(env!("CARGO_BIN_EXE_embed"));
    for (visitor, era) in (1..).zip(ERAS) {
        let client =
            connect(served.server(Strategy::HttpOnly), era, ClientOptions::default()).await;
        let said = within(client.call_tool("visit", json!({}))).await.unwrap();
        assert_eq!(said["content"][0]["text"], format!("You are visitor {visitor}"));
        within(client.close()).await;
    }
    let address = served.url.trim_start_matches("http://").trim_end_matches("/mcp");
    let mut page = TcpStream::connect(address).unwrap();
    page.write_all(b"GET /visits HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    page.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("2 so far"), "{text}");
}

#[tokio::test]
async fn the_middleware_logs_every_call_and_refuses_some() {
    let mut served = Served::start(env!("CARGO_BIN_EXE_middleware"));
    for era in ERAS {
        for (caller, key) in [("reader", "reader-key"), ("writer", "writer-key")] {
            let key = HeaderMap::from_iter([(
                "x-api-key".parse().unwrap(),
                HeaderValue::from_static(key),
            )]);
            let target = served.server_with(Strategy::HttpOnly, key);
            let client = connect(target, era, ClientOptions::default()).await;
            let written = client.typed().call_tool("write", json!({"text": caller}));
            let written = within(written).await.unwrap();
            let logged = served.logged();
            if caller == "reader" {
                assert_eq!(written.text(), "write is for the writer only");
                assert!(logged.starts_with("reader called write: failed after "), "{logged}");
            } else {
                assert_eq!(written.text(), "written");
                assert!(logged.starts_with("writer called write: done after "), "{logged}");
            }
            let read = within(client.typed().call_tool("read", json!({}))).await.unwrap();
            // In the second round the reader finds what the writer wrote in the first.
            let is_fresh = caller == "reader" && era == Era::Legacy;
            assert_eq!(read.text(), if is_fresh { "" } else { "writer" });
            let logged = served.logged();
            assert!(logged.starts_with(&format!("{caller} called read: done after ")), "{logged}");
            within(client.close()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_middleware_logs_a_call_that_its_client_cancels() {
    let mut served = Served::start(env!("CARGO_BIN_EXE_middleware"));
    for era in ERAS {
        let key = HeaderMap::from_iter([(
            "x-api-key".parse().unwrap(),
            HeaderValue::from_static("reader-key"),
        )]);
        let target = served.server_with(Strategy::HttpOnly, key);
        let client = connect(target, era, ClientOptions::default()).await;
        let (told, mut waits) = mpsc::unbounded_channel();
        let options = CallOptions::default().on_progress(move |_| _ = told.send(()));
        let caller = client.clone();
        let call = tokio::spawn(async move {
            caller.call_tool_with("wait", json!({}), options).await.map(drop)
        });
        assert_eq!(within(waits.recv()).await, Some(()));
        call.abort();
        let logged = served.logged();
        assert!(logged.starts_with("reader called wait: cancelled after "), "{logged}");
        within(client.close()).await;
    }
}
