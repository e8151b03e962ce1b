//! A folder of the user with files that several processes may write.
//!
//! Files are `0600` in a folder of `0700`, and a folder that others own or may write to is not
//! used. A writer holds the lock of the folder, writes beside the file and renames. So a reader
//! needs no lock, and sees a file whole or not at all, whenever a writer was killed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::platform::{is_private, make_private_folder, private_file, sync_folder};

/// What a file is called while it is written.
pub(crate) const UNFINISHED: &str = "unfinished";

/// Held by the process that writes.
const LOCK: &str = "lock";

/// How long to wait for another writer. Writing takes milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// A folder that only its owner uses. Its functions block.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// A folder that is made when something is first written.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file of at most so many bytes; none if there is no such file.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(self.0.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        self.check()?;
        let mut text = Vec::new();
        file.take(most.saturating_add(1)).read_to_end(&mut text)?;
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > most {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too long"));
        }
        Ok(Some(text))
    }

    /// Makes the folder if need be, and waits for its turn to write.
    pub fn lock(&self) -> io::Result<FolderLock<'_>> {
        make_private_folder(&self.0)?;
        self.check()?;
        let path = self.0.join(LOCK);
        let file = private_file().create(true).truncate(false).write(true).open(path)?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(FolderLock { folder: self, _file: file }),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_WAIT => {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    fn check(&self) -> io::Result<()> {
        if is_private(&self.0)? {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "others may write there"))
    }
}

/// The turn to write in a folder. It ends when this is dropped.
pub struct FolderLock<'f> {
    folder: &'f PrivateFolder,
    _file: File,
}

impl FolderLock<'_> {
    /// Puts a whole file in the place of the old one.
    pub fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let unfinished = self.folder.0.join(format!("{name}.{UNFINISHED}"));
        // Left by a process that was killed: a writer has the lock, and we have it.
        gone(fs::remove_file(&unfinished))?;
        let write = || {
            let mut file = private_file().create_new(true).write(true).open(&unfinished)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&unfinished, self.folder.0.join(name))?;
            sync_folder(&self.folder.0)
        };
        // On a full disk it takes room.
        write().inspect_err(|_| _ = fs::remove_file(&unfinished))
    }
}

/// What is not there need not be removed.
pub(crate) fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn folder(name: &str) -> PrivateFolder {
        let path = std::env::temp_dir().join(format!("switchboard-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        PrivateFolder::at(path.join("inner"))
    }

    #[test]
    fn a_file_is_whole_private_and_bounded_whatever_a_killed_writer_left() {
        let folder = folder("private-folder");
        assert!(folder.read("a", 9).unwrap().is_none());
        drop(folder.lock().unwrap());
        fs::write(folder.path().join("a.unfinished"), "half").unwrap();
        folder.lock().unwrap().replace("a", b"whole").unwrap();
        assert_eq!(folder.read("a", 5).unwrap().unwrap(), b"whole");
        assert_eq!(folder.read("a", 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let mode = |name: &str| {
            fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode("a"), mode(".")), (0o600, 0o700));
        assert!(!folder.path().join("a.unfinished").exists());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(folder.read("a", 5).is_err() && folder.lock().is_err(), "others may write there");
        fs::remove_dir_all(folder.path().parent().unwrap()).unwrap();
    }
}
