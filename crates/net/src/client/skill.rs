//! Skills: instructions that a server offers, read only when they are wanted
//! and used only if they are what was listed (SEP-2640).
//!
//! Listing reads no file. A file that is read is held against the size and the
//! digest in the list, and the header of `SKILL.md` against the one there.
//! What differs is not handed out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::call::to_value;
use super::{CallError, CallOptions, Client};
use crate::secret::hex_digest;

/// The extension that skills are.
const EXTENSION: &str = "io.modelcontextprotocol/skills";

/// A skill as its server lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    entry: Value,
}

impl Skill {
    /// What it is called.
    pub fn name(&self) -> &str {
        self.entry["frontmatter"]["name"].as_str().unwrap_or_default()
    }

    /// What it is good for.
    pub fn description(&self) -> &str {
        self.entry["frontmatter"]["description"].as_str().unwrap_or_default()
    }

    /// Where its `SKILL.md` is.
    pub fn uri(&self) -> &str {
        self.entry["uri"].as_str().unwrap_or_default()
    }

    /// Where its files are, `SKILL.md` included.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.resources().filter_map(|file| file["uri"].as_str())
    }

    fn resources(&self) -> impl Iterator<Item = &Value> {
        self.entry["resources"].as_array().into_iter().flatten()
    }

    /// Whether `content` is what was listed for the file at `uri`.
    fn check(&self, uri: &str, content: &[u8]) -> Result<(), String> {
        let listed = self.resources().find(|file| file["uri"] == uri);
        let listed = listed.ok_or_else(|| format!("{uri} is not listed"))?;
        if listed["size"].as_u64().is_some_and(|size| size != content.len() as u64) {
            return Err(format!("{uri} has not the size that was listed"));
        }
        let found = format!("sha256:{}", hex_digest(content));
        match listed["digest"].as_str() {
            Some(expected) if expected.eq_ignore_ascii_case(&found) => Ok(()),
            Some(_) => Err(format!("{uri} has not the digest that was listed")),
            None => Err(format!("{uri} is listed without a digest")),
        }
    }
}

impl Client {
    /// All skills of the server. None of their files is read.
    pub async fn skills(&self) -> Result<Vec<Skill>, CallError> {
        if !self.may_extend(EXTENSION) {
            return Err(CallError::unsupported("skills"));
        }
        let extensions = Map::from_iter([(EXTENSION.to_owned(), json!({}))]);
        let options = CallOptions { extensions, ..CallOptions::default() };
        let list = self.list_raw("skills/list", "skills", &options, usize::MAX).await?;
        list.items.iter().map(|item| Ok(Skill { entry: to_value(item)? })).collect()
    }

    /// The text of a skill's `SKILL.md`, if it is what was listed.
    pub async fn load_skill(&self, skill: &Skill) -> Result<String, CallError> {
        let content = self.skill_file(skill, skill.uri()).await?;
        let text =
            String::from_utf8(content).map_err(|_| CallError::unusable("SKILL.md is not text"))?;
        let header = read_header(&text).map_err(CallError::unusable)?;
        if Value::from(header) != skill.entry["frontmatter"] {
            return Err(CallError::unusable(
                "the header of SKILL.md is not the one that was listed",
            ));
        }
        Ok(text)
    }

    /// One of a skill's files, if it is what was listed.
    pub async fn skill_file(&self, skill: &Skill, uri: &str) -> Result<Vec<u8>, CallError> {
        let read = self.read(uri).await?;
        let content = &read["contents"][0];
        let content = match (content["text"].as_str(), content["blob"].as_str()) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(blob)) => {
                STANDARD.decode(blob).map_err(|_| CallError::unusable("no Base64"))?
            }
            (None, None) => return Err(CallError::unusable("no content")),
        };
        skill.check(uri, &content).map_err(CallError::unusable)?;
        Ok(content)
    }
}

type HeaderLines<'a> = std::iter::Peekable<std::vec::IntoIter<(usize, &'a str)>>;

/// Mappings inside mappings.
const DEPTH: usize = 8;

/// The members of the header of a `SKILL.md`: YAML between two lines of dashes.
///
/// The part of YAML that such headers are written in: nested mappings, lists of
/// scalars, plain and quoted scalars, blocks of text. Whatever else there is
/// (anchors, tags, flow mappings, keys that come twice) is refused: a header
/// that two readers may read in two ways is no header to trust.
fn read_header(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"));
    let text = text.ok_or("SKILL.md has no header")?;
    let mut lines: Vec<_> = text.lines().collect();
    let end = lines.iter().position(|line| line.trim_end() == "---");
    lines.truncate(end.ok_or("the header of SKILL.md has no end")?);
    // A tab indents by nobody knows how much.
    if let Some(line) = lines.iter().find(|line| line.contains('\t')) {
        return Err(odd(line));
    }
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let lines: Vec<_> = lines.into_iter().map(|line| (indent(line), line)).collect();
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
fn next_indent(lines: &mut HeaderLines<'_>) -> Option<usize> {
    let says_nothing = |line: &str| line.is_empty() || line.starts_with('#');
    while lines.next_if(|(_, line)| says_nothing(line.trim())).is_some() {}
    lines.peek().map(|(indent, _)| *indent)
}

fn mapping(
    lines: &mut HeaderLines<'_>,
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
fn nested(lines: &mut HeaderLines<'_>, above: usize, depth: usize) -> Result<Value, String> {
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
fn block(lines: &mut HeaderLines<'_>, above: usize, style: &str) -> Option<String> {
    let is_inside = |(indent, line): &(usize, &str)| *indent > above || line.trim().is_empty();
    let mut text: Vec<_> = std::iter::from_fn(|| lines.next_if(is_inside)).collect();
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
    match text.chars().next()? {
        '"' => serde_json::from_str::<String>(text).ok().map(Value::from),
        '\'' => {
            let text = text.strip_prefix('\'')?.strip_suffix('\'')?;
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

    fn skill(size: u64) -> Skill {
        let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let file = json!({"uri": "skill://a/x", "digest": digest, "size": size});
        Skill { entry: json!({"resources": [file, {"uri": "skill://a/y"}]}) }
    }

    #[test]
    fn a_file_is_what_was_listed_or_nothing() {
        assert_eq!(skill(3).check("skill://a/x", b"abc"), Ok(()));
        for (size, uri, content) in [
            (3, "skill://a/x", "abd"),
            (4, "skill://a/x", "abc"),
            (3, "skill://a/y", "abc"),
            (3, "skill://a/z", "abc"),
        ] {
            assert!(skill(size).check(uri, content.as_bytes()).is_err(), "{uri} {content}");
        }
    }

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
        assert_eq!(Value::from(read_header(text).unwrap()), expected);
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
            assert!(read_header(&format!("---\n{header}\n---\n")).is_err(), "{header}");
        }
        assert!(read_header("name: a\n").is_err() && read_header("---\nname: a\n").is_err());
    }
}
