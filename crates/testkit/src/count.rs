//! How much there is to know about the product's code.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::source::{self, Line, Source};

/// What counts as the product.
const CRATES: [&str; 4] = ["proto", "net", "gateway", "cli"];

/// What a type begins with, after its visibility.
const TYPES: [&str; 4] = ["struct ", "enum ", "trait ", "type "];

/// The product's own files.
pub fn product(root: &Path) -> io::Result<Vec<Source>> {
    let mut sources = source::read_all(root)?;
    let is_ours =
        |path: &str| CRATES.iter().any(|it| path.starts_with(&format!("crates/{it}/src/")));
    sources.retain(|source| source.is_product() && is_ours(&source.path));
    Ok(sources)
}

/// Lines that are neither blank, nor comments, nor for tests.
pub fn code_lines(source: &Source) -> usize {
    let is_code = |line: &&Line| {
        let has_words = !(line.code.trim().is_empty() && line.literals.trim().is_empty());
        !line.is_test && has_words
    };
    source.lines.iter().filter(is_code).count()
}

/// The names that several types have, most frequent first, and where those types are.
pub fn repeated_types(sources: &[Source], counts: impl Fn(&str) -> bool) -> Vec<(&str, Vec<&str>)> {
    let mut repeated: Vec<_> = types(sources, counts).into_iter().collect();
    repeated.retain(|(_, at)| at.len() > 1);
    repeated.sort_by_key(|(_, at)| std::cmp::Reverse(at.len()));
    repeated
}

/// Where types are whose visibility `counts`, by name.
fn types(sources: &[Source], counts: impl Fn(&str) -> bool) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for source in sources {
        for line in source.lines.iter().filter(|line| !line.is_test) {
            let code = line.code.trim_start();
            let after = code.strip_prefix("pub").map_or(code, |rest| {
                let scope = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
                scope.map_or(rest, |(_, rest)| rest).trim_start()
            });
            let visibility = &code[..code.len() - after.len()];
            // An indented alias is one of an impl or a trait, and no type of its own.
            let is_alias = after.starts_with("type ") && code.len() < line.code.len();
            let rest = TYPES.iter().find_map(|it| after.strip_prefix(it));
            let name = rest.and_then(|rest| rest.split(|c| !source::is_ident(c)).next());
            // In a macro the name is a variable, and is given elsewhere.
            let name = name.filter(|name| !name.is_empty());
            if let Some(name) = name.filter(|_| counts(visibility) && !is_alias) {
                found.entry(name).or_default().push(source.path.as_str());
            }
        }
    }
    found
}

/// What a reader opens who follows one message.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Way {
    /// The files, from the crate's `src` on.
    pub files: BTreeSet<String>,
    /// The functions.
    pub functions: BTreeSet<String>,
}

/// The ways in ARCHITECTURE.md, by their letters: the second and the third column of their tables.
pub fn ways(page: &str) -> BTreeMap<String, Way> {
    let mut ways: BTreeMap<String, Way> = BTreeMap::new();
    let mut letter = None;
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("##") {
            let title = title.trim_start_matches(['#', ' ']);
            let named = title.strip_prefix('(').and_then(|rest| rest.split_once(')'));
            letter = named.map(|(letter, _)| letter.to_owned());
        }
        let mut cells = line.split('|').skip(1);
        let is_step = cells.next().is_some_and(|number| number.trim().parse::<u32>().is_ok());
        let (Some(letter), true) = (&letter, is_step) else { continue };
        let way = ways.entry(letter.clone()).or_default();
        way.files.extend(quoted(cells.next()));
        way.functions.extend(quoted(cells.next()));
    }
    ways
}

/// What is between backticks.
fn quoted(cell: Option<&str>) -> impl Iterator<Item = String> {
    cell.unwrap_or_default().split('`').skip(1).step_by(2).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_two_types_have_is_found_whatever_they_are() {
        let sources = [
            Source::new(
                "crates/net/src/a.rs",
                "pub struct A;\nenum B {}\nimpl A {\n    type C = A;\n}\n",
            ),
            Source::new(
                "crates/net/src/b.rs",
                "pub(crate) trait A {}\ntype D = u8;\n#[cfg(test)]\nmod tests {\n    struct B;\n}\n",
            ),
        ];
        let all = repeated_types(&sources, |_| true);
        assert_eq!(all, [("A", vec!["crates/net/src/a.rs", "crates/net/src/b.rs"])]);
        assert_eq!(repeated_types(&sources, |visibility| visibility == "pub "), []);
    }

    #[test]
    fn a_way_is_what_its_tables_name() {
        let page = "### (a) One\n| # | file | function |\n|---|---|---|\n\
                    | 1 | `a.rs`, `b.rs` | `f` |\n| 2 | `a.rs` | `g` of it |\n## Other\n| 1 | `c.rs` | `h` |\n";
        let ways = ways(page);
        assert_eq!(ways.len(), 1);
        assert_eq!((ways["a"].files.len(), ways["a"].functions.len()), (2, 2));
    }
}
