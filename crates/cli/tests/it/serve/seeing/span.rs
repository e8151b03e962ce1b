//! Traces: what a collector is told, and what servers hear of them.

use serde_json::{Value, json};
use switchboard_net::client::ClientOptions;
use switchboard_proto::revision::Era;
use switchboard_testkit::http::{Hit, HttpServer};

use super::{Gateway, PARENT, Session, TRACE, mirror};
use crate::process::{Switchboard, text_of, until};
use crate::serve::text;
use crate::web::post_to;

/// Spans that a collector was sent, by kind: 2 is ours for a client, 3 towards a server.
fn spans(hit: &Hit) -> Vec<Value> {
    let scopes = hit.message()["resourceSpans"][0]["scopeSpans"].clone();
    scopes[0]["spans"].as_array().unwrap_or_else(|| panic!("no spans: {scopes}")).clone()
}

fn attribute<'s>(span: &'s Value, key: &str) -> &'s Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.map_or(&Value::Null, |attribute| &attribute["value"])
}

/// Reads batches until spans like this have come.
async fn next(
    collector: &mut HttpServer,
    seen: &mut Vec<Value>,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    loop {
        if let Some(at) = seen.iter().position(&wanted) {
            return seen.remove(at);
        }
        let hit = collector.take(|hit| hit.path == "/v1/traces").await;
        seen.extend(spans(&hit));
        hit.answer(200, &[("Content-Type", "application/json")], "{}").await;
    }
}

fn exporting(collector: &HttpServer) -> [(&'static str, String); 4] {
    let url = collector.url("").to_string();
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=k%3D1".to_owned()),
        ("OTEL_SERVICE_NAME", "gate".to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "20".to_owned()),
    ]
}

fn start(vars: &[(&'static str, String)]) -> Gateway {
    let vars: Vec<_> = vars.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let gateway = Gateway::told(&json!({"mcpServers": {"mirror": mirror()}}), &[], &vars);
    gateway.until_ready(&["mirror"]);
    gateway
}

/// wire: MSG-6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_a_span_for_its_client_and_one_towards_its_server() {
    let mut collector = HttpServer::start().await;
    let gateway = start(&exporting(&collector));
    let mut seen = Vec::new();
    for path in ["/mcp", "/servers/mirror/mcp"] {
        let session = Session::open(gateway.port, path, &[]);
        let name = if path == "/mcp" { "mirror__mirror" } else { "mirror" };
        let meta = json!({"traceparent": PARENT, "tracestate": "a=1", "baggage": "b=2"});
        let answer = session.call(&json!({"name": name, "_meta": meta}), &[]);
        let heard: Value = serde_json::from_str(&text_of(&answer)).unwrap();
        let is = |span: &Value, kind| span["kind"] == kind && span["traceId"] == TRACE;
        let ours = next(&mut collector, &mut seen, |span| is(span, 2)).await;
        assert_eq!(ours["name"], format!("tools/call {name}"), "{ours}");
        assert_eq!(ours["parentSpanId"], "00f067aa0ba902b7", "{ours}");
        assert_eq!(ours["traceState"], "a=1", "{ours}");
        assert_eq!(attribute(&ours, "mcp.method.name")["stringValue"], "tools/call");
        assert_eq!(attribute(&ours, "gen_ai.tool.name")["stringValue"], name);
        assert_eq!(attribute(&ours, "gen_ai.operation.name")["stringValue"], "execute_tool");
        assert_eq!(attribute(&ours, "jsonrpc.request.id")["stringValue"], "7");
        assert_eq!(attribute(&ours, "network.transport")["stringValue"], "tcp");
        let shown = attribute(&ours, "mcp.session.id")["stringValue"].as_str().unwrap();
        assert!(session.id.starts_with(shown) && shown.len() < 10, "{ours}");
        let onward = next(&mut collector, &mut seen, |span| is(span, 3)).await;
        assert_eq!(onward["name"], "tools/call mirror", "{onward}");
        assert_eq!(onward["parentSpanId"], ours["spanId"], "{onward}");
        assert_eq!(attribute(&onward, "network.transport")["stringValue"], "pipe");
        let nanos = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
        assert!(nanos(&ours, "startTimeUnixNano") <= nanos(&onward, "startTimeUnixNano"));
        assert!(nanos(&onward, "startTimeUnixNano") <= nanos(&onward, "endTimeUnixNano"));
        let id = onward["spanId"].as_str().unwrap();
        assert_eq!(heard["traceparent"], format!("00-{TRACE}-{id}-01"), "{heard}");
        assert_eq!((&heard["tracestate"], &heard["baggage"]), (&json!("a=1"), &json!("b=2")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_say_what_kind_they_are_and_nothing_else() {
    let mut collector = HttpServer::start().await;
    let gateway = start(&exporting(&collector));
    let client = gateway.client_at("/mcp", Era::Modern, ClientOptions::default()).await;
    _ = client.call_tool("mirror__broken", json!({"a": "s3cret"})).await;
    _ = client.call_tool("mirror__gone", json!({"a": "s3cret"})).await;
    let hit = collector.take(|hit| hit.path == "/v1/traces").await;
    assert_eq!(hit.header("api-key"), Some("k=1"));
    let resource = &hit.message()["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name")["stringValue"], "gate");
    let mut seen = spans(&hit);
    hit.answer(200, &[], "{}").await;
    let tool = |name: &'static str| {
        move |span: &Value| attribute(span, "gen_ai.tool.name")["stringValue"] == name
    };
    let broken = next(&mut collector, &mut seen, tool("broken")).await;
    assert_eq!(attribute(&broken, "error.type")["stringValue"], "tool_error", "{broken}");
    assert_eq!(broken["status"], json!({"code": 2}));
    let gone = next(&mut collector, &mut seen, tool("mirror__gone")).await;
    assert_eq!(attribute(&gone, "error.type")["stringValue"], "-32602", "{gone}");
    assert_eq!(attribute(&gone, "rpc.response.status_code")["stringValue"], "-32602");
    assert!(!format!("{broken}{gone}{seen:?}").contains("s3cret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_record_decides_that_nothing_is_recorded() {
    let mut collector = HttpServer::start().await;
    let gateway = start(&exporting(&collector));
    let session = Session::open(gateway.port, "/mcp", &[]);
    let quiet = PARENT.replace("-01", "-00");
    let answer =
        session.call(&json!({"name": "mirror__mirror", "_meta": {"traceparent": quiet}}), &[]);
    assert!(text_of(&answer).contains(&format!("{TRACE}-")) && text_of(&answer).contains("-00\""));
    let other = PARENT.replace("4bf9", "5bf9");
    session.call(&json!({"name": "mirror__mirror", "_meta": {"traceparent": other}}), &[]);
    let mut seen = Vec::new();
    let wanted = |span: &Value| span["traceId"] == TRACE.replace("4bf9", "5bf9");
    next(&mut collector, &mut seen, wanted).await;
    assert!(!seen.iter().any(|span| span["traceId"] == TRACE), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_does_not_answer_delays_nobody_and_what_is_dropped_is_counted() {
    let mut collector = HttpServer::start().await;
    let mut vars = exporting(&collector).to_vec();
    vars.push(("OTEL_BSP_MAX_QUEUE_SIZE", "4".to_owned()));
    let mut gateway = start(&vars);
    let session = Session::open(gateway.port, "/mcp", &[]);
    session.call(&json!({"name": "mirror__mirror"}), &[]);
    let silent = collector.take(|hit| hit.path == "/v1/traces").await;
    for _ in 0..10 {
        let answer = session.call(&json!({"name": "mirror__mirror"}), &[]);
        assert!(answer.get("result").is_some(), "{answer}");
    }
    until("spans are dropped", || {
        gateway.sample("switchboard_dropped_spans_total").is_some_and(|count| count > 0.5)
    });
    drop(silent);
    gateway.process.signal(rustix::process::Signal::TERM);
    assert_eq!(gateway.process.exit_code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_spans_are_sent_before_the_end() {
    let mut collector = HttpServer::start().await;
    let mut vars = exporting(&collector).to_vec();
    vars[3].1 = "3600000".to_owned();
    let mut gateway = start(&vars);
    let session = Session::open(gateway.port, "/mcp", &[]);
    session.call(&json!({"name": "mirror__mirror", "_meta": {"traceparent": PARENT}}), &[]);
    gateway.process.signal(rustix::process::Signal::TERM);
    let mut seen = Vec::new();
    next(&mut collector, &mut seen, |span| span["traceId"] == TRACE).await;
    assert_eq!(gateway.process.exit_code(), Some(0));
}

/// wire: MSG-6
#[tokio::test]
async fn a_trace_passes_through_where_nobody_records_it() {
    let gateway = start(&[]);
    let headers = [("traceparent", PARENT), ("tracestate", "a=1")];
    let session = Session::open(gateway.port, "/mcp", &[]);
    let heard = text_of(&session.call(&json!({"name": "mirror__mirror"}), &headers));
    assert!(heard.contains(PARENT) && heard.contains("a=1"), "{heard}");
    let said =
        json!({"name": "mirror__mirror", "_meta": {"traceparent": PARENT.replace("-01", "-00")}});
    let heard = text_of(&session.call(&said, &headers));
    assert!(heard.contains(&PARENT.replace("-01", "-00")), "what the message says counts: {heard}");
    let client = gateway.client_at("/mcp", Era::Modern, ClientOptions::default()).await;
    let params = json!({"name": "mirror__mirror", "_meta": {"traceparent": PARENT}});
    let result = client.request("tools/call", params).await.unwrap();
    assert!(text(&result).contains(PARENT), "{result}");
}

/// wire: MSG-6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bridge_passes_traces_on_in_headers_too() {
    let mut server = HttpServer::start().await;
    let url = server.url("/mcp").to_string();
    let mut bridge = Switchboard::start(&["bridge", &url, "--port", "0"]);
    let port = bridge.port();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": crate::process::greeting()});
    let headers = [("traceparent", PARENT), ("baggage", "b=2")];
    let asking =
        std::thread::spawn(move || post_to(port, "/mcp", &headers, hello.to_string().as_bytes()));
    let hit = server.post("initialize").await;
    assert_eq!(hit.header("traceparent"), Some(PARENT));
    assert_eq!(hit.header("baggage"), Some("b=2"));
    assert_eq!(hit.message()["params"]["_meta"]["traceparent"], PARENT);
    hit.welcome(None, switchboard_testkit::caller::LEGACY).await;
    assert_eq!(asking.join().unwrap().status, 200);
}
