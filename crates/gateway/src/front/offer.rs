//! What the servers of a front offer, to everybody and to one person, and what a client may
//! ask for and hear of by that.

use std::sync::Arc;
use std::time::Duration;

use switchboard_net::backend::PendingWork;
use switchboard_net::call::Call;
use switchboard_net::client::Client;
use switchboard_net::connection::ClientConnection;
use switchboard_net::roster::{Deferred, Definition, Hints, ListKind, Roster};
use switchboard_proto::exchange::HeaderParams;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;

use super::Front;
use crate::catalog::{Catalog, Owned};
use crate::fleet::Fleet;
use crate::plan::ServerPlan;
use crate::policy::Grant;
use crate::route::Servers;
use crate::visibility::{self, Visibility};

/// Which definitions there are: those for everybody, those for one person.
pub(super) type Edition = (u64, u64);

/// How long a call waits to learn whose it is. Its server is being started, and
/// would make it wait too.
const WHOSE: Duration = Duration::from_secs(10);

impl Front {
    /// Whether this server is asked on behalf of one person.
    fn is_own(&self, server: &str) -> bool {
        self.person.as_ref().is_some_and(|person| person.has(server))
    }

    pub(super) fn edition(&self) -> Edition {
        let own = self.person.as_ref().map(|person| person.roster.edition());
        (self.fleet.roster.edition(), own.unwrap_or_default())
    }

    /// What all servers offer.
    pub(super) fn definitions(&self) -> Vec<Definition> {
        let all = |kind| self.fleet.roster.definitions(kind);
        let all = ListKind::ALL.into_iter().flat_map(all).filter(|it| !self.is_own(&it.server));
        let own = self.person.iter().flat_map(|person| {
            ListKind::ALL.into_iter().flat_map(|kind| person.roster.definitions(kind))
        });
        all.chain(own).collect()
    }

    /// The servers that are not ready.
    pub(super) fn deferred(&self) -> Vec<Deferred> {
        let mut deferred = self.fleet.deferred();
        if let Some(person) = &self.person {
            deferred.retain(|late| !person.has(&late.name));
            deferred.extend(person.roster.deferred());
            deferred.sort_by(|one, other| one.name.cmp(&other.name));
        }
        deferred
    }

    /// What a server that is ready, or sleeps, has said of itself.
    pub(super) fn known_server(&self, server: &str) -> Option<Client> {
        match self.person.as_ref().filter(|person| person.has(server)) {
            Some(person) => person.roster.known(server),
            None => self.fleet.roster.known(server),
        }
    }

    /// Somebody wants something of a server.
    pub(super) fn want(&self, server: &str) {
        self.fleet.want(server);
        if let Some(person) = &self.person {
            person.want(server);
        }
    }

    /// How long the lists of all servers may be kept (GW-83).
    pub(super) fn least_hints(&self, kind: ListKind) -> Hints {
        let members = self.members();
        let is_all = |name: &str| members.contains(name) && !self.is_own(name);
        let all = self.fleet.roster.hints(kind, is_all);
        let own = self.person.as_ref().and_then(|person| {
            let is_own = |name: &str| members.contains(name) && person.has(name);
            person.roster.hints(kind, is_own)
        });
        all.into_iter().chain(own).reduce(Hints::least).unwrap_or_default()
    }

    /// Has lists read again whose time is over.
    pub(super) fn freshen(&self, kind: ListKind) {
        let members = self.members();
        self.fleet.roster.freshen(kind, |name| members.contains(name));
        if let Some(person) = &self.person {
            person.roster.freshen(kind, |name| members.contains(name));
        }
    }

    /// Waits until every server is known or has had its moment.
    pub(super) async fn settled(&self) {
        let own = async {
            if let Some(person) = &self.person {
                person.roster.ready().await;
            }
        };
        tokio::join!(self.fleet.settled(), own);
    }

    /// Whether a request may be for a server that has not yet said what it offers
    /// to this person.
    pub(super) fn may_come(&self, request: &Message, catalog: &Catalog) -> bool {
        let Some(person) = &self.person else { return false };
        let is_missing = match request.method() {
            method::CALL_TOOL => request.name().map(|name| catalog.tool(&name).is_none()),
            method::GET_PROMPT => request.name().map(|name| catalog.prompt(&name).is_none()),
            method::READ_RESOURCE | method::SUBSCRIBE | method::UNSUBSCRIBE => {
                request.uri().map(|uri| catalog.resource(&uri).is_none())
            }
            method::COMPLETE => {
                let uri = request.string(Member::RefUri);
                let name = || request.string(Member::RefName);
                uri.map(|uri| catalog.template(&uri).is_none())
                    .or_else(|| name().map(|it| catalog.prompt(&it).is_none()))
            }
            method::LISTEN => {
                let uris: Option<Vec<String>> = request.read(Member::ListenUris);
                uris.map(|uris| uris.iter().any(|uri| catalog.resource(uri).is_none()))
            }
            _ => None,
        };
        if is_missing != Some(true) {
            return false;
        }
        let kind = match request.method() {
            method::CALL_TOOL => ListKind::Tools,
            _ => ListKind::Prompts,
        };
        let name = request.name().or_else(|| request.string(Member::RefName));
        let members = self.members();
        let mut late = person.awaited().into_iter().filter(|server| members.contains(server));
        late.any(|server| {
            let running = self.fleet.running(&server);
            let meant = |name: &str| running.is_some_and(|it| it.plan.meant(kind, name).is_some());
            name.as_deref().is_none_or(meant)
        })
    }

    /// Goes on with a call once it can be told whose it is.
    pub(super) fn route_later(
        &self,
        client: &Arc<ClientConnection>,
        call: &Call,
        request: &Message,
        said: HeaderParams,
    ) -> PendingWork {
        let Some(front) = self.this.upgrade() else { return PendingWork::none() };
        let (client, call, request) = (Arc::clone(client), call.clone(), request.clone());
        #[cfg(test)]
        super::lock(&self.late).push(call.clone());
        PendingWork::one(async move {
            front.until_told(&request).await;
            // One that was cancelled meanwhile goes nowhere.
            if !call.is_over() {
                let catalog = front.catalog();
                front.route_now(&client, &call, &request, said, &catalog).await;
            }
        })
    }

    /// How many calls wait until it can be told whose they are.
    #[cfg(test)]
    pub(crate) fn waiting_calls(&self) -> usize {
        super::lock(&self.late).iter().filter(|call| !call.is_over()).count()
    }

    /// Waits until a call can be told whose it is, for a while at most.
    async fn until_told(&self, request: &Message) {
        let Some(person) = &self.person else { return };
        let mut changes = person.roster.changes();
        let told = async {
            while self.may_come(request, &self.catalog()) && changes.next().await.is_some() {}
        };
        // In time or not, what is known tells.
        _ = tokio::time::timeout(WHOSE, told).await;
    }
}

impl Servers for Front {
    fn unlisted(&self, kind: ListKind, offered: &str) -> Option<Owned> {
        let (deferred, members) = (self.deferred(), self.members());
        let is_late = |name| deferred.iter().any(|late| late.name == name && !late.is_cached);
        let meant = members.iter().filter_map(|server| {
            let plan = &self.fleet.running(server)?.plan;
            let name = plan.meant(kind, offered)?;
            let may_be = plan.is_personal() || is_late(Arc::clone(server));
            may_be.then(|| Owned { server: Arc::clone(server), name })
        });
        let mut meant: Vec<_> = meant.collect();
        // With nothing before its names one of several may be meant.
        if meant.len() == 1 { meant.pop() } else { None }
    }

    fn only_with_resources(&self) -> Option<Arc<str>> {
        let members = self.members();
        let mut having = members.iter().filter(|name| {
            let client = self.known_server(name);
            client.is_some_and(|client| client.capabilities().get("resources").is_some())
        });
        let only = having.next();
        only.filter(|_| having.next().is_none()).cloned()
    }
}

impl Fleet {
    /// Whether a server of this plan may be asked for this by somebody with this
    /// grant; none if its lists decide, and are not known. The request is in the
    /// server's own words.
    pub(super) fn may_ask(
        &self,
        client: &ClientConnection,
        plan: &ServerPlan,
        grant: &Grant,
        request: &Message,
    ) -> Option<bool> {
        let Some((kind, own)) = visibility::named(request) else { return Some(true) };
        let known = |of| self.lists_for(client, plan).listed(&plan.name, of);
        Visibility::new(plan, grant).reaches(kind, &own, known)
    }

    /// Whether a client may watch a resource of a server; not if that is not known.
    pub(super) fn may_watch(&self, client: &ClientConnection, server: &str, uri: &str) -> bool {
        let Some(running) = self.running(server) else { return true };
        self.sees(client, &running.plan, uri) == Some(true)
    }

    /// Whether a client may hear this of a server: not of resources that are hidden.
    pub(super) fn may_tell(
        &self,
        client: &ClientConnection,
        server: &str,
        message: &Message,
    ) -> bool {
        let is_update = message.method() == method::UPDATED;
        is_update
            .then(|| message.uri())
            .flatten()
            .is_none_or(|uri| self.may_watch(client, server, &uri))
    }

    /// Whether lists decide on a request that are not known.
    pub(super) fn must_learn(
        &self,
        client: &ClientConnection,
        plan: &ServerPlan,
        request: &Message,
    ) -> bool {
        if plan.resources.is_open() {
            // Everything else is decided by its name alone.
            return false;
        }
        self.may_ask(client, plan, &Grant::default(), request).is_none()
            || watched(request).iter().any(|uri| self.sees(client, plan, uri).is_none())
    }

    /// Waits until the lists that decide are known, for as long as the server may
    /// take to start: it would make a call wait too.
    pub(super) async fn learn(&self, client: &ClientConnection, plan: &ServerPlan) {
        let roster = self.lists_for(client, plan);
        roster.wake(&plan.name);
        roster.until_listed(&plan.name, plan.start).await;
    }

    fn sees(&self, client: &ClientConnection, plan: &ServerPlan, uri: &str) -> Option<bool> {
        let known = |of| self.lists_for(client, plan).listed(&plan.name, of);
        Visibility::new(plan, &Grant::default()).reaches(ListKind::Resources, uri, known)
    }

    /// Who knows what a server lists to whom a client speaks for: it may tell
    /// people apart, and what it lists to us is not what it lists to them.
    fn lists_for(&self, client: &ClientConnection, plan: &ServerPlan) -> Roster {
        let person = || self.people.find(client).filter(|person| person.has(&plan.name));
        let person = plan.knows_people().then(person).flatten();
        person.map_or_else(|| self.roster.clone(), |person| person.roster.clone())
    }
}

/// The resources that a listen is for.
pub(super) fn watched(request: &Message) -> Vec<String> {
    let is_listen = request.method() == method::LISTEN;
    is_listen.then(|| request.read(Member::ListenUris)).flatten().unwrap_or_default()
}
