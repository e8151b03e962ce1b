//! The same servers over HTTP.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use switchboard_net::client::Client;
use switchboard_net::http::listen::{ListenOptions, serve};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::server::{Builder, Context, Elicited, Error, Server, Tool};
use switchboard_net::{Either, race};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{LEGACY, MODERN, fixture};
use switchboard_testkit::within;

pub(crate) struct Web {
    server: Arc<Server>,
    pub(crate) address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Web {
    pub(crate) async fn of(builder: Builder) -> Self {
        let server = builder.build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let backend: Arc<Server> = Arc::clone(&server);
        let site = Site::new(backend, SiteOptions::default());
        let options = ListenOptions::default();
        let task = tokio::spawn(serve(listener, site, options, async move { _ = stopped.await }));
        Self { server, address, stop, task }
    }

    pub(crate) async fn post(&self, headers: &[(&str, &str)], body: &Value) -> Reply {
        let request = Request::post("/mcp").header("content-type", "application/json");
        self.send(request, headers, body.to_string()).await
    }

    pub(crate) async fn send(
        &self,
        request: http::request::Builder,
        headers: &[(&str, &str)],
        body: String,
    ) -> Reply {
        let stream = within(TcpStream::connect(self.address)).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = request
            .header("host", self.address.to_string())
            .header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let response = within(sender.send_request(request)).await.unwrap();
        let (parts, body) = response.into_parts();
        let (status, headers) = (parts.status.as_u16(), parts.headers);
        Reply { status, headers, body, buffer: String::new(), sender, connection }
    }

    /// A modern request with the headers it needs; `more` may add or spoil some.
    pub(crate) async fn modern(
        &self,
        method: &str,
        mut params: Value,
        more: &[(&str, &str)],
    ) -> Reply {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
        let declared = &mut params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        if declared.is_null() {
            *declared = json!({});
        }
        let named = ["name", "uri", "taskId"].iter().find_map(|member| params[member].as_str());
        let name = named.unwrap_or_default();
        let headers =
            [("mcp-protocol-version", MODERN), ("mcp-method", method), ("mcp-name", name)];
        let headers: Vec<_> = headers.into_iter().chain(more.iter().copied()).collect();
        let body = json!({"jsonrpc": "2.0", "id": "m", "method": method, "params": params});
        self.post(&headers, &body).await
    }

    pub(crate) async fn legacy(&self, session: &str, body: &Value) -> Reply {
        self.post(&[("mcp-session-id", session)], body).await
    }

    /// Shakes hands, and returns the session.
    pub(crate) async fn greet(&self, revision: &str, capabilities: Value) -> String {
        let params =
            json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {}});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let mut reply = self.post(&[], &hello).await;
        let session = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
        assert_eq!(reply.last().await["result"]["protocolVersion"], revision);
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.legacy(&session, &ready).await.status, 202);
        session
    }

    pub(crate) async fn stopped(self) {
        _ = self.stop.send(());
        within(self.task).await.unwrap();
    }
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    buffer: String,
    sender: http1::SendRequest<Full<Bytes>>,
    connection: JoinHandle<hyper::Result<()>>,
}

impl Reply {
    /// The next message: of a stream, or all there is.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                let message = data.and_then(|data| serde_json::from_str(data).ok());
                self.buffer = rest.to_owned();
                if message.is_some() {
                    return message;
                }
                continue;
            }
            match within(self.body.frame()).await {
                Some(frame) => {
                    let data = frame.unwrap().into_data().unwrap();
                    self.buffer.push_str(std::str::from_utf8(&data).unwrap());
                }
                None if self.buffer.is_empty() => return None,
                None => return serde_json::from_str(&std::mem::take(&mut self.buffer)).ok(),
            }
        }
    }

    pub(crate) async fn last(&mut self) -> Value {
        let mut last = Value::Null;
        while let Some(message) = self.next().await {
            last = message;
        }
        last
    }

    /// All of it, as it is.
    pub(crate) async fn raw(&mut self) -> String {
        while let Some(frame) = within(self.body.frame()).await {
            let data = frame.unwrap().into_data().unwrap();
            self.buffer.push_str(std::str::from_utf8(&data).unwrap());
        }
        std::mem::take(&mut self.buffer)
    }

    async fn hang_up(self) {
        drop((self.sender, self.body));
        self.connection.abort();
        _ = within(self.connection).await;
    }
}

#[tokio::test]
async fn every_legacy_revision_calls_over_http() {
    let web = Web::of(fixture()).await;
    for revision in LEGACY {
        let session = web.greet(revision, json!({})).await;
        let params = json!({"name": "steps", "_meta": {"progressToken": 1}});
        let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
        let mut reply = web.legacy(&session, &call).await;
        assert_eq!(reply.headers["content-type"], "text/event-stream");
        let first = reply.next().await.unwrap();
        assert_eq!(first["method"], "notifications/progress", "{revision}");
        assert_eq!(reply.last().await["result"]["content"][0]["text"], "done");
        let list = json!({"jsonrpc": "2.0", "id": 6, "method": "tools/list"});
        let mut reply = web.legacy(&session, &list).await;
        assert_eq!(reply.headers["content-type"], "application/json", "an answer alone is plain");
        assert_eq!(reply.last().await["result"]["tools"].as_array().unwrap().len(), 3);
    }
    web.stopped().await;
}

#[tokio::test]
async fn a_question_goes_by_the_stream_of_its_call() {
    let name = Tool::new("name").run(async |_: Value, cx: Context| {
        Ok::<_, Error>(match cx.elicit("Name?", json!({"type": "object"})).await? {
            Elicited::Accept(content) => content.to_string(),
            Elicited::Decline | Elicited::Cancel => "no".to_owned(),
        })
    });
    let web = Web::of(Server::builder("s", "0").tool(name)).await;
    let session = web.greet("2025-06-18", json!({"elicitation": {}})).await;
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "name"}});
    let mut reply = web.legacy(&session, &call).await;
    let question = reply.next().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"action": "accept", "content": {"x": 1}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer});
    assert_eq!(web.legacy(&session, &answer).await.status, 202);
    assert_eq!(reply.last().await["result"]["content"][0]["text"], r#"{"x":1}"#);
    web.stopped().await;
}

/// wire: HTTP-10, HTTP-11, HTTP-18
#[tokio::test]
async fn a_long_call_hangs_up_and_is_answered_when_its_client_is_back() {
    let gate = Arc::new(Notify::new());
    let open = Arc::clone(&gate);
    let long = Tool::new("long").run(move |_: Value, cx: Context| {
        let gate = Arc::clone(&open);
        async move {
            cx.hang_up();
            gate.notified().await;
            "done"
        }
    });
    let web = Web::of(Server::builder("s", "0").tool(long)).await;
    let session = web.greet("2025-11-25", json!({})).await;
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "long"}});
    let mut reply = web.legacy(&session, &call).await;
    let first = reply.raw().await;
    let last = first.lines().find_map(|line| line.strip_prefix("id: ")).expect("an event id");
    assert!(first.contains("retry: "), "{first}");
    let headers = [("mcp-session-id", session.as_str()), ("last-event-id", last)];
    let mut back = web.send(Request::get("/mcp"), &headers, String::new()).await;
    gate.notify_one();
    let answer = back.next().await.unwrap();
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(1), &json!("done"))
    );
    web.stopped().await;
}

/// wire: MRTR-5, MRTR-7, MRTR-8, MOD-3
#[tokio::test]
async fn a_modern_client_comes_back_by_another_post() {
    let name = Tool::new("name").run(async |_: Value, cx: Context| {
        let params = json!({"message": "Name?", "requestedSchema": {"type": "object"}});
        let answer = cx.ask_as("user_name", "elicitation/create", params).await?;
        Ok::<_, Error>(format!("Hello, {}!", answer["content"]["name"].as_str().unwrap()))
    });
    let web = Web::of(Server::builder("s", "0").tool(name)).await;
    let call = |more: Value| {
        let declared = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
        let mut params = json!({"name": "name", "_meta": declared});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let mut asked = web.modern("tools/call", call(json!({})), &[]).await;
    assert_eq!(asked.status, 200);
    let asked = asked.last().await["result"].clone();
    assert_eq!(asked["inputRequests"]["user_name"]["method"], "elicitation/create");
    let answers = json!({"user_name": {"action": "accept", "content": {"name": "Ann"}}});
    let back = |state: &Value| json!({"requestState": state, "inputResponses": answers});
    let spoiled = format!("{}-TAMPERED", asked["requestState"].as_str().unwrap());
    for state in [spoiled.as_str(), "sb1.of another process"] {
        let mut refused = web.modern("tools/call", call(back(&json!(state))), &[]).await;
        assert_eq!(refused.last().await["error"]["code"], -32602, "{state}");
    }
    let mut reply = web.modern("tools/call", call(back(&asked["requestState"])), &[]).await;
    assert_eq!(reply.last().await["result"]["content"][0]["text"], "Hello, Ann!");
    web.stopped().await;
}

/// wire: MH-13, MH-14, META-3
#[tokio::test]
async fn a_modern_call_is_one_post_and_its_errors_have_statuses() {
    let sampling = Tool::new("sampling").run(async |_: Value, cx: Context| {
        cx.sample(json!({})).await.map(|answer| answer.to_string())
    });
    let web = Web::of(fixture().tool(sampling)).await;
    let add = json!({"name": "add", "arguments": {"a": 1, "b": 2}});
    let mut reply = web.modern("tools/call", add, &[]).await;
    assert_eq!(reply.status, 200);
    assert!(!reply.headers.contains_key("mcp-session-id"));
    assert_eq!(reply.last().await["result"]["content"][0]["text"], "3");
    for (method, params, status, code) in [
        ("ping", json!({}), 404, -32601),
        ("initialize", json!({}), 404, -32601),
        ("tools/call", json!({"name": "sampling"}), 400, -32021),
        ("tools/call", json!({"name": "nobody"}), 200, -32602),
        ("resources/read", json!({"uri": "a://gone"}), 200, -32602),
    ] {
        let mut reply = web.modern(method, params, &[]).await;
        assert_eq!(reply.status, status, "{method}");
        let body = reply.last().await;
        assert_eq!((&body["error"]["code"], &body["id"]), (&json!(code), &json!("m")), "{method}");
    }
    web.stopped().await;
}

/// wire: META-4, MH-14, MH-16
#[tokio::test]
async fn a_log_level_that_does_not_exist_has_a_status() {
    let web = Web::of(fixture()).await;
    for level in [json!("loud"), json!(7), json!(null), json!("")] {
        let meta = json!({"io.modelcontextprotocol/logLevel": level});
        let mut reply = web.modern("tools/list", json!({"_meta": meta}), &[]).await;
        assert_eq!(reply.status, 400, "{level}");
        let body = reply.last().await;
        assert_eq!((&body["error"]["code"], &body["id"]), (&json!(-32602), &json!("m")), "{level}");
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains("debug, info, notice"), "{message}");
    }
    web.stopped().await;
}

/// wire: HDR-9, HDR-10, HDR-11
#[tokio::test]
async fn arguments_that_are_repeated_as_headers_must_agree() {
    let schema = json!({
        "type": "object",
        "properties": {"value": {"type": "string", "x-mcp-header": "Value"}},
    });
    let tool = Tool::new("t").input_schema(&schema).run(async |args: Value, _| args.to_string());
    let web = Web::of(Server::builder("s", "0").tool(tool)).await;
    let call = |value: &str| json!({"name": "t", "arguments": {"value": value}});
    for (value, header, status) in [
        ("a", Some("a"), 200),
        ("é", Some("=?base64?w6k=?="), 200),
        ("a", Some("b"), 400),
        ("a", Some("=?base64?w6k?="), 400),
        ("a", None, 400),
    ] {
        let headers = header.map(|value| vec![("mcp-param-value", value)]).unwrap_or_default();
        let mut reply = web.modern("tools/call", call(value), &headers).await;
        assert_eq!(reply.status, status, "{value} {header:?}");
        let code = reply.last().await["error"]["code"].clone();
        assert_eq!(code, if status == 200 { Value::Null } else { json!(-32020) });
    }
    web.stopped().await;
}

/// wire: SUB-3, SUB-4, SUB-8
#[tokio::test]
async fn a_listen_is_a_stream_that_hears_of_changes_made_elsewhere() {
    let change = Tool::new("change").run(async |_: Value, cx: Context| {
        cx.server().tools_changed();
        "changed"
    });
    let web = Web::of(Server::builder("s", "0").tool(change)).await;
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = web.modern("subscriptions/listen", wanted, &[]).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    let ack = stream.next().await.unwrap();
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    web.modern("tools/call", json!({"name": "change"}), &[]).await.last().await;
    let heard = stream.next().await.unwrap();
    assert_eq!(heard["method"], "notifications/tools/list_changed");
    assert_eq!(heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "m");
    web.server.close();
    let end = stream.next().await.unwrap();
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!("m"), &json!("complete")));
    assert_eq!(stream.next().await, None);
    web.stopped().await;
}

/// wire: CAN-1, MH-9
#[tokio::test]
async fn a_modern_client_that_hangs_up_cancels() {
    let (told, mut tell) = mpsc::channel::<()>(1);
    let forever = Tool::new("forever").run(move |_: Value, cx: Context| {
        let told = told.clone();
        async move {
            cx.progress(1.0, None, None);
            cx.cancelled().await;
            told.try_send(()).unwrap();
            ""
        }
    });
    let web = Web::of(Server::builder("s", "0").tool(forever)).await;
    let call = json!({"name": "forever", "_meta": {"progressToken": 1}});
    let mut reply = web.modern("tools/call", call, &[]).await;
    assert_eq!(reply.next().await.unwrap()["method"], "notifications/progress");
    reply.hang_up().await;
    within(tell.recv()).await.unwrap();
    web.stopped().await;
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = fixture().build().unwrap();
    let refused = within(server.serve_http(taken.local_addr().unwrap())).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn a_server_is_served_at_an_address_in_one_line() {
    let server = fixture().build().unwrap();
    // Another program may take the port before the server does.
    let calling = async {
        loop {
            let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
            let serving = server.serve_http(free);
            let called = async {
                let target = format!("http://{free}/mcp");
                loop {
                    if let Ok(client) = Client::connect(target.as_str()).await {
                        break client.call_tool("add", json!({"a": 2, "b": 3})).await.unwrap();
                    }
                    tokio::task::yield_now().await;
                }
            };
            match race(serving, called).await {
                Either::Left(ended) => {
                    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
                }
                Either::Right(result) => break result,
            }
        }
    };
    assert_eq!(within(calling).await["content"][0]["text"], "5");
}
