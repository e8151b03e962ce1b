//! The load: connections that call one after another, and check every answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::http::request::Builder;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::Failure;
use crate::wire::{self, Era, LEGACY, MODERN};

/// What a connection does again and again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Work {
    /// Calls the echo with so many bytes.
    Call(usize),
    /// Lists all tools, page after page.
    List,
}

/// How a client of a target speaks.
#[derive(Clone)]
pub struct Manner {
    pub era: Era,
    /// Take events alone, so that a server that may choose answers with them.
    pub events_only: bool,
    pub key: Option<&'static str>,
    /// The tools that calls name, in turn.
    pub tools: Arc<[String]>,
    /// How many tools the whole list has.
    pub listed: usize,
}

/// How long a server may take for one step of a client, or longer than the window of a sample.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Gives up on a server that does not get `what` done in time.
pub async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let ended = tokio::time::timeout(limit, work).await;
    ended.map_err(|_| format!("{what}: no end after {:.1} s", limit.as_secs_f64()))?
}

/// A client of one server: legacy ones share one session among their connections.
#[derive(Clone)]
pub struct Caller {
    uri: Uri,
    host: String,
    manner: Manner,
    session: Option<String>,
    next: Arc<AtomicU64>,
}

/// An HTTP connection of a client.
pub type Connection = SendRequest<Full<Bytes>>;

impl Caller {
    /// Greets the server at `url` if its era has greetings.
    pub async fn new(url: &str, manner: &Manner) -> Result<Self, Failure> {
        let uri: Uri = url.parse()?;
        let host = uri.authority().ok_or("no host")?.to_string();
        let next = Arc::new(AtomicU64::new(1));
        let mut caller = Self { uri, host, manner: manner.clone(), session: None, next };
        if manner.era == Era::Legacy {
            let greeted = async { caller.greet(&mut caller.connect().await?).await };
            caller = within(PATIENCE, "a greeting", greeted).await?;
        }
        Ok(caller)
    }

    /// The same client with a new session.
    pub async fn greet(&self, connection: &mut Connection) -> Result<Self, Failure> {
        let mut caller = Self { session: None, ..self.clone() };
        connection.ready().await?;
        let request = caller.post("initialize", None, wire::initialize())?;
        let answer = connection.send_request(request).await?;
        let session = answer.headers().get("mcp-session-id");
        caller.session = session.map(|id| id.to_str().map(str::to_owned)).transpose()?;
        let body = read(answer).await?;
        if !body.windows(15).any(|part| part == b"protocolVersion") {
            return Err(wrong(&body));
        }
        connection.ready().await?;
        let noted = caller.post("notifications/initialized", None, wire::INITIALIZED.to_owned())?;
        read(connection.send_request(noted).await?).await?;
        Ok(caller)
    }

    /// So many connections, each of which has been used once: nobody pays for opening them later.
    pub async fn connections(&self, count: usize) -> Result<Vec<Connection>, Failure> {
        let mut ready = Vec::new();
        for _ in 0..count {
            let mut connection = self.connect().await?;
            self.call(&mut connection, 100).await?;
            ready.push(connection);
        }
        Ok(ready)
    }

    /// Works over `connections` at once until `window` is over; how long each piece took.
    pub async fn work_for(
        &self,
        work: Work,
        window: Duration,
        connections: Vec<Connection>,
    ) -> Result<Vec<Duration>, Failure> {
        let until = Instant::now() + window;
        let mut tasks = tokio::task::JoinSet::new();
        for connection in connections {
            let caller = self.clone();
            tasks.spawn(async move { caller.work_until(work, connection, until).await });
        }
        let mut times = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            times.append(&mut ended??);
        }
        Ok(times)
    }

    async fn work_until(
        &self,
        work: Work,
        mut connection: Connection,
        until: Instant,
    ) -> Result<Vec<Duration>, Failure> {
        let mut times = Vec::new();
        let mut before = Instant::now();
        while before < until {
            match work {
                Work::Call(bytes) => self.call(&mut connection, bytes).await?,
                Work::List => self.list(&mut connection).await?,
            }
            let now = Instant::now();
            times.push(now - before);
            before = now;
        }
        Ok(times)
    }

    /// Calls the echo once.
    pub async fn call(&self, connection: &mut Connection, bytes: usize) -> Result<(), Failure> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let tools = &self.manner.tools;
        let tool = &tools[usize::try_from(id)? % tools.len()];
        let text = wire::text(id, bytes);
        let body = self.call_tool(connection, id, tool, &text).await?;
        if wire::is_echo(&body, id, &text) { Ok(()) } else { Err(wrong(&body)) }
    }

    /// Calls one tool, whatever it answers.
    pub async fn call_tool(
        &self,
        connection: &mut Connection,
        id: u64,
        tool: &str,
        text: &str,
    ) -> Result<Bytes, Failure> {
        let message = wire::call(self.manner.era, id, tool, text);
        connection.ready().await?;
        let answer = connection.send_request(self.post("tools/call", Some(tool), message)?).await?;
        read(answer).await
    }

    async fn list(&self, connection: &mut Connection) -> Result<(), Failure> {
        const CURSOR: &str = r#""nextCursor":""#;
        let (mut cursor, mut listed) = (None, 0);
        // Each page has a tool at least.
        for _ in 0..self.manner.listed {
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            let message = wire::list(self.manner.era, id, cursor.as_deref());
            connection.ready().await?;
            let body = connection.send_request(self.post("tools/list", None, message)?).await?;
            let body = read(body).await?;
            let text = std::str::from_utf8(&body)?;
            let tools = text.matches(r#""inputSchema""#).count();
            if !wire::has_id(&body, id) || tools == 0 {
                return Err(wrong(&body));
            }
            listed += tools;
            let found =
                text.rfind(CURSOR).and_then(|at| text[at + CURSOR.len()..].split('"').next());
            match found {
                Some(found) => cursor = Some(found.to_owned()),
                None if listed == self.manner.listed => return Ok(()),
                None => break,
            }
        }
        Err(format!("a list of {listed} tools, not {}", self.manner.listed).into())
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

    /// Ends the session.
    pub async fn end(self) -> Result<(), Failure> {
        let request = self.request("DELETE").body(Full::default())?;
        read(self.connect().await?.send_request(request).await?).await?;
        Ok(())
    }

    /// One value of the server's metrics, which `key` may read.
    pub async fn metric(&self, key: &str, name: &str) -> Result<f64, Failure> {
        let request = Request::get("/metrics").header("host", &self.host).header("x-api-key", key);
        let body = read(self.connect().await?.send_request(request.body(Full::default())?).await?);
        let body = body.await?;
        let line = std::str::from_utf8(&body)?
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.ok_or_else(|| format!("no {name} at /metrics"))?.parse()?)
    }

    /// Sends calls of `bytes` without reading an answer, until the server takes no more; the
    /// connection that nobody reads from. A server that takes all of `most` calls is an error:
    /// nothing waits for the client then.
    pub async fn never_read(&self, bytes: usize, most: u64) -> Result<TcpStream, Failure> {
        use tokio::io::AsyncWriteExt as _;
        let mut socket = TcpStream::connect(&self.host).await?;
        for id in 1..=most {
            let tool = &self.manner.tools[0];
            let message = wire::call(self.manner.era, id, tool, &wire::text(id, bytes));
            let request = self.post("tools/call", Some(tool), message.clone())?;
            let mut raw =
                format!("POST {} HTTP/1.1\r\ncontent-length: {}\r\n", request.uri(), message.len());
            for (name, value) in request.headers() {
                raw.extend([name.as_str(), ": ", value.to_str()?, "\r\n"]);
            }
            raw += "\r\n";
            raw += &message;
            let written =
                tokio::time::timeout(Duration::from_millis(200), socket.write_all(raw.as_bytes()));
            match written.await {
                Ok(written) => written?,
                Err(_) => return Ok(socket),
            }
        }
        Err(format!("{most} calls were sent, and none had to wait").into())
    }

    /// A new connection to the server.
    pub async fn connect(&self) -> Result<Connection, Failure> {
        let socket = TcpStream::connect(&self.host).await?;
        socket.set_nodelay(true)?;
        let (connection, driver) = http1::handshake(TokioIo::new(socket)).await?;
        // Its end is the connection's, and the next request finds it out.
        tokio::spawn(driver);
        Ok(connection)
    }

    fn post(
        &self,
        method: &str,
        tool: Option<&str>,
        body: String,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let accept = if self.manner.events_only {
            "text/event-stream"
        } else {
            "application/json, text/event-stream"
        };
        let mut request = self
            .request("POST")
            .header("content-type", "application/json")
            .header("accept", accept);
        if self.manner.era == Era::Modern {
            request = request.header("mcp-method", method);
            if let Some(tool) = tool {
                request = request.header("mcp-name", tool);
            }
        }
        Ok(request.body(Full::new(Bytes::from(body)))?)
    }

    fn request(&self, method: &str) -> Builder {
        let version = if self.manner.era == Era::Modern { MODERN } else { LEGACY };
        let mut request = Request::builder()
            .method(method)
            .uri(self.uri.path())
            .header("host", &self.host)
            .header("mcp-protocol-version", version);
        if let Some(key) = self.manner.key {
            request = request.header("x-api-key", key);
        }
        match &self.session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }
}

async fn read(answer: Response<Incoming>) -> Result<Bytes, Failure> {
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    if status.is_success() { Ok(body) } else { Err(format!("{status}: {}", wrong(&body)).into()) }
}

fn wrong(body: &[u8]) -> Failure {
    let start = String::from_utf8_lossy(&body[..body.len().min(500)]);
    format!("wrong answer: {start}").into()
}
