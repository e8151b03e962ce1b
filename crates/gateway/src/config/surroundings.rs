//! What the variables in a file stand for.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The world around a file: handed in, so that nobody below reads it.
#[derive(Clone, Default)]
pub struct Surroundings {
    variables: HashMap<String, String>,
    folder: PathBuf,
    is_literal: bool,
}

impl Surroundings {
    /// The environment, and the folder that somebody works in.
    pub fn new(
        variables: impl IntoIterator<Item = (String, String)>,
        folder: impl Into<PathBuf>,
    ) -> Self {
        let variables = variables.into_iter().collect();
        Self { variables, folder: folder.into(), is_literal: false }
    }

    /// The same, but files are read without filling in their variables: for
    /// comparing and copying what they say.
    #[must_use]
    pub(crate) fn literal(&self) -> Self {
        Self { is_literal: true, ..self.clone() }
    }

    /// Whether variables stay what they are.
    pub(super) fn is_literal(&self) -> bool {
        self.is_literal
    }

    /// A variable of the environment.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The folder that somebody works in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the user's own files are.
    pub fn home(&self) -> Option<PathBuf> {
        let home = self.variable("HOME").or_else(|| self.variable("USERPROFILE"));
        home.filter(|home| !home.is_empty()).map(PathBuf::from)
    }
}

impl fmt::Debug for Surroundings {
    /// Leaves out the variables: some are tokens.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Surroundings")
            .field("variables", &self.variables.len())
            .field("folder", &self.folder)
            .field("is_literal", &self.is_literal)
            .finish()
    }
}
