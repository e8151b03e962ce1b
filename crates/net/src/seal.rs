//! Seals what a modern client carries back to us, so that it can neither be
//! read nor made up (MRTR-8).
//!
//! A sealed state names a parked call: which client, which exchange, which
//! round, until when. It is bound to whoever it was given to. The key lives
//! and dies with the process, and so do the calls it names.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use switchboard_proto::exchange::Exchange;

/// What a state begins with that we, or a server like us, made.
const MARK: &str = "sb1.";

/// Face, exchange, round and expiry.
const TOKEN_LEN: usize = 8 + 8 + 4 + 8;

/// The call that a state names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Token {
    pub(crate) client: u64,
    pub(crate) exchange: Exchange,
    pub(crate) round: u32,
    pub(crate) until: Instant,
}

/// Not a state that we gave to this client, or not any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a state of this server, of this client, or of now")]
pub struct Broken;

/// Makes and opens states.
pub struct Sealer {
    key: LessSafeKey,
    /// What a state of this sealer begins with; another's passes it by, for
    /// there may be a server like us behind us.
    mark: String,
    /// Instants are sealed as distances from here.
    start: Instant,
}

impl Sealer {
    /// A sealer with a key nobody else has.
    pub fn new(now: Instant) -> Result<Self, getrandom::Error> {
        let (mut key, mut name) = ([0; 32], [0; 8]);
        getrandom::fill(&mut key)?;
        getrandom::fill(&mut name)?;
        let mark = format!("{MARK}{:016x}.", u64::from_be_bytes(name));
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key).expect("a key of the right length");
        Ok(Self { key: LessSafeKey::new(key), mark, start: now })
    }

    /// Whether this looks like something of ours.
    pub fn is_ours(&self, state: &str) -> bool {
        state.starts_with(&self.mark)
    }

    /// Whether this looks like something that any sealer has made.
    pub(crate) fn is_sealed(state: &str) -> bool {
        state.starts_with(MARK)
    }

    /// Seals `token` for `principal`. None if the system has no randomness left.
    pub(crate) fn seal(&self, token: Token, principal: &[u8]) -> Option<String> {
        self.seal_bytes(self.to_bytes(token).to_vec(), principal)
    }

    /// Seals anything for `principal`. None if the system has no randomness left.
    pub fn seal_bytes(&self, mut text: Vec<u8>, principal: &[u8]) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let sealed = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(sealed, Aad::from(principal), &mut text).ok()?;
        let whole = [&nonce[..], &text].concat();
        Some(format!("{}{}", self.mark, URL_SAFE_NO_PAD.encode(whole)))
    }

    /// Opens what `principal` brought.
    pub(crate) fn open(
        &self,
        state: &str,
        principal: &[u8],
        now: Instant,
    ) -> Result<Token, Broken> {
        let text = self.open_bytes(state, principal)?;
        let token = self.from_bytes(&text).ok_or(Broken)?;
        if token.until > now { Ok(token) } else { Err(Broken) }
    }

    /// Opens what [`Sealer::seal_bytes`] has sealed for `principal`.
    pub fn open_bytes(&self, state: &str, principal: &[u8]) -> Result<Vec<u8>, Broken> {
        let text = state.strip_prefix(&self.mark).ok_or(Broken)?;
        let mut whole = URL_SAFE_NO_PAD.decode(text).map_err(|_| Broken)?;
        let (nonce, sealed) = whole.split_at_mut_checked(NONCE_LEN).ok_or(Broken)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Broken)?;
        let text = self.key.open_in_place(nonce, Aad::from(principal), sealed);
        text.map(|text| text.to_vec()).map_err(|_| Broken)
    }

    fn to_bytes(&self, token: Token) -> [u8; TOKEN_LEN] {
        let until = token.until.saturating_duration_since(self.start).as_millis();
        let until = u64::try_from(until).unwrap_or(u64::MAX);
        let mut bytes = [0; TOKEN_LEN];
        bytes[..8].copy_from_slice(&token.client.to_be_bytes());
        bytes[8..16].copy_from_slice(&token.exchange.0.to_be_bytes());
        bytes[16..20].copy_from_slice(&token.round.to_be_bytes());
        bytes[20..].copy_from_slice(&until.to_be_bytes());
        bytes
    }

    #[expect(clippy::wrong_self_convention, reason = "instants are told from our start")]
    fn from_bytes(&self, bytes: &[u8]) -> Option<Token> {
        let bytes: &[u8; TOKEN_LEN] = bytes.try_into().ok()?;
        let number = |at: usize| {
            bytes[at..at + 8].iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        let round = bytes[16..20].iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
        let until = self.start.checked_add(Duration::from_millis(number(20)))?;
        Some(Token { client: number(0), exchange: Exchange(number(8)), round, until })
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: MRTR-7, MRTR-8, GW-45
    #[test]
    fn a_state_opens_for_whom_it_was_sealed_and_in_time() {
        let start = Instant::now();
        let sealer = Sealer::new(start).unwrap();
        let until = start + Duration::from_mins(1);
        let token = Token { client: 7, exchange: Exchange(8), round: 9, until };
        let state = sealer.seal(token, b"ann").unwrap();
        assert!(sealer.is_ours(&state) && Sealer::is_sealed(&state));
        assert_eq!(sealer.open(&state, b"ann", start), Ok(token));
        assert_eq!(sealer.open(&state, b"bob", start), Err(Broken));
        assert_eq!(sealer.open(&state, b"ann", until), Err(Broken));
        assert_eq!(sealer.open(&format!("{state}-TAMPERED"), b"ann", start), Err(Broken));
        let other = Sealer::new(start).unwrap();
        assert!(!other.is_ours(&state), "it may belong to whoever is behind");
        assert_eq!(other.open(&state, b"ann", start), Err(Broken));
        assert_ne!(sealer.seal(token, b"ann").unwrap(), state, "no two are alike");
    }

    #[test]
    fn any_flipped_character_is_noticed() {
        let start = Instant::now();
        let sealer = Sealer::new(start).unwrap();
        let until = start + Duration::from_mins(1);
        let state =
            sealer.seal(Token { client: 1, exchange: Exchange(1), round: 1, until }, b"").unwrap();
        for at in 0..state.len() {
            let mut forged = state.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(sealer.open(&forged, b"", start), Err(Broken), "character {at}");
        }
        for garbage in ["", "!!", "AAAA"] {
            let garbage = format!("{}{garbage}", sealer.mark);
            assert_eq!(sealer.open(&garbage, b"", start), Err(Broken), "{garbage}");
        }
    }
}
