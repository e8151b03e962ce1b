//! What the facade remembers: in the store what must survive a restart, in memory what lives
//! for minutes.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use switchboard_net::auth::jws::{PublicJwk, SignError, Signer, generate_pem};
use switchboard_net::auth::store::{
    Plaintext, RecordId, RecordKind, RecordLock, RecordStore, StoreError,
};
use switchboard_proto::Table;
use switchboard_proto::auth::{Secret, is_same};

use super::assertion::OneTime;
use super::authorize::AuthorizationRequest;
use super::client::FacadeClient;
use super::grant::{StoredGrant, hash};
use crate::idp::IdpVisit;
use crate::lock;

/// Clients that are registered.
const MAX_CLIENTS: usize = 10_000;
/// Grants of all people together.
const MAX_GRANTS: usize = 10_000;
/// People who are at the identity provider.
const MAX_PENDING: usize = 1000;
/// How long they may take, in seconds.
const PENDING_LIFE: u64 = 600;
/// Client metadata documents that are kept.
const MAX_DOCUMENTS: usize = 1000;
/// Addresses whose requests are counted.
const MAX_ADDRESSES: usize = 4096;
/// Registrations of one address in a minute.
pub(super) const MOST_REGISTRATIONS: u32 = 20;
/// Sign-ins that are begun from one address in a minute: a proxy may have all people behind it.
pub(super) const MOST_SIGN_INS: u32 = 300;
/// Assertions that were used and are still good.
const MAX_USED: usize = 10_000;
/// How long a registration is kept that nobody uses, in seconds.
const CLIENT_IDLE: u64 = 30 * 86_400;

/// Why the facade cannot go on.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum FacadeError {
    /// The store fails.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// There is no key to sign with.
    #[error("the signing key of the facade cannot be used: {0}")]
    Key(#[from] SignError),
    /// A record is none of ours.
    #[error("a record of the facade cannot be read: {0}")]
    Record(#[from] serde_json::Error),
    /// There is no room.
    #[error("there are too many {0}")]
    Full(&'static str),
}

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

fn id(kind: RecordKind, name: &str) -> RecordId {
    RecordId { kind, name: name.to_owned() }
}

fn parse<T: DeserializeOwned>(content: Option<Plaintext>) -> Result<Option<T>, FacadeError> {
    Ok(content.map(|content| serde_json::from_slice(&content)).transpose()?)
}

async fn save(lock: &mut dyn RecordLock, record: &impl Serialize) -> Result<(), FacadeError> {
    let content = Plaintext::new(serde_json::to_vec(record)?);
    Ok(lock.write(&content).await?)
}

/// The keys of the facade, made if there are none (OS-13).
pub(super) async fn load_keys(store: &dyn RecordStore) -> Result<StoredKeys, FacadeError> {
    let id = id(RecordKind::Facade, "keys");
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
    let id = id(RecordKind::Facade, "keys");
    let mut lock = store.lock(&id).await?;
    let before = parse(lock.read().await?)?.unwrap_or(before);
    let current = Secret::new(generate_pem()?);
    save(&mut *lock, &StoredKeys { current, previous: Some(before.current) }).await
}

/// Somebody who is at the identity provider.
pub(super) struct PendingVisitor {
    pub(super) request: AuthorizationRequest,
    pub(super) visit: IdpVisit,
    /// The hash of the cookie of their browser.
    pub(super) browser: String,
    until: u64,
}

/// All that is remembered.
pub(super) struct FacadeState {
    store: Arc<dyn RecordStore>,
    clients: AtomicUsize,
    grants: AtomicUsize,
    pending: Mutex<Table<String, PendingVisitor>>,
    documents: Mutex<Table<String, (FacadeClient, u64)>>,
    /// Hashes of assertions, each with the time until which it is good.
    used: Mutex<Table<String, u64>>,
    /// What each address did in which minute, by what it may do at most.
    rates: Mutex<Table<(IpAddr, u32), (u64, u32)>>,
}

/// A grant that nobody else changes meanwhile.
pub(super) struct LockedGrant {
    lock: Box<dyn RecordLock>,
    pub(super) grant: StoredGrant,
}

impl FacadeState {
    pub(super) async fn open(store: Arc<dyn RecordStore>) -> Result<Self, FacadeError> {
        let clients = store.list(RecordKind::Client).await?.len();
        let grants = store.list(RecordKind::Grant).await?.len();
        Ok(Self {
            store,
            clients: AtomicUsize::new(clients),
            grants: AtomicUsize::new(grants),
            pending: Mutex::default(),
            documents: Mutex::default(),
            used: Mutex::default(),
            rates: Mutex::default(),
        })
    }

    pub(super) fn store(&self) -> &dyn RecordStore {
        &*self.store
    }

    /// Whether an address may do one more thing that costs us something (OS-9). Addresses that
    /// are not known count as one.
    pub(super) fn may_act(&self, address: Option<IpAddr>, most: u32, now: u64) -> bool {
        let (minute, mut rates) = (now / 60, lock(&self.rates));
        let address = address.unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED));
        let address = (address, most);
        if rates.len() >= MAX_ADDRESSES {
            rates.retain(|_, (at, _)| *at == minute);
        }
        if rates.len() >= MAX_ADDRESSES && !rates.contains_key(&address) {
            return false;
        }
        let (at, count) = rates.entry(address).or_insert((minute, 0));
        if *at != minute {
            (*at, *count) = (minute, 0);
        }
        *count = count.saturating_add(1);
        *count <= most
    }

    /// Whether an assertion is used for the first time.
    pub(super) fn use_once(&self, once: &OneTime, now: u64) -> bool {
        let mut used = lock(&self.used);
        if used.len() >= MAX_USED {
            used.retain(|_, until| now <= *until);
        }
        used.len() < MAX_USED && used.insert(hash(&once.id), once.until).is_none()
    }

    pub(super) async fn add_client(&self, client: &FacadeClient) -> Result<(), FacadeError> {
        if self.clients.load(Ordering::Relaxed) >= MAX_CLIENTS {
            return Err(FacadeError::Full("registered clients"));
        }
        self.clients.fetch_add(1, Ordering::Relaxed);
        let id = id(RecordKind::Client, &client.id);
        let mut lock = self.store.lock(&id).await?;
        save(&mut *lock, client).await
    }

    pub(super) async fn client(&self, name: &str) -> Result<Option<FacadeClient>, FacadeError> {
        parse(self.store.read(&id(RecordKind::Client, name)).await?)
    }

    /// Somebody has signed in with a client: its registration is kept.
    pub(super) async fn note_use(
        &self,
        client: &FacadeClient,
        now: u64,
    ) -> Result<(), FacadeError> {
        if client.is_proven() || now < client.used_at.saturating_add(86_400) {
            return Ok(());
        }
        let id = id(RecordKind::Client, &client.id);
        let mut lock = self.store.lock(&id).await?;
        save(&mut *lock, &FacadeClient { used_at: now, ..client.clone() }).await
    }

    pub(super) fn document(&self, id: &str, now: u64) -> Option<FacadeClient> {
        let documents = lock(&self.documents);
        documents.get(id).filter(|(_, until)| now < *until).map(|(client, _)| client.clone())
    }

    pub(super) fn keep_document(&self, client: &FacadeClient, until: u64, now: u64) {
        let mut documents = lock(&self.documents);
        if documents.len() >= MAX_DOCUMENTS {
            documents.retain(|_, (_, until)| now < *until);
        }
        if documents.len() < MAX_DOCUMENTS {
            documents.insert(client.id.clone(), (client.clone(), until));
        }
    }

    /// Remembers a visitor until they come back with the `state` of their visit.
    pub(super) fn wait_for(
        &self,
        request: AuthorizationRequest,
        visit: IdpVisit,
        browser: String,
        now: u64,
    ) -> Result<(), FacadeError> {
        let mut pending = lock(&self.pending);
        if pending.len() >= MAX_PENDING {
            pending.retain(|_, it| now <= it.until);
        }
        if pending.len() >= MAX_PENDING {
            return Err(FacadeError::Full("people who sign in"));
        }
        let (state, until) = (visit.state().reveal().to_owned(), now + PENDING_LIFE);
        pending.insert(state, PendingVisitor { request, visit, browser, until });
        Ok(())
    }

    /// The visitor who comes back, once, and only in the browser that they left with (OS-5).
    pub(super) fn welcome(&self, state: &str, browser: &str, now: u64) -> Option<PendingVisitor> {
        let mut pending = lock(&self.pending);
        let is_theirs = is_same(&pending.get(state)?.browser, browser);
        if !is_theirs {
            return None;
        }
        pending.remove(state).filter(|it| now <= it.until)
    }

    pub(super) async fn add_grant(
        &self,
        name: &str,
        grant: &StoredGrant,
    ) -> Result<(), FacadeError> {
        if self.grants.load(Ordering::Relaxed) >= MAX_GRANTS {
            return Err(FacadeError::Full("people who are signed in"));
        }
        self.grants.fetch_add(1, Ordering::Relaxed);
        let id = id(RecordKind::Grant, name);
        let mut lock = self.store.lock(&id).await?;
        save(&mut *lock, grant).await
    }

    /// A grant, if there is one of this name.
    pub(super) async fn grant(&self, name: &str) -> Result<Option<LockedGrant>, FacadeError> {
        let id = id(RecordKind::Grant, name);
        // Most names that are made up end here.
        if self.store.read(&id).await?.is_none() {
            return Ok(None);
        }
        let lock = self.store.lock(&id).await?;
        let grant = parse(lock.read().await?)?;
        Ok(grant.map(|grant| LockedGrant { lock, grant }))
    }

    pub(super) async fn remove(&self, mut grant: LockedGrant) -> Result<(), FacadeError> {
        grant.lock.remove().await?;
        self.grants.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Forgets what nobody uses any more.
    pub(super) async fn sweep(&self, now: u64) -> Result<(), FacadeError> {
        for name in self.store.list(RecordKind::Grant).await? {
            if let Some(grant) = self.grant(&name).await?
                && grant.grant.is_over(now)
            {
                self.remove(grant).await?;
            }
        }
        for name in self.store.list(RecordKind::Client).await? {
            let is_unused = |it: &FacadeClient| now > it.used_at.saturating_add(CLIENT_IDLE);
            if self.client(&name).await?.is_some_and(|it| is_unused(&it)) {
                let id = id(RecordKind::Client, &name);
                self.store.lock(&id).await?.remove().await?;
                self.clients.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let (grants, clients) =
            (self.store.list(RecordKind::Grant).await?, self.store.list(RecordKind::Client).await?);
        self.grants.store(grants.len(), Ordering::Relaxed);
        self.clients.store(clients.len(), Ordering::Relaxed);
        Ok(())
    }
}

impl LockedGrant {
    pub(super) async fn save(&mut self) -> Result<(), FacadeError> {
        save(&mut *self.lock, &self.grant).await
    }
}
