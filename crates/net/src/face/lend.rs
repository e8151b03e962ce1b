//! Large pieces on their way to a client count as unread until they are written.
//!
//! Whoever writes to a socket takes a piece at once and may then hold it for as
//! long as the client does not read. A client with a hundred requests open
//! would have a hundred answers held for it, beside its backlog.

use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{Face, lock};

/// Smaller pieces are not counted: the stream that each is written to takes as much.
const SMALL: usize = 1 << 10;

/// Ready when a piece is written, or given up.
pub(crate) type Written = oneshot::Receiver<()>;

/// A piece that was taken from a face and not written yet.
struct Lent {
    face: Arc<Face>,
    text: Bytes,
    _written: oneshot::Sender<()>,
}

impl Face {
    /// The same bytes, part of the backlog until they are dropped: written or given up.
    /// When that will be, if they count.
    pub(crate) fn lend(self: &Arc<Self>, text: Bytes) -> (Bytes, Option<Written>) {
        if text.len() < SMALL {
            return (text, None);
        }
        let (sender, written) = oneshot::channel();
        let mut state = lock(&self.state);
        state.backlog += text.len();
        self.account(&mut state);
        drop(state);
        let lent = Lent { face: Arc::clone(self), text, _written: sender };
        (Bytes::from_owner(lent), Some(written))
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut state = lock(&self.face.state);
        state.backlog = state.backlog.saturating_sub(self.text.len());
        self.face.account(&mut state);
        if state.has_room() {
            state.waiting_for_room.drain(..).for_each(Waker::wake);
        }
    }
}
