//! What to start: program, arguments, directory and environment.
//!
//! A command line is split into words the way a shell does it, but no shell is
//! run: quotes and backslashes work; variables, globs and pipes do not.
//!
//! The environment is handed in by the caller. A child gets the few variables
//! that programs cannot do without, so that the secrets of one server are not
//! shown to another; everything only on request.

mod words;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

pub use self::words::ParseError;

use self::words::Word;

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
}

impl Command {
    /// A program without arguments, named after its file.
    pub fn new(program: impl Into<String>) -> Self {
        let program = program.into();
        let name = Path::new(&program).file_name().unwrap_or(OsStr::new(&program));
        let name = name.to_string_lossy().into_owned();
        let (args, env) = (Vec::new(), Vec::new());
        Self { program, args, env, cwd: None, pass_environment: false, name }
    }

    /// Reads a line such as `TOKEN=x npx -y 'my server'`; leading assignments
    /// become variables of the child.
    pub fn parse(line: &str) -> Result<Self, ParseError> {
        let mut words = words::split(line)?.into_iter().peekable();
        let mut env = Vec::new();
        while let Some((name, value)) = words.peek().and_then(Word::assignment) {
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

    /// Sets the directory it runs in.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets whether it inherits the whole environment.
    #[must_use]
    pub fn pass_environment(mut self, pass: bool) -> Self {
        self.pass_environment = pass;
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
        let passed = parent.iter().filter(|(name, value)| {
            self.pass_environment || (is_basic(name) && !is_shell_function(value))
        });
        let own = self.env.iter().map(|(name, value)| (name.into(), value.into()));
        passed.cloned().chain(own).collect()
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
            .finish()
    }
}

/// What a program needs to find its files, its user and its language.
fn is_basic(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    BASIC.contains(&name) || name.starts_with("LC_")
}

/// Old versions of bash run what such a value says.
fn is_shell_function(value: &OsStr) -> bool {
    value.as_encoded_bytes().starts_with(b"()")
}

const BASIC: [&str; 9] =
    ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

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
        assert_eq!(names(&command.pass_environment(true)), all);
    }

    #[test]
    fn debug_output_keeps_tokens_to_itself() {
        let command = Command::new("/opt/server").arg("--key=secret").env("TOKEN", "secret");
        let shown = format!("{command:?}");
        assert!(shown.contains("TOKEN") && shown.contains("/opt/server"), "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
        assert_eq!(command.name, "server");
    }
}
