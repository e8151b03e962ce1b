//! The configuration files that people already have.
//!
//! ```text
//!   text ──▶ tree.rs ──▶ shape.rs ──▶ entry.rs, key.rs, expand.rs ──▶ Entry
//!            JSON with     where the     what each key means,
//!            comments,     servers are   variables filled in
//!            TOML
//! ```
//!
//! Every client has its own dialect: `mcpServers`, `servers`, `[mcp_servers.x]`
//! and others, with their own keys. All are read, whoever the file belongs to. A
//! mistake is told with file, line, column and what to write instead; it costs
//! the server it is in, not the others. Nothing here prints, reads the
//! environment, or shows a value that may be a secret.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use switchboard_net::platform;

mod dotenv;
mod entry;
mod expand;
mod file;
mod gateway;
mod import;
mod key;
mod known;
mod problem;
mod reader;
mod schema;
mod settings;
mod shape;
mod surroundings;
#[cfg(test)]
mod tests;
mod tree;

pub use entry::{Entry, Timeouts};
pub use gateway::{
    Anonymous, Bounds, Defaults, Gateway, Granted, Group, Listen, Placed, ToolSearch,
};
pub use import::{Candidate, Fate, Import, MergeError};
pub use key::nearest;
pub use known::{Known, known};
pub use problem::{Place, Problem, Weight};
pub use schema::schema;
pub use settings::{Edit, Process, Settings, Sleep};
pub use surroundings::Surroundings;

/// Bytes that a file may have. Some clients keep their whole history in the
/// file that names their servers, so this is more than any person writes.
pub const MAX_FILE: u64 = 16 << 20;

/// What one file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Where it was read from.
    pub file: PathBuf,
    /// The servers without mistakes, in the order of the file.
    pub servers: Vec<Entry>,
    /// What it says about the gateway itself.
    pub gateway: Gateway,
    /// What is wrong or worth a note, in the order of the file.
    pub problems: Vec<Problem>,
    /// Files with variables that it names, whether they can be read or not.
    pub besides: Vec<PathBuf>,
    /// Names of servers with mistakes.
    broken: Vec<String>,
}

/// Why a file cannot be used at all.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It names no server anywhere that we know of.
    #[error("{} names no servers", file.display())]
    NoServers { file: PathBuf, instead: String },
    /// It is neither JSON nor TOML.
    #[error("{} is not UTF-8 text", file.display())]
    NotText { file: PathBuf },
    /// The text breaks off or makes no sense.
    #[error("{0}")]
    Syntax(Problem),
    /// More than [`MAX_FILE`].
    #[error("{} is longer than {MAX_FILE} bytes", file.display())]
    TooLong { file: PathBuf },
    /// The system does not let us read it.
    #[error("cannot read {}", file.display())]
    Unreadable { file: PathBuf, source: std::io::Error },
}

impl ReadError {
    /// What to do about it.
    pub fn instead(&self) -> String {
        match self {
            Self::NoServers { instead, .. } => instead.clone(),
            Self::NotText { .. } => "save it as UTF-8".to_owned(),
            Self::Syntax(problem) => problem.instead.clone(),
            Self::TooLong { .. } => "put the servers into a file of their own".to_owned(),
            Self::Unreadable { .. } => "check its path and who may read it".to_owned(),
        }
    }

    /// All of it in one line: the fact, its cause, and what to do.
    pub fn line(&self) -> String {
        match self {
            Self::Unreadable { source, .. } => format!("{self}: {source}; {}", self.instead()),
            _ => format!("{self}; {}", self.instead()),
        }
    }

    /// Whether there is simply no such file.
    pub fn is_absent(&self) -> bool {
        let Self::Unreadable { source, .. } = self else { return false };
        matches!(source.kind(), ErrorKind::NotADirectory | ErrorKind::NotFound)
    }
}

impl Config {
    /// Reads a file. What its name ends with decides whether it is TOML.
    pub fn read(file: &Path, around: &Surroundings) -> Result<Self, ReadError> {
        let mut config = Self::parse(file, &text_of(file)?, around)?;
        config.problems.splice(0..0, exposed(file));
        Ok(config)
    }

    /// Reads the text of a file.
    pub fn parse(file: &Path, text: &str, around: &Surroundings) -> Result<Self, ReadError> {
        let tree = tree::parse(file, text).map_err(ReadError::Syntax)?;
        let found = shape::servers(&tree, around);
        if found.is_empty() && !shape::has_section(&tree) {
            let instead = shape::instead(&tree, file);
            return Err(ReadError::NoServers { file: file.to_owned(), instead });
        }
        let mut config = Self { file: file.to_owned(), ..Self::default() };
        for section in found {
            config.add(&section, around);
        }
        config.gateway = gateway::read(&tree, around, &mut config.problems);
        Ok(config)
    }

    fn add(&mut self, section: &shape::Section<'_>, around: &Surroundings) {
        let mut problems = Vec::new();
        for (name, node) in section.servers(&mut problems) {
            if self.names().any(|other| other == name.text) {
                let what = format!("server {:?} is there twice; the first one counts", name.text);
                problems.push(Problem::error(&name.place, what, "give each its own name"));
                continue;
            }
            let before = problems.len();
            let read = entry::read(&name, node, section, around, &mut problems, &mut self.besides);
            for problem in &mut problems[before..] {
                problem.server = Some(name.text.clone());
            }
            match read {
                Some(entry) => self.servers.push(entry),
                None => self.broken.push(name.text.clone()),
            }
        }
        self.problems.extend(problems);
    }

    /// The names of all servers, those with mistakes last.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|entry| &entry.name).chain(&self.broken).map(String::as_str)
    }

    /// The server of that name, or what is wrong with it; none if the file does
    /// not name it.
    pub fn server(&self, name: &str) -> Option<Result<&Entry, Vec<&Problem>>> {
        if let Some(entry) = self.servers.iter().find(|entry| entry.name == name) {
            return Some(Ok(entry));
        }
        let is_its = |problem: &&Problem| problem.server.as_deref() == Some(name);
        let is_broken = self.broken.iter().any(|broken| broken == name);
        is_broken.then(|| Err(self.problems.iter().filter(is_its).collect()))
    }

    /// The mistakes; what is left are notes.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.weight == Weight::Error)
    }
}

/// A note if others may change the file, or put another in its place: it says what we
/// run, and who may come in. In a folder with the sticky bit nobody replaces another's file.
fn exposed(file: &Path) -> Option<Problem> {
    let real = file.canonicalize().ok()?;
    let folder = real.parent().filter(|folder| platform::may_others_replace(folder));
    let (path, what) = if platform::may_others_write(&real) {
        (file, "others than its owner may write this file")
    } else {
        (folder?, "others than its owner may write the folder of this file")
    };
    let place = Place { file: file.into(), line: 1, column: 1 };
    let why = format!("{what}, and so decide what is run and who may come in");
    Some(Problem::note(&place, why, format!("run: chmod go-w {}", path.display())))
}

/// The text of a file.
fn text_of(file: &Path) -> Result<String, ReadError> {
    let unreadable = |source| ReadError::Unreadable { file: file.to_owned(), source };
    let bytes = file::read(file, MAX_FILE + 1).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(ReadError::TooLong { file: file.to_owned() });
    }
    String::from_utf8(bytes).map_err(|_| ReadError::NotText { file: file.to_owned() })
}
