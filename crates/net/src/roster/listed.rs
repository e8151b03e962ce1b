//! What one server lists, for whoever must not go on without knowing it.

use std::time::Duration;

use tokio::time::timeout;

use super::{Kind, Roster};
use crate::drive::race;

impl Roster {
    /// The names of all that a server lists of a kind; none if its lists are not
    /// known, of whatever time.
    pub fn listed(&self, server: &str, kind: Kind) -> Option<Vec<String>> {
        let berth = self.inner.berth(server)?;
        let is_known = berth.lists.borrow().is_known;
        let definitions = berth.definitions(kind).into_iter();
        is_known.then(|| definitions.map(|it| it.name().into_owned()).collect())
    }

    /// Waits until the lists of a server are known, or it has broken, for
    /// `patience` at most.
    pub async fn until_listed(&self, server: &str, patience: Duration) {
        let Some(berth) = self.inner.berth(server) else { return };
        let (mut lists, mut state) = (berth.lists.subscribe(), berth.state.subscribe());
        let is_known = lists.wait_for(|lists| lists.is_known);
        let is_over = race(is_known, state.wait_for(|state| !state.is_pending()));
        // In time or not, what is listed tells.
        _ = timeout(patience, is_over).await;
    }
}
