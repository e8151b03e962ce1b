//! A server of your own: what it offers, and how it talks to its clients.
//!
//! A [`Server`] is made of tools, prompts and resources, or of a raw
//! [`Handler`], or of both. Written once, it serves every revision of the
//! protocol, over stdio and HTTP, any number of clients at a time:
//!
//! ```
//! use serde::Deserialize;
//! use schemars::JsonSchema;
//! use switchboard_net::server::{Context, Elicited, Error, Level, Resource, Server, Tool, ToolResult};
//! use serde_json::json;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Divide {
//!     dividend: f64,
//!     /// Anything but zero.
//!     divisor: f64,
//! }
//!
//! // The arguments have been checked against the schema of `Divide`.
//! let divide = Tool::new("divide").description("Divides").input::<Divide>().run(
//!     async |args: Divide, cx: Context| {
//!         cx.log(Level::Debug, None, "dividing");
//!         cx.progress(1.0, Some(1.0), None);
//!         if args.divisor == 0.0 {
//!             return ToolResult::error("the divisor is zero");
//!         }
//!         ToolResult::text((args.dividend / args.divisor).to_string())
//!     },
//! );
//!
//! // A question is a request for an old client, and a second round for a new one.
//! let greet = Tool::new("greet").description("Greets you by name").run(async |_, cx: Context| {
//!     let form = json!({"type": "object", "properties": {"name": {"type": "string"}}});
//!     Ok::<_, Error>(match cx.elicit("What is your name?", form).await? {
//!         Elicited::Accept(answer) => format!("Hello, {}!", answer["name"].as_str().unwrap_or("you")),
//!         Elicited::Decline | Elicited::Cancel => "Hello, whoever you are!".to_owned(),
//!     })
//! });
//!
//! let server = Server::builder("calculator", "1.0.0")
//!     .instructions("Divides numbers.")
//!     .tool(divide)
//!     .tool(greet)
//!     .resource(Resource::text("calc://pi", "pi", "text/plain", "3.14159"))
//!     .build()?;
//!
//! // Serve it: `stdio::serve(server, ..)`, or `http::site::Site::new(server, ..)`.
//! // Change it while it runs: clients hear of it.
//! server.remove_tool("greet");
//! server.resource_updated("calc://pi");
//! # Ok::<_, switchboard_net::server::BuildError>(())
//! ```
//!
//! Where things are: [`Builder`] puts a server together, [`Context`] is a call's
//! way to its client, [`ToolResult`] and [`ToolOutcome`] are what tools answer,
//! [`Error`] is what anything may fail with, [`Notice`] is what clients say
//! unasked, [`Handler`] is for those who forward. Calls run in the task of their
//! client's connection and are dropped when the client cancels.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use bytes::Bytes;
use switchboard_proto::exchange::{Ask, Exchange, HeaderParams};
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::method;

use crate::backend::{Backend, PendingWork};
use crate::call::{Call, ReplySink as _};
use crate::connection::ClientConnection;
use catalog::Catalog;
use context::CallChannel;
use handler::{CatchPanic, DynMethods};
use session::Caller;

mod ask;
mod builder;
mod builtin_tools;
mod catalog;
mod context;
mod dispatch;
mod handler;
mod prompt;
mod resource;
mod server_tasks;
mod session;
mod subscriptions;
mod tool;
mod tool_result;

pub use ask::{Elicited, VisitPage};
pub use builder::Builder;
pub use catalog::{BuildError, CompletionRequest, CompletionSubject};
pub use context::Context;
pub use dispatch::CacheHints;
pub use handler::{Error, Handler, Notice, Request};
pub use prompt::{Prompt, PromptArguments, PromptDraft, PromptResult};
pub use resource::{Resource, ResourceDraft, Template, Variables};
pub use server_tasks::TaskSupport;
pub use session::Level;
pub(crate) use session::covers;
pub use tool::{Tool, ToolDraft};
pub use tool_result::{Content, Contents, IntoToolResult, Nature, ToolOutcome, ToolResult};

/// A server: serves any number of clients of every revision at once.
///
/// Made with [`Server::builder`], and served by [`stdio::serve`](crate::stdio::serve), by a
/// [`Site`](crate::http::site::Site), or by both. Its lists may change meanwhile: whoever
/// adds or removes something here, or calls `*_changed`, has clients told.
pub struct Server {
    identity: session::Identity,
    catalog: RwLock<Arc<Catalog>>,
    raw: Option<Arc<dyn DynMethods>>,
    heard: Option<Arc<handler::NoticeCallback>>,
    notices: handler::NoticeCount,
    page: usize,
    cache: CacheHints,
    sessions: session::Sessions,
    asks: ask::OpenQuestions,
    listens: subscriptions::Listens,
    tasks: server_tasks::Tasks,
    trace: Option<builtin_tools::Traces>,
    this: Weak<Self>,
}

impl Server {
    /// Begins a server that calls itself this.
    pub fn builder(name: &str, version: &str) -> Builder {
        Builder::new(name, version)
    }

    /// Adds a tool; clients are told that the list has changed.
    pub fn add_tool(&self, tool: Tool) -> Result<(), BuildError> {
        self.change(|catalog| catalog.tools.add(tool))?;
        self.tools_changed();
        Ok(())
    }

    /// Takes a tool away; false if it was not there. Calls that are open go on.
    pub fn remove_tool(&self, name: &str) -> bool {
        let removed = self.change(|catalog| catalog.tools.remove(name));
        if removed {
            self.tools_changed();
        }
        removed
    }

    /// Adds a prompt; clients are told that the list has changed.
    pub fn add_prompt(&self, prompt: Prompt) -> Result<(), BuildError> {
        self.change(|catalog| catalog.prompts.add(prompt))?;
        self.prompts_changed();
        Ok(())
    }

    /// Takes a prompt away; false if it was not there.
    pub fn remove_prompt(&self, name: &str) -> bool {
        let removed = self.change(|catalog| catalog.prompts.remove(name));
        if removed {
            self.prompts_changed();
        }
        removed
    }

    /// Adds a resource; clients are told that the list has changed.
    pub fn add_resource(&self, resource: Resource) -> Result<(), BuildError> {
        self.change(|catalog| catalog.resources.add(resource))?;
        self.resources_changed();
        Ok(())
    }

    /// Takes a resource away; false if it was not there.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let removed = self.change(|catalog| catalog.resources.remove(uri));
        if removed {
            self.resources_changed();
        }
        removed
    }

    fn change<R>(&self, change: impl FnOnce(&mut Catalog) -> R) -> R {
        let mut shared = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        let mut catalog = Catalog::clone(&shared);
        let result = change(&mut catalog);
        *shared = Arc::new(catalog);
        result
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn dispatch(
        &self,
        client: &Arc<ClientConnection>,
        record: &Call,
        request: Message,
        said: HeaderParams,
    ) -> PendingWork {
        let (call, exchange) = (Request { request }, record.exchange());
        let caller = match self.caller(client, &call) {
            Ok(caller) => caller,
            Err(why) => {
                client.turn_away(exchange, call.request.id(), &why);
                return PendingWork::none();
            }
        };
        match self.at_once(client, exchange, &caller, &call) {
            dispatch::Step::Done(result) => {
                self.finish(client, exchange, &caller, &call, result);
                PendingWork::none()
            }
            dispatch::Step::Open => PendingWork::none(),
            dispatch::Step::Work => self.work(client, record, caller, call, said),
        }
    }

    /// Runs what takes its time, in the task of whoever called.
    fn work(
        &self,
        client: &Arc<ClientConnection>,
        record: &Call,
        caller: Caller,
        call: Request,
        said: HeaderParams,
    ) -> PendingWork {
        let Some(server) = self.this.upgrade() else { return PendingWork::none() };
        let exchange = record.exchange();
        let channel = CallChannel::Call { client: Arc::clone(client), exchange };
        let cx = Context::new(Arc::clone(&server), caller, channel, &call.request);
        let state = Arc::downgrade(&cx.state);
        if !record.hold(state) {
            return PendingWork::none();
        }
        let client = Arc::clone(client);
        PendingWork::one(async move {
            let state = Arc::clone(&cx.state);
            let answer = CatchPanic(Box::pin(server.answer(&call, &said, cx)));
            let answer = state.run(answer).await;
            if let Some(mut result) = answer {
                let asked = state.asked.load(Ordering::Relaxed) || call.brings_answers();
                if asked && method::is_cacheable(call.method()) {
                    result = result.map(dispatch::without_caching);
                }
                server.finish(&client, exchange, &state.caller, &call, result);
            }
        })
    }

    /// Answers a call, in the words of its client.
    fn finish(
        &self,
        client: &ClientConnection,
        exchange: Exchange,
        caller: &Caller,
        call: &Request,
        result: Result<Bytes, Error>,
    ) {
        let projected = result.and_then(|result| self.project_result(caller, call, result));
        let id = call.request.id();
        let answer = match projected {
            Ok(result) => Message::result(id.unwrap_or(&Id::Integer(0)), &result),
            Err(error) => error.to_message(id),
        };
        client.finish(exchange, answer.into());
    }
}

impl Backend for Server {
    fn open(
        &self,
        client: &Arc<ClientConnection>,
        call: &Call,
        request: Message,
        said: HeaderParams,
    ) -> PendingWork {
        self.dispatch(client, call, request, said)
    }

    fn cancel(&self, client: &Arc<ClientConnection>, call: &Call) {
        self.unlisten(client.number(), call.exchange());
    }

    fn supply(&self, _: &Arc<ClientConnection>, ask: Ask, answer: Message) -> Option<Message> {
        self.asks.supply(ask, answer);
        None
    }

    fn note(&self, client: &Arc<ClientConnection>, message: Message) -> PendingWork {
        self.hear(client, message)
    }

    fn forget(&self, client: &Arc<ClientConnection>) {
        self.forget_listens(client.number());
        self.sessions.forget(client.number());
        self.tasks.forget(client.number());
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("identity", &self.identity.info).finish_non_exhaustive()
    }
}

/// An id that cannot be guessed.
fn random_id() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| Error::internal("there is no randomness"))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
