//! One handler, every transport, both eras: at once, on one endpoint.

use std::sync::{Arc, Mutex};

use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_net::client::{CallOptions, Client, ClientOptions, Notification};
use switchboard_net::server::{Builder, Context, Error, Level, Server, Tool};
use switchboard_net::upstream::{self, Strategy};
use switchboard_proto::revision::Era;
use tokio::sync::mpsc;

use super::web::Web;
use super::{LEGACY, serve, text};
use crate::upstream::fetch;
use switchboard_testkit::within;

/// Does all that a call can do, and never asks which client it has.
async fn all(cx: Context) -> Result<String, Error> {
    cx.progress(1.0, Some(2.0), Some("begun"));
    cx.log(Level::Warning, Some("all"), "asking");
    let form = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let named = cx.elicit("Name?", form).await?;
    let visited = cx.elicit_url("Sign in", "https://a.test/x").await?;
    let tools = json!([{"name": "t", "inputSchema": {"type": "object"}}]);
    let sampled = cx.sample(json!({"messages": [], "maxTokens": 5, "tools": tools})).await?;
    let roots = cx.roots().await?;
    cx.progress(2.0, Some(2.0), None);
    Ok(format!("{named:?} {visited:?} {} {}", sampled["model"], roots[0]["uri"]))
}

const SAID: &str = r#"Accept(Object {"name": String("Ann")}) Accept(Null) "m" "file:///a""#;

/// What each question is answered with.
fn answer(question: &Value) -> Value {
    match question["method"].as_str().unwrap() {
        "elicitation/create" if question["params"]["mode"] == "url" => json!({"action": "accept"}),
        "elicitation/create" => json!({"action": "accept", "content": {"name": "Ann"}}),
        "sampling/createMessage" => {
            assert_eq!(question["params"]["tools"][0]["name"], "t");
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}})
        }
        "roots/list" => json!({"roots": [{"uri": "file:///a"}]}),
        other => panic!("{other}"),
    }
}

fn able() -> Value {
    let elicitation = json!({"form": {}, "url": {}});
    json!({"elicitation": elicitation, "sampling": {"tools": {}}, "roots": {}})
}

/// A server, and who learns of calls that were begun and dropped.
fn everything() -> (Builder, mpsc::UnboundedReceiver<&'static str>) {
    let (told, tell) = mpsc::unbounded_channel();
    let all = Tool::new("all").run(async |_: Value, cx: Context| all(cx).await);
    let forever = Tool::new("forever").run(move |_: Value, cx: Context| {
        let told = told.clone();
        async move {
            told.send("begun").unwrap();
            cx.cancelled().await;
            told.send("cancelled").unwrap();
            ""
        }
    });
    (Server::builder("everywhere", "0").tool(all).tool(forever), tell)
}

/// How a client may come to an HTTP server.
const WAYS: [(&str, Strategy, Era); 3] = [
    ("/mcp", Strategy::HttpOnly, Era::Modern),
    ("/mcp", Strategy::HttpOnly, Era::Legacy),
    ("/sse", Strategy::SseOnly, Era::Legacy),
];

async fn client(
    web: &Web,
    (path, strategy, era): (&str, Strategy, Era),
    heard: &Arc<Mutex<Vec<Notification>>>,
) -> Client {
    let url = format!("http://{}{path}", web.address).parse().unwrap();
    let server = upstream::ServerTarget::url(url, strategy, HeaderMap::new(), fetch());
    let heard = Arc::clone(heard);
    let reply = |method: &'static str| {
        move |params: Value| {
            let answer = answer(&json!({"method": method, "params": params}));
            async move { Ok(answer) }
        }
    };
    let options = ClientOptions::default().era(era).log_level("warning");
    let options = options
        .on_elicitation(reply("elicitation/create"))
        .on_url_elicitation(reply("elicitation/create"))
        .on_sampling_with_tools(reply("sampling/createMessage"))
        .on_roots(reply("roots/list"))
        .on_notification(move |notification| heard.lock().unwrap().push(notification));
    within(options.connect(server)).await.unwrap()
}

async fn try_all(client: &Client, heard: &Mutex<Vec<Notification>>) {
    let progress = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&progress);
    let told = CallOptions::default().on_progress(move |p| seen.lock().unwrap().push(p.progress));
    let answer = within(client.call_tool_with("all", json!({}), told)).await.unwrap();
    assert_eq!(answer["content"][0]["text"], SAID, "{:?}", client.era());
    assert_eq!(*progress.lock().unwrap(), [1.0, 2.0], "{:?}", client.era());
    let heard = heard.lock().unwrap();
    let logged = heard.iter().filter(|note| note.method == "notifications/message");
    let logged: Vec<_> = logged.map(|note| note.params["data"].as_str().unwrap()).collect();
    assert_eq!(logged, ["asking"], "{:?}", client.era());
}

/// wire: MRTR-13, UTL-2, LOG-1
#[tokio::test]
async fn one_handler_serves_every_way_over_http_at_the_same_time() {
    let (builder, _tell) = everything();
    let web = Arc::new(Web::of(builder).await);
    let clients = (0..12).map(|n| {
        let web = Arc::clone(&web);
        tokio::spawn(async move {
            let heard = Arc::new(Mutex::new(Vec::new()));
            let client = client(&web, WAYS[n % 3], &heard).await;
            try_all(&client, &heard).await;
            client.close().await;
        })
    });
    for client in clients.collect::<Vec<_>>() {
        within(client).await.unwrap();
    }
    Arc::into_inner(web).unwrap().stopped().await;
}

/// wire: CAN-1, UTL-1
#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_whatever_way_it_came() {
    let (builder, mut tell) = everything();
    let web = Web::of(builder).await;
    for way in WAYS {
        let client = client(&web, way, &Arc::default()).await;
        let calling = client.clone();
        let call = tokio::spawn(async move { calling.call_tool("forever", json!({})).await });
        assert_eq!(within(tell.recv()).await, Some("begun"), "{way:?}");
        call.abort();
        assert_eq!(within(tell.recv()).await, Some("cancelled"), "{way:?}");
        client.close().await;
    }
    web.stopped().await;
}

/// wire: STD-8
#[tokio::test]
async fn the_same_handler_serves_every_revision_on_a_pipe() {
    for revision in LEGACY {
        let mut client = serve(everything().0);
        client.greet(revision, able()).await;
        let call = json!({"name": "all", "_meta": {"progressToken": "p"}});
        let id = client.request("tools/call", call).await;
        let mut seen = Vec::new();
        let result = loop {
            let message = client.hear().await;
            let Some(method) = message["method"].as_str() else { break message };
            seen.push(method.to_owned());
            if !message["id"].is_null() {
                let answer = answer(&message);
                client.say(json!({"jsonrpc": "2.0", "id": message["id"], "result": answer})).await;
            }
        };
        assert_eq!((&result["id"], text(&result)), (&json!(id), SAID), "{revision}");
        let expected = [
            "notifications/progress",
            "notifications/message",
            "elicitation/create",
            "elicitation/create",
            "sampling/createMessage",
            "roots/list",
            "notifications/progress",
        ];
        assert_eq!(seen, expected, "{revision}");
        client.leave().await;
    }
}

/// wire: MRTR-2, MRTR-5, MRTR-13
#[tokio::test]
async fn a_modern_client_on_a_pipe_is_asked_the_same_in_four_rounds() {
    let mut client = serve(everything().0);
    client.capabilities = able();
    let mut call = json!({"name": "all", "_meta": {"io.modelcontextprotocol/logLevel": "info"}});
    for _ in 0..4 {
        let asked = client.modern("tools/call", call.clone()).await["result"].clone();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        // Only a legacy client tells the end of a visit by an id.
        assert!(question["params"].get("elicitationId").is_none());
        call["inputResponses"] = json!({key: answer(question)});
        call["requestState"] = asked["requestState"].clone();
    }
    assert_eq!(text(&client.modern("tools/call", call).await), SAID);
    assert_eq!(client.heard_of("notifications/message").len(), 1);
}
