//! The header of a `SKILL.md`: YAML between two lines of dashes.
//!
//! The part of YAML that such headers are written in: nested mappings, lists of
//! scalars, plain and quoted scalars, blocks of text. Whatever else there is
//! (anchors, tags, flow mappings, keys that come twice) is refused: a header
//! that two readers may read in two ways is no header to trust.

use serde_json::{Map, Value};

type Lines<'a> = std::iter::Peekable<std::vec::IntoIter<(usize, &'a str)>>;

/// Mappings inside mappings.
const DEPTH: usize = 8;

/// The members of the header.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"));
    let text = text.ok_or("SKILL.md has no header")?;
    let mut lines = Vec::new();
    let mut ended = false;
    for line in text.lines() {
        if line.trim_end() == "---" {
            ended = true;
            break;
        }
        // A tab indents by nobody knows how much.
        if line.contains('\t') {
            return Err(odd(line));
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        lines.push((indent, line));
    }
    if !ended {
        return Err("the header of SKILL.md has no end".to_owned());
    }
    let mut lines = lines.into_iter().peekable();
    let members = mapping(&mut lines, 0, DEPTH)?;
    match lines.next() {
        Some((_, line)) => Err(odd(line)),
        None => Ok(members),
    }
}

fn odd(line: &str) -> String {
    format!("the header of SKILL.md has a line that cannot be read: {:?}", line.trim())
}

/// Skips what says nothing; how far the next line is indented.
fn next_indent(lines: &mut Lines<'_>) -> Option<usize> {
    while let Some((indent, line)) = lines.peek() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            return Some(*indent);
        }
        lines.next();
    }
    None
}

fn mapping(
    lines: &mut Lines<'_>,
    indent: usize,
    depth: usize,
) -> Result<Map<String, Value>, String> {
    let mut members = Map::new();
    while next_indent(lines) == Some(indent) {
        let Some((_, line)) = lines.next() else { break };
        let (name, rest) = line.trim().split_once(':').ok_or_else(|| odd(line))?;
        let plain = !name.is_empty()
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
        if !plain || !(rest.is_empty() || rest.starts_with(' ')) {
            return Err(odd(line));
        }
        let value = match rest.trim() {
            "" => nested(lines, indent, depth)?,
            style @ ("|" | "|-" | ">" | ">-") => {
                block(lines, indent, style).ok_or_else(|| odd(line))?.into()
            }
            rest => scalar(rest).ok_or_else(|| odd(line))?,
        };
        if members.insert(name.to_owned(), value).is_some() {
            return Err(odd(line));
        }
    }
    Ok(members)
}

/// What stands below a name: a list, a mapping, or nothing.
fn nested(lines: &mut Lines<'_>, above: usize, depth: usize) -> Result<Value, String> {
    let depth = depth.checked_sub(1).ok_or("the header of SKILL.md is too deep")?;
    let Some(indent) = next_indent(lines) else { return Ok(Value::Null) };
    let is_item = |line: &str| line.trim_start().starts_with("- ");
    if !lines.peek().is_some_and(|(_, line)| is_item(line)) {
        if indent <= above {
            return Ok(Value::Null);
        }
        return mapping(lines, indent, depth).map(Value::from);
    }
    let mut items = Vec::new();
    while indent >= above && next_indent(lines) == Some(indent) {
        let Some((_, line)) = lines.next_if(|(_, line)| is_item(line)) else { break };
        let item = line.trim_start().trim_start_matches('-').trim();
        items.push(scalar(item).ok_or_else(|| odd(line))?);
    }
    Ok(items.into())
}

/// A block of text, its lines kept (`|`) or joined (`>`); none if joining them
/// takes more rules than that.
fn block(lines: &mut Lines<'_>, above: usize, style: &str) -> Option<String> {
    let mut text: Vec<(usize, &str)> = Vec::new();
    let is_inside = |(indent, line): &(usize, &str)| *indent > above || line.trim().is_empty();
    while let Some(line) = lines.next_if(is_inside) {
        text.push(line);
    }
    while text.pop_if(|(_, line)| line.trim().is_empty()).is_some() {}
    let margin = text.first().map_or(0, |(indent, _)| *indent);
    let is_even = text.iter().all(|(indent, line)| *indent == margin && !line.trim().is_empty());
    let folds = style.starts_with('>');
    if folds && !is_even
        || text.iter().any(|(indent, line)| !line.trim().is_empty() && *indent < margin)
    {
        return None;
    }
    let text = text.iter().map(|(_, line)| line.get(margin..).unwrap_or_default());
    let text = text.collect::<Vec<_>>().join(if folds { " " } else { "\n" });
    Some(if style.ends_with('-') { text } else { text + "\n" })
}

fn scalar(text: &str) -> Option<Value> {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    match text.chars().next()? {
        '"' => serde_json::from_str::<String>(text).ok().map(Value::from),
        '\'' => {
            let text = inner('\'')?;
            let whole = !text.replace("''", "").contains('\'');
            whole.then(|| text.replace("''", "'").into())
        }
        '[' => {
            let items = text.strip_prefix('[')?.strip_suffix(']')?.trim();
            let items = items.split(',').map(str::trim).filter(|item| !item.is_empty());
            items.map(plain).collect::<Option<Vec<_>>>().map(Value::from)
        }
        _ => plain(text),
    }
}

/// A scalar without quotes; none if it could mean something else.
fn plain(text: &str) -> Option<Value> {
    let first = text.chars().next()?;
    let is_marked = "&*!|>%@`{}[],?#\"'".contains(first) || text.starts_with("- ");
    if is_marked || text.contains(": ") || text.ends_with(':') || text.contains(" #") {
        return None;
    }
    Some(match text {
        "true" => true.into(),
        "false" => false.into(),
        "null" | "~" => Value::Null,
        _ => match serde_json::from_str::<Value>(text) {
            Ok(number @ Value::Number(_)) => number,
            _ => text.into(),
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_header_is_read_as_it_is_meant() {
        let text = "---\nname: pdf-tools\ndescription: >\n  Fills in\n  forms\nlicense: 'it''s free'\n\
                    code: |-\n  a\n\n    b\n\
                    # a remark\nversion: 2\nmetadata:\n  author: \"A\\u0041\"\n  deep:\n    ok: true\n\
                    tags:\n- a\n- b c\nallowed: [Read, Write]\nempty:\n---\nbody: no\n";
        let expected = json!({
            "name": "pdf-tools",
            "description": "Fills in forms\n",
            "license": "it's free",
            "code": "a\n\n  b",
            "version": 2,
            "metadata": {"author": "AA", "deep": {"ok": true}},
            "tags": ["a", "b c"],
            "allowed": ["Read", "Write"],
            "empty": null,
        });
        assert_eq!(Value::from(read(text).unwrap()), expected);
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for header in [
            "name: a\nname: b",
            "name: &x a",
            "name: *x",
            "name: !tag a",
            "name: {a: b}",
            "name: a: b",
            "name: a # no",
            "name:a",
            "? name",
            "\tname: a",
            "<<: a",
            "name: a\n  b",
            "name: \"a",
            "a:\n - b\n c: d",
            "a: >\n  b\n\n  c",
            "a: |\n    b\n  c",
        ] {
            assert!(read(&format!("---\n{header}\n---\n")).is_err(), "{header}");
        }
        assert!(read("name: a\n").is_err() && read("---\nname: a\n").is_err());
    }
}
