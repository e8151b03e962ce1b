//! Calls that go on as tasks, in both forms of the protocol.
//!
//! ```text
//!   tools/call ──▶ the result: nothing to wait for
//!        └───────▶ a task ──▶ working ⇄ input_required ──▶ completed, failed, cancelled
//!                                tasks/get, as often as the server wants
//! ```
//!
//! A legacy server makes a task where the client asks for one, sends its
//! questions as requests, and has the result in `tasks/result`. A modern one
//! decides by itself, if the call says that we take tasks; its questions and
//! results are in `tasks/get`, our answers in `tasks/update`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use switchboard_proto::method;
use switchboard_proto::refusal::code;
use switchboard_proto::revision::{Era, Revision};

use super::{CallError, CallOptions, Client};

/// The extension that modern tasks are.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How long to wait between two looks, if the server does not say; and what it
/// may say (TASK-8).
const INTERVAL: Duration = Duration::from_secs(1);
const SOONEST: Duration = Duration::from_millis(10);
const LATEST: Duration = Duration::from_mins(1);

/// Questions that one task may ask in its life.
const QUESTIONS: usize = 1000;

/// What came of a call that may go on as a task.
#[derive(Clone, Debug)]
pub enum Called {
    /// It was answered right away.
    Done(Value),
    /// It goes on.
    Task(Task),
}

/// A call that goes on at the server. Dropping it changes nothing there.
#[derive(Clone, Debug)]
pub struct Task {
    client: Client,
    id: String,
    state: Value,
    /// The state was asked for, and so has all that belongs to it.
    is_whole: bool,
    /// Questions that were answered; they may be listed for a while still.
    answered: BTreeSet<String>,
}

impl Called {
    /// The result, however long it takes.
    pub async fn result(self) -> Result<Value, CallError> {
        match self {
            Self::Done(result) => Ok(result),
            Self::Task(mut task) => task.result().await,
        }
    }
}

impl Client {
    /// Calls a tool that may go on as a task, if the server has any. `ttl` is
    /// how long a legacy server is asked to remember it; a modern one decides.
    ///
    /// wire: EXT-1, TASK-1, UTL-9
    pub async fn call_tool_as_task(
        &self,
        name: &str,
        args: impl Serialize,
        ttl: Option<Duration>,
    ) -> Result<Called, CallError> {
        self.begin(tool_params(name, args)?, ttl, CallOptions::default()).await
    }

    /// Calls a tool as a task, if the server has any.
    pub(super) async fn begin(
        &self,
        mut params: Value,
        ttl: Option<Duration>,
        mut options: CallOptions,
    ) -> Result<Called, CallError> {
        let may_go_on = match self.era() {
            Era::Legacy => self.has_core_tasks("requests"),
            Era::Modern => self.may_extend(EXTENSION),
        };
        match self.era() {
            _ if !may_go_on => {}
            Era::Legacy => {
                let millis = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
                params["task"] = millis.map_or(json!({}), |ttl| json!({ "ttl": ttl }));
            }
            Era::Modern => options.extensions.extend(declaring().extensions),
        }
        let result = self.request_with(method::CALL_TOOL, params, options).await?;
        Ok(match Task::created(self, &result).filter(|_| may_go_on) {
            Some(task) => Called::Task(task),
            None => Called::Done(result),
        })
    }

    /// Whether a call was turned away, unread, because its tool runs as a task only.
    pub(super) fn must_be_task(&self, why: &CallError) -> bool {
        match (self.era(), why) {
            (Era::Legacy, CallError::Server { code: code::METHOD_NOT_FOUND, .. }) => {
                self.has_core_tasks("requests")
            }
            (Era::Modern, CallError::Server { code: code::MISSING_CAPABILITY, data, .. }) => {
                let data = data.as_ref().unwrap_or(&Value::Null);
                data["requiredCapabilities"]["extensions"].get(EXTENSION).is_some()
            }
            _ => false,
        }
    }

    /// A task that was made earlier, by its id.
    pub fn task(&self, id: &str) -> Task {
        let (id, state) = (id.to_owned(), Value::Null);
        Task { client: self.clone(), id, state, is_whole: false, answered: BTreeSet::new() }
    }

    /// All tasks that a legacy server remembers for us. A modern one has no such list.
    pub async fn tasks(&self) -> Result<Vec<Value>, CallError> {
        if self.era() == Era::Modern || !self.has_core_tasks("list") {
            return Err(CallError::unsupported("a list of tasks"));
        }
        self.all("tasks/list", "tasks").await
    }

    fn has_core_tasks(&self, part: &str) -> bool {
        let rules = Revision::legacy_at_most(self.revision()).rules();
        rules.core_tasks && self.capabilities()["tasks"].get(part).is_some()
    }

    /// Whether the server has an extension, as far as is known.
    pub(super) fn may_extend(&self, name: &str) -> bool {
        let capabilities = self.capabilities();
        capabilities.is_null() || capabilities["extensions"].get(name).is_some()
    }
}

impl Task {
    /// The task that a result announces, if it does.
    pub(super) fn created(client: &Client, result: &Value) -> Option<Self> {
        let state = match client.era() {
            Era::Legacy => result.get("task")?.clone(),
            Era::Modern if result["resultType"] == "task" => result.clone(),
            Era::Modern => return None,
        };
        let id = state["taskId"].as_str()?.to_owned();
        Some(Self { state, ..client.task(&id) })
    }

    /// What it is known by at the server. Another client with the same rights
    /// may ask for it under this name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// As it was last seen: `working`, `input_required`, `completed`, `failed` or `cancelled`.
    pub fn status(&self) -> &str {
        self.state["status"].as_str().unwrap_or_default()
    }

    /// All that was last seen of it.
    pub fn state(&self) -> &Value {
        &self.state
    }

    /// Asks how it is.
    pub async fn refresh(&mut self) -> Result<&Value, CallError> {
        self.state = self.ask("tasks/get", json!({ "taskId": self.id })).await?;
        self.is_whole = true;
        Ok(&self.state)
    }

    /// Waits until it is over, asking as often as the server wants and
    /// answering its questions. There is no bound on the time but the caller's;
    /// who stops waiting may wait again, or [`cancel`](Self::cancel).
    ///
    /// wire: TASK-3, TASK-4, TASK-8, UTL-9
    pub async fn result(&mut self) -> Result<Value, CallError> {
        let legacy = self.client.era() == Era::Legacy;
        loop {
            let is_over = matches!(self.status(), "completed" | "failed" | "cancelled");
            if (self.state.is_null() || is_over) && !self.is_whole {
                self.refresh().await?;
                continue;
            }
            match self.status() {
                "cancelled" => return Err(CallError::Cancelled),
                // Its questions come while it is waited for.
                "completed" | "failed" | "input_required" if legacy => {
                    let timeout = Some(self.client.core.options().total);
                    let options = CallOptions { timeout, ..CallOptions::default() };
                    let params = json!({ "taskId": self.id });
                    return self.client.request_with("tasks/result", params, options).await;
                }
                "completed" => return self.member("result"),
                "failed" => return Err(CallError::from_error(&self.member("error")?)),
                "input_required" if self.is_whole => self.answer().await?,
                _ => {}
            }
            let said = self.state.get("pollIntervalMs").or_else(|| self.state.get("pollInterval"));
            let said = said.and_then(Value::as_u64).map(Duration::from_millis);
            tokio::time::sleep(said.unwrap_or(INTERVAL).clamp(SOONEST, LATEST)).await;
            self.refresh().await?;
        }
    }

    /// Gives a modern server answers by the keys of its questions; it may ask
    /// for the rest again.
    ///
    /// wire: TASK-5
    pub async fn update(&self, answers: Map<String, Value>) -> Result<(), CallError> {
        if self.client.era() == Era::Legacy {
            return Err(CallError::unsupported("updates of tasks"));
        }
        let params = json!({"taskId": self.id, "inputResponses": answers});
        self.ask("tasks/update", params).await.map(drop)
    }

    /// Asks the server to stop it. It may end otherwise all the same.
    pub async fn cancel(&self) -> Result<(), CallError> {
        if self.client.era() == Era::Legacy && !self.client.has_core_tasks("cancel") {
            return Err(CallError::unsupported("cancelling of tasks"));
        }
        self.ask("tasks/cancel", json!({ "taskId": self.id })).await.map(drop)
    }

    async fn ask(&self, method: &str, params: Value) -> Result<Value, CallError> {
        self.client.request_with(method, params, declaring()).await
    }

    fn member(&self, name: &str) -> Result<Value, CallError> {
        let what = || format!("a task that is {} has no {name}", self.status());
        self.state.get(name).cloned().ok_or_else(|| CallError::unusable(what()))
    }

    /// Answers the questions that were not answered yet.
    async fn answer(&mut self) -> Result<(), CallError> {
        let requests = self.state["inputRequests"].as_object().cloned().unwrap_or_default();
        let fresh = requests.into_iter().filter(|(key, _)| !self.answered.contains(key));
        let fresh: Map<String, Value> = fresh.collect();
        if fresh.is_empty() {
            return Ok(());
        }
        if self.answered.len() + fresh.len() > QUESTIONS {
            return Err(CallError::unusable("a task asks without end"));
        }
        let answers = self.client.core.answer_all(fresh).await?;
        let keys: Vec<_> = answers.keys().cloned().collect();
        self.update(answers).await?;
        self.answered.extend(keys);
        Ok(())
    }
}

/// The parameters of a call; a tool without arguments gets none.
pub(super) fn tool_params(name: &str, args: impl Serialize) -> Result<Value, CallError> {
    let args = serde_json::to_value(args).map_err(|_| CallError::BadParams)?;
    let args = if args.is_null() { json!({}) } else { args };
    Ok(json!({"name": name, "arguments": args}))
}

/// Every request about modern tasks says that we know them (TASK-6).
fn declaring() -> CallOptions {
    let extensions = Map::from_iter([(EXTENSION.to_owned(), json!({}))]);
    CallOptions { extensions, ..CallOptions::default() }
}
