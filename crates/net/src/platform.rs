//! All that only one kind of system has: process groups, the guard, signals to
//! others, `/proc`, limits and the modes of files. Written for Unix, with parts that
//! only Linux shows. A port to another system is another version of this module.
//!
//! | a port needs | here |
//! |---|---|
//! | a child that ends with all it started, also if we are killed | `EmptyGroup`, `ChildGroup`, `guard` |
//! | the same for a helper that we wait for | `lead_own_group`, `kill_led_group` |
//! | names for processes that no later process has | `process_space`, `process_began` |
//! | files that only we may read, or change | `private_file`, `make_private_folder`, `is_private`, `is_only_ours`, `may_others_write`, `may_others_replace`, `give_to_owner` |
//! | files that stay, and are the same | `sync_folder`, `is_at` |
//! | files that are no files | `open_without_waiting`, `is_executable`, `is_stdin_a_pipe` |
//! | open files that children do not get | `hide_inherited_files` |
//! | the commands that open a page in a browser | `page_openers` |
//! | what we use, and may use | `open_files`, `open_files_limit`, `raise_open_files_limit`, `resident_memory` |

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, fchown,
};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitIdStatus, geteuid, getrlimit,
    kill_process_group, setrlimit, waitid,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use crate::connection::lock;
use crate::stdio::child::Status;

mod guard;

/// The first descriptor that is not one of the three standard streams.
const FIRST_INHERITED: i32 = 3;

pub(crate) use guard::{Cleanup, SHELL};

fn pid(id: u32) -> io::Result<Pid> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::other("a process has no id"))
}

/// Where process ids mean the same as here: the boot of the host, and the namespace.
pub(crate) fn process_space() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let namespace = namespace.to_string_lossy();
    let number: String = namespace.chars().filter(char::is_ascii_digit).collect();
    format!("{}.{number}", boot.trim())
}

/// When a process began, in the words of the system; none if it is no more.
pub(crate) fn process_began(id: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19).map(str::to_owned)
}

/// Gives a file to the owner of another one, if that is somebody else.
pub fn give_to_owner(file: &File, of: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    if own.uid() != of.uid() {
        return fchown(file, Some(of.uid()), Some(of.gid()));
    }
    if own.gid() != of.gid() {
        // Not everybody may give a file to a group; the owner has it all the same.
        _ = fchown(file, None, Some(of.gid()));
    }
    Ok(())
}

/// Options that make files which only their owner may read.
pub fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Makes a folder, and those above it, which only their owner may read.
pub(crate) fn make_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Whether a folder is ours and nobody else may write to it.
pub(crate) fn is_private(folder: &Path) -> io::Result<bool> {
    let about = fs::metadata(folder)?;
    Ok(about.uid() == geteuid().as_raw() && about.mode() & 0o022 == 0)
}

/// Whether nobody but us and the administrator may read or change a file or a folder.
pub(crate) fn is_only_ours(about: &Metadata) -> bool {
    (about.uid() == geteuid().as_raw() || about.uid() == 0) && about.mode() & 0o777 & !0o700 == 0
}

/// Makes the names in a folder last: what was renamed there survives a loss of power.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Whether an open file is still the one that has this name.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((open.dev(), open.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether others than the owner may write a file, or in a folder.
pub fn may_others_write(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| about.mode() & 0o022 != 0)
}

/// Whether others may replace what is in a folder. The sticky bit keeps them from it.
pub fn may_others_replace(folder: &Path) -> bool {
    let is_sticky = folder.metadata().is_ok_and(|about| about.mode() & 0o1000 != 0);
    may_others_write(folder) && !is_sticky
}

/// Opens a file to read. If it is a pipe, opening does not wait for a writer, and
/// reading does not wait for what is not there yet.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether the file is one that somebody may run.
pub(crate) fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|about| about.is_file() && about.mode() & 0o111 != 0)
}

/// Keeps the files that we were started with to ourselves: servers and their guards must not get them.
pub fn hide_inherited_files() {
    close_fds::set_fds_cloexec(FIRST_INHERITED, &[]);
}

/// Whether our stdin is a pipe or a socket, whose end says that its owner is gone.
pub fn is_stdin_a_pipe() -> bool {
    let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let kind = stdin.and_then(|stdin| stdin.metadata()).map(|about| about.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}

/// The commands that open a page in the user's browser, best first; none where there is no
/// screen. `variable` is the environment.
pub(crate) fn page_openers(
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<&'static [&'static str]> {
    if cfg!(target_os = "macos") {
        return vec![&["/usr/bin/open"]];
    }
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    let mut openers: Vec<&[&str]> = Vec::new();
    if is_set("WSL_DISTRO_NAME") {
        openers.extend([&["wslview"][..], &["rundll32.exe", "url.dll,FileProtocolHandler"]]);
    }
    if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") {
        openers.extend([&["xdg-open"][..], &["gio", "open"], &["x-www-browser"]]);
    }
    openers
}

/// How many files we may have open; none if there is no limit.
pub fn open_files_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the limit on open files to `wanted`, or as far as we may.
pub fn raise_open_files_limit(wanted: u64) -> io::Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })?;
    }
    Ok(())
}

/// Bytes of memory that our process has in use.
pub fn resident_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Files, pipes and sockets that we have open, without the one that it takes to look.
pub fn open_files() -> Option<usize> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// The process group of one child, before the child is started. The group ends with its
/// value, or with us.
///
/// Two properties, without `unsafe` and without a hook between fork and exec:
///
/// - **No child runs unguarded.** A short-lived process leads the group, so the guard
///   knows the group before the child is started in it.
/// - **No signal reaches a stranger.** The id of a group is free for others only when
///   its last member was reaped. First that is the leader, then the child: we reap the
///   child last, after the guard has forgotten the group.
#[derive(Debug)]
pub(crate) struct EmptyGroup {
    id: Pid,
    /// Has nothing to do. It keeps the id until it is reaped, also as a zombie.
    leader: Child,
    is_used: bool,
}

impl EmptyGroup {
    /// Makes a group. `path` is where the guard finds `sleep`; `cleanup` is what else
    /// the guard does if we are gone.
    pub(crate) fn new(path: Option<&OsStr>, cleanup: Cleanup) -> io::Result<Self> {
        let leader = Command::new(SHELL)
            .args(["-c", ":"])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let id = pid(leader.id())?;
        let group = Self { id, leader, is_used: false };
        guard::add(id, path, cleanup)?;
        Ok(group)
    }

    /// Starts the child in the group.
    pub(crate) fn start(mut self, command: &mut Command) -> io::Result<ChildGroup> {
        let child = command.process_group(self.id.as_raw_pid()).spawn()?;
        let child_id = pid(child.id())?;
        let group = ChildGroup { id: self.id, child_id, child: Mutex::new(Some(child)) };
        self.is_used = true;
        Ok(group)
    }
}

impl Drop for EmptyGroup {
    fn drop(&mut self) {
        if !self.is_used {
            guard::remove(self.id);
        }
        // Neither fails for a child of ours that was not waited for.
        _ = self.leader.kill();
        _ = self.leader.wait();
    }
}

/// A process group with a child in it, and with all that the child has started.
#[derive(Debug)]
pub(crate) struct ChildGroup {
    id: Pid,
    child_id: Pid,
    /// Not reaped, so the ids are ours; none once the group is over.
    child: Mutex<Option<Child>>,
}

impl ChildGroup {
    /// The streams of the child that are pipes, the first time.
    pub(crate) fn streams(&self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        let mut child = lock(&self.child);
        let child = child.as_mut();
        child.map_or((None, None, None), |it| (it.stdin.take(), it.stdout.take(), it.stderr.take()))
    }

    /// The id of the child, which does not lead the group.
    pub(crate) fn child_id(&self) -> u32 {
        self.child_id.as_raw_pid().cast_unsigned()
    }

    /// Waits until the child has exited. It is reaped by [`end`](Self::end).
    pub(crate) async fn exited(&self) -> Status {
        if readable_at_exit(self.child_id).await.is_err()
            && let Ok(mut changes) = signal(SignalKind::child())
        {
            while matches!(self.look(), Ok(None)) && changes.recv().await.is_some() {}
        }
        let status = self.look().ok().flatten();
        let code = status.as_ref().and_then(WaitIdStatus::exit_status).map(Status::Code);
        let signal = || Some(Status::Signal(status.as_ref()?.terminating_signal()?));
        code.or_else(signal).unwrap_or(Status::Unseen)
    }

    fn look(&self) -> rustix::io::Result<Option<WaitIdStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.child_id), options)
    }

    /// Asks every member to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
        // A stopped process (say, one that asked the terminal for a password)
        // sees SIGTERM only once it goes on.
        self.signal(Signal::CONT);
    }

    /// Ends every member at once.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if lock(&self.child).is_some() {
            // Nobody left, or nobody we may signal: there is nothing more to do.
            _ = kill_process_group(self.id, signal);
        }
    }

    /// Ends the members that have outlived the child, with TERM and after `grace` with
    /// KILL, and reaps the child, which has exited.
    pub(crate) async fn end(&self, grace: Duration) {
        if has_members(self.id).await {
            self.terminate();
            _ = timeout(grace, self.emptied()).await;
        }
        self.kill();
        if let Some(mut child) = self.release() {
            // It fails only if somebody else has reaped our child.
            _ = child.wait();
        }
    }

    /// Waits until no member lives. The system has no event for this, and
    /// where it does not show its processes the grace ends the waiting.
    async fn emptied(&self) {
        let mut pause = Duration::from_millis(2);
        while has_members(self.id).await {
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Has the guard forget the group. The child is to be reaped after that.
    fn release(&self) -> Option<Child> {
        let child = lock(&self.child).take();
        if child.is_some() {
            guard::remove(self.id);
        }
        child
    }
}

impl Drop for ChildGroup {
    /// Only a runtime that ends drops a group before it was ended.
    fn drop(&mut self) {
        self.kill();
        if let Some(mut child) = self.release() {
            // A process that is stuck in the kernel must not keep us here.
            let reap = move || _ = child.wait();
            _ = std::thread::Builder::new().name("reap".to_owned()).spawn(reap);
        }
    }
}

/// Completes when the process has exited, if the system can tell this one process's end.
#[cfg(target_os = "linux")]
async fn readable_at_exit(id: Pid) -> io::Result<()> {
    use rustix::process::{PidfdFlags, pidfd_open};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    let descriptor = pidfd_open(id, PidfdFlags::NONBLOCK)?;
    #[expect(deprecated, reason = "its successor is unsafe; an owned descriptor is sound in both")]
    let descriptor = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
    descriptor.readable().await.map(|_| ())
}

#[cfg(not(target_os = "linux"))]
async fn readable_at_exit(_: Pid) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Has the process lead a group of its own.
pub fn lead_own_group(command: &mut tokio::process::Command) {
    command.process_group(0);
}

/// Kills all members of the group that a process leads. It must not have been reaped.
pub fn kill_led_group(leader: u32) {
    if let Ok(leader) = pid(leader) {
        // Gone is as good as ended.
        _ = kill_process_group(leader, Signal::KILL);
    }
}

/// The groups that had members when somebody last looked.
///
/// A look at `/proc` costs a file for each process of the machine. When many groups
/// end at once, as at a shutdown, they share the looks.
static LATEST: tokio::sync::Mutex<Option<Census>> = tokio::sync::Mutex::const_new(None);

/// One look at all processes.
struct Census {
    begun: Instant,
    /// Groups with a living member; none if the system does not show its processes.
    groups: Option<HashSet<i32>>,
}

/// Whether anybody lives in the group. A system without `/proc` cannot tell; then
/// the answer is yes.
async fn has_members(group: Pid) -> bool {
    let asked = Instant::now();
    let mut latest = LATEST.lock().await;
    let mut census = latest.take().filter(|census| census.begun >= asked);
    if census.is_none() {
        let look = move || Census { begun: Instant::now(), groups: living_groups().ok() };
        census = tokio::task::spawn_blocking(look).await.ok();
    }
    let groups = census.as_ref().and_then(|census| census.groups.as_ref());
    let has_members = groups.is_none_or(|groups| groups.contains(&group.as_raw_pid()));
    *latest = census;
    has_members
}

fn living_groups() -> io::Result<HashSet<i32>> {
    let mut groups = HashSet::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        if entry.file_name().to_str().is_none_or(|name| name.parse::<i32>().is_err()) {
            continue;
        }
        // A process may end between the listing and the reading.
        let Ok(stat) = fs::read(entry.path().join("stat")) else { continue };
        groups.extend(living_group(&String::from_utf8_lossy(&stat)));
    }
    Ok(groups)
}

/// Reads `pid (name) state parent group …`; the name may hold anything. None of
/// a process that has ended.
fn living_group(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let group = fields.nth(1)?.parse().ok()?;
    (!is_dead).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_in_the_group_its_stat_names() {
        assert_eq!(living_group("7 (sh) S 1 42 42 0 -1"), Some(42));
        assert_eq!(living_group("7 (sh) S 42 1 42 0 -1"), Some(1));
        assert_eq!(living_group("7 (sh) Z 1 42 42 0 -1"), None);
        assert_eq!(living_group("7 (a) Z 1 1 (b) R 1 42 42 0 -1"), Some(42));
        assert_eq!(living_group("7 (sh"), None);
    }

    /// All of them ask before the first look is over.
    #[tokio::test]
    async fn a_group_that_was_filled_before_it_was_asked_for_is_seen() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let id = pid(child.id()).unwrap();
        let own = living_group(&fs::read_to_string("/proc/self/stat").unwrap()).unwrap();
        let own = Pid::from_raw(own).unwrap();
        let (mut asked, mut unknown) = (Vec::new(), Vec::new());
        for _ in 0..50 {
            asked.push(tokio::spawn(has_members(own)));
            unknown.push(tokio::spawn(has_members(id)));
        }
        for asked in asked {
            assert!(asked.await.unwrap());
        }
        for unknown in unknown {
            assert!(!unknown.await.unwrap(), "it is in our group");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
