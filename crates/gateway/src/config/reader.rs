//! Reads values of a file, and tells what is wrong with them.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::expand::{FileVariables, is_bare};
use super::gateway::Granted;
use super::key::nearest;
use super::tree::{KeyValue, MemberKey, Node, Placed, Value};
use super::{Problem, SourceLocation, Weight};

/// What the variables of the file stand for, and what was wrong so far.
pub(super) struct Reader<'t> {
    pub(super) variables: FileVariables<'t>,
    /// What the entry being read sets for its command, while its arguments are read.
    pub(super) set_beside: Vec<(String, String)>,
    pub(super) problems: Vec<Problem>,
    /// Other files that were read, or should have been.
    pub(super) besides: Vec<PathBuf>,
    /// What grants name.
    pub(super) granted: Vec<Granted>,
    /// Words that stand in for variables, as the file says.
    pub(super) default_words: Vec<String>,
    /// Variables, and what was filled in for them.
    pub(super) filled_in: Vec<(String, String)>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(variables: FileVariables<'t>) -> Self {
        let (problems, besides) = (Vec::new(), Vec::new());
        let (granted, default_words, filled_in) = (Vec::new(), Vec::new(), Vec::new());
        let set_beside = Vec::new();
        Self { variables, set_beside, problems, besides, granted, default_words, filled_in }
    }

    pub(super) fn error(
        &mut self,
        place: &SourceLocation,
        what: String,
        instead: impl Into<String>,
    ) {
        self.problems.push(Problem::error(place, what, instead));
    }

    /// Whether something is wrong from this problem on; notes do not count.
    pub(super) fn has_mistakes(&self, from: usize) -> bool {
        self.problems[from..].iter().any(|problem| problem.weight == Weight::Error)
    }

    pub(super) fn note(
        &mut self,
        place: &SourceLocation,
        what: impl Into<String>,
        instead: impl Into<String>,
    ) {
        let error = Problem::error(place, what, instead);
        self.problems.push(Problem { weight: Weight::Note, ..error });
    }

    /// A value that has no meaning: a mistake, and nothing to go on with.
    pub(super) fn fail<T>(
        &mut self,
        (key, node): KeyValue<'_>,
        what: impl Display,
        instead: impl Into<String>,
    ) -> Option<T> {
        self.error(&node.place, format!("{:?}{what}", key.value), instead);
        None
    }

    /// A value of another type than the key has.
    pub(super) fn wrong<T>(&mut self, at: KeyValue<'_>, instead: &str) -> Option<T> {
        self.fail(at, format_args!(" is {}", at.1.kind()), instead)
    }

    /// A text with its variables filled in.
    pub(super) fn text(&mut self, (key, node): KeyValue<'_>) -> Option<String> {
        let Some(text) = node.text() else {
            return self.wrong((key, node), "write a text in quotes");
        };
        if is_bare(text) && !self.variables.dollars {
            let what = format!("{:?} has a $NAME, which is passed on as it is", key.value);
            self.note(&node.place, what, format!("for a variable write ${{{}}}", &text[1..]));
        }
        match self.variables.expand(text, &self.set_beside) {
            Ok(value) => {
                self.default_words.extend(default_word(text, &value));
                self.filled_in.extend(self.variables.filled_in(text, &self.set_beside));
                Some(value)
            }
            Err(why) => self.fail((key, node), format_args!(": {why}"), why.instead()),
        }
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

    /// The items of a list of texts.
    fn items<'n>(&mut self, (key, node): (&MemberKey, &'n Node)) -> Option<&'n [Node]> {
        match &node.value {
            Value::List(items) => Some(items),
            _ => self.wrong((key, node), "write a list of texts: [\"…\", \"…\"]"),
        }
    }

    pub(super) fn words(&mut self, (key, node): KeyValue<'_>) -> Option<Vec<String>> {
        self.items((key, node))?.iter().map(|item| self.text((key, item))).collect()
    }

    /// The arguments of a program.
    pub(super) fn arguments(&mut self, (key, node): KeyValue<'_>) -> Option<Vec<String>> {
        self.items((key, node))?.iter().map(|item| self.scalar((key, item))).collect()
    }

    /// A text, and where it is.
    pub(super) fn placed_text(&mut self, at: KeyValue<'_>) -> Option<Placed<String>> {
        Some(Placed { place: at.1.place.clone(), value: self.text(at)? })
    }

    /// The texts of a list, each with its place.
    pub(super) fn placed(&mut self, (key, node): KeyValue<'_>) -> Vec<Placed<String>> {
        let items = self.items((key, node)).unwrap_or_default().iter();
        items.filter_map(|item| self.placed_text((key, item))).collect()
    }

    /// A text, or a list of them.
    pub(super) fn one_or_more(&mut self, (key, node): KeyValue<'_>) -> Vec<Placed<String>> {
        if let Value::List(_) = node.value {
            return self.placed((key, node));
        }
        self.placed_text((key, node)).into_iter().collect()
    }

    pub(super) fn pairs(&mut self, (key, node): KeyValue<'_>) -> Vec<(MemberKey, String)> {
        let members = self.members((key, node), "write an object: { \"NAME\": \"value\" }");
        let pairs = members.iter();
        pairs.filter_map(|(key, node)| Some((key.clone(), self.scalar((key, node))?))).collect()
    }

    pub(super) fn flag(&mut self, (key, node): KeyValue<'_>) -> Option<bool> {
        match node.value {
            Value::Bool(flag) => Some(flag),
            _ => self.wrong((key, node), "write true or false"),
        }
    }

    pub(super) fn number(&mut self, (key, node): KeyValue<'_>) -> Option<f64> {
        let number = node.number().filter(|number: &f64| *number > 0.0 && *number <= 1e9);
        number.or_else(|| self.wrong((key, node), "write a number above 0, without quotes"))
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
        let instead = "write seconds, or \"500ms\", \"30s\", \"5m\", \"1h\"";
        let seconds = seconds.or_else(|| self.fail((key, node), " is no time", instead));
        seconds.map(Duration::from_secs_f64)
    }

    /// A whole number of something.
    pub(super) fn count(&mut self, (key, node): KeyValue<'_>) -> Option<NonZeroUsize> {
        let instead = "write a whole number above 0, without quotes";
        node.number().or_else(|| self.wrong((key, node), instead))
    }

    /// The members of an object; none if it is something else, which is told.
    pub(super) fn members<'n>(
        &mut self,
        (key, node): (&MemberKey, &'n Node),
        instead: &str,
    ) -> &'n [(MemberKey, Node)] {
        node.table().or_else(|| self.wrong((key, node), instead)).unwrap_or_default()
    }

    /// An unknown key, in a part of the file that only we read.
    pub(super) fn unknown(&mut self, key: &MemberKey, known: &[&str]) {
        let what = format!("there is no key {:?} here", key.value);
        let instead = match nearest(&key.value, known.iter().copied()) {
            Some(meant) => format!("write {meant:?}"),
            None => format!("write one of {}", known.join(", ")),
        };
        self.error(&key.place, what, instead);
    }

    /// A path of the file, relative to the working folder.
    pub(super) fn path(&self, path: String) -> PathBuf {
        self.variables.around.folder().join(self.at_home(path))
    }

    /// A path of the file, relative to the folder that the file is in.
    pub(super) fn path_beside(&self, Placed { place, value }: Placed<String>) -> PathBuf {
        let beside = place.file.parent().map(|folder| self.variables.around.folder().join(folder));
        beside.unwrap_or_default().join(self.at_home(value))
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
            return self.wrong((key, node), "write the name of a variable in quotes");
        };
        if self.variables.around.is_literal {
            return Some(format!("${{{name}}}"));
        }
        let value = self.variables.around.variable(name).map(ToOwned::to_owned);
        let what = format_args!(": the environment variable {name} is not set");
        value.or_else(|| self.fail((key, node), what, format!("export {name}=…")))
    }
}

/// The longest default that is taken for a word.
const DEFAULT_WORD: usize = 12;

/// The value, if `text` is a variable with this default, and it is a plain word. With digits, or
/// as long as a sentence, it may be a secret after all.
fn default_word(text: &str, value: &str) -> Option<String> {
    let (_, default) = text.strip_prefix("${")?.strip_suffix('}')?.split_once(":-")?;
    let is_plain = value.len() <= DEFAULT_WORD && value.chars().all(char::is_alphabetic);
    let is_word = default == value && is_plain;
    is_word.then(|| value.to_owned())
}
