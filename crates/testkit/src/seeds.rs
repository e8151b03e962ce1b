//! Holds `docs/seeds.md` to its own promises.
//!
//! A row that says `done` must name a place and a test; one that says otherwise
//! must say why; and whatever a row names must be there. What the page claims
//! about behaviour is for the tests it names.

use std::collections::BTreeSet;

use crate::source::Source;

/// What a row may say about itself.
const STATUSES: &[&str] = &["done", "differs", "later", "context"];

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
        if !STATUSES.contains(&status) {
            return Some(format!("has a status we do not know: {status}"));
        }
        if shown.is_empty() {
            return Some(format!("is `{status}` and does not say why"));
        }
        if let Some(path) = quoted(place).find(|name| !self.has_path(name)) {
            return Some(format!("lives in {path}, which is not there"));
        }
        let is_test = |name: &str| self.tests.contains(name);
        if let Some(name) = quoted(shown).find(|name| is_sentence(name) && !is_test(name)) {
            return Some(format!("names the test {name}, which is not there"));
        }
        let is_shown = quoted(shown).any(|name| is_test(name) || self.has_path(name));
        (status == "done" && !is_shown).then(|| "is done, but names no test".to_owned())
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

/// Whether it can only be the name of a test: words, several of them.
fn is_sentence(name: &str) -> bool {
    let is_word = |c: char| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit();
    name.chars().all(is_word) && name.matches('_').count() > 1
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
    fn what_any_row_names_is_there() {
        let row = |place, shown| format!("| 000.1 | a | `{place}` | differs | so: `{shown}` |");
        assert_eq!(complaints(&row("proto/line.rs", "lines_split")), 0);
        assert_eq!(complaints(&row("proto/gone.rs", "lines_split")), 1);
        assert_eq!(complaints(&row("proto/line.rs", "lines_of_old_split")), 1);
        assert_eq!(complaints(&row("proto/line.rs", "--timeout")), 0);
    }

    #[test]
    fn rows_are_numbered_without_gaps() {
        let row = |id| format!("| {id} | a | - | context | b |\n");
        assert_eq!(complaints(&[row("000.1"), row("000.2"), row("001.1")].concat()), 0);
        assert_eq!(complaints(&[row("000.1"), row("000.3")].concat()), 1);
        assert_eq!(complaints("| 000.1 | four | cells | context |"), 1);
    }

    fn complaints(page: &str) -> usize {
        let product = Source::new("crates/proto/src/line.rs", "fn no_such_test() {}\n");
        let tests = Source::new("crates/proto/src/line/tests.rs", "#[test]\nfn lines_split() {}\n");
        check(page, &[product, tests]).len()
    }
}
