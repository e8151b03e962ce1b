//! The guard: one small `sh` that ends our process groups if we cannot.
//!
//! The guard holds the list of groups, which it is told through a socket whose other
//! end only we hold, close-on-exec. That end closes when we die, even by SIGKILL.
//! Then the guard ends every group in its list: TERM, after two seconds KILL.
//!
//! The guard starts with the first group and ends with the last one. If somebody
//! kills it, a thread that waits for its end starts another with the same list.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::pid;
use crate::connection::lock;

/// Every Unix has one here; `PATH` does not decide who guards.
pub(crate) const SHELL: &str = "/bin/sh";

/// Where the guard finds `sleep` if our environment has no `PATH`.
const USUAL_PATH: &str = "/usr/bin:/bin";

/// How long the guard may leave its socket full before another replaces it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause before a guard is started again that has lived for less than this.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

static GUARD: Mutex<GuardState> =
    Mutex::new(GuardState { process: None, groups: BTreeMap::new(), path: None });

/// The guard process, and what it has to know.
struct GuardState {
    /// Runs while there are groups.
    process: Option<GuardProcess>,
    /// One entry for each child, so the bound on children bounds the list.
    groups: BTreeMap<i32, Cleanup>,
    path: Option<OsString>,
}

struct GuardProcess {
    /// Stays ours while this value exists: only the thread in `watch` reaps.
    id: Pid,
    socket: UnixStream,
}

/// Adds a group that nobody is in yet. What is in the socket reaches the guard before
/// the end of it, so from now on the group ends with us.
pub(super) fn add(group: Pid, path: Option<&OsStr>, cleanup: Cleanup) -> io::Result<()> {
    let mut guard = lock(&GUARD);
    guard.path = path.map(ToOwned::to_owned);
    let line = add_line(group.as_raw_pid(), &cleanup);
    guard.groups.insert(group.as_raw_pid(), cleanup);
    let told = guard.tell(&line);
    if told.is_err() {
        guard.groups.remove(&group.as_raw_pid());
    }
    told
}

/// Removes a group. The caller still holds the group's id, so that the guard forgets
/// the id before the system can give it to somebody else.
pub(super) fn remove(group: Pid) {
    let mut guard = lock(&GUARD);
    if guard.groups.remove(&group.as_raw_pid()).is_none() {
        return;
    }
    if let Err(error) = guard.tell(format!("remove {}\n", group.as_raw_pid()).as_bytes()) {
        tracing::error!(%error, "no guard: servers outlive this process if it is killed");
    }
    if guard.groups.is_empty()
        && let Some(process) = guard.process.take()
    {
        // So that no process of ours is left after the last child. The thread in `watch`
        // reaps it once the lock is free.
        _ = kill_process(process.id, Signal::KILL);
        let unreaped = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(process.id), unreaped));
    }
}

impl GuardState {
    fn tell(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(process) = &mut self.process
            && process.socket.write_all(line).is_ok()
        {
            return Ok(());
        }
        self.start()
    }

    /// Starts a guard with the whole list, in the place of one that does not listen.
    fn start(&mut self) -> io::Result<()> {
        if let Some(old) = self.process.take() {
            // Before its socket closes, which would make it end all groups. It may
            // be dead already, which is as good.
            _ = kill_process(old.id, Signal::KILL);
        }
        if self.groups.is_empty() {
            return Ok(());
        }
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let mut child = Command::new(SHELL)
            .args(["-c", SCRIPT, "switchboard-guard"])
            .env_clear()
            .env("PATH", self.path.as_deref().unwrap_or(OsStr::new(USUAL_PATH)))
            // So that the guard keeps no file system busy.
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals of the terminal, and those to our own group, are not for it.
            .process_group(0)
            .spawn()?;
        let id = pid(child.id())?;
        let lines = self.groups.iter().flat_map(|(group, cleanup)| add_line(*group, cleanup));
        let told = (&ours).write_all(&lines.collect::<Vec<_>>());
        let began = Instant::now();
        let watched = told.and_then(|()| {
            // The thread outlives any runtime, as the guard does.
            let named = thread::Builder::new().name("guard".to_owned());
            named.spawn(move || watch(id, began))
        });
        if let Err(error) = watched {
            // Neither fails for a child of ours that was not waited for.
            _ = child.kill();
            _ = child.wait();
            return Err(error);
        }
        self.process = Some(GuardProcess { id, socket: ours });
        Ok(())
    }
}

/// Waits for the end of a guard, reaps it, and starts another if it was needed.
fn watch(id: Pid, began: Instant) {
    // Without reaping: whoever has the lock may signal the guard by its id.
    let ended = WaitIdOptions::EXITED;
    let unreaped = ended | WaitIdOptions::NOWAIT;
    _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(id), unreaped));
    let mut guard = lock(&GUARD);
    guard.process.take_if(|process| process.id == id);
    _ = waitid(WaitId::Pid(id), ended);
    if began.elapsed() < RESTART_PAUSE {
        drop(guard);
        thread::sleep(RESTART_PAUSE);
        guard = lock(&GUARD);
    }
    while guard.process.is_none() && !guard.groups.is_empty() {
        tracing::warn!("the guard of the child processes was killed; starting another");
        let Err(error) = guard.start() else { return };
        tracing::error!(%error, "no guard: servers outlive this process if it is killed");
        drop(guard);
        thread::sleep(RESTART_PAUSE);
        guard = lock(&GUARD);
    }
}

/// What the guard does besides signals if it ends a group: a line for its shell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cleanup {
    line: Vec<u8>,
}

impl Cleanup {
    /// Runs `script` with these words, in this environment and no other. Values do not
    /// show up in a list of processes: the shell of the guard assigns them.
    pub(crate) fn new(
        environment: &[(OsString, OsString)],
        script: &str,
        words: &[String],
    ) -> Self {
        let mut line = Vec::new();
        for (name, value) in environment {
            let Some(name) = name.to_str().filter(|name| is_assignable(name)) else { continue };
            line.extend(name.as_bytes());
            line.push(b'=');
            quote(value.as_encoded_bytes(), &mut line);
        }
        line.extend(SHELL.as_bytes());
        line.push(b' ');
        let shell_words = ["-c", script, "switchboard-cleanup"].into_iter();
        for word in shell_words.chain(words.iter().map(String::as_str)) {
            quote(word.as_bytes(), &mut line);
        }
        Self { line }
    }
}

/// Whether a shell takes `NAME=value` for it. No program looks for other names, and
/// bash exits at an assignment to one of its own.
fn is_assignable(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_name = name.chars().all(is_letter) && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name && !name.is_empty() && !READ_ONLY.contains(&name)
}

const READ_ONLY: [&str; 6] = ["BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"];

/// Writes a word as the guard's shell reads it, on one line.
fn quote(word: &[u8], line: &mut Vec<u8>) {
    line.push(b'\'');
    for &byte in word {
        match byte {
            b'\'' => line.extend(br"'\''"),
            b'\n' => line.extend(br#"'"$newline"'"#),
            _ => line.push(byte),
        }
    }
    line.extend(b"' ");
}

fn add_line(group: i32, cleanup: &Cleanup) -> Vec<u8> {
    [format!("add {group} ").as_bytes(), &cleanup.line, b"\n"].concat()
}

/// Ignores what is meant for others and reads the list. At the end of it, all groups
/// get TERM, and KILL if they are still there after two seconds.
///
/// A group that is gone leaves the list within a tenth of a second, because its id
/// may be another's later. A group with a clean-up gets KILL after that, ten seconds
/// later at most. The last line ends clean-ups that take longer, and the guard.
/// `kill` without `--`, which not every shell knows. Builtins but for `sleep`: without it there is no grace, but still an end.
const SCRIPT: &str = r#"
trap "" HUP INT QUIT TERM PIPE ALRM USR1 USR2 TSTP TTIN TTOU
newline='
'
groups=' '
while read -r verb group cleanup; do
    case $verb in
    add)
        groups="$groups$group "
        eval "cleanup_$group=\$cleanup"
        ;;
    remove)
        groups="${groups%% $group *} ${groups#* $group }"
        unset "cleanup_$group"
        ;;
    esac
done
look() {
    left=' '
    for group in $groups; do
        kill -0 "-$group" 2>/dev/null && left="$left$group "
    done
    groups=$left
}
all=$groups
for group in $all; do
    kill -TERM "-$group"
    kill -CONT "-$group"
done
look
for tenth in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ "$groups" = ' ' ] && break
    sleep 0.1
    look
done
cleanups=
for group in $all; do
    eval "cleanup=\$cleanup_$group"
    if [ -n "$cleanup" ]; then
        eval "$cleanup" >/dev/null 2>&1 &
        cleanups="$cleanups $!"
    else
        case $groups in *" $group "*) kill -KILL "-$group" ;; esac
    fi
done
for second in 1 2 3 4 5 6 7 8 9 10; do
    [ -n "$cleanups" ] || break
    sleep 1
    look
    left=
    for cleanup in $cleanups; do
        kill -0 "$cleanup" 2>/dev/null && left="$left $cleanup"
    done
    cleanups=$left
done
for group in $groups; do
    kill -KILL "-$group"
done
kill -KILL 0
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_group_outlives_the_list_and_the_others_end_with_their_cleanups() {
        let sleep = || Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let (mut removed, mut ended, mut cleaned) = (sleep(), sleep(), sleep());
        let file = std::env::temp_dir().join(format!("switchboard-cleanup-{}", removed.id()));
        let environment = [
            ("VALUE".into(), "it's\ntwo lines".into()),
            ("no.name".into(), "x".into()),
            ("UID".into(), "1".into()),
        ];
        let words = ["a b".to_owned(), file.to_str().unwrap().to_owned()];
        let cleanup = Cleanup::new(&environment, "printf %s \"$1$VALUE\" >\"$2\"", &words);
        let mut guard = Command::new(SHELL)
            .args(["-c", SCRIPT, "switchboard-guard"])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut list = guard.stdin.take().unwrap();
        for (child, cleanup) in
            [(&ended, &Cleanup::default()), (&removed, &cleanup), (&cleaned, &cleanup)]
        {
            list.write_all(&add_line(child.id().cast_signed(), cleanup)).unwrap();
        }
        writeln!(list, "remove {}", removed.id()).unwrap();
        drop(list);
        guard.wait().unwrap();
        assert!(removed.try_wait().unwrap().is_none(), "the guard has forgotten it");
        assert!(!ended.wait().unwrap().success() && !cleaned.wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "a bit's\ntwo lines");
        std::fs::remove_file(&file).unwrap();
        removed.kill().unwrap();
        removed.wait().unwrap();
    }
}
