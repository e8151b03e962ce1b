//! YAML as a tree. Aliases are filled in; of several documents in one file the first counts.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::{LineIndex, MemberKey, Node, Value};
use crate::config::{Problem, SourceLocation};

/// How deep lists and tables may be in each other; people write five levels.
const MAX_DEPTH: usize = 128;

/// Values of a file, those of aliases counted each time: a few lines of aliases of aliases would
/// fill the memory.
const MAX_VALUES: usize = 1 << 18;

/// A list or a table that is not complete yet.
struct OpenValue {
    place: SourceLocation,
    anchor: usize,
    is_table: bool,
    items: Vec<Node>,
    members: Vec<(MemberKey, Node)>,
    /// The member whose value comes next.
    key: Option<MemberKey>,
}

impl OpenValue {
    fn new(place: SourceLocation, anchor: usize, is_table: bool) -> Self {
        Self { place, anchor, is_table, items: Vec::new(), members: Vec::new(), key: None }
    }
}

/// What was read so far.
struct YamlTree {
    open: Vec<OpenValue>,
    anchors: HashMap<usize, Node>,
    /// The values that may still come.
    left: usize,
    root: Option<Node>,
}

pub(super) fn parse(places: &LineIndex<'_>, text: &str) -> Result<Node, Problem> {
    let instead = "look at how far the lines are indented here and just before";
    let at = |line: usize, column: usize| SourceLocation {
        file: places.file.clone(),
        line: line.max(1),
        column: column + 1,
    };
    let (open, anchors) = (Vec::new(), HashMap::new());
    let mut tree = YamlTree { open, anchors, left: MAX_VALUES, root: None };
    for event in Parser::new_from_str(text) {
        let (event, Span { start, .. }) = event.map_err(|error| {
            let place = at(error.marker().line(), error.marker().col());
            Problem::error(&place, format!("this is not YAML: {}", error.info()), instead)
        })?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        let place = at(start.line(), start.col());
        tree.add(event, &place).map_err(|what| Problem::error(&place, what, instead))?;
    }
    Ok(tree.root.unwrap_or(Node { place: places.at(0), value: Value::Null }))
}

impl YamlTree {
    fn add(&mut self, event: Event<'_>, place: &SourceLocation) -> Result<(), &'static str> {
        let place = place.clone();
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| tag.suffix == "str");
                let is_plain = style == ScalarStyle::Plain && !is_text;
                let value = if is_plain { plain(&text) } else { Value::Text(text.into_owned()) };
                self.close(anchor, Node { place, value })
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(node) => {
                    self.left = self.left.saturating_sub(count(&node));
                    self.close(0, node)
                }
                None => Err("this alias stands for a value that contains it"),
            },
            Event::SequenceStart(anchor, _) => self.begin(OpenValue::new(place, anchor, false)),
            Event::MappingStart(anchor, _) => self.begin(OpenValue::new(place, anchor, true)),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let OpenValue { place, anchor, is_table, items, members, .. } = open;
                let value = if is_table { Value::Table(members) } else { Value::List(items) };
                self.close(anchor, Node { place, value })
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, value: OpenValue) -> Result<(), &'static str> {
        self.open.push(value);
        if self.open.len() > MAX_DEPTH { Err("this is nested too deeply") } else { Ok(()) }
    }

    /// Puts a complete value where it belongs.
    fn close(&mut self, anchor: usize, node: Node) -> Result<(), &'static str> {
        self.left = self.left.checked_sub(1).ok_or("the file has too many values")?;
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(OpenValue { is_table: false, items, .. }) => items.push(node),
            Some(OpenValue { members, key, .. }) => match key.take() {
                Some(name) => members.push((name, node)),
                None => *key = Some(name_of(node).ok_or("the name of a member is no text")?),
            },
        }
        Ok(())
    }
}

fn name_of(Node { place, value }: Node) -> Option<MemberKey> {
    let value = match value {
        Value::Text(text) | Value::Number(text) => text,
        Value::Bool(bool) => bool.to_string(),
        Value::Null => String::new(),
        Value::List(_) | Value::Table(_) => return None,
    };
    Some(MemberKey { place, value })
}

fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(count).sum(),
        Value::Table(members) => members.iter().map(|(_, node)| count(node)).sum(),
        _ => 0,
    }
}

/// What a word without quotes means.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        // Other notations, of 8 or 16 for example, are words here.
        _ if text.parse::<serde_json::Number>().is_ok() => Value::Number(text.to_owned()),
        _ => Value::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::super::parse;
    use super::MAX_DEPTH;

    #[test]
    fn words_numbers_and_aliases_are_what_yaml_says() {
        let text =
            "a: &x {k: 1, t: 'true'}\nb: *x\nc:\n- true\n- ~\n- 0x1F\n- 1.5\n- |\n  two\n  lines\n";
        let tree = parse(Path::new("c.yaml"), text).unwrap();
        let one = json!({"k": 1, "t": "true"});
        let list = json!([true, null, "0x1F", 1.5, "two\nlines\n"]);
        assert_eq!(tree.json(), Some(json!({"a": one, "b": one, "c": list})));
        let place = tree.get("c").unwrap().place.to_string();
        assert_eq!(place, "c.yaml:4:3");
    }

    #[test]
    fn a_file_that_would_fill_the_memory_is_refused() {
        let mut lines = vec!["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned()];
        lines.extend((1..9).map(|level| {
            let before = format!("*a{}, ", level - 1).repeat(10);
            format!("a{level}: &a{level} [{before}]\n")
        }));
        let text = lines.concat();
        let refused = parse(Path::new("c.yaml"), &text).unwrap_err();
        assert_eq!(refused.what, "the file has too many values");
        for depth in [MAX_DEPTH + 1, 10_000] {
            let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert!(parse(Path::new("c.yml"), &deep).is_err(), "{depth}");
        }
        let itself = parse(Path::new("c.yml"), "a: &a [*a]\n").unwrap_err();
        assert!(itself.place.line == 1, "{itself}");
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        let refused = parse(Path::new("c.yaml"), "a: 1\n  b: 2\n").unwrap_err();
        assert!(refused.to_string().starts_with("c.yaml:2:"), "{refused}");
        assert!(refused.what.starts_with("this is not YAML: "), "{refused}");
    }
}
