//! The server behind a bridge or a gateway: as little work as an answer takes, because its
//! work over HTTP is counted with ours.

use serde_json::json;
use switchboard_proto::revision::{Era, Revision};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A server of one era that has a tool `echo`, and others that nobody calls.
#[derive(Clone, Debug)]
pub struct EchoServer {
    era: Era,
    tools: String,
}

impl EchoServer {
    /// A server with so many tools.
    pub fn new(era: Era, tools: usize) -> Self {
        let tools: Vec<_> = (0..tools).map(definition).collect();
        Self { era, tools: json!(tools).to_string() }
    }

    /// What to say to a message, if it wants an answer.
    pub fn answer(&self, message: &str) -> Option<String> {
        let id = between(message, r#""id":"#, [',', '}'])?;
        let method = between(message, r#""method":""#, ['"'])?;
        let result = match (method, self.era) {
            ("tools/call", _) => {
                let text = between(message, r#""text":""#, ['"']).unwrap_or_default();
                let text = format!(r#""content":[{{"type":"text","text":"{text}"}}]"#);
                self.result(&text, false)
            }
            ("tools/list", _) => self.result(&format!(r#""tools":{}"#, self.tools), true),
            ("initialize", Era::Legacy) => {
                let version = Revision::NEWEST_LEGACY.as_str();
                format!(
                    r#""result":{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","version":"1"}}}}"#
                )
            }
            ("server/discover", Era::Modern) => {
                let version = Revision::NEWEST_MODERN.as_str();
                let found =
                    format!(r#""supportedVersions":["{version}"],"capabilities":{{"tools":{{}}}}"#);
                self.result(&found, true)
            }
            ("ping", Era::Legacy) => r#""result":{}"#.to_owned(),
            _ => r#""error":{"code":-32601,"message":"no such method"}"#.to_owned(),
        };
        Some(format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#))
    }

    /// A result with what a modern one has besides; `cached` if its era can cache it.
    fn result(&self, members: &str, cached: bool) -> String {
        let (done, hints) = match (self.era, cached) {
            (Era::Legacy, _) => ("", ""),
            (Era::Modern, false) => (r#""resultType":"complete","#, ""),
            (Era::Modern, true) => {
                (r#""resultType":"complete","#, r#""ttlMs":0,"cacheScope":"public","#)
            }
        };
        format!(r#""result":{{{done}{hints}{members}}}"#)
    }

    /// Answers POSTs on a free port of this machine, as a task of this runtime; its URL.
    pub async fn serve_http(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(self.clone().serve_connection(stream));
            }
        });
        format!("http://{address}/mcp")
    }

    async fn serve_connection(self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        loop {
            let Some(end) = end_of_request(&buffer) else {
                match stream.read_buf(&mut buffer).await {
                    Ok(1..) => continue,
                    _ => return,
                }
            };
            let request = std::str::from_utf8(&buffer[..end]).expect("a request is text");
            let body = request.split_once("\r\n\r\n").expect("a whole head").1;
            let response = match self.answer(body) {
                _ if !request.starts_with("POST") => response("405 Method Not Allowed", ""),
                Some(answer) => response("200 OK", &answer),
                None => response("202 Accepted", ""),
            };
            buffer.drain(..end);
            if stream.write_all(response.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// The definition of a tool: `echo`, and then tools of other names.
fn definition(number: usize) -> serde_json::Value {
    let name = if number == 0 { "echo".to_owned() } else { format!("tool_{number}") };
    json!({
        "name": name,
        "description": "gives back its text",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    })
}

/// The definitions of so many tools.
pub fn definitions(tools: usize) -> impl Iterator<Item = serde_json::Value> {
    (0..tools).map(definition)
}

/// What is between `start` and the first of `ends` after it.
fn between<'t, const N: usize>(text: &'t str, start: &str, ends: [char; N]) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    rest.split(ends).next()
}

/// Where the first request ends, if it is there as a whole.
pub(crate) fn end_of_request(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).expect("a head is text");
    let length = between(head, "content-length: ", ['\r']).map(str::parse);
    let length: usize = length.unwrap_or(Ok(0)).expect("a length is a number");
    (bytes.len() >= end + length).then_some(end + length)
}

fn response(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}
