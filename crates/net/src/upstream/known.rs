//! Which eras a server is known to speak, or not to speak, and until when (NEG-9).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use switchboard_proto::revision::Era;

use super::{Server, Target};
use crate::face::{lock, now};

/// What is known of one server.
#[derive(Default)]
pub(super) struct Known {
    eras: Mutex<Eras>,
}

#[derive(Default)]
struct Eras {
    legacy: Option<(bool, Instant)>,
    modern: Option<(bool, Instant)>,
}

/// How long an endpoint is taken for what it was: it may be replaced.
const ENDPOINT: Duration = Duration::from_mins(10);

/// The same for a command, which is what it is until it is installed anew.
const COMMAND: Duration = Duration::from_hours(24);

/// How long the user's word holds.
const FOR_GOOD: Duration = Duration::from_hours(24 * 365);

/// How long a guess holds that was made because nothing could be found out.
const GUESSED: Duration = Duration::from_secs(2);

impl Known {
    fn assume(&self, era: Era, speaks: bool, time: Duration) {
        let mut eras = lock(&self.eras);
        let known = if era == Era::Modern { &mut eras.modern } else { &mut eras.legacy };
        *known = Some((speaks, now() + time));
    }
}

impl Server {
    /// The same server, of which it is known that it speaks this era: it is not asked.
    #[must_use]
    pub fn speaking(self, era: Era) -> Self {
        self.known().assume(era, true, FOR_GOOD);
        self
    }

    /// Whether it speaks an era, if that is known.
    pub(crate) fn speaks(&self, era: Era) -> Option<bool> {
        let eras = lock(&self.known().eras);
        let known = if era == Era::Modern { eras.modern } else { eras.legacy };
        known.filter(|(_, until)| *until > now()).map(|(speaks, _)| speaks)
    }

    /// Remembers that it speaks an era, or does not.
    pub(crate) fn learn(&self, era: Era, speaks: bool) {
        let is_command = matches!(self.target(), Target::Command(_));
        self.known().assume(era, speaks, if is_command { COMMAND } else { ENDPOINT });
    }

    /// Takes it to speak an era for now, or not to.
    pub(crate) fn guess(&self, era: Era, speaks: bool) {
        self.known().assume(era, speaks, GUESSED);
    }
}
