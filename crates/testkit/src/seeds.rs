//! Holds `docs/seeds.md` to its own promises.
//!
//! A row that says `done` must name a place that exists and a test that
//! exists; one that says otherwise must say why. What the page claims about
//! behaviour is for the tests it names.

use std::collections::BTreeSet;

use crate::source::Source;

/// What a row may say about itself.
const STATUSES: &[&str] = &["planned", "done", "differs", "later", "context"];

/// What is wrong with the page, given all files of the repository.
pub fn check(page: &str, sources: &[Source]) -> Vec<String> {
    let known = Known::of(sources);
    let mut last = (String::new(), 0);
    let mut complaints = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| 0")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" |").map(str::trim).collect();
        let [id, _, place, status, shown] = cells[..] else {
            complaints.push(format!("not five cells: {row}"));
            continue;
        };
        let number = id.split_once('.').map(|(seed, number)| (seed.to_owned(), number.parse()));
        let Some((seed, Ok(number))) = number else {
            complaints.push(format!("no number: {row}"));
            continue;
        };
        if number != if seed == last.0 { last.1 + 1 } else { 1 } {
            complaints.push(format!("{id} is out of order"));
        }
        last = (seed, number);
        complaints.extend(known.check_row(status, place, shown).map(|what| format!("{id} {what}")));
    }
    complaints
}

/// What a row can point to.
struct Known<'a> {
    paths: BTreeSet<&'a str>,
    tests: BTreeSet<String>,
}

impl<'a> Known<'a> {
    fn of(sources: &'a [Source]) -> Self {
        let functions = sources.iter().filter(|source| source.is_rust());
        let functions = functions.flat_map(|source| {
            let is_test = |number: usize| source.lines[number - 1].is_test;
            source.functions().into_iter().filter(move |function| is_test(function.first))
        });
        Self {
            paths: sources.iter().map(|source| source.path.as_str()).collect(),
            tests: functions.map(|function| function.name).collect(),
        }
    }

    fn check_row(&self, status: &str, place: &str, shown: &str) -> Option<String> {
        let missing = |cell| quoted(cell).find(|name| !self.has_path(name));
        match status {
            "done" => missing(place)
                .map(|path| format!("is done in {path}, which is not there"))
                .or((!quoted(shown).any(|name| self.tests.contains(name) || self.has_path(name)))
                    .then(|| "is done, but names no test that is there".to_owned())),
            "planned" => None,
            _ if !STATUSES.contains(&status) => {
                Some(format!("has a status we do not know: {status}"))
            }
            _ => shown.is_empty().then(|| format!("is `{status}` and does not say why")),
        }
    }

    /// Whether `path`, as the page shortens it, is a file or a folder with files.
    fn has_path(&self, path: &str) -> bool {
        let (owner, rest) = path.split_once('/').unwrap_or((path, ""));
        let long =
            [path.to_owned(), format!("crates/{owner}/src/{rest}"), format!("crates/{path}")];
        long.iter().any(|long| {
            self.paths.iter().any(|file| {
                file == long || (long.ends_with('/') && file.starts_with(long.as_str()))
            })
        })
    }
}

/// What stands between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_done_row_needs_a_place_and_a_test() {
        assert_eq!(
            complaints("| 000.1 | a | `proto/line.rs`, `proto/` | done | `lines_split` |"),
            0
        );
        assert_eq!(complaints("| 000.1 | a | `proto/gone.rs` | done | `lines_split` |"), 1);
        assert_eq!(complaints("| 000.1 | a | `proto/line.rs` | done | `no_such_test` |"), 1);
        assert_eq!(complaints("| 000.1 | a | `proto/line.rs` | done | |"), 1);
    }

    #[test]
    fn every_other_row_says_why() {
        assert_eq!(complaints("| 000.1 | a | - | differs | a reason |"), 0);
        assert_eq!(complaints("| 000.1 | a | - | differs | |"), 1);
        assert_eq!(complaints("| 000.1 | a | - | later | |"), 1);
        assert_eq!(complaints("| 000.1 | a | - | perhaps | b |"), 1);
    }

    #[test]
    fn rows_are_numbered_without_gaps() {
        let row = |id| format!("| {id} | a | - | planned | |\n");
        assert_eq!(complaints(&[row("000.1"), row("000.2"), row("001.1")].concat()), 0);
        assert_eq!(complaints(&[row("000.1"), row("000.3")].concat()), 1);
        assert_eq!(complaints("| 000.1 | four | cells | planned |"), 1);
    }

    fn complaints(page: &str) -> usize {
        let product = Source::new("crates/proto/src/line.rs", "fn no_such_test() {}\n");
        let tests = Source::new("crates/proto/src/line/tests.rs", "#[test]\nfn lines_split() {}\n");
        check(page, &[product, tests]).len()
    }
}
