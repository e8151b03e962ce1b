//! One file of the store: read as a whole, replaced as a whole, and what is said when that fails.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::{MOST_CONTENT, MOST_NAME, StoreError};
use crate::platform::{is_only_ours, private_file, sync_folder};
use crate::private_folder::gone;

pub(super) use crate::private_folder::UNFINISHED;

/// Bytes of a sealed record: its first line, nonce and tag take less than 128.
const MOST_SEALED: usize = MOST_CONTENT + MOST_NAME + 128;

/// Reads a file; none if there is no such file.
pub(super) fn read_bounded(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(unreadable(path))?,
    };
    if !is_only_ours(&file.metadata().map_err(unreadable(path))?) {
        return Err(StoreError::Exposed { path: path.to_owned(), mode: "600" });
    }
    let mut whole = Vec::new();
    // One byte more than a record can have does not open.
    let most = u64::try_from(MOST_SEALED).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut whole).map_err(unreadable(path))?;
    Ok(Some(whole))
}

/// Replaces a file as a whole. Only one process does that at a time.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{UNFINISHED}"));
    let unfinished = PathBuf::from(name);
    // Left by a process that was killed.
    gone(fs::remove_file(&unfinished)).map_err(unwritten(&unfinished))?;
    let write = || {
        let mut file = private_file().create_new(true).write(true).open(&unfinished)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        path.parent().map_or(Ok(()), sync_folder)
    };
    write().map_err(|error| {
        // On a full disk it takes room.
        _ = fs::remove_file(&unfinished);
        unwritten(path)(error)
    })
}

/// The error for what could not be read.
pub(super) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    |source| StoreError::Io { path, source }
}

/// The error for what could not be written.
pub(super) fn unwritten(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { path },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::ReadOnly { path, source }
        }
        _ => StoreError::Io { path, source },
    }
}
