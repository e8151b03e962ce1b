//! Lists of earlier times, on disk.
//!
//! A file for each server, named after a digest of what leads to it: command,
//! arguments and variables, or URL and headers. So another token is another
//! entry (CACHE-3), and nothing secret is written, for a digest does not give
//! it away. What a server offers is private to the user: `0600` in a folder of
//! `0700`, and a folder that others own or may write to is not used.
//!
//! Whoever writes holds the lock of the folder, writes beside the entry and
//! renames. So a reader needs no lock and sees an entry whole or not at all.
//! The cache is a convenience: what cannot be read is not there, and what
//! cannot be written is not kept.

mod format;
mod key;

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::definition::Definitions;
use crate::platform::{is_private, make_private_folder, private_file};

pub(super) use key::Key;

/// A folder with lists of earlier times. Several processes may share it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cache {
    folder: PathBuf,
    bounds: Bounds,
}

/// How much a cache may keep. When it is full, the oldest entries go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// Bytes for one server; more is not kept.
    pub entry: u64,
    /// Bytes in all.
    pub total: u64,
    /// Servers in all.
    pub entries: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        // The largest lists in use have a few hundred tools of a few KiB.
        Self { entry: 4 << 20, total: 64 << 20, entries: 256 }
    }
}

/// What entries are called, after their key.
const ENTRY: &str = "definitions";

/// What an entry is called while it is written.
const UNFINISHED: &str = "unfinished";

/// Held by whoever writes.
const LOCK: &str = "lock";

/// How long to wait for another who writes. Writing takes milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(2);

impl Cache {
    /// A cache in `folder`, which is made when it is first needed.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), bounds: Bounds::default() }
    }

    /// The same with other bounds.
    #[must_use]
    pub fn bounded(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// What is known of a server. Blocks.
    pub(super) fn load(&self, key: &Key) -> Option<Definitions> {
        if !is_private(&self.folder).ok()? {
            tracing::warn!("the folder of the cache is not used: others may write to it");
            return None;
        }
        let file = File::open(self.entry(key)).ok()?;
        let mut text = Vec::new();
        file.take(self.bounds.entry + 1).read_to_end(&mut text).ok()?;
        if u64::try_from(text.len()).ok()? > self.bounds.entry {
            return None;
        }
        format::parse(&text.into())
    }

    /// Keeps what is known of a server, and lets go of the oldest if that is too
    /// much. Blocks.
    pub(super) fn store(&self, key: &Key, definitions: &Definitions) -> io::Result<()> {
        make_private_folder(&self.folder)?;
        if !is_private(&self.folder)? {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "others may write there"));
        }
        let _lock = self.lock()?;
        let text = format::print(definitions);
        let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if size > self.bounds.entry.min(self.bounds.total) || self.bounds.entries == 0 {
            return gone(fs::remove_file(self.entry(key)));
        }
        let unfinished = self.folder.join(format!("{key}.{UNFINISHED}"));
        // Left by somebody who was killed: whoever writes has the lock, and we have it.
        gone(fs::remove_file(&unfinished))?;
        let mut file = private_file().create_new(true).write(true).open(&unfinished)?;
        file.write_all(&text)?;
        fs::rename(&unfinished, self.entry(key))?;
        self.evict(key)
    }

    fn entry(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{key}.{ENTRY}"))
    }

    /// Waits for its turn to write.
    fn lock(&self) -> io::Result<File> {
        let path = self.folder.join(LOCK);
        let file = private_file().create(true).truncate(false).write(true).open(path)?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_WAIT => {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    /// Removes the oldest entries until the rest is within bounds; never that of `newest`.
    fn evict(&self, newest: &Key) -> io::Result<()> {
        let newest = self.entry(newest);
        let mut entries = Vec::new();
        for file in fs::read_dir(&self.folder)?.flatten() {
            let path = file.path();
            let Ok(about) = file.metadata() else { continue };
            if path.extension().is_some_and(|end| end == UNFINISHED) {
                gone(fs::remove_file(path))?;
            } else if path.extension().is_some_and(|end| end == ENTRY) {
                let written = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                entries.push((path != newest, written, about.len(), path));
            }
        }
        // The newest first, then the others from the oldest on.
        entries.sort();
        let mut left = entries.len();
        let mut bytes: u64 = entries.iter().map(|(_, _, size, _)| size).sum();
        for (_, _, size, path) in entries.into_iter().skip(1) {
            if left <= self.bounds.entries && bytes <= self.bounds.total {
                break;
            }
            gone(fs::remove_file(path))?;
            left -= 1;
            bytes -= size;
        }
        Ok(())
    }
}

/// What is not there need not be removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests;
