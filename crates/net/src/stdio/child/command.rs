//! What to start: program, arguments, directory and environment.
//!
//! A command line is split into words the way a shell does it, but no shell is
//! run: quotes and backslashes work; variables, globs and pipes do not.
//!
//! The environment is handed in by the caller. A child gets the few variables
//! that programs cannot do without, so that the secrets of one server are not
//! shown to another; everything only on request.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use switchboard_proto::failure::StartProblem;

use crate::platform;

/// Why a command line is no command. Each text says what to do about it.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParseError {
    /// No word at all, or nothing but assignments.
    #[error("command line names no program; write it as in 'npx -y some-server'")]
    Empty,
    /// A quote without its partner.
    #[error(
        "quote {quote} at character {at} is never closed; close it, or write \\{quote} for the character itself"
    )]
    OpenQuote { quote: char, at: usize },
    /// The last character escapes nothing.
    #[error("command line ends in a backslash; write \\\\ for the character itself")]
    OpenEscape,
    /// A word that only a shell understands.
    #[error(
        "{word} needs a shell, and none is run; write sh -c '...' to have one, or quote the word to pass it on"
    )]
    NeedsShell { word: String },
}

/// Why a child did not start.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The working directory is missing, or is a file.
    #[error("working directory {} does not exist or is no directory", cwd.display())]
    NoDirectory { cwd: PathBuf },
    /// The shell that would end the child if we were killed did not start.
    #[error("/bin/sh, which ends {program} should we be killed, did not start")]
    NoGuard { program: String, source: io::Error },
    /// The file is there, but what its first line says shall run it is not.
    #[error("{} is there, but the interpreter named in its first line is not; install that, or run the file through one that is", file.display())]
    NoInterpreter { file: PathBuf },
    /// The program was given as a path and is not there.
    #[error("there is no file {}; check the path, and the working directory if it is relative", file.display())]
    NoSuchFile { file: PathBuf },
    /// The file may not be run by us.
    #[error("{program} may not be executed; try chmod +x, or run it through its interpreter")]
    NotExecutable { program: String },
    /// The program was given as a name and no directory of `PATH` has it.
    #[error("{program} is in no directory of PATH; install it, or give its full path")]
    NotInPath { program: String },
    /// More children would leave no descriptors for clients.
    #[error(
        "{program} did not start: {most} child processes run already, as many as the limit on open files permits; raise it (ulimit -n), or let clients share processes"
    )]
    TooMany { program: String, most: usize },
    /// The system refused for a reason of its own.
    #[error("{program} did not start")]
    Refused { program: String, source: io::Error },
}

impl SpawnError {
    /// The same in words that name no file.
    pub(crate) fn problem(&self) -> StartProblem {
        match self {
            Self::NoDirectory { .. } => StartProblem::NoDirectory,
            Self::NoInterpreter { .. } => StartProblem::NoInterpreter,
            Self::NoSuchFile { .. } | Self::NotInPath { .. } => StartProblem::NoCommand,
            Self::NotExecutable { .. } => StartProblem::NotExecutable,
            Self::NoGuard { .. } | Self::TooMany { .. } | Self::Refused { .. } => {
                StartProblem::Other
            }
        }
    }
}

/// A server to start; see [`spawn`](Self::spawn).
#[derive(Clone, Eq, PartialEq)]
pub struct Command {
    /// A name to look up in `PATH`, or a path (relative to `cwd`).
    pub program: String,
    /// The arguments, each passed as it is.
    pub args: Vec<String>,
    /// Variables for this child, stronger than inherited ones.
    pub env: Vec<(String, String)>,
    /// Where it runs; where we run, if not said.
    pub cwd: Option<PathBuf>,
    /// Whether it inherits the whole environment instead of a minimal one.
    pub pass_environment: bool,
    /// What log lines and errors call it.
    pub name: String,
    /// What the log shows by name, where the child prints it.
    pub(crate) secrets: Vec<(String, String)>,
    /// Who else hears what it says on stderr.
    pub(crate) listener: StderrListener,
}

/// Hears each line that a child says on stderr, as the log has it.
#[derive(Clone, Default)]
pub struct StderrListener(Option<Arc<HearLine>>);

type HearLine = dyn Fn(&str) + Send + Sync;

impl StderrListener {
    /// Has `hear` called for each line. It must not wait.
    pub fn new(hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    pub(crate) fn hear(&self, line: &str) {
        if let Some(hear) = &self.0 {
            hear(line);
        }
    }
}

/// Commands are compared without it.
impl PartialEq for StderrListener {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for StderrListener {}

impl Command {
    /// A program without arguments, named after its file.
    pub fn new(program: impl Into<String>) -> Self {
        let program = program.into();
        let name = Path::new(&program).file_name().unwrap_or(OsStr::new(&program));
        let name = name.to_string_lossy().into_owned();
        let (args, env, secrets) = (Vec::new(), Vec::new(), Vec::new());
        let listener = StderrListener::default();
        Self { program, args, env, cwd: None, pass_environment: false, name, secrets, listener }
    }

    /// Reads a line such as `TOKEN=x npx -y 'my server'`; leading assignments
    /// become variables of the child.
    pub fn parse(line: &str) -> Result<Self, ParseError> {
        let mut words = split_words(line)?.into_iter().peekable();
        let mut env = Vec::new();
        while let Some((name, value)) = words.peek().and_then(ShellWord::assignment) {
            env.push((name.to_owned(), value.to_owned()));
            words.next();
        }
        let mut command = Self::new(words.next().ok_or(ParseError::Empty)?.text);
        command.args = words.map(|word| word.text).collect();
        command.env = env;
        Ok(command)
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable for this child.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Has the log show this value by its name.
    #[must_use]
    pub(crate) fn hiding(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.secrets.extend((!value.is_empty()).then_some((name, value)));
        self
    }

    /// Sets the directory it runs in.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Has it inherit the whole environment.
    #[must_use]
    pub fn pass_environment(mut self) -> Self {
        self.pass_environment = true;
        self
    }

    /// Sets what log lines and errors call it.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The environment the child gets, given ours. Later entries win.
    pub(super) fn environment(&self, parent: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let is_basic = |name: &str| BASIC.contains(&name) || name.starts_with("LC_");
        let passed = parent.iter().filter(|(name, value)| {
            // Old versions of bash run what such a value says.
            let is_function = value.as_encoded_bytes().starts_with(b"()");
            self.pass_environment || (name.to_str().is_some_and(is_basic) && !is_function)
        });
        let own = self.env.iter().map(|(name, value)| (name.into(), value.into()));
        passed.cloned().chain(own).collect()
    }

    /// Finds out, without starting anything, what can be known beforehand to
    /// keep it from starting; `parent` is our environment.
    pub fn check(&self, parent: &[(OsString, OsString)]) -> Result<(), SpawnError> {
        if let Some(cwd) = self.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
            return Err(SpawnError::NoDirectory { cwd: cwd.clone() });
        }
        let environment = self.environment(parent);
        let path = path_of(&environment);
        // Without a path the system has one of its own, which only it knows.
        if path.is_none() || self.files(path).any(|file| platform::is_executable(&file)) {
            return Ok(());
        }
        let is_there = self.file(path).is_some_and(|file| file.exists());
        let missing = io::ErrorKind::NotFound;
        let kind = if is_there { io::ErrorKind::PermissionDenied } else { missing };
        Err(self.explain(kind.into(), path))
    }

    pub(super) fn explain(&self, source: io::Error, path: Option<&OsStr>) -> SpawnError {
        let program = self.program.clone();
        match source.kind() {
            io::ErrorKind::NotFound => match self.file(path) {
                Some(file) if file.exists() => SpawnError::NoInterpreter { file },
                Some(file) => SpawnError::NoSuchFile { file },
                None => SpawnError::NotInPath { program },
            },
            io::ErrorKind::PermissionDenied => SpawnError::NotExecutable { program },
            _ => SpawnError::Refused { program, source },
        }
    }

    /// The file that would be run; none if it is a name that `PATH` lacks.
    fn file(&self, path: Option<&OsStr>) -> Option<PathBuf> {
        self.files(path).find(|file| self.program.contains('/') || file.is_file())
    }

    /// Where the program is looked for, in order.
    fn files(&self, path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
        let cwd = self.cwd.as_deref().unwrap_or(Path::new(""));
        let is_path = self.program.contains('/');
        let named = path.filter(|_| !is_path).map(std::env::split_paths);
        let named = named.into_iter().flatten();
        let given = is_path.then(|| cwd.join(&self.program));
        given.into_iter().chain(named.map(move |directory| cwd.join(directory).join(&self.program)))
    }
}

impl fmt::Debug for Command {
    /// Leaves out the values of variables, and the arguments: both carry tokens.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        out.debug_struct("Command")
            .field("name", &self.name)
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &variables)
            .field("cwd", &self.cwd)
            .field("pass_environment", &self.pass_environment)
            .finish_non_exhaustive()
    }
}

/// What a program needs to find its files, its user and its language.
const BASIC: [&str; 9] =
    ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// A word, and from which byte on any of it was quoted.
#[derive(Debug, Default, Eq, PartialEq)]
struct ShellWord {
    text: String,
    quoted_from: Option<usize>,
}

impl ShellWord {
    /// Name and value, if a shell would read this word, before the program, as
    /// `NAME=value`.
    fn assignment(&self) -> Option<(&str, &str)> {
        let (name, value) = self.text.split_once('=')?;
        let mut letters = name.chars();
        let is_name =
            letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let is_bare = self.quoted_from.is_none_or(|from| from > name.len());
        (is_name && is_bare).then_some((name, value))
    }

    fn mark_quoted(&mut self) {
        self.quoted_from.get_or_insert(self.text.len());
    }
}

/// The words of `line`.
fn split_words(line: &str) -> Result<Vec<ShellWord>, ParseError> {
    let mut words = Vec::new();
    let mut word: Option<ShellWord> = None;
    let mut letters = line.chars().enumerate();
    while let Some((at, letter)) = letters.next() {
        if letter.is_ascii_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match letter {
            '\'' | '"' => {
                word.mark_quoted();
                let rest = &mut letters.by_ref().map(|(_, letter)| letter);
                let open = ParseError::OpenQuote { quote: letter, at: at + 1 };
                word.text.push_str(&read_quoted(rest, letter).ok_or(open)?);
            }
            '\\' => {
                word.mark_quoted();
                let (_, escaped) = letters.next().ok_or(ParseError::OpenEscape)?;
                word.text.push(escaped);
            }
            _ => word.text.push(letter),
        }
    }
    words.extend(word);
    let is_operator =
        |word: &&ShellWord| word.quoted_from.is_none() && OPERATORS.contains(&word.text.as_str());
    match words.iter().find(is_operator) {
        Some(word) => Err(ParseError::NeedsShell { word: word.text.clone() }),
        None => Ok(words),
    }
}

/// What stands before the closing `quote`, if there is one.
fn read_quoted(letters: &mut impl Iterator<Item = char>, quote: char) -> Option<String> {
    let mut text = String::new();
    loop {
        match letters.next()? {
            letter if letter == quote => return Some(text),
            '\\' if quote == '"' => match letters.next()? {
                // Before anything else a backslash stands for itself.
                escaped @ ('"' | '\\' | '$' | '`') => text.push(escaped),
                other => text.extend(['\\', other]),
            },
            letter => text.push(letter),
        }
    }
}

/// Words that can only be meant for a shell. A `&` or `;` inside a word is left
/// alone: URLs have them.
const OPERATORS: [&str; 12] = ["&", "&&", "&>", "2>", "2>&1", ";", "<", "<<", ">", ">>", "|", "||"];

pub(super) fn path_of(environment: &[(OsString, OsString)]) -> Option<&OsStr> {
    let path = environment.iter().rfind(|(name, _)| name == "PATH");
    path.map(|(_, value)| value.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: STD-7
    #[test]
    fn the_environment_is_minimal_unless_asked_for() {
        let parent = [
            ("PATH", "/bin"),
            ("LC_TIME", "C"),
            ("SHELL", "() { echo; }"),
            ("AWS_SECRET", "s"),
            ("LCD", "no"),
        ]
        .map(|(name, value)| (name.into(), value.into()));
        let names = |command: &Command| -> Vec<String> {
            let given = command.environment(&parent);
            given.into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
        };
        let command = Command::new("server").env("TOKEN", "t");
        assert_eq!(names(&command), ["PATH", "LC_TIME", "TOKEN"]);
        let all = ["PATH", "LC_TIME", "SHELL", "AWS_SECRET", "LCD", "TOKEN"];
        assert_eq!(names(&command.pass_environment()), all);
    }

    #[test]
    fn debug_output_keeps_tokens_to_itself() {
        let command = Command::new("/opt/server").arg("--key=secret").env("TOKEN", "secret");
        let shown = format!("{command:?}");
        assert!(shown.contains("TOKEN") && shown.contains("/opt/server"), "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
        assert_eq!(command.name, "server");
    }

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let words = split_words(line).unwrap().into_iter().map(|word| word.text);
        assert_eq!(words.collect::<Vec<_>>(), expected, "{line}");
    }

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        check("CMD a 'b c'", &["CMD", "a", "b c"]);
        check("  a\tb\n", &["a", "b"]);
        check(r#"a "b \"c\" \d" 'e\'"#, &["a", r#"b "c" \d"#, r"e\"]);
        check(r#"a\ b x"y z"'!' '' """#, &["a b", "xy z!", "", ""]);
        check("$HOME `x` *.rs http://h/?a=1&b=2", &["$HOME", "`x`", "*.rs", "http://h/?a=1&b=2"]);
    }

    #[test]
    fn what_is_no_command_says_what_to_do() {
        let error = |line| Command::parse(line).unwrap_err();
        assert_eq!(error("  "), ParseError::Empty);
        assert_eq!(error("A=1"), ParseError::Empty);
        assert_eq!(error("run it's"), ParseError::OpenQuote { quote: '\'', at: 7 });
        assert_eq!(error(r#"run "a\""#), ParseError::OpenQuote { quote: '"', at: 5 });
        assert_eq!(error(r"run \"), ParseError::OpenEscape);
        assert_eq!(error("a | b"), ParseError::NeedsShell { word: "|".to_owned() });
        assert!(error("a && b").to_string().contains("sh -c"));
        assert!(Command::parse("a '|' \\; x;y").is_ok());
    }

    #[test]
    fn leading_assignments_become_variables() {
        let command = Command::parse("A=1 _B='x y' /bin/run C=2").unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(command.env, [pair("A", "1"), pair("_B", "x y")]);
        assert_eq!((command.program.as_str(), command.args), ("/bin/run", vec!["C=2".to_owned()]));
        assert_eq!(Command::parse("'A=1' b").unwrap().program, "A=1");
        assert_eq!(Command::parse("1A=1 b").unwrap().program, "1A=1");
    }
}
