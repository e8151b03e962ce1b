//! The tools of a sign-in without randomness, clock and keys, for the targets.

use switchboard_proto::auth::{AuthError, KeyAlgorithm, Secret, Tools};

#[derive(Debug)]
pub struct NoChance;

impl Tools for NoChance {
    fn random(&self) -> [u8; 32] {
        [7; 32]
    }

    fn now(&self) -> u64 {
        1_000_000
    }

    fn sha256(&self, bytes: &[u8]) -> [u8; 32] {
        [bytes.len() as u8; 32]
    }

    fn new_key(&self) -> Result<Secret, AuthError> {
        Ok(Secret::new("key"))
    }

    fn public_key(&self, _key: &Secret) -> Result<(serde_json::Value, KeyAlgorithm), AuthError> {
        Ok((serde_json::Value::Null, "ES256"))
    }

    fn sign(
        &self,
        _key: &Secret,
        header: &serde_json::Value,
        claims: &serde_json::Value,
    ) -> Result<String, AuthError> {
        Ok(format!("{header}.{claims}"))
    }
}
