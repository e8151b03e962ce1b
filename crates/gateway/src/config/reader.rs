//! Reads values of a file, and tells what is wrong with them.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::expand::{FileVariables, is_bare};
use super::gateway::Placed;
use super::key::nearest;
use super::tree::{KeyValue, MemberKey, Node, Value};
use super::{Problem, SourceLocation, Weight};

/// What the variables of the file stand for, and what was wrong so far.
pub(super) struct Reader<'t> {
    pub(super) variables: FileVariables<'t>,
    pub(super) problems: Vec<Problem>,
    /// Other files that were read, or should have been.
    pub(super) besides: Vec<PathBuf>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(variables: FileVariables<'t>) -> Self {
        Self { variables, problems: Vec::new(), besides: Vec::new() }
    }

    pub(super) fn error(
        &mut self,
        place: &SourceLocation,
        what: String,
        instead: impl Into<String>,
    ) {
        self.problems.push(Problem::error(place, what, instead));
    }

    /// Whether something is wrong so far; notes do not count.
    pub(super) fn has_mistakes(&self) -> bool {
        self.problems.iter().any(|problem| problem.weight == Weight::Error)
    }

    /// Whether the file is only compared and copied.
    pub(super) fn is_literal(&self) -> bool {
        self.variables.around.is_literal()
    }

    pub(super) fn wrong(&mut self, (key, node): KeyValue<'_>, instead: &str) {
        let what = format!("{:?} is {}", key.text, node.kind());
        self.error(&node.place, what, instead);
    }

    /// A text with its variables filled in.
    pub(super) fn text(&mut self, (key, node): KeyValue<'_>) -> Option<String> {
        let Some(text) = node.text() else {
            self.wrong((key, node), "write a text in quotes");
            return None;
        };
        self.filled((key, node), text)
    }

    /// The same where values are handed on as texts whatever they are, and people
    /// leave out the quotes of numbers and booleans.
    pub(super) fn scalar(&mut self, (key, node): KeyValue<'_>) -> Option<String> {
        match &node.value {
            Value::Number(number) => Some(number.clone()),
            Value::Bool(bool) => Some(bool.to_string()),
            _ => self.text((key, node)),
        }
    }

    fn filled(&mut self, (key, node): KeyValue<'_>, text: &str) -> Option<String> {
        if is_bare(text) {
            let what = format!("{:?} has a $NAME, which is passed on as it is", key.text);
            let instead = format!("for a variable write ${{{}}}", &text[1..]);
            self.problems.push(Problem::note(&node.place, what, instead));
        }
        match self.variables.expand(text) {
            Ok(text) => Some(text),
            Err(unknown) => {
                let what = format!("{:?}: {unknown}", key.text);
                self.error(&node.place, what, unknown.instead());
                None
            }
        }
    }

    /// The items of a list of texts.
    fn items<'n>(&mut self, (key, node): (&MemberKey, &'n Node)) -> Option<&'n [Node]> {
        if let Value::List(items) = &node.value {
            return Some(items);
        }
        self.wrong((key, node), "write a list of texts: [\"…\", \"…\"]");
        None
    }

    pub(super) fn words(&mut self, (key, node): KeyValue<'_>) -> Option<Vec<String>> {
        self.items((key, node))?.iter().map(|item| self.text((key, item))).collect()
    }

    /// The arguments of a program.
    pub(super) fn arguments(&mut self, (key, node): KeyValue<'_>) -> Option<Vec<String>> {
        self.items((key, node))?.iter().map(|item| self.scalar((key, item))).collect()
    }

    /// The texts of a list, each with its place.
    pub(super) fn placed(&mut self, (key, node): KeyValue<'_>) -> Vec<Placed<String>> {
        let texts = self.items((key, node)).unwrap_or_default().iter().filter_map(|item| {
            Some(Placed { place: item.place.clone(), value: self.text((key, item))? })
        });
        texts.collect()
    }

    /// A text, or a list of them.
    pub(super) fn one_or_more(&mut self, (key, node): KeyValue<'_>) -> Vec<Placed<String>> {
        if let Value::List(_) = node.value {
            return self.placed((key, node));
        }
        let text = self.text((key, node));
        text.map(|value| Placed { place: node.place.clone(), value }).into_iter().collect()
    }

    pub(super) fn pairs(&mut self, (key, node): KeyValue<'_>) -> Vec<(MemberKey, String)> {
        let Some(members) = node.table() else {
            self.wrong((key, node), "write an object: { \"NAME\": \"value\" }");
            return Vec::new();
        };
        let pairs = members.iter().filter_map(|(key, node)| {
            let text = self.scalar((key, node))?;
            Some((key.clone(), text))
        });
        pairs.collect()
    }

    pub(super) fn flag(&mut self, (key, node): KeyValue<'_>) -> Option<bool> {
        let Value::Bool(flag) = node.value else {
            self.wrong((key, node), "write true or false");
            return None;
        };
        Some(flag)
    }

    pub(super) fn number(&mut self, (key, node): KeyValue<'_>) -> Option<f64> {
        let number = match &node.value {
            Value::Number(number) => number.parse().ok(),
            _ => None,
        };
        let number = number.filter(|number: &f64| *number > 0.0 && *number <= 1e9);
        if number.is_none() {
            self.wrong((key, node), "write a number above 0, without quotes");
        }
        number
    }

    pub(super) fn seconds(&mut self, (key, node): KeyValue<'_>) -> Option<Duration> {
        self.number((key, node)).map(Duration::from_secs_f64)
    }

    pub(super) fn millis(&mut self, (key, node): KeyValue<'_>) -> Option<Duration> {
        self.number((key, node)).map(|millis| Duration::from_secs_f64(millis / 1000.0))
    }

    /// Some clients count seconds, others milliseconds. Nobody waits less than
    /// a second for a server, and hardly anybody a quarter of an hour.
    pub(super) fn either(&mut self, (key, node): KeyValue<'_>) -> Option<Duration> {
        if node.text().is_some() {
            return self.duration((key, node));
        }
        let number = self.number((key, node))?;
        let seconds = if number < 1000.0 { number } else { number / 1000.0 };
        Some(Duration::from_secs_f64(seconds))
    }

    /// A number of seconds, or a number and a unit: `500ms`, `30s`, `5m`, `1h`.
    pub(super) fn duration(&mut self, (key, node): KeyValue<'_>) -> Option<Duration> {
        let Some(text) = node.text() else { return self.seconds((key, node)) };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = match unit.trim() {
            "ms" => Some(0.001),
            "" | "s" | "sec" => Some(1.0),
            "m" | "min" => Some(60.0),
            "h" => Some(3600.0),
            _ => None,
        };
        let number = number.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 1e9);
        let seconds = number.zip(unit).map(|(number, unit)| number * unit);
        if seconds.is_none() {
            let what = format!("{:?} is no time", key.text);
            self.error(&node.place, what, "write seconds, or \"500ms\", \"30s\", \"5m\", \"1h\"");
        }
        seconds.map(Duration::from_secs_f64)
    }

    /// A whole number of something.
    pub(super) fn count(&mut self, (key, node): KeyValue<'_>) -> Option<NonZeroUsize> {
        let number = match &node.value {
            Value::Number(number) => number.parse().ok(),
            _ => None,
        };
        if number.is_none() {
            self.wrong((key, node), "write a whole number above 0, without quotes");
        }
        number
    }

    /// An unknown key, in a part of the file that only we read.
    pub(super) fn unknown(&mut self, key: &MemberKey, known: &[&str]) {
        let what = format!("there is no key {:?} here", key.text);
        let instead = match nearest(&key.text, known.iter().copied()) {
            Some(meant) => format!("write {meant:?}"),
            None => format!("write one of {}", known.join(", ")),
        };
        self.error(&key.place, what, instead);
    }

    /// A path of the file, relative to the working folder.
    pub(super) fn path(&self, path: String) -> PathBuf {
        self.variables.around.folder().join(self.at_home(path))
    }

    /// `~/x` as the shell reads it.
    pub(super) fn at_home(&self, path: String) -> String {
        match (path.strip_prefix("~/"), self.variables.around.home()) {
            (Some(rest), Some(home)) => home.join(rest).to_string_lossy().into_owned(),
            _ => path,
        }
    }

    /// A variable of ours, for keys that hold names instead of values.
    pub(super) fn variable(&mut self, (key, node): KeyValue<'_>) -> Option<String> {
        let Some(name) = node.text() else {
            self.wrong((key, node), "write the name of a variable in quotes");
            return None;
        };
        if self.is_literal() {
            return Some(format!("${{{name}}}"));
        }
        let value = self.variables.around.variable(name).map(ToOwned::to_owned);
        if value.is_none() {
            let what = format!("{:?}: the environment variable {name} is not set", key.text);
            self.error(&node.place, what, format!("export {name}=…"));
        }
        value
    }
}
