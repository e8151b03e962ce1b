//! What a call may do besides answering: report, log, ask, notice that it is unwanted.

use std::fmt;
use std::future::ready;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;
use switchboard_proto::revision::{Era, Revision};

use super::Server;
use super::server_tasks::{self, Task};
use super::session::{Caller, Level};
use super::tool::OutputCheck;
use crate::backend::PendingWork;
use crate::call::{Call, CallHolder, ReplySink as _};
use crate::connection::{ClientConnection, lock};
use crate::drive::{Either, Stop, race};

/// One call, towards the client that made it. Cheap to clone.
///
/// On the way to its answer a call may report ([`progress`](Self::progress)),
/// write to the client's log ([`log`](Self::log)), and ask: a person
/// ([`elicit`](Self::elicit), [`elicit_url`](Self::elicit_url)), the client's model
/// ([`sample`](Self::sample)), or where the client works ([`roots`](Self::roots)).
/// Whether a question is a request or a second round is the client's era, and
/// not the call's business.
#[derive(Clone)]
pub struct Context {
    pub(super) state: Arc<State>,
    /// What the tool that is called says of its results.
    pub(super) output_check: OutputCheck,
}

/// What is known of a call while it lasts.
pub(super) struct State {
    pub(super) server: Arc<Server>,
    pub(super) caller: Caller,
    /// What its client said the last time it came back with input.
    retry: Mutex<Option<Message>>,
    pub(super) channel: CallChannel,
    /// What progress goes by, as the client wrote it first.
    token: Option<Bytes>,
    /// How long a task for this call is to be remembered; none if its client takes none.
    pub(super) task_ttl: Option<Duration>,
    /// The last progress that was reported.
    reported: Mutex<f64>,
    /// Whether the answer depends on what the client was asked.
    pub(super) asked: AtomicBool,
    /// Said to the call.
    unwanted: Stop,
    /// Said to whoever runs it, after that.
    over: Stop,
}

impl State {
    fn new(server: Arc<Server>, caller: Caller, channel: CallChannel) -> Self {
        Self {
            server,
            caller,
            retry: Mutex::default(),
            channel,
            token: None,
            task_ttl: None,
            reported: Mutex::new(f64::NEG_INFINITY),
            asked: AtomicBool::new(false),
            unwanted: Stop::new(),
            over: Stop::new(),
        }
    }

    /// Who calls, as it says of itself at present.
    fn speaker(&self) -> Caller {
        match &*lock(&self.retry) {
            Some(retry) => Caller::Request(retry.clone()),
            None => self.caller.clone(),
        }
    }

    /// What progress goes by at present.
    fn token(&self) -> Option<Bytes> {
        match &*lock(&self.retry) {
            Some(retry) => progress_token(retry),
            None => self.token.clone(),
        }
    }

    /// Nobody wants the answer any more.
    pub(super) fn give_up(&self) {
        self.unwanted.say();
        self.over.say();
    }

    /// Does the work of the call, unless it is cancelled before it is done.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        match race(&mut work, self.over.said()).await {
            Either::Left(done) => (!self.unwanted.is_said()).then_some(done),
            Either::Right(()) => {
                // It was woken before we were: this time it notices.
                _ = race(&mut work, ready(())).await;
                None
            }
        }
    }
}

impl CallHolder for State {
    fn cancel(self: Arc<Self>, _: &Call, _: Option<&Message>) -> PendingWork {
        self.give_up();
        PendingWork::none()
    }

    /// The client is back, by another request, which speaks for itself (META-3).
    fn retry(self: Arc<Self>, _: &Call, request: &Message) -> PendingWork {
        *lock(&self.retry) = Some(request.clone());
        PendingWork::none()
    }

    fn abandon(&self) {
        self.give_up();
    }
}

/// Where a call's words go.
#[derive(Clone)]
pub(super) enum CallChannel {
    Call {
        client: Arc<ClientConnection>,
        exchange: Exchange,
    },
    /// The request is answered long since; this is what it left behind.
    Task(Arc<Task>),
}

impl Context {
    pub(super) fn new(
        server: Arc<Server>,
        caller: Caller,
        channel: CallChannel,
        request: &Message,
    ) -> Self {
        let task_ttl = match request.method() {
            method::CALL_TOOL => server_tasks::ttl(&caller, request),
            _ => None,
        };
        let state = State {
            token: progress_token(request),
            task_ttl,
            ..State::new(server, caller, channel)
        };
        Self { state: Arc::new(state), output_check: OutputCheck::default() }
    }

    /// The same call, of a tool that has promised something.
    pub(super) fn with_output_check(self, output_check: OutputCheck) -> Self {
        Self { output_check, ..self }
    }

    /// The same call, going on as a task.
    pub(super) fn as_task(&self, task: Arc<Task>) -> Self {
        let (server, caller) = (Arc::clone(&self.state.server), self.state.speaker());
        let state = State {
            token: self.state.token(),
            reported: Mutex::new(*lock(&self.state.reported)),
            ..State::new(server, caller, CallChannel::Task(task))
        };
        Self { state: Arc::new(state), output_check: self.output_check.clone() }
    }

    /// Reports how far the call has got.
    ///
    /// Said only if the client wants to hear it, and only if `progress` is more
    /// than the last time (PRG-1). A client that does not keep up misses some.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some(token) = self.state.token() else { return };
        let mut reported = lock(&self.state.reported);
        if !progress.is_finite() || progress <= *reported {
            return;
        }
        *reported = progress;
        drop(reported);
        let mut params = Map::new();
        params.insert("progress".to_owned(), number(progress));
        if let Some(total) = total.filter(|total| total.is_finite()) {
            params.insert("total".to_owned(), number(total));
        }
        if let Some(message) = message {
            params.insert("message".to_owned(), message.into());
        }
        let params = Value::Object(params).to_string();
        let message = Message::notification(method::PROGRESS, Some(params.as_bytes()));
        self.note(&message.with(Member::ProgressToken, token));
    }

    /// Sends a log record to the client, if it wants records of that level (LOG-1).
    pub fn log(&self, level: Level, logger: Option<&str>, data: impl Serialize) {
        let wanted = self.state.speaker().level().is_some_and(|least| level >= least);
        if !wanted || !self.server().logs() {
            return;
        }
        let Ok(data) = serde_json::to_value(data) else { return };
        let mut params = json!({"level": level.as_str(), "data": data});
        if let Some(logger) = logger {
            params["logger"] = logger.into();
        }
        let params = params.to_string();
        self.note(&Message::notification(method::LOG, Some(params.as_bytes())));
    }

    /// Any other notification about this call.
    pub(super) fn note(&self, message: &Message) {
        let (client, exchange) = match &self.state.channel {
            CallChannel::Call { client, exchange } => (Arc::clone(client), Some(*exchange)),
            CallChannel::Task(_) => match &self.state.caller {
                Caller::Session(session) => match session.client.upgrade() {
                    Some(client) => (client, None),
                    None => return,
                },
                // A modern task is polled; nothing is said about it unasked (TASK-7).
                Caller::Request(_) => return,
            },
        };
        // What is said on the way can be missed; kept for ever it cannot.
        if !client.is_slow() {
            client.note(exchange, message);
        }
    }

    /// Ends the HTTP connection that the answer would go by, for a call that
    /// takes long: the client comes back for it after a moment. Only clients of
    /// 2025-11-25 can do that; for others this does nothing (HTTP-11).
    pub fn hang_up(&self) {
        if let CallChannel::Call { client, exchange } = &self.state.channel {
            client.hang_up(*exchange);
        }
    }

    /// Waits until the client does not want the answer any more. The call is
    /// dropped right after: this is the chance to clean up without awaiting.
    pub async fn cancelled(&self) {
        self.state.unwanted.said().await;
    }

    /// What the client calls itself (`name`, `version`, ...). Never to be trusted (MOD-7).
    pub fn client_info(&self) -> Option<Value> {
        self.state.speaker().client()
    }

    /// What the client can do, as it declared it.
    pub fn client_capabilities(&self) -> Value {
        self.state.speaker().capabilities()
    }

    /// The client's settings of an extension; none if it does not have it, and
    /// then nothing of it may be used (EXT-1).
    pub fn extension(&self, id: &str) -> Option<Value> {
        let declared = self.client_capabilities();
        Some(declared["extensions"][id].clone()).filter(Value::is_object)
    }

    /// The era that the client speaks.
    pub fn era(&self) -> Era {
        self.state.caller.era()
    }

    /// The revision that the client speaks.
    pub fn revision(&self) -> Revision {
        self.state.caller.revision()
    }

    /// The server that the call was made to: to change its lists, for example.
    pub fn server(&self) -> &Arc<Server> {
        &self.state.server
    }
}

fn progress_token(request: &Message) -> Option<Bytes> {
    request.get(Member::MetaProgressToken).map(Bytes::copy_from_slice)
}

/// A number as people write it: `50`, not `50.0`.
fn number(value: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "whole, and within 53 bits")]
    if value.fract() == 0.0 && value.abs() < 9e15 { (value as i64).into() } else { value.into() }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("revision", &self.revision()).finish_non_exhaustive()
    }
}
