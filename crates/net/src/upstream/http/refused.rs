//! A response that is no success, in words for whoever waits for an answer.

use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{self, Id, Kind, Member, Message};
use switchboard_proto::refusal::{Refusal, is_modern_code};

use crate::secret::redact;
use crate::upstream::Upstream;

/// What a server said instead of an answer.
pub(in crate::upstream) struct Refused {
    pub(in crate::upstream) status: StatusCode,
    text: String,
    hints: String,
    /// The `WWW-Authenticate` headers.
    challenge: Option<Box<str>>,
    error: Option<Message>,
}

/// Bodies are read this far and this long, for their text.
const BODY: usize = 64 << 10;
const BODY_WAIT: Duration = Duration::from_secs(5);

/// What of a body is shown to people.
const SHOWN: usize = 512;

impl Refused {
    /// Reads what came instead of an answer to a request with these headers.
    pub(in crate::upstream) async fn read(response: Response<Incoming>, sent: &HeaderMap) -> Self {
        let status = response.status();
        let hints = redact(&hints(response.headers()), sent);
        let challenge: Vec<_> = values(response.headers(), "www-authenticate").collect();
        let challenge = Some(challenge.join(", ")).filter(|it| !it.is_empty());
        let challenge = challenge.map(|it| redact(&it, sent).into());
        let body = beginning(response.into_body()).await.freeze();
        let error = jsonrpc::parse_one(body.clone()).ok();
        let error = error.filter(|answer| answer.kind() == Kind::Error);
        let message = error.as_ref().and_then(|error| error.string(Member::ErrorMessage));
        let text = message.unwrap_or_else(|| String::from_utf8_lossy(&body));
        let told = redact(&text, sent);
        let is_whole = told == *text;
        let error = error.as_ref().map(|it| if is_whole { it.clone() } else { saying(it, &told) });
        let text = told.trim().chars().take(SHOWN).collect();
        Self { status, text, hints, challenge, error }
    }

    /// The error that the body holds, as the answer to the request `id`: it
    /// tells more than the status, and its own id may be missing.
    pub(super) fn answer(&self, id: &Id) -> Option<Message> {
        let error = self.error.as_ref()?.with_id(id);
        if self.hints.is_empty() {
            return Some(error);
        }
        let text = error.error_message();
        Some(saying(&error, &format!("{text}{}", self.hints)))
    }

    /// The error that the body holds.
    pub(super) fn error(&self) -> Option<&Message> {
        self.error.as_ref()
    }

    /// Whether it is the answer to a request, and no word about the session.
    pub(super) fn answers(&self, id: Option<&Id>) -> bool {
        let Some(error) = self.error.as_ref().filter(|error| error.id() == id) else {
            return false;
        };
        let is_over = error.error_code() == Some(Refusal::SessionOver.rpc_code().into());
        let text = error.error_message();
        id.is_some() && !is_over && !text.to_ascii_lowercase().contains("session")
    }

    /// Whether it says who is let in, and not what came of a call.
    pub(super) fn is_about_us(&self) -> bool {
        matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    }

    /// Why the call has no answer.
    pub(in crate::upstream) fn failure(&self, up: &Upstream) -> Failure {
        if let Some(looped) = self.error.as_ref().and_then(|error| up.loop_in(error)) {
            return looped;
        }
        let reason = self.status.canonical_reason().unwrap_or_default();
        let text = if self.text.is_empty() { reason } else { &self.text };
        let (status, text) = (self.status.as_u16(), format!("{text}{}", self.hints).into());
        Failure::HttpStatus { status, text, challenge: self.challenge.clone() }
    }

    /// Whether only a modern server says this.
    pub(super) fn is_modern(&self) -> bool {
        self.error.as_ref().and_then(Message::error_code).is_some_and(is_modern_code)
    }
}

/// What the server says about how to get in.
fn hints(headers: &HeaderMap) -> String {
    let mut hints = String::new();
    for name in ["www-authenticate", "mcp-auth-server"] {
        for value in values(headers, name) {
            hints = format!("{hints} ({name}: {value})");
        }
    }
    hints
}

fn values<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
}

/// As much of a body as is worth showing.
async fn beginning(mut body: Incoming) -> BytesMut {
    let mut bytes = BytesMut::new();
    let reading = async {
        while bytes.len() < BODY
            && let Some(Ok(frame)) = body.frame().await
        {
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        }
    };
    // A body that stalls has said what it has to say.
    _ = tokio::time::timeout(BODY_WAIT, reading).await;
    bytes.truncate(BODY);
    bytes
}

/// The same error in other words.
fn saying(error: &Message, text: &str) -> Message {
    error.with_string(Member::ErrorMessage, text)
}
