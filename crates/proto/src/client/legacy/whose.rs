//! Whose the open calls are.

use super::{Legacy, Owner};
use crate::client::{CallId, Ticket};
use crate::exchange::Lane;

impl<T: Ticket> Legacy<T> {
    /// The call that was opened with `ticket`, if it is open.
    pub fn find(&self, ticket: &T) -> Option<CallId> {
        let is_it = |owner: &Owner<T>| matches!(owner, Owner::Client(theirs) if theirs == ticket);
        self.ledger.ids(is_it).first().copied()
    }

    /// Who has calls open.
    pub fn tickets(&self) -> impl Iterator<Item = &T> {
        self.ledger.owners().filter_map(client)
    }

    /// Who has calls open on which the server may ask or log something.
    pub fn asking(&self) -> impl Iterator<Item = &T> {
        self.ledger.asking().filter_map(|id| client(&self.ledger.get(id)?.owner))
    }

    /// Who opened the call that travels on `lane`, if it is open.
    pub fn ticket(&self, lane: Lane) -> Option<&T> {
        client(&self.ledger.get(CallId(lane.0))?.owner)
    }
}

/// The client that a call is of, if it is of one.
pub(super) fn client<T>(owner: &Owner<T>) -> Option<&T> {
    match owner {
        Owner::Client(ticket) => Some(ticket),
        Owner::Revival | Owner::Renewal => None,
    }
}
