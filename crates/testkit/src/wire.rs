//! Which rules of the wire are tested, and where.
//!
//! `docs/wire-rules.txt` has the rules. A test says which it holds in a
//! comment of its own, on the function or inside it:
//!
//! ```text
//! // wire: SSE-1, STD-2        in Rust and JavaScript
//! # wire: SSE-1, STD-2         in Python and in transcripts
//! ```
//!
//! From both comes `docs/wire-coverage.md`. The table is checked in, so that
//! people can read it; a test compares it, so that it stays true.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::source::Source;

mod cite;
#[cfg(test)]
mod tests;

pub use cite::{Citation, citations};

/// How many tests a row names before it only counts them.
const NAMED: usize = 3;

/// One rule, in our words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    /// The heading it stands under.
    pub topic: String,
    /// How tests call it: `SSE-1`.
    pub id: String,
    /// `must`, `should`, `may`, `ours` or `mixed`.
    pub level: String,
    /// What it asks.
    pub text: String,
}

/// Reads the list of rules; a line that is none is an error that names it.
pub fn parse_rules(text: &str) -> Result<Vec<Rule>, String> {
    let mut topic = String::new();
    let mut rules: Vec<Rule> = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut topic);
        } else if !line.is_empty() && !line.starts_with('#') {
            let parts: Vec<&str> = line.split(" | ").collect();
            let [id, level, text] = parts[..] else {
                return Err(format!("not `id | level | text`: {line}"));
            };
            if !["must", "should", "may", "ours", "mixed"].contains(&level) {
                return Err(format!("{id} has no level we know: {level}"));
            }
            if rules.iter().any(|rule| rule.id == id) {
                return Err(format!("{id} is there twice"));
            }
            let topic = topic.clone();
            rules.push(Rule { topic, id: id.into(), level: level.into(), text: text.into() });
        }
    }
    Ok(rules)
}

/// The citations that name no rule, one complaint each.
pub fn unknown(rules: &[Rule], citations: &[Citation]) -> Vec<String> {
    let known: BTreeSet<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    let unknown = citations.iter().filter(|citation| !known.contains(citation.id.as_str()));
    unknown.map(|c| format!("{}:{}: no rule is called {:?}", c.path, c.line, c.id)).collect()
}

/// The citations of all test sources.
pub fn collect(sources: &[Source]) -> Vec<Citation> {
    sources.iter().flat_map(citations).collect()
}

/// The page: a table for each topic.
pub fn render(rules: &[Rule], citations: &[Citation]) -> String {
    let mut tests: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for citation in citations {
        let places = tests.entry(&citation.id).or_default();
        places.insert((&citation.path, citation.test.as_deref().unwrap_or_default()));
    }
    let covered =
        |rules: &[&Rule]| rules.iter().filter(|r| tests.contains_key(r.id.as_str())).count();

    let all: Vec<&Rule> = rules.iter().collect();
    let mut page = String::from(HEAD);
    _ = writeln!(page, "{} of {} rules are cited by a test.", covered(&all), all.len());
    for topic in all.chunk_by(|a, b| a.topic == b.topic) {
        let heading = &topic[0].topic;
        _ = writeln!(page, "\n## {heading} ({} of {})\n", covered(topic), topic.len());
        page.push_str("| rule | level | what it asks | covered by |\n|---|---|---|---|\n");
        for rule in topic {
            let places = tests.get(rule.id.as_str()).map(places).unwrap_or_default();
            _ = writeln!(page, "| {} | {} | {} | {places} |", rule.id, rule.level, rule.text);
        }
    }
    page
}

/// The first few tests by name, and how many more there are.
fn places(tests: &BTreeSet<(&str, &str)>) -> String {
    let named = tests.iter().take(NAMED).map(|(path, test)| match *test {
        "" => format!("`{path}`"),
        test => format!("`{test}` in `{path}`"),
    });
    let mut text = named.collect::<Vec<_>>().join("; ");
    if tests.len() > NAMED {
        _ = write!(text, "; and {} more", tests.len() - NAMED);
    }
    text
}

const HEAD: &str = "\
# Which rules of the wire are tested

Written by a test from `wire-rules.txt` and the `wire:` comments of all tests; do not edit.
After a change: `UPDATE=1 cargo test -p switchboard-testkit wire`.

A citation says that a test shows the rule, at least in part; the test says how. The levels are the
specification's own (must, should, may), or `ours` where the SDKs or we chose, or `mixed`.
An empty last column means that no test shows the rule yet.

";
