//! The way of a request: removed, unclear, sought, a task, a list, or one server's.

use std::sync::Arc;

use switchboard_net::face::Face;
use switchboard_net::inside::Works;
use switchboard_proto::exchange::{Exchange, Said, Up};
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use super::duty::Duty;
use super::leg::Leg;
use super::seek::Sought;
use super::task::Errand;
use super::{Front, greet, id, seek, state};
use crate::catalog::Catalog;
use crate::route::{self, Nowhere, Way};
use crate::sight;

impl Front {
    pub(super) fn open(
        &self,
        face: &Arc<Face>,
        exchange: Exchange,
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
            face.turn_away(exchange, request.id(), &why);
            return Works::none();
        }
        if let Some(why) = sight::doubt(request) {
            face.finish(exchange, why);
            return Works::none();
        }
        if request.method().starts_with("tasks/") {
            return self.task(face, exchange, request, said);
        }
        let catalog = self.catalog();
        match self.sought(request, &catalog) {
            Sought::Plain => self.route(face, exchange, request, said, &catalog),
            Sought::Find => self.find(face, exchange, request),
            // The client saw no arguments to repeat as headers.
            Sought::Call(request) => self.route(face, exchange, &request, None, &catalog),
            Sought::Unclear => {
                seek::refuse(face, exchange, request);
                Works::none()
            }
        }
    }

    fn route(
        &self,
        face: &Arc<Face>,
        exchange: Exchange,
        request: &Message,
        said: Said,
        catalog: &Catalog,
    ) -> Works {
        if self.may_come(request, catalog) {
            return self.route_later(face, exchange, request, said);
        }
        self.route_now(face, exchange, request, said, catalog)
    }

    pub(super) fn route_now(
        &self,
        face: &Arc<Face>,
        exchange: Exchange,
        request: &Message,
        said: Said,
        catalog: &Catalog,
    ) -> Works {
        if request.method() == method::CALL_TOOL
            && let Err(why) = catalog.check_headers(request, &said)
        {
            face.turn_away(exchange, request.id(), &why);
            return Works::none();
        }
        let way = match route::route(request, catalog, self) {
            Way::To { server, request: theirs } if self.hides(face, &server, &theirs) => {
                Way::Nowhere(Nowhere::unseen(request))
            }
            way => way,
        };
        match way {
            Way::Here => self.answer(face, exchange, request),
            Way::List(kind) => self.list(face, exchange, request, kind),
            Way::To { server, request } => self.forward(face, exchange, &server, request, said),
            Way::Nowhere(Nowhere::Method { method }) => {
                face.turn_away(exchange, request.id(), &Refusal::UnknownMethod { method });
                Works::none()
            }
            Way::Nowhere(nowhere) => {
                let error = nowhere.error(face.era());
                face.finish(exchange, Message::error(request.id(), &error));
                Works::none()
            }
        }
    }

    /// What concerns the client and us alone.
    fn answer(&self, face: &Arc<Face>, exchange: Exchange, request: &Message) -> Works {
        match request.method() {
            method::INITIALIZE => self.initialize(face, exchange, request),
            method::DISCOVER => self.discover(face, exchange, request),
            method::LISTEN => self.listen(face, exchange, request),
            method::SET_LEVEL => self.set_level(face, exchange, request),
            _ => {
                face.finish(exchange, Message::result(id(request), b"{}"));
                Works::none()
            }
        }
    }

    /// To the one server that is meant.
    pub(super) fn forward(
        &self,
        face: &Arc<Face>,
        exchange: Exchange,
        server: &Arc<str>,
        request: Message,
        said: Said,
    ) -> Works {
        let backend = self.fleet.backend(server).filter(|_| self.members().contains(server));
        let Some(backend) = backend else {
            face.finish(exchange, Failure::CLOSED);
            return Works::none();
        };
        let request = self.fleet.tap().forward(face, exchange, server, request);
        let refuse = |why: &Refusal| {
            face.finish(exchange, why.clone());
            Works::none()
        };
        let duty = Duty::from(Errand::of(&request, face.era(), || self.task_servers(face)));
        self.want(server);
        if face.era() == Era::Legacy {
            let Some(session) = self.session(face) else { return refuse(&Refusal::NotInitialized) };
            let leg = session.leg(server, &backend);
            return leg.open(&backend, (exchange, duty), request, said);
        }
        face.introduce(&greet::identity());
        match state::opened(self.sealer.as_deref(), face, server, &request) {
            Ok(request) => {
                let leg = Leg::modern(face, server, self.at(), (exchange, duty));
                let open = Up::Open { exchange, request, said };
                backend.bridge.take_for(face, leg, open)
            }
            Err(why) => refuse(&why),
        }
    }
}
