//! What a terminal shows while something takes long: what we wait for, or how far a call is.
//!
//! There is one such line, on stderr, and only after half a second, unless a server reports its
//! progress. `indicatif` leaves it out where stderr is no terminal, or one that cannot erase a
//! line (`TERM=dumb`).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use switchboard_net::client::Progress;

use crate::output::plain;

/// What takes less than this needs no words.
const SOON: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(120);
/// Parts of the whole that the bar can show.
const PARTS: u64 = 1000;

const WAITING: &str = "{spinner} {msg} ({elapsed})";
const COUNTING: &str = "{spinner} {bar:20} {msg}";

/// The line that is shown.
#[derive(Default)]
struct ProgressLine {
    bar: Option<ProgressBar>,
    /// Whether a person is being asked something, in the same place.
    is_paused: bool,
}

static LINE: Mutex<ProgressLine> = Mutex::new(ProgressLine { bar: None, is_paused: false });

fn line() -> MutexGuard<'static, ProgressLine> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProgressLine {
    /// Shows a text in place of what was there.
    fn show(&mut self, form: &'static str, text: String) {
        if self.is_paused {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(PARTS);
            bar.enable_steady_tick(TICK);
            bar
        });
        // Our own templates are good ones.
        bar.set_style(
            ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        bar.set_message(text);
    }

    fn erase(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Erases the line at the end of the work, also if a signal ends it.
struct EraseOnDrop;

impl Drop for EraseOnDrop {
    fn drop(&mut self) {
        line().erase();
    }
}

/// Does `work`. If it takes long, the terminal says what we wait for.
pub(crate) async fn waiting<T>(what: impl Into<String>, work: impl Future<Output = T>) -> T {
    let _erase = EraseOnDrop;
    let mut work = Box::pin(work);
    if let Ok(done) = tokio::time::timeout(SOON, &mut work).await {
        return done;
    }
    {
        let mut line = line();
        if line.bar.is_none() {
            line.show(WAITING, plain(&what.into()).replace('\n', " "));
        }
    }
    work.await
}

/// Shows how far a call is.
pub(crate) fn show_progress(step: &Progress) {
    let words = plain(step.message.as_deref().unwrap_or_default()).replace('\n', " ");
    let total = step.total.filter(|total| *total > 0.0);
    let of = total.map(|total| format!("/{total}")).unwrap_or_default();
    let text = format!("{}{of} {words}", step.progress);
    let mut line = line();
    line.show(if total.is_some() { COUNTING } else { WAITING }, text);
    if let (Some(bar), Some(total)) = (&line.bar, total) {
        bar.set_position(parts(step.progress / total));
    }
}

/// A share of the whole, in parts that the bar can show.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
fn parts(share: f64) -> u64 {
    // What is no number at all is nothing.
    (share.clamp(0.0, 1.0) * 1000.0) as u64
}

/// Keeps the line away while a person is asked something.
pub(crate) struct PausedProgress;

impl PausedProgress {
    pub(crate) fn begin() -> Self {
        let mut line = line();
        line.erase();
        line.is_paused = true;
        Self
    }
}

impl Drop for PausedProgress {
    fn drop(&mut self) {
        line().is_paused = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_is_given_up_leaves_no_line() {
        line().show(WAITING, "waiting".to_owned());
        let waiting = waiting("nothing", std::future::pending::<()>());
        assert!(tokio::time::timeout(Duration::ZERO, waiting).await.is_err());
        assert!(line().bar.is_none());
    }

    #[test]
    fn a_share_of_the_whole_fits_the_bar() {
        assert_eq!([-1.0, 0.0, 0.5, 1.0, 7.0, f64::NAN].map(parts), [0, 0, 500, 1000, 1000, 0]);
    }
}
