//! Finds the citations in a file, and the test each belongs to.

use crate::source::{Function, Line, Source};

/// A test says that it holds a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Citation {
    /// The rule's id as the test spells it.
    pub id: String,
    /// The file it stands in.
    pub path: String,
    /// The line, from one.
    pub line: usize,
    /// The test around or below it; none if it speaks for the whole file.
    pub test: Option<String>,
}

/// The citations in `source`; none if it is no test.
pub fn citations(source: &Source) -> Vec<Citation> {
    // The test kit's own tests hold made-up citations.
    let is_candidate = !source.path.starts_with("crates/testkit/")
        && ["rs", "txt", "mjs", "js", "ts", "py"]
            .iter()
            .any(|e| source.path.ends_with(&format!(".{e}")));
    if !is_candidate {
        return Vec::new();
    }
    let functions = functions(source);
    let mut found = Vec::new();
    for (number, line) in source.numbered().filter(|(_, line)| line.is_test) {
        for id in cited(source, line) {
            let (path, test) = (source.path.clone(), test_at(source, &functions, number));
            found.push(Citation { id, path, line: number, test });
        }
    }
    found
}

/// The ids after `wire:` in the comment of a line.
fn cited(source: &Source, line: &Line) -> Vec<String> {
    let mark = if source.is_rust() || is_script(source) { "//" } else { "#" };
    let Some((_, comment)) = line.text.split_once(mark) else { return Vec::new() };
    // Quotes hide a comment in Rust; what is left of the code shows it.
    if source.is_rust() && line.literals.contains("wire: ") {
        return Vec::new();
    }
    let Some((before, list)) = comment.split_once("wire: ") else { return Vec::new() };
    if !before.trim_start_matches(['/', '!', ' ']).is_empty() && !before.ends_with(['(', ' ']) {
        return Vec::new();
    }
    // Prose may follow the list, or say "on the wire: ...": only ids count.
    let words = list.split([',', ' ', ')', ';', '.']).filter(|word| !word.is_empty());
    words.take_while(|word| is_id(word)).map(str::to_owned).collect()
}

/// Whether it looks like `SSE-1`.
fn is_id(word: &str) -> bool {
    word.split_once('-').is_some_and(|(letters, digits)| {
        letters.len() >= 2
            && letters.bytes().all(|byte| byte.is_ascii_uppercase())
            && !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The innermost function around the line, else the one its comment is on.
fn test_at(source: &Source, functions: &[Function], number: usize) -> Option<String> {
    let around = functions.iter().rfind(|f| f.first <= number && number <= f.last);
    let below = || {
        let next = functions.iter().find(|f| f.first > number)?;
        let between = &source.lines[number..next.first - 1];
        between.iter().all(|line| is_attached(&line.text)).then_some(next)
    };
    around.or_else(below).map(|function| function.name.clone())
}

/// Whether a line above a function still belongs to it.
fn is_attached(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty()
        && ["//", "#", "@", "*", "/*", ")]"].iter().any(|start| text.starts_with(start))
}

fn functions(source: &Source) -> Vec<Function> {
    if source.is_rust() {
        return source.functions();
    }
    let mut found: Vec<Function> = Vec::new();
    for (number, line) in source.numbered() {
        if let Some(name) = script_test(&line.text) {
            if let Some(last) = found.last_mut() {
                last.last = number - 1 - comments_above(source, number);
            }
            found.push(Function { name, first: number, last: source.lines.len() });
        }
    }
    found
}

/// How many lines of comment stand right above a line.
fn comments_above(source: &Source, number: usize) -> usize {
    source.lines[..number - 1].iter().rev().take_while(|line| is_attached(&line.text)).count()
}

/// The name of the test or function a line of JavaScript or Python starts.
fn script_test(text: &str) -> Option<String> {
    let text = text.trim_start();
    let text = text.strip_prefix("export ").unwrap_or(text);
    let text = text.strip_prefix("async ").unwrap_or(text);
    for call in ["test(", "it(", "scenario("] {
        if let Some(rest) = text.strip_prefix(call) {
            let quote = rest.chars().next().filter(|c| "'\"`".contains(*c))?;
            return rest[1..].split(quote).next().map(str::to_owned);
        }
    }
    let rest = text.strip_prefix("def ").or_else(|| text.strip_prefix("function "))?;
    rest.split('(').next().map(str::to_owned)
}

fn is_script(source: &Source) -> bool {
    [".mjs", ".js", ".ts"].iter().any(|extension| source.path.ends_with(extension))
}
