//! All that only one kind of system has: process groups, the guard, signals to
//! others, `/proc`, limits and the modes of files. Written for Unix, with parts that
//! only Linux shows. A port to another system is another version of this module.
//!
//! | a port needs | here |
//! |---|---|
//! | a child that ends with all it started, also if we are killed | [`EmptyGroup`], [`Group`], `guard` |
//! | the same for a helper that we wait for | [`lead_own_group`], [`kill_led_group`] |
//! | names for processes that no later process has | [`process_space`], [`process_began`] |
//! | files that only we may read, or change | [`private_file`], [`make_private_folder`], [`is_private`], [`may_others_write`], [`may_others_replace`] |
//! | files that are no files | [`open_without_waiting`], [`is_executable`], [`is_stdin_a_pipe`] |
//! | what we use, and may use | [`open_files`], [`open_files_limit`], [`raise_open_files_limit`], [`resident_memory`] |

mod group;
mod guard;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::{Pid, Resource, Rlimit, geteuid, getrlimit, setrlimit};

pub(crate) use self::group::{EmptyGroup, Group};
pub use self::group::{kill_led_group, lead_own_group};
pub(crate) use self::guard::{Cleanup, SHELL};

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

/// Whether our stdin is a pipe or a socket, whose end says that its owner is gone.
pub fn is_stdin_a_pipe() -> bool {
    let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let kind = stdin.and_then(|stdin| stdin.metadata()).map(|about| about.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
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
