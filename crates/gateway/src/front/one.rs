//! The path of one server: a view with one member, which is passed on as it is.
//!
//! Greetings, lists and listens go to the server itself. What the plan or the grant
//! hides is taken out of its lists, and cannot be called. A session outlives its
//! server: when another takes the place of that, the client's next call makes us
//! repeat its greeting there.

use std::sync::Arc;

use serde_json::Value;
use switchboard_net::call::Call;
use switchboard_net::face::Face;
use switchboard_net::inside::{Inside as _, Works};
use switchboard_net::roster::Kind;
use switchboard_proto::exchange::Said;
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use super::list::tell;
use super::offer::watched;
use super::reply::{At, Duty, Reply, Shown};
use super::session::Session;
use super::{Front, lock};
use crate::fleet::Backend;
use crate::glob::NameFilter;
use crate::plan::ServerPlan;
use crate::policy::Grant;
use crate::route::Nowhere;
use crate::sight::{self, Sight};

const LISTS: [Kind; 3] = [Kind::Tools, Kind::Prompts, Kind::Resources];

/// What decides on what is shown: filters of the plan, and the tools of a grant.
#[derive(Clone, PartialEq)]
pub(super) struct Rules {
    plan: [NameFilter; 3],
    granted: NameFilter,
}

impl Rules {
    fn new(plan: &ServerPlan, grant: &Grant) -> Self {
        let plan = LISTS.map(|kind| plan.filter(kind).clone());
        Self { plan, granted: grant.tools.clone() }
    }

    /// Tells a client of the lists that are others by these rules.
    fn tell_changed(&self, old: &Self, face: &Arc<Face>) {
        for (at, kind) in LISTS.into_iter().enumerate() {
            let is_granted = kind != Kind::Tools || self.granted == old.granted;
            let is_same = is_granted && self.plan[at] == old.plan[at];
            if let (false, Some(name)) = (is_same, method::list_changed(kind.capability())) {
                tell(face, None, &Message::notification(name, None));
            }
        }
    }
}

impl Front {
    /// The one server of this path, if it is there and granted.
    fn one_backend(&self, name: &str) -> Option<Arc<Backend>> {
        self.fleet.backend(name).filter(|_| self.members().contains(name))
    }

    /// Remembers the rules as they are now; returns those of before.
    pub(super) fn renew_rules(&self) -> (Option<Rules>, Option<Rules>) {
        let backend = self.only.as_ref().and_then(|name| self.one_backend(name));
        let new = backend.map(|backend| Rules::new(&backend.plan, &self.grant));
        let mut rules = lock(&self.rules);
        let old = std::mem::replace(&mut *rules, new.clone());
        (old, new)
    }

    /// The plan is another: tells clients whose lists are others now.
    pub(super) fn tell_rules_changed(&self) {
        if let (Some(old), Some(new)) = self.renew_rules() {
            for session in self.ready_sessions() {
                new.tell_changed(&old, &session.face);
            }
        }
    }

    /// A client came from another front of the same path.
    pub(super) fn tell_rules_of(&self, before: &Self, face: &Arc<Face>) {
        let (old, new) = (lock(&before.rules).clone(), lock(&self.rules).clone());
        if let (Some(old), Some(new)) = (old, new) {
            new.tell_changed(&old, face);
        }
    }

    /// Passes a call on, once it is known what the server lists if that decides on it.
    pub(super) fn open_at_one(
        &self,
        name: &Arc<str>,
        face: &Arc<Face>,
        call: &Call,
        request: Message,
        said: Said,
    ) -> Works {
        let backend = self.one_backend(name);
        let Some(backend) = backend.filter(|it| self.fleet.must_learn(face, &it.plan, &request))
        else {
            return self.pass_to_one(name, face, call, request, said);
        };
        let Some(front) = self.this.upgrade() else { return Works::none() };
        let (name, face, call) = (Arc::clone(name), Arc::clone(face), call.clone());
        Works::one(async move {
            front.fleet.learn(&face, &backend.plan).await;
            drop(backend);
            // One that was cancelled meanwhile goes nowhere.
            if !call.is_over() {
                front.pass_to_one(&name, &face, &call, request, said).await;
            }
        })
    }

    fn pass_to_one(
        &self,
        name: &Arc<str>,
        face: &Arc<Face>,
        call: &Call,
        request: Message,
        said: Said,
    ) -> Works {
        let Some(backend) = self.one_backend(name) else {
            call.finish(Failure::CLOSED);
            return Works::none();
        };
        let (request, duty) = match self.seen(face, &backend, request) {
            Ok(seen) => seen,
            Err(refused) => {
                call.finish(refused);
                return Works::none();
            }
        };
        let request = call.forward(name, request);
        self.fleet.want(name);
        if face.era() == Era::Legacy && request.method() == method::INITIALIZE {
            let session = Session::new(face, request.clone(), At::one(&self.fleet, None));
            lock(&self.sessions).insert(face.number(), Arc::clone(&session));
            return session.own_leg(name, &backend).open(&backend, call, duty, request, said);
        }
        if let Some(session) = self.session(face) {
            if request.method() == method::SET_LEVEL {
                session.keep_level(&request);
            }
            return session.leg(name, &backend).open(&backend, call, duty, request, said);
        }
        if !matches!(duty, Duty::Plain) || request.method() == method::LISTEN {
            // What decides on what is told must be known for as long as the call lasts.
            let at = At::one(&self.fleet, self.this.upgrade());
            Reply::new(face, name, at, duty).set_on(call);
        }
        backend.bridge.open(face, call, request, said)
    }

    /// The request as its server is to get it, and what is left to do with the answer.
    fn seen(
        &self,
        face: &Face,
        backend: &Backend,
        request: Message,
    ) -> Result<(Message, Duty), Outcome> {
        let sight = Sight::new(&backend.plan, &self.grant);
        if !Kind::ALL.into_iter().any(|kind| sight.hides_some(kind)) {
            return Ok((request, Duty::Plain));
        }
        if let Some(why) = sight::doubt(&request) {
            return Err(why.into());
        }
        match self.fleet.may_ask(face, &backend.plan, &self.grant, &request) {
            Some(true) => {}
            Some(false) => {
                let error = Nowhere::unseen(&request).error(face.era());
                return Err(Message::error(request.id(), &error).into());
            }
            None => return Err(Refusal::ListsUnknown.into()),
        }
        let listed = Kind::ALL.into_iter().find(|kind| kind.method() == request.method());
        let listed = listed.filter(|kind| sight.hides_some(*kind));
        let duty = listed.map(|kind| Duty::Show(Shown::new(kind, &backend.plan, &self.grant)));
        let request = self.narrowed(face, &backend.plan.name, &request).unwrap_or(request);
        Ok((request, duty.unwrap_or(Duty::Plain)))
    }

    /// A listen without resources that are hidden; none if nothing is.
    fn narrowed(&self, face: &Face, name: &str, request: &Message) -> Option<Message> {
        let mut uris = watched(request);
        let wanted = uris.len();
        uris.retain(|uri| self.fleet.may_watch(face, name, uri));
        if uris.len() == wanted {
            return None;
        }
        Some(request.with(Member::ListenUris, Value::from(uris).to_string()))
    }

    /// A notification of a client, to the server.
    pub(super) fn note_to_one(&self, name: &str, face: &Arc<Face>, message: &Message) -> Works {
        let leg = self.session(face).and_then(|session| session.find(name));
        if let Some(bridge) = leg.as_ref().and_then(|leg| leg.greeted()) {
            return bridge.note(face, message.clone());
        }
        let mut works = Works::none();
        for bridge in self.fleet.bridges(|it| it == name) {
            works.append(bridge.note(face, message.clone()));
        }
        works
    }
}
