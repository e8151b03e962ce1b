//! A raw HTTP/1 client: sends the bytes it is given, reads what comes.

use std::fmt::{self, Write as _};
use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout, timeout_at};

/// How long a client of ours waits for anything before it says so.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The largest answer that is read.
const MOST: usize = 256 << 20;

/// Why there is no answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Lost {
    /// The connection ended before the answer did.
    Closed(String),
    /// Nothing more came in time.
    Silent,
    /// What came is not HTTP.
    Garbage(String),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(why) => write!(f, "connection closed ({why})"),
            Self::Silent => write!(f, "no answer in time"),
            Self::Garbage(what) => write!(f, "not HTTP: {what}"),
        }
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The messages in the body: one, or those of an event stream.
    pub(crate) fn messages(&self) -> Vec<Value> {
        if let Ok(message) = serde_json::from_slice(&self.body) {
            return vec![message];
        }
        let text = self.text();
        let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
        lines.filter_map(|line| serde_json::from_str(line.trim()).ok()).collect()
    }

    /// The last message: the answer, if there is one.
    pub(crate) fn message(&self) -> Value {
        self.messages().pop().unwrap_or_default()
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// One connection, and what was read ahead on it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
    patience: Duration,
    /// When what is being read must be whole; signs of life do not move it.
    deadline: Instant,
}

impl Connection {
    pub(crate) async fn open(port: u16) -> Result<Self, Lost> {
        Self::open_from(Ipv4Addr::LOCALHOST, port).await
    }

    /// The same from another address of this machine.
    pub(crate) async fn open_from(address: Ipv4Addr, port: u16) -> Result<Self, Lost> {
        let connecting = async {
            let socket = TcpSocket::new_v4()?;
            if address != Ipv4Addr::LOCALHOST {
                socket.bind((address, 0).into())?;
            }
            socket.connect((Ipv4Addr::LOCALHOST, port).into()).await
        };
        let connecting = timeout(PATIENCE, connecting).await;
        let stream = connecting.map_err(|_| Lost::Silent)?;
        let stream = stream.map_err(|error| Lost::Closed(error.to_string()))?;
        // An option of the socket that only makes us quicker.
        _ = stream.set_nodelay(true);
        Ok(Self {
            stream,
            buffer: Vec::new(),
            patience: PATIENCE,
            deadline: Instant::now() + PATIENCE,
        })
    }

    pub(crate) fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self.expect();
        self
    }

    /// Begins to wait anew.
    fn expect(&mut self) {
        self.deadline = Instant::now() + self.patience;
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        match timeout(self.patience, self.stream.write_all(bytes)).await {
            Err(_) => Err(Lost::Silent),
            Ok(sent) => sent.map_err(|error| Lost::Closed(error.to_string())),
        }
    }

    /// Says that nothing more is sent, and goes on reading.
    pub(crate) async fn end(&mut self) {
        // If the peer is gone, reading will tell.
        _ = self.stream.shutdown().await;
    }

    async fn fill(&mut self) -> Result<usize, Lost> {
        if self.buffer.len() > MOST {
            return Err(Lost::Garbage("an answer without end".to_owned()));
        }
        match timeout_at(self.deadline, self.stream.read_buf(&mut self.buffer)).await {
            Err(_) => Err(Lost::Silent),
            Ok(read) => read.map_err(|error| Lost::Closed(error.to_string())),
        }
    }

    async fn more(&mut self) -> Result<(), Lost> {
        match self.fill().await? {
            0 => Err(Lost::Closed("end of stream".to_owned())),
            _ => Ok(()),
        }
    }

    /// The bytes up to and with `end`.
    async fn until(&mut self, end: &[u8]) -> Result<Vec<u8>, Lost> {
        loop {
            let found = self.buffer.windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Ok(self.buffer.drain(..at + end.len()).collect());
            }
            self.more().await?;
        }
    }

    async fn exactly(&mut self, length: usize) -> Result<Vec<u8>, Lost> {
        while self.buffer.len() < length {
            self.more().await?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// The status and the head of the next answer.
    pub(crate) async fn head(&mut self) -> Result<(u16, String), Lost> {
        self.expect();
        loop {
            let head = String::from_utf8_lossy(&self.until(b"\r\n\r\n").await?).into_owned();
            let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
            let status: Option<u16> = status.and_then(|status| status.parse().ok());
            match status {
                Some(100..=199) if status != Some(101) => {}
                Some(status) => return Ok((status, head)),
                None => return Err(Lost::Garbage(head.chars().take(80).collect())),
            }
        }
    }

    /// The next answer with its whole body.
    pub(crate) async fn reply(&mut self) -> Result<Reply, Lost> {
        let (status, head) = self.head().await?;
        let mut body = Vec::new();
        let is_bodiless = matches!(status, 101 | 204 | 304);
        if header(&head, "transfer-encoding").is_some_and(|value| value.contains("chunked")) {
            while let Some(chunk) = self.chunk().await? {
                body.extend(chunk);
            }
        } else if let Some(length) = header(&head, "content-length") {
            let length = length.parse().map_err(|_| Lost::Garbage("content-length".to_owned()))?;
            body = self.exactly(length).await?;
        } else if !is_bodiless {
            while self.fill().await? > 0 {}
            body = std::mem::take(&mut self.buffer);
        }
        Ok(Reply { status, head, body })
    }

    /// The next piece of a body in chunks; none at its end.
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Lost> {
        let line = self.until(b"\r\n").await?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16)
            .map_err(|_| Lost::Garbage(format!("a chunk of size {size:?}")))?;
        let mut chunk = self.exactly(size + 2).await?;
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }

    /// Waits until the peer hangs up, whatever it says before.
    pub(crate) async fn closed(&mut self) -> Result<(), Lost> {
        self.expect();
        loop {
            self.buffer.clear();
            match self.fill().await {
                Ok(0) | Err(Lost::Closed(_)) => return Ok(()),
                Ok(_) => {}
                Err(lost) => return Err(lost),
            }
        }
    }
}

/// A request, with `Host` and `Content-Length` unless `headers` has them.
pub(crate) fn request(line: &str, port: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{line} HTTP/1.1\r\n");
    let has = |name: &str| headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
    if !has("host") {
        // Writing to a string does not fail.
        _ = write!(head, "Host: 127.0.0.1:{port}\r\n");
    }
    if !has("content-length")
        && !has("transfer-encoding")
        && (!body.is_empty() || line.starts_with("POST"))
    {
        _ = write!(head, "Content-Length: {}\r\n", body.len());
    }
    for (name, value) in headers {
        _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

/// The headers that every POST of a message has.
pub(crate) const POST: [(&str, &str); 2] =
    [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];

/// Sends bytes on a connection of their own and reads one answer.
pub(crate) async fn send(port: u16, bytes: &[u8], patience: Duration) -> Result<Reply, Lost> {
    let mut connection = Connection::open(port).await?.patient(patience);
    connection.send(bytes).await?;
    connection.reply().await
}

/// A GET as somebody.
pub(crate) async fn get(port: u16, path: &str, key: Option<&str>) -> Result<Reply, Lost> {
    let headers: Vec<_> = key.map(|key| ("X-API-Key", key)).into_iter().collect();
    send(port, &request(&format!("GET {path}"), port, &headers, b""), PATIENCE).await
}

/// A POST of JSON as somebody.
pub(crate) async fn post(
    port: u16,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Reply, Lost> {
    let headers = [&POST[..], headers].concat();
    send(port, &request(&format!("POST {path}"), port, &headers, body), PATIENCE).await
}
