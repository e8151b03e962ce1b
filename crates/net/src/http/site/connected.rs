//! Who is connected to a site, for people who look at it, and how they end a session.

use std::sync::Arc;

use super::{Site, SiteState};
use crate::access::Who;
use crate::connection::ClientConnection;

/// A client that has a session, or listens.
#[derive(Clone, Debug)]
pub struct ConnectedClient {
    /// The client.
    pub client: Arc<ClientConnection>,
    /// How it is connected: `http` or `sse`.
    pub transport: &'static str,
    /// Where it came in.
    pub path: Arc<str>,
}

impl Site {
    /// Everybody who has a session here, but for those on a `WebSocket`, and modern
    /// clients that listen.
    pub fn seen(&self) -> Vec<ConnectedClient> {
        let SiteState { options, sessions, old, listens, .. } = &*self.inner;
        let (path, sse_path) = (&options.path, &options.sse_path);
        let places = [(sessions, "http", path), (listens, "http", path), (old, "sse", sse_path)];
        let seen = places.into_iter().flat_map(|(sessions, transport, path)| {
            let path: Arc<str> = path.as_str().into();
            let clients = sessions.clients().into_iter();
            clients.map(move |client| ConnectedClient { client, transport, path: path.clone() })
        });
        seen.collect()
    }

    /// The same, and modern clients whose calls are open: in that era, nobody else has any.
    pub fn calling(&self) -> Vec<ConnectedClient> {
        let SiteState { options, parking, .. } = &*self.inner;
        let path: Arc<str> = options.path.as_str().into();
        let modern = parking.clients().into_iter();
        let modern =
            modern.map(|client| ConnectedClient { client, transport: "http", path: path.clone() });
        let mut all: Vec<_> = self.seen().into_iter().chain(modern).collect();
        all.sort_by_key(|it| it.client.number());
        all.dedup_by_key(|it| it.client.number());
        all
    }

    /// Ends the session, or the listen, of a client, if it is here.
    pub fn end_client(&self, number: u64) {
        let SiteState { sessions, old, listens, .. } = &*self.inner;
        for sessions in [sessions, old, listens] {
            sessions.close_where("ended by a person", |client| client.number() == number);
        }
    }

    /// Ends the listens of these clients, each with its result: those who still want
    /// to hear of changes listen again, and look at what there is (SUB-8).
    pub fn end_listens_of(&self, is_meant: impl Fn(&Who) -> bool) {
        self.inner.listens.close_where("to listen again", |client| is_meant(client.who()));
    }

    /// How many listens of modern clients are open.
    pub fn listens(&self) -> usize {
        self.inner.listens.len()
    }
}
