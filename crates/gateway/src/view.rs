//! What a client sees of the servers, and the way of its requests.
//!
//! ```text
//!   client ──▶ Views: what is granted to its principal? ──▶ a Front of just that
//!   Front ┬─▶ catalog.rs: whose is it? ──▶ session.rs: is the server greeted? ──▶ bridge ──▶ server
//!         ├─▶ list.rs: answered here, of what is known
//!         └─▶ listen.rs: some of both
//! ```
//!
//! There is a `Front` for each grant, and it is made of nothing but what that
//! grant has; where a server tells people apart, one for each person. So no list, no
//! error, no instruction and no count shows a principal what only another may see.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, Weak};

use http::HeaderName;
use serde_json::{Value, json};
use switchboard_net::OwnedTask;
use switchboard_net::access::Who;
use switchboard_net::backend::{Backend, PendingWork};
use switchboard_net::bridge::Bridge;
use switchboard_net::call::Call;
use switchboard_net::connection::ClientConnection;
use switchboard_net::parked_calls::Sealer;
use switchboard_net::roster::Roster;
use switchboard_net::upstream::{self, Through};
use switchboard_proto::Table;
use switchboard_proto::exchange::{Ask, HeaderParams};
use switchboard_proto::failure::{Failure, Outcome, Words};
use switchboard_proto::jsonrpc::{Id, Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use switchboard_proto::server::legacy::Phase;

use crate::authenticator::{Authenticator, Hearing};
use crate::catalog::{Catalog, Destination, Nowhere};
use crate::fleet::{Fleet, RunningServer};
use crate::monitor::{self, OwnTool};
use crate::plan::{ServerPlan, ToolSearch};
use crate::policy::Grant;
use crate::{lock, read, write};
use listen::OpenListens;
use people::{Person, RememberedPeople};
use reply::{AnswerChange, PathContext, ServerReply, TaskOwner};
use session::{ClientSession, LinkStage};
use visibility::Edition;

pub(crate) use people::People;
pub use people::PersonBounds;
pub(crate) use reply::GatewayTasks;

mod connected;
mod list;
mod listen;
mod one;
mod people;
mod reply;
mod session;
mod sign_in;
mod tool_search;
pub(crate) mod visibility;

/// The fronts of one path. Each client gets the one that is theirs.
pub(crate) struct Views {
    fleet: Arc<Fleet>,
    members: RwLock<Arc<[Arc<str>]>>,
    /// The one server of this path, which is passed on as it is.
    only: Option<Arc<str>>,
    authenticator: Arc<Authenticator>,
    /// One for all, so that a call goes on if a grant changes between its rounds. None only
    /// if the system had no randomness for a key: then no state is let through.
    sealer: Option<Arc<Sealer>>,
    /// As many as there are grants of principals.
    fronts: Mutex<Vec<Arc<Front>>>,
    /// When grants are others.
    _hearing: Hearing,
    /// Those that are for one person each.
    people: Mutex<RememberedPeople>,
    this: Weak<Self>,
}

impl Views {
    /// Offers these servers of a fleet to whom `authenticator` lets in; `only` one of them
    /// as it is. Must be called within a tokio runtime.
    pub(crate) fn new(
        fleet: &Arc<Fleet>,
        members: Arc<[Arc<str>]>,
        only: Option<Arc<str>>,
        authenticator: &Arc<Authenticator>,
    ) -> Arc<Self> {
        let sealer = fleet.sealer(&format!("servers {}", members.join(" ")));
        let views = Arc::new_cyclic(|this: &Weak<Self>| {
            let views = Weak::clone(this);
            let regrant = move || {
                if let Some(views) = views.upgrade() {
                    views.regrant();
                }
            };
            Self {
                fleet: Arc::clone(fleet),
                members: RwLock::new(members),
                only,
                authenticator: Arc::clone(authenticator),
                sealer: sealer.map(Arc::new),
                fronts: Mutex::default(),
                people: Mutex::default(),
                this: Weak::clone(this),
                _hearing: authenticator.on_replace(regrant),
            }
        });
        fleet.remember(&views);
        views
    }

    /// Ends every listen with its result, before a shutdown (SUB-8).
    pub(crate) fn close(&self) {
        for front in self.each() {
            front.end_listens(|_| true);
        }
    }

    /// Tells everybody that there are other tools.
    pub(crate) fn tell_tools(&self) {
        for front in self.each() {
            front.tell_changed("tools");
        }
    }

    /// Somebody has approved a definition: tells clients whose lists are others now.
    pub(crate) fn review_again(&self) {
        for front in self.each() {
            if self.only.is_some() {
                front.tell_changed("tools");
                front.tell_changed("prompts");
            } else {
                front.make_anew();
            }
        }
    }

    /// Offers these servers from here on; tells clients whose lists are others now.
    pub(crate) fn change(&self, members: &Arc<[Arc<str>]>) {
        // Before the fronts are looked at: one that is made meanwhile has them.
        *write(&self.members) = Arc::clone(members);
        for front in self.each() {
            front.change(members);
        }
        // A server may tell people apart that did not, or the other way round.
        self.rehouse();
    }

    fn members(&self) -> Arc<[Arc<str>]> {
        Arc::clone(&read(&self.members))
    }

    fn each(&self) -> Vec<Arc<Front>> {
        let all = lock(&self.fronts).clone();
        all.into_iter().chain(lock(&self.people).fronts().map(Arc::clone)).collect()
    }

    /// What a client sees, made if nobody has seen it yet. `words` are its own.
    pub(crate) fn find_front(
        &self,
        client: &ClientConnection,
        words: Option<&Message>,
    ) -> Arc<Front> {
        let principal = self.authenticator.principal_of(client.who());
        let nothing = Grant::nothing();
        let grant = principal.as_ref().map_or(&nothing, |principal| &principal.grant);
        if self.knows_people(grant) {
            return self.front_of_person(grant, client, words);
        }
        let mut fronts = lock(&self.fronts);
        if let Some(front) = fronts.iter().find(|front| front.grant == *grant) {
            return Arc::clone(front);
        }
        if fronts.len() >= MAX_FRONTS {
            // Grants of tokens come and go.
            fronts.retain(|front| Arc::strong_count(front) > 1 || front.is_occupied());
        }
        let front = self.make_front(grant, None);
        fronts.push(Arc::clone(&front));
        front
    }

    fn make_front(&self, grant: &Grant, person: Option<Arc<Person>>) -> Arc<Front> {
        let front = Front::new(self, grant, person);
        if let Some(person) = &front.person {
            person.is_shown_by(&front);
        }
        front.follow();
        if front.only.is_some() {
            front.renew_rules();
        } else {
            front.watch_servers();
        }
        front
    }

    /// The front of a client, and its session with it.
    fn front(&self, client: &Arc<ClientConnection>, words: Option<&Message>) -> Arc<Front> {
        let front = self.find_front(client, words);
        if client.era() == Era::Legacy && front.session(client).is_none() {
            // It greeted while its grant changed.
            let other = self.each().into_iter().find(|front| front.session(client).is_some());
            if let Some(other) = other {
                other.hand_over(client, &front);
            }
        }
        front
    }

    /// Moves all clients to what they see from here on.
    fn regrant(&self) {
        self.rehouse();
        let grants = self.authenticator.grants();
        lock(&self.fronts).retain(|front| grants.contains(&front.grant) || front.is_occupied());
        lock(&self.people).keep_grants(&grants);
    }

    /// Moves all clients whose front is another now.
    fn rehouse(&self) {
        for front in self.each() {
            for client in front.clients() {
                let hello = front.session(&client).map(|session| session.hello.clone());
                let theirs = self.find_front(&client, hello.as_ref());
                if !Arc::ptr_eq(&theirs, &front) {
                    front.hand_over(&client, &theirs);
                }
            }
        }
    }
}

impl Backend for Views {
    fn open(
        &self,
        client: &Arc<ClientConnection>,
        call: &Call,
        message: Message,
        header_params: HeaderParams,
    ) -> PendingWork {
        let (monitor, only) = (self.fleet.monitor(), self.only.as_ref());
        monitor.observe(call, &message, only, self.fleet.transport());
        let through = upstream::told_through(&message);
        if let Some(through) = through.as_ref().filter(|it| self.leads_back(client.who(), it)) {
            call.finish(Refusal::Loop { ids: through.to_vec() });
            return PendingWork::none();
        }
        let front = self.front(client, Some(&message));
        let own_tool = OwnTool::called_by(&message).filter(|_| monitor.has_tools(only));
        let (sender, call) = (Arc::clone(client), call.clone());
        let mut request = FrontRequest { client: sender, call, message, header_params };
        match (own_tool, only) {
            (None, Some(name)) => return front.open_at_one(name, request),
            (None, None) => {}
            (Some(OwnTool::Trace), _) => {
                return request.answer(&monitor::trace(monitor, &request.client, &request.message));
            }
            // What this client may see, and nothing else, is what it gets to list.
            (Some(OwnTool::Manifest), _) => {
                request.message = monitor::list_request(&request.message);
            }
        }
        let work = front.open(request);
        if let Some(through) = through
            && let Some(session) = front.session(client)
        {
            session.came_through(through);
        }
        work
    }

    fn note(&self, client: &Arc<ClientConnection>, message: Message) -> PendingWork {
        let front = self.front(client, None);
        match (&self.only, front.session(client)) {
            (Some(name), _) => front.note_to_one(name, client, &message),
            (None, Some(session)) => session.note(&message),
            (None, None) => PendingWork::none(),
        }
    }

    fn cancel(&self, client: &Arc<ClientConnection>, call: &Call) {
        self.front(client, None).unlisten(client.number(), call.exchange());
    }

    fn supply(&self, client: &Arc<ClientConnection>, ask: Ask, answer: Message) -> Option<Message> {
        if let Some(session) = self.front(client, None).session(client) {
            session.questions.remove(ask);
        }
        // What a client answers about a task is under our id; at one server ids are its own.
        let task = answer.string(Member::RelatedTaskId).filter(|_| self.only.is_none());
        let task = task.and_then(|ours| self.fleet.tasks.find(&TaskOwner::new(client), &ours));
        Some(match task {
            Some((_, theirs)) => answer.with_string(Member::RelatedTaskId, &theirs),
            None => answer,
        })
    }

    fn forget(&self, client: &Arc<ClientConnection>) {
        let all = lock(&self.fronts).clone();
        for front in all.into_iter().chain(self.fronts_of_people(client)) {
            front.forget_listens(|listen| listen.client.number() == client.number());
            let session = lock(&front.sessions).remove(&client.number());
            // Calls that wait for a greeting are not made after it.
            session.iter().flat_map(|session| session.links()).for_each(|link| link.close());
        }
        self.fleet.forget(client);
    }

    fn carries(&self) -> Option<Arc<[HeaderName]>> {
        match &self.only {
            Some(name) => self.fleet.running(name)?.bridge.carries(),
            None => read(&self.fleet.carried).clone(),
        }
    }

    fn keeps(&self, client: &ClientConnection) -> bool {
        let Some(principal) = self.authenticator.principal_of(client.who()) else {
            return false;
        };
        let mut servers = client.open_calls().into_iter().filter_map(|call| call.server());
        servers.all(|server| principal.grant.has_server(&server))
    }

    fn lacks(
        &self,
        who: &Who,
        client: &Arc<ClientConnection>,
        request: &Message,
    ) -> Option<String> {
        if request.method() != method::CALL_TOOL || !self.authenticator.has_scopes() {
            return None;
        }
        let front = self.find_front(client, Some(request));
        let (server, tool) = front.tool_called(self.only.as_ref(), request)?;
        self.authenticator.lacking(who, &server, &tool)
    }

    fn leads_back(&self, who: &Who, through: &Through) -> bool {
        let Some(principal) = self.authenticator.principal_of(who) else { return false };
        let members = self.members();
        let granted = members.iter().filter(|name| principal.grant.has_server(name));
        let running_servers: Vec<_> = granted.filter_map(|name| self.fleet.running(name)).collect();
        upstream::leads_back(running_servers.iter().map(|running| running.bridge.server()), through)
    }

    /// Clients of a gateway need not own its servers.
    fn words(&self) -> Words {
        Words::Brief
    }
}

/// Any number of clients in front of some servers of a fleet.
pub(crate) struct Front {
    fleet: Arc<Fleet>,
    members: RwLock<Arc<BTreeSet<Arc<str>>>>,
    /// With the edition of the definitions that it was made of.
    catalog: RwLock<(Edition, Arc<Catalog>)>,
    /// Held while the next catalog is made.
    making: Mutex<()>,
    sessions: Mutex<Table<u64, Arc<ClientSession>>>,
    listens: OpenListens,
    /// Calls of which it could not be told whose they are.
    #[cfg(test)]
    late: Mutex<Vec<Call>>,
    sealer: Option<Arc<Sealer>>,
    /// Servers that are no members, but some of whose tools are listed: their use takes another
    /// scope.
    only_listed: RwLock<Arc<BTreeSet<Arc<str>>>>,
    /// What is shown of the members.
    grant: Grant,
    /// Whom it is for, if a member can tell people apart.
    person: Option<Arc<Person>>,
    /// The one server of this path, which is passed on as it is.
    only: Option<Arc<str>>,
    /// By whose rules clients of that path were last told what there is.
    rules: Mutex<Option<Arc<ServerPlan>>>,
    /// The tasks that hear of changes at the servers.
    watching: OnceLock<Vec<OwnedTask>>,
}

/// Fronts at one path that are kept although nobody uses them.
const MAX_FRONTS: usize = 256;

type ServerNames = Arc<BTreeSet<Arc<str>>>;

/// The servers that a grant has, and those of which it only lists tools.
fn split(servers: &[Arc<str>], grant: &Grant) -> (ServerNames, ServerNames) {
    let (has, other): (BTreeSet<_>, BTreeSet<_>) =
        servers.iter().cloned().partition(|name| grant.has_server(name));
    let listed = other.into_iter().filter(|name| grant.lists_server(name));
    (Arc::new(has), Arc::new(listed.collect()))
}

/// A request of a client, on its way through a front.
struct FrontRequest {
    client: Arc<ClientConnection>,
    call: Call,
    message: Message,
    header_params: HeaderParams,
}

impl FrontRequest {
    /// Ends the call, which needs no work.
    fn finish(&self, outcome: impl Into<Outcome>) -> PendingWork {
        self.call.finish(outcome);
        PendingWork::none()
    }

    /// Ends it with this result.
    fn answer(&self, result: &Value) -> PendingWork {
        self.finish(Message::result(self.id(), result.to_string().as_bytes()))
    }

    /// Refuses it as its half would have.
    fn turn_away(&self, why: &Refusal) -> PendingWork {
        self.client.turn_away(self.call.exchange(), self.message.id(), why);
        PendingWork::none()
    }

    /// There is nobody to answer it.
    fn fail(&self, nowhere: Nowhere) -> PendingWork {
        match nowhere {
            Nowhere::Refused(why) => self.turn_away(&why),
            other => {
                let error = other.error(self.client.era());
                self.finish(Message::error(self.message.id(), &error))
            }
        }
    }

    /// Goes on to the server behind `bridge`.
    fn open_at(self, bridge: &Bridge) -> PendingWork {
        bridge.open(&self.client, &self.call, self.message, self.header_params)
    }

    fn id(&self) -> &Id {
        self.message.id().unwrap_or(&Id::Integer(0))
    }
}

impl Front {
    /// Offers what `grant` has of the servers of `views`. It tells nobody of changes.
    fn new(views: &Views, grant: &Grant, person: Option<Arc<Person>>) -> Arc<Self> {
        let (members, only_listed) = split(&views.members(), grant);
        Arc::new(Self {
            fleet: Arc::clone(&views.fleet),
            members: RwLock::new(members),
            only_listed: RwLock::new(only_listed),
            catalog: RwLock::default(),
            making: Mutex::default(),
            sessions: Mutex::default(),
            listens: OpenListens::default(),
            #[cfg(test)]
            late: Mutex::default(),
            sealer: views.sealer.clone(),
            grant: grant.clone(),
            person,
            only: views.only.clone(),
            rules: Mutex::default(),
            watching: OnceLock::new(),
        })
    }

    /// Tells its clients of changes from here on.
    fn watch_servers(self: &Arc<Self>) {
        let watch = |roster: &Roster| list::watch(Arc::downgrade(self), roster.changes());
        let watching = self.rosters().map(|(roster, _)| OwnedTask::spawn(watch(roster)));
        self.watching.get_or_init(|| watching.collect());
        self.refresh();
    }

    /// What is offered. A client that knows that a server is ready finds what it offers.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        let (edition, catalog) = self.known();
        if edition == self.edition() {
            return catalog;
        }
        self.refresh();
        self.known().1
    }

    fn known(&self) -> (Edition, Arc<Catalog>) {
        read(&self.catalog).clone()
    }

    /// The names of its servers.
    fn members(&self) -> Arc<BTreeSet<Arc<str>>> {
        Arc::clone(&read(&self.members))
    }

    /// A member, if it runs.
    fn running(&self, server: &str) -> Option<Arc<RunningServer>> {
        self.fleet.running(server).filter(|_| read(&self.members).contains(server))
    }

    /// Offers these servers from here on, as far as they are granted; tells clients
    /// whose lists are others now.
    fn change(&self, members: &[Arc<str>]) {
        let (members, only_listed) = split(members, &self.grant);
        let making = lock(&self.making);
        (*write(&self.members), *write(&self.only_listed)) = (members, only_listed);
        self.outdate(making);
        self.follow();
        if self.only.is_none() {
            self.end_listens_left();
            self.refresh();
        }
        let running_servers = self.fleet.running_servers();
        for session in self.ready_sessions() {
            session.follow(&running_servers);
        }
        self.tell_rules_changed();
    }

    /// The catalog is of another plan, or of what was approved before, whatever its edition.
    fn outdate(&self, making: MutexGuard<'_, ()>) {
        write(&self.catalog).0.0 = u64::MAX;
        drop(making);
    }

    fn make_anew(&self) {
        self.outdate(lock(&self.making));
        self.refresh();
    }

    /// Has those servers asked that know people, as they are at this time.
    fn follow(&self) {
        if let Some(person) = &self.person {
            let members = self.members();
            person.follow(&self.fleet.running_servers(), |name| members.contains(name));
        }
    }

    /// `kept` is what must be known as long as a call lasts.
    fn context(&self, kept: Option<Arc<Self>>) -> PathContext {
        let (fleet, sealer) = (Arc::downgrade(&self.fleet), self.sealer.clone());
        PathContext { fleet, is_many: self.only.is_none(), sealer, _kept: kept }
    }

    fn session(&self, client: &ClientConnection) -> Option<Arc<ClientSession>> {
        lock(&self.sessions).get(&client.number()).cloned()
    }

    /// The clients with a session that have confirmed it.
    fn ready_sessions(&self) -> Vec<Arc<ClientSession>> {
        let sessions: Vec<_> = lock(&self.sessions).values().cloned().collect();
        let is_ready = |session: &Arc<ClientSession>| session.client.phase() == Some(Phase::Ready);
        sessions.into_iter().filter(is_ready).collect()
    }

    /// The way of a request: removed, unclear, about a task, a search, a list, or a server's.
    fn open(self: &Arc<Self>, mut request: FrontRequest) -> PendingWork {
        let method = request.message.method();
        let is_removed = match request.client.era() {
            Era::Modern => method::REMOVED.contains(&method),
            Era::Legacy => matches!(method, method::DISCOVER | method::LISTEN),
        };
        if is_removed {
            return request.turn_away(&Refusal::UnknownMethod { method: method.to_owned() });
        }
        if let Some(why) = visibility::doubt(&request.message) {
            return request.finish(why);
        }
        if method.starts_with("tasks/") {
            return self.open_task(request);
        }
        let catalog = self.catalog();
        if method == method::CALL_TOOL && *read(&self.fleet.search) != ToolSearch::Never {
            request = match self.search(request, &catalog) {
                Ok(request) => request,
                Err(answered) => return answered,
            };
        }
        match &self.person {
            Some(person) if self.may_come(person, &request.message, &catalog) => {
                self.route_later(person, request)
            }
            _ => self.route(request, &catalog),
        }
    }

    fn route(self: &Arc<Self>, request: FrontRequest, catalog: &Catalog) -> PendingWork {
        let FrontRequest { client, message, header_params, .. } = &request;
        let unlisted = |kind, name: &str| self.unlisted(kind, name);
        match catalog.find_destination(message, header_params.as_deref(), unlisted) {
            Ok(Destination::List(kind)) => self.list(request, kind),
            Ok(Destination::Server(server, theirs)) => {
                let Some(running) = self.running(&server) else {
                    return request.finish(Failure::CLOSED);
                };
                if self.is_sign_in(&running.plan, &theirs) {
                    let request = FrontRequest { message: theirs, ..request };
                    return self.sign_in(request, &running);
                }
                if self.fleet.may_ask(client, &running.plan, &self.grant, &theirs) != Some(true) {
                    return request.fail(Nowhere::unseen(message));
                }
                let declares = reply::may_make_task(&theirs, client.era());
                let change = if declares { AnswerChange::NewTask } else { AnswerChange::Plain };
                let request = FrontRequest { message: theirs, ..request };
                self.to_server(request, &server, &running, change)
            }
            Ok(Destination::Gateway) => match message.method() {
                method::INITIALIZE => self.initialize(request),
                method::DISCOVER => self.discover(request),
                method::LISTEN => self.listen(&request),
                method::SET_LEVEL => self.set_level(&request),
                _ => request.answer(&json!({})),
            },
            Err(nowhere) => request.fail(nowhere),
        }
    }

    /// To the one server that is meant, once its user is connected where that must come first.
    fn to_server(
        self: &Arc<Self>,
        request: FrontRequest,
        server: &Arc<str>,
        running: &Arc<RunningServer>,
        change: AnswerChange,
    ) -> PendingWork {
        if !running.plan.wants_sign_in() {
            return self.send_to_server(request, server, running, change);
        }
        self.recover(&request, running, change.clone());
        let (server, to) = (Arc::clone(server), Arc::clone(running));
        self.once_connected(request, running, move |front, request| {
            front.send_to_server(request, &server, &to, change)
        })
    }

    /// To the one server that is meant; its answer is changed for the client.
    fn send_to_server(
        self: &Arc<Self>,
        mut request: FrontRequest,
        server: &Arc<str>,
        running: &Arc<RunningServer>,
        change: AnswerChange,
    ) -> PendingWork {
        request.message = request.call.forward(server, request.message);
        self.want(server);
        let FrontRequest { client, call, message, .. } = &request;
        let (is_legacy, is_many) = (client.era() == Era::Legacy, self.only.is_none());
        let link = match self.session(client) {
            _ if is_legacy && message.method() == method::INITIALIZE => {
                let session = self.begin_session(client, message);
                // The client greets the server itself.
                Some(session.link(server, running, LinkStage::Greeted))
            }
            Some(session) => {
                session.keep_level(message);
                Some(session.link(server, running, LinkStage::New))
            }
            None if is_legacy && is_many => return request.finish(Refusal::NotInitialized),
            None => None,
        };
        if let Some(link) = link {
            return link.open(running, request, change);
        }
        if is_many || !matches!(change, AnswerChange::Plain) || message.method() == method::LISTEN {
            // What decides on what is told must be known for as long as the call lasts.
            let kept = (!is_many).then(|| Arc::clone(self));
            let (client, server) = (Arc::clone(client), Arc::clone(server));
            let (context, session) = (self.context(kept), Weak::new());
            call.set_rewrite(Arc::new(ServerReply { client, server, context, change, session }));
        }
        // At its own path a server says itself who it is, and knows its states.
        if is_many {
            client.introduce(&list::identity());
            match reply::unseal(self.sealer.as_deref(), client, server, message) {
                Ok(Some(unsealed)) => request.message = unsealed,
                Ok(None) => {}
                Err(why) => return request.finish(why),
            }
        }
        request.open_at(&running.bridge)
    }

    /// A legacy client introduces itself.
    fn begin_session(&self, client: &Arc<ClientConnection>, hello: &Message) -> Arc<ClientSession> {
        let session = ClientSession::new(client, hello.clone(), self.context(None));
        lock(&self.sessions).insert(client.number(), Arc::clone(&session));
        session
    }
}

#[cfg(test)]
mod tests;
