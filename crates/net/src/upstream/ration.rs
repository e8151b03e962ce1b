//! Log lines of one kind, of which a server may cause any number.

use std::time::{Duration, Instant};

/// Lines of one kind that are logged in each [`WINDOW`]; further ones are counted.
const FEW: u32 = 5;

/// How long the count of lines lasts.
const WINDOW: Duration = Duration::from_mins(1);

/// How many lines of one kind there were of late.
#[derive(Debug, Default)]
pub(super) struct Ration {
    began: Option<Instant>,
    lines: u32,
}

impl Ration {
    /// One more line: what to add to it, or none if it is not to be logged.
    pub(super) fn handle_line(&mut self, now: Instant) -> Option<String> {
        let is_over = self.began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW);
        let omitted = self.lines.saturating_sub(FEW);
        if is_over {
            *self = Self { began: Some(now), lines: 0 };
        }
        self.lines = self.lines.saturating_add(1);
        match self.lines {
            1 if omitted > 0 => Some(format!(" ({omitted} more lines like this were left out)")),
            1..FEW => Some(String::new()),
            FEW => Some(" (further lines like this are counted for a minute)".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_lines_are_logged_each_minute_and_the_others_counted() {
        let start = Instant::now();
        let mut ration = Ration::default();
        let logged: Vec<_> = (0..1000).filter_map(|_| ration.handle_line(start)).collect();
        assert_eq!(logged.len(), 5);
        assert!(logged[4].contains("counted"), "{logged:?}");
        assert_eq!(ration.handle_line(start + WINDOW / 2), None);
        let next = ration.handle_line(start + WINDOW);
        assert_eq!(next.as_deref(), Some(" (996 more lines like this were left out)"));
        assert_eq!(ration.handle_line(start + WINDOW).as_deref(), Some(""));
    }
}
