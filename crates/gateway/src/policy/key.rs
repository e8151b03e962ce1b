//! Keys as files have them: hashed.
//!
//! A key is made by us, from the system's randomness, so that a plain hash is
//! enough: nobody guesses 256 bits, whatever a guess costs.

use std::fmt;
use std::str::FromStr;

use ring::digest::{SHA256, digest};

/// What a hash in a file starts with.
pub const PREFIX: &str = "sha256:";

/// Characters of a key that people choose themselves: fewer can be guessed.
pub const MIN_KEY: usize = 16;

/// The SHA-256 of a key.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct KeyHash([u8; 32]);

/// Not the hash of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a hash is {PREFIX} and 64 hexadecimal digits")]
pub struct BadHash;

impl KeyHash {
    /// The hash of a key.
    pub fn of(key: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, key).as_ref());
        Self(bytes)
    }

    /// Whether a key that people chose can be guessed; blanks around it are none of it.
    pub fn is_weak(key: &str) -> bool {
        key.trim().chars().count() < MIN_KEY
    }

    /// Whether both are of one key. Takes the same time wherever they differ.
    pub fn matches(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        let difference = pairs.fold(0, |sum, (a, b)| std::hint::black_box(sum | (a ^ b)));
        difference == 0
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyHash {
    /// Enough to tell two apart.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{PREFIX}{:02x}{:02x}…", self.0[0], self.0[1])
    }
}

impl FromStr for KeyHash {
    type Err = BadHash;

    fn from_str(text: &str) -> Result<Self, BadHash> {
        let digits = text.trim().strip_prefix(PREFIX).ok_or(BadHash)?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(BadHash);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or(BadHash);
            *byte = u8::try_from(digit(0)? << 4 | digit(1)?).map_err(|_| BadHash)?;
        }
        Ok(Self(bytes))
    }
}
