//! The process group of one child, and the guard that ends it if we cannot.
//!
//! The guard is a small `sh` that leads the group. It waits for the end of a
//! pipe whose other end only we hold, close-on-exec; that end comes when we
//! die, even by SIGKILL, and then the guard ends its own group: TERM, then KILL.
//!
//! The guard is there before the child is, so there is no moment at which a
//! child is unguarded. As we reap the guard last, its id, which is the id of
//! the group, cannot be given to a stranger while we may still signal it.

use std::ffi::OsStr;
use std::io;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::census::has_members;
use super::container::{Container, REMOVE};

/// A process group that ends with this value, or with us, whichever is first.
#[derive(Debug)]
pub(super) struct Group {
    id: Pid,
    hold: Mutex<Hold>,
}

#[derive(Debug)]
enum Hold {
    /// The guard lives or is a zombie, so the id is ours.
    Guarded(Child),
    /// The group is gone and its id is no longer ours.
    Over,
}

impl Group {
    /// A group with nobody in it but its guard. `path` is where the guard
    /// finds `sleep`; without it there is no grace, yet still an end. If the
    /// child runs a container, the guard removes that too.
    pub(super) fn guarded(path: Option<&OsStr>, runs: Option<&Container>) -> io::Result<Self> {
        let (words, environment) = match runs {
            Some(container) => (container.remove_words(), container.environment()),
            None => (Vec::new(), &[][..]),
        };
        let guard = Command::new(SHELL)
            .args(["-c", GUARD, "switchboard-guard", REMOVE])
            .args(words)
            .env_clear()
            .env("PATH", path.unwrap_or_else(|| OsStr::new("/usr/bin:/bin")))
            .envs(environment.iter().map(|(name, value)| (name, value)))
            // So that the guard keeps no file system busy.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = guard.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let id = id.ok_or_else(|| io::Error::other("guard has no process id"))?;
        Ok(Self { id, hold: Mutex::new(Hold::Guarded(guard)) })
    }

    /// The id to start a member with.
    pub(super) fn id(&self) -> i32 {
        self.id.as_raw_pid()
    }

    /// Asks every member to end. The guard ignores it.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
        // A stopped process (say, one that asked the terminal for a password)
        // sees SIGTERM only once it goes on.
        self.signal(Signal::CONT);
    }

    /// Sends `signal` to every member; nothing happens once the group is over.
    pub(super) fn signal(&self, signal: Signal) {
        let hold = self.hold();
        if matches!(*hold, Hold::Guarded(_)) {
            // Nobody left, or nobody we may signal: either way there is
            // nothing more that we could do.
            _ = kill_process_group(self.id, signal);
        }
    }

    /// Ends whoever is left, with TERM and after `grace` with KILL, and reaps
    /// the guard.
    pub(super) async fn sweep(&self, grace: Duration) {
        if has_members(self.id()).await {
            self.terminate();
            _ = timeout(grace, self.emptied()).await;
        }
        self.signal(Signal::KILL);
        let guard = std::mem::replace(&mut *self.hold(), Hold::Over);
        if let Hold::Guarded(mut guard) = guard {
            // It fails only if somebody else has reaped our child.
            _ = guard.wait().await;
        }
    }

    /// Waits until the guard is alone. The system has no event for this, and
    /// where it does not show its processes the grace ends the waiting.
    async fn emptied(&self) {
        let mut pause = Duration::from_millis(2);
        while has_members(self.id()).await {
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    fn hold(&self) -> MutexGuard<'_, Hold> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Every Unix has one here; `PATH` has no say in who guards.
pub(super) const SHELL: &str = "/bin/sh";

/// Ignores what is meant for the others, waits for the end of its stdin, then
/// ends its own group, itself included. Builtins but for `sleep`. A container is
/// removed in between, by a shell that leaves the guard ten seconds at most to wait.
const GUARD: &str = r#"
trap "" HUP INT QUIT TERM PIPE ALRM USR1 USR2 TSTP TTIN TTOU
while read -r line; do :; done
kill -TERM 0
kill -CONT 0
sleep 2
remove=$1
shift
if [ $# -gt 0 ]; then
    /bin/sh -c "$remove" switchboard-remove "$@" >/dev/null 2>&1 &
    for second in 1 2 3 4 5 6 7 8 9 10; do
        kill -0 $! 2>/dev/null || break
        sleep 1
    done
fi
kill -KILL 0
"#;
