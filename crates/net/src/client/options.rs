//! What a user of the client may want to be different.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use switchboard_proto::failure::Failure;
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::revision::Era;
use switchboard_proto::types::Unfit;

use super::cache::ResponseCache;

/// Called with what happened; must not block.
pub type Callback<T> = Arc<dyn Fn(T) + Send + Sync>;

/// Something that a server says of its own accord.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// Its method.
    pub method: String,
    /// Its parameters; null if it has none.
    pub params: Value,
}

/// How far a call has got.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Grows with each report.
    pub progress: f64,
    /// What it grows to, if that is known.
    pub total: Option<f64>,
    /// In words.
    pub message: Option<String>,
}

/// Which era a server turned out to speak, for the next connection to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Remembered {
    /// The era.
    pub era: Era,
    /// From here on it is to be asked again: servers are updated (NEG-9).
    pub until: Instant,
}

/// How to connect, and whom to tell: begins with [`Client::builder`](super::Client::builder),
/// ends with [`connect`](Self::connect) or [`spawn`](Self::spawn).
///
/// Each `on_` method that answers a question also declares to the server that
/// it may be asked.
///
/// ```
/// use serde_json::json;
/// use std::time::Duration;
/// use switchboard_net::client::{ClientOptions, Declined};
///
/// let options = ClientOptions::default()
///     .timeout(Duration::from_secs(5))
///     .on_roots(async |_| Ok(json!({"roots": [{"uri": "file:///project"}]})))
///     .on_elicitation(async |form| match form["message"].as_str() {
///         Some("Are you sure?") => Ok(json!({"action": "accept", "content": {"sure": true}})),
///         _ => Err(Declined("nobody is here".to_owned())),
///     })
///     .on_notification(|note| assert!(note.method.starts_with("notifications/")));
/// ```
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct ClientOptions {
    /// Who we say we are.
    pub name: String,
    /// Our version.
    pub version: String,
    /// The era to speak; by default the server is asked.
    pub era: Option<Era>,
    /// What an earlier connection learned ([`super::Client::remembered`]).
    pub remembered: Option<Remembered>,
    /// How long a child may think about the question which era it speaks: a
    /// legacy one may never answer (NEG-8).
    pub probe_timeout: Duration,
    /// How long a call may go without an answer or progress.
    pub timeout: Duration,
    /// How long a call may take in all.
    pub total: Duration,
    /// From which level on the server is to send log records.
    pub log_level: Option<String>,
    /// Capabilities beyond those that follow from who answers questions.
    pub capabilities: Map<String, Value>,
    /// Where results are kept that modern servers allow to be kept; none keeps
    /// nothing. Clients that share one ask less often.
    pub cache: Option<ResponseCache>,
    /// The bounds of the core.
    pub limits: Arc<Limits>,
    /// Whom to tell and to ask; set with the `on_` methods.
    pub callbacks: Callbacks,
}

/// Who is told what the server says, and answers what it asks.
#[derive(Clone, Default)]
pub struct Callbacks {
    pub(super) answers: Answers,
    pub(crate) on_notification: Option<Callback<Notification>>,
    pub(crate) on_close: Option<Callback<()>>,
    pub(crate) on_error: Option<Callback<Failure>>,
    /// Told before the user's callbacks.
    pub(crate) watcher: Option<Arc<dyn ConnectionWatcher>>,
}

/// Told what becomes of the connection of a client, where we made the client ourselves.
pub(crate) trait ConnectionWatcher: Send + Sync {
    /// The server sent a notification of this method.
    fn handle_note(&self, method: &str);
    /// The connection is gone; why, if it broke.
    fn handle_close(&self, why: Option<&Failure>);
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answers = self.answers.capabilities(Era::Modern, &Map::new());
        f.debug_struct("Callbacks").field("answers", &answers).finish_non_exhaustive()
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            name: "switchboard".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            era: None,
            remembered: None,
            probe_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
            total: Duration::from_mins(10),
            log_level: None,
            capabilities: Map::new(),
            cache: None,
            limits: Arc::default(),
            callbacks: Callbacks::default(),
        }
    }
}

setters! {
    ClientOptions {
        name: impl Into<String>,
        version: impl Into<String>,
        era: impl Into<Option<Era>>,
        remembered: impl Into<Option<Remembered>>,
        probe_timeout: Duration,
        timeout: Duration,
        total: Duration,
        capabilities: Map<String, Value>,
        cache: impl Into<Option<ResponseCache>>,
        limits: impl Into<Arc<Limits>>,
    }
}

impl ClientOptions {
    /// Sets [`log_level`](field@Self::log_level).
    pub fn log_level(mut self, level: impl Into<String>) -> Self {
        self.log_level = Some(level.into());
        self
    }

    /// Fills in forms that the server shows; gives `{action, content?}`.
    pub fn on_elicitation<A: Answering>(mut self, answer: impl AnswerWith<A>) -> Self {
        self.callbacks.answers.form = Some(boxed(answer));
        self
    }

    /// Sends the user to URLs that the server names; gives `{action}`.
    pub fn on_url_elicitation<A: Answering>(mut self, answer: impl AnswerWith<A>) -> Self {
        self.callbacks.answers.url = Some(boxed(answer));
        self
    }

    /// Asks a model for the server, which gives it no tools.
    pub fn on_sampling<A: Answering>(mut self, answer: impl AnswerWith<A>) -> Self {
        self.callbacks.answers.sampling = Some(boxed(answer));
        self.callbacks.answers.sampling_tools = false;
        self
    }

    /// Asks a model for the server, which may give it tools.
    pub fn on_sampling_with_tools<A: Answering>(mut self, answer: impl AnswerWith<A>) -> Self {
        self = self.on_sampling(answer);
        self.callbacks.answers.sampling_tools = true;
        self
    }

    /// Says where the server may look; gives `{roots}`.
    pub fn on_roots<A: Answering>(mut self, answer: impl AnswerWith<A>) -> Self {
        self.callbacks.answers.roots = Some(boxed(answer));
        self
    }

    /// Told what the server says of its own accord, progress excepted.
    pub fn on_notification(mut self, told: impl Fn(Notification) + Send + Sync + 'static) -> Self {
        self.callbacks.on_notification = Some(Arc::new(told));
        self
    }

    /// Told when the connection is gone, by us or by the server.
    pub fn on_close(mut self, told: impl Fn() + Send + Sync + 'static) -> Self {
        self.callbacks.on_close = Some(Arc::new(move |()| told()));
        self
    }

    /// Told why a connection broke.
    pub fn on_error(mut self, told: impl Fn(Failure) + Send + Sync + 'static) -> Self {
        self.callbacks.on_error = Some(Arc::new(told));
        self
    }

    pub(super) fn whoami(&self) -> Value {
        json!({"name": self.name, "version": self.version})
    }

    /// What we say we can do.
    pub(super) fn declared(&self, era: Era) -> Value {
        self.callbacks.answers.capabilities(era, &self.capabilities)
    }
}

/// What is different about one call.
#[derive(Clone, Default)]
#[must_use]
#[non_exhaustive]
pub struct CallOptions {
    /// How long it may go without an answer or progress.
    pub timeout: Option<Duration>,
    /// How long it may take in all.
    pub total: Option<Duration>,
    /// More members of `_meta`.
    pub meta: Map<String, Value>,
    /// Extensions that this call declares to a modern server, beside those in
    /// [`ClientOptions::capabilities`].
    pub extensions: Map<String, Value>,
    /// Told how far it has got.
    pub on_progress: Option<Callback<Progress>>,
}

setters! {
    CallOptions {
        timeout: impl Into<Option<Duration>>,
        total: impl Into<Option<Duration>>,
        meta: Map<String, Value>,
        extensions: Map<String, Value>,
    }
}

impl CallOptions {
    /// Told how far the call has got.
    pub fn on_progress(mut self, told: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(told));
        self
    }
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Why a question has no answer: the user does not want to, or it failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Declined(pub String);

/// An answer that cannot be given, such as content of a form that is no object.
impl From<Unfit> for Declined {
    fn from(unfit: Unfit) -> Self {
        Self(unfit.to_string())
    }
}

/// An answer on its way.
pub trait Answering: Future<Output = Result<Value, Declined>> + Send + 'static {}

impl<A: Future<Output = Result<Value, Declined>> + Send + 'static> Answering for A {}

/// An async function that answers a question, given its parameters.
pub trait AnswerWith<A: Answering>: Fn(Value) -> A + Send + Sync + 'static {}

impl<A: Answering, F: Fn(Value) -> A + Send + Sync + 'static> AnswerWith<A> for F {}

pub(super) type AnswerCallback = Arc<dyn Fn(Value) -> Pin<Box<dyn Answering>> + Send + Sync>;

/// The callbacks that answer a server's questions.
///
/// The same answers serve both eras: a legacy server sends requests, a modern
/// one names its questions in a result (MRTR-3). What we say we can do follows
/// from what there is an answer for.
#[derive(Clone, Default)]
pub(super) struct Answers {
    pub(super) form: Option<AnswerCallback>,
    pub(super) url: Option<AnswerCallback>,
    pub(super) sampling: Option<AnswerCallback>,
    pub(super) sampling_tools: bool,
    pub(super) roots: Option<AnswerCallback>,
}

/// A closure as an answer.
pub(super) fn boxed<A: Answering>(answer: impl AnswerWith<A>) -> AnswerCallback {
    Arc::new(move |params| Box::pin(answer(params)))
}

/// What a form says if everything is left as it stands: the defaults of its
/// fields, to begin with or to accept as they are.
pub fn form_defaults(params: &Value) -> Map<String, Value> {
    let fields = params["requestedSchema"]["properties"].as_object().into_iter().flatten();
    let given =
        fields.filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())));
    given.collect()
}

impl Answers {
    /// Who answers a question, if anybody does.
    pub(super) fn find(&self, method: &str, params: &Value) -> Option<AnswerCallback> {
        match method {
            method::ELICIT if params["mode"] == "url" => self.url.clone(),
            method::ELICIT => self.form.clone(),
            method::SAMPLE => self.sampling.clone(),
            method::ROOTS => self.roots.clone(),
            _ => None,
        }
    }

    /// Whether the method is known here, though not what was asked of it (UTL-7).
    pub(super) fn knows(&self, method: &str) -> bool {
        method == method::ELICIT && (self.form.is_some() || self.url.is_some())
    }

    /// What we can do, for the server to know.
    ///
    /// wire: META-5
    pub(super) fn capabilities(&self, era: Era, more: &Map<String, Value>) -> Value {
        let mut capabilities = more.clone();
        let modes = [("form", &self.form), ("url", &self.url)].into_iter();
        let modes = modes.filter(|(_, answer)| answer.is_some());
        let modes: Map<_, _> = modes.map(|(mode, _)| (mode.to_owned(), json!({}))).collect();
        if !modes.is_empty() {
            capabilities.insert("elicitation".to_owned(), modes.into());
        }
        if self.sampling.is_some() {
            let tools = if self.sampling_tools { json!({"tools": {}}) } else { json!({}) };
            capabilities.insert("sampling".to_owned(), tools);
        }
        if self.roots.is_some() {
            let changes = match era {
                Era::Legacy => json!({"listChanged": true}),
                Era::Modern => json!({}),
            };
            capabilities.insert("roots".to_owned(), changes);
        }
        capabilities.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: MRTR-14
    #[test]
    fn a_form_that_is_left_alone_says_its_defaults() {
        let properties = json!({"name": {"type": "string"}, "age": {"default": 30}});
        let params = json!({"requestedSchema": {"type": "object", "properties": properties}});
        assert_eq!(Value::from(form_defaults(&params)), json!({"age": 30}));
        assert!(form_defaults(&json!({"message": "no form"})).is_empty());
    }

    /// wire: META-5
    #[test]
    fn what_we_can_do_follows_from_who_answers() {
        let mut answers = Answers::default();
        let says = |answers: &Answers, era| answers.capabilities(era, &Map::new());
        assert_eq!(says(&answers, Era::Modern), json!({}));
        answers.form = Some(boxed(|_| async { Ok(json!({"action": "decline"})) }));
        answers.roots = Some(boxed(|_| async { Ok(json!({"roots": []})) }));
        assert_eq!(says(&answers, Era::Modern), json!({"elicitation": {"form": {}}, "roots": {}}));
        assert_eq!(says(&answers, Era::Legacy)["roots"], json!({"listChanged": true}));
        assert!(answers.find("elicitation/create", &json!({"mode": "url"})).is_none());
        assert!(answers.find("elicitation/create", &json!({})).is_some());
    }
}
