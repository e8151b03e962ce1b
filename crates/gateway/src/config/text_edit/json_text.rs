//! Edits JSON. Comments, and how the objects are laid out, stay.

use std::ops::Range;

use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ast, parse_to_ast};

use super::super::tree::{self, Node, Value};
use super::{EntryPath, indent_of, line_end, quoted};

/// How a value is laid out.
#[derive(Clone, Copy)]
struct Layout<'t> {
    line_end: &'t str,
    /// What one more level is indented by; none for all in one line.
    unit: Option<&'t str>,
}

/// The text with the entry, in place of one that is there.
pub(super) fn set(text: &str, at: &EntryPath<'_>, entry: &Node) -> Option<String> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &tree::options()).ok()?;
    let root = object_in(parsed.value.as_ref()?)?;
    let unit = unit_of(text, root);
    let layout = Layout { line_end: line_end(text), unit: Some(&unit) };
    let path: Vec<_> = at.section.iter().copied().chain([at.name]).collect();
    let (mut object, mut depth) = (root, 0);
    while let Some(member) = find(object, path[depth]) {
        if depth + 1 == path.len() {
            let range = member.value.range();
            let is_tall = text[range.start..range.end].contains('\n');
            let layout = Layout { unit: layout.unit.filter(|_| is_tall), ..layout };
            let new = written(entry, indent_of(line_of(text, member.range.start)), layout);
            return Some(format!("{}{new}{}", &text[..range.start], &text[range.end..]));
        }
        object = object_in(&member.value)?;
        depth += 1;
    }
    // The members that are missing, around the entry.
    let missing = path[depth + 1..].iter().rev();
    let nested = missing.fold(entry.clone(), |inner, name| Node::object([(*name, inner)]));
    Some(add(text, object, (path[depth], &nested), layout))
}

/// The text without the entry.
pub(super) fn remove(text: &str, at: &EntryPath<'_>) -> Option<String> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &tree::options()).ok()?;
    let mut object = object_in(parsed.value.as_ref()?)?;
    for name in at.section {
        object = object_in(&find(object, name)?.value)?;
    }
    let members = &object.properties;
    let index = members.iter().rposition(|member| member.name.as_str() == at.name)?;
    let member = &members[index].range;
    let comma = comma_behind(text, member.end);
    let mut cuts = Vec::new();
    if comma.is_none() && index > 0 {
        // The comma before the last member goes with it.
        let comma = comma_behind(text, members[index - 1].range.end)?;
        cuts.push(comma..comma + 1);
    }
    let cut = widened(text, member.start, comma.map_or(member.end, |comma| comma + 1));
    let (open, close) = (object.range.start + 1, object.range.end - 1);
    let is_blank = |part: &str| part.trim().is_empty();
    let is_last = members.len() == 1 && is_blank(&text[open..cut.start]);
    cuts.push(if is_last && is_blank(&text[cut.end..close]) { open..close } else { cut });
    let mut edited = text.to_owned();
    cuts.into_iter().rev().for_each(|cut| edited.replace_range(cut, ""));
    Some(edited)
}

/// What goes with a member: its line, if nothing else is in it, or the blanks beside it.
fn widened(text: &str, start: usize, end: usize) -> Range<usize> {
    const BLANKS: [char; 2] = [' ', '\t'];
    let before = text[..start].trim_end_matches(BLANKS);
    let rest = text[end..].trim_start_matches(BLANKS);
    let behind = text.len() - rest.len();
    if before.ends_with('\n') && rest.starts_with(['\n', '\r']) {
        let before = before.trim_end_matches('\n').len().max(before.len() - 1);
        return text[..before].trim_end_matches('\r').len()..behind;
    }
    if text[..end].ends_with(',') { start..behind } else { before.len()..end }
}

/// Where the comma behind a member is, if there is one.
fn comma_behind(text: &str, end: usize) -> Option<usize> {
    Some(next_token(text, end)).filter(|at| text[*at..].starts_with(','))
}

fn object_in<'v, 't>(value: &'v ast::Value<'t>) -> Option<&'v ast::Object<'t>> {
    match value {
        ast::Value::Object(object) => Some(object),
        _ => None,
    }
}

/// The member of that name; of two the last counts.
fn find<'v, 't>(object: &'v ast::Object<'t>, name: &str) -> Option<&'v ast::ObjectProp<'t>> {
    object.properties.iter().rev().find(|member| member.name.as_str() == name)
}

/// The line that this place is in, up to the place and on.
fn line_of(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[start..].lines().next().unwrap_or_default()
}

/// What the members of the file are indented by.
fn unit_of(text: &str, root: &ast::Object<'_>) -> String {
    let first = root.properties.first().map(|member| line_of(text, member.range.start));
    let unit = first.map(indent_of).filter(|unit| !unit.is_empty());
    unit.unwrap_or("  ").to_owned()
}

/// Where the next thing is that is neither blank nor a comment.
fn next_token(text: &str, mut at: usize) -> usize {
    loop {
        let rest = text[at..].trim_start();
        at = text.len() - rest.len();
        let comment = match rest.get(..2) {
            Some("//") => rest.find('\n'),
            Some("/*") => rest.find("*/").map(|end| end + 2),
            _ => return at,
        };
        at += comment.unwrap_or(rest.len());
    }
}

/// The text with one more member at the end of the object.
fn add(
    text: &str,
    object: &ast::Object<'_>,
    (name, node): (&str, &Node),
    layout: Layout<'_>,
) -> String {
    let Layout { line_end, unit } = layout;
    let Some(last) = object.properties.last() else {
        let (open, close) = (object.range.start + 1, object.range.end - 1);
        let outer = indent_of(line_of(text, object.range.start));
        let inner = format!("{outer}{}", unit.unwrap_or_default());
        let member = format!("{}: {}", quoted(name), written(node, &inner, layout));
        let kept = text[..close].trim_end();
        let kept = if kept.len() < open { &text[..open] } else { kept };
        return format!("{kept}{line_end}{inner}{member}{line_end}{outer}{}", &text[close..]);
    };
    let first = &object.properties[0];
    let is_tall = text[object.range.start..first.range.start].contains('\n');
    let end = last.range.end;
    let comma = comma_behind(text, end);
    let after = comma.map_or(end, |comma| comma + 1);
    // A comment behind the last member stays behind it.
    let place = if is_tall { after + comment_behind(&text[after..]) } else { after };
    let indent = indent_of(line_of(text, last.range.start));
    let (gap, layout) = if is_tall {
        (format!("{line_end}{indent}"), layout)
    } else {
        (" ".to_owned(), Layout { unit: None, ..layout })
    };
    let member = format!("{}: {}", quoted(name), written(node, indent, layout));
    let (before, behind) = if comma.is_some() { ("", ",") } else { (",", "") };
    let (kept, rest) = (&text[end..place], &text[place..]);
    format!("{}{before}{kept}{gap}{member}{behind}{rest}", &text[..end])
}

/// How long a comment is that begins and ends in the rest of this line, with the blanks before it.
fn comment_behind(rest: &str) -> usize {
    let line = rest.lines().next().unwrap_or_default();
    let comment = line.trim_start();
    if comment.starts_with("//") {
        return line.len();
    }
    let end = comment.strip_prefix("/*").and_then(|_| line.find("*/"));
    end.map_or(0, |end| end + 2)
}

fn written(node: &Node, indent: &str, layout: Layout<'_>) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => number.clone(),
        Value::Text(text) => quoted(text),
        Value::List(items) => {
            let items =
                items.iter().map(|item| written(item, indent, Layout { unit: None, ..layout }));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Value::Table(members) if members.is_empty() => "{}".to_owned(),
        Value::Table(members) => {
            let inner = format!("{indent}{}", layout.unit.unwrap_or_default());
            let member = |(key, node): &(tree::MemberKey, Node)| {
                format!("{}: {}", quoted(&key.value), written(node, &inner, layout))
            };
            let members: Vec<_> = members.iter().map(member).collect();
            if layout.unit.is_none() {
                return format!("{{ {} }}", members.join(", "));
            }
            let end = layout.line_end;
            let members = members.join(&format!(",{end}{inner}"));
            format!("{{{end}{inner}{members}{end}{indent}}}")
        }
    }
}
