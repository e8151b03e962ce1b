//! The raw level of a server: its [`Handler`] with requests, notifications and errors.

use std::borrow::Cow;
use std::error;
use std::fmt;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use serde::Serialize;
use serde_json::{Value, json};
use switchboard_proto::jsonrpc::{Kind, Member, Message, Part};
use switchboard_proto::method;
use switchboard_proto::refusal::{Refusal, code};
use switchboard_proto::revision::{Era, Revision};

use super::Server;
use super::context::Context;
use super::session::Caller;
use crate::backend::PendingWork;
use crate::connection::ClientConnection;

/// Answers the methods that the library does not answer by itself.
///
/// Written once, it serves every revision: what an era wants of a result
/// (`resultType`, cache hints, identity) is added or taken away around it. For
/// those who forward, or have a protocol of their own behind them; what is
/// below even this, the bare verbs of an exchange, is [`crate::backend::Backend`].
///
/// ```
/// use bytes::Bytes;
/// use serde_json::json;
/// use switchboard_net::server::{Request, Context, Error, Handler, Notice, Server};
///
/// struct Echo;
///
/// impl Handler for Echo {
///     async fn call(&self, call: Request, _: Context) -> Result<Bytes, Error> {
///         match call.method() {
///             "tools/list" => Ok(Bytes::from_static(br#"{"tools":[]}"#)),
///             // Parameters and results are text: what you do not know survives.
///             "x/echo" => Ok(Bytes::copy_from_slice(call.params())),
///             other => Err(Error::unknown_method(other)),
///         }
///     }
///
///     async fn notified(&self, notice: Notice) {
///         println!("a client says {}", notice.method());
///     }
/// }
///
/// let server = Server::builder("echo", "1.0.0")
///     .capability("tools", json!({}))
///     .handler(Echo)
///     .build()?;
/// # Ok::<_, switchboard_net::server::BuildError>(())
/// ```
pub trait Handler: Send + Sync + 'static {
    /// The result, as JSON text of an object; or why there is none.
    ///
    /// The future is driven by the task of the client's connection. It is
    /// dropped when the client cancels, right after [`Context::cancelled`] has
    /// told it so.
    fn call(&self, call: Request, cx: Context)
    -> impl Future<Output = Result<Bytes, Error>> + Send;

    /// A client said something that wants no answer. Nothing is done about it by default.
    fn notified(&self, notice: Notice) -> impl Future<Output = ()> + Send {
        drop(notice);
        std::future::ready(())
    }
}

/// A request, or a notification, as it came.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) message: Message,
}

impl Request {
    /// The method.
    pub fn method(&self) -> &str {
        self.message.method()
    }

    /// The parameters as they were written; an empty object if there were none.
    pub fn params(&self) -> &[u8] {
        self.message.payload().unwrap_or(b"{}")
    }

    /// One member of the parameters as it was written; a path names members from the outside in.
    pub fn param(&self, path: &[&str]) -> Option<&[u8]> {
        self.message.body().get(path).map(Part::text)
    }

    /// One member of the parameters that must be a string.
    pub fn text(&self, name: &str) -> Result<String, Error> {
        let text = self.message.body().string(name).map(Cow::into_owned);
        text.ok_or_else(|| Error::invalid_params(format!("params.{name} must be a string")))
    }

    /// The same of a member that was noted when the request was read.
    pub(super) fn member(&self, member: Member) -> Result<Cow<'_, str>, Error> {
        let why = || Error::invalid_params(format!("params.{} must be a string", member.key()));
        self.message.string(member).ok_or_else(why)
    }

    /// What the parameters say, read.
    pub(super) fn value(&self) -> Result<Value, Error> {
        self.message.body().read().map_err(|error| Error::invalid_params(error.to_string()))
    }
}

pub(super) type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Answers the calls that the library does not answer.
pub(super) type CallCallback = dyn Fn(Request, Context) -> BoxedFuture<RawResult> + Send + Sync;

/// The text of a result, or why there is none.
pub(super) type RawResult = Result<Bytes, Error>;

/// Does some work, and makes an error of its panic: one broken call must not cost a connection.
pub(super) async fn catch_panic<T>(
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("a call panicked");
        Err(Error::internal("the server failed while it served this call"))
    })
}

/// Notifications that are being heard at once, over all clients. A client that
/// says more than anybody can listen to must not make us keep it all.
pub(super) const MOST_NOTICES: usize = 1024;

/// A notification of a client: changed roots, progress on a question, or one of its own.
///
/// The end of the handshake and a cancelled call are not among them. A call learns
/// that it is cancelled by [`Context::cancelled`].
#[derive(Clone)]
pub struct Notice {
    said: Request,
    caller: Caller,
    server: Arc<Server>,
}

/// Its method, such as `notifications/roots/list_changed`, and its parameters.
impl Deref for Notice {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.said
    }
}

impl Notice {
    /// What the client calls itself. Never to be trusted (MOD-7).
    pub fn client_info(&self) -> Option<Value> {
        self.caller.client()
    }

    /// The era that the client speaks.
    pub fn era(&self) -> Era {
        self.caller.era()
    }

    /// The revision that the client speaks.
    pub fn revision(&self) -> Revision {
        self.caller.revision()
    }

    /// The server that was told.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notice").field("method", &self.method()).finish_non_exhaustive()
    }
}

/// Hears notifications.
pub(super) type NoticeCallback = dyn Fn(Notice) -> BoxedFuture<()> + Send + Sync;

impl Server {
    /// Passes on what a client said. Who hears it begins in the order it was said.
    pub(super) fn hear(&self, client: &Arc<ClientConnection>, message: Message) -> PendingWork {
        if self.on_notification.is_empty() || message.method() == method::INITIALIZED {
            return PendingWork::none();
        }
        let caller = match client.era() {
            Era::Modern => Some(Caller::Request(message.clone())),
            Era::Legacy => self.session(client).map(Caller::Session),
        };
        let (Some(caller), Some(server)) = (caller, self.this.upgrade()) else {
            return PendingWork::none();
        };
        let Ok(permit) = Arc::clone(&self.notices).try_acquire_owned() else {
            let method = message.method();
            tracing::warn!(method, "too much is said at once; this was not heard");
            return PendingWork::none();
        };
        let notice = Notice { said: Request { message }, caller, server };
        let told = self.on_notification.iter();
        let told: Vec<_> = told.map(|told| told(notice.clone())).collect();
        PendingWork::one(async move {
            for hearing in told {
                // A panic has been logged, and there is nobody to tell it.
                _ = catch_panic(hearing.map(Ok)).await;
            }
            drop(permit);
        })
    }
}

/// A JSON-RPC error: the call was wrong, or we cannot serve it.
///
/// What a tool has to say about its own failure is a result with `isError`
/// instead ([`ToolResult::error`](super::ToolResult::error)): models read that.
#[derive(Clone, Debug, Serialize)]
pub struct Error {
    /// Outside -32768..-32000 if it is your own (ERR-1).
    pub code: i64,
    /// For people.
    pub message: String,
    /// For programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// For us alone.
    #[serde(skip)]
    pub(super) source: Option<Arc<dyn error::Error + Send + Sync>>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Two are the same if the client cannot tell them apart.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        let said = |it: &Self| (it.code, it.message.clone(), it.data.clone());
        said(self) == said(other)
    }
}

impl Error {
    /// An error with a code of your own.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, source: None }
    }

    /// The same, with what it came of: for a log of yours, or for a
    /// [`Middleware`](super::Middleware). The client does not learn it.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn error::Error + Send + Sync + 'static>>,
    ) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// The same, with something for programs.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The parameters are wrong.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// The fault is ours.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, message)
    }

    /// There is no such method.
    pub fn unknown_method(method: &str) -> Self {
        Refusal::UnknownMethod { method: method.to_owned() }.into()
    }

    /// There is no such resource; each era has its own code for that (ERR-3).
    pub fn no_such_resource(uri: &str, era: Era) -> Self {
        let code = match era {
            Era::Legacy => code::RESOURCE_NOT_FOUND,
            Era::Modern => code::INVALID_PARAMS,
        };
        Self::new(code, format!("Resource not found: {uri}")).with_data(json!({"uri": uri}))
    }

    /// The client did not declare what the call needs of it (META-3).
    pub fn missing_capability(required: &Value, era: Era) -> Self {
        let names = required.as_object().into_iter().flat_map(|members| members.keys());
        let names: Vec<_> = names.map(String::as_str).collect();
        let message =
            format!("this call needs a client that declares the capability {}", names.join(", "));
        match era {
            Era::Modern => Self::new(code::MISSING_CAPABILITY, message)
                .with_data(json!({"requiredCapabilities": required})),
            Era::Legacy => Self::new(code::INVALID_REQUEST, message),
        }
    }

    /// The error in an answer of the client.
    pub(super) fn from_answer(answer: &Message) -> Option<Self> {
        if answer.kind() != Kind::Error {
            return None;
        }
        let error = answer.payload_value()?;
        let message = error["message"].as_str().unwrap_or("the client refused").to_owned();
        let code = error["code"].as_i64().unwrap_or(code::INTERNAL);
        Some(Self { data: error.get("data").cloned(), ..Self::new(code, message) })
    }
}

impl From<Refusal> for Error {
    fn from(why: Refusal) -> Self {
        Self { data: why.data(), ..Self::new(why.rpc_code().into(), why.to_string()) }
    }
}
