//! URI templates, read backwards: which values make a template this URI.
//!
//! Of RFC 6570 there is what can be read backwards without guessing: `{name}`,
//! which ends at the next slash, and `{+name}`, which may hold any.

use super::Variables;

/// A template, cut at its variables.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Part {
    Literal(String),
    Variable { name: String, slashes: bool },
}

impl Pattern {
    pub(super) fn parse(template: &str) -> Result<Self, &'static str> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((literal, after)) = rest.split_once('{') {
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            } else if let Some(Part::Variable { .. }) = parts.last() {
                return Err("two variables with nothing between them cannot be told apart");
            }
            let (expression, tail) = after.split_once('}').ok_or("a brace is not closed")?;
            let (name, slashes) = match expression.strip_prefix('+') {
                Some(name) => (name, true),
                None => (expression, false),
            };
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
            if name.is_empty() || !name.chars().all(is_name) {
                return Err("only {name} and {+name} are understood");
            }
            parts.push(Part::Variable { name: name.to_owned(), slashes });
            rest = tail;
        }
        if rest.contains('}') {
            return Err("a brace is not opened");
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// The values of the variables, if the template stands for `uri`. Each takes
    /// as little as it can; none is empty.
    pub(super) fn matches(&self, uri: &str) -> Option<Variables> {
        let mut variables = Variables::new();
        let mut rest = uri;
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            let (name, slashes) = match part {
                Part::Literal(literal) => {
                    rest = rest.strip_prefix(literal.as_str())?;
                    continue;
                }
                Part::Variable { name, slashes } => (name, *slashes),
            };
            let is_last = parts.len() == 1;
            let end = match parts.peek() {
                Some(Part::Literal(next)) if is_last => {
                    rest.len().checked_sub(next.len()).filter(|&end| rest.is_char_boundary(end))?
                }
                Some(Part::Literal(next)) => rest.find(next.as_str())?,
                _ => rest.len(),
            };
            let value = &rest[..end];
            if value.is_empty() || (!slashes && value.contains('/')) {
                return None;
            }
            variables.insert(name.clone(), decode(value));
            rest = &rest[end..];
        }
        rest.is_empty().then_some(variables)
    }
}

/// Undoes percent-encoding; what is no UTF-8 then stays as it was.
fn decode(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        // A sign would be a number's, too.
        let hex = tail.get(..2).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let hex = hex.filter(|_| first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_back_from_a_uri() {
        check("a://{id}/data", "a://12/data", "id=12");
        check("a://{id}/data", "a://data/data", "id=data");
        check("a://{id}/data", "a://1/2/data", "-");
        check("a://{id}/data", "a:///data", "-");
        check("a://{id}/data", "a://1/dat", "-");
        check("a://{+path}", "a://x/y%20z", "path=x/y z");
        check("a://{x}/{y}", "a://1/2", "x=1 y=2");
        check("a://b", "a://b", "");
        check("a://{x}", "a://é%", "x=é%");
        check("a://{x}", "a://%+1%zz", "x=%+1%zz");
        for broken in ["a://{", "a://{}", "a://}", "a://{x}{y}", "a://{?q}"] {
            assert!(Pattern::parse(broken).is_err(), "{broken}");
        }
    }

    #[track_caller]
    fn check(template: &str, uri: &str, expected: &str) {
        let seen = Pattern::parse(template).unwrap().matches(uri).map_or_else(
            || "-".to_owned(),
            |variables| {
                let pairs = variables.iter().map(|(name, value)| format!("{name}={value}"));
                pairs.collect::<Vec<_>>().join(" ")
            },
        );
        assert_eq!(seen, expected, "{template} for {uri}");
    }
}
