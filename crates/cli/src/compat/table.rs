//! The table of flags of another tool: what a row says, the help made from it, and how
//! values are converted.

use std::fmt::Write as _;

use super::{BridgeLine, ParsedLine};
use crate::exit::CommandResult;

/// The environment, as far as it is text.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A program whose command line we understand.
#[derive(Debug)]
pub(crate) struct ForeignTool {
    /// How it is called.
    pub(crate) name: &'static str,
    /// Where it comes from.
    pub(super) origin: &'static str,
    pub(super) usage: &'static str,
    pub(super) rows: &'static [FlagRow],
    /// `--two-words` is `--twoWords`, lists end at the next flag, and flags that it
    /// does not know it leaves alone.
    pub(super) yargs: bool,
    /// Flags are also read from variables that begin so.
    pub(super) variables: Option<&'static str>,
    /// What all of it together asks for.
    pub(super) arrange: fn(&ParsedLine, Lookup<'_>) -> CommandResult<BridgeLine>,
}

/// One flag.
#[derive(Debug)]
pub(super) struct FlagRow {
    pub(super) flag: &'static str,
    pub(super) alias: Option<&'static str>,
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

/// Turns the values of a flag into our terms; or says why they make no sense.
pub(super) type Conversion = fn(&[String]) -> Result<Vec<String>, String>;

/// What a flag of theirs means to us.
#[derive(Clone, Copy, Debug)]
pub(super) enum Means {
    /// The same as a flag of ours, with the same value.
    Ours(&'static str),
    /// A flag of ours, with its value turned into our terms.
    Converted(&'static str, Conversion),
    /// This word of ours, where it is on.
    Word(&'static str),
    /// Something that other flags have a say in; in words.
    Combined(&'static str),
    /// The flag changes nothing, because this always holds.
    NoEffect(&'static str),
    /// Ignored with a warning; why.
    Ignored(&'static str),
    /// We will not start with it; why.
    Refused(&'static str),
}

/// A flag that is a switch.
pub(super) const fn switch(flag: &'static str, help: &'static str) -> FlagRow {
    FlagRow::new(flag, Takes::Nothing, help)
}

/// A flag with one value.
pub(super) const fn one(flag: &'static str, help: &'static str) -> FlagRow {
    FlagRow::new(flag, Takes::One, help)
}

/// A flag with a name and a value.
pub(super) const fn two(flag: &'static str, help: &'static str) -> FlagRow {
    FlagRow::new(flag, Takes::Two, help)
}

/// A flag with any number of values.
pub(super) const fn any(flag: &'static str, help: &'static str) -> FlagRow {
    FlagRow::new(flag, Takes::Any, help)
}

impl FlagRow {
    pub(super) const fn new(flag: &'static str, takes: Takes, help: &'static str) -> Self {
        let (needs, means) = (Needs::Nothing, Means::Combined(""));
        Self { flag, alias: None, takes, needs, means, help }
    }

    pub(super) const fn alias(self, alias: &'static str) -> Self {
        Self { alias: Some(alias), ..self }
    }

    pub(super) const fn means(self, means: Means) -> Self {
        Self { means, ..self }
    }

    /// What it means where it makes sense.
    pub(super) const fn means_for(self, needs: Needs, means: Means) -> Self {
        Self { needs, means, ..self }
    }

    fn is(&self, flag: &str) -> bool {
        self.flag == flag || self.alias == Some(flag)
    }
}

impl ForeignTool {
    /// The row of a flag, and whether it is spelt as its opposite.
    pub(super) fn find(&self, flag: &str) -> Option<(&'static FlagRow, bool)> {
        if let Some(row) = self.spelt(flag) {
            return Some((row, false));
        }
        let opposite = format!("--{}", flag.strip_prefix("--no-")?);
        let row = self.spelt(&opposite).filter(|row| row.takes == Takes::Nothing)?;
        Some((row, true))
    }

    /// The row of a flag.
    pub(super) fn row(&self, flag: &str) -> Option<&'static FlagRow> {
        self.find(flag).map(|(row, _)| row)
    }

    fn spelt(&self, flag: &str) -> Option<&'static FlagRow> {
        let found = self.rows.iter().find(|row| row.is(flag));
        found.or_else(|| {
            let camel = self.yargs.then(|| camel_case(flag))?;
            self.rows.iter().find(|row| row.is(&camel))
        })
    }
}

/// `--two-words` as `--twoWords`.
fn camel_case(flag: &str) -> String {
    let mut words = flag.trim_start_matches('-').split('-');
    let first = words.next().unwrap_or_default();
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect::<String>()
    };
    format!("--{first}{}", words.map(capital).collect::<String>())
}

/// `--twoWords` as `TWO_WORDS`.
pub(super) fn screaming(flag: &str) -> String {
    let letters = flag.trim_start_matches('-').chars();
    let part = |c: char| c.is_uppercase().then_some('_').into_iter().chain(c.to_uppercase());
    letters.flat_map(part).collect()
}

/// How wide the column of flags is.
const FLAG_COLUMN: usize = 34;

pub(super) fn help_text(tool: &ForeignTool) -> String {
    let mut text = format!(
        "switchboard as a replacement for {} ({})\n\nUsage: {}\n\nFlags:\n",
        tool.name, tool.origin, tool.usage
    );
    for row in tool.rows {
        let value = match row.takes {
            Takes::Nothing => "",
            Takes::One => " VALUE",
            Takes::Maybe => " [VALUE]",
            Takes::Two => " NAME VALUE",
            Takes::Any => " [VALUE]...",
        };
        let alias = row.alias.map(|alias| format!(", {alias}")).unwrap_or_default();
        let flag = format!("{}{alias}{value}", row.flag);
        let meaning = match row.means {
            Means::Ours(flag) | Means::Converted(flag, _) | Means::Word(flag) => {
                format!("= bridge {flag}")
            }
            Means::Combined(words) => format!("= {words}"),
            Means::NoEffect(why) => format!("no effect: {why}"),
            Means::Ignored(why) => format!("ignored: {why}"),
            Means::Refused(why) => format!("refused: {why}"),
        };
        let (gap, pad) = (if flag.len() < FLAG_COLUMN { "" } else { "\n" }, FLAG_COLUMN + 2);
        // Writing to a string does not fail.
        _ = writeln!(text, "  {flag:FLAG_COLUMN$}{gap}{}\n{:pad$}{meaning}", row.help, "");
    }
    text.push_str("\nThe flags of switchboard bridge work too; see switchboard bridge --help.\n");
    text
}

/// Our longest waits, in seconds.
pub(super) const HOUR: u64 = 3600;
pub(super) const DAY: u64 = 86_400;
pub(super) const YEAR: u64 = 31_536_000;

/// Units of time, and how many of them are a second.
pub(super) const MILLIS: (&str, f64) = ("milliseconds", 1000.0);
pub(super) const SECONDS: (&str, f64) = ("seconds", 1.0);

/// A time as whole seconds, at most the longest that we wait; `zero` is what none at all
/// means, if it means something.
pub(super) fn seconds(
    (unit, in_a_second): (&str, f64),
    zero: Option<u64>,
    most: u64,
    values: &[String],
) -> Result<Vec<String>, String> {
    let value = values.last().and_then(|value| value.parse::<f64>().ok());
    let seconds = value.map(|value| (value / in_a_second).ceil());
    let seconds = seconds.filter(|seconds| (0.0..=1e15).contains(seconds)).and_then(|seconds| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        let seconds = seconds as u64;
        if seconds == 0 { zero } else { Some(seconds.min(most)) }
    });
    Ok(vec![seconds.ok_or_else(|| format!("not a number of {unit}"))?.to_string()])
}

/// Bytes of a message; zero means without a limit, and ours cannot be tiny.
pub(super) fn bytes(values: &[String]) -> Result<Vec<String>, String> {
    let value = values.last().map(String::as_str).unwrap_or_default();
    let bytes: u64 = value.parse().map_err(|_| "not a number of bytes".to_owned())?;
    let most = u64::from(u32::MAX);
    Ok(vec![if bytes == 0 { most } else { bytes.clamp(1024, most) }.to_string()])
}

/// Origins; none listed means all.
pub(super) const ORIGINS: Means = Means::Converted("--allow-origin", |values| {
    Ok(if values.is_empty() { vec!["*".to_owned()] } else { values.to_vec() })
});

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

    fn given(value: &str) -> Vec<String> {
        vec![value.to_owned()]
    }

    #[test]
    fn milliseconds_become_whole_seconds() {
        let millis = |zero, value| seconds(MILLIS, zero, 99, &given(value));
        assert_eq!(millis(Some(1), "60000"), Ok(given("60")));
        assert_eq!(millis(Some(1), "1"), Ok(given("1")));
        assert_eq!(millis(Some(1), "0"), Ok(given("1")));
        assert_eq!(millis(Some(1), "1500.5"), Ok(given("2")));
        assert_eq!(millis(Some(1), "150000"), Ok(given("99")));
        assert_eq!(millis(Some(9), "0"), Ok(given("9")));
        assert_eq!(millis(None, "0"), Err("not a number of milliseconds".to_owned()));
        assert!(millis(Some(1), "soon").is_err() && millis(Some(1), "-1001").is_err());
        assert_eq!(seconds(SECONDS, None, 99, &given("1.5")), Ok(given("2")));
        let error = "not a number of seconds".to_owned();
        assert_eq!(seconds(SECONDS, None, 99, &given("NaN")), Err(error));
    }

    #[test]
    fn no_limit_is_our_largest() {
        assert_eq!(bytes(&given("0")), Ok(given("4294967295")));
        assert_eq!(bytes(&given("10")), Ok(given("1024")));
        assert_eq!(bytes(&given("10485760")), Ok(given("10485760")));
        assert!(bytes(&given("10mb")).is_err());
    }

    #[test]
    fn a_shell_is_only_asked_where_words_will_not_do() {
        assert!(!wants_shell("npx -y 'some server' --flag=1 /a/b"));
        assert!(wants_shell("cd /tmp && ./server") && wants_shell("server $HOME"));
    }
}
