//! A file of the repository, read the way the tidy rules need it.
//!
//! Splits Rust into code, string literals and comments, line by line, and says
//! which lines are only compiled for tests. A light lexer, no parser: it knows
//! strings, characters, comments and braces, and nothing of the grammar, so it
//! reads what does not compile as well as what does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

mod lexer;
#[cfg(test)]
mod tests;

/// What nobody wrote: built, downloaded or found by the fuzzer.
const NOT_OURS: &[&str] =
    &[".cache", ".git", ".venv", "__pycache__", "artifacts", "corpus", "node_modules", "target"];

/// One text file.
#[derive(Clone, Debug)]
pub struct Source {
    /// From the root of the repository, with `/` between the parts.
    pub path: String,
    /// Its lines, numbered from one by their place.
    pub lines: Vec<Line>,
}

/// One line, in its parts. Columns are kept: what belongs elsewhere is blank.
#[derive(Clone, Debug)]
pub struct Line {
    /// As it stands in the file.
    pub text: String,
    /// Without comments and without what is inside quotes.
    pub code: String,
    /// Only what is inside quotes, with the quotes.
    pub literals: String,
    /// Whether it is compiled for tests only.
    pub is_test: bool,
}

/// Where a function is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Function {
    /// Its name, without its module.
    pub name: String,
    /// The line of its `fn`, from one.
    pub first: usize,
    /// The line of its closing brace.
    pub last: usize,
}

impl Source {
    /// Reads `text` as if it were the file at `path`.
    pub fn new(path: &str, text: &str) -> Self {
        let (code, literals) =
            if is_rust(path) { lexer::split(text) } else { (text.to_owned(), String::new()) };
        let mut literals = literals.lines();
        let mut lines: Vec<Line> = text
            .lines()
            .zip(code.lines())
            .map(|(text, code)| Line {
                text: text.to_owned(),
                code: code.to_owned(),
                literals: literals.next().unwrap_or_default().to_owned(),
                is_test: is_test_path(path),
            })
            .collect();
        mark_tests(&mut lines);
        Self { path: path.to_owned(), lines }
    }

    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        is_rust(&self.path)
    }

    /// Whether it is the product's own Rust: no tests, no examples, no test kit.
    pub fn is_product(&self) -> bool {
        self.is_rust() && self.path.contains("/src/") && !is_test_path(&self.path)
    }

    /// Its lines with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.lines.iter().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Its functions that have a body, in order, inner ones after the outer.
    pub fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (number, line) in self.numbered() {
            for (column, name) in function_names(&line.code) {
                if let Some(last) = self.end_of_block(number, column) {
                    found.push(Function { name: name.to_owned(), first: number, last });
                }
            }
        }
        found
    }

    /// The line of the brace that closes the first block after this place;
    /// none if a semicolon comes first.
    fn end_of_block(&self, number: usize, column: usize) -> Option<usize> {
        end_of_block(&self.lines[number - 1..], column).map(|offset| number + offset)
    }
}

/// Every text file below `root` that somebody wrote, sorted by path.
pub fn read_all(root: &Path) -> io::Result<Vec<Source>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file()
                && let Ok(text) = String::from_utf8(fs::read(entry.path())?)
            {
                found.push(Source::new(&relative(root, &entry.path()), &text));
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// The root of the repository these tests were built from.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

fn is_test_path(path: &str) -> bool {
    path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || ["bench/", "crates/counts/", "crates/testkit/", "crates/torture/", "fuzz/", "peers/"]
            .iter()
            .any(|folder| path.starts_with(folder))
}

/// Marks the items under `#[cfg(test)]`.
fn mark_tests(lines: &mut [Line]) {
    for start in 0..lines.len() {
        let Some(column) = lines[start].code.find("#[cfg(test)]") else { continue };
        let end = end_of_block(&lines[start..], column).unwrap_or(0);
        for line in &mut lines[start..=start + end] {
            line.is_test = true;
        }
    }
}

/// How many lines below the first the block ends that opens after `column`.
fn end_of_block(lines: &[Line], column: usize) -> Option<usize> {
    let mut braces = 0_usize;
    let mut parens = 0_usize;
    for (offset, line) in lines.iter().enumerate() {
        let from = if offset == 0 { column } else { 0 };
        for c in line.code[from..].chars() {
            match c {
                '{' => braces += 1,
                '}' => {
                    braces = braces.saturating_sub(1);
                    if braces == 0 {
                        return Some(offset);
                    }
                }
                '(' | '[' => parens += 1,
                ')' | ']' => parens = parens.saturating_sub(1),
                ';' if braces == 0 && parens == 0 => return None,
                _ => {}
            }
        }
    }
    None
}

/// The columns and names of `fn name` in a line of code.
fn function_names(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.match_indices("fn ").filter_map(move |(column, _)| {
        let is_word = !code[..column].ends_with(is_ident);
        let name = code[column + 3..].split(|c| !is_ident(c)).next()?;
        (is_word && !name.is_empty()).then_some((column, name))
    })
}

/// Whether `c` may be part of a name.
pub fn is_ident(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
