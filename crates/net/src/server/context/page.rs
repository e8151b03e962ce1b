//! Pages that a person is to visit: to sign in, to pay, to consent.

use serde_json::{Value, json};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::refusal::code;
use switchboard_proto::revision::Era;

use super::ask::{Elicited, missing};
use super::{Context, Way};
use crate::server::error::Error;
use crate::server::session::Caller;

/// A page, and what it is known by until it has been visited.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Page {
    id: String,
    message: String,
    url: String,
}

impl Page {
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
        self.visit(&Page::new(message, url)?).await
    }

    /// The same for a page that will say when it is done.
    pub async fn visit(&self, page: &Page) -> Result<Elicited, Error> {
        self.ask(method::ELICIT, page.to_json(self.era())).await.map(Elicited::read)
    }

    /// Tells a legacy client that the person is done with a page, which may be
    /// long after the call (UTL-8). A modern one has no use for it.
    pub fn visited(&self, page: &Page) {
        let Caller::Session(session) = &self.state.caller else { return };
        let asked = page.to_json(Era::Legacy);
        if missing(&session.capabilities, method::ELICIT, &asked).is_some() {
            return;
        }
        let params = json!({"elicitationId": page.id}).to_string();
        let note = Message::notification(method::ELICITED, Some(params.as_bytes()));
        let Some(face) = session.face.upgrade().filter(|face| !face.is_slow()) else { return };
        match &self.state.way {
            Way::Call { exchange, .. } => face.note(Some(*exchange), &note),
            Way::Task(_) => face.note(None, &note),
        }
    }
}

impl Error {
    /// The call can be made only after these pages have been visited. Clients of
    /// the last legacy revision know what that means (UTL-8); ask others by [`Context::visit`].
    pub fn visit_first(pages: &[Page]) -> Self {
        let pages: Vec<_> = pages.iter().map(|page| page.to_json(Era::Legacy)).collect();
        let message = "this call needs pages to be visited first";
        Self::new(code::VISIT_FIRST, message).with_data(json!({"elicitations": pages}))
    }
}
