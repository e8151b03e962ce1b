//! Whether a client may ask a server for something, and hear of it, by what that
//! server lists to whom the client speaks for.

use switchboard_net::face::Face;
use switchboard_net::roster::{Kind, Roster};
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;

use crate::fleet::Fleet;
use crate::plan::ServerPlan;
use crate::policy::Grant;
use crate::sight::{self, Sight};

impl Fleet {
    /// Whether a server of this plan may be asked for this by somebody with this
    /// grant; none if its lists decide, and are not known. The request is in the
    /// server's own words.
    pub(super) fn may_ask(
        &self,
        face: &Face,
        plan: &ServerPlan,
        grant: &Grant,
        request: &Message,
    ) -> Option<bool> {
        let Some((kind, own)) = sight::named(request) else { return Some(true) };
        let known = |of| self.lists_for(face, plan).listed(&plan.name, of);
        Sight::new(plan, grant).reaches(kind, &own, known)
    }

    /// Whether a client may watch a resource of a server; not if that is not known.
    pub(super) fn may_watch(&self, face: &Face, server: &str, uri: &str) -> bool {
        let Some(backend) = self.backend(server) else { return true };
        self.sees(face, &backend.plan, uri) == Some(true)
    }

    /// Whether a client may hear this of a server: not of resources that are hidden.
    pub(super) fn may_tell(&self, face: &Face, server: &str, message: &Message) -> bool {
        let is_update = message.method() == method::UPDATED;
        is_update
            .then(|| message.uri())
            .flatten()
            .is_none_or(|uri| self.may_watch(face, server, &uri))
    }

    /// Whether lists decide on a request that are not known.
    pub(super) fn must_learn(&self, face: &Face, plan: &ServerPlan, request: &Message) -> bool {
        if plan.resources.is_open() {
            // Everything else is decided by its name alone.
            return false;
        }
        self.may_ask(face, plan, &Grant::default(), request).is_none()
            || watched(request).iter().any(|uri| self.sees(face, plan, uri).is_none())
    }

    /// Waits until the lists that decide are known, for as long as the server may
    /// take to start: it would make a call wait too.
    pub(super) async fn learn(&self, face: &Face, plan: &ServerPlan) {
        let roster = self.lists_for(face, plan);
        roster.wake(&plan.name);
        roster.until_listed(&plan.name, plan.start).await;
    }

    fn sees(&self, face: &Face, plan: &ServerPlan, uri: &str) -> Option<bool> {
        let known = |of| self.lists_for(face, plan).listed(&plan.name, of);
        Sight::new(plan, &Grant::default()).reaches(Kind::Resources, uri, known)
    }

    /// Who knows what a server lists to whom a client speaks for: it may tell
    /// people apart, and what it lists to us is not what it lists to them.
    fn lists_for(&self, face: &Face, plan: &ServerPlan) -> Roster {
        let person = || self.people.find(face).filter(|person| person.has(&plan.name));
        let person = plan.knows_people().then(person).flatten();
        person.map_or_else(|| self.roster.clone(), |person| person.roster.clone())
    }
}

/// The resources that a listen is for.
pub(super) fn watched(request: &Message) -> Vec<String> {
    let is_listen = request.method() == method::LISTEN;
    is_listen.then(|| request.read(Member::ListenUris)).flatten().unwrap_or_default()
}
