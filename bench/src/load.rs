//! The load: connections that call one after another, and check every answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::Failure;
use crate::wire::{self, Era, LEGACY, MODERN};

/// A client of one server: legacy ones share one session among their connections.
#[derive(Clone)]
pub struct Caller {
    uri: Uri,
    host: String,
    era: Era,
    session: Option<String>,
    next: Arc<AtomicU64>,
}

impl Caller {
    /// Greets the server at `url` if its era has greetings.
    pub async fn new(url: &str, era: Era) -> Result<Self, Failure> {
        let uri: Uri = url.parse()?;
        let host = uri.authority().ok_or("no host")?.to_string();
        let next = Arc::new(AtomicU64::new(1));
        let mut caller = Self { uri, host, era, session: None, next };
        if era == Era::Legacy {
            let mut connection = caller.connect().await?;
            let answer = connection.send_request(caller.post(wire::initialize())?).await?;
            let session = answer.headers().get("mcp-session-id");
            caller.session = session.map(|id| id.to_str().map(str::to_owned)).transpose()?;
            expect(answer, "protocolVersion").await?;
            connection.ready().await?;
            let noted = connection.send_request(caller.post(wire::INITIALIZED.to_owned())?).await?;
            expect(noted, "").await?;
        }
        Ok(caller)
    }

    /// Calls over `connections` at once until `window` is over; how many calls were answered.
    pub async fn call_for(&self, window: Duration, connections: usize) -> Result<u64, Failure> {
        let until = Instant::now() + window;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..connections {
            let caller = self.clone();
            tasks.spawn(async move { caller.call_until(until).await });
        }
        let mut calls = 0;
        while let Some(ended) = tasks.join_next().await {
            calls += ended??;
        }
        Ok(calls)
    }

    async fn call_until(&self, until: Instant) -> Result<u64, Failure> {
        let mut connection = self.connect().await?;
        let mut calls = 0;
        while Instant::now() < until {
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            let text = format!("{id:0>100}");
            connection.ready().await?;
            let answer =
                connection.send_request(self.post(wire::call(self.era, id, &text))?).await?;
            expect(answer, &text).await?;
            calls += 1;
        }
        Ok(calls)
    }

    /// Opens the stream on which a legacy server speaks unasked; it stays open while the answer lives.
    pub async fn watch(&self) -> Result<Response<Incoming>, Failure> {
        let mut connection = self.connect().await?;
        let request = self.request("GET").header("accept", "text/event-stream");
        let answer = connection.send_request(request.body(Full::default())?).await?;
        if answer.status() == 200 {
            Ok(answer)
        } else {
            Err(format!("GET: {}", answer.status()).into())
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let socket = TcpStream::connect(&self.host).await?;
        socket.set_nodelay(true)?;
        let (connection, driver) = http1::handshake(TokioIo::new(socket)).await?;
        // Its end is the connection's, and that is seen by whoever sends.
        tokio::spawn(driver);
        Ok(connection)
    }

    fn post(&self, body: String) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = self
            .request("POST")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if self.era == Era::Modern {
            request = request.header("mcp-method", "tools/call").header("mcp-name", "echo");
        }
        Ok(request.body(Full::new(Bytes::from(body)))?)
    }

    fn request(&self, method: &str) -> hyper::http::request::Builder {
        let version = if self.era == Era::Modern { MODERN } else { LEGACY };
        let request = Request::builder()
            .method(method)
            .uri(self.uri.path())
            .header("host", &self.host)
            .header("mcp-protocol-version", version);
        match &self.session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }
}

async fn expect(answer: Response<Incoming>, text: &str) -> Result<(), Failure> {
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    let body = std::str::from_utf8(&body)?;
    if status.is_success() && body.contains(text) {
        return Ok(());
    }
    Err(format!("wrong answer: {status} {body}").into())
}
