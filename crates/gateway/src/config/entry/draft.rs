//! A server while its members are read, one by one.

use std::time::Duration;

use super::{Timeouts, ToolFilter};
use crate::config::expand::{Variables, is_bare};
use crate::config::key::{Meaning, meaning, similar};
use crate::config::problem::{Place, Problem};
use crate::config::tree::{Key, Node, Value};

/// What is known so far.
pub(super) struct Draft<'t> {
    pub(super) variables: Variables<'t>,
    pub(super) problems: Vec<Problem>,
    /// A program, and its arguments if they are in the same list.
    pub(super) command: Option<(Place, Vec<String>)>,
    pub(super) args: Option<(Place, Vec<String>)>,
    pub(super) env: Vec<(String, String)>,
    pub(super) env_file: Option<(Place, String)>,
    pub(super) cwd: Option<(Place, String)>,
    pub(super) url: Option<(Place, String)>,
    pub(super) headers: Vec<(Key, String)>,
    pub(super) kind: Option<(Place, Kind)>,
    pub(super) enabled: bool,
    pub(super) description: Option<String>,
    pub(super) timeouts: Timeouts,
    pub(super) tools: ToolFilter,
}

/// What a file calls a transport.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Stdio,
    Http,
    StreamableHttp,
    Sse,
    Auto,
}

impl Kind {
    fn parse(name: &str) -> Option<Self> {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        match letters.collect::<String>().to_ascii_lowercase().as_str() {
            "stdio" | "local" => Some(Self::Stdio),
            // Clients with this name for it fall back to the older transport.
            "http" | "remote" => Some(Self::Http),
            "streamablehttp" => Some(Self::StreamableHttp),
            "sse" => Some(Self::Sse),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }
}

impl<'t> Draft<'t> {
    pub(super) fn new(variables: Variables<'t>) -> Self {
        Self {
            variables,
            problems: Vec::new(),
            command: None,
            args: None,
            env: Vec::new(),
            env_file: None,
            cwd: None,
            url: None,
            headers: Vec::new(),
            kind: None,
            enabled: true,
            description: None,
            timeouts: Timeouts::default(),
            tools: ToolFilter::default(),
        }
    }

    /// Takes in one member of the server.
    pub(super) fn member(&mut self, key: &Key, node: &Node) {
        let Some(meaning) = meaning(&key.text) else { return self.unknown(key) };
        let place = || node.place.clone();
        match meaning {
            Meaning::Args => self.args = self.words(key, node).map(|words| (place(), words)),
            Meaning::BearerVariable => self.bearer(key, node),
            Meaning::CallMillis => self.timeouts.call = self.millis(key, node),
            Meaning::CallSeconds => self.timeouts.call = self.seconds(key, node),
            Meaning::CallTime => self.timeouts.call = self.either(key, node),
            Meaning::Command => self.command = self.program(key, node),
            Meaning::Cwd => self.cwd = self.text(key, node).map(|text| (place(), text)),
            Meaning::Description => self.description = node.text().map(ToOwned::to_owned),
            Meaning::Disabled => self.enabled = !self.flag(key, node).unwrap_or(false),
            Meaning::Enabled => self.enabled = self.flag(key, node).unwrap_or(true),
            Meaning::Env => {
                let pairs = self.pairs(key, node);
                self.env.extend(pairs.into_iter().map(|(key, value)| (key.text, value)));
            }
            Meaning::EnvFile => self.env_file = self.text(key, node).map(|text| (place(), text)),
            Meaning::EnvNames => self.passed_on(key, node),
            Meaning::HeaderVariables => self.header_variables(key, node),
            Meaning::Headers => {
                let pairs = self.pairs(key, node);
                self.headers.extend(pairs);
            }
            Meaning::HttpUrl => {
                self.url = self.text(key, node).map(|text| (place(), text));
                self.kind = self.kind.take().or(Some((place(), Kind::StreamableHttp)));
            }
            Meaning::Kind => self.kind(key, node),
            Meaning::NotTools => self.tools.never = self.words(key, node).unwrap_or_default(),
            Meaning::OnlyTools => self.tools.only = self.words(key, node),
            Meaning::StartMillis => self.timeouts.start = self.millis(key, node),
            Meaning::StartSeconds => self.timeouts.start = self.seconds(key, node),
            Meaning::ToolFilter => self.tool_filter(key, node),
            Meaning::Url => self.url = self.text(key, node).map(|text| (place(), text)),
            Meaning::Name | Meaning::Theirs => {}
        }
    }

    fn unknown(&mut self, key: &Key) {
        let what = format!("no tool that we know has the key {:?}", key.text);
        let problem = match similar(&key.text) {
            Some(meant) => Problem::error(&key.place, what, format!("write {meant:?}")),
            None => Problem::note(&key.place, what, "it is left out of account"),
        };
        self.problems.push(problem);
    }

    pub(super) fn error(&mut self, place: &Place, what: String, instead: impl Into<String>) {
        self.problems.push(Problem::error(place, what, instead));
    }

    fn wrong(&mut self, key: &Key, node: &Node, instead: &str) {
        let what = format!("{:?} is {}", key.text, node.kind());
        self.error(&node.place, what, instead);
    }

    /// A text with its variables filled in. Numbers and booleans are texts
    /// where people forget the quotes.
    fn text(&mut self, key: &Key, node: &Node) -> Option<String> {
        let text = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.clone(),
            Value::Bool(bool) => bool.to_string(),
            _ => {
                self.wrong(key, node, "write a text in quotes");
                return None;
            }
        };
        if is_bare(&text) {
            let what = format!("{:?} has a $NAME, which is passed on as it is", key.text);
            let instead = format!("for a variable write ${{{}}}", &text[1..]);
            self.problems.push(Problem::note(&node.place, what, instead));
        }
        match self.variables.expand(&text) {
            Ok(text) => Some(text),
            Err(unknown) => {
                let what = format!("{:?}: {unknown}", key.text);
                self.error(&node.place, what, unknown.instead());
                None
            }
        }
    }

    fn words(&mut self, key: &Key, node: &Node) -> Option<Vec<String>> {
        let Value::List(items) = &node.value else {
            self.wrong(key, node, "write a list of texts: [\"…\", \"…\"]");
            return None;
        };
        items.iter().map(|item| self.text(key, item)).collect()
    }

    fn program(&mut self, key: &Key, node: &Node) -> Option<(Place, Vec<String>)> {
        let words = match &node.value {
            Value::List(_) => self.words(key, node)?,
            _ => vec![self.text(key, node)?],
        };
        Some((node.place.clone(), words))
    }

    fn pairs(&mut self, key: &Key, node: &Node) -> Vec<(Key, String)> {
        let Some(members) = node.table() else {
            self.wrong(key, node, "write an object: { \"NAME\": \"value\" }");
            return Vec::new();
        };
        let pairs = members.iter().filter_map(|(key, node)| {
            let text = self.text(key, node)?;
            Some((key.clone(), text))
        });
        pairs.collect()
    }

    fn flag(&mut self, key: &Key, node: &Node) -> Option<bool> {
        let Value::Bool(flag) = node.value else {
            self.wrong(key, node, "write true or false");
            return None;
        };
        Some(flag)
    }

    fn number(&mut self, key: &Key, node: &Node) -> Option<f64> {
        let number = match &node.value {
            Value::Number(number) => number.parse().ok(),
            _ => None,
        };
        let number = number.filter(|number: &f64| *number > 0.0 && *number <= 1e9);
        if number.is_none() {
            self.wrong(key, node, "write a number above 0, without quotes");
        }
        number
    }

    fn seconds(&mut self, key: &Key, node: &Node) -> Option<Duration> {
        self.number(key, node).map(Duration::from_secs_f64)
    }

    fn millis(&mut self, key: &Key, node: &Node) -> Option<Duration> {
        self.number(key, node).map(|millis| Duration::from_secs_f64(millis / 1000.0))
    }

    /// Some clients count seconds, others milliseconds. Nobody waits less than
    /// a second for a server, and hardly anybody a quarter of an hour.
    fn either(&mut self, key: &Key, node: &Node) -> Option<Duration> {
        let number = self.number(key, node)?;
        let seconds = if number < 1000.0 { number } else { number / 1000.0 };
        Some(Duration::from_secs_f64(seconds))
    }

    fn kind(&mut self, key: &Key, node: &Node) {
        let Some(name) = node.text() else {
            return self.wrong(key, node, "write \"stdio\", \"http\" or \"sse\"");
        };
        if let Some(kind) = Kind::parse(name) {
            self.kind = Some((node.place.clone(), kind));
            return;
        }
        let what = format!("{:?} says {name:?}, which is no transport we have", key.text);
        let instead = "write \"stdio\", \"http\", \"sse\", \"streamable-http\" or \"auto\"";
        self.error(&node.place, what, instead);
    }

    /// A variable of ours, for keys that hold names instead of values.
    fn variable(&mut self, key: &Key, node: &Node) -> Option<String> {
        let Some(name) = node.text() else {
            self.wrong(key, node, "write the name of a variable in quotes");
            return None;
        };
        let value = self.variables.around.variable(name).map(ToOwned::to_owned);
        if value.is_none() {
            let what = format!("{:?}: the environment variable {name} is not set", key.text);
            self.error(&node.place, what, format!("export {name}=…"));
        }
        value
    }

    fn bearer(&mut self, key: &Key, node: &Node) {
        if let Some(token) = self.variable(key, node) {
            let name = Key { text: "Authorization".to_owned(), place: node.place.clone() };
            self.headers.push((name, format!("Bearer {token}")));
        }
    }

    fn header_variables(&mut self, key: &Key, node: &Node) {
        let Some(members) = node.table() else {
            return self.wrong(key, node, "write an object: { \"Header\": \"VARIABLE\" }");
        };
        for (header, node) in members {
            if let Some(value) = self.variable(header, node) {
                self.headers.push((header.clone(), value));
            }
        }
    }

    /// Variables to pass on if they are there.
    fn passed_on(&mut self, key: &Key, node: &Node) {
        for name in self.words(key, node).unwrap_or_default() {
            if let Some(value) = self.variables.around.variable(&name) {
                self.env.push((name, value.to_owned()));
            }
        }
    }

    fn tool_filter(&mut self, key: &Key, node: &Node) {
        let list = node.get("list").and_then(|list| self.words(key, list));
        match (node.get("mode").and_then(Node::text), list) {
            (Some("allow"), Some(list)) => self.tools.only = Some(list),
            (Some("block" | "deny"), Some(list)) => self.tools.never = list,
            _ => self.wrong(
                key,
                node,
                "write { \"mode\": \"allow\" or \"block\", \"list\": [\"…\"] }",
            ),
        }
    }
}
