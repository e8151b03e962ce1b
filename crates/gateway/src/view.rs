//! Many servers as one, for each what they may see of them.
//!
//! ```text
//!   client ──▶ face ──▶ Views: what is granted to whom it speaks for? ──▶ a Front of just that
//! ```
//!
//! There is a [`Front`] for each grant, and it is made of nothing but what that
//! grant has; where a server tells people apart, one for each person. So no list, no error, no instruction and no count of one principal
//! can tell of what only another may see: it is not there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use http::HeaderName;
use switchboard_net::access::Who;
use switchboard_net::backend::{Backend, PendingWork};
use switchboard_net::call::Call;
use switchboard_net::connection::ClientConnection;
use switchboard_net::parked_calls::Sealer;
use switchboard_net::upstream::{self, Through};
use switchboard_proto::exchange::{Ask, HeaderParams};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::revision::Era;

use crate::authenticator::{Authenticator, Hearing};
use crate::fleet::Fleet;
use crate::front::Front;
use crate::person::Person;
use crate::policy::Grant;
use people::Seen;

mod people;

/// The fronts of one path. Whoever comes gets the one that is theirs.
pub struct Views {
    fleet: Arc<Fleet>,
    members: RwLock<Arc<[Arc<str>]>>,
    /// The one server of this path, which is passed on as it is.
    only: Option<Arc<str>>,
    authenticator: Arc<Authenticator>,
    /// One for all, so that a call goes on if a grant changes between its rounds.
    sealer: Option<Arc<Sealer>>,
    /// As many as there are grants of principals.
    fronts: Mutex<Vec<(Grant, Arc<Front>)>>,
    /// When grants are others.
    _hearing: Hearing,
    /// Those that are for one person each.
    seen: Mutex<Seen>,
    this: Weak<Self>,
}

impl Views {
    /// Offers these servers of a fleet to whom `authenticator` lets in. Must be called
    /// within a tokio runtime.
    pub fn new(
        fleet: &Arc<Fleet>,
        members: impl IntoIterator<Item = Arc<str>>,
        authenticator: &Arc<Authenticator>,
    ) -> Arc<Self> {
        Self::with(fleet, members.into_iter().collect(), None, authenticator)
    }

    /// Offers one server as it is.
    pub(crate) fn one(
        fleet: &Arc<Fleet>,
        name: &Arc<str>,
        authenticator: &Arc<Authenticator>,
    ) -> Arc<Self> {
        Self::with(fleet, [Arc::clone(name)].into(), Some(Arc::clone(name)), authenticator)
    }

    fn with(
        fleet: &Arc<Fleet>,
        members: Arc<[Arc<str>]>,
        only: Option<Arc<str>>,
        authenticator: &Arc<Authenticator>,
    ) -> Arc<Self> {
        let sealer = Sealer::new(tokio::time::Instant::now().into_std()).ok();
        Arc::new_cyclic(|this: &Weak<Self>| {
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
                seen: Mutex::default(),
                this: Weak::clone(this),
                _hearing: authenticator.on_replace(regrant),
            }
        })
    }

    /// Ends every listen with its result, before a shutdown (SUB-8).
    pub fn close(&self) {
        for front in self.each() {
            front.close();
        }
    }

    /// Tells everybody that there are other tools.
    pub(crate) fn tell_tools(&self) {
        for front in self.each() {
            front.tell_changed("tools");
        }
    }

    /// Offers these servers from here on; tells clients whose lists are others now.
    pub fn change(&self, members: impl IntoIterator<Item = Arc<str>>) {
        let members: Arc<[Arc<str>]> = members.into_iter().collect();
        let mut current = self.members.write().unwrap_or_else(PoisonError::into_inner);
        // Before the fronts are looked at: one that is made meanwhile has them.
        *current = Arc::clone(&members);
        drop(current);
        for front in self.each() {
            front.change(members.iter().cloned());
        }
        // A server may tell people apart that did not, or the other way round.
        self.rehouse();
    }

    fn members(&self) -> Arc<[Arc<str>]> {
        Arc::clone(&self.members.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn fronts(&self) -> MutexGuard<'_, Vec<(Grant, Arc<Front>)>> {
        self.fronts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn each(&self) -> Vec<Arc<Front>> {
        let all: Vec<_> = self.fronts().iter().map(|(_, front)| Arc::clone(front)).collect();
        all.into_iter().chain(self.seen().fronts().map(Arc::clone)).collect()
    }

    /// What a client sees, made if nobody has seen it yet. `words` are its own.
    pub(crate) fn of(&self, client: &ClientConnection, words: Option<&Message>) -> Arc<Front> {
        let principal = self.authenticator.principal(client.who().name());
        let nothing = Grant::nothing();
        let grant = principal.as_ref().map_or(&nothing, |principal| &principal.grant);
        if self.knows_people(grant) {
            return self.of_person(grant, client, words);
        }
        let mut fronts = self.fronts();
        if let Some((_, front)) = fronts.iter().find(|(known, _)| known == grant) {
            return Arc::clone(front);
        }
        let members = self.members();
        let front = self.make(grant, &members, None);
        fronts.push((grant.clone(), Arc::clone(&front)));
        front
    }

    fn make(&self, grant: &Grant, members: &[Arc<str>], person: Option<Arc<Person>>) -> Arc<Front> {
        let (members, sealer) = (members.iter().cloned(), self.sealer.clone());
        Front::showing(grant, &self.fleet, members, sealer, person, self.only.as_ref())
    }

    /// The front of a client, and its session with it.
    fn front(&self, client: &Arc<ClientConnection>, words: Option<&Message>) -> Arc<Front> {
        let front = self.of(client, words);
        if client.era() == Era::Legacy && !front.knows(client) {
            // It greeted while its grant changed.
            let other = self.each().into_iter().find(|front| front.knows(client));
            if let Some(other) = other {
                other.hand_over(client, &front);
            }
        }
        front
    }

    /// Moves everybody to what they see from here on.
    fn regrant(&self) {
        self.rehouse();
        let grants = self.authenticator.grants();
        self.fronts().retain(|(grant, _)| grants.contains(grant));
        self.seen().keep_grants(&grants);
    }

    /// Moves everybody whose front is another now.
    fn rehouse(&self) {
        for front in self.each() {
            for client in front.clients() {
                let theirs = self.of(&client, front.hello(&client).as_ref());
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
        request: Message,
        said: HeaderParams,
    ) -> PendingWork {
        self.front(client, Some(&request)).open(client, call, request, said)
    }

    fn note(&self, client: &Arc<ClientConnection>, message: Message) -> PendingWork {
        self.front(client, None).note(client, message)
    }

    fn cancel(&self, client: &Arc<ClientConnection>, call: &Call) {
        self.front(client, None).cancel(client, call);
    }

    fn supply(&self, client: &Arc<ClientConnection>, ask: Ask, answer: Message) -> Option<Message> {
        self.front(client, None).supply(client, ask, answer)
    }

    fn forget(&self, client: &Arc<ClientConnection>) {
        let all: Vec<_> = self.fronts().iter().map(|(_, front)| Arc::clone(front)).collect();
        for front in all.into_iter().chain(self.hosting(client)) {
            front.leave(client);
        }
        self.fleet.forget(client);
    }

    fn carries(&self) -> Option<Arc<[HeaderName]>> {
        match &self.only {
            Some(name) => self.fleet.running(name)?.bridge.carries(),
            None => self.fleet.carried(),
        }
    }

    fn keeps(&self, client: &ClientConnection) -> bool {
        let Some(principal) = self.authenticator.principal(client.who().name()) else {
            return false;
        };
        let mut servers = client.open_calls().into_iter().filter_map(|call| call.server());
        servers.all(|server| principal.grant.has_server(&server))
    }

    fn leads_back(&self, who: &Who, through: &Through) -> bool {
        let Some(principal) = self.authenticator.principal(who.name()) else { return false };
        let members = self.members();
        let granted = members.iter().filter(|name| principal.grant.has_server(name));
        let running_servers: Vec<_> = granted.filter_map(|name| self.fleet.running(name)).collect();
        upstream::leads_back(running_servers.iter().map(|running| running.bridge.server()), through)
    }
}

impl std::fmt::Debug for Views {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Views").field("members", &self.members()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
