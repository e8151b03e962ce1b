//! The key that the replicas of one gateway share, and what is sealed with it.
//!
//! Each use has a key of its own, derived once. An older key opens what it has sealed, so that
//! the key can be changed one replica after the other.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use switchboard_proto::cluster::ReplicaId;

use crate::seal::{KEY_LENGTH, SealingKey};

/// How old the note of a hop may be.
const FRESH: Duration = Duration::from_secs(30);

/// A key that has not 32 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the key of a cluster has 32 bytes: 64 hexadecimal digits, or 43 or 44 characters of base64"
)]
pub struct BadClusterKey;

/// What replicas know each other by.
#[derive(Debug)]
pub struct ClusterKey {
    keys: Vec<DerivedKeys>,
}

#[derive(Debug)]
struct DerivedKeys {
    notes: SealingKey,
    base: hmac::Key,
}

impl ClusterKey {
    /// The key as text, and perhaps an older one after a space or on the next line.
    pub fn parse(text: &str) -> Result<Self, BadClusterKey> {
        let keys = text.split_whitespace().map(|text| Some(DerivedKeys::new(&decode(text)?)));
        let keys = keys.collect::<Option<Vec<_>>>();
        let keys = keys.filter(|keys| matches!(keys.len(), 1 | 2)).ok_or(BadClusterKey)?;
        Ok(Self { keys })
    }

    /// The keys for another use, newest first.
    pub(crate) fn derive(&self, purpose: &str) -> impl Iterator<Item = [u8; KEY_LENGTH]> {
        self.keys.iter().map(move |keys| keys.derive(purpose))
    }

    /// Proves to the replica `to` that a request comes from one of us.
    pub(crate) fn note(&self, to: ReplicaId, about: &[u8]) -> Option<String> {
        let text = format!("{to} {}", unix_seconds());
        let sealed = self.keys.first()?.notes.seal(text.as_bytes(), about).ok()?;
        Some(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// The replica that a note is for, if one of us wrote it, about this, a moment ago.
    pub(crate) fn open_note(&self, note: &str, about: &[u8]) -> Option<ReplicaId> {
        let sealed = URL_SAFE_NO_PAD.decode(note).ok()?;
        let text = self.keys.iter().find_map(|keys| keys.notes.open(sealed.clone(), about))?;
        let text = String::from_utf8(text).ok()?;
        let (to, at) = text.split_once(' ')?;
        let age = unix_seconds().abs_diff(at.parse().ok()?);
        ReplicaId::parse(to).filter(|_| age <= FRESH.as_secs())
    }
}

impl DerivedKeys {
    fn new(key: &[u8; KEY_LENGTH]) -> Self {
        let base = hmac::Key::new(hmac::HMAC_SHA256, key);
        let notes = SealingKey::new(&derive(&base, "notes of hops"));
        Self { notes, base }
    }

    fn derive(&self, purpose: &str) -> [u8; KEY_LENGTH] {
        derive(&self.base, purpose)
    }
}

/// One block of HMAC is a key for one purpose: the key that it is derived from is random.
fn derive(base: &hmac::Key, purpose: &str) -> [u8; KEY_LENGTH] {
    let tag = hmac::sign(base, purpose.as_bytes());
    tag.as_ref().try_into().expect("a tag of SHA-256 has 32 bytes")
}

fn decode(text: &str) -> Option<[u8; KEY_LENGTH]> {
    if text.len() == 2 * KEY_LENGTH {
        let digits = text
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        return digits.collect::<Option<Vec<u8>>>()?.try_into().ok();
    }
    let text = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[test]
    fn a_note_opens_for_what_it_is_about() {
        //
        let before = ClusterKey::parse(KEY).unwrap();
        let after = ClusterKey::parse(&format!("{}\n{KEY}\n", "f".repeat(64))).unwrap();
        let note = before.note(ReplicaId(7), b"POST /mcp").unwrap();
        assert_eq!(after.open_note(&note, b"POST /mcp"), Some(ReplicaId(7)));
        assert_eq!(after.open_note(&note, b"GET /mcp"), None);
        let newer = after.note(ReplicaId(7), b"").unwrap();
        assert_eq!(before.open_note(&newer, b""), None);
        let base64 = URL_SAFE_NO_PAD.encode(decode(KEY).unwrap());
        let same = ClusterKey::parse(&base64).unwrap();
        assert_eq!(same.open_note(&note, b"POST /mcp"), Some(ReplicaId(7)));
        for bad in ["", "short", &format!("{KEY} {KEY} {KEY}")] {
            assert!(ClusterKey::parse(bad).is_err(), "{bad}");
        }
    }
}
