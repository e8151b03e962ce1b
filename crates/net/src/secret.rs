//! What of headers and variables must be told to nobody, and texts without it.
//!
//! Values that are short or plain words would be found everywhere: they count
//! only where their name says that they are secret.

use std::fmt;

use http::HeaderMap;
use ring::digest::{self, SHA256, digest};

/// Bytes of a value that cannot be mistaken for a word.
pub const LONG: usize = 8;

/// Bytes of a value that is secret by its name. Shorter ones are words such as `none` and `test`,
/// and no token is that short.
pub const SHORT: usize = 6;

/// Parts of names of what is secret.
const SECRET_NAMES: [&str; 9] =
    ["api-key", "api_key", "apikey", "auth", "credential", "key", "pass", "secret", "token"];

/// Whether a name says that its value is secret. Scripts have no name.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.len() <= 64 && SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// What of a header is secret. `Bearer` is not, and what follows it may be told alone.
pub fn words<'v>(name: &str, value: &'v str) -> impl Iterator<Item = &'v str> {
    let is_secret_name = is_secret_name(name);
    let is_alone = value.split_whitespace().nth(1).is_none();
    let words = value.split_whitespace().enumerate();
    words.filter_map(move |(at, word)| {
        let least = if is_secret_name && (at > 0 || is_alone) { SHORT } else { LONG };
        (word.len() >= least).then_some(word)
    })
}

/// SHA-256 in hex: what does not give a text away, and tells it from others.
pub fn hex_digest(text: &[u8]) -> String {
    hex(digest(&SHA256, text).as_ref())
}

/// A digest of what decides who we are to a server, or whom we take for it: two that agree are
/// the same. It gives nothing of its parts away.
#[derive(Clone)]
pub struct IdentityDigest(digest::Context);

impl IdentityDigest {
    pub(crate) fn new() -> Self {
        Self(digest::Context::new(&SHA256))
    }

    /// Adds a part. Where one ends and the next begins matters.
    pub fn add(&mut self, part: impl AsRef<[u8]>) {
        let part = part.as_ref();
        self.0.update(&part.len().to_le_bytes());
        self.0.update(part);
    }

    /// Adds headers, with their values; their order does not matter.
    pub fn add_headers(&mut self, headers: &HeaderMap) {
        let mut lines: Vec<_> = headers.iter().map(|(name, it)| (name.as_str(), it)).collect();
        lines.sort_by_key(|(name, value)| (*name, value.as_bytes()));
        self.add(lines.len().to_le_bytes());
        for (name, value) in lines {
            self.add(name);
            self.add(value);
        }
    }

    pub(crate) fn finish(self) -> String {
        hex(self.0.finish().as_ref())
    }
}

impl fmt::Debug for IdentityDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityDigest").finish_non_exhaustive()
    }
}

/// Bytes as digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// `text` of a server that got these headers and may repeat them: what is secret
/// becomes its name.
pub(crate) fn redact(text: &str, sent: &HeaderMap) -> String {
    let mut secrets = Vec::new();
    for (name, value) in sent {
        let value = String::from_utf8_lossy(value.as_bytes());
        secrets.extend(words(name.as_str(), &value).map(|word| (word.to_owned(), name)));
    }
    // One may be a part of another.
    secrets.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
    let veil =
        |text: String, (word, name): &(String, _)| text.replace(word, &format!("${{{name}}}"));
    secrets.iter().fold(text.to_owned(), veil)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_becomes_its_name_where_it_is_repeated() {
        let mut sent = HeaderMap::new();
        let mut add = |name: &'static str, value: &str| sent.insert(name, value.parse().unwrap());
        add("authorization", "Bearer abcdef");
        add("x-user", "passed-secret passed-secret-2");
        add("x-mode", "fast");
        let said = "Bearer abcdef fast [passed-secret-2,passed-secret]";
        let redact = redact(said, &sent);
        assert_eq!(redact, "Bearer ${authorization} fast [${x-user},${x-user}]");
    }

    #[test]
    fn the_scheme_before_a_secret_is_told() {
        let of = |name, value| words(name, value).collect::<Vec<_>>();
        assert_eq!(of("authorization", "Bearer abcdef"), ["abcdef"]);
        assert_eq!(of("authorization", "abcdef"), ["abcdef"]);
        assert_eq!(of("x-token", "none abcdef abcdefg"), ["abcdef", "abcdefg"]);
        assert_eq!(of("x-mode", "fast abcdefgh"), ["abcdefgh"]);
    }
}
