//! The configuration files that people already have.
//!
//! ```text
//!   text ──▶ tree.rs ──▶ client_files.rs ──▶ entry.rs, key.rs, expand.rs ──▶ Entry
//!            JSON with     where the           what each key means,
//!            comments,     servers are         variables filled in
//!            TOML, YAML
//! ```
//!
//! Every client has its own dialect: `mcpServers`, `servers`, `[mcp_servers.x]` and
//! others, with their own keys. The gateway reads all of them. A mistake is reported
//! with file, line, column and what to write instead. It costs the server that it is
//! in, and no other. This module prints nothing, does not read the environment, and
//! shows no value that may be a secret.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, thread};

use switchboard_net::platform;

use expand::FileVariables;
use reader::Reader;

pub use client_entry::{GATEWAY_NAME, KEY_HERE, NewEntry, Removal, USUAL_GATEWAY};
pub use client_table::{KnownClient, known, nearby};
pub use entry::Entry;
pub use expand::{BadVariable, fill_in};
pub use gateway::{
    Anonymous, ConsoleMode, GatewayBounds, GatewaySection, Granted, Group, Listen, ToolChanges,
    ToolSearch, read_public_url,
};
pub use import::{Candidate, Import, ImportOutcome};
pub use key::nearest;
pub use oauth::{AccountOwner, AccountScope, CallbackPlan, OauthPlan};
pub use schema::schema;
pub use settings::{Edit, ServerOptions};
pub use text_edit::EditError;
pub use tls::IdentityFiles;
pub(crate) use tls::read_pem;
pub use tree::Placed;
#[cfg(feature = "console")]
pub(crate) use tree::options as json_options;
pub use whole_file::{followed, replace_file, replace_file_like};

mod client_entry;
mod client_files;
mod client_table;
mod entry;
mod expand;
mod gateway;
mod import;
mod key;
#[cfg(feature = "console")]
pub(crate) mod key_entry;
mod oauth;
mod reader;
mod schema;
mod settings;
mod text_edit;
mod tls;
mod token_access;
mod tree;
mod whole_file;

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
    pub gateway: GatewaySection,
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
    /// It is neither JSON nor TOML nor YAML.
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
    Unreadable { file: PathBuf, source: io::Error },
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

    /// Whether there is no file, or one of settings that names no servers.
    pub fn is_without_servers(&self) -> bool {
        self.is_absent() || matches!(self, Self::NoServers { .. })
    }

    /// Whether there is simply no such file.
    pub fn is_absent(&self) -> bool {
        let Self::Unreadable { source, .. } = self else { return false };
        matches!(source.kind(), ErrorKind::NotADirectory | ErrorKind::NotFound)
    }
}

impl Config {
    /// Reads a file. What its name ends with decides whether it is JSON, TOML or YAML.
    pub fn read(file: &Path, around: &Surroundings) -> Result<Self, ReadError> {
        let mut config = Self::parse(file, &text_of(file)?, around)?;
        config.problems.splice(0..0, exposed(file));
        Ok(config)
    }

    /// Reads the text of a file.
    pub fn parse(file: &Path, text: &str, around: &Surroundings) -> Result<Self, ReadError> {
        let tree = tree::parse(file, text).map_err(ReadError::Syntax)?;
        let found = client_files::server_sections(&tree, around);
        if found.is_empty() && !client_files::has_section(&tree) {
            let instead = client_files::section_hint(&tree, file);
            return Err(ReadError::NoServers { file: file.to_owned(), instead });
        }
        let mut config = Self { file: file.to_owned(), ..Self::default() };
        let inputs = tree.get("inputs");
        let variables = FileVariables { inputs, ..FileVariables::plain(around) };
        let mut reader = Reader::new(variables);
        for section in found {
            reader.variables = section.variables;
            config.add(&section, &mut reader);
        }
        reader.variables = variables;
        config.gateway = gateway::read(&tree, &mut reader);
        (config.problems, config.besides) = (reader.problems, reader.besides);
        Ok(config)
    }

    fn add(&mut self, section: &client_files::Section<'_>, reader: &mut Reader<'_>) {
        for (name, node) in section.servers(reader) {
            if self.names().any(|other| other == name.value) {
                let what = format!("server {:?} is there twice; the first one counts", name.value);
                reader.error(&name.place, what, "give each its own name");
                continue;
            }
            let before = reader.problems.len();
            match entry::read(&name, &node, reader) {
                Some(entry) => self.servers.push(entry),
                None => self.broken.push(name.value.clone()),
            }
            for problem in &mut reader.problems[before..] {
                problem.server = Some(name.value.clone());
            }
        }
    }

    /// Whether servers have mistakes, so that they are left out.
    pub(crate) fn has_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    /// The names of all servers, those with mistakes last.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|entry| &entry.plan.name).chain(&self.broken).map(String::as_str)
    }

    /// The server of that name, or what is wrong with it; none if the file does
    /// not name it.
    pub fn server(&self, name: &str) -> Option<Result<&Entry, Vec<&Problem>>> {
        if let Some(entry) = self.servers.iter().find(|entry| entry.plan.name == name) {
            return Some(Ok(entry));
        }
        let is_its = |problem: &&Problem| problem.server.as_deref() == Some(name);
        let is_broken = self.broken.iter().any(|broken| broken == name);
        is_broken.then(|| Err(self.problems.iter().filter(is_its).collect()))
    }

    /// The mistakes; what is left are notes.
    #[cfg(test)]
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Problem> {
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
    let place = SourceLocation { file: file.into(), line: 1, column: 1 };
    let why = format!("{what}, and so decide what is run and who may come in");
    let error = Problem::error(&place, why, format!("run: chmod go-w {}", path.display()));
    Some(Problem { weight: Weight::Note, ..error })
}

/// The text of a file.
fn text_of(file: &Path) -> Result<String, ReadError> {
    let unreadable = |source| ReadError::Unreadable { file: file.to_owned(), source };
    let bytes = read_file(file, MAX_FILE + 1).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(ReadError::TooLong { file: file.to_owned() });
    }
    String::from_utf8(bytes).map_err(|_| ReadError::NotText { file: file.to_owned() })
}

/// A place in a file, counted from 1, in characters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceLocation {
    /// The file, as it was named to us.
    pub file: Arc<Path>,
    /// Its line.
    pub line: usize,
    /// Where in the line.
    pub column: usize,
}

impl fmt::Display for SourceLocation {
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
    pub place: SourceLocation,
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
        place: &SourceLocation,
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
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.what)
    }
}

/// The environment of a file. The caller hands it in, so that this crate never reads it.
#[derive(Clone, Default)]
pub struct Surroundings {
    variables: HashMap<String, String>,
    folder: PathBuf,
    /// Whether variables stay what they are.
    is_literal: bool,
}

impl Surroundings {
    /// The environment variables, and the working folder.
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

    /// A variable of the environment.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// All variables of the environment.
    #[cfg(feature = "console")]
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&String, &String)> {
        self.variables.iter()
    }

    /// The working folder.
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
        out.debug_struct("Surroundings").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// How long a pipe in the place of a file may take: a shell makes one of `<(command)`.
/// Files are read at once.
const PIPE_WAIT: Duration = Duration::from_secs(10);

/// How often a pipe that has nothing to read is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The first `most` bytes of a file. A reload must not hang on a pipe without a writer.
fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = platform::open_without_waiting(path)?;
    if file.metadata()?.is_file() {
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    read_pipe(&mut file, most)
}

fn read_pipe(pipe: &mut File, most: u64) -> io::Result<Vec<u8>> {
    let begun = Instant::now();
    let (mut bytes, mut piece) = (Vec::new(), [0; 8 << 10]);
    while (bytes.len() as u64) < most {
        match pipe.read(&mut piece) {
            Ok(0) if bytes.is_empty() => {
                return Err(io::Error::other("nobody writes to this pipe"));
            }
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) if begun.elapsed() > PIPE_WAIT => {
                return Err(io::Error::new(ErrorKind::TimedOut, "the pipe does not end in time"));
            }
            Err(_) => thread::sleep(LOOK),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
