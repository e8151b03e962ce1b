//! What is known about an endpoint: where it is, and the session there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use switchboard_proto::backoff::Reconnect;
use switchboard_proto::header;
use switchboard_proto::jsonrpc::Part;
use switchboard_proto::revision::Revision;
use tokio::sync::watch;

use super::ear::Ear;
use crate::face::lock;
use crate::http::fetch::Fetch;
use crate::upstream::via::{self, Via};
use crate::upstream::{Target, Upstream};

/// The endpoint and our session there.
pub(in crate::upstream) struct Link {
    pub(super) fetch: Fetch,
    url: Uri,
    via: Option<Arc<Via>>,
    /// What was shown last.
    headers: Mutex<Arc<HeaderMap>>,
    /// Another one comes only together with another ear.
    session: Mutex<Session>,
    /// The id that came with the answer to a greeting: it is one with the result.
    offered: Mutex<Option<HeaderValue>>,
    pub(super) ear: watch::Sender<Ear>,
    /// How it begins in each session.
    first_ear: Ear,
    /// The server has let us listen, in this session or an earlier one.
    pub(super) was_heard: AtomicBool,
    /// The server could not be listened to for a while.
    pub(super) missed: AtomicBool,
    /// How often listening went wrong in the session before this one.
    pub(super) strain: Mutex<Option<Reconnect>>,
    /// The event that was heard last, and the number of its session.
    pub(super) last: Mutex<Option<(u64, HeaderValue)>>,
}

/// What goes on every message of a session.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(in crate::upstream) struct Session {
    /// Tells it from those before it: not every one has an id.
    pub(super) number: u64,
    pub(super) id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// How long the server may take to end a session: we are on our way out.
const DELETE_WAIT: Duration = Duration::from_secs(2);

impl Upstream {
    pub(super) fn link(&self) -> Option<&Link> {
        let (Target::Url { url, headers, .. }, Some(fetch)) =
            (self.server.target(), self.server.fetch())
        else {
            return None;
        };
        Some(self.http.get_or_init(|| Link {
            fetch: fetch.clone(),
            url: url.clone(),
            via: self.server.via().cloned(),
            headers: Mutex::new(Arc::new(headers.clone())),
            session: Mutex::default(),
            offered: Mutex::default(),
            ear: watch::Sender::default(),
            first_ear: if self.is_deaf() { Ear::Refused } else { Ear::NotYet },
            was_heard: AtomicBool::new(false),
            missed: AtomicBool::new(false),
            strain: Mutex::default(),
            last: Mutex::default(),
        }))
    }
}

impl Link {
    /// From here on this is shown.
    pub(super) fn show(&self, headers: &Arc<HeaderMap>) {
        lock(&self.headers).clone_from(headers);
    }

    /// What was shown last.
    pub(super) fn last_shown(&self) -> Arc<HeaderMap> {
        Arc::clone(&lock(&self.headers))
    }

    /// A request with the user's headers; ours come later and win (HDR-15).
    fn request(&self, method: Method, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.url.clone();
        let shown = self.last_shown();
        for (name, value) in &*shown {
            request.headers_mut().append(name, value.clone());
        }
        if let Some(via) = &self.via {
            request.headers_mut().insert(via::HEADER, via.header());
        }
        request
    }

    pub(super) fn post(&self, text: &Bytes, session: &Session) -> Request<Bytes> {
        let mut request = self.request(Method::POST, text.clone());
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        session.add_to(headers);
        request
    }

    /// Asks for a stream of a session, or for what of it came after `last`.
    pub(super) fn get(&self, session: &Session, last: Option<&HeaderValue>) -> Request<Bytes> {
        let mut request = self.request(Method::GET, Bytes::new());
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        session.add_to(headers);
        if let Some(last) = last {
            headers.insert(header::LAST_EVENT_ID, last.clone());
        }
        request
    }

    /// The session as it is now.
    pub(super) fn session(&self) -> Session {
        lock(&self.session).clone()
    }

    /// A session is over, unless it has been followed by another.
    pub(super) fn forget(&self, over: &Session) {
        let mut session = lock(&self.session);
        if session.number == over.number {
            *session = Session { number: over.number, ..Session::default() };
        }
    }

    /// An answer to a greeting has begun.
    pub(super) fn handle_offer(&self, headers: &HeaderMap) {
        *lock(&self.offered) = headers.get(header::SESSION_ID).cloned().map(|mut id| {
            id.set_sensitive(true);
            id
        });
    }

    /// The session that it may come to, for the rest of that answer.
    pub(super) fn offered(&self) -> Session {
        Session { id: lock(&self.offered).clone(), ..Session::default() }
    }

    /// The session has begun, if the answer is no error. Its version goes on every
    /// request, from the revision on that has the header.
    pub(super) fn handle_greeted(&self, answer: &[u8]) {
        let Some(welcome) = Part::new(answer).get(&["result"]) else { return };
        let id = lock(&self.offered).take();
        self.begin(id);
        let name = welcome.string("protocolVersion").unwrap_or_default();
        if Revision::legacy_at_most(&name).rules().version_header {
            lock(&self.session).version = HeaderValue::from_str(&name).ok();
        }
    }

    /// Another session, or none, in the place of this one.
    fn begin(&self, id: Option<HeaderValue>) -> Session {
        let mut before = Session::default();
        self.ear.send_modify(|ear| {
            let mut session = lock(&self.session);
            let number = session.number + 1;
            before = std::mem::replace(&mut session, Session { number, id, version: None });
            *ear = self.first_ear;
        });
        // Whoever greets a server again tells what that means.
        self.missed.store(false, Ordering::Relaxed);
        before
    }

    /// Ends the session at the server, if there is one. Failing is no matter.
    pub(in crate::upstream) async fn delete_session(&self) {
        let session = self.begin(None);
        if session.id.is_none() {
            return;
        }
        let mut request = self.request(Method::DELETE, Bytes::new());
        session.add_to(request.headers_mut());
        let sent = tokio::time::timeout(DELETE_WAIT, self.fetch.send(request)).await;
        if let Ok(Err(error)) = sent {
            tracing::debug!("session not deleted: {error}");
        }
    }
}

impl Session {
    fn add_to(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            headers.insert(header::SESSION_ID, id.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(header::PROTOCOL_VERSION, version.clone());
        }
    }
}
