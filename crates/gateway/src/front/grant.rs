//! A front that shows a part of what its servers offer, and clients that move
//! from one to another because they may see something else.

use std::sync::Arc;

use switchboard_net::backend::Backend as _;
use switchboard_net::connection::ClientConnection;
use switchboard_net::parked_calls::Sealer;
use switchboard_net::roster::{Definition, ListKind};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;

use super::list::tell;
use super::{Front, lock};
use crate::fleet::Fleet;
use crate::person::Person;
use crate::policy::Grant;

impl Front {
    /// Offers what `grant` has of these servers. Must be called within a tokio runtime.
    pub(crate) fn showing(
        grant: &Grant,
        fleet: &Arc<Fleet>,
        members: impl IntoIterator<Item = Arc<str>>,
        sealer: Option<Arc<Sealer>>,
        person: Option<Arc<Person>>,
        only: Option<&Arc<str>>,
    ) -> Arc<Self> {
        let members = members.into_iter().filter(|name| grant.has_server(name));
        let front = Self::unwatched(fleet, members, grant.clone(), sealer, person, only.cloned());
        if let Some(person) = &front.person {
            person.is_shown_by(&front);
        }
        front.follow();
        if front.only.is_some() {
            front.renew_rules();
            return front;
        }
        front.watched()
    }

    /// Whether a definition of a member is shown.
    pub(super) fn shows(&self, definition: &Definition) -> bool {
        definition.kind != ListKind::Tools
            || self.grant.has_tool(&definition.server, &definition.name())
    }

    /// Whether a server is not to be asked for this, which is in its own words.
    pub(super) fn hides(&self, client: &ClientConnection, server: &str, request: &Message) -> bool {
        let Some(running) = self.fleet.running(server) else { return false };
        self.fleet.may_ask(client, &running.plan, &self.grant, request) != Some(true)
    }

    /// Whether somebody would be told of a change. One that is for everybody
    /// knows what there is even so.
    pub(super) fn is_heard(&self) -> bool {
        self.person.is_none() || self.is_occupied()
    }

    /// Whether somebody has a session here, or listens.
    pub(crate) fn is_occupied(&self) -> bool {
        !lock(&self.sessions).is_empty() || !self.listeners().is_empty()
    }

    /// Whether this client has a session here, or listens.
    pub(crate) fn hosts(&self, client: &ClientConnection) -> bool {
        let listens = || self.listeners().iter().any(|it| it.number() == client.number());
        self.knows(client) || listens()
    }

    /// How a client has introduced itself, if it has.
    pub(crate) fn hello(&self, client: &ClientConnection) -> Option<Message> {
        self.session(client).map(|session| session.hello.clone())
    }

    /// The bytes of all that it shows, and of whom it is for.
    pub(crate) fn weight(&self) -> usize {
        let person = self.person.as_ref().map_or(0, |person| person.weight());
        let lists = match &self.only {
            // No catalog is made of what one server lists; it is known all the same.
            Some(_) => self.definitions().iter().map(|it| it.text.len()).sum(),
            None => self.known().1.bytes(),
        };
        person + lists
    }

    /// Whether it has greeted this client.
    pub(crate) fn knows(&self, client: &ClientConnection) -> bool {
        lock(&self.sessions).contains_key(&client.number())
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
        self.end_listens_of(client.number());
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
        let mut told = Vec::new();
        for kind in ListKind::ALL.into_iter().filter(|kind| !new.is_same(&old, *kind)) {
            let list = kind.capability();
            if let (Some(note), false) = (method::list_changed(list), told.contains(&list)) {
                told.push(list);
                tell(client, None, &Message::notification(note, None));
            }
        }
    }
}
