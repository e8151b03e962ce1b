//! What was said and seen on a visit.

use std::time::Duration;

use http::{HeaderMap, header};
use serde_json::Value;
use switchboard_net::http::fetch::FetchError;
use switchboard_proto::header::SESSION_ID;
use switchboard_proto::revision::Era;

/// Everything that a check may look at.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// What to call the server: nothing secret.
    pub(crate) target: String,
    pub(crate) transport: Option<Transport>,
    pub(crate) era: Option<Era>,
    pub(crate) revision: Option<String>,
    /// The result of `initialize` or `server/discover`.
    pub(crate) welcome: Value,
    pub(crate) steps: Vec<Step>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) lists: Vec<List>,
    pub(crate) trials: Vec<(Trial, Reply)>,
    /// Why the visit ended before it began.
    pub(crate) unreached: Option<Unreached>,
    pub(crate) heard: Heard,
    /// A child that was silent or died when it was asked for its era.
    pub(crate) upset_by_probe: Option<ExchangeResult>,
    /// What came instead of the event stream of 2024-11-05, where one was wanted.
    pub(crate) no_stream: Option<ExchangeResult>,
    /// A child that did not end with its stdin.
    pub(crate) outstayed: bool,
    /// Other paths of the same host that answer like a server.
    pub(crate) siblings: Vec<String>,
    /// Where the host sent us, and we went.
    pub(crate) moved: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    Stdio,
    Http,
    Sse,
}

impl Transport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "Streamable HTTP",
            Self::Sse => "HTTP+SSE",
        }
    }
}

/// Something that took time.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) took: Duration,
}

/// Why the server could not be reached.
#[derive(Debug)]
pub(crate) enum Unreached {
    /// The command did not start.
    Spawn { text: String },
    /// No connection.
    Fetch(FetchError),
}

/// A request and what came of it.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) outcome: ExchangeResult,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(crate) enum ExchangeResult {
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

impl ExchangeResult {
    pub(crate) fn message(&self) -> Option<&Value> {
        match self {
            Self::Answer { message, .. } => Some(message),
            _ => None,
        }
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
    pub(crate) content_type: String,
    pub(crate) session: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) challenge: Option<String>,
    /// How its body begins.
    pub(crate) body: String,
}

impl Facts {
    pub(crate) fn read(status: u16, headers: &HeaderMap) -> Self {
        let text = |name| {
            let value = headers.get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        Self {
            status,
            content_type: text(header::CONTENT_TYPE).unwrap_or_default(),
            session: text(SESSION_ID),
            location: text(header::LOCATION),
            challenge: text(header::WWW_AUTHENTICATE),
            body: String::new(),
        }
    }

    /// The media type without its parameters, in lower case.
    pub(crate) fn media_type(&self) -> String {
        let kind = self.content_type.split(';').next().unwrap_or_default();
        kind.trim().to_ascii_lowercase()
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.media_type() == "text/event-stream"
    }

    pub(crate) fn is_json(&self) -> bool {
        self.media_type() == "application/json"
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
pub(crate) struct List {
    pub(crate) method: &'static str,
    pub(crate) member: &'static str,
    /// The capability that announces it.
    pub(crate) capability: &'static str,
    pub(crate) announced: bool,
    pub(crate) pages: Vec<ExchangeResult>,
    pub(crate) end: End,
}

impl List {
    pub(crate) fn items(&self) -> impl Iterator<Item = &Value> {
        let results = self.pages.iter().filter_map(ExchangeResult::result);
        results.flat_map(|page| page[self.member].as_array().into_iter().flatten())
    }
}

/// How a list ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
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

/// What a trial came to.
#[derive(Debug)]
pub(crate) enum Reply {
    Http(Facts),
    Lost(FetchError),
    Silence,
}

/// What came besides answers. Bounded: the first few are enough.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// What is no message.
    pub(crate) strays: Vec<String>,
    /// Methods of requests that the server made.
    pub(crate) asked: Vec<String>,
    /// Answers to nothing we asked.
    pub(crate) unasked: Vec<Value>,
}

/// Of each kind.
const FEW: usize = 10;

impl Heard {
    pub(crate) fn stray(&mut self, text: &str) {
        if self.strays.len() < FEW {
            self.strays.push(text.chars().take(100).collect());
        }
    }

    pub(crate) fn asked(&mut self, method: &str) {
        if self.asked.len() < FEW {
            self.asked.push(method.to_owned());
        }
    }

    pub(crate) fn unasked(&mut self, id: &Value) {
        if self.unasked.len() < FEW {
            self.unasked.push(id.clone());
        }
    }
}

impl Evidence {
    /// Remembers how long something took.
    pub(crate) fn step(&mut self, name: impl Into<String>, took: Duration) {
        self.steps.push(Step { name: name.into(), took });
    }

    /// The last exchange with that method.
    pub(crate) fn exchange(&self, method: &str) -> Option<&Exchange> {
        self.exchanges.iter().rev().find(|exchange| exchange.method == method)
    }

    pub(crate) fn trial(&self, trial: Trial) -> Option<&Reply> {
        self.trials.iter().find(|(tried, _)| *tried == trial).map(|(_, reply)| reply)
    }

    /// Whether there was a conversation.
    pub(crate) fn was_greeted(&self) -> bool {
        self.revision.is_some()
    }
}
