//! The end of a site: who waits for an answer gets it, or hears that it will not come.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use switchboard_proto::refusal::Refusal;

use super::{Inner, Site};
use crate::face::Face;
use crate::inside::Works;
use crate::who::Who;

impl Site {
    /// Takes no new sessions, and ends those that are open with their streams.
    /// One that waits for an answer ends when it has it, however long that takes.
    pub fn close(&self) {
        for sessions in [&self.inner.sessions, &self.inner.old, &self.inner.listens] {
            sessions.close_all();
        }
        self.inner.sockets.close();
    }

    /// Waits until no call is open that was made until now, in whichever era.
    pub async fn all_answered(&self) {
        for face in self.inner.faces() {
            face.all_answered().await;
        }
        for pipe in self.inner.sockets.pipes() {
            pipe.is_quiet().await;
        }
    }

    /// Answers every call that is open, and each that still comes, with an error
    /// of its own. The work that is left tells the servers that nobody waits.
    pub fn give_up(&self) -> Works {
        self.inner.stopping.store(true, Ordering::SeqCst);
        let mut works = Works::none();
        for face in self.inner.faces() {
            works.append(face.give_up(&Refusal::Stopping));
        }
        for pipe in self.inner.sockets.pipes() {
            works.append(pipe.give_up(&Refusal::Stopping));
        }
        works
    }

    /// Waits until the last `WebSocket` is closed: the listener does not know them.
    pub async fn sockets_closed(&self) {
        self.inner.sockets.all_closed().await;
    }
}

impl Inner {
    /// All clients but those on a `WebSocket`.
    fn faces(&self) -> Vec<Arc<Face>> {
        [self.sessions.faces(), self.old.faces(), self.parking.faces()].concat()
    }

    /// Whether somebody who was let in may still come in. A body may take long, and a
    /// key may be removed, or its grant taken away, while it arrives.
    pub(in crate::http) fn keeps(&self, who: &Who) -> Result<(), Refusal> {
        let stays = self.options.gate.as_ref().is_none_or(|gate| gate.keeps(who.name()));
        if stays && who.is_current() { Ok(()) } else { Err(Refusal::KeyRemoved) }
    }

    /// A call that came while calls were given up, or while its key was removed, is
    /// given up too.
    pub(in crate::http) fn after_call(&self, face: &Arc<Face>) {
        if self.stopping.load(Ordering::SeqCst) {
            face.give_up(&Refusal::Stopping).detach();
        } else if let Err(why) = self.keeps(face.who()) {
            face.give_up(&why).detach();
            // Listens do not count as calls.
            face.end();
        }
    }
}
