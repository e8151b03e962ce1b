//! What sign-ins take from this machine: the clock, random bytes and keys.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use switchboard_proto::auth::{AuthError, KeyAlgorithm, Secret, Tools};

use super::jws::{SignError, Signer, generate_pem};

/// The clock, the chance and the keys of this machine.
#[derive(Debug)]
pub struct SystemTools;

impl Tools for SystemTools {
    fn random(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        // The system's source is there, or nothing here works.
        getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("no random bytes: {error}"));
        bytes
    }

    fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn sha256(&self, bytes: &[u8]) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
        hash
    }

    fn new_key(&self) -> Result<Secret, AuthError> {
        generate_pem().map(Secret::new).map_err(bad_key)
    }

    fn public_key(&self, key: &Secret) -> Result<(Value, KeyAlgorithm), AuthError> {
        let signer = Signer::from_pem(key.reveal()).map_err(bad_key)?;
        Ok((signer.public_jwk(), signer.algorithm().name()))
    }

    fn sign(&self, key: &Secret, header: &Value, claims: &Value) -> Result<String, AuthError> {
        let signer = Signer::from_pem(key.reveal()).map_err(bad_key)?;
        signer.sign(header.clone(), claims).map_err(bad_key)
    }
}

fn bad_key(error: SignError) -> AuthError {
    AuthError::Settings(format!("the private key cannot be used: {error}"))
}
