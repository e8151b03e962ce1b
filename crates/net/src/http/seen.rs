//! Who is there at a site, for whoever looks.

use std::sync::Arc;

use super::site::{Inner, Site};
use crate::face::Face;

/// A client that has a session, or listens.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The client.
    pub face: Arc<Face>,
    /// How it is connected: `http` or `sse`.
    pub transport: &'static str,
    /// Where it came in.
    pub path: Arc<str>,
}

impl Site {
    /// Everybody who has a session here, but for those on a `WebSocket`, and modern
    /// clients that listen.
    pub fn seen(&self) -> Vec<Seen> {
        let Inner { options, sessions, old, listens, .. } = &*self.inner;
        let seen = |faces: Vec<Arc<Face>>, transport, path: &str| {
            let path: Arc<str> = path.into();
            let seen = move |face| Seen { face, transport, path: Arc::clone(&path) };
            faces.into_iter().map(seen)
        };
        seen(sessions.faces(), "http", &options.path)
            .chain(seen(listens.faces(), "http", &options.path))
            .chain(seen(old.faces(), "sse", &options.sse_path))
            .collect()
    }

    /// How many listens of modern clients are open.
    pub fn listens(&self) -> usize {
        self.inner.listens.len()
    }
}
