//! Tells code from strings and comments.
//!
//! Both results have the lines and columns of the input; what does not belong
//! is blank. A character literal counts as a comment: no rule asks for one.

use super::is_ident;

/// The code and the string literals of `text`.
pub(super) fn split(text: &str) -> (String, String) {
    let mut lexer = Lexer { rest: text, code: String::new(), literals: String::new() };
    while !lexer.rest.is_empty() {
        lexer.step();
    }
    (lexer.code, lexer.literals)
}

struct Lexer<'a> {
    rest: &'a str,
    code: String,
    literals: String,
}

/// What a stretch of the input is.
#[derive(Clone, Copy)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Lexer<'_> {
    fn step(&mut self) {
        let in_word = self.code.ends_with(is_ident);
        if self.rest.starts_with("//") {
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()), Kind::Comment);
        } else if self.rest.starts_with("/*") {
            self.take(block_comment(self.rest), Kind::Comment);
        } else if let Some(length) = raw_string(self.rest).filter(|_| !in_word) {
            self.take(length, Kind::Literal);
        } else if self.rest.starts_with('"') {
            self.take(quoted(self.rest), Kind::Literal);
        } else if let Some(length) = character(self.rest) {
            self.take(length, Kind::Comment);
        } else {
            let length = self.rest.chars().next().map_or(0, char::len_utf8);
            self.take(length, Kind::Code);
        }
    }

    fn take(&mut self, length: usize, kind: Kind) {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        for c in taken.chars() {
            let blank = if c == '\n' { c } else { ' ' };
            let (code, literal) = match kind {
                Kind::Code => (c, blank),
                Kind::Comment => (blank, blank),
                Kind::Literal => (blank, c),
            };
            self.code.push(code);
            self.literals.push(literal);
        }
    }
}

/// The length of the comment `text` starts with; they nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of the raw string `text` starts with, prefix and hashes included.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix("cr"));
    let after = after.or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&close).map_or(body.len(), |end| end + close.len());
    Some(text.len() - body.len() + end)
}

/// The length of the string `text` starts with, quotes included.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the character `text` starts with; none for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    if let Some(escape) = inner.strip_prefix('\\') {
        let first = escape.chars().next()?.len_utf8();
        return escape[first..].find('\'').map(|end| 2 + first + end + 1);
    }
    let c = inner.chars().next()?;
    inner[c.len_utf8()..].starts_with('\'').then_some(c.len_utf8() + 2)
}
