//! Questions to the client, in whatever form its era has for them.
//!
//! A legacy client gets a request, a modern one an `input_required` result and
//! calls again. The call that asks cannot tell the difference: it awaits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_proto::exchange::Ask;
use switchboard_proto::jsonrpc::{Id, Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::code;
use switchboard_proto::revision::Era;
use tokio::sync::oneshot;

use super::context::{CallChannel, Context};
use super::handler::Error;
use super::server_tasks::Task;
use super::session::Caller;
use super::tool::{Schema, complaints};
use crate::call::ReplySink as _;
use crate::connection::lock;

/// How long a person may think. The TypeScript SDK gives as much (GW-14).
const PATIENCE: Duration = Duration::from_mins(10);

/// Questions that all clients together may have open.
const MOST_OPEN: usize = 16_384;

/// What a person made of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Elicited {
    /// They answered; the content fits the form.
    Accept(Value),
    /// They said no.
    Decline,
    /// They dismissed it.
    Cancel,
}

impl Context {
    /// Asks a person to fill in a form; `schema` is an object of flat primitive
    /// properties (MRTR-14). Any other is an internal error, and nobody is asked;
    /// an answer that does not fit it is an error too, as no answer would be.
    pub async fn elicit(&self, message: &str, schema: Value) -> Result<Elicited, Error> {
        if let Some(why) = form_complaint(&schema) {
            return Err(Error::internal(why));
        }
        let params = json!({"message": message, "requestedSchema": schema});
        let answer = self.ask(method::ELICIT, params).await.map(Elicited::read)?;
        match &answer {
            Elicited::Accept(content) => check_form(&schema, content)?,
            Elicited::Decline | Elicited::Cancel => {}
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
        let (asked, answer) = OpenQuestion::open(self)?;
        if !asked.send(key, method, &params) {
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
}

impl Context {
    /// Whether the client can be asked this, by what it says of itself at present.
    fn check_asking(&self, method: &str, params: &Value) -> Result<(), Error> {
        match missing(&self.client_capabilities(), method, params) {
            Some(required) => Err(Error::missing_capability(&required, self.era())),
            None => Ok(()),
        }
    }

    /// The answer that a modern request brought unasked. Beside a state it belongs
    /// to that, and a state of ours has led to its call already (MRTR-7).
    fn answer_in_request(&self, key: &str) -> Option<Value> {
        let (CallChannel::Call { .. }, Caller::Request(request)) =
            (&self.state.channel, &self.state.caller)
        else {
            return None;
        };
        if key.is_empty() || request.has(Member::RequestState) {
            return None;
        }
        request.inside(Member::InputResponses, &[key])?.value().filter(Value::is_object)
    }
}

impl Elicited {
    pub(super) fn read(mut answer: Value) -> Self {
        match answer["action"].as_str() {
            Some("accept") => Self::Accept(answer["content"].take()),
            Some("decline") => Self::Decline,
            _ => Self::Cancel,
        }
    }
}

/// What the client should have declared to be asked this, if it has not (MRTR-4, META-5).
pub(super) fn missing(declared: &Value, method: &str, params: &Value) -> Option<Value> {
    let has = |path: &str| declared.pointer(path).is_some_and(Value::is_object);
    match method {
        method::ELICIT if params["mode"] == "url" => {
            (!has("/elicitation/url")).then(|| json!({"elicitation": {"url": {}}}))
        }
        method::ELICIT => {
            let implied = has("/elicitation") && !has("/elicitation/url");
            let form = has("/elicitation/form") || implied;
            (!form).then(|| json!({"elicitation": {"form": {}}}))
        }
        method::SAMPLE => {
            let tools = !params["tools"].is_null() || !params["toolChoice"].is_null();
            let able = has("/sampling") && (!tools || has("/sampling/tools"));
            let required = if tools { json!({"tools": {}}) } else { json!({}) };
            (!able).then(|| json!({"sampling": required}))
        }
        method::ROOTS => (!has("/roots")).then(|| json!({"roots": {}})),
        _ => None,
    }
}

/// The questions that wait for an answer.
#[derive(Debug, Default)]
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
        let asks = &cx.state.server.asks;
        let ask = Ask(asks.next.fetch_add(1, Ordering::Relaxed) + 1);
        let (send, receive) = oneshot::channel();
        let mut open = lock(&asks.open);
        if open.len() >= MOST_OPEN {
            return Err(Error::internal("too many questions are open"));
        }
        open.insert(ask, send);
        Ok((Self { cx, ask }, receive))
    }

    fn send(&self, key: &str, method: &str, params: &Value) -> bool {
        // A half makes a key of an id that is text; legacy clients see none of it.
        let id = if key.is_empty() { Id::from(self.ask.0) } else { Id::Text(key.into()) };
        let request = |params: &Value| {
            let params = params.to_string();
            Message::request(&id, method, Some(params.as_bytes()))
        };
        match &self.cx.state.channel {
            CallChannel::Call { client, exchange } => {
                client.introduce(&self.cx.server().identity.text);
                client.put_question(Some(*exchange), None, self.ask, &request(params))
            }
            CallChannel::Task(task) => match task.client() {
                Some(client) => {
                    task.asked(self.ask);
                    client.put_question(
                        None,
                        None,
                        self.ask,
                        &request(&task.related(params.clone())),
                    )
                }
                None => task.ask(self.ask, key, json!({"method": method, "params": params})),
            },
        }
    }

    fn task(&self) -> Option<&Arc<Task>> {
        match &self.cx.state.channel {
            CallChannel::Task(task) => Some(task),
            CallChannel::Call { .. } => None,
        }
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if let Some(task) = self.task() {
            task.close_question(self.ask);
        }
        let waited = lock(&self.cx.state.server.asks.open).remove(&self.ask).is_some();
        if !waited {
            return;
        }
        let note = Message::notification(method::CANCELLED, Some(b"{}"));
        match &self.cx.state.channel {
            CallChannel::Call { client, .. } => client.recall(self.ask, &note),
            CallChannel::Task(task) => {
                if let Some(client) = task.client() {
                    client.recall(self.ask, &note);
                }
            }
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
        Ok(Self { id: crate::server::random_id()?, message, url })
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

impl Context {
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
        if missing(&session.capabilities, method::ELICIT, &asked).is_some() {
            return;
        }
        let params = json!({"elicitationId": page.id}).to_string();
        let note = Message::notification(method::ELICITED, Some(params.as_bytes()));
        let Some(client) = session.client.upgrade().filter(|client| !client.is_slow()) else {
            return;
        };
        match &self.state.channel {
            CallChannel::Call { exchange, .. } => client.note(Some(*exchange), &note),
            CallChannel::Task(_) => client.note(None, &note),
        }
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

/// Whether an answer fits the form; which member does not, and why.
pub(super) fn check_form(schema: &Value, content: &Value) -> Result<(), Error> {
    let form = Schema { text: schema.to_string() };
    let validator = form.validator().map_err(Error::internal)?;
    match complaints(&validator, content) {
        Some(why) => Err(Error::invalid_params(format!("the answer does not fit the form: {why}"))),
        None => Ok(()),
    }
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
