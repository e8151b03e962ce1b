//! What a client's session is called where its id must not be seen.

use super::Face;

/// Enough to find a session in a log, far too little to guess its id.
const SHOWN: usize = 6;

impl Face {
    /// Says under which id a client has its session; the first word counts.
    pub(crate) fn mark(&self, id: &str) {
        _ = self.mark.set(id.get(..SHOWN).unwrap_or_default().into());
    }

    /// The beginning of its session's id, for logs; none if it has no session.
    pub fn session(&self) -> Option<&str> {
        self.mark.get().map(|mark| &**mark)
    }
}
