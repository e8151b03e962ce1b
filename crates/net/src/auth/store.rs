//! Where credentials are kept: registrations, tokens, sign-ins under way, and the
//! state of an authorization server of ours.
//!
//! A [`RecordStore`] has records by kind and name. Anybody may read a record; only the
//! holder of its [`RecordLock`] may change it. So a process that renews a token does it
//! in one piece, and never overwrites what another process has renewed:
//!
//! ```text
//!   lock, read again; if the token is another one: use it
//!                     else: renew, write; unlock
//! ```
//!
//! [`FileStore`] keeps records in files that several processes share, sealed by a
//! [`StoreKey`]. [`MemoryStore`] keeps them as long as the process lives. What a record
//! contains is for its reader to know: here it is bytes, and they are secret.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};

use switchboard_proto::Table;
use tokio::sync::OwnedMutexGuard;
use zeroize::Zeroizing;

use crate::connection::lock;

mod disk;
mod files;
mod key;
mod record;
#[cfg(test)]
mod tests;

pub use files::{FileStore, StoreOptions};
pub use key::{KeyRing, KeySource, StoreKey};

/// Bytes of a record's content: the longest tokens have 16 KiB, and a record has two or three.
pub const MOST_CONTENT: usize = 64 << 10;

/// Bytes of a record's name: some URLs, and the name of an account.
pub const MOST_NAME: usize = 8 << 10;

/// Records of one kind that are listed, and records that a [`MemoryStore`] keeps.
pub const MOST_RECORDS: usize = 10_000;

/// What a record is about.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RecordKind {
    /// A client of an authorization server of ours.
    Client,
    /// The keys of an authorization server of ours.
    Facade,
    /// Since when the user of an account is gone.
    Gone,
    /// What a person has allowed such a client.
    Grant,
    /// A sign-in that waits for its answer.
    Pending,
    /// Who we are to an authorization server.
    Registration,
    /// Tokens for a server, and how to renew them.
    Tokens,
}

impl RecordKind {
    /// The word for it in names of files, which never changes.
    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Facade => "facade",
            Self::Gone => "gone",
            Self::Grant => "grant",
            Self::Pending => "pending",
            Self::Registration => "registration",
            Self::Tokens => "tokens",
        }
    }
}

/// What tells one record from all others.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RecordId {
    /// What it is about.
    pub kind: RecordKind,
    /// Whose it is: whatever its writer finds it by. At most [`MOST_NAME`] bytes.
    pub name: String,
}

impl RecordId {
    /// What names the file of the record: it does not give the name away to those who
    /// cannot guess it.
    pub fn digest(&self) -> String {
        record::digest(self.kind.word(), &self.name)
    }

    /// Whether the record is small enough to be kept.
    fn check_size(&self, content: &[u8]) -> Result<(), StoreError> {
        for (length, most) in [(self.name.len(), MOST_NAME), (content.len(), MOST_CONTENT)] {
            if length > most {
                return Err(StoreError::TooLarge { length, most });
            }
        }
        Ok(())
    }
}

/// The content of a record. It is overwritten when it is dropped.
pub type Plaintext = Zeroizing<Vec<u8>>;

/// What a store does takes a while.
pub type Pending<'s, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 's>>;

/// Where records are kept.
pub trait RecordStore: fmt::Debug + Send + Sync {
    /// The content of a record; none if there is no such record, or if it was damaged.
    fn read<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Option<Plaintext>>;

    /// Waits until nobody else has the lock of the record, in this process or another,
    /// and takes it. Whether the record exists makes no difference.
    fn lock<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Box<dyn RecordLock>>;

    /// Takes the lock of the record; none if somebody has it.
    fn try_lock<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Option<Box<dyn RecordLock>>>;

    /// The names of the records of one kind, in order. At most [`MOST_RECORDS`].
    fn list(&self, kind: RecordKind) -> Pending<'_, Vec<String>>;
}

/// The right to change one record, until it is dropped or the process dies.
///
/// A change that was begun is finished, also if its future is dropped: the lock is kept
/// until then.
pub trait RecordLock: fmt::Debug + Send + Sync {
    /// The content of the record; none if there is no such record, or if it was damaged.
    fn read(&self) -> Pending<'_, Option<Plaintext>>;

    /// Replaces the content, at most [`MOST_CONTENT`] bytes. A process that is killed
    /// meanwhile leaves the old content or the new.
    fn write<'s>(&'s mut self, content: &'s [u8]) -> Pending<'s, ()>;

    /// Removes the record, if it is there.
    fn remove(&mut self) -> Pending<'_, ()>;
}

/// Why a store cannot do what it is asked for. The texts name files: they are for the
/// user of this machine, and not for peers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Others may read or change what must be private.
    #[error(
        "{} is not private: others may read it, or it belongs to another user; \
         make it yours and run `chmod {mode} {}`", path.display(), path.display()
    )]
    Exposed {
        /// The folder or file.
        path: PathBuf,
        /// The mode that it should have.
        mode: &'static str,
    },
    /// The disk, or the user's part of it, has no room.
    #[error("cannot write {}: the disk is full; make room and try again", path.display())]
    Full {
        /// What was written.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// What was read or written.
        path: PathBuf,
        /// Its words.
        source: io::Error,
    },
    /// A key that is no key.
    #[error(
        "{from} is not a key for the store: it takes 32 bytes in base64 or hex, \
         as `openssl rand -base64 32` prints them"
    )]
    BadKey {
        /// Where it was found.
        from: String,
    },
    /// The key is in the keyring of the system, and the keyring does not answer.
    #[error(
        "the key for {} is in the system's keyring, which cannot be reached ({source}); \
         unlock it, or set SWITCHBOARD_STORE_KEY", path.display()
    )]
    KeyRing {
        /// The folder of the store.
        path: PathBuf,
        /// What the keyring says.
        source: io::Error,
    },
    /// The environment does not say where the user's files are.
    #[error("there is no folder for the store: set HOME or SWITCHBOARD_STATE_DIR, or name one")]
    NoFolder,
    /// The system has no randomness.
    #[error("the system has no random numbers: {0}")]
    NoRandomness(#[from] getrandom::Error),
    /// A record of another version of this program.
    #[error(
        "{} has version {version} of the format, and this program knows version {}; \
         use the version of the program that wrote it, or remove the file and sign in again",
        path.display(), record::VERSION
    )]
    OtherVersion {
        /// The record.
        path: PathBuf,
        /// The version that it has.
        version: String,
    },
    /// The folder, or the disk that it is on, cannot be written to.
    #[error("cannot write {}: {source}; the store needs a folder that it may write to", path.display())]
    ReadOnly {
        /// What was written.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// The process ends.
    #[error("the store is not used any more: the process ends")]
    Stopped,
    /// The content or the name is too long.
    #[error("a record of {length} bytes is too large: {most} are allowed")]
    TooLarge {
        /// Bytes of the content or the name.
        length: usize,
        /// Bytes that are allowed.
        most: usize,
    },
    /// The store is full.
    #[error("the store has {MOST_RECORDS} records, and takes no more")]
    TooMany,
    /// A record that was sealed with another key.
    #[error(
        "{} was sealed with the key {theirs}, and the store was opened with the key {ours}; \
         use the other key, or remove the file and sign in again", path.display()
    )]
    WrongKey {
        /// The record.
        path: PathBuf,
        /// A digest of the key that it was sealed with.
        theirs: String,
        /// A digest of the key that we have.
        ours: String,
    },
}

/// The locks of one process, by the names of what they lock.
#[derive(Debug, Default)]
struct LocalLocks(Mutex<Table<String, Weak<tokio::sync::Mutex<()>>>>);

impl LocalLocks {
    fn find(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = lock(&self.0);
        if let Some(found) = locks.get(name).and_then(Weak::upgrade) {
            return found;
        }
        // As many stay as are held or waited for.
        locks.retain(|_, lock| lock.strong_count() > 0);
        let made = Arc::default();
        locks.insert(name.to_owned(), Arc::downgrade(&made));
        made
    }
}

/// Records in memory.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<MemoryRecords>);

#[derive(Default)]
struct MemoryRecords {
    records: Mutex<Table<RecordId, Plaintext>>,
    locks: LocalLocks,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn locked(&self, record: &RecordId, guard: OwnedMutexGuard<()>) -> Box<dyn RecordLock> {
        let (store, record) = (self.clone(), record.clone());
        Box::new(MemoryLock { store, record, _guard: guard })
    }

    fn lock_of(&self, record: &RecordId) -> Arc<tokio::sync::Mutex<()>> {
        self.0.locks.find(&record.digest())
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryStore({} records)", lock(&self.0.records).len())
    }
}

impl RecordStore for MemoryStore {
    fn read<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Option<Plaintext>> {
        let found = lock(&self.0.records).get(record).cloned();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn lock<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Box<dyn RecordLock>> {
        Box::pin(async { Ok(self.locked(record, self.lock_of(record).lock_owned().await)) })
    }

    fn try_lock<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Option<Box<dyn RecordLock>>> {
        let guard = self.lock_of(record).try_lock_owned().ok();
        Box::pin(std::future::ready(Ok(guard.map(|guard| self.locked(record, guard)))))
    }

    fn list(&self, kind: RecordKind) -> Pending<'_, Vec<String>> {
        let records = lock(&self.0.records);
        let names = records.keys().filter(|id| id.kind == kind).map(|id| id.name.clone());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        Box::pin(std::future::ready(Ok(names)))
    }
}

struct MemoryLock {
    store: MemoryStore,
    record: RecordId,
    _guard: OwnedMutexGuard<()>,
}

impl fmt::Debug for MemoryLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryLock").field(&self.record).finish()
    }
}

impl RecordLock for MemoryLock {
    fn read(&self) -> Pending<'_, Option<Plaintext>> {
        self.store.read(&self.record)
    }

    fn write<'s>(&'s mut self, content: &'s [u8]) -> Pending<'s, ()> {
        let written = self.record.check_size(content).and_then(|()| {
            let mut records = lock(&self.store.0.records);
            if records.len() >= MOST_RECORDS && !records.contains_key(&self.record) {
                return Err(StoreError::TooMany);
            }
            records.insert(self.record.clone(), Zeroizing::new(content.to_vec()));
            Ok(())
        });
        Box::pin(std::future::ready(written))
    }

    fn remove(&mut self) -> Pending<'_, ()> {
        lock(&self.store.0.records).remove(&self.record);
        Box::pin(std::future::ready(Ok(())))
    }
}
