//! An HTTP server that does what the test says, request by request.
//!
//! Every request waits until the test takes it and decides: an answer, a
//! stream, a reset, silence. One request a connection, so that what happens to
//! the connection is what happened to the request.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::within;

/// A server whose requests the test answers by hand.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    hits: mpsc::Receiver<Hit>,
    /// Requests that came while the test waited for another.
    early: VecDeque<Hit>,
    task: JoinHandle<()>,
}

/// One request, and the connection to answer it on.
#[derive(Debug)]
pub struct Hit {
    /// Its HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// What it carried.
    pub body: Bytes,
    socket: TcpStream,
}

/// The answer to a request, while it is being written.
#[derive(Debug)]
pub struct Answer {
    socket: TcpStream,
}

impl HttpServer {
    /// Listens on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (sender, hits) = mpsc::channel(256);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move {
                    if let Some(hit) = receive(socket).await {
                        // A test that is over does not care.
                        _ = sender.send(hit).await;
                    }
                });
            }
        });
        Self { address, hits, early: VecDeque::new(), task }
    }

    /// Where `path` is.
    pub fn url(&self, path: &str) -> http::Uri {
        format!("http://{}{path}", self.address).parse().expect("a URL")
    }

    /// The next request for which `wanted` says yes; others wait.
    pub async fn take(&mut self, wanted: impl Fn(&Hit) -> bool) -> Hit {
        if let Some(at) = self.early.iter().position(&wanted) {
            return self.early.remove(at).expect("it was just found");
        }
        loop {
            let hit = within(self.hits.recv()).await.expect("the server runs");
            if wanted(&hit) {
                return hit;
            }
            self.early.push_back(hit);
        }
    }

    /// The next POST of a message with this method.
    pub async fn post(&mut self, method: &str) -> Hit {
        self.take(|hit| hit.method == "POST" && hit.message()["method"] == method).await
    }

    /// The next POST of an answer to one of our questions.
    pub async fn supplied(&mut self) -> Hit {
        self.take(|hit| hit.method == "POST" && hit.message().get("method").is_none()).await
    }

    /// The next GET.
    pub async fn get(&mut self) -> Hit {
        self.take(|hit| hit.method == "GET").await
    }

    /// The next DELETE.
    pub async fn delete(&mut self) -> Hit {
        self.take(|hit| hit.method == "DELETE").await
    }

    /// How many requests for which `wanted` says yes are waiting to be taken.
    pub fn waiting(&mut self, wanted: impl Fn(&Hit) -> bool) -> usize {
        while let Ok(hit) = self.hits.try_recv() {
            self.early.push_back(hit);
        }
        self.early.iter().filter(|hit| wanted(hit)).count()
    }

    /// Does the handshake of a legacy server, up to the listening GET, which is refused.
    pub async fn greet(&mut self, session: Option<&str>, version: &str) {
        self.greet_only(session, version).await;
        self.get().await.answer(405, &[], "").await;
    }

    /// Does the handshake with a client that does not listen, or not yet.
    pub async fn greet_only(&mut self, session: Option<&str>, version: &str) {
        let hello = self.post("initialize").await;
        assert_eq!(hello.header("mcp-session-id"), None, "initialize goes without a session");
        hello.welcome(session, version).await;
        self.post("notifications/initialized").await.answer(202, &[], "").await;
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hit {
    /// What it carried, as JSON; null if it is none.
    pub fn message(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A header, if it is there once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next()?.to_str().ok();
        assert!(values.next().is_none(), "{name} is there twice");
        first
    }

    /// Answers with a whole body.
    pub async fn answer(self, status: u16, headers: &[(&str, &str)], body: &str) {
        let length = body.len().to_string();
        let mut all = vec![("content-length", length.as_str())];
        all.extend(headers);
        self.begin(status, &all).await.write(body).await;
    }

    /// Answers with JSON.
    pub async fn json(self, status: u16, body: &Value) {
        self.answer(status, &[("content-type", "application/json")], &body.to_string()).await;
    }

    /// Answers the request that it carries.
    pub async fn result(self, result: Value) {
        let answer = json!({"jsonrpc": "2.0", "id": self.message()["id"], "result": result});
        self.json(200, &answer).await;
    }

    /// Answers `initialize`.
    pub async fn welcome(self, session: Option<&str>, version: &str) {
        let answer =
            json!({"jsonrpc": "2.0", "id": self.message()["id"], "result": welcome(version)});
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        self.answer(200, &headers, &answer.to_string()).await;
    }

    /// Begins an answer whose end is that of the connection.
    pub async fn begin(mut self, status: u16, headers: &[(&str, &str)]) -> Answer {
        let mut head = format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n");
        for (name, value) in headers {
            head = format!("{head}{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        // A client that hung up is not this server's business.
        _ = self.socket.write_all(head.as_bytes()).await;
        Answer { socket: self.socket }
    }

    /// Begins an event stream.
    pub async fn stream(self) -> Answer {
        self.begin(200, &[("content-type", "text/event-stream")]).await
    }

    /// Waits until the client hangs up, without a word of ours.
    pub async fn gone(mut self) {
        hung_up(&mut self.socket).await;
    }
}

impl Answer {
    /// Writes more of the body.
    pub async fn write(&mut self, text: &str) {
        // A client that hung up is not this server's business.
        _ = self.socket.write_all(text.as_bytes()).await;
        _ = self.socket.flush().await;
    }

    /// Writes a message as an event.
    pub async fn event(&mut self, message: &Value) {
        self.write(&format!("data: {message}\n\n")).await;
    }

    /// Waits until the client hangs up.
    pub async fn gone(mut self) {
        hung_up(&mut self.socket).await;
    }

    /// Breaks the connection with a reset.
    pub fn reset(self) {
        self.socket.set_zero_linger().expect("a socket takes the option");
    }
}

/// What a legacy server says of itself.
pub fn welcome(version: &str) -> Value {
    let capabilities = json!({
        "tools": {"listChanged": true},
        "resources": {"subscribe": true},
        "logging": {},
    });
    json!({
        "protocolVersion": version,
        "capabilities": capabilities,
        "serverInfo": {"name": "scripted", "version": "1"},
    })
}

async fn hung_up(socket: &mut TcpStream) {
    let mut rest = [0; 64];
    within(async { while matches!(socket.read(&mut rest).await, Ok(1..)) {} }).await;
}

/// Reads one request; none if the connection ends before it does.
async fn receive(mut socket: TcpStream) -> Option<Hit> {
    let mut buffer = BytesMut::new();
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if socket.read_buf(&mut buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer.split_to(end + 4).to_vec()).ok()?;
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_str(value).ok()?);
    }
    let length = headers.get("content-length").and_then(|value| value.to_str().ok());
    let length: usize = length.and_then(|value| value.parse().ok()).unwrap_or(0);
    while buffer.len() < length {
        if socket.read_buf(&mut buffer).await.ok()? == 0 {
            return None;
        }
    }
    Some(Hit { method, path, headers, body: buffer.freeze(), socket })
}
