//! Words that have no place in the repository.

use super::at;
use crate::source::{Line, Source, is_ident};

/// Work that was put off. An issue, or nothing.
const PUT_OFF: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("todo", "!"),
    concat!("unimplemented", "!"),
];

/// Words that say nothing about a type.
const EMPTY: &[&str] = &[
    "Base", "Common", "Data", "Handler", "Helper", "Helpers", "Impl", "Info", "Manager", "Service",
    "Util", "Utils",
];

/// Paths that exist on one machine only; the last is followed by a name.
const MACHINE: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

pub(super) fn no_unfinished_work(source: &Source) -> Vec<String> {
    let is_source = ["rs", "mjs", "js", "ts", "py", "sh", "toml"]
        .iter()
        .any(|extension| source.path.ends_with(&format!(".{extension}")));
    complain(source, is_source, "work put off: an issue, or nothing", |line| {
        PUT_OFF.iter().any(|word| has_word(&line.text, word))
    })
}

pub(super) fn no_ignored_tests(source: &Source) -> Vec<String> {
    let what = "a test that does not run shows nothing: mend it or delete it";
    complain(source, source.is_rust(), what, |line| {
        line.code.contains("#[ignore")
            || line.code.contains("#[cfg_attr") && line.code.contains("ignore")
    })
}

pub(super) fn no_empty_type_names(source: &Source) -> Vec<String> {
    let what = "the type's name has a word that says nothing; say what it is";
    complain(source, source.is_rust(), what, |line| {
        declared_type(&line.code).is_some_and(|name| {
            words_of(name).any(|word| EMPTY.contains(&word)) && !line.code.contains("trait Handler")
        })
    })
}

pub(super) fn no_machine_paths(source: &Source) -> Vec<String> {
    complain(source, true, "a path of one machine", |line| {
        MACHINE.iter().any(|path| has_machine_path(&line.text, path))
    })
}

fn complain(
    source: &Source,
    applies: bool,
    what: &str,
    is_wrong: impl Fn(&Line) -> bool,
) -> Vec<String> {
    let wrong = source.numbered().filter(|(_, line)| applies && is_wrong(line));
    wrong.map(|(number, _)| at(source, number, what)).collect()
}

/// Whether `word` stands in `text` with no letter around it.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| {
        !text[..start].ends_with(is_ident) && !text[start + word.len()..].starts_with(is_ident)
    })
}

/// The type a line of code declares. An associated type has its name from
/// somebody else's trait, so an indented `type` does not count.
fn declared_type(code: &str) -> Option<&str> {
    let item = code.trim_start();
    let item = item
        .strip_prefix("pub")
        .map_or(item, |rest| rest.trim_start_matches(|c| c != ' ' || rest.is_empty()).trim_start());
    let keyword = item.split(' ').next()?;
    let is_type = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !code.starts_with(' '),
        _ => false,
    };
    let name = item[keyword.len()..].trim_start().split(|c| !is_ident(c)).next()?;
    is_type.then_some(name)
}

/// `CamelCase` in its words.
fn words_of(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let after = first.len_utf8();
        let end = rest[after..].find(char::is_uppercase).map_or(rest.len(), |end| after + end);
        let (word, tail) = rest.split_at(end);
        rest = tail;
        Some(word)
    })
}

/// Whether `path` starts in `text`, not in the middle of a URL or a longer
/// path, and a name follows.
fn has_machine_path(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(start, _)| {
        let backend = text[..start].ends_with(|c| is_ident(c) || "./-}*".contains(c));
        let follows = text[start + path.len()..].chars().next();
        !backend && follows.is_some_and(|c| is_ident(c) || c == '.')
    })
}
