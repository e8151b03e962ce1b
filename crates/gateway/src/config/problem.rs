//! What is wrong with a file, where, and what to write instead.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A place in a file, counted from 1, in characters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// The file, as it was named to us.
    pub file: Arc<Path>,
    /// Its line.
    pub line: usize,
    /// Where in the line.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// How much it matters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Weight {
    /// The server cannot be used.
    Error,
    /// It can, but perhaps not as was meant.
    Note,
}

/// One thing that is wrong. It names keys and variables, never their values.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Where it is.
    pub place: Place,
    /// The server it is about; none if it is about the file.
    pub server: Option<String>,
    /// How much it matters.
    pub weight: Weight,
    /// The fact.
    pub what: String,
    /// What to write instead.
    pub instead: String,
}

impl Problem {
    pub(crate) fn error(
        place: &Place,
        what: impl Into<String>,
        instead: impl Into<String>,
    ) -> Self {
        Self {
            place: place.clone(),
            server: None,
            weight: Weight::Error,
            what: what.into(),
            instead: instead.into(),
        }
    }

    pub(crate) fn note(place: &Place, what: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { weight: Weight::Note, ..Self::error(place, what, instead) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.what)
    }
}
