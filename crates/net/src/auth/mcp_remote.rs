//! What mcp-remote has kept: tokens and registrations, in plaintext.
//!
//! | file in `~/.mcp-auth` | what |
//! |---|---|
//! | `mcp-remote-VERSION/HASH_tokens.json` | the answer of the token endpoint; later versions add `expires_at` in milliseconds, `requested_scope` and `issuer` |
//! | `mcp-remote-VERSION/HASH_client_info.json` | the answer to a registration; later versions add `issuer` |
//!
//! The hash is MD5 of the server's URL as it was typed, followed by options that the user
//! gave ([`server_url_hash`]). Versions up to 0.1 have a folder each, later ones share
//! `mcp-remote-v1`. Nothing here says which server a hash belongs to.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::secret::hex;

/// Bytes of a file: tokens have up to 16 KiB each, and there may be three.
const MOST_FILE: u64 = 64 << 10;

/// Files that are looked at: a few for each server and version that was ever used.
const MOST_FILES: usize = 10_000;

/// What mcp-remote has kept for one server.
#[derive(Debug)]
pub struct Imported {
    /// Which server, by [`server_url_hash`].
    pub server_url_hash: String,
    /// When its last file was written.
    pub written: SystemTime,
    /// Its tokens.
    pub tokens: Option<ImportedTokens>,
    /// Who the user is to the authorization server, if mcp-remote has registered.
    pub client_info: Option<ImportedClient>,
}

/// Tokens, as far as they were written down.
#[derive(Deserialize)]
pub struct ImportedTokens {
    /// The token for the server.
    pub access_token: Zeroizing<String>,
    /// The token for renewing it.
    pub refresh_token: Option<Zeroizing<String>>,
    /// How the token is used.
    pub token_type: Option<String>,
    /// What was granted.
    pub scope: Option<String>,
    /// What was asked for.
    pub requested_scope: Option<String>,
    /// Who issued them.
    pub issuer: Option<String>,
    /// When the access token ends: as written, else reckoned from the time of the file.
    #[serde(skip)]
    pub ends: Option<SystemTime>,
    /// Milliseconds since 1970.
    #[serde(default, deserialize_with = "number")]
    expires_at: Option<u64>,
    /// Seconds since the file was written.
    #[serde(default, deserialize_with = "number")]
    expires_in: Option<u64>,
}

impl fmt::Debug for ImportedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ImportedTokens");
        shown.field("has_refresh_token", &self.refresh_token.is_some());
        shown.field("scope", &self.scope).field("issuer", &self.issuer).field("ends", &self.ends);
        shown.finish_non_exhaustive()
    }
}

/// A registration, as far as it was written down.
#[derive(Deserialize)]
pub struct ImportedClient {
    /// The id.
    pub client_id: String,
    /// The secret, if there is one.
    pub client_secret: Option<Zeroizing<String>>,
    /// Seconds since 1970 when the secret ends; 0 for never.
    #[serde(default, deserialize_with = "number")]
    pub client_secret_expires_at: Option<u64>,
    /// Where answers may go.
    #[serde(default)]
    pub redirect_uris: Vec<String>,
    /// How the client shows who it is.
    pub token_endpoint_auth_method: Option<String>,
    /// Where it is registered.
    pub issuer: Option<String>,
}

impl fmt::Debug for ImportedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ImportedClient");
        shown.field("client_id", &self.client_id).field("redirect_uris", &self.redirect_uris);
        shown.field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// A number that may be written as text.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(from)?;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    // Without a fraction, which some clocks give.
    Ok(text.split('.').next().and_then(|whole| whole.trim().parse().ok()))
}

/// The hash that mcp-remote names the files of a server by: of its URL as it was typed
/// and, where the user gave them, the resource, the further parameters and the headers
/// (both as JSON with sorted names), the URL of the client's metadata and the token
/// endpoint, in this order.
pub fn server_url_hash(parts: &[&str]) -> String {
    hex(&md5(parts.join("|").as_bytes()))
}

/// All that is in `folder`, which is `~/.mcp-auth` unless the user has moved it. If
/// several versions have kept something for one server, the last written counts. Files
/// that are not what they should be are left out. Blocks.
pub fn read(folder: &Path) -> io::Result<Vec<Imported>> {
    let mut newest: BTreeMap<String, (SystemTime, Imported)> = BTreeMap::new();
    let mut left = MOST_FILES;
    for version in fs::read_dir(folder)?.flatten().take(MOST_FILES) {
        if !version.file_name().to_string_lossy().starts_with("mcp-remote-") {
            continue;
        }
        for file in fs::read_dir(version.path()).into_iter().flatten().flatten().take(left) {
            left -= 1;
            let name = file.file_name();
            let Some((hash, kind)) = name.to_str().and_then(|name| name.split_once('_')) else {
                continue;
            };
            let is_hash = hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_hash || !["tokens.json", "client_info.json"].contains(&kind) {
                continue;
            }
            let Some((written, imported)) = read_server(&version.path(), hash) else { continue };
            let known = newest.get(hash);
            if known.is_none_or(|(before, _)| *before < written) {
                newest.insert(hash.to_owned(), (written, imported));
            }
        }
    }
    Ok(newest.into_values().map(|(_, imported)| imported).collect())
}

/// What one version has kept for one server, and when it did.
fn read_server(folder: &Path, hash: &str) -> Option<(SystemTime, Imported)> {
    let of = |kind: &str| folder.join(format!("{hash}_{kind}.json"));
    let tokens = parse::<ImportedTokens>(&of("tokens"));
    let client_info = parse::<ImportedClient>(&of("client_info"));
    let written = tokens.as_ref().map(|it| it.0).or(client_info.as_ref().map(|it| it.0))?;
    let tokens = tokens.map(|(written, mut tokens)| {
        let at = tokens.expires_at.map(|at| (SystemTime::UNIX_EPOCH, Duration::from_millis(at)));
        let after = || Some((written, Duration::from_secs(tokens.expires_in?)));
        tokens.ends = at.or_else(after).and_then(|(from, after)| from.checked_add(after));
        tokens
    });
    let client_info = client_info.map(|(_, client)| client);
    let server_url_hash = hash.to_owned();
    Some((written, Imported { server_url_hash, written, tokens, client_info }))
}

fn parse<T: DeserializeOwned>(path: &Path) -> Option<(SystemTime, T)> {
    let file = File::open(path).ok()?;
    let written = file.metadata().and_then(|about| about.modified()).ok()?;
    let mut text = Zeroizing::new(String::new());
    file.take(MOST_FILE).read_to_string(&mut text).ok()?;
    Some((written, serde_json::from_str(&text).ok()?))
}

/// How far each step of a round turns.
const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// RFC 1321. It finds files by their names, and protects nothing.
fn md5(text: &[u8]) -> [u8; 16] {
    let mut padded = text.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - text.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&(text.len() as u64 * 8).to_le_bytes());
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        let word = |at: usize| {
            let bytes = block[at * 4..at * 4 + 4].try_into().expect("four bytes");
            u32::from_le_bytes(bytes)
        };
        let [mut a, mut b, mut c, mut d] = state;
        for (step, sine) in SINES.into_iter().enumerate() {
            let (mixed, at) = match step / 16 {
                0 => (b & c | !b & d, step),
                1 => (d & b | !d & c, 5 * step + 1),
                2 => (b ^ c ^ d, 3 * step + 5),
                _ => (c ^ (b | !d), 7 * step),
            };
            let sum = a.wrapping_add(mixed).wrapping_add(sine).wrapping_add(word(at % 16));
            let turned = b.wrapping_add(sum.rotate_left(TURNS[step / 16][step % 4]));
            (a, d, c, b) = (d, c, b, turned);
        }
        for (old, new) in state.iter_mut().zip([a, b, c, d]) {
            *old = old.wrapping_add(new);
        }
    }
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

/// The sines of 1 to 64, as fractions of 2^32.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_other_programs() {
        let of = |text: &str| server_url_hash(&[text]);
        assert_eq!(of(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(of("abc"), "900150983cd24fb0d6963f7d28e17f72");
        let digits = "1234567890".repeat(8);
        assert_eq!(of(&digits), "57edf4a22be3c955ac49da2e2107b67a");
        assert_eq!(of(&digits[..55]), "c9ccf168914a1bcfc3229f1948e67da0");
        assert_eq!(of(&digits[..56]), "49f193adce178490e34d1b3a4ec0064c");
        assert_eq!(of(&digits[..64]), "eb6c4179c0a7c82cc2828c1e6338e165");
        assert_eq!(
            server_url_hash(&["https://a.example/mcp", "https://r.example"]),
            "4498dead790fe2f38fe28105dc308ca8"
        );
    }

    // wire: OT-10
    #[test]
    fn the_last_written_tokens_of_a_server_are_found_with_their_registration() {
        let folder =
            std::env::temp_dir().join(format!("switchboard-import-{}", std::process::id()));
        let hash = server_url_hash(&["https://a.example/mcp"]);
        let put = |version: &str, kind: &str, text: &str, seconds: u64| {
            let folder = folder.join(version);
            fs::create_dir_all(&folder).unwrap();
            let path = folder.join(format!("{hash}_{kind}"));
            fs::write(&path, text).unwrap();
            let written = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            File::options().write(true).open(path).unwrap().set_modified(written).unwrap();
        };
        put(
            "mcp-remote-0.1.38",
            "tokens.json",
            r#"{"access_token":"marked-old","token_type":"Bearer","expires_in":"60"}"#,
            1_000,
        );
        let read_one = || {
            let mut all = read(&folder).unwrap();
            assert_eq!(all.len(), 1);
            let found = all.pop().unwrap();
            assert_eq!(found.server_url_hash, hash);
            assert!(!format!("{found:?}").contains("marked"), "{found:?}");
            found
        };
        let after = |millis| Some(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
        let old = read_one();
        assert!(old.client_info.is_none());
        assert_eq!(old.tokens.unwrap().ends, after(1_060_000));

        put(
            "mcp-remote-v1",
            "tokens.json",
            r#"{"access_token":"marked-a","refresh_token":"marked-r","token_type":"bearer","expires_in":60,"expires_at":5000000.5,"scope":"x","requested_scope":"x y","issuer":"https://as.example"}"#,
            2_000,
        );
        put(
            "mcp-remote-v1",
            "client_info.json",
            r#"{"client_id":"c","client_secret":"marked-s","redirect_uris":["http://localhost:3334/oauth/callback"],"other":1}"#,
            1,
        );
        put("mcp-remote-v1", "lock.json", "{}", 3_000);
        put("mcp-remote-0.1.9", "tokens.json", "{\"access_token\":", 4_000);
        let found = read_one();
        let (tokens, client) = (found.tokens.unwrap(), found.client_info.unwrap());
        assert_eq!((tokens.access_token.as_str(), tokens.ends), ("marked-a", after(5_000_000)));
        assert_eq!(tokens.refresh_token.unwrap().as_str(), "marked-r");
        assert_eq!(tokens.requested_scope.unwrap(), "x y");
        assert_eq!(client.redirect_uris, ["http://localhost:3334/oauth/callback"]);
        assert_eq!((client.client_id.as_str(), client.client_secret_expires_at), ("c", None));
        fs::remove_dir_all(&folder).unwrap();
    }
}
