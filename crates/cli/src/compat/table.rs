//! What a table of flags is made of.

use super::plan::Plan;
use super::read::Given;

/// The environment, as far as it is text.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A program whose command line we understand.
#[derive(Debug)]
pub(crate) struct Tool {
    /// How it is called.
    pub(crate) name: &'static str,
    /// Where it comes from.
    pub(super) origin: &'static str,
    pub(super) usage: &'static str,
    pub(super) rows: &'static [Row],
    /// `--two-words` is `--twoWords`, lists end at the next flag, and flags that it
    /// does not know it leaves alone.
    pub(super) yargs: bool,
    /// Flags are also read from variables that begin so.
    pub(super) variables: Option<&'static str>,
    /// What all of it together asks for.
    pub(super) arrange: fn(&Given, Lookup<'_>) -> Result<Plan, Complaint>,
}

/// One flag.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) flag: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) takes: Takes,
    /// Where it makes sense; elsewhere it is left out, and the user told.
    pub(super) needs: Needs,
    pub(super) means: Means,
    pub(super) help: &'static str,
}

/// How many words follow a flag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Takes {
    /// None; it can be switched off by `--no-` or `=false`.
    Nothing,
    One,
    /// One, or none.
    Maybe,
    Two,
    /// As many as there are before the next flag.
    Any,
}

/// What a flag is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Needs {
    Nothing,
    /// A port that is served.
    Port,
    /// A server at a URL.
    Url,
    /// A server that is a command.
    Command,
    /// A server that is a command, and not only named ones.
    Unnamed,
}

/// What a flag of theirs means to us.
#[derive(Clone, Copy, Debug)]
pub(super) enum Means {
    /// The same as a flag of ours, with the same value.
    Ours(&'static str),
    /// A flag of ours, with its value turned into our terms.
    Turned(&'static str, fn(&[String]) -> Result<Vec<String>, String>),
    /// These words of ours, where it is on.
    Words(&'static [&'static str]),
    /// Something that other flags have a say in; in words.
    Plan(&'static str),
    /// What it asks for is always so; how.
    Always(&'static str),
    /// Understood but not honoured yet, and told; why.
    Later(&'static str),
    /// We will not start with it; why.
    Never(&'static str),
}

/// What is wrong with a line, and what to do about it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Complaint {
    pub(crate) what: String,
    pub(crate) hint: String,
}

impl Complaint {
    pub(super) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

impl Row {
    pub(super) const fn new(flag: &'static str, takes: Takes, help: &'static str) -> Self {
        let (needs, means) = (Needs::Nothing, Means::Plan(""));
        Self { flag, aliases: &[], takes, needs, means, help }
    }

    pub(super) const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(super) const fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    pub(super) const fn means(mut self, means: Means) -> Self {
        self.means = means;
        self
    }

    fn is(&self, flag: &str) -> bool {
        self.flag == flag || self.aliases.contains(&flag)
    }
}

impl Tool {
    /// The row of a flag, and whether it is spelt as its opposite.
    pub(super) fn find(&self, flag: &str) -> Option<(&'static Row, bool)> {
        if let Some(row) = self.spelt(flag) {
            return Some((row, false));
        }
        let opposite = format!("--{}", flag.strip_prefix("--no-")?);
        let row = self.spelt(&opposite).filter(|row| row.takes == Takes::Nothing)?;
        Some((row, true))
    }

    /// The row of a flag.
    pub(super) fn row(&self, flag: &str) -> Option<&'static Row> {
        self.find(flag).map(|(row, _)| row)
    }

    fn spelt(&self, flag: &str) -> Option<&'static Row> {
        let found = self.rows.iter().find(|row| row.is(flag));
        found.or_else(|| {
            let camel = self.yargs.then(|| camel_case(flag))?;
            self.rows.iter().find(|row| row.is(&camel))
        })
    }
}

/// `--two-words` as `--twoWords`.
fn camel_case(flag: &str) -> String {
    let mut camel = String::from("--");
    let mut upper = false;
    for character in flag.trim_start_matches('-').chars() {
        match character {
            '-' => upper = true,
            _ if upper => {
                camel.extend(character.to_uppercase());
                upper = false;
            }
            _ => camel.push(character),
        }
    }
    camel
}

/// `--twoWords` as `TWO_WORDS`.
pub(super) fn screaming(flag: &str) -> String {
    let mut name = String::new();
    for character in flag.trim_start_matches('-').chars() {
        if character.is_uppercase() {
            name.push('_');
        }
        name.extend(character.to_uppercase());
    }
    name
}
