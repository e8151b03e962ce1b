//! One server of a fleet, for clients that come to it alone.

use std::fmt;
use std::sync::{Arc, Weak};

use http::HeaderName;
use switchboard_net::bridge::Bridge;
use switchboard_net::face::Face;
use switchboard_net::inside::{Inside, Works};
use switchboard_proto::exchange::Up;

use super::Fleet;

/// Passes everything on as it is; a server that sleeps is woken.
pub(super) struct Alone {
    pub(super) fleet: Weak<Fleet>,
    pub(super) name: Arc<str>,
    pub(super) bridge: Arc<Bridge>,
}

impl Inside for Alone {
    fn take(&self, face: &Arc<Face>, verb: Up) -> Works {
        if let (Up::Open { .. }, Some(fleet)) = (&verb, self.fleet.upgrade()) {
            fleet.want(&self.name);
        }
        self.bridge.take(face, verb)
    }

    fn forget(&self, face: &Arc<Face>) {
        self.bridge.forget(face);
    }

    fn carries(&self) -> Option<Arc<[HeaderName]>> {
        self.bridge.carries()
    }
}

impl fmt::Debug for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alone").field("name", &self.name).finish_non_exhaustive()
    }
}
