//! On whose behalf a client speaks, and the turns of its calls.

use std::sync::Arc;

use switchboard_proto::server::Half;

use super::Face;
use crate::http::request_body::Charge;
use crate::inside::Works;
use crate::who::{Turns, Who};

impl Face {
    /// Says on whose behalf it speaks; the first word counts.
    pub(crate) fn speak_for(&self, who: &Who) {
        _ = self.who.set(who.clone());
    }

    /// On whose behalf it speaks: nobody in particular, if it did not say.
    pub fn who(&self) -> &Who {
        static NOBODY: std::sync::LazyLock<Who> = std::sync::LazyLock::new(Who::default);
        self.who.get().unwrap_or(&NOBODY)
    }

    /// What tells those whom it speaks for from others; empty for nobody in particular.
    pub fn principal(&self) -> &[u8] {
        self.who().identity()
    }

    /// A step that opens calls which have their turns, and a charge for their text: both
    /// are over when the answer is not owed any more.
    pub(crate) fn step_in<R>(
        self: &Arc<Self>,
        turns: Turns,
        charge: Option<&Arc<Charge>>,
        step: impl FnOnce(&mut Half) -> R,
    ) -> (R, Works) {
        self.pass(charge, |state| {
            state.turns.take(turns);
            step(&mut state.half)
        })
    }
}
