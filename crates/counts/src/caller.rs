//! An HTTP client in memory: it writes requests that are made beforehand, and reads answers
//! whose length it knows, so that little of what is counted is its own.

use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use switchboard_net::http::listen::ListenOptions;
use switchboard_net::http::site::Sites;
use switchboard_proto::revision::{Era, Revision};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::timeout;

use crate::server::end_of_request;

/// Room for the largest message on its way.
const ROOM: usize = 1 << 20;
/// How long anything may take in valgrind, on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_mins(2);

/// A client of sites, on a connection in memory.
pub struct MemoryCaller {
    stream: DuplexStream,
    era: Era,
    /// Headers of each request.
    headers: String,
}

/// A request that can be sent again and again, and the length of its answer.
pub struct RepeatedCall {
    request: String,
    answer: Vec<u8>,
}

impl MemoryCaller {
    /// Connects to `sites` as the listener does: hyper for HTTP/1, with the same options.
    /// `more` are headers, each with its line end.
    pub async fn connect(sites: Sites, era: Era, more: &str) -> Self {
        let (stream, theirs) = tokio::io::duplex(ROOM);
        let mut http = http1::Builder::new();
        http.header_read_timeout(None).max_buf_size(ListenOptions::default().max_head.max(8192));
        tokio::spawn(async move {
            let service = TowerToHyperService::new(sites);
            let serving = http.serve_connection(TokioIo::new(theirs), service).with_upgrades();
            serving.await.expect("the connection ends in order");
        });
        let headers = format!(
            "host: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{more}"
        );
        let mut caller = Self { stream, era, headers };
        if era == Era::Legacy {
            caller.greet().await;
        }
        caller
    }

    /// The handshake of a legacy client.
    async fn greet(&mut self) {
        let version = Revision::NEWEST_LEGACY.as_str();
        let params = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"},
        });
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let welcome = self.exchange(&self.request(&hello, "")).await;
        let head = welcome.split("\r\n\r\n").next().expect("a head");
        let session = head.lines().find(|line| line.starts_with("mcp-session-id: "));
        let session = session.unwrap_or_else(|| panic!("no session: {welcome}")).to_owned();
        let headers = &self.headers;
        self.headers = format!("{headers}{session}\r\nmcp-protocol-version: {version}\r\n");
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let taken = self.exchange(&self.request(&note, "")).await;
        assert!(taken.starts_with("HTTP/1.1 202"), "{taken}");
    }

    /// A call of this method that can be repeated, once it was answered.
    pub async fn prepare(&mut self, method: &str, mut params: Value) -> RepeatedCall {
        let mut headers = String::new();
        if self.era == Era::Modern {
            let version = Revision::NEWEST_MODERN.as_str();
            let name = params["name"].as_str();
            let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
            headers = format!("mcp-protocol-version: {version}\r\nmcp-method: {method}\r\n{name}");
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let request = self.request(&call, &headers);
        let answer = self.exchange(&request).await;
        let is_json = answer.contains("\r\ncontent-type: application/json\r\n");
        assert!(is_json && answer.contains(r#""id":7,"result""#), "{answer:.1000}");
        if method == "tools/call" {
            let text = params["arguments"]["text"].as_str().expect("calls have a text");
            let is_echo = answer.contains(&format!(r#""text":"{text}""#));
            assert!(is_echo && !answer.contains("isError"), "{answer:.1000}");
        }
        RepeatedCall { request, answer: vec![0; answer.len()] }
    }

    /// Makes the call, whose answer must be as long as the first one was.
    pub async fn call(&mut self, call: &mut RepeatedCall) {
        self.stream.write_all(call.request.as_bytes()).await.expect("the connection is open");
        let reading = self.stream.read_exact(&mut call.answer);
        let read = timeout(DEADLINE, reading).await.expect("an answer as long as the first");
        read.expect("the connection is open");
        assert!(call.answer.starts_with(b"HTTP/1.1 200") && call.answer.ends_with(b"}"));
    }

    fn request(&self, message: &Value, more: &str) -> String {
        let (body, headers) = (message.to_string(), &self.headers);
        let length = body.len();
        format!("POST /mcp HTTP/1.1\r\n{headers}{more}content-length: {length}\r\n\r\n{body}")
    }

    /// Sends a request and reads the whole answer.
    async fn exchange(&mut self, request: &str) -> String {
        self.stream.write_all(request.as_bytes()).await.expect("the connection is open");
        let mut answer = Vec::new();
        while end_of_request(&answer).is_none() {
            let Ok(read) = timeout(DEADLINE, self.stream.read_buf(&mut answer)).await else {
                panic!("no whole answer: {}", String::from_utf8_lossy(&answer));
            };
            let read = read.expect("the connection is open");
            assert!(read > 0, "the connection ended: {}", String::from_utf8_lossy(&answer));
        }
        String::from_utf8(answer).expect("an answer is text")
    }
}
