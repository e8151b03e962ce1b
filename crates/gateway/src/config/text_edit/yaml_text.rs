//! Edits YAML line by line, where its servers are written in lines of their own. What is in
//! brackets is left alone.

use super::super::tree::{MemberKey, Node, Value};
use super::{EntryPath, indent_of, is_idle, is_named, line_end, quoted};

/// The lines of a file, and which of them are about servers.
struct YamlLines<'t> {
    lines: Vec<&'t str>,
    /// The line that names the section.
    head: usize,
    /// The first line behind it that is about something else.
    end: usize,
    /// The first line of each server.
    servers: Vec<usize>,
}

impl<'t> YamlLines<'t> {
    /// None if the section is not there, or is written in another way.
    fn find(text: &'t str, tree: &Node, at: &EntryPath<'_>) -> Option<Self> {
        let [name] = at.section else { return None };
        let lines: Vec<_> = text.split_inclusive('\n').collect();
        let members = tree.table()?;
        let index = members.iter().position(|(key, _)| key.value == *name)?;
        let (key, section) = &members[index];
        let line_of = |key: &MemberKey| key.place.line - 1;
        let end = members.get(index + 1).map_or(lines.len(), |(next, _)| line_of(next));
        let servers = match &section.value {
            Value::Table(servers) => servers.iter().map(|(key, _)| line_of(key)).collect(),
            Value::List(items) => items.iter().map(|item| item.place.line - 1).collect(),
            _ => Vec::new(),
        };
        let head = line_of(key);
        let is_apart = servers.iter().all(|line| *line > head) && end > head;
        is_apart.then_some(Self { lines, head, end, servers })
    }

    /// The line behind the last one before `end` that says something.
    fn last_said(&self, mut end: usize) -> usize {
        while end > self.head + 1 && is_idle(self.lines[end - 1]) {
            end -= 1;
        }
        end
    }
}

/// The text with the entry behind the others.
pub(super) fn add(text: &str, tree: &Node, at: &EntryPath<'_>, entry: &Node) -> Option<String> {
    let end = line_end(text);
    let [section] = at.section else { return None };
    let Some(found) = YamlLines::find(text, tree, at) else {
        // A file of settings in lines gets the section at its end.
        let first =
            |all: &[(MemberKey, Node)]| all.first().is_some_and(|(key, _)| key.place.column == 1);
        let is_block = tree.table().is_none_or(first);
        let is_new =
            tree.get(section).is_none() && matches!(tree.value, Value::Null | Value::Table(_));
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { end };
        let block = block(at, entry, "  ", end)?;
        return (is_block && is_new).then(|| format!("{text}{gap}{}:{end}{block}", key(section)));
    };
    let mut lines: Vec<String> = found.lines.iter().map(|line| (*line).to_owned()).collect();
    let indent = found.servers.first().map_or("  ", |first| indent_of(found.lines[*first]));
    if found.servers.is_empty() {
        // An empty list or object gives way to what is in it.
        let head = &mut lines[found.head];
        let (line, comment) = without_comment(head.trim_end());
        let bare = ["{}", "[]", "~", "null"].iter().find_map(|empty| line.strip_suffix(empty));
        let bare = bare.unwrap_or(line).trim_end();
        *head = bare.ends_with(':').then(|| format!("{bare}{comment}{end}"))?;
    }
    let place = found.last_said(found.end);
    if !lines[place - 1].ends_with('\n') {
        lines[place - 1].push_str(end);
    }
    lines.insert(place, block(at, entry, indent, end)?);
    Some(lines.concat())
}

/// The text without the lines of the entry.
pub(super) fn remove(text: &str, tree: &Node, at: &EntryPath<'_>) -> Option<String> {
    let found = YamlLines::find(text, tree, at)?;
    let section = at.section.iter().try_fold(tree, |node, name| node.get(name))?;
    let (index, empty) = match &section.value {
        Value::Table(all) => (all.iter().position(|(key, _)| key.value == at.name)?, "{}"),
        Value::List(items) => (items.iter().position(|item| is_named(item, at.name))?, "[]"),
        _ => return None,
    };
    let start = found.servers[index];
    let end = found.last_said(*found.servers.get(index + 1).unwrap_or(&found.end));
    let mut kept: Vec<String> = found.lines.iter().map(|line| (*line).to_owned()).collect();
    if found.servers.len() == 1 {
        let head = &kept[found.head];
        let said = head.trim_end();
        let (bare, comment) = without_comment(said);
        kept[found.head] = format!("{bare} {empty}{comment}{}", &head[said.len()..]);
    }
    kept.drain(start..end);
    Some(kept.concat())
}

/// The head of a section, and the comment behind it with the space before that.
fn without_comment(line: &str) -> (&str, &str) {
    let at = line.find(" #").map_or(line.len(), |at| line[..at].trim_end().len());
    line.split_at(at)
}

/// The lines of an entry.
fn block(at: &EntryPath<'_>, entry: &Node, indent: &str, end: &str) -> Option<String> {
    let mut lines = Vec::new();
    let inner = format!("{indent}  ");
    if at.is_list {
        members(entry, &inner, &mut lines)?;
        let first = lines.first_mut()?;
        first.replace_range(..inner.len(), &format!("{indent}- "));
    } else {
        lines.push(format!("{indent}{}:", key(at.name)));
        members(entry, &inner, &mut lines)?;
    }
    Some(lines.join(end) + end)
}

fn members(node: &Node, indent: &str, lines: &mut Vec<String>) -> Option<()> {
    for (name, node) in node.table()? {
        let name = key(&name.value);
        if node.table().is_some_and(|members| !members.is_empty()) {
            lines.push(format!("{indent}{name}:"));
            members(node, &format!("{indent}  "), lines)?;
        } else {
            lines.push(format!("{indent}{name}: {}", written(node)));
        }
    }
    Some(())
}

fn written(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => number.clone(),
        Value::Text(text) => key(text),
        Value::List(items) => {
            let items = items.iter().map(|item| match &item.value {
                Value::Text(text) => quoted(text),
                _ => written(item),
            });
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Value::Table(_) => "{}".to_owned(),
    }
}

/// A word, in quotes where YAML would take it for something else.
fn key(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_word = !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .contains(&&*text.to_ascii_lowercase());
    let is_safe = starts && is_word && text.chars().all(is_plain) && !text.ends_with(':');
    if is_safe { text.to_owned() } else { quoted(text) }
}
