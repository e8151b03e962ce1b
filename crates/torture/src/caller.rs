//! A client of one era that makes calls, and checks every answer it gets.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::http::{Connection, Lost, PATIENCE, POST, Reply, request};

/// The newest revision with a handshake, and the one without.
pub(crate) const LEGACY: &str = "2025-11-25";
pub(crate) const MODERN: &str = "2026-07-28";

/// A connection that has rested for longer is not used again: the gateway ends those that
/// rest for thirty seconds, and may be about to.
const REST: Duration = Duration::from_secs(8);

/// How a client speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// What came of a request.
#[derive(Clone, Debug)]
pub(crate) enum CallResult {
    /// A result under the id of the request.
    Result(Value),
    /// An error under the id of the request.
    Error(i64, String),
    /// Refused with an HTTP status, without a message of the same id.
    Refused(u16, String),
    /// No answer.
    Lost(Lost),
    /// An answer that is not this caller's. Never acceptable.
    Crossed(String),
}

impl fmt::Display for CallResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result(result) => write!(f, "the result {:.300}", result.to_string()),
            Self::Error(code, why) => write!(f, "error {code}: {why:.300}"),
            Self::Refused(status, why) => write!(f, "HTTP {status}: {why:.300}"),
            Self::Lost(lost) => write!(f, "{lost}"),
            Self::Crossed(what) => write!(f, "a crossed answer: {what:.300}"),
        }
    }
}

impl CallResult {
    /// The text of a tool's result.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Result(result) => result["content"][0]["text"].as_str(),
            _ => None,
        }
    }

    /// Whether the caller was told that its call failed, in any clear form.
    pub(crate) fn is_failure(&self) -> bool {
        match self {
            Self::Error(..) | Self::Refused(..) => true,
            Self::Result(result) => result["isError"] == true,
            Self::Lost(_) | Self::Crossed(_) => false,
        }
    }
}

/// One client.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) era: Era,
    pub(crate) key: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) capabilities: Value,
    /// Sent with each request besides.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) patience: Duration,
    /// The address it has.
    pub(crate) from: Ipv4Addr,
    connection: Option<(Connection, Instant)>,
}

/// Ids are never used twice, by no client: an answer that goes astray is seen.
static IDS: AtomicU64 = AtomicU64::new(1);

/// A text that nobody else has.
pub(crate) fn nonce() -> String {
    format!("n{}", IDS.fetch_add(1, Ordering::Relaxed))
}

impl Caller {
    pub(crate) fn new(port: u16, path: &str, era: Era, key: Option<&str>) -> Self {
        Self {
            port,
            path: path.to_owned(),
            era,
            key: key.map(ToOwned::to_owned),
            session: None,
            capabilities: json!({}),
            headers: Vec::new(),
            patience: PATIENCE,
            from: Ipv4Addr::LOCALHOST,
            connection: None,
        }
    }

    pub(crate) fn able(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    pub(crate) fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The bytes of a request of this client, and the id it has.
    pub(crate) fn bytes(&self, method: &str, mut params: Value) -> (String, Vec<u8>) {
        let id = nonce();
        let name = ["name", "uri", "taskId"].into_iter().find_map(|key| params[key].as_str());
        let name = name.unwrap_or_default().to_owned();
        let mut headers: Vec<(&str, &str)> = POST.to_vec();
        if self.era == Era::Modern {
            if params["_meta"].is_null() {
                params["_meta"] = json!({});
            }
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "torture", "version": "1"});
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            headers.extend([("MCP-Protocol-Version", MODERN), ("Mcp-Method", method)]);
            if !name.is_empty() {
                headers.push(("Mcp-Name", &name));
            }
        }
        headers.extend(self.key.as_deref().map(|key| ("X-API-Key", key)));
        headers.extend(self.session.as_deref().map(|session| ("Mcp-Session-Id", session)));
        headers.extend(self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let line = format!("POST {}", self.path);
        (id, request(&line, self.port, &headers, body.to_string().as_bytes()))
    }

    /// Greets, if its era does and it has not.
    pub(crate) async fn greet(&mut self) -> Result<(), CallResult> {
        if self.era == Era::Modern || self.session.is_some() {
            return Ok(());
        }
        let params = json!({
            "protocolVersion": LEGACY,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "torture", "version": "1"},
        });
        let (id, bytes) = self.bytes("initialize", params);
        let reply = self.exchange(&bytes).await.map_err(CallResult::Lost)?;
        match said(&id, &reply) {
            CallResult::Result(_) => {}
            other => return Err(other),
        }
        self.session = reply.header("mcp-session-id").map(ToOwned::to_owned);
        if self.session.is_none() {
            return Err(CallResult::Refused(
                reply.status,
                "a greeting without a session".to_owned(),
            ));
        }
        self.note("notifications/initialized", json!({})).await.map_err(CallResult::Lost)?;
        Ok(())
    }

    /// Sends a notification; the status it gets.
    pub(crate) async fn note(&mut self, method: &str, params: Value) -> Result<u16, Lost> {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
        let mut headers: Vec<(&str, &str)> = POST.to_vec();
        headers.extend(self.key.as_deref().map(|key| ("X-API-Key", key)));
        headers.extend(self.session.as_deref().map(|session| ("Mcp-Session-Id", session)));
        let bytes = request(&format!("POST {}", self.path), self.port, &headers, body.as_bytes());
        Ok(self.exchange(&bytes).await?.status)
    }

    /// Makes a request and waits for its answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> CallResult {
        if let Err(said) = self.greet().await {
            return said;
        }
        let (id, bytes) = self.bytes(method, params);
        match self.exchange(&bytes).await {
            Ok(reply) => {
                let said = said(&id, &reply);
                if matches!(said, CallResult::Error(..) | CallResult::Refused(..))
                    && reply.status == 404
                {
                    // The session is over; the next request begins another.
                    self.session = None;
                }
                said
            }
            Err(lost) => CallResult::Lost(lost),
        }
    }

    /// Calls a tool.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> CallResult {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool that says back what it is told, and checks that it does. `Ok(true)` if
    /// it did, `Ok(false)` if the call failed in a clear way, an error for anything else.
    pub(crate) async fn echo(&mut self, tool: &str, more: Value) -> Result<bool, String> {
        let nonce = nonce();
        let mut arguments = more;
        arguments["message"] = nonce.as_str().into();
        let said = self.call(tool, arguments).await;
        match &said {
            _ if said.text() == Some(&nonce) => Ok(true),
            CallResult::Crossed(what) => Err(format!("crossed answer: {what}")),
            CallResult::Lost(lost) => Err(format!("{tool}: {lost}")),
            _ if said.is_failure() => Ok(false),
            CallResult::Result(result) => {
                Err(format!("{nonce} of {tool} came back as {result:.200}"))
            }
            CallResult::Error(..) | CallResult::Refused(..) => Ok(false),
        }
    }

    /// Calls a tool of the built-in server that asks for a name and greets by it: a call of
    /// two rounds, in the modern era.
    pub(crate) async fn round(&mut self, prefix: &str, name: &str) -> CallResult {
        let tool = format!("{prefix}test_input_required_result_elicitation");
        let said = self.call(&tool, json!({})).await;
        let CallResult::Result(result) = &said else { return said };
        let questions = result["inputRequests"].as_object();
        let Some(key) = questions.and_then(|all| all.keys().next()) else { return said };
        let accepted = json!({"action": "accept", "content": {"name": name}});
        let mut params = json!({"name": tool, "arguments": {}, "inputResponses": {key: accepted}});
        if !result["requestState"].is_null() {
            params["requestState"] = result["requestState"].clone();
        }
        self.ask("tools/call", params).await
    }

    /// Sends bytes on its connection, a new one if the last is over, and reads the answer.
    /// Nothing is sent twice: an answer that is lost must be seen to be lost.
    pub(crate) async fn exchange(&mut self, bytes: &[u8]) -> Result<Reply, Lost> {
        let mut connection = match self.connection.take() {
            Some((connection, used)) if used.elapsed() < REST => connection,
            _ => Connection::open_from(self.from, self.port).await?.patient(self.patience),
        };
        connection.send(bytes).await?;
        let reply = connection.reply().await?;
        let is_over = reply.header("connection").is_some_and(|it| it.eq_ignore_ascii_case("close"));
        self.connection = (!is_over).then(|| (connection, Instant::now()));
        Ok(reply)
    }

    /// Ends its session.
    pub(crate) async fn leave(mut self) {
        if let Some(session) = self.session.take() {
            let mut headers = vec![("Mcp-Session-Id", session.as_str())];
            headers.extend(self.key.as_deref().map(|key| ("X-API-Key", key)));
            let bytes = request(&format!("DELETE {}", self.path), self.port, &headers, b"");
            // Whoever cannot say goodbye is gone all the same.
            _ = crate::http::send(self.port, &bytes, self.patience).await;
        }
    }
}

/// What a reply says to the request with this id.
pub(crate) fn said(id: &str, reply: &Reply) -> CallResult {
    let messages = reply.messages();
    let answers = messages.iter().filter(|message| message.get("method").is_none());
    let mut found = None;
    for answer in answers {
        if answer["id"] == id {
            if found.is_some() {
                return CallResult::Crossed(format!("two answers to {id}"));
            }
            found = Some(answer);
        } else if !answer["id"].is_null() {
            return CallResult::Crossed(format!("asked as {id}, answered as {answer:.200}"));
        }
    }
    match found {
        Some(answer) if !answer["result"].is_null() => CallResult::Result(answer["result"].clone()),
        Some(answer) => {
            let error = &answer["error"];
            let message = error["message"].as_str().unwrap_or_default().to_owned();
            CallResult::Error(error["code"].as_i64().unwrap_or(0), message)
        }
        None if reply.status == 200 => {
            CallResult::Lost(Lost::Closed("a whole response without an answer".to_owned()))
        }
        None => CallResult::Refused(reply.status, reply.text().chars().take(200).collect()),
    }
}
