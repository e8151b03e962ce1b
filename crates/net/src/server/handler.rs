//! The raw level: a method and its parameters in, a result out.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use serde_json::Value;
use switchboard_proto::jsonrpc::{Member, Message, Part};

use super::context::Context;
use super::error::Error;
use super::notice::Notice;

/// Answers the methods that the library does not answer by itself.
///
/// Written once, it serves every revision: what an era wants of a result
/// (`resultType`, cache hints, identity) is added or taken away around it. For
/// those who forward, or have a protocol of their own behind them; what is
/// below even this, the bare verbs of an exchange, is [`crate::inside::Inside`].
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
/// # Ok::<_, switchboard_net::server::Flaw>(())
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

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) request: Message,
}

impl Request {
    /// The method.
    pub fn method(&self) -> &str {
        self.request.method()
    }

    /// The parameters as they were written; an empty object if there were none.
    pub fn params(&self) -> &[u8] {
        self.request.payload().unwrap_or(b"{}")
    }

    /// One member of the parameters as it was written; a path names members from the outside in.
    pub fn param(&self, path: &[&str]) -> Option<&[u8]> {
        self.request.body().get(path).map(Part::text)
    }

    /// Whether it goes on with an earlier request.
    pub(super) fn brings_answers(&self) -> bool {
        self.request.has(Member::InputResponses) || self.request.has(Member::RequestState)
    }

    /// One member of the parameters that must be a string.
    pub fn text(&self, name: &str) -> Result<String, Error> {
        let text = self.request.body().string(name);
        text.map(std::borrow::Cow::into_owned)
            .ok_or_else(|| Error::invalid_params(format!("params.{name} must be a string")))
    }

    /// What the parameters say, read.
    pub(super) fn value(&self) -> Result<Value, Error> {
        self.request.body().read().map_err(|error| Error::invalid_params(error.to_string()))
    }
}

pub(super) type Job<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A handler whose type is forgotten.
pub(super) trait Erased: Send + Sync {
    fn call(self: Arc<Self>, call: Request, cx: Context) -> Job<Result<Bytes, Error>>;
    fn notified(self: Arc<Self>, notice: Notice) -> Job<()>;
}

impl<H: Handler> Erased for H {
    fn call(self: Arc<Self>, call: Request, cx: Context) -> Job<Result<Bytes, Error>> {
        Box::pin(async move { Handler::call(&*self, call, cx).await })
    }

    fn notified(self: Arc<Self>, notice: Notice) -> Job<()> {
        Box::pin(async move { Handler::notified(&*self, notice).await })
    }
}

/// A future whose panic is an error: one broken call must not cost a connection.
pub(super) struct Caught<F>(pub(super) Pin<Box<F>>);

impl<F, T> Future for Caught<F>
where
    F: Future<Output = Result<T, Error>>,
{
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx)));
        polled.unwrap_or_else(|_| {
            tracing::error!("a call panicked");
            Poll::Ready(Err(Error::internal("the server failed while it served this call")))
        })
    }
}
