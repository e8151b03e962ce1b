//! Puts the entry of a server into the text of a file, or takes it out. Every other byte stays.
//!
//! Each format is edited as text, by where its parts stand. What comes out is read again and
//! compared with what was meant: an edit that would change anything else is not made.

use std::path::Path;

use serde_json::Value as Json;

use super::Problem;
use super::tree::{self, BYTE_ORDER_MARK, FileFormat, Node, Value};

mod json_text;
mod toml_text;
mod yaml_text;

/// Where an entry is in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryPath<'a> {
    /// The members that lead to the servers.
    pub(super) section: &'a [&'a str],
    /// Whether the servers are a list, and each has its name in it.
    pub(super) is_list: bool,
    /// The name of the server.
    pub(super) name: &'a str,
}

/// Why a file is left as it is.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EditError {
    /// Its servers are something else than names with entries.
    #[error("the file has no object to put servers into")]
    NoObject,
    /// It is written in a way that we cannot edit.
    #[error("the file is written in a way that cannot be edited without changing other parts")]
    Unusual,
    /// It makes no sense.
    #[error("{0}")]
    Syntax(Problem),
}

impl EditError {
    /// What to do about it.
    pub fn instead(&self) -> String {
        match self {
            Self::NoObject => {
                "correct the file, or remove what is in the place of its servers".into()
            }
            Self::Unusual => "edit the file by hand".into(),
            Self::Syntax(problem) => format!("{}; the file is left as it is", problem.instead),
        }
    }
}

/// What to start from where there is no file.
fn or_empty(format: FileFormat, text: &str) -> &str {
    match format {
        FileFormat::Json if text.trim().is_empty() => "{}\n",
        _ => text,
    }
}

/// The tree of a text that may be empty.
fn read(file: &Path, text: &str) -> Result<Node, EditError> {
    tree::parse(file, text).map_err(EditError::Syntax)
}

/// The entry that is there.
pub(super) fn entry_in(
    file: &Path,
    text: &str,
    at: &EntryPath<'_>,
) -> Result<Option<Node>, EditError> {
    let tree = read(file, or_empty(FileFormat::of(file), text))?;
    let section = at.section.iter().try_fold(&tree, |node, name| node.get(name));
    Ok(section.and_then(|section| match &section.value {
        Value::List(items) => items.iter().find(|item| is_named(item, at.name)).cloned(),
        _ => section.get(at.name).cloned(),
    }))
}

fn is_named(item: &Node, name: &str) -> bool {
    item.get("name").and_then(Node::text) == Some(name)
}

/// The text with the entry in it. One that is there under this name is replaced, unless it says
/// the same.
pub(super) fn with_entry(
    file: &Path,
    text: &str,
    at: &EntryPath<'_>,
    entry: &Node,
) -> Result<String, EditError> {
    let there = entry_in(file, text, at)?;
    if there.as_ref().is_some_and(|there| comparable(there) == comparable(entry)) {
        return Ok(text.to_owned());
    }
    let format = FileFormat::of(file);
    check_one_document(format, text)?;
    let (mark, text) = split_mark(text);
    let text = or_empty(format, text);
    let mut meant = comparable(&read(file, text)?);
    put(&mut meant, at, Some(comparable(entry))).ok_or(EditError::NoObject)?;
    let edited = match format {
        FileFormat::Json => json_text::set(text, at, entry),
        FileFormat::Toml | FileFormat::Yaml => {
            // What is there gives way, and the new entry comes last.
            let without = there.map(|_| without_entry(file, text, at)).transpose()?;
            let text = without.as_deref().unwrap_or(text);
            let tree = read(file, text)?;
            match format {
                FileFormat::Toml => toml_text::add(text, at, entry),
                _ => yaml_text::add(text, &tree, at, entry),
            }
        }
    };
    checked(file, edited, &meant).map(|edited| format!("{mark}{edited}"))
}

/// The text without the entry.
pub(super) fn without_entry(
    file: &Path,
    text: &str,
    at: &EntryPath<'_>,
) -> Result<String, EditError> {
    check_one_document(FileFormat::of(file), text)?;
    let (mark, text) = split_mark(text);
    let tree = read(file, text)?;
    let mut meant = comparable(&tree);
    put(&mut meant, at, None).ok_or(EditError::NoObject)?;
    let edited = match FileFormat::of(file) {
        FileFormat::Json => json_text::remove(text, at),
        FileFormat::Toml => toml_text::remove(text, &tree, at),
        FileFormat::Yaml => yaml_text::remove(text, &tree, at),
    };
    checked(file, edited, &meant).map(|edited| format!("{mark}{edited}"))
}

/// Only the first document of a YAML file is read: an edit could not tell what it does to others.
fn check_one_document(format: FileFormat, text: &str) -> Result<(), EditError> {
    let is_mark = |line: &str| line == "---" || line.starts_with("--- ");
    let mut lines = text.lines().skip_while(|line| is_idle(line) || line.starts_with('%'));
    let has_more = lines.next().is_some() && lines.any(|line| is_mark(line) || line == "...");
    if format == FileFormat::Yaml && has_more { Err(EditError::Unusual) } else { Ok(()) }
}

fn split_mark(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 })
}

/// The edited text, if it says what was meant, and nothing else.
fn checked(file: &Path, edited: Option<String>, meant: &Json) -> Result<String, EditError> {
    let says = |text: &str| tree::parse(file, text).is_ok_and(|tree| comparable(&tree) == *meant);
    edited.filter(|text| says(text)).ok_or(EditError::Unusual)
}

/// A tree without its places. Numbers are as they are written. What is empty is as good as what is
/// not there.
fn comparable(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(bool) => Json::Bool(*bool),
        // No text has this letter in front.
        Value::Number(number) => Json::String(format!("\0{number}")),
        Value::Text(text) => Json::String(text.clone()),
        Value::List(items) => Json::Array(items.iter().map(comparable).collect()),
        Value::Table(members) => {
            let members = members.iter().map(|(key, node)| (key.value.clone(), comparable(node)));
            Json::Object(members.filter(|(_, value)| !is_empty(value)).collect())
        }
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Array(items) => items.is_empty(),
        Json::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Puts the entry where it belongs, or removes it; none if there is no place for it.
fn put(tree: &mut Json, at: &EntryPath<'_>, entry: Option<Json>) -> Option<()> {
    let mut node = &mut *tree;
    for (depth, name) in at.section.iter().enumerate() {
        if node.is_null() {
            *node = Json::Object(serde_json::Map::new());
        }
        let is_last = depth + 1 == at.section.len();
        let new = if at.is_list && is_last { Json::Array(Vec::new()) } else { Json::Null };
        node = node.as_object_mut()?.entry(*name).or_insert(new);
    }
    if at.is_list {
        let items = node.as_array_mut()?;
        items.retain(|item| item["name"] != at.name);
        items.extend(entry);
    } else {
        if node.is_null() {
            *node = Json::Object(serde_json::Map::new());
        }
        let members = node.as_object_mut()?;
        members.remove(at.name);
        members.extend(entry.map(|entry| (at.name.to_owned(), entry)));
    }
    prune(tree, at.section);
    Some(())
}

/// Removes sections with nothing in them, as `comparable` does.
fn prune(tree: &mut Json, section: &[&str]) {
    let Some((first, rest)) = section.split_first() else { return };
    let Some(members) = tree.as_object_mut() else { return };
    if let Some(inner) = members.get_mut(*first) {
        prune(inner, rest);
        if is_empty(inner) {
            members.remove(*first);
        }
    }
}

/// What a line starts with before its first letter.
fn indent_of(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// How lines end.
fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Whether a line of TOML or YAML says nothing.
fn is_idle(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// A text in double quotes, as all three formats have it.
fn quoted(text: &str) -> String {
    Json::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests;
