//! What a call may do besides answering: report, log, ask, notice that it is unwanted.
//!
//! A question to a legacy client is a request; a modern one gets an `input_required` result
//! and calls again. The call that asks cannot tell the difference: it awaits.

use std::collections::HashMap;
use std::fmt;
use std::future::ready;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use switchboard_proto::exchange::{Ask, Exchange};
use switchboard_proto::jsonrpc::{Id, Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::code;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::types::Level;
use tokio::sync::oneshot;

use super::handler::Error;
use super::schema::SchemaCheck;
use super::server_tasks::{self, ServerTask};
use super::session::Caller;
use super::tool::Tool;
use super::{Server, notification};
use crate::backend::PendingWork;
use crate::call::{Asker, Call, CallHolder, ReplySink as _};
use crate::connection::{ClientConnection, lock};
use crate::drive::{Either, Stop, race};
use crate::who::Who;

/// How long a person may think. The TypeScript SDK gives as much (GW-14).
const PATIENCE: Duration = Duration::from_mins(10);

/// Questions that all clients together may have open.
const MOST_OPEN: usize = 16_384;

/// One call, towards the client that made it. Cheap to clone.
///
/// On the way to its answer a call may report ([`progress`](Self::progress)),
/// write to the client's log ([`log`](Self::log)), and ask: a person
/// ([`elicit`](Self::elicit), [`elicit_url`](Self::elicit_url)), the client's model
/// ([`sample`](Self::sample)), or where the client works ([`roots`](Self::roots)).
/// Whether a question is a request or a second round is the client's era, and
/// not the call's business. Questions and answers are JSON; [`typed`](Self::typed) has the
/// same with types.
#[derive(Clone)]
pub struct Context {
    pub(super) state: Arc<CallInHand>,
    /// The tool that is called, if it is one.
    pub(super) tool: Option<Arc<Tool>>,
}

/// What is known of a call while it lasts.
pub(super) struct CallInHand {
    pub(super) server: Arc<Server>,
    pub(super) caller: Caller,
    /// Who was let in.
    who: Who,
    /// Who calls, as it says of itself at present, and what progress goes by. Both are
    /// others when the client comes back with input.
    speaker: Mutex<(Caller, Option<Bytes>)>,
    pub(super) channel: CallChannel,
    /// How long a task for this call is to be remembered; none if its client takes none.
    pub(super) task_ttl: Option<Duration>,
    /// The last progress that was reported.
    reported: Mutex<f64>,
    /// Whether the answer depends on what the client was asked.
    pub(super) asked: AtomicBool,
    /// Said to the call.
    unwanted: Stop,
    /// Said to what runs it, after that.
    over: Stop,
}

impl CallInHand {
    fn new(server: Arc<Server>, speaker: (Caller, Option<Bytes>), channel: CallChannel) -> Self {
        let who = match &channel {
            CallChannel::Call { client, .. } => client.who().clone(),
            CallChannel::Task(_) => Who::default(),
        };
        Self {
            server,
            caller: speaker.0.clone(),
            who,
            speaker: Mutex::new(speaker),
            channel,
            task_ttl: None,
            reported: Mutex::new(f64::NEG_INFINITY),
            asked: AtomicBool::new(false),
            unwanted: Stop::new(),
            over: Stop::new(),
        }
    }

    /// Who calls, as it says of itself at present, and what progress goes by.
    fn speaker(&self) -> (Caller, Option<Bytes>) {
        lock(&self.speaker).clone()
    }

    /// The connection that its words go by, and the call that they belong to there. None for
    /// a modern task, which is polled: nothing is said about it unasked (TASK-7).
    fn client(&self) -> Option<(Arc<ClientConnection>, Option<Exchange>)> {
        match (&self.channel, &self.caller) {
            (CallChannel::Call { client, exchange }, _) => {
                Some((Arc::clone(client), Some(*exchange)))
            }
            (CallChannel::Task(_), Caller::Session(session)) => {
                Some((session.client.upgrade()?, None))
            }
            (CallChannel::Task(_), Caller::Request(_)) => None,
        }
    }

    /// On whose behalf the call is made.
    pub(super) fn principal(&self) -> &[u8] {
        match &self.channel {
            CallChannel::Call { client, .. } => client.principal(),
            CallChannel::Task(task) => &task.principal,
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

impl CallHolder for CallInHand {
    fn cancel(self: Arc<Self>, _: &Call, _: Option<&Message>) -> PendingWork {
        self.give_up();
        PendingWork::none()
    }

    /// The client is back, by another request, which speaks for itself (META-3).
    fn retry(self: Arc<Self>, _: &Call, request: &Message) -> PendingWork {
        *lock(&self.speaker) = (Caller::Request(request.clone()), progress_token(request));
        PendingWork::none()
    }

    fn abandon(&self) {
        self.give_up();
    }
}

/// Where a call's words go.
pub(super) enum CallChannel {
    Call {
        client: Arc<ClientConnection>,
        exchange: Exchange,
    },
    /// The request is answered long since; this is what it left behind.
    Task(Arc<ServerTask>),
}

impl Context {
    pub(super) fn new(
        server: Arc<Server>,
        caller: Caller,
        channel: CallChannel,
        request: &Message,
    ) -> Self {
        let mut state = CallInHand::new(server, (caller, progress_token(request)), channel);
        if request.method() == method::CALL_TOOL {
            state.task_ttl = server_tasks::ttl(&state.caller, request);
        }
        Self { state: Arc::new(state), tool: None }
    }

    /// The same call, going on as a task.
    pub(super) fn as_task(&self, task: Arc<ServerTask>) -> Self {
        let (server, channel) = (Arc::clone(&self.state.server), CallChannel::Task(task));
        let mut state = CallInHand::new(server, self.state.speaker(), channel);
        state.reported = Mutex::new(*lock(&self.state.reported));
        state.who = self.state.who.clone();
        Self { state: Arc::new(state), tool: self.tool.clone() }
    }

    /// Reports how far the call has got.
    ///
    /// Said only if the client wants to hear it, and only if `progress` is more
    /// than the last time (PRG-1). A client that does not keep up misses some.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some(token) = self.state.speaker().1 else { return };
        let mut reported = lock(&self.state.reported);
        if !progress.is_finite() || progress <= *reported {
            return;
        }
        *reported = progress;
        drop(reported);
        let mut params = json!({"progress": number(progress)});
        if let Some(total) = total.filter(|total| total.is_finite()) {
            params["total"] = number(total);
        }
        if let Some(message) = message {
            params["message"] = message.into();
        }
        let message = notification(method::PROGRESS, &params);
        self.note(&message.with(Member::ProgressToken, token));
    }

    /// Sends a log record to the client, if it wants records of that level (LOG-1).
    pub fn log(&self, level: Level, logger: Option<&str>, data: impl Serialize) {
        let wanted = self.state.speaker().0.level().is_some_and(|least| level >= least);
        if !wanted || !self.server().logs() {
            return;
        }
        let Ok(data) = serde_json::to_value(data) else { return };
        let mut params = json!({"level": level.as_str(), "data": data});
        if let Some(logger) = logger {
            params["logger"] = logger.into();
        }
        self.note(&notification(method::LOG, &params));
    }

    /// Any other notification about this call. What is said on the way can be missed; kept
    /// for ever it cannot.
    fn note(&self, message: &Message) {
        if let Some((client, exchange)) = self.state.client()
            && !client.is_slow()
        {
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

    /// Who was let in, by the [`Authenticate`](crate::access::Authenticate) of the site that
    /// the call came by; nobody in particular where nobody is asked.
    pub fn who(&self) -> &Who {
        &self.state.who
    }

    /// What the client calls itself (`name`, `version`, ...). Never to be trusted (MOD-7).
    pub fn client_info(&self) -> Option<Value> {
        self.state.speaker().0.client()
    }

    /// What the client can do, as it declared it.
    pub fn client_capabilities(&self) -> Value {
        self.state.speaker().0.capabilities()
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

    /// Asks a person to fill in a form; `schema` is an object of flat primitive
    /// properties (MRTR-14). Any other is an internal error, and nobody is asked;
    /// an answer that does not fit it is an error too, as no answer would be. Without the
    /// feature `validate` answers are not checked.
    pub async fn elicit(&self, message: &str, schema: Value) -> Result<Elicited, Error> {
        if let Some(why) = form_complaint(&schema) {
            return Err(Error::internal(why));
        }
        let params = json!({"message": message, "requestedSchema": schema});
        let answer = self.ask(method::ELICIT, params).await.map(Elicited::read)?;
        if let Elicited::Accept(content) = &answer {
            let form = SchemaCheck::new(&schema).map_err(Error::internal)?;
            if let Some(why) = form.complaints(content) {
                let why = format!("the answer does not fit the form: {why}");
                return Err(Error::invalid_params(why));
            }
        }
        Ok(answer)
    }

    /// Asks the client's model; `params` are those of `sampling/createMessage`.
    pub async fn sample(&self, params: Value) -> Result<Value, Error> {
        self.ask(method::SAMPLE, params).await
    }

    /// Asks where the client works: a list of `{uri, name?}`.
    pub async fn roots(&self) -> Result<Vec<Value>, Error> {
        match self.ask(method::ROOTS, json!({})).await?.get_mut("roots").map(Value::take) {
            Some(Value::Array(roots)) => Ok(roots),
            _ => Err(Error::internal("the client's answer has no roots")),
        }
    }

    /// Asks the client anything, and returns its result.
    pub async fn ask(&self, method: &str, params: Value) -> Result<Value, Error> {
        self.ask_as("", method, params).await
    }

    /// The same, under a name that a modern client gets to see as the key of
    /// the question. It must be unique within the call. A client that knows it
    /// may bring the answer with its request, and is not asked then.
    pub async fn ask_as(&self, key: &str, method: &str, params: Value) -> Result<Value, Error> {
        self.check_asking(method, &params)?;
        self.state.asked.store(true, Ordering::Relaxed);
        if let Some(answer) = self.answer_in_request(key) {
            return Ok(answer);
        }
        let (question, answer) = OpenQuestion::open(self)?;
        if !question.to_client(key, method, &params) {
            return Err(Error::internal(format!("this client cannot be asked for {method} now")));
        }
        let answer = match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => return Err(Error::internal("the client is gone")),
            Err(_) => return Err(Error::internal(format!("nobody answered {method} in time"))),
        };
        match Error::from_answer(&answer) {
            // It may have come back without being able any more.
            Some(error) => self.check_asking(method, &params).and(Err(error)),
            None => answer
                .payload_value()
                .ok_or_else(|| Error::internal(format!("the answer to {method} is no JSON"))),
        }
    }

    /// Whether the client can be asked this, by what it says of itself at present.
    fn check_asking(&self, method: &str, params: &Value) -> Result<(), Error> {
        let missing = missing(&self.client_capabilities(), method, params);
        missing.map_or(Ok(()), |it| Err(Error::missing_capability(&it, self.era())))
    }

    /// The answer that a modern request brought unasked. Beside a state it belongs
    /// to that, and a state of ours has led to its call already (MRTR-7).
    fn answer_in_request(&self, key: &str) -> Option<Value> {
        match (&self.state.channel, &self.state.caller) {
            (CallChannel::Call { .. }, Caller::Request(request))
                if !key.is_empty() && !request.has(Member::RequestState) =>
            {
                request.inside(Member::InputResponses, &[key])?.value().filter(Value::is_object)
            }
            _ => None,
        }
    }

    /// Asks a person to visit a page. Accepting means consent, not that they are done (MRTR-13).
    pub async fn elicit_url(&self, message: &str, url: &str) -> Result<Elicited, Error> {
        self.visit(&VisitPage::new(message, url)?).await
    }

    /// The same for a page that will say when it is done.
    pub async fn visit(&self, page: &VisitPage) -> Result<Elicited, Error> {
        self.ask(method::ELICIT, page.to_json(self.era())).await.map(Elicited::read)
    }

    /// Tells a legacy client that the person is done with a page, which may be
    /// long after the call (UTL-8). A modern one has no use for it.
    pub fn visited(&self, page: &VisitPage) {
        let Caller::Session(session) = &self.state.caller else { return };
        let asked = page.to_json(Era::Legacy);
        if missing(&session.capabilities, method::ELICIT, &asked).is_none() {
            self.note(&notification(method::ELICITED, &json!({"elicitationId": page.id})));
        }
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

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

/// What a person made of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Elicited<T = Value> {
    /// They answered; with the feature `validate` the content fits the form.
    Accept(T),
    /// They said no.
    Decline,
    /// They dismissed it.
    Cancel,
}

impl Elicited {
    fn read(mut answer: Value) -> Self {
        match answer["action"].as_str() {
            Some("accept") => Self::Accept(answer["content"].take()),
            Some("decline") => Self::Decline,
            _ => Self::Cancel,
        }
    }
}

/// What the client should have declared to be asked this, if it has not (MRTR-4, META-5).
fn missing(declared: &Value, method: &str, params: &Value) -> Option<Value> {
    let has = |path: &str| declared.pointer(path).is_some_and(Value::is_object);
    let wants_tools = !params["tools"].is_null() || !params["toolChoice"].is_null();
    let (is_able, required) = match method {
        method::ELICIT if params["mode"] == "url" => {
            (has("/elicitation/url"), json!({"elicitation": {"url": {}}}))
        }
        method::ELICIT => {
            let implied = has("/elicitation") && !has("/elicitation/url");
            (has("/elicitation/form") || implied, json!({"elicitation": {"form": {}}}))
        }
        method::SAMPLE if wants_tools => {
            (has("/sampling/tools"), json!({"sampling": {"tools": {}}}))
        }
        method::SAMPLE => (has("/sampling"), json!({"sampling": {}})),
        method::ROOTS => (has("/roots"), json!({"roots": {}})),
        _ => return None,
    };
    (!is_able).then_some(required)
}

/// The questions that wait for an answer.
#[derive(Default)]
pub(super) struct OpenQuestions {
    next: AtomicU64,
    open: Mutex<HashMap<Ask, oneshot::Sender<Message>>>,
}

impl OpenQuestions {
    /// An answer came.
    pub(super) fn supply(&self, ask: Ask, answer: Message) {
        let waiting = lock(&self.open).remove(&ask);
        if let Some(waiting) = waiting {
            // Nobody waits if the call ended in this moment.
            _ = waiting.send(answer);
        }
    }
}

/// A question that is taken back when nobody waits for its answer any more.
struct OpenQuestion<'a> {
    cx: &'a Context,
    ask: Ask,
}

impl<'a> OpenQuestion<'a> {
    fn open(cx: &'a Context) -> Result<(Self, oneshot::Receiver<Message>), Error> {
        let asks = &cx.state.server.questions;
        let ask = Ask(asks.next.fetch_add(1, Ordering::Relaxed) + 1);
        let (send, receive) = oneshot::channel();
        let mut open = lock(&asks.open);
        if open.len() >= MOST_OPEN {
            return Err(Error::internal("too many questions are open"));
        }
        open.insert(ask, send);
        Ok((Self { cx, ask }, receive))
    }

    fn to_client(&self, key: &str, method: &str, params: &Value) -> bool {
        // A half makes a key of an id that is text; legacy clients see none of it.
        let id = if key.is_empty() { Id::from(self.ask.0) } else { Id::Text(key.into()) };
        let request =
            |params: &Value| Message::request(&id, method, Some(params.to_string().as_bytes()));
        let state = &self.cx.state;
        // The server takes the answer itself.
        let asker = Weak::<NoAsker>::new();
        match (&state.channel, state.client()) {
            (CallChannel::Call { client, exchange }, _) => {
                client.introduce(&state.server.identity.text);
                Arc::clone(client).ask(Some(*exchange), asker, self.ask, &request(params))
            }
            (CallChannel::Task(task), Some((client, _))) => {
                task.ask(self.ask, key, None);
                let request = request(&task.related(params.clone()));
                client.ask(None, asker, self.ask, &request)
            }
            (CallChannel::Task(task), None) => {
                task.ask(self.ask, key, Some(json!({"method": method, "params": params})))
            }
        }
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        let state = &self.cx.state;
        if let CallChannel::Task(task) = &state.channel {
            task.close_question(self.ask);
        }
        let waited = lock(&state.server.questions.open).remove(&self.ask).is_some();
        if let (true, Some((client, _))) = (waited, state.client()) {
            let note = Message::notification(method::CANCELLED, Some(b"{}"));
            client.recall(self.ask, &note);
        }
    }
}

/// A page, and what it is known by until it has been visited.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VisitPage {
    id: String,
    message: String,
    url: String,
}

impl VisitPage {
    /// A page at `url`; `message` says to the person what for.
    pub fn new(message: &str, url: &str) -> Result<Self, Error> {
        let (message, url) = (message.to_owned(), url.to_owned());
        Ok(Self { id: super::random_id()?, message, url })
    }

    /// What tells it from others: for the page itself, so that it can say when it is done.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// As a legacy client sees it; for a modern one the retry tells, not the id (MRTR-13).
    fn to_json(&self, era: Era) -> Value {
        let mut params = json!({"mode": "url", "message": self.message, "url": self.url});
        if era == Era::Legacy {
            params["elicitationId"] = self.id.as_str().into();
        }
        params
    }
}

impl Error {
    /// The call can be made only after these pages have been visited. Clients of
    /// the last legacy revision know what that means (UTL-8); ask others by [`Context::visit`].
    pub fn visit_first(pages: &[VisitPage]) -> Self {
        let pages: Vec<_> = pages.iter().map(|page| page.to_json(Era::Legacy)).collect();
        let message = "this call needs pages to be visited first";
        Self::new(code::VISIT_FIRST, message).with_data(json!({"elicitations": pages}))
    }
}

/// Formats of strings in forms that clients know.
const FORMATS: [&str; 4] = ["date", "date-time", "email", "uri"];

/// What is wrong with a form, if anything. A form is an object of flat properties,
/// each a string, a number, a boolean, or a choice (MRTR-14). Clients draw nothing else.
pub(super) fn form_complaint(schema: &Value) -> Option<String> {
    if schema["type"] != "object" {
        return Some("a form must have \"type\": \"object\"".to_owned());
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let wrong = properties.into_iter().flatten().find_map(|(name, property)| {
        unfit(property).map(|why| format!("property {name:?} of a form {why}"))
    });
    wrong.or_else(|| {
        let required = schema["required"].as_array().into_iter().flatten();
        let mut names = required.filter_map(Value::as_str);
        let known = |name: &str| properties.is_some_and(|all| all.contains_key(name));
        let unknown = names.find(|name| !known(name))?;
        Some(format!("a form requires {unknown:?}, which is none of its properties"))
    })
}

fn unfit(property: &Value) -> Option<&'static str> {
    match property["type"].as_str() {
        Some("string") => {
            let format = property.get("format").map(|format| format.as_str().unwrap_or_default());
            let known = format.is_none_or(|format| FORMATS.contains(&format));
            (!known).then_some("has a format that no client knows")
        }
        Some("boolean" | "integer" | "number") => None,
        Some("array") => {
            let items = &property["items"];
            let choice = items["enum"].is_array() || items["anyOf"].is_array();
            (!choice).then_some("is an array, but no choice from a list")
        }
        _ => Some("is neither a string, a number, a boolean nor a choice"),
    }
}

/// Stands where a server would that hears the answer itself; there is none.
enum NoAsker {}

impl Asker for NoAsker {
    fn supply(self: Arc<Self>, _: Ask, _: &Message) -> PendingWork {
        match *self {}
    }

    fn progress(self: Arc<Self>, _: Message) -> PendingWork {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// wire: MRTR-14
    #[test]
    fn forms_are_flat() {
        let titled = json!([{"const": "a", "title": "A"}]);
        let fit = [
            json!({"type": "string"}),
            json!({"type": "string", "format": "email", "minLength": 1, "default": "x"}),
            json!({"type": "string", "enum": ["a"], "enumNames": ["A"]}),
            json!({"type": "string", "oneOf": titled}),
            json!({"type": "integer", "minimum": 0}),
            json!({"type": "number"}),
            json!({"type": "boolean", "default": true}),
            json!({"type": "array", "items": {"type": "string", "enum": ["a"]}}),
            json!({"type": "array", "items": {"anyOf": titled}}),
        ];
        for property in fit {
            let form = json!({"type": "object", "properties": {"x": property}, "required": ["x"]});
            assert_eq!(form_complaint(&form), None, "{form}");
        }
        let unfit = [
            json!({}),
            json!({"type": "object", "properties": {}}),
            json!({"type": "null"}),
            json!({"type": ["string", "null"]}),
            json!({"type": "string", "format": "ipv4"}),
            json!({"type": "array", "items": {"type": "string"}}),
        ];
        for property in unfit {
            let form = json!({"type": "object", "properties": {"x": property}});
            assert!(form_complaint(&form).unwrap().contains("\"x\""), "{form}");
        }
        assert_eq!(form_complaint(&json!({"type": "object"})), None);
        assert!(form_complaint(&json!({"type": "string"})).is_some());
        let lost = json!({"type": "object", "properties": {}, "required": ["y"]});
        assert!(form_complaint(&lost).unwrap().contains("\"y\""));
    }
}
