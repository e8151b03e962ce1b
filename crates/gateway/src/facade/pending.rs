//! People who are at the identity provider, until they come back.

use std::net::IpAddr;

use switchboard_proto::Table;
use switchboard_proto::auth::is_same;

use super::authorize::AuthorizationRequest;
use super::state::{FacadeError, FacadeState, network};
use crate::idp::IdpVisit;
use crate::lock;

/// People who are at the identity provider.
const MAX_PENDING: usize = 1000;
/// The same, from one browser and from one address. The oldest make room.
const PENDING_PER_BROWSER: usize = 10;
const PENDING_PER_ADDRESS: usize = 50;
/// How long they may take, in seconds.
const PENDING_LIFE: u64 = 600;

/// Somebody who is at the identity provider.
pub(super) struct PendingVisitor {
    pub(super) request: AuthorizationRequest,
    pub(super) visit: IdpVisit,
    /// The hash of the cookie of their browser.
    pub(super) browser: String,
    address: IpAddr,
    until: u64,
}

/// The oldest visitor of this kind goes if there are so many.
fn make_room(
    pending: &mut Table<String, PendingVisitor>,
    most: usize,
    is_of_it: impl Fn(&PendingVisitor) -> bool,
) {
    let of_it = || pending.iter().filter(|(_, it)| is_of_it(it));
    if of_it().count() < most {
        return;
    }
    let oldest = of_it().min_by_key(|(_, it)| it.until).map(|(state, _)| state.clone());
    oldest.map(|state| pending.remove(&state));
}

impl FacadeState {
    /// Remembers a visitor until they come back with the `state` of their visit.
    pub(super) fn wait_for(
        &self,
        request: AuthorizationRequest,
        visit: IdpVisit,
        browser: String,
        address: Option<IpAddr>,
        now: u64,
    ) -> Result<(), FacadeError> {
        let (mut pending, address) = (lock(&self.pending), network(address));
        pending.retain(|_, it| now <= it.until);
        make_room(&mut pending, PENDING_PER_BROWSER, |it| it.browser == browser);
        let most = if pending.len() < MAX_PENDING { PENDING_PER_ADDRESS } else { 1 };
        make_room(&mut pending, most, |it| it.address == address);
        if pending.len() >= MAX_PENDING {
            return Err(FacadeError::Full("people who sign in"));
        }
        let (state, until) = (visit.state().reveal().to_owned(), now + PENDING_LIFE);
        pending.insert(state, PendingVisitor { request, visit, browser, address, until });
        Ok(())
    }

    /// The visitor who comes back, once, and only in the browser that they left with (OS-5).
    pub(super) fn welcome(&self, state: &str, browser: &str, now: u64) -> Option<PendingVisitor> {
        let mut pending = lock(&self.pending);
        let is_theirs = is_same(&pending.get(state)?.browser, browser);
        if !is_theirs {
            return None;
        }
        pending.remove(state).filter(|it| now <= it.until)
    }
}
