//! Lists of earlier times, on disk.
//!
//! A file for each server, named after a digest of what leads to it and who we are to it:
//! command, arguments and variables, or URL, headers, certificates and account. So another
//! token is another entry (CACHE-3), and nothing secret is written, for a digest does not give
//! it away. What a server offers is private to the user: `0600` in a folder of
//! `0700`, and a folder that others own or may write to is not used.
//!
//! A writer holds the lock of the folder, writes beside the entry and
//! renames. So a reader needs no lock and sees an entry whole or not at all.
//! The cache is a convenience: what cannot be read is not there, and what
//! cannot be written is not kept.
//!
//! An entry is a line with a version and a digest, then JSON:
//!
//! ```text
//!   switchboard-definitions 1 <SHA-256 of what follows, in hex>
//!   {"tools":[...],"prompts":[...],"resources":[...],"resourceTemplates":[...]}
//! ```
//!
//! Definitions stand in it as they came, byte for byte. An entry with another
//! version, or one that does not fit its digest, is not read.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::SystemTime;

use bytes::Bytes;

use super::state::{Definitions, ListKind};
use crate::client::elements;
use crate::platform::private_file;
use crate::private_folder::{PrivateFolder, UNFINISHED, gone};
use crate::secret::{IdentityDigest, hex_digest};
use crate::upstream::ServerTarget;

/// A folder with lists of earlier times. Several processes may share it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cache {
    folder: PrivateFolder,
    /// How much it may keep.
    pub bounds: Bounds,
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

impl Cache {
    /// A cache in `folder`, which is made when it is first needed.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: PrivateFolder::at(folder), bounds: Bounds::default() }
    }

    /// What is known of a server. Blocks.
    pub(super) fn load(&self, key: &str) -> Option<Definitions> {
        match self.folder.read(&format!("{key}.{ENTRY}"), self.bounds.entry) {
            Ok(text) => parse(&text?.into()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!("the folder of the cache is not used: {error}");
                None
            }
            Err(_) => None,
        }
    }

    /// Keeps what is known of a server, and lets go of the oldest if that is too
    /// much. Blocks.
    pub(super) fn store(&self, key: &str, definitions: &Definitions) -> io::Result<()> {
        let _lock = self.folder.lock()?;
        let text = print(definitions);
        let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if size > self.bounds.entry.min(self.bounds.total) || self.bounds.entries == 0 {
            return gone(fs::remove_file(self.entry(key)));
        }
        let unfinished = self.folder.path().join(format!("{key}.{UNFINISHED}"));
        // Left by a process that was killed: a writer has the lock, and we have it.
        gone(fs::remove_file(&unfinished))?;
        let mut file = private_file().create_new(true).write(true).open(&unfinished)?;
        file.write_all(&text)?;
        fs::rename(&unfinished, self.entry(key))?;
        self.evict(key)
    }

    fn entry(&self, key: &str) -> PathBuf {
        self.folder.path().join(format!("{key}.{ENTRY}"))
    }

    /// Removes the oldest entries until the rest is within bounds; never that of `newest`.
    fn evict(&self, newest: &str) -> io::Result<()> {
        let newest = self.entry(newest);
        let mut entries = Vec::new();
        for file in fs::read_dir(self.folder.path())?.flatten() {
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

/// A digest of all that leads to a server and decides who we are to it.
pub(super) fn cache_key(server: &ServerTarget) -> String {
    let mut digest = IdentityDigest::new();
    server.digest_place(&mut digest);
    server.digest_identity(&mut digest);
    digest.finish()
}

/// What an entry begins with, up to its digest. The number is that of the format.
const MARK: &str = "switchboard-definitions 1 ";

fn print(definitions: &Definitions) -> Vec<u8> {
    let lists = ListKind::ALL.map(|kind| {
        let name = format!("\"{}\":[", kind.member().key());
        [name.as_bytes(), &definitions[kind as usize].join(&b','), b"]"].concat()
    });
    let body = [b"{", &*lists.join(&b','), b"}"].concat();
    let head = format!("{MARK}{}\n", hex_digest(&body));
    [head.as_bytes(), &body].concat()
}

fn parse(text: &Bytes) -> Option<Definitions> {
    let end = text.iter().position(|&byte| byte == b'\n')?;
    let (head, body) = (&text[..end], text.slice(end + 1..));
    let said = head.strip_prefix(MARK.as_bytes())?;
    if said != hex_digest(&body).as_bytes() {
        return None;
    }
    let mut definitions = Definitions::default();
    for kind in ListKind::ALL {
        definitions[kind as usize] = elements(&body, kind.member().key())?;
    }
    Some(definitions)
}

#[cfg(test)]
mod tests;
