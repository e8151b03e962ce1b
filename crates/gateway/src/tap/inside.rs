//! What stands before a front or a bridge and sees its calls.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::HeaderName;
use switchboard_net::call::{Call, CallObserver};
use switchboard_net::face::Face;
use switchboard_net::inside::{Inside, Works};
use switchboard_net::upstream::Through;
use switchboard_net::who::Who;
use switchboard_proto::exchange::{Ask, Said};
use switchboard_proto::failure::Words;
use switchboard_proto::jsonrpc::{Kind, Message};
use switchboard_proto::method;

use super::{Seen, Tap, tool};

/// An inside whose calls are seen.
pub struct Tapped {
    tap: Arc<Tap>,
    inside: Arc<dyn Inside>,
    /// Whose calls they are, if they are all of one server.
    server: Option<Arc<str>>,
    transport: &'static str,
}

impl Tapped {
    /// What is behind a path of many servers: whose a call is, the front says.
    pub fn many(tap: &Arc<Tap>, inside: Arc<dyn Inside>) -> Self {
        Self { tap: Arc::clone(tap), inside, server: None, transport: "tcp" }
    }

    /// What is behind the path of one server.
    pub fn one(tap: &Arc<Tap>, server: &Arc<str>, inside: Arc<dyn Inside>) -> Self {
        Self { server: Some(Arc::clone(server)), ..Self::many(tap, inside) }
    }

    /// The same, for a client that started us.
    #[must_use]
    pub fn on_stdio(self) -> Self {
        Self { transport: "pipe", ..self }
    }

    /// Whether it has tools of ours. One server alone is as it is.
    fn has_tools(&self) -> bool {
        self.server.is_none() && self.tap.recent.is_wanted()
    }
}

/// Sees one call.
struct Observer {
    tap: Arc<Tap>,
    call: Seen,
    /// The gateway's own tools are among those of its list.
    has_tools: bool,
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.tap.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CallObserver for Observer {
    fn forward(&mut self, server: &Arc<str>, request: Message) -> Message {
        self.tap.forward(&mut self.call, server, request)
    }

    fn finish(self: Box<Self>, face: &Face, answer: Option<&Message>) -> Option<Message> {
        let call = &self.call;
        self.tap.close(face, call, answer);
        let answer = answer.filter(|it| self.has_tools && it.kind() == Kind::Result)?;
        let ours = call.offered.as_deref().and_then(tool::ours);
        match (&*call.method, ours) {
            (method::LIST_TOOLS, _) => tool::listed(answer),
            (method::CALL_TOOL, Some(tool::MANIFEST)) => Some(tool::manifest(answer, face.era())),
            (method::CALL_TOOL, _) => tool::told(answer, call.trace),
            _ => None,
        }
    }
}

impl Inside for Tapped {
    fn open(&self, face: &Arc<Face>, call: &Call, request: Message, said: Said) -> Works {
        let (tap, has_tools) = (Arc::clone(&self.tap), self.has_tools());
        let seen = self.tap.see(&request, self.transport);
        call.set_observer(Box::new(Observer { tap, call: seen, has_tools }));
        match tool::asked(&request).filter(|_| has_tools) {
            None => self.inside.open(face, call, request, said),
            Some(tool::TRACE) => {
                call.finish(tool::trace(&self.tap, face, &request));
                Works::none()
            }
            // What this client may see, and nothing else, is what it gets to list.
            Some(_) => self.inside.open(face, call, tool::list(&request), None),
        }
    }

    fn note(&self, face: &Arc<Face>, message: Message) -> Works {
        self.inside.note(face, message)
    }

    fn cancel(&self, face: &Arc<Face>, call: &Call) {
        self.inside.cancel(face, call);
    }

    fn supply(&self, face: &Arc<Face>, ask: Ask, answer: Message) -> Option<Message> {
        self.inside.supply(face, ask, answer)
    }

    fn forget(&self, face: &Arc<Face>) {
        self.inside.forget(face);
    }

    fn carries(&self) -> Option<Arc<[HeaderName]>> {
        self.inside.carries()
    }

    fn keeps(&self, face: &Face) -> bool {
        self.inside.keeps(face)
    }

    fn leads_back(&self, who: &Who, through: &Through) -> bool {
        self.inside.leads_back(who, through)
    }

    /// Clients of a gateway need not own its servers.
    fn words(&self) -> Words {
        Words::Brief
    }
}

impl fmt::Debug for Tapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tapped").field("server", &self.server).finish_non_exhaustive()
    }
}
