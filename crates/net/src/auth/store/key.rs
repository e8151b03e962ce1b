//! The key of a store, and where it comes from.
//!
//! The user gives the key, or names a file with it. Otherwise it is made once: it is
//! kept in the system's keyring or, without one, in the folder of the store. A folder
//! remembers which of the two it was:
//!
//! | in the folder | means |
//! |---|---|
//! | `store.key` | the key itself; the keyring is not asked |
//! | `store.keyring` | the key is in the keyring; another one would open nothing here |
//! | `store.lock` | locked by the process that makes the key |

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

use super::StoreError;
use super::disk::{replace, unreadable, unwritten};
use crate::platform::{is_only_ours, open_without_waiting, private_file};
use crate::seal::KEY_LENGTH;

/// Bytes of a key in a file: in hex, with a new line, and some room for spaces.
const MOST_KEY_TEXT: u64 = 256;

/// A key that seals the records of a store. It is overwritten when it is dropped.
#[derive(Clone, Eq, PartialEq)]
pub struct StoreKey(Zeroizing<[u8; KEY_LENGTH]>);

impl StoreKey {
    /// A key nobody else has.
    pub fn random() -> Result<Self, StoreError> {
        let mut key = Zeroizing::new([0; KEY_LENGTH]);
        getrandom::fill(&mut *key)?;
        Ok(Self(key))
    }

    /// Reads 32 bytes in base64, of either alphabet, or in hex. `from` says in an error
    /// where the text was found.
    pub fn parse(text: &str, from: &str) -> Result<Self, StoreError> {
        let text = text.trim();
        let bytes = match text.len() {
            64 => hex(text),
            43 | 44 => [STANDARD, URL_SAFE].iter().find_map(|alphabet| {
                let config = GeneralPurposeConfig::new()
                    .with_decode_padding_mode(DecodePaddingMode::Indifferent);
                GeneralPurpose::new(alphabet, config).decode(text).ok()
            }),
            _ => None,
        };
        let bytes = Zeroizing::new(bytes.unwrap_or_default());
        let key = <[u8; KEY_LENGTH]>::try_from(bytes.as_slice());
        let key = key.map_err(|_| StoreError::BadKey { from: from.to_owned() })?;
        Ok(Self(Zeroizing::new(key)))
    }

    /// The key in base64.
    fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(*self.0))
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_LENGTH] {
        &self.0
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreKey")
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |&it: &u8| char::from(it).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let pairs = text.as_bytes().chunks_exact(2);
    pairs.map(|pair| Some(digit(&pair[0])? << 4 | digit(&pair[1])?)).collect()
}

/// Where the key of a store comes from.
#[derive(Debug)]
pub enum KeySource {
    /// The key itself.
    Given(StoreKey),
    /// A file that has it, which only the user may read.
    File(PathBuf),
    /// The keyring of the system; if there is none, the folder of the store.
    KeyRing(Box<dyn KeyRing>),
    /// The folder of the store.
    Folder,
}

/// The place of the system for secrets of the user: it has room for one text of ours.
/// Both methods block, perhaps until the user has unlocked it.
pub trait KeyRing: fmt::Debug + Send + Sync {
    /// The text that was written last, if there is one. Fails if there is no keyring.
    fn read(&self) -> io::Result<Option<Zeroizing<String>>>;

    /// Keeps the text.
    fn write(&self, text: &str) -> io::Result<()>;
}

impl KeySource {
    /// The key of the store in `folder`, which exists.
    pub(super) fn find(self, folder: &Path) -> Result<StoreKey, StoreError> {
        let ring = match self {
            Self::Given(key) => return Ok(key),
            Self::File(path) => {
                let missing = || io::Error::from(io::ErrorKind::NotFound);
                return read_key(&path)?.ok_or_else(|| unreadable(&path)(missing()));
            }
            Self::KeyRing(ring) => Some(ring),
            Self::Folder => None,
        };
        let path = folder.join("store.key");
        if let Some(key) = read_key(&path)? {
            return Ok(key);
        }
        if let Some(ring) = ring {
            return from_keyring(&*ring, folder, &path);
        }
        let _lock = lock_keys(folder)?;
        make_in_folder(&path)
    }
}

fn from_keyring(ring: &dyn KeyRing, folder: &Path, path: &Path) -> Result<StoreKey, StoreError> {
    let note = folder.join("store.keyring");
    if note.exists()
        && let Ok(Some(text)) = ring.read()
    {
        return StoreKey::parse(&text, "the key in the system's keyring");
    }
    let _lock = lock_keys(folder)?;
    if let Some(key) = read_key(path)? {
        return Ok(key);
    }
    let found = match ring.read() {
        Ok(Some(text)) => StoreKey::parse(&text, "the key in the system's keyring")?,
        Ok(None) => {
            let key = StoreKey::random()?;
            // Read again, for a keyring may accept a secret and not keep it.
            let kept = ring.write(&key.text()).and_then(|()| ring.read());
            match kept {
                Ok(Some(text)) if *text == *key.text() => key,
                _ => return make_in_folder(path),
            }
        }
        Err(source) if note.exists() => {
            return Err(StoreError::KeyRing { path: folder.to_owned(), source });
        }
        Err(error) => {
            tracing::debug!("the system's keyring is not used: {error}");
            return make_in_folder(path);
        }
    };
    if !note.exists() {
        replace(&note, b"The key of this store is in the system's keyring.\n")?;
    }
    Ok(found)
}

/// Waits until no other process makes a key in the folder.
fn lock_keys(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join("store.lock");
    let file = private_file().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(unwritten(&path))?;
    file.lock().map_err(unwritten(&path))?;
    Ok(file)
}

/// The key in the folder, which is made if it is not there. The caller has locked the keys.
fn make_in_folder(path: &Path) -> Result<StoreKey, StoreError> {
    if let Some(key) = read_key(path)? {
        return Ok(key);
    }
    let key = StoreKey::random()?;
    let text = Zeroizing::new(format!("{}\n", *key.text()));
    replace(path, text.as_bytes())?;
    tracing::warn!(
        "made {}: the key keeps tokens out of backups and logs, but not from other programs of \
         this user; keep it in a keyring, or give it by SWITCHBOARD_STORE_KEY, if they must not \
         have it",
        path.display()
    );
    Ok(key)
}

/// The key in a file; none if there is no such file.
fn read_key(path: &Path) -> Result<Option<StoreKey>, StoreError> {
    let file = match open_without_waiting(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(unreadable(path))?,
    };
    if !is_only_ours(&file.metadata().map_err(unreadable(path))?) {
        return Err(StoreError::Exposed { path: path.to_owned(), mode: "600" });
    }
    let mut text = Zeroizing::new(String::with_capacity(256));
    file.take(MOST_KEY_TEXT).read_to_string(&mut text).map_err(unreadable(path))?;
    StoreKey::parse(&text, &path.display().to_string()).map(Some)
}
