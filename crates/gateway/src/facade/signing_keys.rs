//! The keys of the facade, and the one of the gateway as a client, made when they are first needed.

use serde::{Deserialize, Serialize};
use switchboard_net::auth::jws::{PublicJwk, Signer, generate_pem};
use switchboard_net::auth::store::{RecordKind, RecordStore};
use switchboard_proto::auth::Secret;

use super::record::{id, parse, save};
use super::state::FacadeError;

/// The private keys of the facade, as the store has them.
#[derive(Deserialize, Serialize)]
pub(super) struct StoredKeys {
    current: Secret,
    previous: Option<Secret>,
}

/// The same, to be used.
pub(super) struct SigningKeys {
    pub(super) signer: Signer,
    /// Both, the newer first.
    pub(super) published: Vec<serde_json::Value>,
}

impl StoredKeys {
    pub(super) fn open(&self) -> Result<SigningKeys, FacadeError> {
        let signer = Signer::from_pem(self.current.reveal())?;
        let mut published = vec![signer.public_jwk()];
        if let Some(previous) = &self.previous {
            published.push(Signer::from_pem(previous.reveal())?.public_jwk());
        }
        Ok(SigningKeys { signer, published })
    }
}

impl SigningKeys {
    pub(super) fn public(&self) -> Vec<PublicJwk> {
        self.published.iter().filter_map(PublicJwk::read).collect()
    }
}

/// What the record of the keys that tokens are signed with is called.
const TOKEN_KEYS: &str = "keys";
/// That of the key by which the gateway shows who it is at authorization servers. It is another
/// one, and stays: a server that does not know it takes no renewals.
const CLIENT_KEY: &str = "client key";

/// The keys of the facade, made if there are none (OS-13).
pub(super) async fn load_keys(store: &dyn RecordStore) -> Result<StoredKeys, FacadeError> {
    load(store, TOKEN_KEYS).await
}

/// The key of the gateway as a client of authorization servers (OC-21), made if there is none.
pub(crate) async fn client_key(store: &dyn RecordStore) -> Result<Secret, FacadeError> {
    Ok(load(store, CLIENT_KEY).await?.current)
}

async fn load(store: &dyn RecordStore, name: &str) -> Result<StoredKeys, FacadeError> {
    let id = id(RecordKind::Facade, name);
    if let Some(keys) = parse(store.read(&id).await?)? {
        return Ok(keys);
    }
    let mut lock = store.lock(&id).await?;
    if let Some(keys) = parse(lock.read().await?)? {
        return Ok(keys);
    }
    let keys = StoredKeys { current: Secret::new(generate_pem()?), previous: None };
    save(&mut *lock, &keys).await?;
    Ok(keys)
}

/// Makes another signing key. Tokens of the one before count until they are over.
pub async fn rotate_keys(store: &dyn RecordStore) -> Result<(), FacadeError> {
    let before = load_keys(store).await?;
    let id = id(RecordKind::Facade, TOKEN_KEYS);
    let mut lock = store.lock(&id).await?;
    let before = parse(lock.read().await?)?.unwrap_or(before);
    let current = Secret::new(generate_pem()?);
    save(&mut *lock, &StoredKeys { current, previous: Some(before.current) }).await
}
