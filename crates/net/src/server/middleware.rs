//! Middleware: code that stands around the calls of all tools of a server, to log, to
//! authorise, to count, to change arguments or results.
//!
//! ```text
//!   call ──▶ first ──▶ second ──▶ arguments checked ──▶ tool
//!   result ◀── first ◀── second ◀── result checked ◀─────┘
//! ```

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::Server;
use super::context::Context;
use super::handler::{BoxedFuture, Error};
use super::tool::{Tool, ToolResult};

/// Stands around the calls of tools.
///
/// It sees each call of a tool that there is, before its arguments are checked. It goes on
/// with [`Next::run`], or answers by itself. The first one that a server is
/// [given](super::Builder::middleware) is the outermost.
///
/// ```
/// use switchboard_net::server::{
///     Error, Middleware, Next, Server, Tool, ToolCall, ToolResult,
/// };
///
/// /// Says how each call ended.
/// struct Log;
///
/// impl Middleware for Log {
///     async fn call(&self, call: ToolCall, next: Next) -> Result<ToolResult, Error> {
///         let mut line = Line { tool: call.name().to_owned(), end: "cancelled".to_owned() };
///         let result = next.run(call).await;
///         line.end = match &result {
///             Ok(result) if result.is_error() => "the tool failed".to_owned(),
///             Ok(_) => "done".to_owned(),
///             Err(error) => format!("refused: {error}"),
///         };
///         result
///     }
/// }
///
/// /// Printed when it is dropped, and so for a cancelled call too.
/// struct Line {
///     tool: String,
///     end: String,
/// }
///
/// impl Drop for Line {
///     fn drop(&mut self) {
///         println!("{}: {}", self.tool, self.end);
///     }
/// }
///
/// /// Lets only some callers change something.
/// struct Permit;
///
/// impl Middleware for Permit {
///     async fn call(&self, call: ToolCall, next: Next) -> Result<ToolResult, Error> {
///         if call.name().starts_with("delete_") && call.context.who().name() != "admin" {
///             return Ok(ToolResult::error("only an administrator may delete"));
///         }
///         next.run(call).await
///     }
/// }
///
/// let delete = Tool::new("delete_all").run(async |_: serde_json::Value, _| "gone");
/// let server = Server::builder("files", "1.0.0")
///     .tool(delete)
///     .middleware(Log)
///     .middleware(Permit)
///     .build()?;
/// # Ok::<_, switchboard_net::server::BuildError>(())
/// ```
///
/// A call that goes on as a task passes here inside the task, so that a client cannot step
/// around the middleware by asking for one. A call that is refused is then a task that failed.
/// Only a tool that [defers](super::ToolDraft::defers) its work by itself leaves the middleware
/// when its task begins ([`ToolResult::is_task`]): what the task comes to is not seen here.
///
/// A call or a task that its client cancels is dropped where it waits: what must happen then as
/// well belongs into a `Drop`, as above. Calls that a raw [`Handler`](super::Handler) answers do
/// not pass here. Arguments and results are checked only with the feature `validate`.
///
/// [`ToolResult::content`], [`ToolResult::structured_content`] and [`ToolResult::meta`] tell what
/// a result says.
pub trait Middleware: Send + Sync + 'static {
    /// The result of a call, or why there is none.
    fn call(
        &self,
        call: ToolCall,
        next: Next,
    ) -> impl Future<Output = Result<ToolResult, Error>> + Send;
}

/// A call of a tool.
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolCall {
    pub(super) tool: Arc<Tool>,
    /// The arguments as the client gave them. They are checked after all middleware, with the
    /// feature `validate`.
    pub arguments: Value,
    /// The way to the client, and who it is.
    pub context: Context,
}

impl ToolCall {
    /// The name of the tool.
    pub fn name(&self) -> &str {
        self.tool.name()
    }

    /// The tool.
    pub fn tool(&self) -> &Tool {
        &self.tool
    }

    /// Calls the tool with arguments that fit; those that do not are the model's to mend, so
    /// they make a result (ERR-3).
    async fn run(self) -> Result<ToolResult, Error> {
        let Self { tool, arguments, context } = self;
        if let Some(complaint) = tool.complaint(&arguments) {
            return Ok(ToolResult::error(format!("invalid arguments: {complaint}")));
        }
        let result = (tool.run.0)(arguments, context).await;
        result.and_then(|result| tool.check_output(result))
    }
}

/// Without the arguments, which may be secret.
impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// What one middleware does with a call.
pub(super) type MiddlewareCallback =
    dyn Fn(ToolCall, Next) -> BoxedFuture<Result<ToolResult, Error>> + Send + Sync;

/// A middleware as what it does.
pub(super) fn boxed(middleware: impl Middleware) -> Box<MiddlewareCallback> {
    let middleware = Arc::new(middleware);
    Box::new(move |call, next| {
        let middleware = Arc::clone(&middleware);
        Box::pin(async move { middleware.call(call, next).await })
    })
}

/// The rest of the way of a call: more middleware, and the tool.
#[derive(Clone)]
pub struct Next {
    server: Arc<Server>,
    /// How many of its middleware have the call already.
    passed: usize,
}

impl Next {
    pub(super) fn new(server: &Arc<Server>) -> Self {
        Self { server: Arc::clone(server), passed: 0 }
    }

    /// Goes on with the call.
    pub async fn run(self, call: ToolCall) -> Result<ToolResult, Error> {
        let Self { server, passed } = self;
        match server.middleware.get(passed) {
            Some(next) => {
                next(call, Self { server: Arc::clone(&server), passed: passed + 1 }).await
            }
            None => call.run().await,
        }
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("passed", &self.passed).finish_non_exhaustive()
    }
}
