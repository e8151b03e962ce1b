//! The way of a request: removed, unclear, sought, a task, a list, or one server's.

use std::sync::Arc;

use switchboard_net::call::Call;
use switchboard_net::face::Face;
use switchboard_net::inside::{Inside as _, Works};
use switchboard_proto::exchange::Said;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use super::reply::{Duty, Reply};
use super::seek::Sought;
use super::task::Errand;
use super::{Front, greet, id, seek, state};
use crate::catalog::Catalog;
use crate::route::{self, Nowhere, Way};
use crate::sight;

impl Front {
    pub(super) fn take(
        &self,
        face: &Arc<Face>,
        call: &Call,
        request: &Message,
        said: Said,
    ) -> Works {
        let era = face.era();
        let is_removed = match era {
            Era::Modern => method::REMOVED.contains(&request.method()),
            Era::Legacy => matches!(request.method(), method::DISCOVER | method::LISTEN),
        };
        if is_removed {
            let why = Refusal::UnknownMethod { method: request.method().to_owned() };
            face.turn_away(call.exchange(), request.id(), &why);
            return Works::none();
        }
        if let Some(why) = sight::doubt(request) {
            call.finish(why);
            return Works::none();
        }
        if request.method().starts_with("tasks/") {
            return self.task(face, call, request, said);
        }
        let catalog = self.catalog();
        match self.sought(request, &catalog) {
            Sought::Plain => self.route(face, call, request, said, &catalog),
            Sought::Find => self.find(face, call, request),
            // The client saw no arguments to repeat as headers.
            Sought::Call(request) => self.route(face, call, &request, None, &catalog),
            Sought::Unclear => {
                seek::refuse(face, call, request);
                Works::none()
            }
        }
    }

    fn route(
        &self,
        face: &Arc<Face>,
        call: &Call,
        request: &Message,
        said: Said,
        catalog: &Catalog,
    ) -> Works {
        if self.may_come(request, catalog) {
            return self.route_later(face, call, request, said);
        }
        self.route_now(face, call, request, said, catalog)
    }

    pub(super) fn route_now(
        &self,
        face: &Arc<Face>,
        call: &Call,
        request: &Message,
        said: Said,
        catalog: &Catalog,
    ) -> Works {
        if request.method() == method::CALL_TOOL
            && let Err(why) = catalog.check_headers(request, &said)
        {
            face.turn_away(call.exchange(), request.id(), &why);
            return Works::none();
        }
        let way = match route::route(request, catalog, self) {
            Way::To { server, request: theirs } if self.hides(face, &server, &theirs) => {
                Way::Nowhere(Nowhere::unseen(request))
            }
            way => way,
        };
        match way {
            Way::Here => self.answer(face, call, request),
            Way::List(kind) => self.list(face, call, request, kind),
            Way::To { server, request } => self.forward(face, call, &server, request, said),
            Way::Nowhere(Nowhere::Method { method }) => {
                face.turn_away(call.exchange(), request.id(), &Refusal::UnknownMethod { method });
                Works::none()
            }
            Way::Nowhere(nowhere) => {
                let error = nowhere.error(face.era());
                call.finish(Message::error(request.id(), &error));
                Works::none()
            }
        }
    }

    /// What concerns the client and us alone.
    fn answer(&self, face: &Arc<Face>, call: &Call, request: &Message) -> Works {
        match request.method() {
            method::INITIALIZE => self.initialize(face, call, request),
            method::DISCOVER => self.discover(call, request),
            method::LISTEN => self.listen(face, call, request),
            method::SET_LEVEL => self.set_level(face, call, request),
            _ => {
                call.finish(Message::result(id(request), b"{}"));
                Works::none()
            }
        }
    }

    /// To the one server that is meant.
    pub(super) fn forward(
        &self,
        face: &Arc<Face>,
        call: &Call,
        server: &Arc<str>,
        request: Message,
        said: Said,
    ) -> Works {
        let backend = self.fleet.backend(server).filter(|_| self.members().contains(server));
        let Some(backend) = backend else {
            call.finish(Failure::CLOSED);
            return Works::none();
        };
        let request = call.forward(server, request);
        let rewrite = Duty::from(Errand::of(&request, face.era(), || self.task_servers(face)));
        let refuse = |why: &Refusal| {
            call.finish(why.clone());
            Works::none()
        };
        self.want(server);
        if face.era() == Era::Legacy {
            let Some(session) = self.session(face) else { return refuse(&Refusal::NotInitialized) };
            return session.leg(server, &backend).open(&backend, call, rewrite, request, said);
        }
        face.introduce(&greet::identity());
        match state::opened(self.sealer.as_deref(), face, server, &request) {
            Ok(request) => {
                Reply::new(face, server, self.at(), rewrite).set_on(call);
                backend.bridge.open(face, call, request, said)
            }
            Err(why) => refuse(&why),
        }
    }
}
