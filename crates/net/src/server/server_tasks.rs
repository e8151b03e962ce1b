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
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use switchboard_proto::exchange::Ask;
use switchboard_proto::moment;
use switchboard_proto::revision::Era;
use tokio::sync::watch;

use super::context::State;
use super::handler::Error;
use super::session::{Caller, Session};
use super::tool_result::ToolResult;
use crate::connection::{ClientConnection, lock, now};

mod task_methods;

pub(super) use task_methods::{ttl, wanted};

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
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TaskSupport {
    /// Never.
    #[default]
    Forbidden,
    /// If the client can handle it.
    Optional,
    /// Always; other clients are refused.
    Required,
}

impl TaskSupport {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

/// One task.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: String,
    /// The session it belongs to, and the only one that sees it (legacy).
    session: Option<(u64, Arc<Session>)>,
    /// Who may ask for it otherwise (modern).
    principal: Box<[u8]>,
    created: SystemTime,
    expires: Instant,
    ttl: Duration,
    /// Legacy clients know the output schema of its tool inside another.
    is_wrapped: bool,
    /// What is to be told to stop.
    state: Mutex<Weak<State>>,
    progress: watch::Sender<Progress>,
}

/// How far a task has got.
#[derive(Clone, Debug)]
struct Progress {
    updated: SystemTime,
    /// By key; of those asked through the task itself.
    questions: BTreeMap<String, (Ask, Value)>,
    /// Asked over the client's connection.
    elsewhere: Vec<Ask>,
    end: Option<End>,
}

#[derive(Clone, Debug)]
enum End {
    Result(Box<ToolResult>),
    Error(Error),
    Cancelled,
}

impl Task {
    fn new(
        caller: &Caller,
        client: u64,
        principal: &[u8],
        ttl: Duration,
        is_wrapped: bool,
    ) -> Result<Arc<Self>, Error> {
        let session = match caller {
            Caller::Session(session) => Some((client, Arc::clone(session))),
            Caller::Request(_) => None,
        };
        let created = SystemTime::now();
        let (questions, elsewhere) = (BTreeMap::new(), Vec::new());
        let progress = Progress { updated: created, questions, elsewhere, end: None };
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

    /// The connection that questions go by; none if they wait to be fetched.
    pub(super) fn client(&self) -> Option<Arc<ClientConnection>> {
        self.session.as_ref()?.1.client.upgrade()
    }

    /// A question's parameters, saying which task asks (UTL-9).
    pub(super) fn related(&self, mut params: Value) -> Value {
        params["_meta"]["io.modelcontextprotocol/related-task"] = json!({"taskId": self.id});
        params
    }

    /// Puts a question where the client fetches it; false if there are too many,
    /// or one of that key.
    pub(super) fn ask(&self, ask: Ask, key: &str, question: Value) -> bool {
        let own = format!("q{}", ask.0);
        let key = if key.is_empty() { own.as_str() } else { key };
        self.change(|progress| {
            let questions = &mut progress.questions;
            let fits = questions.len() < MOST_QUESTIONS && !questions.contains_key(key);
            if fits {
                questions.insert(key.to_owned(), (ask, question));
            }
            fits
        })
    }

    /// A question was put over the connection.
    pub(super) fn asked(&self, ask: Ask) {
        self.change(|progress| {
            progress.elsewhere.push(ask);
            true
        });
    }

    /// A question is answered, or does not matter any more.
    pub(super) fn close_question(&self, ask: Ask) {
        self.change(|progress| {
            let before = progress.questions.len() + progress.elsewhere.len();
            progress.questions.retain(|_, (other, _)| *other != ask);
            progress.elsewhere.retain(|other| *other != ask);
            progress.questions.len() + progress.elsewhere.len() < before
        });
    }

    /// Makes a change, if there is one to make. Nothing changes once it is over.
    fn change(&self, change: impl FnOnce(&mut Progress) -> bool) -> bool {
        self.progress.send_if_modified(|progress| {
            let changed = progress.end.is_none() && change(progress);
            if changed {
                progress.updated = SystemTime::now();
            }
            changed
        })
    }

    fn end(&self, end: End) {
        self.change(|progress| {
            progress.questions.clear();
            progress.elsewhere.clear();
            progress.end = Some(end);
            true
        });
    }

    /// Ends it early; what it was doing is dropped.
    fn cancel(&self) {
        self.end(End::Cancelled);
        if let Some(state) = lock(&self.state).upgrade() {
            state.give_up();
        }
    }

    /// Waits until it is over.
    async fn over(&self) -> End {
        let mut watching = self.progress.subscribe();
        let over = watching.wait_for(|progress| progress.end.is_some()).await;
        over.ok().and_then(|progress| progress.end.clone()).unwrap_or(End::Cancelled)
    }

    /// The task as the era shows it, without what it came to.
    fn to_json(&self, era: Era) -> Value {
        let progress = self.progress.borrow();
        let status = match &progress.end {
            None if progress.questions.is_empty() && progress.elsewhere.is_empty() => "working",
            None => "input_required",
            // A tool that failed has failed for one era, and has ended for the other (TASK-3).
            Some(End::Result(result)) if result.is_error() && era == Era::Legacy => "failed",
            Some(End::Result(_)) => "completed",
            Some(End::Error(_)) => "failed",
            Some(End::Cancelled) => "cancelled",
        };
        let mut task = json!({
            "taskId": self.id,
            "status": status,
            "createdAt": moment::text(self.created),
            "lastUpdatedAt": moment::text(progress.updated),
        });
        if let Some(End::Error(error)) = &progress.end {
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
            Some(End::Result(result)) => task["result"] = result.to_json(),
            Some(End::Error(error)) => task["error"] = error.to_json(),
            Some(End::Cancelled) => {}
            None if progress.questions.is_empty() => {}
            None => {
                let questions = progress.questions.iter();
                let questions =
                    questions.map(|(key, (_, question))| (key.clone(), question.clone()));
                task["inputRequests"] = Value::Object(questions.collect());
            }
        }
        task
    }
}

/// The tasks that are remembered.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    by_id: Mutex<HashMap<String, Arc<Task>>>,
}

impl Tasks {
    /// Makes room if need be: first what is out of time, then what is over.
    fn add(&self, task: Arc<Task>) -> Result<(), Error> {
        let mut by_id = lock(&self.by_id);
        let moment = now();
        by_id.retain(|_, task| {
            let keep = task.expires > moment;
            if !keep {
                task.cancel();
            }
            keep
        });
        if by_id.len() >= MOST {
            let over = |task: &&Arc<Task>| task.progress.borrow().end.is_some();
            let oldest = by_id.values().filter(over).min_by_key(|task| task.created);
            let oldest = oldest.map(|task| task.id.clone());
            let oldest = oldest.ok_or_else(|| Error::internal("too many tasks are running"))?;
            by_id.remove(&oldest);
        }
        by_id.insert(task.id.clone(), task);
        Ok(())
    }

    /// The task of that id, if this caller may see it.
    fn find(&self, id: &str, caller: &Caller, principal: &[u8]) -> Option<Arc<Task>> {
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

    /// Whether a modern client can listen to it.
    pub(super) fn knows(&self, id: &str, client: &ClientConnection) -> bool {
        let principal = client.principal();
        let theirs = |task: &Arc<Task>| task.session.is_none() && *task.principal == *principal;
        lock(&self.by_id).get(id).is_some_and(theirs)
    }

    /// A client is gone, and with it the only one who could ask for its tasks.
    pub(super) fn forget(&self, client: u64) {
        let mut by_id = lock(&self.by_id);
        let theirs = |task: &mut Arc<Task>| task.session.as_ref().is_some_and(|of| of.0 == client);
        let gone: Vec<_> = by_id.extract_if(|_, task| theirs(task)).collect();
        drop(by_id);
        for (_, task) in gone {
            task.cancel();
        }
    }
}

#[cfg(test)]
mod tests;
