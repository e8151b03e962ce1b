//! Records in files that several processes share.
//!
//! | file | what |
//! |---|---|
//! | `DIGEST.KIND` | a record, sealed; the digest is that of its kind and name |
//! | `DIGEST.KIND.unfinished` | the same while it is written |
//! | `DIGEST.KIND.lock` | locked by the process that changes the record |
//! | `DIGEST.KIND.bad` | a record that did not open |
//!
//! A record is written beside its file, synced and renamed. So a reader needs no lock
//! and sees a record whole or not at all.
//!
//! The lock is the kernel's: it ends with its process, however that ends. Within a
//! process those who want it stand in line, and the first in line asks the kernel again
//! and again. A thread that waits in the kernel instead could not be cancelled, would
//! keep the runtime from its end, and enough of them would leave no thread for the write
//! that they wait for.
//!
//! The holder of a lock removes the lock's file if there is no record that it protects.
//! A process that gets the lock of a removed file notices, and locks the file that has
//! the name by then.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::task::spawn_blocking;

use super::disk::{UNFINISHED, read_bounded, replace, unreadable, unwritten};
use super::record::{RecordSeal, Unopened};
use super::{
    KeySource, LocalLocks, MOST_RECORDS, Pending, Plaintext, RecordId, RecordKind, RecordLock,
    RecordStore, StoreError,
};
use crate::platform::{is_at, is_only_ours, make_private_folder, private_file, sync_folder};
use crate::private_folder::gone;

/// How soon the kernel is asked again for a lock that another process has.
const SOONEST: Duration = Duration::from_millis(2);

/// How seldom: nobody who waits for a sign-in notices.
const SELDOM: Duration = Duration::from_millis(50);

/// Where records are kept, and what seals them.
#[derive(Debug)]
#[non_exhaustive]
pub struct StoreOptions {
    /// The folder, which is made if it is not there. Only the user may read it.
    pub dir: PathBuf,
    /// Where the key comes from.
    pub key: KeySource,
}

impl StoreOptions {
    /// Records in this folder, under this key.
    pub fn new(dir: impl Into<PathBuf>, key: KeySource) -> Self {
        Self { dir: dir.into(), key }
    }
}

/// Records in a folder.
#[derive(Clone)]
pub struct FileStore(Arc<StoreFolder>);

struct StoreFolder {
    path: PathBuf,
    seal: RecordSeal,
    locks: LocalLocks,
}

/// Where a record is.
#[derive(Clone, Debug)]
struct Slot {
    record: RecordId,
    digest: String,
    path: PathBuf,
}

impl Slot {
    fn beside(&self, ending: &str) -> PathBuf {
        self.path.with_extension(format!("{}.{ending}", self.record.kind.word()))
    }
}

impl FileStore {
    /// Opens the store in a folder, or makes it. Blocks, with a keyring perhaps until
    /// the user has unlocked it.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let StoreOptions { dir: path, key } = options;
        make_private_folder(&path).map_err(unwritten(&path))?;
        if !is_only_ours(&fs::metadata(&path).map_err(unreadable(&path))?) {
            return Err(StoreError::Exposed { path, mode: "700" });
        }
        let seal = RecordSeal::new(key.find(&path)?.bytes());
        Ok(Self(Arc::new(StoreFolder { path, seal, locks: LocalLocks::default() })))
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.0.path
    }

    /// A digest of the key that does not give it away.
    pub fn key_id(&self) -> &str {
        self.0.seal.key_id()
    }

    /// Waits for the lock of a record, or tries once.
    async fn acquire(
        &self,
        slot: Slot,
        line: OwnedMutexGuard<()>,
        waits: bool,
    ) -> Result<Option<Box<dyn RecordLock>>, StoreError> {
        let (path, mut pause, mut opened) = (slot.beside("lock"), SOONEST, None);
        loop {
            let path = path.clone();
            match blocking(move || try_kernel_lock(&path, opened)).await? {
                Ok(file) => {
                    let held = HeldLock { path: slot.beside("lock"), slot, file, _line: line };
                    let (folder, held) = (Arc::clone(&self.0), Arc::new(held));
                    return Ok(Some(Box::new(FileLock { folder, held })));
                }
                Err(_) if !waits => return Ok(None),
                Err(file) => opened = Some(file),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(SELDOM);
        }
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileStore").field(&self.0.path).finish()
    }
}

impl RecordStore for FileStore {
    fn read<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Option<Plaintext>> {
        Box::pin(async {
            let (folder, slot) = (Arc::clone(&self.0), self.0.slot(record));
            match blocking(move || folder.load(&slot)).await {
                // Another process may have replaced it: only the holder of the lock may tell.
                Ok(LoadedRecord::Damaged) => match self.try_lock(record).await? {
                    Some(lock) => lock.read().await,
                    None => Ok(None),
                },
                loaded => loaded.map(LoadedRecord::content),
            }
        })
    }

    fn lock<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Box<dyn RecordLock>> {
        Box::pin(async {
            let slot = self.0.slot(record);
            let line = self.0.locks.find(&slot.digest).lock_owned().await;
            let held = self.acquire(slot, line, true).await?;
            Ok(held.expect("it was waited for"))
        })
    }

    fn try_lock<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Option<Box<dyn RecordLock>>> {
        Box::pin(async {
            let slot = self.0.slot(record);
            match self.0.locks.find(&slot.digest).try_lock_owned() {
                Ok(line) => self.acquire(slot, line, false).await,
                Err(_) => Ok(None),
            }
        })
    }

    fn list(&self, kind: RecordKind) -> Pending<'_, Vec<String>> {
        let folder = Arc::clone(&self.0);
        Box::pin(blocking(move || folder.list(kind)))
    }
}

/// What came of reading a record.
enum LoadedRecord {
    Absent,
    Content(Plaintext),
    Damaged,
}

impl LoadedRecord {
    fn content(self) -> Option<Plaintext> {
        match self {
            Self::Content(content) => Some(content),
            Self::Absent | Self::Damaged => None,
        }
    }
}

impl StoreFolder {
    fn slot(&self, record: &RecordId) -> Slot {
        let digest = record.digest();
        let path = self.path.join(format!("{digest}.{}", record.kind.word()));
        Slot { record: record.clone(), digest, path }
    }

    fn seal(&self, record: &RecordId, content: &[u8]) -> Result<Vec<u8>, StoreError> {
        record.check_size(content)?;
        Ok(self.seal.seal(record.kind.word(), &record.name, content)?)
    }

    fn load(&self, slot: &Slot) -> Result<LoadedRecord, StoreError> {
        let Some(whole) = read_bounded(&slot.path)? else { return Ok(LoadedRecord::Absent) };
        match self.seal.open(slot.record.kind.word(), &slot.digest, &whole) {
            Ok((_, content)) => Ok(LoadedRecord::Content(content)),
            Err(Unopened::Damaged) => Ok(LoadedRecord::Damaged),
            Err(unopened) => Err(self.foreign(&slot.path, unopened)),
        }
    }

    /// The error for a record that is whole, but not for us to open.
    fn foreign(&self, path: &Path, unopened: Unopened) -> StoreError {
        let path = path.to_owned();
        match unopened {
            Unopened::OtherKey(theirs) => {
                StoreError::WrongKey { path, theirs, ours: self.seal.key_id().to_owned() }
            }
            Unopened::OtherVersion(version) => StoreError::OtherVersion { path, version },
            Unopened::Damaged => unreadable(&path)(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Reads a record whose lock is held. One that does not open is set aside.
    fn load_locked(&self, slot: &Slot) -> Result<Option<Plaintext>, StoreError> {
        let loaded = self.load(slot)?;
        if matches!(loaded, LoadedRecord::Damaged) {
            let aside = slot.beside("bad");
            fs::rename(&slot.path, &aside).map_err(unwritten(&aside))?;
            tracing::warn!("a stored record is damaged; it was set aside as {}", aside.display());
        }
        Ok(loaded.content())
    }

    /// Writes a record whose lock is held.
    fn store_locked(&self, slot: &Slot, sealed: &[u8]) -> Result<(), StoreError> {
        if let Some(whole) = read_bounded(&slot.path)?
            && let Err(unopened) = self.seal.check_head(&whole)
            && unopened != Unopened::Damaged
        {
            return Err(self.foreign(&slot.path, unopened));
        }
        replace(&slot.path, sealed)
    }

    fn list(&self, kind: RecordKind) -> Result<Vec<String>, StoreError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(unreadable(&self.path))? {
            let path = entry.map_err(unreadable(&self.path))?.path();
            if path.extension().is_none_or(|ending| ending != kind.word()) {
                continue;
            }
            let digest = path.file_stem().unwrap_or_default().to_string_lossy();
            let opened = match read_bounded(&path) {
                Ok(Some(whole)) => {
                    let opened = self.seal.open(kind.word(), &digest, &whole);
                    opened.map_err(|unopened| self.foreign(&path, unopened))
                }
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            match opened {
                Ok((name, _)) => names.push(name),
                Err(error) => tracing::warn!("a stored record is not listed: {error}"),
            }
            if names.len() == MOST_RECORDS {
                break;
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// The lock of one record, held.
struct HeldLock {
    slot: Slot,
    path: PathBuf,
    /// Closing it unlocks it.
    file: File,
    _line: OwnedMutexGuard<()>,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let protects_nothing = matches!(fs::exists(&self.slot.path), Ok(false));
        if protects_nothing && matches!(is_at(&self.file, &self.path), Ok(true)) {
            // A file too many does no harm.
            _ = fs::remove_file(&self.path);
        }
    }
}

struct FileLock {
    folder: Arc<StoreFolder>,
    /// Shared with changes that are under way: they end before the lock does.
    held: Arc<HeldLock>,
}

impl FileLock {
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StoreFolder, &Slot) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<'static, T> {
        let (folder, held) = (Arc::clone(&self.folder), Arc::clone(&self.held));
        Box::pin(blocking(move || work(&folder, &held.slot)))
    }
}

impl fmt::Debug for FileLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileLock").field(&self.held.slot.path).finish()
    }
}

impl RecordLock for FileLock {
    fn read(&self) -> Pending<'_, Option<Plaintext>> {
        self.run(StoreFolder::load_locked)
    }

    fn write<'s>(&'s mut self, content: &'s [u8]) -> Pending<'s, ()> {
        match self.folder.seal(&self.held.slot.record, content) {
            Ok(sealed) => self.run(move |folder, slot| folder.store_locked(slot, &sealed)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn remove(&mut self) -> Pending<'_, ()> {
        self.run(|folder, slot| {
            for path in [slot.beside(UNFINISHED), slot.path.clone()] {
                gone(fs::remove_file(&path)).map_err(unwritten(&path))?;
            }
            sync_folder(&folder.path).map_err(unwritten(&folder.path))
        })
    }
}

/// Takes the lock of a file, which is made if it is not there: the locked file, or the
/// one to ask for again.
fn try_kernel_lock(
    path: &Path,
    mut opened: Option<File>,
) -> Result<Result<File, File>, StoreError> {
    loop {
        let open = || private_file().create(true).truncate(false).write(true).open(path);
        let file = opened.take().map_or_else(open, Ok).map_err(unwritten(path))?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path).map_err(unreadable(path))? => return Ok(Ok(file)),
            // Its last holder has removed it.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Err(file)),
            Err(TryLockError::Error(error)) => return Err(unwritten(path)(error)),
        }
    }
}

/// Runs what waits for the disk where it may.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(StoreError::Stopped),
    }
}
