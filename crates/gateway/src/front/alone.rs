//! One server alone, as it is, whichever process stands for it at the time.
//!
//! A session outlives its server: when another takes the place of that, the
//! client's next call makes us repeat its greeting there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use http::HeaderName;
use serde_json::Value;
use switchboard_net::call::Call;
use switchboard_net::face::Face;
use switchboard_net::inside::{Inside, Works};
use switchboard_net::roster::Kind;
use switchboard_net::upstream::Through;
use switchboard_net::who::Who;
use switchboard_proto::exchange::Said;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use switchboard_proto::server::legacy::Phase;

use super::at::At;
use super::list::tell;
use super::reach::watched;
use super::reply::{Duty, Reply, Shown};
use super::session::Session;
use super::{Front, lock};
use crate::fleet::{Backend, Fleet};
use crate::glob::NameFilter;
use crate::plan::ServerPlan;
use crate::policy::{Grant, Principal};
use crate::porter::Porter;
use crate::route::Nowhere;
use crate::sight::{self, Sight};
use crate::view::Views;

/// What is behind `/servers/NAME`.
pub(crate) struct Alone {
    fleet: Arc<Fleet>,
    name: Arc<str>,
    porter: Arc<Porter>,
    sessions: Mutex<HashMap<u64, Sitting>>,
    /// What it lists to each person, asked for only where that decides on what they see.
    people: Arc<Views>,
    this: Weak<Self>,
}

/// A session, and by which rules it was last told what there is.
struct Sitting {
    session: Arc<Session>,
    rules: Rules,
}

/// What decides on what is shown: filters of the plan, and the tools of a grant.
#[derive(Clone, PartialEq)]
struct Rules {
    plan: [NameFilter; 3],
    granted: NameFilter,
}

impl Rules {
    fn new(plan: &ServerPlan, grant: &Grant) -> Self {
        let plan = LISTS.map(|kind| plan.filter(kind).clone());
        Self { plan, granted: grant.tools.clone() }
    }

    /// The lists that are others by these rules.
    fn changed<'r>(&'r self, other: &'r Self) -> impl Iterator<Item = Kind> + 'r {
        LISTS.into_iter().enumerate().filter_map(|(at, kind)| {
            let is_granted = kind != Kind::Tools || self.granted == other.granted;
            (!is_granted || self.plan[at] != other.plan[at]).then_some(kind)
        })
    }
}

const LISTS: [Kind; 3] = [Kind::Tools, Kind::Prompts, Kind::Resources];

impl Alone {
    pub(crate) fn new(fleet: &Arc<Fleet>, name: &Arc<str>, porter: &Arc<Porter>) -> Arc<Self> {
        let (fleet, name, porter) = (Arc::clone(fleet), Arc::clone(name), Arc::clone(porter));
        let people = Views::new(&fleet, [Arc::clone(&name)], &porter);
        let sessions = Mutex::default();
        let this = |this: &Weak<Self>| Self {
            fleet,
            name,
            porter,
            sessions,
            people,
            this: Weak::clone(this),
        };
        Arc::new_cyclic(this)
    }

    /// Another server may have taken the place of this, or other rules hold of who
    /// sees what of it.
    pub(crate) fn change(&self) {
        self.people.change([Arc::clone(&self.name)]);
        let backends = self.fleet.backends();
        let sessions = lock(&self.sessions).values().map(|it| Arc::clone(&it.session)).collect();
        let sessions: Vec<Arc<Session>> = sessions;
        for session in sessions {
            session.follow(&backends);
            if let Some(backend) = backends.get(&self.name) {
                self.tell_changed(&session.face, &backend.plan);
            }
        }
    }

    /// Tells a client of the lists that other rules made others.
    fn tell_changed(&self, face: &Arc<Face>, plan: &ServerPlan) {
        let rules = Rules::new(plan, &self.principal(face).grant);
        let mut sessions = lock(&self.sessions);
        let Some(sitting) = sessions.get_mut(&face.number()) else { return };
        let old = std::mem::replace(&mut sitting.rules, rules.clone());
        drop(sessions);
        if face.phase() != Some(Phase::Ready) {
            return;
        }
        let changed =
            rules.changed(&old).filter_map(|kind| method::list_changed(kind.capability()));
        for name in changed {
            tell(face, None, &Message::notification(name, None));
        }
    }

    /// Whom a client speaks for. Who may come in at all was asked at the door.
    /// One whose key is gone since then has nothing.
    fn principal(&self, face: &Face) -> Arc<Principal> {
        let principal = self.porter.principal(face.who().name());
        principal.unwrap_or_else(|| Arc::new(Principal::nobody()))
    }

    /// The request as its server is to get it, and what is left to do with the
    /// answer; none if it was refused.
    fn seen(
        &self,
        face: &Arc<Face>,
        backend: &Backend,
        call: &Call,
        request: Message,
    ) -> Option<(Message, Duty)> {
        let grant = &self.principal(face).grant;
        let sight = Sight::new(&backend.plan, grant);
        if !Kind::ALL.into_iter().any(|kind| sight.hides_some(kind)) {
            return Some((request, Duty::Plain));
        }
        let refused = if let Some(why) = sight::doubt(&request) {
            Message::refusal(request.id(), &why)
        } else if let may @ (None | Some(false)) =
            self.fleet.may_ask(face, &backend.plan, grant, &request)
        {
            match may {
                Some(_) => {
                    Message::error(request.id(), &Nowhere::unseen(&request).error(face.era()))
                }
                None => Message::refusal(request.id(), &Refusal::ListsUnknown),
            }
        } else {
            let listed = Kind::ALL.into_iter().find(|kind| kind.method() == request.method());
            let listed = listed.filter(|kind| sight.hides_some(*kind));
            let duty = listed.map(|kind| Duty::Show(Shown::new(kind, &backend.plan, grant)));
            let request = self.narrowed(face, &request).unwrap_or(request);
            return Some((request, duty.unwrap_or(Duty::Plain)));
        };
        call.finish(&refused);
        None
    }

    /// A listen without resources that are hidden; none if it is none of those.
    fn narrowed(&self, face: &Face, request: &Message) -> Option<Message> {
        let mut uris = watched(request);
        let wanted = uris.len();
        uris.retain(|uri| self.fleet.may_watch(face, &self.name, uri));
        if uris.len() == wanted {
            return None;
        }
        Some(request.with(Member::ListenUris, Value::from(uris).to_string()))
    }

    /// What knows what the server lists to whom a client speaks for, where that
    /// decides on what they see.
    fn kept(&self, face: &Face, plan: &ServerPlan, request: &Message) -> Option<Arc<Front>> {
        if !plan.knows_people() || plan.resources.is_open() {
            return None;
        }
        let session = self.session(face);
        Some(self.people.of(face, Some(session.as_ref().map_or(request, |it| &it.hello))))
    }

    fn take(&self, face: &Arc<Face>, call: &Call, request: Message, said: Said) -> Works {
        if let Some(backend) = self.fleet.backend(&self.name) {
            let kept = self.kept(face, &backend.plan, &request);
            if self.fleet.must_learn(face, &backend.plan, &request) {
                return self.open_later(face, call, request, said, kept);
            }
        }
        self.open_now(face, call, request, said)
    }

    /// Goes on with a call once it is known what the server lists, or never will be.
    fn open_later(
        &self,
        face: &Arc<Face>,
        call: &Call,
        request: Message,
        said: Said,
        kept: Option<Arc<Front>>,
    ) -> Works {
        let Some(this) = self.this.upgrade() else { return Works::none() };
        let (face, call) = (Arc::clone(face), call.clone());
        Works::one(async move {
            if let Some(backend) = this.fleet.backend(&this.name) {
                this.fleet.learn(&face, &backend.plan).await;
            }
            drop(kept);
            // One that was cancelled meanwhile goes nowhere.
            if !call.is_over() {
                this.open_now(&face, &call, request, said).await;
            }
        })
    }

    fn open_now(&self, face: &Arc<Face>, call: &Call, request: Message, said: Said) -> Works {
        // The grant may be another since the client came in at the door.
        let is_granted = self.principal(face).may_use(&self.name);
        let Some(backend) = self.fleet.backend(&self.name).filter(|_| is_granted) else {
            call.finish(Failure::CLOSED);
            return Works::none();
        };
        let kept = self.kept(face, &backend.plan, &request);
        let at = At::alone(&self.fleet, kept);
        let Some((request, duty)) = self.seen(face, &backend, call, request) else {
            return Works::none();
        };
        let request = call.forward(&self.name, request);
        self.fleet.want(&self.name);
        if face.era() == Era::Legacy && request.method() == method::INITIALIZE {
            let session = Session::new(face, request.clone(), at);
            let rules = Rules::new(&backend.plan, &self.principal(face).grant);
            let sitting = Sitting { session: Arc::clone(&session), rules };
            lock(&self.sessions).insert(face.number(), sitting);
            let leg = session.own_leg(&self.name, &backend);
            return leg.open(&backend, call, duty, request, said);
        }
        if let Some(session) = self.session(face) {
            if request.method() == method::SET_LEVEL {
                session.keep_level(&request);
            }
            return session.leg(&self.name, &backend).open(&backend, call, duty, request, said);
        }
        if !matches!(duty, Duty::Plain) || request.method() == method::LISTEN {
            Reply::new(face, &self.name, at, duty).set_on(call);
        }
        backend.bridge.open(face, call, request, said)
    }

    fn session(&self, face: &Face) -> Option<Arc<Session>> {
        let session = || Some(Arc::clone(&lock(&self.sessions).get(&face.number())?.session));
        (face.era() == Era::Legacy).then(session).flatten()
    }
}

impl Inside for Alone {
    fn open(&self, face: &Arc<Face>, call: &Call, request: Message, said: Said) -> Works {
        self.take(face, call, request, said)
    }

    fn note(&self, face: &Arc<Face>, message: Message) -> Works {
        let leg = self.session(face).and_then(|session| session.find(&self.name));
        if let Some(bridge) = leg.as_ref().and_then(|leg| leg.greeted()) {
            return bridge.note(face, message);
        }
        let mut works = Works::none();
        for bridge in self.fleet.bridges(|name| *name == *self.name) {
            works.append(bridge.note(face, message.clone()));
        }
        works
    }

    fn forget(&self, face: &Arc<Face>) {
        lock(&self.sessions).remove(&face.number());
        for bridge in self.fleet.bridges(|name| *name == *self.name) {
            bridge.forget(face);
        }
    }

    fn carries(&self) -> Option<Arc<[HeaderName]>> {
        self.fleet.backend(&self.name)?.bridge.carries()
    }

    fn leads_back(&self, who: &Who, through: &Through) -> bool {
        let backend = self.fleet.backend(&self.name);
        backend.is_some_and(|backend| backend.bridge.leads_back(who, through))
    }
}
