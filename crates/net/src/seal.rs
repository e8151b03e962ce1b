//! Encrypts bytes so that nobody without the key can read, change or make them.
//!
//! ChaCha20-Poly1305 with a fresh nonce for each text. What was sealed opens only with
//! the same associated data, which is not in it: whose it is, or what it is about.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// Bytes of a key.
pub(crate) const KEY_LENGTH: usize = 32;

/// Seals and opens.
pub(crate) struct SealingKey(LessSafeKey);

impl SealingKey {
    pub(crate) fn new(key: &[u8; KEY_LENGTH]) -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key of the right length");
        Self(LessSafeKey::new(key))
    }

    /// The nonce, the encrypted text and its tag. Fails if the system has no randomness.
    pub(crate) fn seal(&self, text: &[u8], bound_to: &[u8]) -> Result<Vec<u8>, getrandom::Error> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce)?;
        // With room for all of it: growing would leave a copy of the text in freed memory.
        let mut whole = Vec::with_capacity(NONCE_LEN + text.len() + CHACHA20_POLY1305.tag_len());
        whole.extend_from_slice(&nonce);
        whole.extend_from_slice(text);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let text = &mut whole[NONCE_LEN..];
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(bound_to), text);
        whole.extend_from_slice(tag.expect("a text of far less than 256 GiB").as_ref());
        Ok(whole)
    }

    /// The text, if this key has sealed it, bound to the same. It takes the place of what
    /// was sealed.
    pub(crate) fn open(&self, mut whole: Vec<u8>, bound_to: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = whole.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let length = self.0.open_in_place(nonce, Aad::from(bound_to), sealed).ok()?.len();
        whole.copy_within(NONCE_LEN..NONCE_LEN + length, 0);
        whole.truncate(length);
        Some(whole)
    }
}

/// An id that cannot be guessed.
pub(crate) fn random_id() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealingKey")
    }
}
