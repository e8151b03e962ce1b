//! A legacy client: how it introduced itself, and its legs to the servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use switchboard_net::backend::{Backend as _, PendingWork};
use switchboard_net::call::{Asker, Call};
use switchboard_net::connection::ClientConnection;
use switchboard_net::server::Level;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};

use super::reply::{PathContext, Questions};
use super::server_link::ServerLink;
use super::{Front, id, lock};
use crate::fleet::{RunningServer, RunningServers};

/// What is remembered of a client with a session.
pub(super) struct Session {
    pub(super) client: Arc<ClientConnection>,
    /// What it speaks.
    pub(super) revision: Revision,
    /// Its greeting, to be repeated to each server that it calls.
    pub(super) hello: Message,
    /// How much it wants logged, in its own words.
    level: Mutex<Option<Message>>,
    /// What servers ask it.
    pub(super) questions: Questions,
    links: Mutex<BTreeMap<Arc<str>, Arc<ServerLink>>>,
    /// Ways to servers that others took the place of; as long as calls are open there.
    old: Mutex<Vec<Weak<ServerLink>>>,
    pub(super) at: PathContext,
}

impl Session {
    pub(super) fn new(
        client: &Arc<ClientConnection>,
        hello: Message,
        at: PathContext,
    ) -> Arc<Self> {
        let asked = hello.protocol_version();
        let same = asked.and_then(|asked| Revision::parse(&asked));
        let same = same.filter(|revision| revision.era() == Era::Legacy);
        Arc::new(Self {
            client: Arc::clone(client),
            revision: same.unwrap_or(Revision::NEWEST_LEGACY),
            hello,
            level: Mutex::default(),
            questions: Questions::default(),
            links: Mutex::default(),
            old: Mutex::default(),
            at,
        })
    }

    /// The way to a server, made if need be.
    pub(super) fn link(
        self: &Arc<Self>,
        server: &Arc<str>,
        running: &RunningServer,
    ) -> Arc<ServerLink> {
        let mut links = lock(&self.links);
        let link = match links.get(server) {
            Some(link) if link.leads_to(&running.bridge) => return Arc::clone(link),
            Some(old) => {
                self.retire(old);
                old.replaced(self, running)
            }
            None => ServerLink::new(self, server, running),
        };
        links.insert(Arc::clone(server), Arc::clone(&link));
        link
    }

    /// The way to a server that the client greets itself.
    pub(super) fn own_link(
        self: &Arc<Self>,
        server: &Arc<str>,
        running: &RunningServer,
    ) -> Arc<ServerLink> {
        let link = ServerLink::greeted_by_client(self, server, running);
        lock(&self.links).insert(Arc::clone(server), Arc::clone(&link));
        link
    }

    /// Leaves servers that are not there any more: their open calls keep what they
    /// need. Where the client waits to hear of resources, the server that took
    /// the place of another is greeted at once.
    pub(super) fn follow(self: &Arc<Self>, running_servers: &RunningServers) {
        let mut watching = Vec::new();
        lock(&self.links).retain(|server, link| match running_servers.get(server) {
            Some(running) if link.leads_to(&running.bridge) => true,
            Some(running) if !link.watched().is_empty() => {
                watching.push((Arc::clone(server), Arc::clone(running)));
                true
            }
            _ => {
                self.retire(link);
                false
            }
        });
        for (server, running) in watching {
            self.link(&server, &running).greet(&running).detach();
        }
    }

    /// The ways to these servers are closed, and what is open there fails.
    pub(super) fn leave(&self, is_left: impl Fn(&str) -> bool) {
        let left: Vec<_> = lock(&self.links).extract_if(.., |name, _| is_left(name)).collect();
        let old: Vec<_> = lock(&self.old).iter().filter_map(Weak::upgrade).collect();
        let old = old.into_iter().filter(|link| is_left(link.server()));
        for link in left.into_iter().map(|(_, link)| link).chain(old) {
            link.close();
        }
        for call in self.client.open_calls() {
            if call.server().is_some_and(|server| is_left(&server)) {
                call.finish(Failure::CLOSED);
            }
        }
    }

    /// The client is gone: calls that wait for a greeting are not made after it.
    pub(super) fn close_links(&self) {
        for link in self.links() {
            link.close();
        }
    }

    /// Calls that are open come back by this way, and others go by another.
    fn retire(&self, link: &Arc<ServerLink>) {
        let mut old = lock(&self.old);
        old.retain(|link| link.strong_count() > 0);
        old.push(Arc::downgrade(link));
    }

    /// The way to a server, if it was taken.
    pub(super) fn find(&self, server: &str) -> Option<Arc<ServerLink>> {
        lock(&self.links).get(server).cloned()
    }

    fn links(&self) -> Vec<Arc<ServerLink>> {
        lock(&self.links).values().cloned().collect()
    }

    /// Something that concerns every server that the client has called.
    pub(super) fn note(&self, message: &Message) -> PendingWork {
        let mut works = PendingWork::none();
        if let Some((asker, message)) = self.on_question(message) {
            return asker.progress(message);
        }
        let links = self.links();
        // Progress is about a question of one server, and only one can be meant here.
        let is_unclear = message.method() == method::PROGRESS && links.len() != 1;
        if message.method() == method::INITIALIZED || is_unclear {
            return works;
        }
        for bridge in links.iter().filter_map(|link| link.greeted()) {
            works.append(bridge.note(&self.client, message.clone()));
        }
        works
    }

    /// Progress on a question, for who asked it.
    fn on_question(&self, message: &Message) -> Option<(Arc<dyn Asker>, Message)> {
        self.questions.find(message).filter(|_| message.method() == method::PROGRESS)
    }

    pub(super) fn keep_level(&self, request: &Message) {
        *lock(&self.level) = Some(request.clone());
    }

    pub(super) fn level(&self) -> Option<Message> {
        lock(&self.level).clone()
    }
}

impl Front {
    /// `logging/setLevel`: for every server that the client has called or will call.
    pub(super) fn set_level(
        &self,
        client: &Arc<ClientConnection>,
        call: &Call,
        request: &Message,
    ) -> PendingWork {
        let level = request.log_level();
        let is_known = level.as_deref().is_some_and(|name| Level::parse(name).is_some());
        let session = self.session(client).filter(|_| is_known);
        let Some(session) = session else {
            let what = "params.level must be one of the levels of syslog".to_owned();
            let why = Refusal::BadParams { what };
            call.finish(why);
            return PendingWork::none();
        };
        session.keep_level(request);
        call.finish(Message::result(id(request), b"{}"));
        let mut works = PendingWork::none();
        for link in session.links() {
            works.append(link.set_level(request));
        }
        works
    }
}
