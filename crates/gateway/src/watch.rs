//! Hears when files change, and says what they mean then.
//!
//! The folders are watched rather than the files, for most editors put a new
//! file in the place of the old one, and containers turn a link to another folder.
//! Whatever happens in them, the files are read again once it is quiet; only
//! another meaning is told. So a comment is no change, and another value in an
//! `envFile` is one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::config::Surroundings;
use crate::plan::{Plan, Reading};

mod identity;
#[cfg(test)]
mod tests;

pub use identity::{IdentityFileError, IdentityWatch};

/// Silence that ends a change: editors write in several steps.
const QUIET: Duration = Duration::from_millis(200);
/// How long we wait for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Folders that are watched; what is in others is noticed with the next change.
const MOST_FOLDERS: usize = 64;

/// Files, and what they meant when they were last read.
pub struct Watch {
    files: Vec<PathBuf>,
    /// Files that they name.
    besides: Vec<PathBuf>,
    around: Arc<Surroundings>,
    plan: Plan,
    /// What was wrong with them.
    told: Vec<String>,
    folders: FolderWatch,
}

/// Asks for the files to be read again, from anywhere: for SIGHUP.
#[derive(Debug, Default)]
pub struct Reload {
    /// Something happened near the files.
    events: Notify,
    /// Somebody wants it now.
    now: AtomicBool,
}

impl Reload {
    /// Reads the files again now, and tells what is wrong with them even if that
    /// was told before.
    pub fn now(&self) {
        self.now.store(true, Ordering::Release);
        self.events.notify_one();
    }
}

/// Why changes of files are not heard of.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch {}", folder.display())]
pub struct WatchError {
    /// The folder that cannot be watched.
    pub folder: PathBuf,
    source: notify::Error,
}

/// Hears when something happens where files are.
#[derive(Default)]
struct FolderWatch {
    folders: BTreeSet<PathBuf>,
    reload: Arc<Reload>,
    /// Something happened that nobody has looked at yet.
    is_due: bool,
    /// Listens until it is dropped.
    listener: Option<RecommendedWatcher>,
}

impl FolderWatch {
    /// Starts to listen in the folders of these files.
    fn listen<'f>(
        &mut self,
        files: impl Iterator<Item = &'f PathBuf> + Clone,
    ) -> Result<(), WatchError> {
        let reload = Arc::clone(&self.reload);
        let heard = move |event: notify::Result<notify::Event>| {
            // To read is no change; and what went wrong may have been one.
            if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
                reload.events.notify_one();
            }
        };
        let nowhere = |source| WatchError { folder: PathBuf::new(), source };
        self.listener = Some(notify::recommended_watcher(heard).map_err(nowhere)?);
        self.extend(files)?;
        // They may have changed since they were read.
        self.reload.events.notify_one();
        Ok(())
    }

    /// Listens in the folders of these files, too.
    fn extend<'f>(
        &mut self,
        files: impl Iterator<Item = &'f PathBuf> + Clone,
    ) -> Result<(), WatchError> {
        let Some(listener) = &mut self.listener else { return Ok(()) };
        for folder in folders(files) {
            if self.folders.len() >= MOST_FOLDERS || self.folders.contains(&folder) {
                continue;
            }
            match listener.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => _ = self.folders.insert(folder),
                Err(source) => return Err(WatchError { folder, source }),
            }
        }
        Ok(())
    }

    /// Waits until something has happened and it is quiet again, unless somebody wants it now.
    /// It is told until [`done`](Self::done).
    async fn happened(&mut self) {
        if !self.is_due {
            self.reload.events.notified().await;
            self.is_due = true;
        }
        let start = Instant::now();
        while !self.reload.now.load(Ordering::Acquire) && start.elapsed() < PATIENCE {
            if timeout(QUIET, self.reload.events.notified()).await.is_err() {
                break;
            }
        }
    }

    /// The files were looked at; whether somebody wanted that.
    fn done(&mut self) -> bool {
        self.is_due = false;
        self.reload.now.swap(false, Ordering::AcqRel)
    }
}

impl Watch {
    /// `reading` is what came of `files` in these surroundings, and was told.
    pub fn new(files: Vec<PathBuf>, around: Surroundings, reading: &Reading) -> Self {
        let (around, folders) = (Arc::new(around), FolderWatch::default());
        let (plan, told) = (reading.plan.clone(), reading.lines());
        let besides = reading.besides.clone();
        Self { files, besides, around, plan, told, folders }
    }

    /// Starts to listen. Without it, or where it fails, the files are read again
    /// when somebody asks for it.
    pub fn listen(&mut self) -> Result<(), WatchError> {
        self.folders.listen(self.files.iter().chain(&self.besides))
    }

    /// Asks for a reload, from anywhere.
    pub fn reload(&self) -> Arc<Reload> {
        Arc::clone(&self.folders.reload)
    }

    /// Waits until the files mean something else, or something else is wrong with
    /// them, or until a reload was asked for. If the reading is sound its plan is
    /// the one to follow; if not, the old one stays in force.
    ///
    /// May be dropped while it waits: what was heard is not lost.
    pub async fn changed(&mut self) -> Reading {
        loop {
            self.folders.happened().await;
            let (files, around) = (self.files.clone(), Arc::clone(&self.around));
            // Where nobody waits for the disk; none while the program ends.
            let read = tokio::task::spawn_blocking(move || Reading::read(&files, &around));
            let reading = read.await.ok();
            let asked = self.folders.done();
            let Some(reading) = reading else { continue };
            self.besides.clone_from(&reading.besides);
            if let Err(error) = self.folders.extend(self.files.iter().chain(&self.besides)) {
                // It is read all the same, whenever something else changes.
                tracing::debug!("{error}");
            }
            let told = reading.lines();
            let is_sound = reading.is_sound();
            let is_other = told != self.told || (is_sound && reading.plan != self.plan);
            self.told = told;
            if is_sound {
                self.plan.clone_from(&reading.plan);
            }
            if asked || is_other {
                return reading;
            }
        }
    }
}

/// Where the files are, and where links lead to.
fn folders<'f>(files: impl Iterator<Item = &'f PathBuf> + Clone) -> BTreeSet<PathBuf> {
    let linked = files.clone().filter_map(|file| file.canonicalize().ok());
    let all = files.cloned().chain(linked);
    let folder = |file: PathBuf| match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    all.map(folder).collect()
}
