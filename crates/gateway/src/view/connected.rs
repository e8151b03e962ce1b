//! What users see changes when they have signed in to a server, or have to again.

use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;

use super::Views;
use super::list::tell;
use crate::fleet::Fleet;

impl Views {
    /// A user has signed in to the server of this path: its lists are others now.
    pub(crate) fn tell_connected(&self, server: &str, principal: &str) {
        if self.only.as_deref() != Some(server) {
            return;
        }
        for front in self.each() {
            let theirs = front.ready_sessions().into_iter();
            for session in theirs.filter(|it| it.client.who().name() == principal) {
                for list in ["tools", "prompts", "resources"] {
                    if let Some(name) = method::list_changed(list) {
                        tell(&session.client, None, &Message::notification(name, None));
                    }
                }
            }
        }
    }
}

impl Fleet {
    /// A user has signed in to a server.
    pub(crate) fn handle_connected(&self, server: &str, principal: &str) {
        if let Some(running) = self.running(server).filter(|it| it.plan.oauth.inject.is_some()) {
            running.bridge.evict_user(principal);
        }
        for person in self.people.each_of(principal) {
            person.roster.restart(server);
        }
        for views in self.views() {
            views.tell_connected(server, principal);
        }
    }

    /// A user has to sign in to a server: what it listed to them is over.
    pub(crate) fn handle_unsigned(&self, server: &str, principal: &str) {
        for person in self.people.each_of(principal) {
            if person.roster.is_ready(server) {
                person.roster.restart(server);
            }
        }
    }
}
