//! Prints how much there is to know about the product's code: here, or in the folder
//! that is named.

#![expect(clippy::print_stdout, reason = "this is what it is for")]

use std::path::PathBuf;
use std::{fs, io};

use switchboard_testkit::count::{code_lines, product, repeated_types, ways};
use switchboard_testkit::source::{self, Source};
use switchboard_testkit::tidy::reads_json;

fn main() -> io::Result<()> {
    let root = std::env::args_os().nth(1).map_or_else(source::root, PathBuf::from);
    let sources = product(&root)?;
    let readers: Vec<_> = sources.iter().filter(|it| it.lines.iter().any(reads_json)).collect();
    println!("{} files read JSON", readers.len());
    for reader in readers {
        println!("  {}", reader.path);
    }
    println!("{} source files", sources.len());
    println!("{} lines of code", sources.iter().map(code_lines).sum::<usize>());
    print_repeated("public type names occur twice", &sources, |visibility| visibility == "pub ");
    print_repeated("type names, public or private, occur more than once", &sources, |_| true);
    for (letter, way) in ways(&fs::read_to_string(root.join("ARCHITECTURE.md"))?) {
        let (files, functions) = (way.files.len(), way.functions.len());
        println!("{files} files and {functions} functions on way ({letter}) of ARCHITECTURE.md");
    }
    Ok(())
}

/// Prints the names that several types have, and where those are.
fn print_repeated(what: &str, sources: &[Source], counts: impl Fn(&str) -> bool) {
    let repeated = repeated_types(sources, counts);
    println!("{} {what}", repeated.len());
    for (name, at) in repeated {
        println!("  {} {name}: {}", at.len(), at.join(", "));
    }
}
