//! A legacy server on HTTP that cuts its streams, and forgets its sessions when it is told to.

use std::io::{BufRead as _, BufReader, Read as _, Result, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// Answers until the test ends; its threads end with the process.
pub(super) struct Cutting {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    greeted: AtomicUsize,
    resumed: AtomicUsize,
    /// The sessions that it remembers.
    sessions: Mutex<Vec<String>>,
}

struct Request {
    head: String,
    body: Value,
}

impl Request {
    fn read(stream: &TcpStream) -> Result<Self> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
        let mut request = Self { head, body: Value::Null };
        let length = request.header("content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        request.body = serde_json::from_slice(&body).unwrap_or_default();
        Ok(request)
    }

    fn header(&self, wanted: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(':'));
        let found = headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.trim())
    }
}

impl Cutting {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&shared);
                // Who hangs up has seen enough.
                thread::spawn(move || _ = state.answer(&stream.unwrap()));
            }
        });
        Self { address, state }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// How many streams somebody came back to.
    pub(super) fn resumed(&self) -> usize {
        self.state.resumed.load(Ordering::SeqCst)
    }
}

impl State {
    fn answer(&self, stream: &TcpStream) -> Result<()> {
        let request = Request::read(stream)?;
        if request.head.starts_with("GET ") {
            return self.listen(stream, request.header("last-event-id"));
        }
        let (id, method) = (&request.body["id"], request.body["method"].as_str());
        if method == Some("initialize") {
            let session = self.greeted.fetch_add(1, Ordering::SeqCst).to_string();
            self.sessions.lock().unwrap().push(session.clone());
            let version = &request.body["params"]["protocolVersion"];
            let info = json!({"name": "cutting", "version": "1"});
            let result = json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info});
            let head = format!("200 OK\r\nMcp-Session-Id: {session}");
            return respond(stream, &head, "application/json", &answer(id, &result));
        }
        let session = request.header("mcp-session-id").unwrap_or_default();
        if !self.sessions.lock().unwrap().iter().any(|known| known == session) {
            return respond(stream, "404 Not Found", "text/plain", "no\n");
        }
        let tool = request.body["params"]["name"].as_str();
        let result = match (method, tool) {
            _ if id.is_null() => return respond(stream, "202 Accepted", "text/plain", ""),
            (Some("tools/call"), Some("cut")) => {
                let prime = format!("id: call-{id}\ndata: \n\n");
                return respond(stream, "200 OK", "text/event-stream", &prime);
            }
            (Some("tools/call"), Some(tool)) => {
                if tool == "forget" {
                    self.sessions.lock().unwrap().clear();
                }
                said(tool)
            }
            _ => {
                let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
                json!({"tools": (["cut", "echo", "forget"].map(tool))})
            }
        };
        respond(stream, "200 OK", "application/json", &answer(id, &result))
    }

    /// The stream that listens breaks at once, and stays once somebody came back
    /// to it; that of a call has its answer then.
    fn listen(&self, mut stream: &TcpStream, last: Option<&str>) -> Result<()> {
        let Some(last) = last else {
            return respond(
                stream,
                "200 OK",
                "text/event-stream",
                "id: ear\nretry: 10\ndata: \n\n",
            );
        };
        self.resumed.fetch_add(1, Ordering::SeqCst);
        if let Some(id) = last.strip_prefix("call-") {
            let answer = answer(&serde_json::from_str(id).unwrap(), &said("cut"));
            return respond(stream, "200 OK", "text/event-stream", &format!("data: {answer}\n\n"));
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")?;
        stream.read_to_end(&mut Vec::new()).map(drop)
    }
}

fn said(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn answer(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn respond(mut stream: &TcpStream, status: &str, media: &str, body: &str) -> Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}
