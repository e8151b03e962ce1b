//! One record as the bytes of a file.
//!
//! ```text
//!   switchboard-record 1 <8 bytes of a digest of the key, in hex>
//!   nonce, encrypted text, tag
//! ```
//!
//! The encrypted text is the length of the name in two bytes, the name, and the
//! content. The first line, the kind and a digest of the name are associated data: a
//! record that is moved to the place of another one does not open.
//!
//! Kinds are words here: a fuzz target includes this file, and no more than it needs.

use ring::hmac;
use zeroize::Zeroizing;

use crate::seal::{KEY_LENGTH, SealingKey};
use crate::secret::{hex, hex_digest};

/// What a record begins with.
const MARK: &str = "switchboard-record ";

/// The version of the format.
pub(super) const VERSION: &str = "1";

/// Digits of the digest of a key.
const ID_DIGITS: usize = 16;

/// Turns records into bytes that only the holder of the key can read, and back.
#[derive(Debug)]
pub(super) struct RecordSeal {
    key: SealingKey,
    key_id: String,
}

/// Why bytes are not a record that the key opens.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Unopened {
    /// They were damaged, or are the record of another name.
    #[error("the record is damaged")]
    Damaged,
    /// The record was sealed with another key, of which this is a digest.
    #[error("the record was sealed with the key {0}")]
    OtherKey(String),
    /// The record has another version.
    #[error("the record has version {0} of the format")]
    OtherVersion(String),
}

impl RecordSeal {
    /// Seals with this key.
    pub(super) fn new(key: &[u8; KEY_LENGTH]) -> Self {
        let signer = hmac::Key::new(hmac::HMAC_SHA256, key);
        let digest = hmac::sign(&signer, b"switchboard store key");
        let key_id = hex(digest.as_ref())[..ID_DIGITS].to_owned();
        Self { key: SealingKey::new(key), key_id }
    }

    /// A digest of the key that does not give it away.
    pub(super) fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The first line of each record.
    pub(super) fn head(&self) -> String {
        format!("{MARK}{VERSION} {}\n", self.key_id)
    }

    /// Seals a record, whose size was checked. Fails if the system has no randomness.
    pub(super) fn seal(
        &self,
        kind: &str,
        name: &str,
        content: &[u8],
    ) -> Result<Vec<u8>, getrandom::Error> {
        let length = u16::try_from(name.len()).expect("names are shorter than 8 KiB");
        // With room for all of it: growing would leave a copy of the content in freed memory.
        let mut text = Zeroizing::new(Vec::with_capacity(2 + name.len() + content.len()));
        text.extend_from_slice(&length.to_be_bytes());
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(content);
        let bound_to = self.bound_to(kind, &digest(kind, name));
        let sealed = self.key.seal(&text, bound_to.as_bytes())?;
        Ok([self.head().as_bytes(), &sealed].concat())
    }

    /// Opens what should be a record of this kind whose name has this digest; gives its
    /// name and its content.
    pub(super) fn open(
        &self,
        kind: &str,
        name_digest: &str,
        whole: &[u8],
    ) -> Result<(String, Zeroizing<Vec<u8>>), Unopened> {
        let sealed = self.check_head(whole)?.to_vec();
        let text = self.key.open(sealed, self.bound_to(kind, name_digest).as_bytes());
        let text = Zeroizing::new(text.ok_or(Unopened::Damaged)?);
        let (name, content) = split(&text).ok_or(Unopened::Damaged)?;
        if digest(kind, name) != name_digest {
            return Err(Unopened::Damaged);
        }
        Ok((name.to_owned(), Zeroizing::new(content.to_vec())))
    }

    /// What follows the first line, if that says that the key opens it.
    pub(super) fn check_head<'w>(&self, whole: &'w [u8]) -> Result<&'w [u8], Unopened> {
        let damaged = Unopened::Damaged;
        let rest = whole.strip_prefix(MARK.as_bytes()).ok_or(damaged.clone())?;
        let end = rest.iter().take(64).position(|&byte| byte == b'\n').ok_or(damaged.clone())?;
        let head = str::from_utf8(&rest[..end]).map_err(|_| damaged.clone())?;
        // Others may have more in this line.
        let (version, key_id) = head.split_once(' ').unwrap_or((head, ""));
        if version != VERSION {
            let is_number = !version.is_empty() && version.bytes().all(|it| it.is_ascii_digit());
            let version = version.to_owned();
            return Err(if is_number { Unopened::OtherVersion(version) } else { damaged });
        }
        let is_id = key_id.len() == ID_DIGITS && key_id.bytes().all(|it| it.is_ascii_hexdigit());
        match key_id == self.key_id {
            true => Ok(&rest[end + 1..]),
            false if is_id => Err(Unopened::OtherKey(key_id.to_owned())),
            false => Err(damaged),
        }
    }

    fn bound_to(&self, kind: &str, name_digest: &str) -> String {
        format!("{}{kind} {name_digest}", self.head())
    }
}

/// What names the file of a record.
pub(super) fn digest(kind: &str, name: &str) -> String {
    hex_digest(format!("{kind}\0{name}").as_bytes())
}

fn split(text: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = text.split_first_chunk()?;
    let (name, content) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    Some((str::from_utf8(name).ok()?, content))
}
