//! Files of `NAME=value` lines, as `envFile` names them.

use std::io;
use std::path::Path;

/// Bytes of such a file; people write a few lines.
const MAX: u64 = 1 << 20;

/// The variables in a file, in its order.
pub(super) fn read(file: &Path) -> io::Result<Vec<(String, String)>> {
    let bytes = super::file::read(file, MAX + 1)?;
    if bytes.len() as u64 > MAX {
        return Err(io::Error::other(format!("longer than {MAX} bytes")));
    }
    String::from_utf8(bytes).map(|text| parse(&text)).map_err(io::Error::other)
}

fn parse(text: &str) -> Vec<(String, String)> {
    text.lines().filter_map(assignment).collect()
}

fn assignment(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let inner = value.strip_prefix(quote)?;
        inner.find(quote).map(|end| &inner[..end])
    });
    let bare = value.find(" #").map_or(value, |comment| value[..comment].trim_end());
    Some((name.to_owned(), quoted.unwrap_or(bare).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_assignments_comments_or_nothing() {
        let text =
            "# c\nA=1\n\nexport B = 'two words' # c\nC=\"x#y\"\nD=z # c\nE=a#b\nnonsense\n=x\n";
        let pairs = [("A", "1"), ("B", "two words"), ("C", "x#y"), ("D", "z"), ("E", "a#b")];
        assert_eq!(parse(text), pairs.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
