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
//! // Serve it: `server.serve_stdio()`, or `server.serve_http("127.0.0.1:8080")`.
//! // Change it while it runs: clients hear of it.
//! server.remove_tool("greet");
//! server.resource_updated("calc://pi");
//! # Ok::<_, switchboard_net::server::BuildError>(())
//! ```
//!
//! Where things are: [`Builder`] puts a server together, [`Context`] is a call's
//! way to its client, [`ToolResult`] and [`ToolOutcome`] are what tools answer,
//! [`Error`] is what anything may fail with, [`Notice`] is what clients say
//! unasked, [`Handler`] is for those who forward, [`Middleware`] stands around the calls
//! of tools, [`Context::typed`] asks clients with types. Calls run in the task of their
//! client's connection and are dropped when the client cancels.
//!
//! Which method is answered by which part:
//!
//! ```text
//!   about the connection   initialize, ping, discover, setLevel, subscribe, listen   here, at once
//!   lists                  if there is such a list                                   here, at once
//!   calls, reads, tasks    if there is such a list                                   here, awaited
//!   everything else        the raw handler, if there is one; else there is no such method
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_proto::exchange::{Ask, Exchange, HeaderParams};
use switchboard_proto::jsonrpc::{Id, Member, Message, Part};
use switchboard_proto::method::{self, meta};
use switchboard_proto::project;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use tokio::sync::Semaphore;

use crate::backend::{Backend, PendingWork};
use crate::call::{Call, ReplySink as _};
use crate::connection::{ClientConnection, lock};
use crate::parked_calls::Sealer;
use catalog::{Completion, PageRequest, ServerCatalog};
use context::CallChannel;
use handler::{RawResult, catch_panic};
use session::{Caller, ServerSession};

mod builtin_tools;
mod catalog;
mod context;
mod handler;
mod middleware;
mod schema;
mod serve;
mod server_tasks;
mod session;
mod tool;
#[cfg(feature = "schema")]
mod typed;

pub use catalog::{
    BuildError, CompletionRequest, CompletionSubject, Prompt, PromptArguments, PromptDraft,
    PromptResult, Resource, ResourceDraft, Template, Variables,
};
pub use context::{Context, Elicited, VisitPage};
pub use handler::{Error, Handler, Notice, Request};
pub use middleware::{Middleware, Next, ToolCall};
pub use project::CacheHints;
pub use server_tasks::TaskSupport;
pub use switchboard_proto::types::Level;
pub use tool::{
    Content, Contents, IntoToolResult, Nature, Tool, ToolDraft, ToolOutcome, ToolResult,
};
#[cfg(feature = "schema")]
pub use typed::{FormError, TypedContext, form_schema};

/// Entries on one page of a list, unless the server says otherwise.
const PAGE: usize = 1000;

/// The capability to tell of changed resources.
const SUBSCRIBE: &str = "/resources/subscribe";

/// A server: serves any number of clients of every revision at once.
///
/// Made with [`Server::builder`], and served by [`serve_stdio`](Self::serve_stdio), by
/// [`serve_http`](Self::serve_http), by a [`Site`](crate::http::site::Site), or by all of them. Its lists may change meanwhile:
/// clients are told when something is added or removed here, or `*_changed` is called.
pub struct Server {
    identity: session::ServerIdentity,
    catalog: Mutex<Arc<ServerCatalog>>,
    completion: Option<Box<Completion>>,
    handler: Option<Box<handler::CallCallback>>,
    middleware: Vec<Box<middleware::MiddlewareCallback>>,
    on_notification: Vec<Box<handler::NoticeCallback>>,
    notices: Arc<Semaphore>,
    page: usize,
    cache: CacheHints,
    sessions: Mutex<HashMap<u64, Arc<ServerSession>>>,
    questions: context::OpenQuestions,
    listens: Mutex<session::ClientListens>,
    tasks: server_tasks::ServerTasks,
    trace: Option<builtin_tools::Traces>,
    this: Weak<Self>,
}

/// A request of a client, and where its answer goes.
struct ClientCall {
    client: Arc<ClientConnection>,
    exchange: Exchange,
    request: Request,
}

impl Server {
    /// Begins a server that calls itself this.
    pub fn builder(name: &str, version: &str) -> Builder {
        let server = Self {
            identity: session::ServerIdentity {
                logging: true,
                speaks: Revision::ALL.to_vec(),
                ..session::ServerIdentity::default()
            },
            catalog: Mutex::default(),
            completion: None,
            handler: None,
            middleware: Vec::new(),
            on_notification: Vec::new(),
            notices: Arc::new(Semaphore::new(handler::MOST_NOTICES)),
            page: PAGE,
            cache: CacheHints::default(),
            sessions: Mutex::default(),
            questions: context::OpenQuestions::default(),
            listens: Mutex::default(),
            tasks: server_tasks::ServerTasks::default(),
            trace: None,
            this: Weak::new(),
        };
        Builder { server, flaw: None }.info("name", name).info("version", version)
    }

    /// Adds a tool; clients are told that the list has changed.
    pub fn add_tool(&self, tool: Tool) -> Result<(), BuildError> {
        self.change("tools", |catalog| catalog.tools.add(Arc::clone(&tool.listing), tool))
    }

    /// Takes a tool away; false if it was not there. Calls that are open go on.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.change("tools", |catalog| catalog.tools.remove(name)).is_ok()
    }

    /// Adds a prompt; clients are told that the list has changed.
    pub fn add_prompt(&self, prompt: Prompt) -> Result<(), BuildError> {
        self.change("prompts", |catalog| catalog.prompts.add(Arc::clone(&prompt.listing), prompt))
    }

    /// Takes a prompt away; false if it was not there.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.change("prompts", |catalog| catalog.prompts.remove(name)).is_ok()
    }

    /// Adds a resource; clients are told that the list has changed.
    pub fn add_resource(&self, resource: Resource) -> Result<(), BuildError> {
        let listing = Arc::clone(&resource.listing);
        self.change("resources", |catalog| catalog.resources.add(listing, resource))
    }

    /// Takes a resource away; false if it was not there.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.change("resources", |catalog| catalog.resources.remove(uri)).is_ok()
    }

    /// Changes the lists, and says which of them has changed.
    fn change<E>(
        &self,
        list: &'static str,
        change: impl FnOnce(&mut ServerCatalog) -> Result<(), E>,
    ) -> Result<(), E> {
        change(Arc::make_mut(&mut lock(&self.catalog)))?;
        self.list_changed(list);
        Ok(())
    }

    fn catalog(&self) -> Arc<ServerCatalog> {
        Arc::clone(&lock(&self.catalog))
    }

    /// Who made a call; why not, if it cannot be served at all.
    fn caller(&self, client: &Arc<ClientConnection>, call: &Request) -> Result<Caller, Refusal> {
        let unknown = || Refusal::UnknownMethod { method: call.method().to_owned() };
        if client.era() == Era::Modern {
            let mut spoken = self.identity.speaks.iter().map(|revision| revision.era());
            if !spoken.any(|era| era == Era::Modern) || method::REMOVED.contains(&call.method()) {
                return Err(unknown());
            }
            // A log level that does not exist is a mistake worth telling (META-4).
            if let Some(level) = call.message.part(Member::MetaLogLevel) {
                session::read_level(&level.as_string().unwrap_or_default())
                    .map_err(|what| Refusal::BadEnvelope { what })?;
            }
            // A state that leads to a call of ours has done so before it gets here; one that
            // was sealed and does not is forged, or of a server that is no more (MRTR-8).
            // Any other is a raw handler's own.
            let state = call.message.string(Member::RequestState);
            if state.is_some_and(|state| Sealer::is_sealed(&state)) {
                return Err(Refusal::BadState);
            }
            return Ok(Caller::Request(call.message.clone()));
        }
        match call.method() {
            method::INITIALIZE => {
                let nobody =
                    ServerSession::new(client, Revision::ASSUMED, &Value::Null, Value::Null);
                Ok(Caller::Session(nobody))
            }
            method::DISCOVER | method::LISTEN => Err(unknown()),
            _ => self.session(client).map(Caller::Session).ok_or(Refusal::NotInitialized),
        }
    }

    /// Answers what needs no waiting; none if it takes its time.
    fn answer_at_once(&self, from: &ClientCall, caller: &Caller) -> Option<RawResult> {
        let (call, empty) = (&from.request, Bytes::from_static(b"{}"));
        Some(match (call.method(), caller) {
            (method::LISTEN, _) => return self.listen(from),
            (method::INITIALIZE, _) => self.initialize(from),
            (method::PING, _) => Ok(empty),
            (method::DISCOVER, _) => Ok(self.discover()),
            (method::SET_LEVEL, Caller::Session(session)) if session.is_offered("/logging") => {
                call.text("level").and_then(|name| session.set_level(&name)).map(|()| empty)
            }
            (method::SUBSCRIBE, Caller::Session(session)) if session.is_offered(SUBSCRIBE) => {
                call.text("uri").and_then(|uri| session.watch(&uri)).map(|()| empty)
            }
            (method::UNSUBSCRIBE, Caller::Session(session)) if session.is_offered(SUBSCRIBE) => {
                call.text("uri").map(|uri| _ = lock(&session.watched).remove(&*uri)).map(|()| empty)
            }
            _ => return self.list(caller, call),
        })
    }

    /// A page of a list, if the server has such a list.
    fn list(&self, caller: &Caller, call: &Request) -> Option<RawResult> {
        let catalog = self.catalog();
        let cursor = call.message.string(Member::Cursor);
        if cursor.is_none() && call.message.has(Member::Cursor) {
            return Some(Err(Error::invalid_params("params.cursor must be a string")));
        }
        let core_tasks = caller.revision().rules().core_tasks;
        let page = PageRequest { cursor: cursor.as_deref(), size: self.page, core_tasks };
        Some(match call.method() {
            method::LIST_TOOLS if catalog.tools.offered => catalog.tools.page("tools", &page),
            method::LIST_PROMPTS if catalog.prompts.offered => {
                catalog.prompts.page("prompts", &page)
            }
            method::LIST_RESOURCES if catalog.has_resources() => {
                catalog.resources.page("resources", &page)
            }
            method::LIST_TEMPLATES if catalog.has_resources() => {
                catalog.templates.page("resourceTemplates", &page)
            }
            _ => return None,
        })
    }

    /// Answers what takes its time.
    async fn answer(&self, call: &Request, said: &HeaderParams, cx: Context) -> RawResult {
        let catalog = self.catalog();
        let unknown = |what: &str, name| Error::invalid_params(format!("Unknown {what}: {name}"));
        match (call.method(), &self.completion) {
            (method::CALL_TOOL, _) if catalog.tools.offered => {
                let name = call.member(Member::Name)?;
                let tool = catalog.tools.get(&name).ok_or_else(|| unknown("tool", name))?;
                let result = Self::call_tool(tool, call, said, cx).await?;
                Ok(result.to_text())
            }
            (method::GET_PROMPT, _) if catalog.prompts.offered => {
                let name = call.member(Member::Name)?;
                let prompt = catalog.prompts.get(&name).ok_or_else(|| unknown("prompt", name))?;
                prompt.get(call, cx).await
            }
            (method::READ_RESOURCE, _) if catalog.has_resources() => {
                let uri = call.text("uri")?;
                if let Some(resource) = catalog.resources.get(&uri) {
                    return resource.reader.read(uri, Variables::new(), cx).await;
                }
                let mut templates = catalog.templates.items.iter();
                match templates.find_map(|template| Some((template, template.matches(&uri)?))) {
                    Some((template, variables)) => template.reader.read(uri, variables, cx).await,
                    None => Err(Error::no_such_resource(&uri, cx.era())),
                }
            }
            (method::COMPLETE, Some(completion)) => {
                let what = CompletionRequest::read(call)?;
                what.of.check(&catalog)?;
                completion(what, cx).await.map(catalog::completion_result)
            }
            (method, _) if method.starts_with("tasks/") && self.has_tasks(&cx) => {
                self.answer_task(call, &cx).await
            }
            (method, _) => match &self.handler {
                Some(handler) => handler(call.clone(), cx).await,
                None => Err(Error::unknown_method(method)),
            },
        }
    }

    /// Calls a tool, through the middleware that stands around all of them.
    async fn call_tool(
        tool: &Arc<Tool>,
        call: &Request,
        said: &HeaderParams,
        mut cx: Context,
    ) -> Result<ToolResult, Error> {
        let arguments = call.message.part(Member::Arguments);
        let arguments = match arguments.filter(|it| it.text() != b"null") {
            None => json!({}),
            Some(it) => it.read().map_err(|error| Error::invalid_params(error.to_string()))?,
        };
        tool.check_headers(&arguments, said)?;
        let as_task = server_tasks::wanted(tool, call, &cx)?;
        cx.tool = Some(Arc::clone(tool));
        let tool = Arc::clone(tool);
        let call = |context| ToolCall { tool, arguments, context };
        if as_task {
            // The result of a task passes the middleware as well.
            cx.defer(move |cx| Self::run_call(call(cx))).await
        } else {
            Self::run_call(call(cx)).await
        }
    }

    async fn run_call(call: ToolCall) -> Result<ToolResult, Error> {
        let (tool, server) = (Arc::clone(&call.tool), Arc::clone(call.context.server()));
        let started = crate::drive::now();
        let mut result = Next::new(&server).run(call).await;
        if !server.middleware.is_empty() {
            // What middleware makes of a result has to fit the output schema as well.
            result = result.and_then(|result| tool.check_output(result));
        }
        match &server.trace {
            Some(traces) => traces.record(tool.name(), started.elapsed(), result),
            None => result,
        }
    }

    /// Answers a call, as the caller's revision wants it. A tool is written once, in the newest
    /// words; what an older client does not know is put into words that it knows (GW-70).
    fn finish(&self, from: &ClientCall, caller: &Caller, result: RawResult) {
        let call = &from.request;
        let project = |result: Bytes| {
            let (method, identity) = (call.method(), Some(&*self.identity.text));
            let projected = match caller.era() {
                Era::Modern => project::modern(&result, method, identity, self.cache),
                Era::Legacy => {
                    project::legacy(result, method, caller.revision(), || self.is_wrapped(call))
                }
            };
            projected
                .map_err(|_| Error::internal("the server made a result that is no JSON object"))
        };
        let id = call.message.id();
        let answer = match result.and_then(project) {
            Ok(result) => Message::result(id.unwrap_or(&Id::Integer(0)), &result),
            Err(error) => Message::error(id, &json!(error)),
        };
        from.client.finish(from.exchange, answer.into());
    }

    /// Whether a call, or the task that it asks for, is one of a tool whose
    /// output schema is listed inside another.
    fn is_wrapped(&self, call: &Request) -> bool {
        let text = |member| call.member(member).unwrap_or_default();
        match call.method() {
            method::CALL_TOOL => {
                self.catalog().tools.get(&text(Member::Name)).is_some_and(|it| it.is_wrapped())
            }
            method::TASK_RESULT => self.tasks.is_wrapped(&text(Member::TaskId)),
            _ => false,
        }
    }
}

impl Backend for Server {
    fn open(
        &self,
        client: &Arc<ClientConnection>,
        record: &Call,
        request: Message,
        said: HeaderParams,
    ) -> PendingWork {
        let (exchange, request) = (record.exchange(), Request { message: request });
        let from = ClientCall { client: Arc::clone(client), exchange, request };
        let call = &from.request;
        let caller = match self.caller(client, call) {
            Ok(caller) => caller,
            Err(why) => {
                client.turn_away(exchange, call.message.id(), &why);
                return PendingWork::none();
            }
        };
        if let Some(result) = self.answer_at_once(&from, &caller) {
            self.finish(&from, &caller, result);
            return PendingWork::none();
        }
        let is_listen = call.method() == method::LISTEN;
        let Some(server) = self.this.upgrade().filter(|_| !is_listen) else {
            return PendingWork::none();
        };
        let channel = CallChannel::Call { client: Arc::clone(client), exchange };
        let cx = Context::new(Arc::clone(&server), caller, channel, &call.message);
        let state = Arc::downgrade(&cx.state);
        if !record.hold(state) {
            return PendingWork::none();
        }
        // Runs in the task that the call came by.
        PendingWork::one(async move {
            let (call, state) = (&from.request, Arc::clone(&cx.state));
            let answer = state.run(catch_panic(server.answer(call, &said, cx)));
            if let Some(mut result) = answer.await {
                let brings = |member| call.message.has(member);
                let asked = state.asked.load(Ordering::Relaxed)
                    || brings(Member::InputResponses)
                    || brings(Member::RequestState);
                if asked && method::is_cacheable(call.method()) {
                    // It came of answers to questions, so nobody is to keep it (MRTR-12).
                    for (hint, none) in [("ttlMs", &b"0"[..]), ("cacheScope", b"\"private\"")] {
                        result = result.map(|it| Part::new(&it).with(hint, none).unwrap_or(it));
                    }
                }
                server.finish(&from, &state.caller, result);
            }
        })
    }

    fn cancel(&self, client: &Arc<ClientConnection>, call: &Call) {
        lock(&self.listens).remove(&(client.number(), call.exchange()));
    }

    fn supply(&self, _: &Arc<ClientConnection>, ask: Ask, answer: Message) -> Option<Message> {
        self.questions.supply(ask, answer);
        None
    }

    fn note(&self, client: &Arc<ClientConnection>, message: Message) -> PendingWork {
        self.hear(client, message)
    }

    fn forget(&self, client: &Arc<ClientConnection>) {
        lock(&self.listens).retain(|&(of, _), _| of != client.number());
        lock(&self.sessions).remove(&client.number());
        self.tasks.forget(client.number());
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("identity", &self.identity.info).finish_non_exhaustive()
    }
}

/// A server on its way.
///
/// What is wrong with any part (a name twice, a schema that is none) is told by
/// [`build`](Self::build), so that the parts can be put together in one go.
/// Capabilities follow from what there is.
#[derive(Debug)]
#[must_use]
pub struct Builder {
    server: Server,
    /// The first thing that was wrong; told at the end.
    flaw: Option<BuildError>,
}

impl Builder {
    /// A name for people.
    pub fn title(self, title: &str) -> Self {
        self.info("title", title)
    }

    /// Any other member of our identity: `description`, `icons`, `websiteUrl`.
    pub fn info(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.server.identity.info.insert(member.to_owned(), value.into());
        self
    }

    /// How to use the server, for models.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.server.identity.instructions = Some(text.into());
        self
    }

    /// A tool.
    pub fn tool(self, tool: Tool) -> Self {
        self.with(|server| server.add_tool(tool))
    }

    /// A prompt.
    pub fn prompt(self, prompt: Prompt) -> Self {
        self.with(|server| server.add_prompt(prompt))
    }

    /// A resource.
    pub fn resource(self, resource: Resource) -> Self {
        self.with(|server| server.add_resource(resource))
    }

    /// A pattern of resources.
    pub fn template(self, template: Template) -> Self {
        let listing = Arc::clone(&template.listing);
        self.with(|it| it.change("resources", |catalog| catalog.templates.add(listing, template)))
    }

    fn with(mut self, change: impl FnOnce(&mut Server) -> Result<(), BuildError>) -> Self {
        let flaw = change(&mut self.server).err();
        self.flaw = self.flaw.or(flaw);
        self
    }

    /// What an argument of a prompt or a template could be; the first hundred are sent.
    pub fn completion<F, W>(mut self, function: F) -> Self
    where
        F: Fn(CompletionRequest, Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Vec<String>, Error>> + Send + 'static,
    {
        self.server.completion =
            Some(Box::new(move |completing, cx| Box::pin(function(completing, cx))));
        self
    }

    /// Answers every method that neither the library nor a list of this server
    /// answers. Say with [`capability`](Self::capability) what it can do.
    pub fn handler(mut self, handler: impl Handler) -> Self {
        let handler = Arc::new(handler);
        let hearing = Arc::clone(&handler);
        self.server.handler = Some(Box::new(move |call, cx| {
            let handler = Arc::clone(&handler);
            Box::pin(async move { handler.call(call, cx).await })
        }));
        self.on_notification(move |notice| {
            let hearing = Arc::clone(&hearing);
            async move { hearing.notified(notice).await }
        })
    }

    /// Stands around the calls of all tools; see [`Middleware`]. May be given several times:
    /// the first is the outermost.
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.server.middleware.push(middleware::boxed(middleware));
        self
    }

    /// Hears what clients say without wanting an answer, such as
    /// `notifications/roots/list_changed`. May be given several times: all of them hear it.
    pub fn on_notification<F, W>(mut self, function: F) -> Self
    where
        F: Fn(Notice) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        self.server.on_notification.push(Box::new(move |notice| Box::pin(function(notice))));
        self
    }

    /// Declares a capability, or replaces the one that would be derived.
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.server.identity.capabilities.insert(name.to_owned(), value.into());
        self
    }

    /// Declares an extension, `prefix/name`, with its settings: an object, if
    /// only an empty one. Clients say on their side whether they have it, see
    /// [`Context::extension`] (EXT-1).
    pub fn extension(mut self, id: &str, settings: impl Into<Value>) -> Self {
        let settings = settings.into();
        if !meta::is_extension(id) || !settings.is_object() {
            return self.with(|_| Err(BuildError::Extension { id: id.to_owned() }));
        }
        self.server.identity.extensions.insert(id.to_owned(), settings);
        self
    }

    /// Does not declare that the server logs to its clients.
    pub fn without_logging(mut self) -> Self {
        self.server.identity.logging = false;
        self
    }

    /// Speaks only these revisions.
    pub fn only(mut self, revisions: &[Revision]) -> Self {
        self.server.identity.speaks = revisions.to_vec();
        self
    }

    /// Entries on one page of a list.
    pub fn page_size(mut self, size: usize) -> Self {
        self.server.page = size.max(1);
        self
    }

    /// How long lists and resources may be kept, unless a result says otherwise (CACHE-1).
    pub fn cache(mut self, cache: CacheHints) -> Self {
        self.server.cache = cache;
        self
    }

    /// Adds the tool `get_tool_manifest`: all tools with their schemas and examples.
    pub fn manifest(self) -> Self {
        self.tool(builtin_tools::manifest_tool())
    }

    /// Remembers the last calls of tools (never their arguments), and adds the
    /// tool `get_trace_by_id`.
    pub fn traces(mut self) -> Self {
        self.server.trace = Some(builtin_tools::Traces::default());
        self.tool(builtin_tools::trace_tool())
    }

    /// The server, or what is wrong with it.
    pub fn build(mut self) -> Result<Arc<Server>, BuildError> {
        self.flaw.map_or(Ok(()), Err)?;
        let identity = &mut self.server.identity;
        identity.text = json!(identity.info).to_string().into();
        Ok(Arc::new_cyclic(|this| Server { this: Weak::clone(this), ..self.server }))
    }
}

fn notification(method: &str, params: &Value) -> Message {
    Message::notification(method, Some(params.to_string().as_bytes()))
}

/// An id that cannot be guessed.
fn random_id() -> Result<String, Error> {
    crate::seal::random_id().map_err(|_| Error::internal("there is no randomness"))
}
