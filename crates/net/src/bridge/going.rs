//! Calls that have waited, on their way to the server.
//!
//! Whoever lets a call on does so without a lock, and its client may drop it at that
//! moment. The drop must not overtake the call: nobody would cancel it later.

use switchboard_proto::exchange::Up;

use super::Caller;
use super::gate::Key;

/// The calls that are being made, each with its end if that came meanwhile.
#[derive(Debug, Default)]
pub(super) struct Going(Vec<(Key, Option<(Caller, Up)>)>);

impl Going {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// This call is about to be made; [`Going::end`] must follow.
    pub(super) fn begin(&mut self, open: &(Caller, Up)) {
        self.0.extend(key(open).map(|key| (key, None)));
    }

    /// Keeps the drop of a call that is being made; gives back that of any other.
    pub(super) fn keep(&mut self, drop: (Caller, Up)) -> Option<(Caller, Up)> {
        let going = self.0.iter_mut().find(|(going, _)| Some(*going) == key(&drop));
        match going {
            Some((_, end)) => {
                *end = Some(drop);
                None
            }
            None => Some(drop),
        }
    }

    /// The call is made: what is to follow it.
    pub(super) fn end(&mut self, made: Option<Key>) -> Option<(Caller, Up)> {
        let at = self.0.iter().position(|(going, _)| Some(*going) == made)?;
        self.0.swap_remove(at).1
    }
}

/// Which call a verb opens or drops.
pub(super) fn key((caller, verb): &(Caller, Up)) -> Option<Key> {
    match verb {
        Up::Open { exchange, .. } | Up::Drop { exchange, .. } => {
            Some((caller.face.number(), *exchange))
        }
        Up::Again { .. } | Up::Supply { .. } | Up::Note { .. } => None,
    }
}
