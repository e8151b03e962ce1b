//! A command line, split into words: quotes and backslashes as in a POSIX
//! shell, nothing expanded.

use std::mem;

/// Why a command line is no command. Each text says what to do about it.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParseError {
    /// No word at all, or nothing but assignments.
    #[error("command line names no program; write it as in 'npx -y some-server'")]
    Empty,
    /// A quote without its partner.
    #[error(
        "quote {quote} at character {at} is never closed; close it, or write \\{quote} for the character itself"
    )]
    OpenQuote { quote: char, at: usize },
    /// The last character escapes nothing.
    #[error("command line ends in a backslash; write \\\\ for the character itself")]
    OpenEscape,
    /// A word that only a shell understands.
    #[error(
        "{word} needs a shell, and none is run; write sh -c '...' to have one, or quote the word to pass it on"
    )]
    NeedsShell { word: String },
}

/// A word, and from which byte on any of it was quoted.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Word {
    pub(super) text: String,
    quoted_from: Option<usize>,
}

impl Word {
    /// Name and value, if a shell would read this word, before the program, as
    /// `NAME=value`.
    pub(super) fn assignment(&self) -> Option<(&str, &str)> {
        let (name, value) = self.text.split_once('=')?;
        let mut letters = name.chars();
        let is_name =
            letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let is_bare = self.quoted_from.is_none_or(|from| from > name.len());
        (is_name && is_bare).then_some((name, value))
    }

    fn is_operator(&self) -> bool {
        self.quoted_from.is_none() && OPERATORS.contains(&self.text.as_str())
    }

    fn mark_quoted(&mut self) {
        self.quoted_from.get_or_insert(self.text.len());
    }
}

/// The words of `line`.
pub(super) fn split(line: &str) -> Result<Vec<Word>, ParseError> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut letters = line.chars().enumerate();
    while let Some((at, letter)) = letters.next() {
        if letter.is_ascii_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match letter {
            '\'' | '"' => {
                word.mark_quoted();
                let rest = &mut letters.by_ref().map(|(_, letter)| letter);
                let open = ParseError::OpenQuote { quote: letter, at: at + 1 };
                word.text.push_str(&quoted(rest, letter).ok_or(open)?);
            }
            '\\' => {
                word.mark_quoted();
                let (_, escaped) = letters.next().ok_or(ParseError::OpenEscape)?;
                word.text.push(escaped);
            }
            _ => word.text.push(letter),
        }
    }
    words.extend(word);
    match words.iter_mut().find(|word| word.is_operator()) {
        Some(word) => Err(ParseError::NeedsShell { word: mem::take(&mut word.text) }),
        None => Ok(words),
    }
}

/// What stands before the closing `quote`, if there is one.
fn quoted(letters: &mut impl Iterator<Item = char>, quote: char) -> Option<String> {
    let mut text = String::new();
    loop {
        match letters.next()? {
            letter if letter == quote => return Some(text),
            '\\' if quote == '"' => match letters.next()? {
                // Before anything else a backslash stands for itself.
                escaped @ ('"' | '\\' | '$' | '`') => text.push(escaped),
                other => text.extend(['\\', other]),
            },
            letter => text.push(letter),
        }
    }
}

/// Words that can only be meant for a shell. A `&` or `;` inside a word is left
/// alone: URLs have them.
const OPERATORS: [&str; 12] = ["&", "&&", "&>", "2>", "2>&1", ";", "<", "<<", ">", ">>", "|", "||"];

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let words = split(line).unwrap().into_iter().map(|word| word.text);
        assert_eq!(words.collect::<Vec<_>>(), expected, "{line}");
    }

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        check("CMD a 'b c'", &["CMD", "a", "b c"]);
        check("  a\tb\n", &["a", "b"]);
        check(r#"a "b \"c\" \d" 'e\'"#, &["a", r#"b "c" \d"#, r"e\"]);
        check(r#"a\ b x"y z"'!' '' """#, &["a b", "xy z!", "", ""]);
        check("$HOME `x` *.rs http://h/?a=1&b=2", &["$HOME", "`x`", "*.rs", "http://h/?a=1&b=2"]);
    }

    #[test]
    fn what_is_no_command_says_what_to_do() {
        let error = |line| Command::parse(line).unwrap_err();
        assert_eq!(error("  "), ParseError::Empty);
        assert_eq!(error("A=1"), ParseError::Empty);
        assert_eq!(error("run it's"), ParseError::OpenQuote { quote: '\'', at: 7 });
        assert_eq!(error(r#"run "a\""#), ParseError::OpenQuote { quote: '"', at: 5 });
        assert_eq!(error(r"run \"), ParseError::OpenEscape);
        assert_eq!(error("a | b"), ParseError::NeedsShell { word: "|".to_owned() });
        assert!(error("a && b").to_string().contains("sh -c"));
        assert!(Command::parse("a '|' \\; x;y").is_ok());
    }

    #[test]
    fn leading_assignments_become_variables() {
        let command = Command::parse("A=1 _B='x y' /bin/run C=2").unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(command.env, [pair("A", "1"), pair("_B", "x y")]);
        assert_eq!((command.program.as_str(), command.args), ("/bin/run", vec!["C=2".to_owned()]));
        assert_eq!(Command::parse("'A=1' b").unwrap().program, "A=1");
        assert_eq!(Command::parse("1A=1 b").unwrap().program, "1A=1");
    }
}
