//! A Streamable HTTP server for the bridge to call: one answer a connection.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// Answers until the test ends; its threads end with the process.
pub(crate) struct Upstream {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

/// A URL where every request fails in one of the ways below, until the test ends.
pub(crate) fn failing(way: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A gateway that hangs up is a result, not a fault of this server.
            thread::spawn(move || {
                let stream = stream.unwrap();
                read_request(&stream).map(|_| fail(way, &stream))
            });
        }
    });
    format!("http://{address}/mcp")
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&heads);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let seen = Arc::clone(&seen);
                // A bridge that hangs up is a result, not a fault of this server.
                thread::spawn(move || _ = answer(&stream.unwrap(), &seen));
            }
        });
        Self { address, heads }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The heads of all requests that had a body, in order.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// The head and the body of a request.
fn read_request(stream: &TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    Ok((head, body))
}

fn answer(stream: &TcpStream, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let (head, body) = read_request(stream)?;
    let Ok(message) = serde_json::from_slice::<Value>(&body) else {
        return respond(stream, "405 Method Not Allowed", "text/plain", b"no\n");
    };
    seen.lock().unwrap().push(head);
    if message.get("id").is_none() {
        return respond(stream, "202 Accepted", "text/plain", b"");
    }
    if message["method"] == "server/discover" {
        return respond(stream, "404 Not Found", "text/plain", b"no\n");
    }
    let tool = message["params"]["name"].as_str().unwrap_or_default();
    let text = &message["params"]["arguments"]["text"];
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "rude", "version": "1"},
        }),
        "tools/call" => json!({"content": [{"type": "text", "text": text}]}),
        _ => json!({}),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    match tool {
        "forbidden" => {
            let error = json!({"code": -32000, "message": "your token is stale"});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
            respond(stream, "401 No", "application/json", answer.to_string().as_bytes())
        }
        // An event without measure, then the answer.
        "flood" => {
            let mut events = b"data: ".to_vec();
            events.resize(64 << 20, b'z');
            events.extend_from_slice(format!("\n\ndata: {answer}\n\n").as_bytes());
            respond(stream, "200 OK", "text/event-stream", &events)
        }
        _ => match fail(tool, stream) {
            Some(failed) => failed,
            None => respond(stream, "200 OK", "application/json", answer.as_bytes()),
        },
    }
}

/// Fails as the name of the tool says, if it says so.
fn fail(way: &str, mut stream: &TcpStream) -> Option<std::io::Result<()>> {
    const HTML: &[u8] = b"<html><body>Sign in</body></html>";
    let begin = |media: &str| format!("HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n");
    let (sent, stalls) = match way {
        "stall before the head" => (String::new(), true),
        "stall in the head" => (begin("application/json"), true),
        "stall in the body" => {
            (begin("application/json") + "Content-Length: 9\r\n\r\n{\"json", true)
        }
        "stall in an event" => (begin("text/event-stream") + "\r\ndata: {\"json", true),
        "reset" => (String::new(), false),
        "reset in an event" => (begin("text/event-stream") + "\r\ndata: {\"json", false),
        "404" => return Some(respond(stream, "404 Not Found", "text/plain", b"no\n")),
        "500" => return Some(respond(stream, "500 Internal Server Error", "text/html", HTML)),
        "401" => return Some(respond(stream, "401 Unauthorized", "text/plain", b"who?\n")),
        "html" => return Some(respond(stream, "200 OK", "text/html", HTML)),
        _ => return None,
    };
    let failed = stream.write_all(sent.as_bytes()).and_then(|()| {
        if stalls {
            // Until the bridge gives up.
            stream.read_to_end(&mut Vec::new()).map(drop)
        } else {
            rustix::net::sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO))
                .map_err(Into::into)
        }
    });
    Some(failed)
}

fn respond(mut stream: &TcpStream, status: &str, media: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(body)
}
