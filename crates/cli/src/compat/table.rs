//! The table of flags of another tool: what a row says, the help made from it, and how
//! values are converted.

use std::fmt::Write as _;

use super::translate::{BridgeLine, ParsedLine};

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
    pub(super) arrange: fn(&ParsedLine, Lookup<'_>) -> Result<BridgeLine, Complaint>,
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
    Converted(&'static str, fn(&[String]) -> Result<Vec<String>, String>),
    /// These words of ours, where it is on.
    Words(&'static [&'static str]),
    /// Something that other flags have a say in; in words.
    Combined(&'static str),
    /// The flag changes nothing, because this always holds.
    NoEffect(&'static str),
    /// Ignored with a warning; why.
    Ignored(&'static str),
    /// We will not start with it; why.
    Refused(&'static str),
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
        let (needs, means) = (Needs::Nothing, Means::Combined(""));
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

/// How wide the column of flags is.
const FLAG_COLUMN: usize = 34;

pub(super) fn help_text(tool: &Tool) -> String {
    let mut text = format!(
        "switchboard as a replacement for {} ({})\n\nUsage: {}\n\nFlags:\n",
        tool.name, tool.origin, tool.usage
    );
    for row in tool.rows {
        let flag = spelt_flag(row);
        let gap = if flag.len() < FLAG_COLUMN { "" } else { "\n" };
        // Writing to a string does not fail.
        _ = writeln!(text, "  {flag:FLAG_COLUMN$}{gap}{}", row.help);
        let pad = " ".repeat(FLAG_COLUMN + 2);
        _ = writeln!(text, "{pad}{}", flag_meaning(row));
    }
    text.push_str("\nThe flags of switchboard bridge work too; see switchboard bridge --help.\n");
    text
}

fn spelt_flag(row: &Row) -> String {
    let value = match row.takes {
        Takes::Nothing => "",
        Takes::One => " VALUE",
        Takes::Maybe => " [VALUE]",
        Takes::Two => " NAME VALUE",
        Takes::Any => " [VALUE]...",
    };
    let names: Vec<_> = std::iter::once(&row.flag).chain(row.aliases).copied().collect();
    format!("{}{value}", names.join(", "))
}

fn flag_meaning(row: &Row) -> String {
    match row.means {
        Means::Ours(flag) | Means::Converted(flag, _) => format!("= bridge {flag}"),
        Means::Words(words) => format!("= bridge {}", words.join(" ")),
        Means::Combined(words) => format!("= {words}"),
        Means::NoEffect(why) => format!("no effect: {why}"),
        Means::Ignored(why) => format!("ignored: {why}"),
        Means::Refused(why) => format!("refused: {why}"),
    }
}

/// Milliseconds as whole seconds, at least one, and at most the longest that we wait.
pub(super) fn seconds(most: u64, values: &[String]) -> Result<Vec<String>, String> {
    let seconds = whole(values, 1000.0).ok_or("not a number of milliseconds")?;
    Ok(vec![seconds.clamp(1, most).to_string()])
}

/// The same, where zero means for ever.
pub(super) fn seconds_or(most: u64, values: &[String]) -> Result<Vec<String>, String> {
    let seconds = whole(values, 1000.0).ok_or("not a number of milliseconds")?;
    Ok(vec![if seconds == 0 { most } else { seconds.min(most) }.to_string()])
}

/// Seconds and parts of one as whole seconds; none if they make no sense.
pub(super) fn whole_seconds(values: &[String]) -> Option<u64> {
    whole(values, 1.0)
}

fn whole(values: &[String], in_a_second: f64) -> Option<u64> {
    let value: f64 = values.last()?.parse().ok()?;
    let seconds = (value / in_a_second).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    (0.0..=1e15).contains(&seconds).then_some(seconds as u64)
}

/// Bytes of a message; zero means without a limit, and ours cannot be tiny.
pub(super) fn bytes(values: &[String]) -> Result<Vec<String>, String> {
    let value = values.last().map(String::as_str).unwrap_or_default();
    let bytes: u64 = value.parse().map_err(|_| "not a number of bytes".to_owned())?;
    let most = u64::from(u32::MAX);
    Ok(vec![if bytes == 0 { most } else { bytes.clamp(1024, most) }.to_string()])
}

/// Origins; none listed means all.
#[expect(clippy::unnecessary_wraps, reason = "it stands in the table")]
pub(super) fn origins(values: &[String]) -> Result<Vec<String>, String> {
    Ok(if values.is_empty() { vec!["*".to_owned()] } else { values.to_vec() })
}

/// Pairs of a name and a value, joined.
pub(super) fn joined(values: &[String], between: &str) -> Vec<String> {
    values.chunks(2).map(|pair| pair.join(between)).collect()
}

/// Whether only a shell can make sense of a command line.
pub(super) fn wants_shell(line: &str) -> bool {
    line.contains(['$', '`', '&', '|', ';', '<', '>', '(', ')', '*', '?', '~', '#', '\n'])
}

/// A command line as words for a shell.
pub(super) fn shell(line: &str) -> Vec<String> {
    ["sh", "-c", line].map(ToOwned::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: &str) -> Vec<String> {
        vec![value.to_owned()]
    }

    #[test]
    fn milliseconds_become_whole_seconds() {
        assert_eq!(seconds(99, &one("60000")), Ok(one("60")));
        assert_eq!(seconds(99, &one("1")), Ok(one("1")));
        assert_eq!(seconds(99, &one("1500.5")), Ok(one("2")));
        assert_eq!(seconds(99, &one("150000")), Ok(one("99")));
        assert_eq!(seconds_or(9, &one("0")), Ok(one("9")));
        assert_eq!(seconds_or(9, &one("60000")), Ok(one("9")));
        assert!(seconds(99, &one("soon")).is_err() && seconds(99, &one("-1001")).is_err());
        assert_eq!(whole_seconds(&one("1.5")), Some(2));
        assert_eq!(whole_seconds(&one("NaN")), None);
    }

    #[test]
    fn no_limit_is_our_largest() {
        assert_eq!(bytes(&one("0")), Ok(one("4294967295")));
        assert_eq!(bytes(&one("10")), Ok(one("1024")));
        assert_eq!(bytes(&one("10485760")), Ok(one("10485760")));
        assert!(bytes(&one("10mb")).is_err());
    }

    #[test]
    fn a_shell_is_only_asked_where_words_will_not_do() {
        assert!(!wants_shell("npx -y 'some server' --flag=1 /a/b"));
        assert!(wants_shell("cd /tmp && ./server") && wants_shell("server $HOME"));
    }
}
