//! Tasks: calls that go on after their request was answered.
//!
//! ```text
//!             asks ┌──────────────────┐ answered
//!                  ▼                  │
//!   working ◀──────── input_required ─┘
//!      │ ends by itself: completed, failed     cancelled, or out of time: cancelled
//! ```
//!
//! One store serves both forms: the core of 2025-11-25, where the client asks for
//! a task, and the extension of the modern era, where the server decides. It is
//! in memory and bounded; what is over goes first, and nothing outlives its time.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use switchboard_proto::exchange::Ask;
use switchboard_proto::jsonrpc::{Id, Member, Message, Part};
use switchboard_proto::moment;
use switchboard_proto::revision::Era;
use tokio::sync::watch;
use tokio::time::timeout_at;

use super::context::{CallChannel, CallInHand, Context};
use super::handler::{Error, Request, catch_panic};
use super::session::{Caller, ServerChange, ServerSession, tell};
use super::tool::{IntoToolResult, Tool, ToolResult};
use super::{Server, notification};
use crate::connection::lock;
use crate::drive::now;

/// Which task a message is about, in its `_meta`.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// The extension's name.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Tasks that are remembered.
const MOST: usize = 4096;

/// How long a task is remembered from its beginning, unless its client says otherwise.
const TTL: Duration = Duration::from_hours(1);

/// The longest that a client may ask for.
const LONGEST: Duration = Duration::from_hours(24);

/// The shortest: long enough to ask once how it went.
const SHORTEST: Duration = Duration::from_secs(1);

/// How often a client should look.
const POLL_MS: u64 = 500;

/// Questions that one task may have open.
const MOST_QUESTIONS: usize = 64;

/// Whether calls of a tool may go on as tasks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskSupport {
    /// Never.
    #[default]
    Forbidden,
    /// If the client can handle it.
    Optional,
    /// Always; other clients are refused.
    Required,
}

/// One task.
pub(super) struct ServerTask {
    pub(super) id: String,
    /// The session it belongs to, and the only one that sees it (legacy).
    session: Option<(u64, Arc<ServerSession>)>,
    /// Who may ask for it otherwise (modern).
    pub(super) principal: Box<[u8]>,
    created: SystemTime,
    expires: Instant,
    ttl: Duration,
    /// Legacy clients know the output schema of its tool inside another.
    is_wrapped: bool,
    /// What is to be told to stop.
    state: Mutex<Weak<CallInHand>>,
    progress: watch::Sender<TaskProgress>,
}

/// How far a task has got.
struct TaskProgress {
    updated: SystemTime,
    /// By key; those without their text were asked over the client's connection.
    questions: BTreeMap<String, (Ask, Option<Value>)>,
    end: Option<TaskEnd>,
}

#[derive(Clone, Debug)]
enum TaskEnd {
    Result(Box<ToolResult>),
    Error(Error),
    Cancelled,
}

impl ServerTask {
    fn new(
        caller: &Caller,
        (client, principal): (u64, &[u8]),
        ttl: Duration,
        is_wrapped: bool,
    ) -> Result<Arc<Self>, Error> {
        let session = match caller {
            Caller::Session(session) => Some((client, Arc::clone(session))),
            Caller::Request(_) => None,
        };
        let created = SystemTime::now();
        let progress = TaskProgress { updated: created, questions: BTreeMap::new(), end: None };
        Ok(Arc::new(Self {
            id: super::random_id()?,
            session,
            principal: principal.into(),
            created,
            expires: now() + ttl,
            ttl,
            is_wrapped,
            state: Mutex::default(),
            progress: watch::Sender::new(progress),
        }))
    }

    /// A question's parameters, saying which task asks (UTL-9).
    pub(super) fn related(&self, mut params: Value) -> Value {
        params["_meta"][RELATED] = json!({"taskId": self.id});
        params
    }

    /// Notes a question. One that is not put over the connection waits for the client to
    /// fetch it; false if too many do, or one of that key.
    pub(super) fn ask(&self, ask: Ask, key: &str, question: Option<Value>) -> bool {
        let own = format!("q{}", ask.0);
        let key = if key.is_empty() || question.is_none() { own.as_str() } else { key };
        self.change(|TaskProgress { questions, .. }| {
            let fits = questions.len() < MOST_QUESTIONS && !questions.contains_key(key);
            let noted = question.is_none() || fits;
            if noted {
                questions.insert(key.to_owned(), (ask, question));
            }
            noted
        })
    }

    /// A question is answered, or does not matter any more.
    pub(super) fn close_question(&self, ask: Ask) {
        self.change(|progress| {
            progress.questions.extract_if(.., |_, (other, _)| *other == ask).next().is_some()
        });
    }

    /// Makes a change, if there is one to make. Nothing changes once it is over.
    fn change(&self, change: impl FnOnce(&mut TaskProgress) -> bool) -> bool {
        self.progress.send_if_modified(|progress| {
            let changed = progress.end.is_none() && change(progress);
            if changed {
                progress.updated = SystemTime::now();
            }
            changed
        })
    }

    fn end(&self, end: TaskEnd) {
        self.change(|progress| {
            progress.questions.clear();
            progress.end = Some(end);
            true
        });
    }

    /// Ends it early; what it was doing is dropped.
    fn cancel(&self) {
        self.end(TaskEnd::Cancelled);
        if let Some(state) = lock(&self.state).upgrade() {
            state.give_up();
        }
    }

    /// The task as the era shows it, without what it came to.
    fn to_json(&self, era: Era) -> Value {
        let progress = self.progress.borrow();
        let status = match &progress.end {
            None if progress.questions.is_empty() => "working",
            None => "input_required",
            // A tool that failed has failed for one era, and has ended for the other (TASK-3).
            Some(TaskEnd::Result(result)) if result.is_error() && era == Era::Legacy => "failed",
            Some(TaskEnd::Result(_)) => "completed",
            Some(TaskEnd::Error(_)) => "failed",
            Some(TaskEnd::Cancelled) => "cancelled",
        };
        let mut task = json!({
            "taskId": self.id,
            "status": status,
            "createdAt": moment::text(self.created),
            "lastUpdatedAt": moment::text(progress.updated),
        });
        if let Some(TaskEnd::Error(error)) = &progress.end {
            task["statusMessage"] = error.message.as_str().into();
        }
        let names = match era {
            Era::Legacy => ("ttl", "pollInterval"),
            Era::Modern => ("ttlMs", "pollIntervalMs"),
        };
        task[names.0] = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX).into();
        task[names.1] = POLL_MS.into();
        task
    }

    /// The same with its questions, its result or its error (TASK-4).
    fn to_full_json(&self) -> Value {
        let mut task = self.to_json(Era::Modern);
        let progress = self.progress.borrow();
        match &progress.end {
            Some(TaskEnd::Result(result)) => task["result"] = json!(result),
            Some(TaskEnd::Error(error)) => task["error"] = json!(error),
            Some(TaskEnd::Cancelled) => {}
            None => {
                for (key, (_, question)) in &progress.questions {
                    if let Some(question) = question {
                        task["inputRequests"][key] = question.clone();
                    }
                }
            }
        }
        task
    }
}

/// The tasks that are remembered.
#[derive(Default)]
pub(super) struct ServerTasks {
    by_id: Mutex<HashMap<String, Arc<ServerTask>>>,
}

impl ServerTasks {
    /// Makes room if need be: first what is out of time, then what is over.
    fn add(&self, task: Arc<ServerTask>) -> Result<(), Error> {
        let moment = now();
        self.cancel(|task| task.expires <= moment);
        let mut by_id = lock(&self.by_id);
        if by_id.len() >= MOST {
            let over = |task: &&Arc<ServerTask>| task.progress.borrow().end.is_some();
            let oldest = by_id.values().filter(over).min_by_key(|task| task.created);
            let oldest = oldest.map(|task| task.id.clone());
            let oldest = oldest.ok_or_else(|| Error::internal("too many tasks are running"))?;
            by_id.remove(&oldest);
        }
        by_id.insert(task.id.clone(), task);
        Ok(())
    }

    /// The task of that id, if this caller may see it.
    pub(super) fn find(
        &self,
        id: &str,
        caller: &Caller,
        principal: &[u8],
    ) -> Option<Arc<ServerTask>> {
        let task = lock(&self.by_id).get(id).cloned()?;
        if task.expires <= now() {
            task.cancel();
            lock(&self.by_id).remove(id);
            return None;
        }
        let theirs = match (&task.session, caller) {
            // Who knows the id may still be another (TASK-8).
            (None, Caller::Request(_)) => *task.principal == *principal,
            (Some((_, owner)), Caller::Session(session)) => Arc::ptr_eq(owner, session),
            _ => false,
        };
        theirs.then_some(task)
    }

    /// Whether what a task comes to is wrapped for legacy clients.
    pub(super) fn is_wrapped(&self, id: &str) -> bool {
        lock(&self.by_id).get(id).is_some_and(|task| task.is_wrapped)
    }

    /// A client is gone, and with it the only one who could ask for its tasks.
    pub(super) fn forget(&self, client: u64) {
        self.cancel(|task| task.session.as_ref().is_some_and(|of| of.0 == client));
    }

    /// Forgets tasks, and ends their work.
    pub(super) fn cancel(&self, is_meant: impl Fn(&ServerTask) -> bool) {
        let gone: Vec<_> = lock(&self.by_id).extract_if(|_, task| is_meant(task)).collect();
        for (_, task) in gone {
            task.cancel();
        }
    }
}

/// Whether the library makes a task of this call (TASK-1, UTL-9).
pub(super) fn wanted(tool: &Tool, call: &Request, cx: &Context) -> Result<bool, Error> {
    let accepted = cx.state.task_ttl.is_some();
    let core = cx.revision().rules().core_tasks;
    let refused = |why: &str| {
        let message = format!("{}: tool {:?} {why}", call.method(), tool.name());
        Err(Error { message, ..Error::unknown_method(call.method()) })
    };
    match tool.draft.support {
        TaskSupport::Forbidden if core && accepted => refused("cannot run as a task"),
        TaskSupport::Optional | TaskSupport::Required if accepted => Ok(!tool.draft.defers),
        TaskSupport::Required if cx.era() == Era::Modern => Err(no_extension(cx)),
        TaskSupport::Required if core => refused("runs as a task only"),
        // A client that has never heard of tasks waits.
        _ => Ok(false),
    }
}

/// How long the caller wants a task for this call to be remembered; none if it takes no tasks.
pub(super) fn ttl(caller: &Caller, request: &Message) -> Option<Duration> {
    match caller {
        Caller::Session(session) => {
            request.part(Member::Task).filter(|task| task.is_object())?;
            let asked = request.read(Member::TaskTtl);
            let ttl = asked.map_or(TTL, |ttl| Duration::from_millis(ttl).clamp(SHORTEST, LONGEST));
            session.revision.rules().core_tasks.then_some(ttl)
        }
        Caller::Request(_) => declares(&caller.capabilities()).then_some(TTL),
    }
}

fn declares(capabilities: &Value) -> bool {
    capabilities["extensions"][EXTENSION].is_object()
}

fn no_extension(cx: &Context) -> Error {
    Error::missing_capability(&json!({"extensions": {EXTENSION: {}}}), cx.era())
}

impl Context {
    /// Goes on with `work` as a task, if the client can handle that; else does
    /// it right away.
    ///
    /// For tools that have questions before the long part begins, declared with
    /// [`ToolDraft::defers`](crate::server::ToolDraft::defers). The result is to be
    /// returned as it is.
    pub async fn defer<F, W, R>(&self, work: F) -> Result<ToolResult, Error>
    where
        F: FnOnce(Self) -> W,
        W: Future<Output = R> + Send + 'static,
        R: IntoToolResult,
    {
        let state = &self.state;
        let (Some(ttl), CallChannel::Call { client, .. }) = (state.task_ttl, &state.channel) else {
            return work(self.clone()).await.into_tool_result();
        };
        let wrapped = self.tool.as_ref().is_some_and(|tool| tool.is_wrapped());
        let owner = (client.number(), state.principal());
        let task = ServerTask::new(&state.caller, owner, ttl, wrapped)?;
        let cx = self.as_task(Arc::clone(&task));
        *lock(&task.state) = Arc::downgrade(&cx.state);
        // Before others can end the task: what watches it must hear that.
        let watching = task.progress.subscribe();
        state.server.tasks.add(Arc::clone(&task))?;
        let mut created = task.to_json(self.era());
        match self.era() {
            Era::Legacy => created = json!({ "task": created }),
            Era::Modern => created["resultType"] = "task".into(),
        }
        let work = work(cx.clone());
        // The store owns the work by its task: cancelled, forgotten or out of time, it ends.
        tokio::spawn(async move {
            let tool = cx.tool.clone();
            let work = catch_panic(async move {
                let result = work.await.into_tool_result()?;
                match tool {
                    Some(tool) => tool.check_output(result),
                    None => Ok(result),
                }
            });
            let working = async {
                let mut running = pin!(cx.state.run(work));
                let in_time = timeout_at(task.expires.into(), &mut running).await;
                let ran = if let Ok(ran) = in_time {
                    ran
                } else {
                    cx.state.give_up();
                    running.await
                };
                task.end(match ran {
                    None => TaskEnd::Cancelled,
                    Some(Ok(result)) => TaskEnd::Result(Box::new(result)),
                    Some(Err(error)) => TaskEnd::Error(error),
                });
            };
            tokio::join!(working, tell_changes(&cx.state.server, &task, watching));
        });
        Ok(ToolResult { created: Some(created), ..ToolResult::default() })
    }
}

/// Says whenever a task has changed, until it is over (TASK-7, UTL-9).
async fn tell_changes(
    server: &Server,
    task: &ServerTask,
    mut watching: watch::Receiver<TaskProgress>,
) {
    let mut over = false;
    while !over && watching.changed().await.is_ok() {
        over = watching.borrow_and_update().end.is_some();
        if let Some((_, session)) = &task.session {
            let note = notification("notifications/tasks/status", &task.to_json(Era::Legacy));
            tell(&session.client, None, &note);
        } else {
            let change = ServerChange::Task(&task.id);
            server.tell_listens(change, "notifications/tasks", &task.to_full_json());
        }
    }
}

impl Server {
    /// Whether methods about tasks are ours to answer.
    pub(super) fn has_tasks(&self, cx: &Context) -> bool {
        let speaks = cx.era() == Era::Modern || cx.revision().rules().core_tasks;
        speaks && self.catalog().has_tasks()
    }

    pub(super) async fn answer_task(&self, call: &Request, cx: &Context) -> Result<Bytes, Error> {
        let era = cx.era();
        if era == Era::Modern && !declares(&cx.client_capabilities()) {
            return Err(no_extension(cx));
        }
        let find = || {
            let id = call.text("taskId")?;
            let task = self.tasks.find(&id, &cx.state.caller, cx.state.principal());
            task.ok_or_else(|| Error::invalid_params(format!("Task not found: {id}")))
        };
        let result = match (call.method(), era) {
            ("tasks/get", Era::Legacy) => find()?.to_json(era),
            ("tasks/get", Era::Modern) => find()?.to_full_json(),
            ("tasks/cancel", _) => {
                let task = find()?;
                let over = task.progress.borrow().end.is_some();
                if era == Era::Legacy && over {
                    return Err(Error::invalid_params("the task is over"));
                }
                task.cancel();
                if era == Era::Legacy { task.to_json(era) } else { json!({}) }
            }
            ("tasks/update", Era::Modern) => {
                self.update_task(&*find()?, call)?;
                json!({})
            }
            ("tasks/result", Era::Legacy) => return task_result(&*find()?).await,
            ("tasks/list", Era::Legacy) => self.list_tasks(call, cx)?,
            _ => return Err(Error::unknown_method(call.method())),
        };
        Ok(result.to_string().into())
    }

    /// Answers to a task's questions; keys that nobody asks about are ignored (TASK-5).
    fn update_task(&self, task: &ServerTask, call: &Request) -> Result<(), Error> {
        let answers = call.message.part(Member::InputResponses).unwrap_or(Part::new(b"{}"));
        let answers: Map<String, Value> = answers
            .read()
            .map_err(|error| Error::invalid_params(format!("inputResponses: {error}")))?;
        for (key, answer) in answers.iter().filter(|(_, answer)| answer.is_object()) {
            let ask = task.progress.borrow().questions.get(key).map(|(ask, _)| *ask);
            if let Some(ask) = ask {
                task.close_question(ask);
                let answer = answer.to_string();
                self.questions.supply(ask, Message::result(&Id::Integer(0), answer.as_bytes()));
            }
        }
        Ok(())
    }

    /// The tasks of a session, oldest first.
    fn list_tasks(&self, call: &Request, cx: &Context) -> Result<Value, Error> {
        let mut tasks: Vec<_> = lock(&self.tasks.by_id).values().cloned().collect();
        tasks.retain(|task| {
            self.tasks.find(&task.id, &cx.state.caller, cx.state.principal()).is_some()
        });
        tasks.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        let start = match call.message.string(Member::Cursor) {
            None => 0,
            Some(cursor) => {
                let last = tasks.iter().position(|task| *task.id == *cursor);
                last.ok_or_else(|| Error::invalid_params("the cursor is not valid"))? + 1
            }
        };
        let end = tasks.len().min(start.saturating_add(self.page));
        let page: Vec<_> = tasks[start..end].iter().map(|t| t.to_json(Era::Legacy)).collect();
        let mut result = json!({"tasks": page});
        if end < tasks.len() {
            result["nextCursor"] = tasks[end - 1].id.as_str().into();
        }
        Ok(result)
    }
}

/// Waits for what a task comes to (UTL-9).
async fn task_result(task: &ServerTask) -> Result<Bytes, Error> {
    let mut watching = task.progress.subscribe();
    let over = watching.wait_for(|progress| progress.end.is_some()).await;
    match over.ok().and_then(|progress| progress.end.clone()) {
        Some(TaskEnd::Result(result)) => {
            let result = result.with_meta(RELATED, json!({"taskId": task.id}));
            Ok(result.to_text())
        }
        Some(TaskEnd::Error(error)) => Err(error),
        Some(TaskEnd::Cancelled) | None => Err(Error::invalid_params("the task was cancelled")),
    }
}

#[cfg(test)]
mod tests;
