//! The path of one server: a view with one member, which is passed on as it is.
//!
//! Greetings, lists and listens go to the server itself. What the plan or the grant
//! hides is taken out of its lists, and cannot be called. A session outlives its
//! server: when another takes the place of that, the client's next call makes us
//! repeat its greeting there.

use std::sync::Arc;

use serde_json::Value;
use switchboard_net::backend::{Backend as _, PendingWork};
use switchboard_net::call::Call;
use switchboard_net::connection::ClientConnection;
use switchboard_net::roster::ListKind;
use switchboard_proto::exchange::HeaderParams;
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use switchboard_proto::server::legacy::Phase;

use super::list::tell;
use super::reply::{AnswerChange, PathContext, ServerReply};
use super::session::ClientSession;
use super::visibility::{self, Visibility, watched};
use super::{Front, finish};
use crate::catalog::Nowhere;
use crate::fleet::RunningServer;
use crate::glob::NameFilter;
use crate::lock;
use crate::plan::ServerPlan;
use crate::policy::Grant;

const LISTS: [ListKind; 3] = [ListKind::Tools, ListKind::Prompts, ListKind::Resources];

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
    fn tell_changed(&self, old: &Self, client: &Arc<ClientConnection>) {
        for (at, kind) in LISTS.into_iter().enumerate() {
            let is_granted = kind != ListKind::Tools || self.granted == old.granted;
            let is_same = is_granted && self.plan[at] == old.plan[at];
            if let (false, Some(name)) = (is_same, method::list_changed(kind.capability())) {
                tell(client, None, &Message::notification(name, None));
            }
        }
    }
}

impl Front {
    /// Remembers the rules as they are now; returns those of before.
    pub(super) fn renew_rules(&self) -> (Option<Rules>, Option<Rules>) {
        let running = self.only.as_ref().and_then(|name| self.running(name));
        let new = running.map(|running| Rules::new(&running.plan, &self.grant));
        let mut rules = lock(&self.rules);
        let old = rules.clone();
        if new.is_some() {
            // While the server is not there, what was told last stays.
            rules.clone_from(&new);
        }
        (old, new)
    }

    /// The plan is another: tells clients whose lists are others now.
    pub(super) fn tell_rules_changed(&self) {
        if let (Some(old), Some(new)) = self.renew_rules() {
            for session in self.ready_sessions() {
                new.tell_changed(&old, &session.client);
            }
        }
    }

    /// A client came from another front of the same path.
    pub(super) fn tell_rules_of(&self, before: &Self, client: &Arc<ClientConnection>) {
        let (old, new) = (lock(&before.rules).clone(), lock(&self.rules).clone());
        let is_ready = client.phase() == Some(Phase::Ready);
        if let (Some(old), Some(new), true) = (old, new, is_ready) {
            new.tell_changed(&old, client);
        }
    }

    /// Passes a call on, once it is known what the server lists if that decides on it.
    pub(super) fn open_at_one(
        &self,
        name: &Arc<str>,
        client: &Arc<ClientConnection>,
        call: &Call,
        request: Message,
        said: HeaderParams,
    ) -> PendingWork {
        let running = self.running(name);
        let Some(running) = running.filter(|it| self.fleet.must_learn(client, &it.plan, &request))
        else {
            return self.to_only_server(name, client, call, request, said);
        };
        let Some(front) = self.this.upgrade() else { return PendingWork::none() };
        let (name, client, call) = (Arc::clone(name), Arc::clone(client), call.clone());
        PendingWork::one(async move {
            front.fleet.learn(&client, &running.plan).await;
            drop(running);
            // One that was cancelled meanwhile goes nowhere.
            if !call.is_over() {
                front.to_only_server(&name, &client, &call, request, said).await;
            }
        })
    }

    fn to_only_server(
        &self,
        name: &Arc<str>,
        client: &Arc<ClientConnection>,
        call: &Call,
        request: Message,
        said: HeaderParams,
    ) -> PendingWork {
        let Some(running) = self.running(name) else { return finish(call, Failure::CLOSED) };
        let (request, change) = match self.seen(client, &running, request) {
            Ok(seen) => seen,
            Err(refused) => return finish(call, refused),
        };
        let request = call.forward(name, request);
        self.fleet.want(name);
        if client.era() == Era::Legacy && request.method() == method::INITIALIZE {
            let session =
                ClientSession::new(client, request.clone(), PathContext::one(&self.fleet, None));
            lock(&self.sessions).insert(client.number(), Arc::clone(&session));
            return session.own_link(name, &running).open(&running, call, change, request, said);
        }
        if let Some(session) = self.session(client) {
            if request.method() == method::SET_LEVEL {
                session.keep_level(&request);
            }
            return session.link(name, &running).open(&running, call, change, request, said);
        }
        if !matches!(change, AnswerChange::Plain) || request.method() == method::LISTEN {
            // What decides on what is told must be known for as long as the call lasts.
            let at = PathContext::one(&self.fleet, self.this.upgrade());
            ServerReply::new(client, name, at, change).set_on(call);
        }
        running.bridge.open(client, call, request, said)
    }

    /// The request as its server is to get it, and what is left to do with the answer.
    fn seen(
        &self,
        client: &ClientConnection,
        running: &RunningServer,
        request: Message,
    ) -> Result<(Message, AnswerChange), Outcome> {
        let visibility = Visibility::new(&running.plan, &self.grant);
        if !ListKind::ALL.into_iter().any(|kind| visibility.hides_some(kind)) {
            return Ok((request, AnswerChange::Plain));
        }
        if let Some(why) = visibility::doubt(&request) {
            return Err(why.into());
        }
        match self.fleet.may_ask(client, &running.plan, &self.grant, &request) {
            Some(true) => {}
            Some(false) => {
                let error = Nowhere::unseen(&request).error(client.era());
                return Err(Message::error(request.id(), &error).into());
            }
            None => return Err(Refusal::ListsUnknown.into()),
        }
        let listed = ListKind::ALL.into_iter().find(|kind| kind.method() == request.method());
        let listed = listed.filter(|kind| visibility.hides_some(*kind));
        let change = listed.map(|kind| {
            let (plan, grant) = (Arc::clone(&running.plan), self.grant.clone());
            AnswerChange::Show { kind, plan, grant }
        });
        let request = self.narrowed(client, &running.plan.name, &request).unwrap_or(request);
        Ok((request, change.unwrap_or(AnswerChange::Plain)))
    }

    /// A listen without resources that are hidden; none if nothing is.
    fn narrowed(
        &self,
        client: &ClientConnection,
        name: &str,
        request: &Message,
    ) -> Option<Message> {
        let mut uris = watched(request);
        let wanted = uris.len();
        uris.retain(|uri| self.fleet.may_watch(client, name, uri));
        if uris.len() == wanted {
            return None;
        }
        Some(request.with(Member::ListenUris, Value::from(uris).to_string()))
    }

    /// A notification of a client, to the server.
    pub(super) fn note_to_one(
        &self,
        name: &str,
        client: &Arc<ClientConnection>,
        message: &Message,
    ) -> PendingWork {
        let link = self.session(client).and_then(|session| session.find(name));
        if let Some(bridge) = link.as_ref().and_then(|link| link.greeted()) {
            return bridge.note(client, message.clone());
        }
        let mut works = PendingWork::none();
        for bridge in self.fleet.bridges(|it| it == name) {
            works.append(bridge.note(client, message.clone()));
        }
        works
    }
}
