//! What stands before a front or a bridge and sees its calls.

use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use switchboard_net::face::Face;
use switchboard_net::inside::{Inside, Works};
use switchboard_net::upstream::Through;
use switchboard_net::who::Who;
use switchboard_proto::exchange::{Exchange, Up};
use switchboard_proto::failure::Words;
use switchboard_proto::jsonrpc::{Kind, Message};
use switchboard_proto::method;

use super::{Tap, tool};

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

    fn open(&self, face: &Arc<Face>, exchange: Exchange, request: &Message) -> Option<Works> {
        self.tap.open(face, exchange, request, self.transport);
        let asked = tool::asked(request).filter(|_| self.has_tools())?;
        if asked == tool::TRACE {
            let answer = tool::trace(&self.tap, face, request);
            face.finish(exchange, &answer);
            return Some(Works::none());
        }
        // What this client may see, and nothing else, is what it gets to list.
        let request = tool::list(request);
        Some(self.inside.take(face, Up::Open { exchange, request, said: None }))
    }
}

impl Inside for Tapped {
    fn take(&self, face: &Arc<Face>, verb: Up) -> Works {
        match verb {
            Up::Open { exchange, request, said } => {
                if let Some(works) = self.open(face, exchange, &request) {
                    return works;
                }
                let request = match &self.server {
                    Some(server) => self.tap.forward(face, exchange, server, request),
                    None => request,
                };
                self.inside.take(face, Up::Open { exchange, request, said })
            }
            Up::Drop { exchange, message } => {
                self.tap.give_up(face, exchange);
                self.inside.take(face, Up::Drop { exchange, message })
            }
            other => self.inside.take(face, other),
        }
    }

    fn forget(&self, face: &Arc<Face>) {
        self.tap.forget(face);
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

    fn answered(&self, face: &Face, exchange: Exchange, answer: &Message) -> Option<Message> {
        let other = self.inside.answered(face, exchange, answer);
        let answer = other.as_ref().unwrap_or(answer);
        let Some(call) = self.tap.take(face, exchange) else { return other };
        self.tap.close(face, &call, Some(answer));
        let ours = call.offered.as_deref().and_then(tool::ours);
        let ours = ours.filter(|_| &*call.method == method::CALL_TOOL);
        if !self.has_tools() || answer.kind() != Kind::Result {
            return other;
        }
        let changed = match (&*call.method, ours) {
            (method::LIST_TOOLS, _) => tool::listed(answer),
            (_, Some(tool::MANIFEST)) => Some(tool::manifest(answer, face.era())),
            (method::CALL_TOOL, _) => tool::told(answer, call.trace),
            _ => None,
        };
        changed.or(other)
    }
}

impl fmt::Debug for Tapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tapped").field("server", &self.server).finish_non_exhaustive()
    }
}
