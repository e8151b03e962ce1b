//! Who calls: a client itself, or somebody who stands before it.

use std::sync::Arc;

use switchboard_proto::exchange::Up;

use super::Bridge;
use crate::face::Face;
use crate::inside::Works;
use crate::upstream::Recipient;

/// A client, and who is told what comes of its calls.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) face: Arc<Face>,
    pub(super) owner: Arc<dyn Recipient>,
    /// Who hears what belongs to no call: whoever outlives them.
    pub(super) hears: Arc<dyn Recipient>,
    /// What it asks is beside the calls of clients.
    pub(super) is_aside: bool,
}

impl Bridge {
    /// What [`Inside::take`](crate::inside::Inside::take) does, for a client that somebody stands before: `owner`
    /// is told what comes of its calls. It goes by the client's number, and must
    /// live until the client is forgotten to hear what belongs to no call.
    pub fn take_for(&self, face: &Arc<Face>, owner: Arc<dyn Recipient>, verb: Up) -> Works {
        self.take_from(face, owner, verb, true)
    }

    /// The same for what we ask ourselves: it takes no turn from clients.
    pub(crate) fn take_aside(
        &self,
        face: &Arc<Face>,
        owner: Arc<dyn Recipient>,
        verb: Up,
    ) -> Works {
        self.take_from(face, owner, verb, false)
    }

    fn take_from(
        &self,
        face: &Arc<Face>,
        owner: Arc<dyn Recipient>,
        verb: Up,
        counts: bool,
    ) -> Works {
        let hears = Arc::clone(&owner);
        let caller = Caller { face: Arc::clone(face), owner, hears, is_aside: !counts };
        if caller.is_aside && self.is_common() {
            // How the server stands is known by what comes of this.
            return self.go_on(&caller, verb);
        }
        match self.admit(caller, verb, counts) {
            Some((caller, verb)) => self.go_on(&caller, verb),
            None => Works::none(),
        }
    }

    /// Passes a verb on once it is known what the server speaks.
    pub(super) fn go_on(&self, caller: &Caller, verb: Up) -> Works {
        match self.hold_back(caller, verb) {
            Some(verb) => self.pass_on(caller, verb),
            None => Works::none(),
        }
    }

    /// Passes a verb on to the connection that it belongs to.
    pub(super) fn pass_on(&self, caller: &Caller, verb: Up) -> Works {
        let face = &caller.face;
        match verb {
            Up::Open { exchange, request, said } => self.open(caller, exchange, &request, &said),
            Up::Again { exchange, request } => self.again(face, exchange, &request),
            Up::Supply { ask, answer } => self.supply(face, ask, &answer),
            Up::Note { message } => self.note(face, &message),
            Up::Drop { exchange, message } => self.drop_call(face, exchange, message.as_ref()),
        }
    }
}
