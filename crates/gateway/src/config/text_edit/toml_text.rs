//! Edits TOML: a server is a table with a header of its own, at the end of the file.

use super::super::tree::{MemberKey, Node, Value};
use super::{EntryPath, is_idle, line_end, quoted};

/// The text with the entry at its end.
pub(super) fn add(text: &str, at: &EntryPath<'_>, entry: &Node) -> Option<String> {
    let end = line_end(text);
    let path = at.section.iter().copied().chain([at.name]).map(key).collect::<Vec<_>>().join(".");
    let mut lines = vec![format!("[{path}]")];
    let members = entry.table()?.iter();
    lines.extend(members.map(|(name, node)| format!("{} = {}", key(&name.value), written(node))));
    let gap = match text.trim() {
        "" => "",
        _ if text.ends_with('\n') => end,
        _ => &end.repeat(2),
    };
    Some(format!("{text}{gap}{}{end}", lines.join(end)))
}

/// The text without the tables of the entry, or without its line.
pub(super) fn remove(text: &str, tree: &Node, at: &EntryPath<'_>) -> Option<String> {
    let section = at.section.iter().try_fold(tree, |node, name| node.get(name))?;
    let is_it = |(key, _): &&(MemberKey, Node)| key.value == at.name;
    let (key, _) = section.table()?.iter().find(is_it)?;
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let mut start = key.place.line - 1;
    let header = lines.get(start)?.trim();
    let mut end = start + 1;
    if header.starts_with('[') {
        let below = format!("{}.", header.split(']').next()?);
        let is_other = |line: &str| line.starts_with('[') && !line.starts_with(&below);
        let others = lines[end..].iter().position(|line| is_other(line.trim()));
        end = others.map_or(lines.len(), |count| end + count);
        // Comments before a table belong to it.
        while is_idle(lines[end - 1]) {
            end -= 1;
        }
        if start > 0 && lines[start - 1].trim().is_empty() {
            start -= 1;
        }
    }
    Some(lines[..start].iter().chain(&lines[end..]).copied().collect())
}

/// A name, in quotes where it needs them.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}

fn written(node: &Node) -> String {
    match &node.value {
        // TOML has no null.
        Value::Null => "\"\"".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => number.clone(),
        Value::Text(text) => quoted(text),
        Value::List(items) => {
            format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        Value::Table(members) => {
            let member = |(name, node): &(MemberKey, Node)| {
                format!("{} = {}", key(&name.value), written(node))
            };
            format!("{{ {} }}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
    }
}
