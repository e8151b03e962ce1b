//! Who is there at a site, for whoever looks; and the end of listens.

use std::sync::Arc;

use super::site::{Inner, Site};
use crate::face::Face;
use crate::who::Who;

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

    /// Ends the listens of these clients, each with its result: those who still want
    /// to hear of changes listen again, and look at what there is (SUB-8).
    pub fn end_listens_of(&self, is_meant: impl Fn(&Who) -> bool) {
        self.inner.listens.close_unless(|who| !is_meant(who));
    }

    /// How many listens of modern clients are open.
    pub fn listens(&self) -> usize {
        self.inner.listens.len()
    }
}
