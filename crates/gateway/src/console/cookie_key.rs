//! What cookies are sealed with, and which of them have ended: in the state folder of the
//! gateway, so that a restart signs nobody out.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use switchboard_net::parked_calls::Sealer;
use switchboard_net::private_folder::PrivateFolder;
use switchboard_proto::jsonrpc::Part;

use crate::policy::KeyHash;

/// The file in the folder, and its bytes at most.
const FILE: &str = "console.json";
const MAX_FILE: u64 = 256 << 10;

/// Sign-ins that have ended before their time and are remembered.
pub(super) const MAX_ENDED: usize = 1024;

/// The hash of a cookie, and when it would have ended by itself, in seconds of Unix time.
pub(super) type EndedCookie = (KeyHash, u64);

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct CookieFile {
    key: String,
    ended: Vec<(String, u64)>,
}

impl CookieFile {
    fn key(&self) -> Option<[u8; 32]> {
        BASE64_URL_SAFE_NO_PAD.decode(&self.key).ok()?.try_into().ok()
    }
}

/// What seals cookies, and those that have ended. What cannot be kept is made anew by the next
/// gateway. None if the system has no random numbers. Blocks.
pub(super) fn load(folder: Option<&PrivateFolder>) -> Option<(Sealer, VecDeque<EndedCookie>)> {
    let kept = folder.map(read_or_make);
    let file = match kept {
        Some(Ok(file)) => file,
        Some(Err(error)) => {
            tracing::warn!("a restart will sign people out of the console: {error}");
            CookieFile::default()
        }
        None => CookieFile::default(),
    };
    let now = Instant::now();
    let sealer = match file.key() {
        Some(key) => Sealer::with_key(&key, now),
        None => Sealer::new(now).ok()?,
    };
    let ended = file.ended.iter().filter_map(|(hash, until)| Some((hash.parse().ok()?, *until)));
    Some((sealer, ended.take(MAX_ENDED).collect()))
}

fn read_or_make(folder: &PrivateFolder) -> io::Result<CookieFile> {
    let turn = folder.lock()?;
    let text = folder.read(FILE, MAX_FILE)?.unwrap_or_default();
    let known: Option<CookieFile> = Part::new(&text).read().ok();
    if let Some(known) = known.filter(|known| known.key().is_some()) {
        return Ok(known);
    }
    let mut key = [0; 32];
    SystemRandom::new().fill(&mut key).map_err(|_| io::Error::other("no random numbers"))?;
    let made = CookieFile { key: BASE64_URL_SAFE_NO_PAD.encode(key), ..CookieFile::default() };
    turn.replace(FILE, &serde_json::to_vec(&made)?)?;
    Ok(made)
}

/// Remembers which cookies have ended. Blocks.
pub(super) fn save_ended(folder: &PrivateFolder, ended: &[EndedCookie]) -> io::Result<()> {
    let turn = folder.lock()?;
    let text = folder.read(FILE, MAX_FILE)?.unwrap_or_default();
    let mut file: CookieFile = Part::new(&text).read()?;
    file.ended = ended.iter().map(|(hash, until)| (hash.to_string(), *until)).collect();
    turn.replace(FILE, &serde_json::to_vec(&file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_before_a_restart_is_opened_after_it_unless_it_has_ended() {
        // B-10
        let path = std::env::temp_dir().join(format!("switchboard-cookie-{}", std::process::id()));
        _ = std::fs::remove_dir_all(&path);
        let folder = PrivateFolder::at(&path);
        let (first, ended) = load(Some(&folder)).unwrap();
        let sealed = first.seal_bytes(b"ada", b"here").unwrap();
        assert!(ended.is_empty());
        let hash = KeyHash::compute(b"a cookie");
        save_ended(&folder, &[(hash, 7)]).unwrap();
        let (second, ended) = load(Some(&folder)).unwrap();
        assert_eq!(second.open_bytes(&sealed, b"here").as_deref(), Some(&b"ada"[..]));
        assert!(second.open_bytes(&sealed, b"elsewhere").is_none());
        assert_eq!(ended, [(hash, 7)]);
        // A file that cannot be read is replaced, and signs people out.
        std::fs::write(path.join(FILE), "{").unwrap();
        let (third, _) = load(Some(&folder)).unwrap();
        assert!(third.open_bytes(&sealed, b"here").is_none());
        assert!(load(None).unwrap().0.open_bytes(&sealed, b"here").is_none());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
