//! A client: connects to any server and calls it, whatever era it speaks.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use switchboard_net::client::Client;
//!
//! let client = Client::connect("https://example.com/mcp").await?;
//! let client = Client::spawn("npx -y @modelcontextprotocol/server-everything").await?;
//! let client = Client::builder().timeout(Duration::from_mins(2)).connect("http://[::1]:8080/mcp").await?;
//! for tool in client.tools().await? {
//!     println!("{}", tool["name"]);
//! }
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Dropping the future of a call cancels it, and tells the server so. Whoever
//! wants to answer a server's questions says so in [`ClientOptions`], once for
//! both eras. A call is sent once: after a broken connection it fails, and the
//! next one connects again.
//!
//! How a client finds out which era its server speaks, and greets it:
//!
//! ```text
//!   known or forced legacy ─────────────────────────────────▶ initialize
//!   else: server/discover ──▶ modern: that was all
//!              ├──▶ legacy, by its answer ──▶ the same child ─▶ initialize
//!              ├──▶ child silent or dead ───▶ a fresh child ──▶ initialize   (NEG-7)
//!              └──▶ HTTP 401, 5xx, network ─▶ an error: no evidence          (NEG-6)
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use switchboard_proto::client::Sharing;
use switchboard_proto::client::probe::{self, Verdict};
use switchboard_proto::exchange::Carrier;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Id, Kind, Member, Message, Part};
use switchboard_proto::method::{self, meta};
use switchboard_proto::revision::{Era, Revision, era_of};
use switchboard_proto::types::Unfit;

use crate::drive::now;
use crate::upstream::{
    Eras, IntoCommand, IntoTarget, ServerTarget, Strategy, Target, TargetError, ViaBridge, asked,
};
use connection::ServerConnection;

mod cache;
mod call;
mod client_tasks;
mod connection;
mod options;
mod skill;
mod subscription;
mod typed;

pub use cache::ResponseCache;
pub use client_tasks::{Called, Task};
pub use options::{
    AnswerWith, Answering, CallOptions, Callback, Callbacks, ClientOptions, Declined, Notification,
    Progress, Remembered, form_defaults,
};
pub use skill::Skill;
pub use subscription::{ListenFilter, Listening};
pub use typed::TypedClient;

pub(crate) use call::{RawList, elements};
pub(crate) use options::ConnectionWatcher;

/// How long a verdict about a server's era is worth remembering (NEG-9).
const REMEMBER: Duration = Duration::from_hours(1);

/// A connection to one server. Clones share it; the last one dropped ends it.
///
/// There is a method for each of the protocol's: [`tools`](Self::tools) and
/// [`call_tool`](Self::call_tool), [`prompts`](Self::prompts) and [`prompt`](Self::prompt),
/// [`resources`](Self::resources) and [`read`](Self::read), [`complete`](Self::complete),
/// [`listen`](Self::listen), [`ping`](Self::ping); lists are read to their end.
/// [`request`](Self::request) and [`notify`](Self::notify) are for everything else. They give
/// JSON; [`typed`](Self::typed) has the same methods with types, and
/// [`call_tool_as`](Self::call_tool_as) reads a result as a type of yours.
#[derive(Clone)]
pub struct Client {
    core: Arc<ClientCore>,
}

/// What the clones of a client share.
struct ClientCore {
    connection: Arc<ServerConnection>,
    era: Era,
    revision: String,
    /// The result of `initialize` or `server/discover`.
    welcome: Value,
    /// What goes into `_meta` of every request.
    envelope: Vec<(Member, String)>,
}

impl ClientCore {
    fn options(&self) -> &ClientOptions {
        &self.connection.inbox.options
    }
}

impl Client {
    /// Connects to the server at a URL, or to any other [`ServerTarget`]: asks which era it
    /// speaks, and greets a legacy one.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use serde_json::json;
    /// use switchboard_net::client::Client;
    ///
    /// let client = Client::connect("https://example.com/mcp").await?;
    /// let result = client.call_tool("add", json!({"a": 2, "b": 3})).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(server: impl IntoTarget) -> Result<Self, ConnectError> {
        Self::builder().connect(server).await
    }

    /// Starts a command and connects to it: a line such as `npx -y some-server`, split as a
    /// shell does it, or a
    /// [`Command`](crate::stdio::child::Command). The child gets the few variables of our environment
    /// that programs cannot do without.
    pub async fn spawn(command: impl IntoCommand) -> Result<Self, ConnectError> {
        Self::builder().spawn(command).await
    }

    /// Begins a client that differs from others: [`ClientOptions`] has the methods to say how.
    pub fn builder() -> ClientOptions {
        ClientOptions::default()
    }

    /// Calls a method; the result as it came.
    pub async fn request(&self, method: &str, params: impl Serialize) -> Result<Value, CallError> {
        self.request_with(method, params, CallOptions::default()).await
    }

    /// The same with something different about this call.
    pub async fn request_with(
        &self,
        method: &str,
        params: impl Serialize,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        call::to_value(&self.request_raw(method, params, options).await?)
    }

    /// Says something that wants no answer. It is on its way when this returns.
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), CallError> {
        let params = call::to_params(&params)?;
        let message = Message::notification(method, Some(&params));
        let message = self.core.enveloped(&message, &CallOptions::default(), None);
        self.core.connection.note(message).await;
        Ok(())
    }

    /// Ends the connection: what is open fails with `Transport closed`, the
    /// child is stopped, the session deleted.
    pub async fn close(&self) {
        self.core.connection.inbox.close();
        self.core.connection.close().await;
    }

    /// Whether the server was there when last heard of.
    pub fn is_connected(&self) -> bool {
        self.core.connection.inbox.connected.load(Ordering::Relaxed)
    }

    /// The era that is spoken.
    pub fn era(&self) -> Era {
        self.core.era
    }

    /// The protocol version that is spoken.
    pub fn revision(&self) -> &str {
        &self.core.revision
    }

    /// What the server said of itself: the result of `initialize` or
    /// `server/discover`; null if a modern server said nothing.
    pub fn welcome(&self) -> &Value {
        &self.core.welcome
    }

    /// Who the server says it is; null if it does not say.
    pub fn server(&self) -> &Value {
        match self.core.era {
            Era::Legacy => &self.core.welcome["serverInfo"],
            Era::Modern => &self.core.welcome["_meta"][meta::SERVER],
        }
    }

    /// What the server can do; null if it does not say.
    pub fn capabilities(&self) -> &Value {
        &self.core.welcome["capabilities"]
    }

    /// For the next connection to the same server, to spare it the question.
    pub fn remembered(&self) -> Remembered {
        Remembered { era: self.core.era, until: now() + REMEMBER }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("revision", &self.core.revision).finish_non_exhaustive()
    }
}

impl ClientOptions {
    /// Connects to a server with these options; see [`Client::connect`].
    pub async fn connect(self, server: impl IntoTarget) -> Result<Client, ConnectError> {
        let server = server.into_target()?;
        let core = negotiate(&server, &Arc::new(self)).await?;
        Ok(Client { core: Arc::new(core) })
    }

    /// Starts a command and connects to it with these options; see [`Client::spawn`].
    pub async fn spawn(self, command: impl IntoCommand) -> Result<Client, ConnectError> {
        let command = command.into_command().map_err(TargetError::from)?;
        self.connect(command).await
    }
}

/// One call to a server, with a connection of its own.
pub async fn call_once(
    server: impl IntoTarget,
    method: &str,
    params: impl Serialize,
    options: ClientOptions,
) -> Result<Value, ConnectError> {
    let client = options.connect(server).await?;
    let result = client.request(method, params).await;
    client.close().await;
    Ok(result?)
}

/// Why a call has no result. The texts are those of seed 000.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The server answered with an error.
    #[error("MCP error {code}: {message}")]
    Server { code: i64, message: String, data: Option<Value> },
    /// There is no answer: the server could not be reached, went away, or took too long.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// An answer that makes no sense.
    #[error("the server's answer cannot be used: {what}")]
    Unusable { what: String },
    /// An answer that is not what its type says; the source says why not.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The tool failed, and its result was wanted as a type.
    #[error("tool {tool:?} failed: {message}")]
    ToolFailed { tool: String, message: String },
    /// The parameters are no JSON object.
    #[error("parameters must be a JSON object")]
    BadParams,
    /// The server needs input that nobody here gives.
    #[error("the server asks for {method}: {why}")]
    Unanswered { method: String, why: String },
    /// The server has not said that it can do this.
    #[error("the server does not offer {what}")]
    Unsupported { what: String },
    /// The task ended because it was cancelled.
    #[error("the task was cancelled")]
    Cancelled,
    /// The server kept asking.
    #[error("the server asked for input more than {rounds} times in a row")]
    TooManyRounds { rounds: u32 },
}

impl CallError {
    /// The HTTP status, if one is the reason.
    pub fn status(&self) -> Option<u16> {
        self.failure().and_then(Failure::status)
    }

    /// Why there is no answer, if there is none.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Whether there is no answer, and the server may be gone.
    pub(crate) fn is_broken(&self) -> bool {
        let is_told = |it: &Failure| matches!(it, Failure::Timeout { .. }) || it.status().is_some();
        self.failure().is_some_and(|failure| !is_told(failure))
    }

    /// No answer came in this time.
    pub(crate) fn timeout(waited: Duration) -> Self {
        Self::Failed(Failure::Timeout { waited })
    }

    fn unusable(what: impl Into<String>) -> Self {
        Self::Unusable { what: what.into() }
    }

    fn unsupported(what: &str) -> Self {
        Self::Unsupported { what: what.to_owned() }
    }

    /// What an error answer says.
    fn from_answer(answer: &Message) -> Self {
        debug_assert_eq!(answer.kind(), Kind::Error);
        Self::from_error(&answer.payload_value().unwrap_or_default())
    }

    /// What an error object says.
    fn from_error(error: &Value) -> Self {
        let code = error["code"].as_i64().unwrap_or_default();
        let message = error["message"].as_str().unwrap_or_default().to_owned();
        Self::Server { code, message, data: error.get("data").cloned() }
    }
}

/// Why there is no connection.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ConnectError {
    /// The first exchange failed.
    #[error(transparent)]
    Failed(#[from] CallError),
    /// Nothing that both sides speak.
    #[error("no protocol version in common; the server speaks {theirs}")]
    NoCommonRevision { theirs: String },
    /// The era that was asked for is not the server's.
    #[error("the server does not speak the modern protocol: {why}")]
    NotModern { why: String },
    /// The URL or the command line cannot be used.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Failed(CallError::Failed(failure)) => failure,
            ConnectError::Failed(CallError::Server { code, message, .. }) => {
                Self::Rejected { code, message: message.into() }
            }
            ConnectError::NoCommonRevision { theirs } => {
                Self::NoCommonRevision { theirs: theirs.into() }
            }
            other => Self::Unusable { what: other.to_string().into() },
        }
    }
}

/// What comes of meeting a server.
type Negotiated = Result<ClientCore, ConnectError>;

const NO_VERSIONS: &str = "its answer names no versions";

/// Meets a server.
async fn negotiate(server: &ServerTarget, options: &Arc<ClientOptions>) -> Negotiated {
    if let Some(through) = server.through() {
        return negotiate_via_bridge(server, through, options).await;
    }
    let known = options.remembered.filter(|known| known.until > now()).map(|known| known.era);
    let era = options.era.or(known.filter(|&era| era == Era::Legacy));
    match (era, server.target()) {
        (Some(Era::Legacy), _) | (None, Target::Url { strategy: Strategy::SseOnly, .. }) => {
            greet_anew(server, options).await
        }
        (None, Target::Url { strategy: Strategy::SseFirst, .. }) => {
            negotiate_legacy_first(server, options).await
        }
        _ => ask_era(server, options).await,
    }
}

/// A bridge speaks whatever its clients speak. As a client without an era it is asked
/// what the server speaks: what that one says is then not translated for us.
async fn negotiate_via_bridge(
    server: &ServerTarget,
    through: &ViaBridge,
    options: &Arc<ClientOptions>,
) -> Negotiated {
    let identity = &through.identity;
    if identity.era == Some(Era::Legacy) {
        let connection = ServerConnection::new(server, Era::Legacy, options);
        return greet(connection, identity.greeting.as_deref()).await;
    }
    let connection = ServerConnection::new(server, Era::Modern, options);
    let (question, mut envelope) = (question(options), identity.envelope.clone());
    if identity.era.is_none() {
        envelope.push((Member::MetaCapabilities, options.declared(Era::Modern).to_string()));
    }
    let question = asked(question, envelope);
    let params = question.payload().unwrap_or_default();
    let answer = connection.ask(method::DISCOVER, params, options.timeout).await?;
    if identity.era.is_none() && through.bridge.common_era() == Some(Era::Legacy) {
        if answer.kind() == Kind::Error {
            return Err(CallError::from_answer(&answer).into());
        }
        // It has been greeted with that, and answers the same again.
        return greet_anew(server, options).await;
    }
    match probe::verdict(Carrier::Http, &probe::reply(None, &answer)) {
        Verdict::Modern(revision) => Ok(modern(server, connection, revision, Some(&answer))),
        _ => Err(CallError::from_answer(&answer).into()),
    }
}

/// The older transport has no modern servers; but there may be one where it
/// was looked for.
async fn negotiate_legacy_first(server: &ServerTarget, options: &Arc<ClientOptions>) -> Negotiated {
    let greeted = greet_anew(server, options).await;
    let is_other =
        |error: &CallError| matches!(error, CallError::Server { .. }) || error.status().is_some();
    if !matches!(&greeted, Err(ConnectError::Failed(error)) if is_other(error)) {
        return greeted;
    }
    let only_modern = ClientOptions { era: Some(Era::Modern), ..ClientOptions::clone(options) };
    match ask_era(server, &Arc::new(only_modern)).await {
        Ok(negotiated) => Ok(negotiated),
        Err(_) => greeted,
    }
}

fn question(options: &ClientOptions) -> Message {
    probe::question(&Id::from(1), &options.whoami())
}

/// Asks the server which era it speaks, and greets a legacy one.
///
/// wire: NEG-3, NEG-5, NEG-6, NEG-7, NEG-8
async fn ask_era(server: &ServerTarget, options: &Arc<ClientOptions>) -> Negotiated {
    let connection = ServerConnection::new(server, Era::Modern, options);
    let Some(upstream) = connection.own() else { return Err(not_modern(NO_VERSIONS)) };
    let (is_child, carrier, time) = match server.target() {
        Target::Command(_) => (true, Carrier::Pipe, options.probe_timeout),
        Target::Url { .. } => (false, Carrier::Http, options.timeout),
    };
    let must_be_modern = options.era == Some(Era::Modern);
    // A server that must be modern is not started again as a legacy one.
    let probed = upstream.probe(&question(options), time, !must_be_modern).await;
    let (answer, failure) = (probed.answer, probed.failure);
    if probed.is_sse && !must_be_modern {
        return greet_anew(&server.sse_only(), options).await;
    }
    match probe::verdict(carrier, &probed.reply) {
        Verdict::Modern(revision) => Ok(modern(server, connection, revision, answer.as_ref())),
        Verdict::Unusable => Err(nothing_in_common(connection, answer.as_ref())),
        Verdict::Undecided if !is_child => {
            Err(CallError::Failed(failure.unwrap_or(Failure::CLOSED)).into())
        }
        _ if must_be_modern => {
            connection.close_later();
            Err(match (failure, answer) {
                (Some(failure), _) if is_child => CallError::Failed(failure).into(),
                (Some(failure), _) => not_modern(failure),
                (None, Some(answer)) if is_child && answer.kind() == Kind::Error => {
                    not_modern(CallError::from_answer(&answer))
                }
                (None, _) => not_modern(NO_VERSIONS),
            })
        }
        _ if is_child && answer.is_some() => {
            // It answered, so it lives. But some take the question for the
            // beginning of a modern conversation, and refuse any other.
            upstream.change_eras(Eras::both(Era::Legacy), Sharing::Alone);
            match greet(connection, None).await {
                Err(ConnectError::Failed(_)) => greet_anew(server, options).await,
                negotiated => negotiated,
            }
        }
        _ => {
            connection.close_later();
            greet_anew(server, options).await
        }
    }
}

fn not_modern(why: impl fmt::Display) -> ConnectError {
    ConnectError::NotModern { why: why.to_string() }
}

fn modern(
    server: &ServerTarget,
    connection: Arc<ServerConnection>,
    revision: Revision,
    answer: Option<&Message>,
) -> ClientCore {
    let options = &connection.inbox.options;
    let mut envelope = vec![
        (Member::MetaVersion, Value::from(revision.as_str()).to_string()),
        (Member::MetaClient, options.whoami().to_string()),
        (Member::MetaCapabilities, options.declared(Era::Modern).to_string()),
    ];
    let level = options.log_level.as_deref().map(|level| Value::from(level).to_string());
    envelope.extend(level.map(|level| (Member::MetaLogLevel, level)));
    // In the words of the client that it speaks for, if there is one.
    for (name, said) in server.through().iter().flat_map(|through| &through.identity.envelope) {
        if let Some((_, value)) = envelope.iter_mut().find(|(ours, _)| ours == name) {
            value.clone_from(said);
        }
    }
    let answer = answer.filter(|answer| answer.kind() == Kind::Result);
    let welcome = answer.and_then(Message::payload_value).unwrap_or_default();
    ClientCore { connection, era: Era::Modern, revision: revision.to_string(), welcome, envelope }
}

fn nothing_in_common(connection: Arc<ServerConnection>, answer: Option<&Message>) -> ConnectError {
    connection.close_later();
    let theirs = answer.and_then(|answer| {
        let supported = answer.body().get(&["supportedVersions"]);
        supported.or_else(|| answer.inside(Member::Data, &["supported"]))
    });
    let theirs = String::from_utf8_lossy(theirs.map_or(b"nothing we know", Part::text));
    ConnectError::NoCommonRevision { theirs: theirs.into_owned() }
}

async fn greet_anew(server: &ServerTarget, options: &Arc<ClientOptions>) -> Negotiated {
    greet(ServerConnection::new(server, Era::Legacy, options), None).await
}

/// Greets a legacy server, in these words if there are any.
///
/// wire: LIF-1, LIF-2
async fn greet(connection: Arc<ServerConnection>, words: Option<&[u8]>) -> Negotiated {
    let options = Arc::clone(&connection.inbox.options);
    let params = json!({
        "protocolVersion": Revision::NEWEST_LEGACY.as_str(),
        "capabilities": options.declared(Era::Legacy),
        "clientInfo": options.whoami(),
    })
    .to_string();
    let params = words.unwrap_or(params.as_bytes());
    let answer = connection.ask(method::INITIALIZE, params, options.timeout).await;
    let greeted = answer.map_err(ConnectError::from).and_then(|answer| welcome(&answer));
    let (revision, welcome) = greeted.inspect_err(|_| Arc::clone(&connection).close_later())?;
    connection.note(Message::notification(method::INITIALIZED, None)).detach();
    if let Some(upstream) = connection.own() {
        upstream.until_listening().await;
    }
    if let Some(level) = &options.log_level
        && welcome["capabilities"].get("logging").is_some()
    {
        let params = json!({ "level": level }).to_string();
        let time = options.timeout.min(Duration::from_secs(5));
        // A server that does not take the level can be used all the same.
        _ = connection.ask(method::SET_LEVEL, params.as_bytes(), time).await;
    }
    Ok(ClientCore { connection, era: Era::Legacy, revision, welcome, envelope: Vec::new() })
}

/// What a legacy server settled on. Versions before the newest we know follow
/// the rules of those before them; others cannot be guessed.
fn welcome(answer: &Message) -> Result<(String, Value), ConnectError> {
    if answer.kind() == Kind::Error {
        return Err(CallError::from_answer(answer).into());
    }
    let welcome = answer.payload_value().unwrap_or_default();
    let Some(version) = welcome["protocolVersion"].as_str() else {
        let what = "initialize was answered without a protocolVersion";
        return Err(CallError::unusable(what).into());
    };
    let version = version.to_owned();
    if era_of(&version) == Era::Legacy && *version <= *Revision::NEWEST_LEGACY.as_str() {
        return Ok((version, welcome));
    }
    Err(ConnectError::NoCommonRevision { theirs: version })
}
