//! What the servers of a front offer, to all and to one person, and what of it a client sees.
//!
//! The filters of the plan and the grant of the client decide. Lists and calls are decided
//! alike, so that no client gets by name what no list shows. A URI may be in no list. Then
//! the templates of its server decide:
//!
//! ```text
//!   it is excluded itself, in any spelling             ──▶ hidden
//!   it is not spelled plainly, and no list has it so   ──▶ hidden
//!   it is included itself, or a template that fits is shown ──▶ seen
//!   only others are included                           ──▶ hidden
//!   a template that fits is hidden, and no list has it ──▶ hidden
//!   anything else                                      ──▶ its server knows
//! ```

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use switchboard_net::backend::{Backend as _, PendingWork};
use switchboard_net::client::Client;
use switchboard_net::connection::ClientConnection;
use switchboard_net::roster::{Deferred, Definition, Hints, ListKind, Roster};
use switchboard_proto::jsonrpc::{self, ItemAction, Member, Message, Part};
use switchboard_proto::method;
use switchboard_proto::pattern::fits;
use switchboard_proto::refusal::Refusal;

use super::list::tell;
use super::people::Person;
use super::{Front, FrontRequest};
use crate::catalog::{Catalog, Owned, TemplatePattern, named_by};
use crate::fleet::Fleet;
use crate::glob::NameFilter;
use crate::lock;
use crate::plan::ServerPlan;
use crate::policy::Grant;
use crate::uri::{folded, is_plain};

/// Which definitions there are: those for everybody, those for one person.
/// And which servers wait for a sign-in of that person.
pub(super) type Edition = (u64, u64, u64);

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
        let mut unsigned = DefaultHasher::new();
        self.unsigned().hash(&mut unsigned);
        (self.fleet.roster.edition(), own.unwrap_or_default(), unsigned.finish())
    }

    /// The rosters that know of servers: that of all, and that of one person. Each counts for
    /// the servers that are asked on behalf of the person, or for the others.
    pub(super) fn rosters(&self) -> impl Iterator<Item = (&Roster, bool)> {
        let own = self.person.iter().map(|person| (&person.roster, true));
        std::iter::once((&self.fleet.roster, false)).chain(own)
    }

    /// What all servers offer.
    pub(super) fn definitions(&self) -> Vec<Definition> {
        let listed = |(roster, is_own): (&Roster, bool)| {
            let all = ListKind::ALL.map(|kind| roster.definitions(kind)).into_iter().flatten();
            all.filter(move |it| self.is_own(&it.server) == is_own)
        };
        self.rosters().flat_map(listed).collect()
    }

    /// The servers of this front that are not ready.
    pub(super) fn deferred(&self) -> Vec<Deferred> {
        let members = self.members();
        let mut deferred = Vec::new();
        for (roster, is_own) in self.rosters() {
            let late = roster.deferred().into_iter().filter(|late| members.contains(&late.name));
            deferred.extend(late.filter(|late| self.is_own(&late.name) == is_own));
        }
        deferred.sort_by(|one, other| one.name.cmp(&other.name));
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
            person.roster.wake(server);
        }
    }

    /// How long the lists of all servers may be kept (GW-83), and by whom: not by all where
    /// a server tells them apart, or we do.
    pub(super) fn hints(&self, client: &ClientConnection, kind: ListKind) -> Hints {
        let members = self.members();
        let hints = self.rosters().filter_map(|(roster, is_own)| {
            roster.hints(kind, |name| members.contains(name) && self.is_own(name) == is_own)
        });
        let mut least = hints.reduce(Hints::least).unwrap_or_default();
        least.public &= client.who().name().is_empty() && self.person.is_none();
        least
    }

    /// Has lists read again whose time is over.
    pub(super) fn freshen(&self, kind: ListKind) {
        let members = self.members();
        for (roster, _) in self.rosters() {
            roster.freshen(kind, |name| members.contains(name));
        }
    }

    /// Waits until every server is known or has had its moment.
    pub(super) async fn settled(&self) {
        let own = async {
            if let Some(person) = &self.person {
                person.roster.ready().await;
            }
        };
        tokio::join!(self.fleet.roster.ready(), own);
    }

    /// Whether a request may be for a server that has not yet said what it offers
    /// to this person.
    pub(super) fn may_come(&self, person: &Person, request: &Message, catalog: &Catalog) -> bool {
        let named = named_by(request);
        let named = named.and_then(|(kind, member)| Some((kind, request.string(member)?)));
        let is_missing = match &named {
            Some((kind, name)) => catalog.owner(*kind, name).is_none(),
            None => watched(request).iter().any(|uri| catalog.resource(uri).is_none()),
        };
        if !is_missing {
            return false;
        }
        let members = self.members();
        let mut late = person.awaited().into_iter().filter(|server| members.contains(server));
        late.any(|server| match &named {
            Some((kind @ (ListKind::Tools | ListKind::Prompts), name)) => {
                let running = self.fleet.running(&server);
                running.is_some_and(|it| it.plan.meant(*kind, name).is_some())
            }
            _ => true,
        })
    }

    /// Goes on with a call once it can be told whose it is, or a while has passed.
    pub(super) fn route_later(
        self: &Arc<Self>,
        person: &Arc<Person>,
        request: FrontRequest,
    ) -> PendingWork {
        #[cfg(test)]
        lock(&self.late).push(request.call.clone());
        let (front, person) = (Arc::clone(self), Arc::clone(person));
        PendingWork::one(async move {
            let mut changes = person.roster.changes();
            let told = async {
                while front.may_come(&person, &request.message, &front.catalog())
                    && changes.next().await.is_some()
                {}
            };
            // In time or not, what is known tells.
            _ = tokio::time::timeout(WHOSE, told).await;
            // One that was cancelled meanwhile goes nowhere.
            if !request.call.is_over() {
                let catalog = front.catalog();
                front.route(request, &catalog).await;
            }
        })
    }

    /// How many calls wait until it can be told whose they are.
    #[cfg(test)]
    pub(crate) fn waiting_calls(&self) -> usize {
        lock(&self.late).iter().filter(|call| !call.is_over()).count()
    }
}

impl Front {
    /// Whose something is that no list has, if only one server may have it. It has not said
    /// yet what it offers, or offers something else to each client; its name says whose it is.
    /// A resource may be that of the only server that has any.
    pub(super) fn unlisted(&self, kind: ListKind, offered: &str) -> Option<Owned> {
        let (deferred, members) = (self.deferred(), self.members());
        let is_late =
            |name: &Arc<str>| deferred.iter().any(|late| late.name == *name && !late.is_cached);
        let mut meant = members.iter().filter_map(|server| {
            let name = match kind {
                ListKind::Tools | ListKind::Prompts => {
                    let plan = &self.fleet.running(server)?.plan;
                    let may_be = plan.is_personal() || is_late(server);
                    plan.meant(kind, offered).filter(|_| may_be)?
                }
                ListKind::Resources | ListKind::Templates => {
                    let client = self.known_server(server)?;
                    client.capabilities().get("resources").map(|_| offered.to_owned())?
                }
            };
            Some(Owned { server: Arc::clone(server), name })
        });
        // With nothing before its names one of several may be meant.
        let only = meant.next();
        only.filter(|_| meant.next().is_none())
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
        let Some((kind, own)) = named(request) else { return Some(true) };
        let known = |of| self.lists_for(client, plan).listed(&plan.name, of);
        Visibility { plan, grant }.reaches(kind, &own, known)
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
        message.method() != method::UPDATED
            || message.uri().is_none_or(|uri| self.may_watch(client, server, &uri))
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
        Visibility { plan, grant: &Grant::default() }.reaches(ListKind::Resources, uri, known)
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

impl Front {
    /// Whether somebody has a session here, or listens.
    pub(crate) fn is_occupied(&self) -> bool {
        !lock(&self.sessions).is_empty() || !self.listeners().is_empty()
    }

    /// Whether this client has a session here, or listens.
    pub(crate) fn hosts(&self, client: &ClientConnection) -> bool {
        let listens = || self.listeners().iter().any(|it| it.number() == client.number());
        self.session(client).is_some() || listens()
    }

    /// The bytes of all that it shows, and of whom it is for.
    pub(crate) fn weight(&self) -> usize {
        let person = self.person.as_ref().map_or(0, |person| person.weight());
        let lists = if self.only.is_some() {
            // No catalog is made of what one server lists; it is known all the same.
            self.definitions().iter().map(|it| it.text.len()).sum()
        } else {
            let (_, catalog) = self.known();
            catalog.bytes + catalog.shown_bytes()
        };
        person + lists
    }

    /// Everybody who has a session or listens.
    pub(crate) fn clients(&self) -> Vec<Arc<ClientConnection>> {
        let sessions: Vec<_> = lock(&self.sessions).values().cloned().collect();
        let clients = sessions.iter().map(|session| Arc::clone(&session.client));
        clients.chain(self.listeners()).collect()
    }

    /// A client goes on at another front. Its session lives on, and it hears which
    /// lists are others there; its listens end, and may begin anew.
    pub(crate) fn hand_over(&self, client: &Arc<ClientConnection>, to: &Self) {
        self.end_listens(|listen| listen.client.number() == client.number());
        let Some(session) = self.session(client) else { return };
        // First there, then not here: a call that comes meanwhile finds it.
        lock(&to.sessions).insert(client.number(), Arc::clone(&session));
        lock(&self.sessions).remove(&client.number());
        let (mine, theirs) = (self.members(), to.members());
        let is_lost = |name: &str| mine.contains(name) && !theirs.contains(name);
        session.leave(is_lost);
        for bridge in self.fleet.bridges(is_lost) {
            bridge.forget(client);
        }
        if self.only.is_some() {
            return to.tell_rules_of(self, client);
        }
        let (old, new) = (self.catalog(), to.catalog());
        for list in new.changed_lists(&old) {
            if let Some(note) = method::list_changed(list) {
                tell(client, None, &Message::notification(note, None));
            }
        }
    }
}

/// Why a request may not mean to its server what it means to us, if so.
pub(super) fn doubt(request: &Message) -> Option<Refusal> {
    if !Part::new(request.payload()?).is_object() {
        return Some(Refusal::BadParams { what: "params must be an object".to_owned() });
    }
    if let Some(member) = request.ambiguous() {
        let what = format!("{} must be in params once, and in these letters", member.key());
        return Some(Refusal::BadParams { what });
    }
    // What must be there so that it can be told what the request asks for.
    let what = match request.method() {
        _ if named(request).is_some() => return None,
        method::CALL_TOOL | method::GET_PROMPT => "params.name must be a string",
        method::READ_RESOURCE | method::SUBSCRIBE => "params.uri must be a string",
        method::COMPLETE => "params.ref must have a type, and a name or uri that is a string",
        method::LISTEN => {
            let wanted = request.part(Member::Notifications)?;
            let uris = request.part(Member::ListenUris);
            let is_list = |uris: Part<'_>| uris.read::<Vec<String>>().is_ok();
            if wanted.is_object() && uris.is_none_or(is_list) {
                return None;
            }
            "resourceSubscriptions is a list of some strings"
        }
        _ => return None,
    };
    Some(Refusal::BadParams { what: what.to_owned() })
}

/// What a request asks for, by the words that are in it. A client may stop to watch what it
/// does not see any more.
fn named(request: &Message) -> Option<(ListKind, Cow<'_, str>)> {
    let (kind, member) = named_by(request).filter(|_| request.method() != method::UNSUBSCRIBE)?;
    Some((kind, request.string(member)?))
}

/// What of one server is for somebody's eyes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visibility<'a> {
    pub(crate) plan: &'a ServerPlan,
    pub(crate) grant: &'a Grant,
}

impl Visibility<'_> {
    /// Whether something of a kind is hidden.
    pub(crate) fn hides_some(&self, kind: ListKind) -> bool {
        !self.plan.filter(kind).is_open()
            || (kind == ListKind::Tools && !self.grant.has_all_tools())
    }

    /// Whether a list shows this, by its own name.
    pub(crate) fn shows(&self, kind: ListKind, own: &str) -> bool {
        let is_granted = || kind != ListKind::Tools || self.grant.lists_tool(&self.plan.name, own);
        self.plan.filter(kind).lets(own) && is_granted()
    }

    /// Whether this may be asked for, by its own name; none if that depends on
    /// lists that are not known. `known` has the names of all that the server
    /// lists of a kind.
    pub(crate) fn reaches(
        &self,
        kind: ListKind,
        own: &str,
        known: impl Fn(ListKind) -> Option<Vec<String>>,
    ) -> Option<bool> {
        if !self.hides_some(kind) {
            return Some(true);
        }
        match kind {
            ListKind::Tools => {
                let is_granted = self.grant.has_tool(&self.plan.name, own);
                Some(is_granted && self.shows(kind, own))
            }
            ListKind::Prompts => Some(self.shows(kind, own)),
            ListKind::Templates if known(kind)?.iter().any(|text| text == own) => {
                Some(self.shows(kind, own))
            }
            ListKind::Resources | ListKind::Templates => reaches(&self.plan.resources, own, known),
        }
    }

    /// A list without what is hidden.
    pub(crate) fn without_hidden(&self, kind: ListKind, answer: &Message) -> Message {
        if answer.kind() != jsonrpc::Kind::Result {
            return answer.clone();
        }
        answer.with_list(kind.member(), |item| {
            let own = item.string(kind.key());
            if own.is_none_or(|own| self.shows(kind, &own)) {
                ItemAction::Keep
            } else {
                ItemAction::Drop
            }
        })
    }
}

fn reaches(
    filter: &NameFilter,
    uri: &str,
    known: impl Fn(ListKind) -> Option<Vec<String>>,
) -> Option<bool> {
    let any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, uri));
    let plain = folded(uri);
    let is_never = |pattern: &String| fits(pattern, uri) || fits(&folded(pattern), &plain);
    if filter.never.iter().any(is_never) {
        return Some(false);
    }
    let is_listed = || Some(known(ListKind::Resources)?.iter().any(|listed| listed == uri));
    if !is_plain(uri) {
        return Some(filter.lets(uri) && is_listed()?);
    }
    if filter.only.as_deref().is_some_and(any) {
        return Some(true);
    }
    let templates = known(ListKind::Templates)?;
    let mut fitting = templates.iter().filter(|template| TemplatePattern::new(template).fits(uri));
    if fitting.any(|template| filter.lets(template)) {
        return Some(true);
    }
    let may_fit = |template: &String| {
        TemplatePattern::new(template).fits(uri)
            || TemplatePattern::new(&folded(template)).fits(&plain)
    };
    Some(filter.only.is_none() && (!templates.iter().any(may_fit) || is_listed()?))
}

#[cfg(test)]
mod tests;
