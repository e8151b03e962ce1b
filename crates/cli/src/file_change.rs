//! Changes files of the user: asks before, shows what is added, keeps the old one.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use switchboard_gateway::config::replace_file_like;

use crate::exit::{CommandResult, wrong};

/// Asks on the terminal; without one the answer is no.
pub(crate) fn ask(question: &str) -> CommandResult<bool> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let what = "nothing was written, for nobody can be asked here";
        return wrong(what, "write without asking: --yes");
    }
    // Without stderr the question cannot be shown.
    _ = write!(io::stderr().lock(), "\n{question} [y/N] ");
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// The text of a file; none if there is no file.
pub(crate) fn read(file: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Copies that are kept of a file; of more, the last one gives way.
const MOST_COPIES: usize = 9;

/// Where the file is kept as it was, the first copy first.
pub(crate) fn copies_of(file: &Path) -> impl Iterator<Item = PathBuf> {
    (1..=MOST_COPIES).map(|number| match number {
        1 => file.with_added_extension("switchboard.bak"),
        _ => file.with_added_extension(format!("switchboard.bak{number}")),
    })
}

/// Keeps the file as it is beside it, for those who may read it; gives where. What an earlier copy
/// has may be nowhere else.
pub(crate) fn keep_copy(file: &Path, text: &str) -> io::Result<PathBuf> {
    let mut last = file.to_owned();
    for copy in copies_of(file) {
        last = copy;
        if read(&last)?.is_none_or(|there| there == text) {
            break;
        }
    }
    replace_file_like(&last, text, file)?;
    Ok(last)
}

/// The lines that a text has more than another, each with a `+`, and where they begin; none if
/// that is not all that differs.
pub(crate) fn added_lines(before: &str, after: &str) -> Option<(usize, String)> {
    let more = after.len().checked_sub(before.len())?;
    let is_same = |(left, right): &(u8, u8)| left == right;
    let mut start = before.bytes().zip(after.bytes()).take_while(is_same).count();
    if before.as_bytes()[start..] != after.as_bytes()[start + more..] {
        return None;
    }
    // Where the same blanks are before and in the end of it, it begins with a line.
    let bytes = after.as_bytes();
    let is_blank = |at: usize| bytes[at].is_ascii_whitespace();
    while start > 0
        && bytes[start - 1] != b'\n'
        && is_blank(start - 1)
        && bytes[start - 1] == bytes[start + more - 1]
    {
        start -= 1;
    }
    let added = after.get(start..start + more)?;
    let text = added.trim_start_matches(',').trim_start_matches(['\r', '\n']).trim_end();
    let skipped = added.len() - added.trim_start_matches([',', '\r', '\n']).len();
    let line = after[..start + skipped].matches('\n').count() + 1;
    Some((line, marked(text)))
}

/// The lines of a text, each with a `+`.
pub(crate) fn marked(text: &str) -> String {
    text.lines().map(|line| format!("+ {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_shown_in_whole_lines_and_nothing_of_the_rest() {
        let check = |before: &str, added: &str, after: &str, line: usize, shown: &str| {
            let text = format!("{before}{added}{after}");
            let expected = Some((line, shown.to_owned()));
            assert_eq!(added_lines(&format!("{before}{after}"), &text), expected, "{text}");
        };
        check("{\n  \"a\": {}", ",\n  \"b\": {\n  }", "\n}\n", 3, "+   \"b\": {\n+   }");
        check("{\n  \"a\": {},", "\n  \"b\": {},", "\n}\n", 3, "+   \"b\": {},");
        check("a = 1\n", "\n[b]\nc = 2\n", "", 3, "+ [b]\n+ c = 2");
        check("x:\n  - a: s3cret\n", "  - b: 1\n", "y: 2\n", 3, "+   - b: 1");
        check(r#"{"a": "s3cret""#, r#", "b": 1"#, "}", 1, "+  \"b\": 1");
        assert_eq!(added_lines("a: 1\n", "a: 2\n"), None);
        assert_eq!(added_lines("a: 1\n", "a:\n"), None);
    }
}
