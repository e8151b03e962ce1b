//! The path of one server: a view with one member, which is passed on as it is.
//!
//! Greetings, lists and listens go to the server itself. What the plan or the grant
//! hides is taken out of its lists, and cannot be called. A session outlives its
//! server: when another takes the place of that, the client's next call makes us
//! repeat its greeting there.

use std::sync::Arc;

use serde_json::Value;
use switchboard_net::backend::{Backend as _, PendingWork};
use switchboard_net::connection::ClientConnection;
use switchboard_net::roster::ListKind;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::server::legacy::Phase;

use super::list::tell;
use super::reply::AnswerChange;
use super::visibility::{self, Visibility, watched};
use super::{Front, FrontRequest};
use crate::catalog::Nowhere;
use crate::fleet::RunningServer;
use crate::lock;
use crate::plan::ServerPlan;
use crate::policy::Grant;

impl Front {
    /// Remembers the plan of the server as it is now; returns that of before. While the
    /// server is not there, what was told last stays.
    pub(super) fn renew_rules(&self) -> Option<Arc<ServerPlan>> {
        let running = self.running(self.only.as_ref()?)?;
        lock(&self.rules).replace(Arc::clone(&running.plan))
    }

    /// The plan is another: tells clients whose lists are others now.
    pub(super) fn tell_rules_changed(&self) {
        if let Some(old) = self.renew_rules() {
            for session in self.ready_sessions() {
                self.tell_lists(&old, &self.grant, &session.client);
            }
        }
    }

    /// A client came from another front of the same path.
    pub(super) fn tell_rules_of(&self, before: &Self, client: &Arc<ClientConnection>) {
        let old = lock(&before.rules).clone();
        if let Some(old) = old.filter(|_| client.phase() == Some(Phase::Ready)) {
            self.tell_lists(&old, &before.grant, client);
        }
    }

    /// Tells a client of the lists that are others by this plan and grant than by those of
    /// before: the filters of the plan, and the tools of a grant.
    fn tell_lists(&self, old: &ServerPlan, grant: &Grant, client: &Arc<ClientConnection>) {
        let Some(new) = lock(&self.rules).clone() else { return };
        for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
            let is_granted = kind != ListKind::Tools || self.grant.tools == grant.tools;
            let is_same = is_granted && new.filter(kind) == old.filter(kind);
            if let (false, Some(name)) = (is_same, method::list_changed(kind.capability())) {
                tell(client, None, &Message::notification(name, None));
            }
        }
    }

    /// Passes a call on, once it is known what the server lists if that decides on it.
    pub(super) fn open_at_one(
        self: &Arc<Self>,
        name: &Arc<str>,
        request: FrontRequest,
    ) -> PendingWork {
        if let Some(running) = self.running(name)
            && self.is_sign_in(&running.plan, &request.message)
        {
            return self.sign_in(request, &running);
        }
        let must_learn = |it: &Arc<RunningServer>| {
            self.fleet.must_learn(&request.client, &it.plan, &request.message)
        };
        let Some(running) = self.running(name).filter(must_learn) else {
            return self.to_only_server(name, request);
        };
        let (front, name) = (Arc::clone(self), Arc::clone(name));
        PendingWork::one(async move {
            front.fleet.learn(&request.client, &running.plan).await;
            drop(running);
            // One that was cancelled meanwhile goes nowhere.
            if !request.call.is_over() {
                front.to_only_server(&name, request).await;
            }
        })
    }

    pub(super) fn to_only_server(
        self: &Arc<Self>,
        name: &Arc<str>,
        mut request: FrontRequest,
    ) -> PendingWork {
        let Some(running) = self.running(name) else { return request.finish(Failure::CLOSED) };
        let visibility = Visibility { plan: &running.plan, grant: &self.grant };
        let mut change = AnswerChange::Plain;
        let approvals = self.fleet.approvals();
        if let Some(why) = approvals.refusal(name, &request.message) {
            return request.fail(why);
        }
        let hides = |kind: ListKind| visibility.hides_some(kind) || approvals.may_hold(kind);
        if ListKind::ALL.into_iter().any(hides) {
            let (client, message) = (&request.client, &request.message);
            if let Some(why) = visibility::doubt(message) {
                return request.finish(why);
            }
            match self.fleet.may_ask(client, &running.plan, &self.grant, message) {
                Some(true) => {}
                Some(false) => return request.fail(Nowhere::unseen(message)),
                None => return request.finish(Refusal::ListsUnknown),
            }
            let mut listed = ListKind::ALL.into_iter();
            let listed = listed.find(|kind| kind.method() == message.method());
            if let Some(kind) = listed.filter(|kind| hides(*kind)) {
                let (plan, grant) = (Arc::clone(&running.plan), self.grant.clone());
                change = AnswerChange::Show { kind, plan, grant };
            }
            // A listen is without resources that are hidden.
            let mut uris = watched(message);
            let wanted = uris.len();
            uris.retain(|uri| self.fleet.may_watch(client, name, uri));
            if uris.len() < wanted {
                request.message = message.with(Member::ListenUris, Value::from(uris).to_string());
            }
        }
        self.to_server(request, name, &running, change)
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
