//! The connections to the server: found, or made.

use std::sync::{Arc, Weak};

use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use switchboard_proto::server::legacy::Phase;

use super::{Bridge, Children, Whose, idle};
use crate::face::{Face, lock};
use crate::upstream::{self, Eras, Upstream};

impl Bridge {
    /// The connection that a call goes by, made if need be; none at the end.
    pub(super) fn upstream_for(
        &self,
        face: &Face,
        whose: Whose,
        eras: Eras,
        request: &Message,
    ) -> Result<Arc<Upstream>, Refusal> {
        let mut state = lock(&self.state);
        // A client that was forgotten meanwhile must not get a new connection.
        if state.closed || face.phase() == Some(Phase::Ended) {
            return Err(upstream::over());
        }
        if request.method() == method::INITIALIZE && self.children == Children::PerRequest {
            state.hellos.insert(face.number(), request.clone());
        }
        if let Some(upstream) = state.connections.get(&whose) {
            return Ok(Arc::clone(upstream));
        }
        if let Whose::Alike(_) = whose {
            if state.alike() >= idle::MOST_ALIKE {
                return Err(Refusal::TooManySessions);
            }
            if !std::mem::replace(&mut state.swept, true) {
                tokio::spawn(idle::sweep(Weak::clone(&self.this)));
            }
        }
        let hello = match whose {
            Whose::Call(number, _) => state.hellos.get(&number).cloned(),
            _ => None,
        };
        let spare = state.waiting.spare.take_if(|_| eras.clients == Era::Modern);
        let upstream = if let Some(spare) = spare {
            spare.turn(eras, whose.sharing());
            spare
        } else {
            let (server, limits) = (self.server.clone(), Arc::clone(&self.limits));
            Upstream::between(server, eras, whose.sharing(), hello, limits)
        };
        state.connections.insert(whose, Arc::clone(&upstream));
        Ok(upstream)
    }
}
