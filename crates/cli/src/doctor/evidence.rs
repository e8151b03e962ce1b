//! What was said and seen on a visit.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, HeaderName, header};
use serde_json::Value;
use switchboard_net::auth::Discovery;
use switchboard_net::http::fetch::FetchError;
use switchboard_net::roster::ListKind;
use switchboard_proto::auth::Challenge;
use switchboard_proto::revision::Era;

/// Everything that a check may look at.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// What to call the server: nothing secret.
    pub(crate) target: String,
    /// What the user called it, for other commands.
    pub(crate) called: String,
    /// The era to speak; none asks the server.
    pub(crate) wanted_era: Option<Era>,
    /// How long one answer may take.
    pub(crate) patience: Duration,
    pub(crate) transport: Option<VisitedTransport>,
    pub(crate) era: Option<Era>,
    pub(crate) revision: Option<String>,
    /// The result of `initialize` or `server/discover`.
    pub(crate) welcome: Value,
    /// What took time, and how much.
    pub(crate) steps: Vec<(String, Duration)>,
    pub(crate) requests: Vec<RecordedRequest>,
    pub(crate) lists: Vec<ListReading>,
    /// What each trial came to, or why no response came.
    pub(crate) trials: Vec<(Trial, Result<Facts, String>)>,
    /// Why the visit ended before it began: a command that did not start, or no connection.
    pub(crate) unreached: Option<RequestResult>,
    pub(crate) heard: Heard,
    /// What came instead of the event stream of 2024-11-05, where one was wanted.
    pub(crate) no_stream: Option<RequestResult>,
    /// A child that did not end with its stdin.
    pub(crate) outstayed: bool,
    /// Other paths of the same host that answer like a server.
    pub(crate) siblings: Vec<String>,
    /// Where the host sent us, and we went.
    pub(crate) moved: Option<String>,
    /// How somebody would sign in, where that is wanted.
    pub(crate) sign_in: Option<SignInEvidence>,
    /// Whether a token was shown.
    pub(crate) showed_token: bool,
    /// Whether anybody could have been in the server's place: its certificate was not verified.
    pub(crate) is_insecure: bool,
}

/// What a server that wants a token says about how to get one.
#[derive(Debug)]
pub(crate) struct SignInEvidence {
    /// The request that it refused.
    pub(crate) refused: String,
    pub(crate) challenge: Option<Challenge>,
    /// What its challenges say, as they are.
    pub(crate) challenges: Vec<String>,
    pub(crate) discovery: Discovery,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum VisitedTransport {
    Stdio,
    Http,
    Sse,
}

impl VisitedTransport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "Streamable HTTP",
            Self::Sse => "HTTP+SSE",
        }
    }
}

/// A request and what came of it.
#[derive(Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) outcome: RequestResult,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(crate) enum RequestResult {
    /// A JSON-RPC response, whole; with the HTTP response it came by.
    Answer { message: Value, http: Option<Facts> },
    /// An HTTP response that holds no JSON-RPC response.
    Http(Facts),
    /// Nothing in time.
    Silence,
    /// The server went away; its last words.
    Gone { text: String },
    /// No HTTP response.
    Lost(FetchError),
}

impl RequestResult {
    pub(crate) fn message(&self) -> Option<&Value> {
        if let Self::Answer { message, .. } = self { Some(message) } else { None }
    }

    pub(crate) fn result(&self) -> Option<&Value> {
        self.message()?.get("result")
    }

    pub(crate) fn error(&self) -> Option<&Value> {
        self.message()?.get("error")
    }

    pub(crate) fn facts(&self) -> Option<&Facts> {
        match self {
            Self::Answer { http, .. } => http.as_ref(),
            Self::Http(facts) => Some(facts),
            _ => None,
        }
    }
}

/// What an HTTP response says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// How its body begins.
    pub(crate) body: String,
}

impl Facts {
    /// A header as text.
    pub(crate) fn header(&self, name: HeaderName) -> Option<Cow<'_, str>> {
        Some(String::from_utf8_lossy(self.headers.get(name)?.as_bytes()))
    }

    /// What it says that it is, or `none`.
    pub(crate) fn kind_or<'a>(&'a self, none: &'a str) -> Cow<'a, str> {
        let kind = self.header(header::CONTENT_TYPE).filter(|kind| !kind.is_empty());
        kind.unwrap_or(Cow::Borrowed(none))
    }

    /// The media type without its parameters, in lower case.
    pub(crate) fn media_type(&self) -> String {
        self.kind_or("").split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.media_type() == "text/event-stream"
    }

    pub(crate) fn is_html(&self) -> bool {
        let body = self.body.trim_start().to_ascii_lowercase();
        self.media_type() == "text/html"
            || body.starts_with("<!doctype")
            || body.starts_with("<html")
    }
}

/// One list of the server, as far as it went.
#[derive(Debug)]
pub(crate) struct ListReading {
    pub(crate) kind: ListKind,
    /// Whether the server declares the capability for it.
    pub(crate) announced: bool,
    pub(crate) pages: Vec<RequestResult>,
    pub(crate) end: ListEnd,
}

impl ListReading {
    /// What is in it, for people.
    pub(crate) fn words(&self) -> &'static str {
        if self.kind == ListKind::Templates { "templates" } else { self.kind.capability() }
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &Value> {
        let results = self.pages.iter().filter_map(RequestResult::result);
        results.flat_map(|page| page[self.kind.member().key()].as_array().into_iter().flatten())
    }
}

/// How a list ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ListEnd {
    /// The last page has no cursor.
    Whole,
    /// A page is no page.
    Broken,
    /// A cursor came again.
    Loop,
    /// More pages than we wanted to see.
    Endless,
}

/// Requests that show how a server treats what is unusual.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Trial {
    /// The end of the handshake.
    Initialized,
    /// A GET for a listening stream.
    Listen,
    /// A call without the session that was given out.
    NoSession,
    /// A call with a session id that the server did not issue.
    StrangeSession,
    /// The end of the session.
    Delete,
}

/// What came besides answers. Bounded: the first few are enough.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// What is no message.
    pub(crate) strays: Vec<String>,
    /// The method of the first request that the server made.
    pub(crate) asked: Option<String>,
    /// The id of the first answer to nothing we asked.
    pub(crate) unasked: Option<Value>,
}

/// Strays that are kept.
const FEW: usize = 10;

impl Heard {
    pub(crate) fn stray(&mut self, text: &str) {
        if self.strays.len() < FEW {
            self.strays.push(text.chars().take(100).collect());
        }
    }
}

impl Evidence {
    /// Remembers how long something took.
    pub(crate) fn step(&mut self, name: impl Into<String>, took: Duration) {
        self.steps.push((name.into(), took));
    }

    /// What came of the last request with that method.
    pub(crate) fn outcome(&self, method: &str) -> Option<&RequestResult> {
        let asked = self.requests.iter().rev().find(|asked| asked.method == method)?;
        Some(&asked.outcome)
    }

    /// How the last request with that method was answered over HTTP.
    pub(crate) fn facts(&self, method: &str) -> Option<&Facts> {
        self.outcome(method)?.facts()
    }

    pub(crate) fn trial(&self, trial: Trial) -> Option<&Result<Facts, String>> {
        self.trials.iter().find(|(tried, _)| *tried == trial).map(|(_, outcome)| outcome)
    }

    /// The request that was answered with 401, and the answer.
    pub(crate) fn unauthorized(&self) -> Option<(&str, &Facts)> {
        let asked = self.requests.iter().rev();
        let mut asked = asked.filter_map(|it| Some((it.method.as_str(), it.outcome.facts()?)));
        let stream = self.no_stream.iter().filter_map(|it| Some(("event stream", it.facts()?)));
        let found = asked.find(|(_, facts)| facts.status == 401);
        found.or_else(|| stream.into_iter().find(|(_, facts)| facts.status == 401))
    }

    /// Whether the server wants a token, and none that it takes was there.
    pub(crate) fn is_shut(&self) -> bool {
        self.unauthorized().is_some()
    }

    /// Whether there was a conversation.
    pub(crate) fn was_greeted(&self) -> bool {
        self.revision.is_some()
    }
}
