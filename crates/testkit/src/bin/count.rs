//! Prints how much there is to know about the product's code: here, or in the folder
//! that is named.

#![expect(clippy::print_stdout, reason = "this is what it is for")]

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use switchboard_testkit::source::{self, Source};
use switchboard_testkit::tidy::reads_json;

/// What counts as the product.
const CRATES: [&str; 4] = ["proto", "net", "gateway", "cli"];

/// What a type begins with, after its visibility.
const TYPES: [&str; 4] = ["struct ", "enum ", "trait ", "type "];

fn main() -> io::Result<()> {
    let root = std::env::args_os().nth(1).map_or_else(source::root, PathBuf::from);
    let mut sources = source::read_all(&root)?;
    let is_ours =
        |path: &str| CRATES.iter().any(|it| path.starts_with(&format!("crates/{it}/src/")));
    sources.retain(|source| source.is_product() && is_ours(&source.path));
    let readers: Vec<_> = sources.iter().filter(|it| it.lines.iter().any(reads_json)).collect();
    println!("{} files read JSON", readers.len());
    for reader in readers {
        println!("  {}", reader.path);
    }
    println!("{} source files", sources.len());
    println!("{} lines of code", sources.iter().map(code_lines).sum::<usize>());
    print_repeated("public type names occur twice", &sources, |visibility| visibility == "pub ");
    print_repeated("type names, public or private, occur more than once", &sources, |_| true);
    Ok(())
}

/// Prints the names that several types have, and where those are.
fn print_repeated(what: &str, sources: &[Source], counts: impl Fn(&str) -> bool) {
    let mut repeated: Vec<_> = types(sources, counts).into_iter().collect();
    repeated.retain(|(_, at)| at.len() > 1);
    repeated.sort_by_key(|(_, at)| std::cmp::Reverse(at.len()));
    println!("{} {what}", repeated.len());
    for (name, at) in repeated {
        println!("  {} {name}: {}", at.len(), at.join(", "));
    }
}

/// Lines that are neither blank, nor comments, nor for tests.
fn code_lines(source: &Source) -> usize {
    let is_code = |line: &&source::Line| {
        let has_words = !(line.code.trim().is_empty() && line.literals.trim().is_empty());
        !line.is_test && has_words
    };
    source.lines.iter().filter(is_code).count()
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
            if let Some(name) = name.filter(|_| counts(visibility) && !is_alias) {
                found.entry(name).or_default().push(source.path.as_str());
            }
        }
    }
    found
}
