//! An HTTP server in this process that behaves as the name of the called tool says.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Heads that are kept, for whoever asks what was sent.
const HEADS: usize = 64;

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Web {
    pub(crate) port: u16,
    heads: Arc<Mutex<VecDeque<String>>>,
    /// Whether every connection is cut at once.
    is_broken: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Web {
    pub(crate) async fn start() -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let heads = Arc::new(Mutex::new(VecDeque::new()));
        let is_broken = Arc::new(AtomicBool::new(false));
        let (seen, broken) = (Arc::clone(&heads), Arc::clone(&is_broken));
        let task = tokio::spawn(async move {
            // Connections end with the server.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                if broken.load(Ordering::Relaxed) {
                    // A reset in place of an orderly end.
                    _ = stream.set_zero_linger();
                    continue;
                }
                let seen = Arc::clone(&seen);
                connections.spawn(async move { serve(stream, port, &seen).await });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, heads, is_broken, task })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Cuts every new connection from here on, or serves again.
    pub(crate) fn break_off(&self, is_broken: bool) {
        self.is_broken.store(is_broken, Ordering::Relaxed);
    }

    /// The heads of the last requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads one request and answers it; `None` at any trouble, which ends the connection.
async fn serve(mut stream: TcpStream, port: u16, seen: &Mutex<VecDeque<String>>) -> Option<()> {
    let mut buffer = Vec::new();
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let lower = head.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.and_then(|value| value.trim().parse().ok()).unwrap_or(0);
    while buffer.len() < end + length {
        if stream.read_buf(&mut buffer).await.ok()? == 0 {
            return None;
        }
    }
    let message: Value = serde_json::from_slice(&buffer[end..]).unwrap_or_default();
    {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() == HEADS {
            seen.pop_front();
        }
        seen.push_back(head.clone());
    }
    if !head.starts_with("POST") {
        return whole(&mut stream, 405, "text/plain", "").await;
    }
    let id = &message["id"];
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": crate::caller::LEGACY,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"},
        }),
        "tools/list" => {
            let names = [&["echo", "wait"], super::ways::NAMES].concat();
            let tools: Vec<_> = names
                .iter()
                .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
                .collect();
            json!({"tools": tools})
        }
        "ping" => json!({}),
        "tools/call" => {
            let arguments = &message["params"]["arguments"];
            let text = arguments["message"].as_str().unwrap_or_default().to_owned();
            let good = answer(id, &text);
            return match message["params"]["name"].as_str().unwrap_or_default() {
                "echo" => whole(&mut stream, 200, "application/json", &good).await,
                "wait" => {
                    let ms = arguments["ms"].as_u64().unwrap_or(0).min(60_000);
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    whole(&mut stream, 200, "application/json", &good).await
                }
                way => super::ways::behave(&mut stream, way, port, id, &good).await,
            };
        }
        _ if id.is_null() => return whole(&mut stream, 202, "text/plain", "").await,
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            let text = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
            return whole(&mut stream, 200, "application/json", &text).await;
        }
    };
    let text = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    whole(&mut stream, 200, "application/json", &text).await
}

pub(super) fn answer(id: &Value, text: &str) -> String {
    let result = json!({"content": [{"type": "text", "text": text}]});
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// A whole answer, and the end of the connection.
pub(super) async fn whole(
    stream: &mut TcpStream,
    status: u16,
    media: &str,
    body: &str,
) -> Option<()> {
    let head = format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: {media}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.ok()
}
