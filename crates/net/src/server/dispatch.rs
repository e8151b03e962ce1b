//! Which method is answered by whom.
//!
//! ```text
//!   about the connection   initialize, ping, discover, setLevel, subscribe, listen   here, at once
//!   lists                  if there is such a list                                   here, at once
//!   calls, reads, tasks    if there is such a list                                   here, awaited
//!   everything else        the raw handler, if there is one; else there is no such method
//! ```

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use switchboard_proto::exchange::{Exchange, HeaderParams};
use switchboard_proto::jsonrpc::{Member, Part};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::{method, project};

use super::catalog::{self, CompletionRequest};
use super::context::Context;
use super::handler::{Error, Request};
use super::session::{Caller, Level, Session};
use super::tool::Tool;
use super::tool_result::ToolResult;
use super::{Server, server_tasks};
use crate::connection::{ClientConnection, lock};
use crate::parked_calls::Sealer;

pub use project::CacheHints;

/// The capability to tell of changed resources.
const SUBSCRIBE: &str = "/resources/subscribe";

/// What comes of a call at once.
pub(super) enum Step {
    Done(Result<Bytes, Error>),
    /// It stays open, and nobody has to do anything for that.
    Open,
    /// It takes its time.
    Work,
}

impl Server {
    /// Who made a call; why not, if it cannot be served at all.
    pub(super) fn caller(
        &self,
        client: &Arc<ClientConnection>,
        call: &Request,
    ) -> Result<Caller, Refusal> {
        let unknown = || Refusal::UnknownMethod { method: call.method().to_owned() };
        if client.era() == Era::Modern {
            if !self.speaks(Era::Modern) || method::REMOVED.contains(&call.method()) {
                return Err(unknown());
            }
            check_level(call)?;
            check_state(call)?;
            return Ok(Caller::Request(call.request.clone()));
        }
        if call.method() == method::INITIALIZE {
            let nobody = Session::new(client, Revision::ASSUMED, &Value::Null, Value::Null);
            return Ok(Caller::Session(nobody));
        }
        if matches!(call.method(), method::DISCOVER | method::LISTEN) {
            return Err(unknown());
        }
        let session = self.sessions.get(client.number());
        session.map(Caller::Session).ok_or(Refusal::NotInitialized)
    }

    /// Answers what needs no waiting.
    pub(super) fn at_once(
        &self,
        client: &Arc<ClientConnection>,
        exchange: Exchange,
        caller: &Caller,
        call: &Request,
    ) -> Step {
        let empty = || Ok(Bytes::from_static(b"{}"));
        let done = match (call.method(), caller) {
            (method::INITIALIZE, _) => self.initialize(client, call),
            (method::PING, _) => empty(),
            (method::DISCOVER, _) => Ok(self.discover()),
            (method::LISTEN, _) => {
                return self.listen(client, exchange, call).map_or(Step::Open, Step::Done);
            }
            (method::SET_LEVEL, Caller::Session(session)) if session.is_offered("/logging") => {
                set_level(session, call)
            }
            (method::SUBSCRIBE, Caller::Session(session)) if session.is_offered(SUBSCRIBE) => {
                call.text("uri").and_then(|uri| session.watch(&uri)).and_then(|()| empty())
            }
            (method::UNSUBSCRIBE, Caller::Session(session)) if session.is_offered(SUBSCRIBE) => {
                call.text("uri").map(|uri| session.unwatch(&uri)).and_then(|()| empty())
            }
            _ => match self.list(caller, call) {
                Some(list) => list,
                None => return Step::Work,
            },
        };
        Step::Done(done)
    }

    /// A page of a list, if the server has such a list.
    fn list(&self, caller: &Caller, call: &Request) -> Option<Result<Bytes, Error>> {
        let catalog = self.catalog();
        let cursor = call.request.string(Member::Cursor);
        if cursor.is_none() && call.request.has(Member::Cursor) {
            return Some(Err(Error::invalid_params("params.cursor must be a string")));
        }
        let (cursor, size) = (cursor.as_deref(), self.page);
        let core_tasks = caller.revision().rules().core_tasks;
        let has_resources = catalog.resources.offered || catalog.templates.offered;
        let page = match call.method() {
            method::LIST_TOOLS if catalog.tools.offered => {
                catalog.tools.page("tools", cursor, size, core_tasks)
            }
            method::LIST_PROMPTS if catalog.prompts.offered => {
                catalog.prompts.page("prompts", cursor, size, false)
            }
            method::LIST_RESOURCES if has_resources => {
                catalog.resources.page("resources", cursor, size, false)
            }
            method::LIST_TEMPLATES if has_resources => {
                catalog.templates.page("resourceTemplates", cursor, size, false)
            }
            _ => return None,
        };
        Some(page.map(Bytes::from))
    }

    /// Answers what takes its time.
    pub(super) async fn answer(
        &self,
        call: &Request,
        said: &HeaderParams,
        cx: Context,
    ) -> Result<Bytes, Error> {
        let catalog = self.catalog();
        match call.method() {
            method::CALL_TOOL if catalog.tools.offered => {
                let name = call.text("name")?;
                let tool = catalog.tools.get(&name);
                let tool =
                    tool.ok_or_else(|| Error::invalid_params(format!("Unknown tool: {name}")))?;
                self.call_tool(Arc::clone(tool), call, said, cx).await.map(|r| r.to_bytes())
            }
            method::GET_PROMPT if catalog.prompts.offered => {
                let name = call.text("name")?;
                let prompt = catalog.prompts.get(&name);
                let prompt = prompt
                    .ok_or_else(|| Error::invalid_params(format!("Unknown prompt: {name}")))?;
                prompt.get(call, cx).await
            }
            method::READ_RESOURCE if catalog.resources.offered || catalog.templates.offered => {
                let uri = call.text("uri")?;
                if let Some(resource) = catalog.resources.get(&uri) {
                    return resource.get(cx).await;
                }
                let mut templates = catalog.templates.iter();
                match templates.find_map(|template| Some((template, template.matches(&uri)?))) {
                    Some((template, variables)) => template.get(uri, variables, cx).await,
                    None => Err(Error::no_such_resource(&uri, cx.era())),
                }
            }
            method::COMPLETE => match &catalog.completion {
                Some(completion) => {
                    let what = CompletionRequest::read(call)?;
                    what.of.check(&catalog)?;
                    completion(what, cx).await.map(catalog::completion_result)
                }
                None => self.raw(call, cx).await,
            },
            method if method.starts_with("tasks/") && self.has_tasks(&cx) => {
                self.answer_task(call, &cx).await
            }
            _ => self.raw(call, cx).await,
        }
    }

    async fn raw(&self, call: &Request, cx: Context) -> Result<Bytes, Error> {
        match &self.raw {
            Some(handler) => Arc::clone(handler).call(call.clone(), cx).await,
            None => Err(Error::unknown_method(call.method())),
        }
    }

    /// Calls a tool with arguments that fit; those that do not are the model's
    /// to mend, so they make a result (ERR-3).
    async fn call_tool(
        &self,
        tool: Arc<Tool>,
        call: &Request,
        said: &HeaderParams,
        cx: Context,
    ) -> Result<ToolResult, Error> {
        let arguments = call.request.part(Member::Arguments);
        let arguments = match arguments.filter(|it| it.text() != b"null") {
            None => Value::Object(serde_json::Map::new()),
            Some(it) => it.read().map_err(|error| Error::invalid_params(error.to_string()))?,
        };
        tool.check_headers(&arguments, said)?;
        let as_task = server_tasks::wanted(&tool, call, &cx)?;
        let started = crate::connection::now();
        let result = match tool.complaint(&arguments) {
            Some(complaint) => Ok(ToolResult::error(format!("invalid arguments: {complaint}"))),
            None if as_task => {
                let (tool, work) = (Arc::clone(&tool), arguments);
                cx.defer(async move |cx| tool.run(work, cx).await).await
            }
            None => tool.run(arguments, cx).await,
        };
        match &self.trace {
            Some(ring) => ring.record(tool.name(), started.elapsed(), result),
            None => result,
        }
    }
}

fn set_level(session: &Session, call: &Request) -> Result<Bytes, Error> {
    let name = call.text("level")?;
    let level = Level::parse(&name).ok_or_else(|| Error::invalid_params(unknown_level(&name)))?;
    *lock(&session.level) = Some(level);
    Ok(Bytes::from_static(b"{}"))
}

/// A log level that does not exist is a mistake worth telling (META-4).
fn check_level(call: &Request) -> Result<(), Refusal> {
    let Some(level) = call.request.part(Member::MetaLogLevel) else { return Ok(()) };
    let name = level.as_string().unwrap_or_default();
    let broken = || Refusal::BadEnvelope { what: unknown_level(&name) };
    Level::parse(&name).map(|_| ()).ok_or_else(broken)
}

/// A state that leads to a call of ours has done so before it gets here; one that
/// was sealed and does not is forged, or of a server that is no more (MRTR-8).
/// Any other is a raw handler's own.
fn check_state(call: &Request) -> Result<(), Refusal> {
    let state = call.request.string(Member::RequestState);
    let sealed = state.is_some_and(|state| Sealer::is_sealed(&state));
    if sealed { Err(Refusal::BadState) } else { Ok(()) }
}

fn unknown_level(name: &str) -> String {
    let names = Level::ALL.map(Level::as_str).join(", ");
    format!("there is no log level {name:?}; there are {names}")
}

impl Server {
    /// A result as the caller's revision wants it. A tool is written once, in the newest
    /// words; what an older client does not know is put into words that it knows (GW-70).
    pub(super) fn project_result(
        &self,
        caller: &Caller,
        call: &Request,
        result: Bytes,
    ) -> Result<Bytes, Error> {
        let projected = match caller.era() {
            Era::Modern => {
                project::modern(&result, call.method(), Some(&self.identity.text), self.cache)
            }
            Era::Legacy => {
                let wrapped = self.is_wrapped(call);
                project::legacy(result, call.method(), caller.revision(), wrapped)
            }
        };
        projected.map_err(|_| Error::internal("the server made a result that is no JSON object"))
    }

    /// Whether a call, or the task that it asks for, is one of a tool whose
    /// output schema is listed inside another.
    fn is_wrapped(&self, call: &Request) -> bool {
        let text = |name| call.text(name).unwrap_or_default();
        match call.method() {
            method::CALL_TOOL => {
                self.catalog().tools.get(&text("name")).is_some_and(|it| it.is_wrapped())
            }
            method::TASK_RESULT => self.tasks.is_wrapped(&text("taskId")),
            _ => false,
        }
    }
}

/// A result that nobody is to keep: it came of answers to questions (MRTR-12).
pub(super) fn without_caching(result: Bytes) -> Bytes {
    let result = Part::new(&result).with("ttlMs", b"0").unwrap_or(result);
    Part::new(&result).with("cacheScope", b"\"private\"").unwrap_or(result)
}
