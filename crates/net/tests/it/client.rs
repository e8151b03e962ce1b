//! A client of a site, over a socket of its own for each request or without any.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use switchboard_net::http::site::Site;
use switchboard_proto::framing::{EventDecoder, SseEvent};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tower_service::Service as _;

use switchboard_testkit::within;

pub(crate) const BOTH: &str = "application/json, text/event-stream";
pub(crate) const LEGACY: &str = "2025-11-25";
pub(crate) const MODERN: &str = "2026-07-28";

/// How requests reach the site.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    Socket(SocketAddr),
    /// As a `tower` service: a paused clock stays true, for nothing is awaited outside.
    Direct(Site),
}

#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) way: Way,
    pub(crate) session: Option<String>,
    pub(crate) version: Option<&'static str>,
}

/// An answer, and the connection that it comes on: dropping it hangs up.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: UnsyncBoxBody<Bytes, String>,
    decoder: EventDecoder,
    raw: String,
    _connection: Option<HangUp>,
}

#[derive(Debug)]
struct HangUp(JoinHandle<()>);

impl Drop for HangUp {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    pub(crate) fn new(way: Way) -> Self {
        Self { way, session: None, version: None }
    }

    /// A client whose handshake is over.
    pub(crate) async fn ready(way: Way, version: &'static str) -> Self {
        let client = Self::greeted(way, version).await;
        assert_eq!(client.post(&initialized()).await.status, 202);
        client
    }

    /// A client that has not confirmed the handshake.
    pub(crate) async fn greeted(way: Way, version: &'static str) -> Self {
        let mut client = Self::new(way);
        let reply = client.post(&initialize(version)).await;
        assert_eq!(reply.status, 200);
        client.session = Some(reply.header("mcp-session-id").expect("a session").to_owned());
        assert_eq!(reply.json().await["result"]["protocolVersion"], version);
        client.version = Some(version);
        client
    }

    pub(crate) fn modern(way: Way) -> Self {
        Self { way, session: None, version: Some(MODERN) }
    }

    /// A request with the headers of this client, to be changed or sent.
    pub(crate) fn request(&self, method: Method, path: &str) -> http::request::Builder {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(version) = self.version {
            request = request.header("mcp-protocol-version", version);
        }
        request
    }

    pub(crate) fn posting(&self, message: &Value) -> http::request::Builder {
        let mut request = self
            .request(Method::POST, "/mcp")
            .header("accept", BOTH)
            .header("content-type", "application/json");
        if self.version == Some(MODERN) {
            request = request.header("mcp-method", message["method"].as_str().unwrap_or_default());
            if let Some(name) = message["params"]["name"].as_str() {
                request = request.header("mcp-name", name);
            }
        }
        request
    }

    pub(crate) async fn post(&self, message: &Value) -> Reply {
        self.send(self.posting(message), message.to_string()).await
    }

    /// A GET that listens, or resumes after `last`.
    pub(crate) async fn listen(&self, last: Option<&str>) -> Reply {
        let mut request = self.request(Method::GET, "/mcp").header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        self.send(request, String::new()).await
    }

    pub(crate) async fn delete(&self) -> Reply {
        self.send(self.request(Method::DELETE, "/mcp"), String::new()).await
    }

    pub(crate) async fn send(
        &self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Reply {
        let request = request.body(Full::new(body.into())).unwrap();
        match &self.way {
            Way::Direct(site) => {
                let response = site.clone().call(request).await.unwrap();
                Reply::new(response, None)
            }
            Way::Socket(address) => {
                let stream = TcpStream::connect(address).await.unwrap();
                let (mut sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
                let hang_up = HangUp(tokio::spawn(async move { _ = connection.await }));
                let response = within(sender.send_request(request)).await.unwrap();
                Reply::new(response, Some(hang_up))
            }
        }
    }
}

impl Reply {
    fn new<B>(response: Response<B>, connection: Option<HangUp>) -> Self
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: ToString,
    {
        let (parts, body) = response.into_parts();
        Self {
            status: parts.status,
            headers: parts.headers,
            body: body.map_err(|error| error.to_string()).boxed_unsync(),
            decoder: EventDecoder::new(64 << 20),
            raw: String::new(),
            _connection: connection,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    pub(crate) async fn text(self) -> String {
        let bytes = within(self.body.collect()).await.unwrap().to_bytes();
        self.raw + std::str::from_utf8(&bytes).unwrap()
    }

    pub(crate) async fn json(self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// The next event, comments aside; none at the end of the stream.
    pub(crate) async fn event(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(event) = self.decoder.next_event() {
                return Some(event.unwrap());
            }
            let frame = within(self.body.frame()).await?;
            let bytes = frame.expect("the stream is whole").into_data().unwrap();
            self.raw.push_str(std::str::from_utf8(&bytes).unwrap());
            self.decoder.push(&bytes);
        }
    }

    /// The next message of the stream, and the id of its event.
    pub(crate) async fn message(&mut self) -> (Value, Option<String>) {
        loop {
            let event = self.event().await.expect("the stream goes on");
            if event.is_message() {
                let id = event.id.map(|id| id.to_string());
                return (serde_json::from_slice(&event.data).unwrap(), id);
            }
        }
    }

    /// All messages up to the end of the stream.
    pub(crate) async fn messages(mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(event) = self.event().await {
            if event.is_message() {
                messages.push(serde_json::from_slice(&event.data).unwrap());
            }
        }
        messages
    }

    /// One piece of the body as it came.
    pub(crate) async fn piece(&mut self) -> Option<String> {
        let frame = self.body.frame().await?;
        Some(String::from_utf8(frame.unwrap().into_data().unwrap().into()).unwrap())
    }
}

pub(crate) fn initialize(version: &str) -> Value {
    greeting(version, &json!({"roots": {}, "sampling": {}}))
}

pub(crate) fn greeting(version: &str, capabilities: &Value) -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params =
        json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

pub(crate) fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

/// A request of the legacy era.
pub(crate) fn request(id: impl Into<Value>, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": {}})
}

/// A legacy call of a tool, which the test must answer.
pub(crate) fn call(id: impl Into<Value>, tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {}});
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params})
}

/// The same message in the modern era.
pub(crate) fn enveloped(mut message: Value) -> Value {
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    message
}
