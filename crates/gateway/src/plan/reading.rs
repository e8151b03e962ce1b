//! Reads files into a plan, with all that is wrong with them at once.

use std::path::{Path, PathBuf};

use super::Plan;
use crate::config::{Config, Problem, ReadError, Surroundings, Weight};

/// A plan, and what is wrong with its files.
#[derive(Debug, Default)]
pub struct Reading {
    /// What the readable part of the files means.
    pub plan: Plan,
    /// Mistakes and notes, in the order of the files.
    pub problems: Vec<Problem>,
    /// Files that cannot be used at all.
    pub unread: Vec<ReadError>,
    /// Other files that have a part in the meaning of these.
    pub besides: Vec<PathBuf>,
}

impl Reading {
    /// Reads files, the first of which counts most. Every file is read, whatever
    /// is wrong with those before it: people want to know all of it.
    pub fn of<P: AsRef<Path>>(files: &[P], around: &Surroundings) -> Self {
        let (mut read, mut unread) = (Vec::new(), Vec::new());
        for file in files {
            match Config::read(file.as_ref(), around) {
                Ok(config) => read.push(config),
                Err(error) => unread.push(error),
            }
        }
        let (plan, problems) = Plan::build(&read);
        let besides = read.into_iter().flat_map(|config| config.besides).collect();
        Self { plan, problems, unread, besides }
    }

    /// What must be changed before the files are taken as they are.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.weight == Weight::Error)
    }

    /// Whether there is nothing to change: what `serve --check` asks. Notes are no mistakes.
    pub fn is_sound(&self) -> bool {
        self.unread.is_empty() && self.errors().next().is_none()
    }

    /// All that is wrong or worth a note, a line each: the place, the fact, and
    /// what to write instead.
    pub fn lines(&self) -> Vec<String> {
        let unread = self.unread.iter().map(ReadError::line);
        let told = self.problems.iter().map(|problem| match problem.weight {
            Weight::Error => format!("{problem}; {}", problem.instead),
            Weight::Note => format!("{problem} (a note); {}", problem.instead),
        });
        unread.chain(told).collect()
    }
}
