//! Clients that read slower than they are written to.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use super::{Face, lock, wait};

impl Face {
    /// Waits until this client has read enough of what it was sent, or is over.
    pub async fn room(&self) {
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            if state.has_room() || state.ended {
                return Poll::Ready(());
            }
            wait(&mut state.waiting_for_room, cx);
            Poll::Pending
        })
        .await;
    }

    /// The same, for who cannot hold on to it.
    pub fn room_for_more(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.room().await })
    }

    /// Whether this client reads slower than it is written to.
    pub fn is_slow(&self) -> bool {
        !lock(&self.state).has_room()
    }
}
