//! Records of the facade in the store: reading and writing one, and what is known of all.

use std::sync::Mutex;

use serde::Serialize;
use serde::de::DeserializeOwned;
use switchboard_net::auth::store::{Plaintext, RecordId, RecordKind, RecordLock};
use switchboard_proto::Table;

use super::grant::hash;
use super::state::FacadeError;
use crate::lock;

pub(super) fn id(kind: RecordKind, name: &str) -> RecordId {
    RecordId { kind, name: name.to_owned() }
}

pub(super) fn parse<T: DeserializeOwned>(
    content: Option<Plaintext>,
) -> Result<Option<T>, FacadeError> {
    Ok(content.map(|content| serde_json::from_slice(&content)).transpose()?)
}

/// A record, if there is one that can be read. One that cannot stops nothing else.
pub(super) fn look_at<T>(found: Result<Option<T>, FacadeError>, name: &str) -> Option<T> {
    found.unwrap_or_else(|failed| {
        // The name of a grant is a secret.
        let name = hash(name);
        tracing::warn!(record = &name[..8], "a record of the facade is left alone: {failed}");
        None
    })
}

pub(super) async fn save(
    lock: &mut dyn RecordLock,
    record: &impl Serialize,
) -> Result<(), FacadeError> {
    let content = Plaintext::new(serde_json::to_vec(record)?);
    Ok(lock.write(&content).await?)
}

/// What is known of a record without reading it.
#[derive(Clone, Default)]
pub(super) struct RecordEntry {
    /// The hash of the person's name, of grants.
    pub(super) subject: String,
    /// When the record was made or used last.
    pub(super) at: u64,
    /// Whether nobody has got tokens by it.
    pub(super) is_unused: bool,
    /// Whether it is kept only because tokens of it may still be good.
    pub(super) is_ended: bool,
}

/// The records of one kind, at most as many as may be there.
#[derive(Default)]
pub(super) struct RecordIndex(Mutex<Table<String, RecordEntry>>);

impl RecordIndex {
    /// Takes a place, if one is free.
    pub(super) fn add(&self, name: &str, entry: &RecordEntry, most: usize) -> bool {
        let mut entries = lock(&self.0);
        let is_free = entries.len() < most;
        if is_free {
            entries.insert(name.to_owned(), entry.clone());
        }
        is_free
    }

    /// What is found in the store has its place. The store has a bound of its own.
    pub(super) fn note(&self, name: &str, entry: &RecordEntry) {
        lock(&self.0).insert(name.to_owned(), entry.clone());
    }

    pub(super) fn forget(&self, name: &str) {
        lock(&self.0).remove(name);
    }

    pub(super) fn names(&self, is_wanted: impl Fn(&RecordEntry) -> bool) -> Vec<String> {
        let entries = lock(&self.0);
        entries.iter().filter(|(_, it)| is_wanted(it)).map(|(name, _)| name.clone()).collect()
    }

    /// The oldest of these, and how many they are.
    pub(super) fn oldest(
        &self,
        is_wanted: impl Fn(&RecordEntry) -> bool,
    ) -> Option<(String, usize)> {
        let entries = lock(&self.0);
        let wanted = || entries.iter().filter(|(_, it)| is_wanted(it));
        let (name, _) = wanted().min_by_key(|(_, it)| it.at)?;
        Some((name.clone(), wanted().count()))
    }
}
