//! What may be different about a site while it is served.

use std::sync::{Arc, PoisonError, RwLock};

use switchboard_proto::limits::Limits;

use super::guard::Guard;
use super::site::{Inner, Site, SiteOptions};

/// Who may talk to a site, and how much. See [`Site::adjust`].
#[derive(Clone, Debug)]
pub struct Rules {
    /// Who may talk to it.
    pub guard: Guard,
    /// Bounds of each conversation.
    pub limits: Arc<Limits>,
    /// Sessions at once; beyond it new ones are refused.
    pub max_sessions: usize,
}

/// The rules of one site, replaced as a whole.
#[derive(Debug)]
pub(super) struct InForce(RwLock<Arc<Rules>>);

impl InForce {
    /// Those that a site begins with.
    pub(super) fn of(options: &SiteOptions) -> Self {
        let SiteOptions { guard, limits, max_sessions, .. } = options;
        let (guard, limits) = (guard.clone(), Arc::clone(limits));
        Self(RwLock::new(Arc::new(Rules { guard, limits, max_sessions: *max_sessions })))
    }
}

impl Inner {
    /// The rules as they are at this time.
    pub(super) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Site {
    /// Goes by these rules from the next request on, whatever its options said.
    /// Sessions that are open stay, with the bounds that they began with.
    pub fn adjust(&self, rules: Rules) {
        let inner = &*self.inner;
        for sessions in [&inner.sessions, &inner.old, &inner.listens] {
            sessions.bound(rules.max_sessions);
        }
        inner.parking.bound(rules.limits.parked);
        *inner.rules.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }
}
