//! An HTTP client that sends just what it is told to, malformed or not.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use serde_json::{Value, json};

use crate::process::{PATIENCE, greeting};

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The message in the body, or in the last event of a stream.
    #[track_caller]
    pub(crate) fn message(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        let last = text.lines().rfind(|line| line.starts_with("data: {"));
        let json = last.map_or(text.as_ref(), |line| &line["data: ".len()..]);
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {self:.400?}"))
    }
}

/// A session at the endpoint of a bridge.
pub(crate) struct Session {
    pub(crate) port: u16,
    pub(crate) id: String,
}

impl Session {
    /// Greets the test server, as a legacy client does.
    pub(crate) fn open(port: u16) -> Self {
        Self::open_at(port, "rude")
    }

    /// Greets the server of that name.
    pub(crate) fn open_at(port: u16, name: &str) -> Self {
        let hello =
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting()});
        let answer = post(port, &[], hello.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.message()["result"]["serverInfo"]["name"], name, "{answer:?}");
        let id = answer.header("mcp-session-id").expect("a session id").to_owned();
        let session = Self { port, id };
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(session.post(ready.to_string().as_bytes()).status, 202);
        session
    }

    pub(crate) fn post(&self, body: &[u8]) -> Response {
        post(self.port, &[("Mcp-Session-Id", &self.id)], body)
    }

    pub(crate) fn call(&self, name: &str, arguments: &Value) -> Response {
        let params = json!({"name": name, "arguments": arguments});
        self.post(tool_call(1, &params).as_bytes())
    }

    /// Calls a tool without arguments under an id of the test's choice.
    pub(crate) fn call_as(&self, id: u64, name: &str) -> Response {
        self.post(tool_call(id, &json!({"name": name, "arguments": {}})).as_bytes())
    }

    /// Sends a call and leaves its answer unread.
    pub(crate) fn begin_call(&self, id: u64, params: &Value) -> TcpStream {
        let body = tool_call(id, params);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nMcp-Session-Id: {}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.port,
            self.id,
            body.len(),
        )
        .unwrap();
        stream
    }
}

fn tool_call(id: u64, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

/// An event stream, read as it comes.
pub(crate) struct Events {
    lines: Lines<BufReader<TcpStream>>,
}

impl Events {
    pub(crate) fn open(port: u16, path: &str) -> Self {
        Self::open_as(port, path, "")
    }

    /// The same for somebody with a key.
    pub(crate) fn open_as(port: u16, path: &str, key: &str) -> Self {
        Self::open_with(port, path, &format!("X-API-Key: {key}\r\n"))
    }

    /// The same with further lines in the head.
    pub(crate) fn open_with(port: u16, path: &str, more: &str) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // HTTP/1.0 keeps chunk sizes out of the lines.
        let head = format!(
            "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n{more}\
             Accept: text/event-stream\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        Self { lines: BufReader::new(stream).lines() }
    }

    /// The first line of data after the line `event`.
    pub(crate) fn next(&mut self, event: &str) -> String {
        let mut lines = self.lines.by_ref().map(Result::unwrap).skip_while(|line| line != event);
        let line = lines.find_map(|line| line.strip_prefix("data: ").map(ToOwned::to_owned));
        line.unwrap_or_else(|| panic!("the stream ended before {event:?}"))
    }

    /// Reads to the end of the stream.
    pub(crate) fn until_end(self) {
        self.lines.map(Result::unwrap).for_each(drop);
    }
}

/// One POST to the endpoint, on a connection of its own.
pub(crate) fn post(port: u16, headers: &[(&str, &str)], body: &[u8]) -> Response {
    post_to(port, "/mcp", headers, body)
}

/// The same to an endpoint elsewhere.
pub(crate) fn post_to(port: u16, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    let length = body.len().to_string();
    let basic = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Content-Length", length.as_str()),
    ];
    send(port, &format!("POST {path}"), &[&basic, headers].concat(), body)
}

/// One request, on a connection of its own.
pub(crate) fn send(port: u16, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    try_send(port, line, headers, body).unwrap()
}

/// The same where the server may close the connection instead of answering.
pub(crate) fn try_send(
    port: u16,
    line: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Response> {
    let mut head = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        write!(head, "Host: 127.0.0.1:{port}\r\n").unwrap();
    }
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    head += "\r\n";
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(head.as_bytes())?;
    let mut writer = stream.try_clone()?;
    thread::scope(|scope| {
        // The server may answer before it has read all, and read no more.
        scope.spawn(move || _ = writer.write_all(body));
        let mut text = Vec::new();
        stream.read_to_end(&mut text)?;
        if text.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(parse(&text)) }
    })
}

fn parse(text: &[u8]) -> Response {
    let end = text.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    let head = String::from_utf8(text[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut response = Response { status, head, body: text[end + 4..].to_vec() };
    if response.header("transfer-encoding") == Some("chunked") {
        response.body = dechunk(&response.body);
    }
    response
}

fn dechunk(mut text: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = text.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(str::from_utf8(&text[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            break;
        }
        body.extend_from_slice(&text[end + 2..end + 2 + length]);
        text = &text[end + 4 + length..];
    }
    body
}
