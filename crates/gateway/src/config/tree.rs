//! JSON with comments, TOML or YAML, as one tree that knows where its parts stand.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};
use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Problem, SourceLocation};

mod yaml;

/// Something, and where in the file it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed<T> {
    /// Where it is.
    pub place: SourceLocation,
    /// What it is.
    pub value: T,
}

/// A value of a file.
pub(super) type Node = Placed<Value>;

/// The name of a member.
pub(super) type MemberKey = Placed<String>;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// A number as it is written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Table(Vec<(MemberKey, Node)>),
}

/// A member of an object.
pub(super) type KeyValue<'t> = (&'t MemberKey, &'t Node);

impl Node {
    /// A value that is in no file yet.
    pub(super) fn new(value: Value) -> Self {
        let place = SourceLocation { file: Path::new("").into(), line: 1, column: 1 };
        Self { place, value }
    }

    /// An object that is in no file yet.
    pub(super) fn object<'n>(members: impl IntoIterator<Item = (&'n str, Self)>) -> Self {
        let member = |(name, node): (&str, Self)| {
            (MemberKey { place: node.place.clone(), value: name.to_owned() }, node)
        };
        Self::new(Value::Table(members.into_iter().map(member).collect()))
    }

    /// What it is, in words.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Table(_) => "an object",
        }
    }

    /// Whether it is an object or a list with nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        match &self.value {
            Value::List(items) => items.is_empty(),
            Value::Table(members) => members.is_empty(),
            _ => false,
        }
    }

    /// Its members, if it has any; of two with one name the last counts.
    pub(super) fn table(&self) -> Option<&[(MemberKey, Self)]> {
        match &self.value {
            Value::Table(members) => Some(members),
            _ => None,
        }
    }

    /// The member of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        let mut members = self.table()?.iter().rev();
        members.find(|(key, _)| key.value == name).map(|(_, node)| node)
    }

    /// The same with other texts.
    pub(super) fn map_texts(&self, change: &impl Fn(&str) -> String) -> Self {
        let value = match &self.value {
            Value::Text(text) => Value::Text(change(text)),
            Value::List(items) => {
                Value::List(items.iter().map(|item| item.map_texts(change)).collect())
            }
            Value::Table(members) => {
                let members =
                    members.iter().map(|(key, node)| (key.clone(), node.map_texts(change)));
                Value::Table(members.collect())
            }
            other => other.clone(),
        };
        Self { place: self.place.clone(), value }
    }

    /// The same as JSON; none for a number that JSON does not have.
    pub(super) fn json(&self) -> Option<Json> {
        Some(match &self.value {
            Value::Null => Json::Null,
            Value::Bool(bool) => Json::Bool(*bool),
            Value::Number(number) => Json::Number(number.parse().ok()?),
            Value::Text(text) => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(Self::json).collect::<Option<_>>()?),
            Value::Table(members) => {
                let members =
                    members.iter().map(|(key, node)| Some((key.value.clone(), node.json()?)));
                Json::Object(members.collect::<Option<_>>()?)
            }
        })
    }

    /// It as a number of some type, if it is one.
    pub(super) fn number<T: FromStr>(&self) -> Option<T> {
        match &self.value {
            Value::Number(number) => number.parse().ok(),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// How a file is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FileFormat {
    Json,
    Toml,
    Yaml,
}

impl FileFormat {
    /// By what the name of the file ends with.
    pub(super) fn of(file: &Path) -> Self {
        let end = file.extension().unwrap_or_default().to_ascii_lowercase();
        match end.to_str() {
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Json,
        }
    }
}

/// Windows writes it in front of a text.
pub(super) const BYTE_ORDER_MARK: char = '\u{feff}';

/// Reads a file by what its name ends with.
pub(super) fn parse(file: &Path, text: &str) -> Result<Node, Problem> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let places = LineIndex::new(file, text);
    match FileFormat::of(file) {
        FileFormat::Json => parse_json(&places, text),
        FileFormat::Toml => parse_toml(&places, text),
        FileFormat::Yaml => yaml::parse(&places, text),
    }
}

/// How forgiving we are with JSON.
pub(crate) fn options() -> ParseOptions {
    // Comments and trailing commas are what clients put up with; a missing
    // comma is a mistake that is better told than guessed at.
    ParseOptions {
        allow_missing_commas: false,
        allow_loose_object_property_names: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
        ..ParseOptions::default()
    }
}

fn parse_json(places: &LineIndex<'_>, text: &str) -> Result<Node, Problem> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options()).map_err(|error| {
        let what = format!("this is not JSON: {}", error.kind()).to_lowercase();
        let what = what.replacen("json", "JSON", 1);
        let instead = "look for a missing comma, quote or bracket here or just before";
        Problem::error(&places.at(error.range().start), what, instead)
    })?;
    let instead = "write { \"mcpServers\": {} } and put servers into it";
    let empty = || Problem::error(&places.at(0), "the file is empty", instead);
    parsed.value.map(|value| from_json(places, value)).ok_or_else(empty)
}

fn from_json(places: &LineIndex<'_>, value: ast::Value<'_>) -> Node {
    let (start, value) = match value {
        ast::Value::NullKeyword(null) => (null.range.start, Value::Null),
        ast::Value::BooleanLit(bool) => (bool.range.start, Value::Bool(bool.value)),
        ast::Value::NumberLit(number) => {
            (number.range.start, Value::Number(number.value.to_owned()))
        }
        ast::Value::StringLit(text) => (text.range.start, Value::Text(text.value.into_owned())),
        ast::Value::Array(list) => {
            let items = list.elements.into_iter().map(|item| from_json(places, item));
            (list.range.start, Value::List(items.collect()))
        }
        ast::Value::Object(object) => {
            let members = object.properties.into_iter().map(|member| {
                let place = places.at(member.range.start);
                let key = MemberKey { place, value: member.name.into_string() };
                (key, from_json(places, member.value))
            });
            (object.range.start, Value::Table(members.collect()))
        }
    };
    Node { place: places.at(start), value }
}

fn parse_toml(places: &LineIndex<'_>, text: &str) -> Result<Node, Problem> {
    let table = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let what = format!("this is not TOML: {}", error.message().replace('\n', ", "));
        let instead = "look for a missing quote, bracket or line break here or just before";
        Problem::error(&places.at(start), what, instead)
    })?;
    let place = places.at(0);
    Ok(Node { place, value: Value::Table(members(places, table.into_inner())) })
}

fn members(places: &LineIndex<'_>, table: DeTable<'_>) -> Vec<(MemberKey, Node)> {
    let mut members: Vec<_> = table
        .into_iter()
        .map(|(key, value)| {
            let start = key.span().start;
            let key = MemberKey { place: places.at(start), value: key.into_inner().into_owned() };
            (start, key, from_toml(places, value))
        })
        .collect();
    // The table is in alphabetical order; people count by lines.
    members.sort_by_key(|(start, ..)| *start);
    members.into_iter().map(|(_, key, node)| (key, node)).collect()
}

fn from_toml(places: &LineIndex<'_>, value: Spanned<DeValue<'_>>) -> Node {
    let place = places.at(value.span().start);
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => Value::Number(number.as_str().replace('_', "")),
        DeValue::Float(number) => Value::Number(number.as_str().replace('_', "")),
        DeValue::Boolean(bool) => Value::Bool(bool),
        DeValue::Datetime(date) => Value::Text(date.to_string()),
        DeValue::Array(list) => {
            Value::List(list.into_iter().map(|item| from_toml(places, item)).collect())
        }
        DeValue::Table(table) => Value::Table(members(places, table)),
    };
    Node { place, value }
}

/// Turns offsets into lines and columns.
struct LineIndex<'t> {
    file: Arc<Path>,
    text: &'t str,
    /// Where each line starts.
    lines: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    fn new(file: &Path, text: &'t str) -> Self {
        let starts = text.match_indices('\n').map(|(end, _)| end + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        Self { file: file.into(), text, lines }
    }

    fn at(&self, offset: usize) -> SourceLocation {
        let offset = offset.min(self.text.len());
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines[line - 1];
        let before = self.text.get(start..offset).unwrap_or_default();
        SourceLocation { file: Arc::clone(&self.file), line, column: before.chars().count() + 1 }
    }
}
