//! Which URIs a template of a server may stand for.
//!
//! Coarser than the server's own reading: a variable stands for anything. What
//! matters here is only whom to ask, and the server decides.

/// The literal parts of a template, between its variables.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    text: String,
    literals: Vec<String>,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        let mut literals = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            literals.push(before.to_owned());
            rest = behind.split_once('}').map_or("", |(_, after)| after);
        }
        literals.push(rest.to_owned());
        Self { text: text.to_owned(), literals }
    }

    /// The template as it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// How much of it is said.
    pub(super) fn literal(&self) -> usize {
        self.literals.iter().map(String::len).sum()
    }

    /// Whether the literal parts are there, in their order.
    pub(crate) fn fits(&self, uri: &str) -> bool {
        let [first, middle @ .., last] = self.literals.as_slice() else {
            return self.text == uri;
        };
        let Some(mut rest) = uri.strip_prefix(first.as_str()) else { return false };
        for literal in middle {
            // The earliest place leaves the most for the parts that follow.
            match rest.find(literal.as_str()) {
                Some(at) => rest = &rest[at + literal.len()..],
                None => return false,
            }
        }
        rest.ends_with(last.as_str())
    }
}
