//! How tasks begin, and the methods about them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_proto::jsonrpc::{Id, Member, Message, Part};
use switchboard_proto::revision::Era;
use tokio::time::timeout_at;

use super::{EXTENSION, End, LONGEST, SHORTEST, TTL, Task, TaskSupport};
use crate::connection::lock;
use crate::server::Server;
use crate::server::context::{CallChannel, Context};
use crate::server::handler::{CatchPanic, Error, Request};
use crate::server::session::Caller;
use crate::server::subscriptions::{Change, tell};
use crate::server::tool::Tool;
use crate::server::tool_result::{IntoToolResult, ToolResult};

/// Whether the library makes a task of this call (TASK-1, UTL-9).
pub(in crate::server) fn wanted(tool: &Tool, call: &Request, cx: &Context) -> Result<bool, Error> {
    let accepted = cx.state.task_ttl.is_some();
    let core = cx.revision().rules().core_tasks;
    match tool.support {
        TaskSupport::Forbidden if core && accepted => {
            let what = format!("{}: tool {:?} cannot run as a task", call.method(), tool.name());
            Err(Error { message: what, ..Error::unknown_method(call.method()) })
        }
        TaskSupport::Optional => Ok(accepted && !tool.defers),
        TaskSupport::Required if accepted => Ok(!tool.defers),
        TaskSupport::Required if cx.era() == Era::Modern => Err(no_extension(cx)),
        TaskSupport::Required if core => {
            let what = format!("{}: tool {:?} runs as a task only", call.method(), tool.name());
            Err(Error { message: what, ..Error::unknown_method(call.method()) })
        }
        // Who has never heard of tasks waits.
        TaskSupport::Forbidden | TaskSupport::Required => Ok(false),
    }
}

/// How long the caller wants a task for this call to be remembered; none if it takes no tasks.
pub(in crate::server) fn ttl(caller: &Caller, request: &Message) -> Option<Duration> {
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
        let (Some(ttl), CallChannel::Call { client, .. }) =
            (self.state.task_ttl, &self.state.channel)
        else {
            return work(self.clone()).await.into_tool_result();
        };
        let server = Arc::clone(&self.state.server);
        let wrapped = self.output_check.is_wrapped;
        let task = Task::new(&self.state.caller, client.number(), principal(self), ttl, wrapped)?;
        server.tasks.add(Arc::clone(&task))?;
        let cx = self.as_task(Arc::clone(&task));
        *lock(&task.state) = Arc::downgrade(&cx.state);
        let created = match self.era() {
            Era::Legacy => json!({"task": task.to_json(Era::Legacy)}),
            Era::Modern => {
                let mut created = task.to_json(Era::Modern);
                created["resultType"] = "task".into();
                created
            }
        };
        let (work, output_check) = (work(cx.clone()), cx.output_check.clone());
        let work = async move {
            work.await.into_tool_result().and_then(|result| output_check.check(result))
        };
        let work = CatchPanic(Box::pin(work));
        tokio::spawn(tell_changes(server, Arc::clone(&task)));
        tokio::spawn(async move {
            let mut running = pin!(cx.state.run(work));
            let in_time = timeout_at(task.expires.into(), &mut running).await;
            let ran = if let Ok(ran) = in_time {
                ran
            } else {
                cx.state.give_up();
                running.await
            };
            task.end(match ran {
                None => End::Cancelled,
                Some(Ok(result)) => End::Result(Box::new(result)),
                Some(Err(error)) => End::Error(error),
            });
        });
        Ok(ToolResult::created(created))
    }
}

/// On whose behalf a call is made.
fn principal(cx: &Context) -> &[u8] {
    match &cx.state.channel {
        CallChannel::Call { client, .. } => client.principal(),
        CallChannel::Task(task) => &task.principal,
    }
}

/// Says whenever a task has changed, until it is over (TASK-7, UTL-9).
async fn tell_changes(server: Arc<Server>, task: Arc<Task>) {
    let mut watching = task.progress.subscribe();
    let mut over = false;
    while !over && watching.changed().await.is_ok() {
        over = watching.borrow_and_update().end.is_some();
        if let Some((_, session)) = &task.session {
            let params = task.to_json(Era::Legacy).to_string();
            let name = "notifications/tasks/status";
            tell(&session.client, None, &Message::notification(name, Some(params.as_bytes())));
        } else {
            let change = Change::Task(&task.id);
            server.tell_listens(change, "notifications/tasks", &task.to_full_json());
        }
    }
}

impl Server {
    /// Whether methods about tasks are ours to answer.
    pub(in crate::server) fn has_tasks(&self, cx: &Context) -> bool {
        let speaks = cx.era() == Era::Modern || cx.revision().rules().core_tasks;
        let catalog = self.catalog();
        speaks && catalog.tools.iter().any(|tool| tool.support != TaskSupport::Forbidden)
    }

    pub(in crate::server) async fn answer_task(
        &self,
        call: &Request,
        cx: &Context,
    ) -> Result<Bytes, Error> {
        let era = cx.era();
        if era == Era::Modern && !declares(&cx.client_capabilities()) {
            return Err(no_extension(cx));
        }
        let find = || {
            let id = call.text("taskId")?;
            let task = self.tasks.find(&id, &cx.state.caller, principal(cx));
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
    fn update_task(&self, task: &Task, call: &Request) -> Result<(), Error> {
        let answers = call.request.part(Member::InputResponses).unwrap_or(Part::new(b"{}"));
        let answers: serde_json::Map<String, Value> = answers
            .read()
            .map_err(|error| Error::invalid_params(format!("inputResponses: {error}")))?;
        for (key, answer) in answers.iter().filter(|(_, answer)| answer.is_object()) {
            let ask = task.progress.borrow().questions.get(key).map(|(ask, _)| *ask);
            if let Some(ask) = ask {
                task.close_question(ask);
                let answer = answer.to_string();
                self.asks.supply(ask, Message::result(&Id::Integer(0), answer.as_bytes()));
            }
        }
        Ok(())
    }

    /// The tasks of a session, oldest first.
    fn list_tasks(&self, call: &Request, cx: &Context) -> Result<Value, Error> {
        let mut tasks: Vec<_> = lock(&self.tasks.by_id).values().cloned().collect();
        tasks.retain(|task| self.tasks.find(&task.id, &cx.state.caller, principal(cx)).is_some());
        tasks.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        let start = match call.request.string(Member::Cursor) {
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
async fn task_result(task: &Task) -> Result<Bytes, Error> {
    match task.over().await {
        End::Result(result) => {
            let related = json!({"taskId": task.id});
            let result = result.with_meta("io.modelcontextprotocol/related-task", related);
            Ok(result.to_bytes())
        }
        End::Error(error) => Err(error),
        End::Cancelled => Err(Error::invalid_params("the task was cancelled")),
    }
}
