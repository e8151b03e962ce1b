//! What one server lists, for whoever must not go on without knowing it.

use std::time::Duration;

use tokio::time::timeout;

use super::berth::View;
use super::{Kind, Roster};

impl Roster {
    /// The names of all that a server lists of a kind; none if its lists are not
    /// known, of whatever time.
    pub fn listed(&self, server: &str, kind: Kind) -> Option<Vec<String>> {
        let berth = self.inner.berth(server)?;
        let is_known = berth.view.borrow().is_known;
        let definitions = berth.definitions(kind).into_iter();
        is_known.then(|| definitions.map(|it| it.name().into_owned()).collect())
    }

    /// Waits until the lists of a server are known, or it has broken, for
    /// `patience` at most.
    pub async fn until_listed(&self, server: &str, patience: Duration) {
        let Some(berth) = self.inner.berth(server) else { return };
        let mut view = berth.view.subscribe();
        let is_over = |view: &View| view.is_known || view.is_removed || view.state.is_settled();
        // In time or not, what is listed tells.
        _ = timeout(patience, view.wait_for(is_over)).await;
    }
}
