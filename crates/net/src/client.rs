//! A client: connects to any server and calls it, whatever era it speaks.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use switchboard_net::client::{Client, ClientOptions};
//! use switchboard_net::stdio::child::Command;
//! use switchboard_net::upstream::ServerTarget;
//!
//! let command = Command::parse("npx -y @modelcontextprotocol/server-everything")?;
//! let server = ServerTarget::command(command, std::env::vars_os().collect());
//! let client = Client::connect(server, ClientOptions::default()).await?;
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

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Kind, Member, Message};
use switchboard_proto::method::meta;
use switchboard_proto::revision::Era;

use crate::connection::now;
use crate::upstream::ServerTarget;
use connection::ServerConnection;

mod cache;
mod call;
mod client_tasks;
mod connection;
mod negotiate;
mod options;
mod skill;
mod subscription;

pub use cache::ResponseCache;
pub use client_tasks::{Called, Task};
pub use options::{
    CallOptions, Callback, Callbacks, ClientOptions, Declined, Notification, Progress, Remembered,
    form_defaults,
};
pub use skill::Skill;
pub use subscription::{ListenFilter, Listening};

pub(crate) use call::{RawList, elements};

/// How long a verdict about a server's era is worth remembering (NEG-9).
const REMEMBER: Duration = Duration::from_hours(1);

/// A connection to one server. Clones share it; the last one dropped ends it.
///
/// There is a method for each of the protocol's: [`tools`](Self::tools) and
/// [`call_tool`](Self::call_tool), [`prompts`](Self::prompts) and [`prompt`](Self::prompt),
/// [`resources`](Self::resources) and [`read`](Self::read), [`complete`](Self::complete),
/// [`listen`](Self::listen), [`ping`](Self::ping); lists are read to their end.
/// [`request`](Self::request) and [`notify`](Self::notify) are for everything else.
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
    /// Connects: asks which era the server speaks, unless that is known, and
    /// greets a legacy one.
    pub async fn connect(
        server: ServerTarget,
        options: ClientOptions,
    ) -> Result<Self, ConnectError> {
        let core = negotiate::negotiate(&server, &Arc::new(options)).await?;
        Ok(Self { core: Arc::new(core) })
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
        self.core.connection.inbox.is_connected()
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

/// One call to a server, with a connection of its own.
pub async fn call_once(
    server: ServerTarget,
    method: &str,
    params: impl Serialize,
    options: ClientOptions,
) -> Result<Value, ConnectError> {
    let client = Client::connect(server, options).await?;
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
    /// The parameters are no JSON object.
    #[error("parameters must be a JSON object")]
    BadParams,
    /// The server needs input that nobody here gives.
    #[error("the server asks for {method}: {why}")]
    Unanswered { method: String, why: String },
    /// The server has not said that it can do this.
    #[error("the server does not offer {what}")]
    Unsupported { what: String },
    /// The task ended because somebody cancelled it.
    #[error("the task was cancelled")]
    Cancelled,
    /// The server kept asking.
    #[error("the server asked for input more than {rounds} times in a row")]
    TooManyRounds { rounds: usize },
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
            ConnectError::NotModern { .. } => Self::Unusable { what: error.to_string().into() },
            ConnectError::Failed(error) => Self::Unusable { what: error.to_string().into() },
        }
    }
}
