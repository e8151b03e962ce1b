//! A server that we start ourselves and speak to through its stdin and stdout.
//!
//! Knows processes, not protocol: it hands out two byte streams, drains
//! stderr, tells when and how the process ended, and sees to it that nothing
//! of it is left behind. Does not frame, does not restart.
//!
//! ```text
//!            stdin closed        TERM              KILL
//!   Running ──────────────▶ … ──────────▶ … ─────────────▶ …
//!      │       grace.close     grace.term
//!      │ the direct child exits, at any of these times
//!      ▼
//!   Exited      told to everybody; the rest of the group gets TERM, then KILL
//!      │
//!      ▼
//!   Over        everything is reaped
//! ```
//!
//! A child is a whole process group: `npx` starts a shell that starts the
//! server, and ending the first alone leaks the last. The group also ends when
//! we end, by whatever means; `platform` and decision 0004 say how. Where the
//! process runs a container, that ends too; `container` says how.

mod command;
mod container;
mod stderr;

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use self::command::{Command, ParseError, SpawnError, StderrListener};
pub use switchboard_proto::failure::{Exit, Status};

use self::command::path_of;
use self::container::Container;
pub(crate) use self::stderr::HiddenWords;
use self::stderr::Tail;
use crate::platform::{self, ChildGroup, Cleanup, EmptyGroup};

/// A running server process, with everything it has started.
///
/// Dropping it kills the whole group at once; [`stop`](Self::stop) is the
/// polite way.
#[derive(Debug)]
pub struct Child {
    /// The server's stdin; whoever takes it must drop it before `stop` can be
    /// polite.
    pub stdin: Option<ChildStdin>,
    /// The server's stdout, which carries nothing but messages.
    pub stdout: Option<ChildStdout>,
    group: Arc<ChildGroup>,
    exit: ExitWatch,
    /// It runs a container, whose removal takes its time.
    contained: bool,
    hidden: Arc<HiddenWords>,
}

/// How long a child may take over each step of its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grace {
    /// Between the end of its stdin and SIGTERM.
    pub close: Duration,
    /// Between SIGTERM and SIGKILL.
    pub term: Duration,
}

/// Tells, to any number of listeners, that a child has exited.
#[derive(Clone, Debug)]
pub struct ExitWatch {
    life: watch::Receiver<Life>,
    tail: Arc<Tail>,
}

#[derive(Debug, Default)]
struct Life {
    exit: Option<Exit>,
    /// The rest of the group has ended too.
    is_over: bool,
}

impl Default for Grace {
    /// What the official SDKs give their children, so that servers are used to it.
    fn default() -> Self {
        Self { close: Duration::from_secs(2), term: Duration::from_secs(2) }
    }
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
        let slot = ChildSlot::take(most_children())
            .map_err(|most| SpawnError::TooMany { program: self.program.clone(), most })?;
        let container = Container::of(self, parent);
        let (args, environment, cleanup) = match &container {
            Some(ran) => (ran.args(), ran.environment.clone(), ran.cleanup()),
            None => (self.args.clone(), self.environment(parent), Cleanup::default()),
        };
        let group = EmptyGroup::new(path_of(parent), cleanup)
            .map_err(|source| SpawnError::NoGuard { program: self.program.clone(), source })?;
        let mut process = std::process::Command::new(&self.program);
        process
            .args(args)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(cwd) = &self.cwd {
            process.current_dir(cwd);
        }
        let group = group
            .start(&mut process)
            .map_err(|error| self.explain(error, path_of(&environment)))?;
        let refused = |source| SpawnError::Refused { program: self.program.clone(), source };
        let (stdin, stdout, errors) = streams(&group).map_err(refused)?;

        let (tail, hidden) = (Arc::new(Tail::default()), HiddenWords::new(&self.secrets));
        let group = Arc::new(group);
        let (life, watched) = watch::channel(Life::default());
        let child = Child {
            stdin: Some(stdin),
            stdout: Some(stdout),
            group: Arc::clone(&group),
            exit: ExitWatch { life: watched, tail: Arc::clone(&tail) },
            contained: container.is_some(),
            hidden: Arc::clone(&hidden),
        };
        let drain = tokio::spawn(stderr::drain(
            errors,
            (self.name.clone(), self.listener.clone()),
            Arc::clone(&hidden),
            Arc::clone(&tail),
        ));
        tokio::spawn(supervise(Supervised { group, container, tail, life, _slot: slot }, drain));
        Ok(child)
    }
}

/// The streams of a child that was just started, for this runtime.
fn streams(group: &ChildGroup) -> io::Result<(ChildStdin, ChildStdout, ChildStderr)> {
    let (Some(stdin), Some(stdout), Some(errors)) = group.streams() else {
        return Err(io::Error::other("the child has no pipes"));
    };
    let (stdin, stdout) = (ChildStdin::from_std(stdin)?, ChildStdout::from_std(stdout)?);
    Ok((stdin, stdout, ChildStderr::from_std(errors)?))
}

impl Child {
    /// The id of the process that we started (not of its group).
    pub fn id(&self) -> u32 {
        self.group.child_id()
    }

    /// The last lines of stderr, made harmless for a terminal, oldest first.
    pub fn stderr_tail(&self) -> Vec<String> {
        self.exit.tail.lines()
    }

    /// What the log does not show of what it says.
    pub(crate) fn hidden(&self) -> &Arc<HiddenWords> {
        &self.hidden
    }

    /// A listener that outlives this handle.
    pub fn exit_watch(&self) -> ExitWatch {
        self.exit.clone()
    }

    /// Waits until the direct child has exited, by itself or by our doing.
    pub async fn wait(&self) -> Exit {
        self.exit_watch().wait().await
    }

    /// Ends the child and its group: end of stdin, SIGTERM, SIGKILL, each only
    /// if the one before did not help.
    ///
    /// A `stdin` that was taken must have been dropped by then. Dropping the
    /// returned future kills at once.
    pub async fn stop(mut self, grace: Grace) -> Exit {
        drop(self.stdin.take());
        if !self.is_over_within(grace.close).await {
            self.group.terminate();
            if !self.is_over_within(grace.term).await {
                self.group.kill();
                self.is_over_within(if self.contained { REMOVAL } else { UNKILLABLE }).await;
            }
        }
        self.exit.now().unwrap_or_else(|| Exit::unseen(self.stderr_tail()))
    }

    async fn is_over_within(&mut self, patience: Duration) -> bool {
        let over = self.exit.life.wait_for(|life| life.is_over);
        timeout(patience, over).await.is_ok()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The supervising task reaps what this kills.
        self.group.kill();
    }
}

impl ExitWatch {
    /// Waits until the child has exited. The group may still be ending.
    pub async fn wait(&mut self) -> Exit {
        let exited = self.life.wait_for(|life| life.exit.is_some()).await;
        let exit = exited.ok().and_then(|life| life.exit.clone());
        exit.unwrap_or_else(|| Exit::unseen(self.tail.lines()))
    }

    /// How the child ended, if it has.
    pub fn now(&self) -> Option<Exit> {
        self.life.borrow().exit.clone()
    }
}

/// One process on its way to its end.
struct Supervised {
    group: Arc<ChildGroup>,
    container: Option<Container>,
    tail: Arc<Tail>,
    life: watch::Sender<Life>,
    /// Free again when everything of it is over.
    _slot: ChildSlot,
}

/// Follows one process to its end, then ends the rest of its group, and the
/// container that it ran.
async fn supervise(it: Supervised, drain: JoinHandle<()>) {
    if let Some(container) = it.container.clone() {
        tokio::spawn(container.remove_stale());
    }
    let status = it.group.exited().await;
    let drain_stop = drain.abort_handle();
    // Only an aborted drain gives an error, and nobody else aborts it.
    _ = timeout(LAST_WORDS, drain).await;
    let last_words = it.tail.lines();
    let reason = it.container.as_ref().and_then(|ran| ran.explain(status, &last_words));
    let exit = Some(Exit { status, reason, last_words });
    it.life.send_modify(|life| life.exit = exit);
    if let Some(container) = &it.container {
        container.remove().await;
    }
    it.group.end(Grace::default().term).await;
    drain_stop.abort();
    it.life.send_modify(|life| life.is_over = true);
}

/// How long an exit waits for the rest of stderr. What the process itself wrote
/// is in the pipe already; only a grandchild that keeps the pipe open makes us
/// wait this long.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How long SIGKILL may take. A process of another user (`sudo server`), or one
/// stuck in the kernel, must not hang our own shutdown.
const UNKILLABLE: Duration = Duration::from_secs(2);

/// How long a container may take to be removed: as long as an engine that is
/// asked to stop one would give it.
const REMOVAL: Duration = Duration::from_secs(10);

/// Descriptors that a child takes: three pipes, one by which its end is noticed, and
/// as many again while it is started.
const DESCRIPTORS: u64 = 8;

/// Children of this process, those of every server and client.
static CHILDREN: AtomicUsize = AtomicUsize::new(0);

/// How many children the limit on open files permits: they take one half, as clients
/// have the other.
pub(crate) fn most_children() -> usize {
    let limit = platform::open_files_limit().unwrap_or(u64::MAX);
    usize::try_from(limit / 2 / DESCRIPTORS).unwrap_or(usize::MAX).max(1)
}

/// Counts one child. Free again when all of it is over.
#[derive(Debug)]
struct ChildSlot(());

impl ChildSlot {
    /// One more child, if fewer than `most` run.
    fn take(most: usize) -> Result<Self, usize> {
        let one_more = |running| (running < most).then_some(running + 1);
        let taken = CHILDREN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.map(|_| Self(())).map_err(|_| most)
    }
}

impl Drop for ChildSlot {
    fn drop(&mut self) {
        CHILDREN.fetch_sub(1, Ordering::Relaxed);
    }
}
