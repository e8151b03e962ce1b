//! Starting a child, and saying in a person's words why it did not start.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};
use tokio::process;
use tokio::sync::watch;

use super::container::Container;
use super::group::Group;
use super::stderr::{self, Tail};
use super::{Child, Command, Life, Supervised, supervise};

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

impl Command {
    /// Starts the process in a group of its own; `parent` is our environment.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn(&self, parent: &[(OsString, OsString)]) -> Result<Child, SpawnError> {
        if let Some(cwd) = self.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
            return Err(SpawnError::NoDirectory { cwd: cwd.clone() });
        }
        let place = Place::take(most_children())
            .map_err(|most| SpawnError::TooMany { program: self.program.clone(), most })?;
        let container = Container::of(self, parent);
        let environment = match &container {
            Some(container) => container.environment().to_vec(),
            None => self.environment(parent),
        };
        let args = container.as_ref().map_or_else(|| self.args.clone(), Container::args);
        let group = Group::guarded(path_of(parent), container.as_ref())
            .map_err(|source| SpawnError::NoGuard { program: self.program.clone(), source })?;
        let mut process = self
            .process(&args, &environment, &group)
            .spawn()
            .map_err(|error| self.explain(error, path_of(&environment)))?;

        let tail = Arc::new(Tail::default());
        let group = Arc::new(group);
        let (life, watched) = watch::channel(Life::Running);
        let child = Child {
            stdin: process.stdin.take(),
            stdout: process.stdout.take(),
            id: process.id().expect("a process that nobody waited for has its id"),
            group: Arc::clone(&group),
            life: watched,
            tail: Arc::clone(&tail),
            contained: container.is_some(),
        };
        let errors = process.stderr.take().expect("stderr is piped");
        let drain = tokio::spawn(stderr::drain(errors, self.name.clone(), Arc::clone(&tail)));
        tokio::spawn(supervise(
            Supervised { process, group, container, tail, life, _place: place },
            drain,
        ));
        Ok(child)
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
        if path.is_none() || self.files(path).any(|file| is_executable(&file)) {
            return Ok(());
        }
        let program = self.program.clone();
        match self.file(path) {
            None => Err(SpawnError::NotInPath { program }),
            Some(file) if !file.exists() => Err(SpawnError::NoSuchFile { file }),
            Some(_) => Err(SpawnError::NotExecutable { program }),
        }
    }

    fn process(
        &self,
        args: &[String],
        environment: &[(OsString, OsString)],
        group: &Group,
    ) -> process::Command {
        let mut process = process::Command::new(&self.program);
        process
            .args(args)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(group.id())
            .kill_on_drop(true);
        if let Some(cwd) = &self.cwd {
            process.current_dir(cwd);
        }
        process
    }

    fn explain(&self, source: io::Error, path: Option<&OsStr>) -> SpawnError {
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

/// Descriptors that a child takes: three pipes, the pipe of its guard, one by which
/// the end of each of the two is noticed, and two more while it is started.
const DESCRIPTORS: u64 = 8;

/// Children of this process, those of every server and client.
static CHILDREN: AtomicUsize = AtomicUsize::new(0);

/// How many children the limit on open files permits: they take one half, as clients
/// have the other.
pub(crate) fn most_children() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 2 / DESCRIPTORS).unwrap_or(usize::MAX).max(1)
}

/// The place of one child, free again when all of it is over.
#[derive(Debug)]
pub(super) struct Place(());

impl Place {
    /// A place among so many, if there is one.
    fn take(most: usize) -> Result<Self, usize> {
        let one_more = |running| (running < most).then_some(running + 1);
        let taken = CHILDREN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.map(|_| Self(())).map_err(|_| most)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        CHILDREN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the file is one that somebody may run.
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    let kind = file.metadata();
    kind.is_ok_and(|kind| kind.is_file() && kind.permissions().mode() & 0o111 != 0)
}

fn path_of(environment: &[(OsString, OsString)]) -> Option<&OsStr> {
    let path = environment.iter().rfind(|(name, _)| name == "PATH");
    path.map(|(_, value)| value.as_os_str())
}
