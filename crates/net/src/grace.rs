//! The while between the wish to end and the end.
//!
//! ```text
//!   asked to end ──── calls go on ────┬── a moment ──▶ the end
//!                                     └ each that is open is answered with an error
//! ```

use std::time::Duration;

/// How long what is in flight may take, where nobody says otherwise: what
/// container platforms grant before they kill.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// More than a network needs to carry a few errors.
const MOMENT: Duration = Duration::from_secs(1);

/// What of `grace` the clients get, to read that their calls were given up.
pub(crate) fn moment(grace: Duration) -> Duration {
    MOMENT.min(grace / 4)
}

/// What of it the calls get.
pub(crate) fn patience(grace: Duration) -> Duration {
    grace.saturating_sub(moment(grace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_get_all_of_it_but_a_moment() {
        for (grace, calls) in [(10_000, 9_000), (4_000, 3_000), (1_000, 750), (0, 0)] {
            let (grace, calls) = (Duration::from_millis(grace), Duration::from_millis(calls));
            assert_eq!((patience(grace), moment(grace)), (calls, grace.saturating_sub(calls)));
        }
    }
}
