//! What the facade remembers: in the store what must survive a restart, in memory what lives
//! for minutes.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use switchboard_net::auth::jws::SignError;
use switchboard_net::auth::store::{RecordKind, RecordLock, RecordStore, StoreError};
use switchboard_net::http::fetch::SetupError;
use switchboard_proto::Table;

use super::assertion::OneTime;
use super::client::FacadeClient;
use super::grant::{StoredGrant, hash};
use super::pending::PendingVisitor;
use super::record::{RecordEntry, RecordIndex, id, look_at, parse, save};
use crate::lock;

/// Clients that are registered. A store in memory has room for as many grants beside them.
const MAX_CLIENTS: usize = 4000;
/// Grants of all people together.
const MAX_GRANTS: usize = 10_000;
/// Grants of one person. The oldest makes room.
const GRANTS_PER_PERSON: usize = 50;
/// Client metadata documents that are kept.
const MAX_DOCUMENTS: usize = 1000;
/// Addresses whose requests are counted.
const MAX_ADDRESSES: usize = 4096;
/// Registrations of one address in a minute.
pub(super) const MOST_REGISTRATIONS: u32 = 20;
/// Sign-ins that are begun from one address in a minute: a proxy may have all people behind it.
pub(super) const MOST_SIGN_INS: u32 = 300;
/// Metadata documents of clients that one address may have read in a minute.
pub(super) const MOST_DOCUMENTS: u32 = 60;
/// Assertions of one kind that were used and are still good, and those of one client.
const MAX_USED: usize = 10_000;
const USED_PER_CLIENT: usize = 1000;
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
    /// TLS cannot be set up.
    #[error("the facade cannot ask for metadata documents of clients: {0}")]
    Setup(#[from] SetupError),
    /// There is no room.
    #[error("there are too many {0}")]
    Full(&'static str),
}

/// Who counts as one address. Whoever has an address of IPv6 has all of its network; addresses
/// that are not known count as one.
pub(super) fn network(address: Option<IpAddr>) -> IpAddr {
    match address.map(|address| address.to_canonical()) {
        None => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        Some(IpAddr::V6(address)) => {
            IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into())
        }
        Some(address) => address,
    }
}

/// Hashes of assertions that were used, each with the client that brought it, and the time until
/// which it is good.
#[derive(Default)]
pub(super) struct UsedAssertions(Mutex<Table<String, (String, u64)>>);

impl UsedAssertions {
    /// Whether an assertion is used for the first time. Nobody can tell if there is no room.
    pub(super) fn use_once(
        &self,
        client: &str,
        once: &OneTime,
        now: u64,
    ) -> Result<bool, FacadeError> {
        let mut used = lock(&self.0);
        if used.len() >= USED_PER_CLIENT {
            used.retain(|_, (_, until)| now <= *until);
            let own = used.values().filter(|(owner, _)| owner == client).count();
            if own >= USED_PER_CLIENT || used.len() >= MAX_USED {
                return Err(FacadeError::Full("assertions"));
            }
        }
        Ok(used.insert(hash(&once.id), (client.to_owned(), once.until)).is_none())
    }
}

/// All that is remembered.
pub(super) struct FacadeState {
    store: Arc<dyn RecordStore>,
    clients: RecordIndex,
    grants: RecordIndex,
    pub(super) pending: Mutex<Table<String, PendingVisitor>>,
    documents: Mutex<Table<String, (FacadeClient, u64)>>,
    /// What clients have shown of themselves, and what issuers have said of people.
    pub(super) client_assertions: UsedAssertions,
    pub(super) id_jags: UsedAssertions,
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
        let state = Self {
            store,
            clients: RecordIndex::default(),
            grants: RecordIndex::default(),
            pending: Mutex::default(),
            documents: Mutex::default(),
            client_assertions: UsedAssertions::default(),
            id_jags: UsedAssertions::default(),
            rates: Mutex::default(),
        };
        for name in state.store.list(RecordKind::Client).await? {
            if let Some(client) = look_at(state.client(&name).await, &name) {
                state.clients.note(&name, &client.entry());
            }
        }
        for name in state.store.list(RecordKind::Grant).await? {
            let found = parse(state.store.read(&id(RecordKind::Grant, &name)).await?);
            if let Some(grant) = look_at::<StoredGrant>(found, &name) {
                state.grants.note(&name, &grant.entry());
            }
        }
        Ok(state)
    }

    /// The grants that were ended, while tokens of theirs may be good.
    pub(super) fn ended_grants(&self) -> Vec<String> {
        self.grants.names(|entry| entry.is_ended)
    }

    pub(super) fn store(&self) -> &dyn RecordStore {
        &*self.store
    }

    /// Whether an address may do one more thing that costs us something (OS-9).
    pub(super) fn may_act(&self, address: Option<IpAddr>, most: u32, now: u64) -> bool {
        let (minute, mut rates) = (now / 60, lock(&self.rates));
        let address = (network(address), most);
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

    /// Registers a client. If there is no room, the oldest registration goes that never got
    /// tokens.
    pub(super) async fn add_client(&self, client: &FacadeClient) -> Result<(), FacadeError> {
        let entry = client.entry();
        if !self.clients.add(&client.id, &entry, MAX_CLIENTS) {
            let unused = self.clients.oldest(|entry| entry.is_unused).map(|(name, _)| name);
            let Some(unused) = unused else { return Err(FacadeError::Full("registered clients")) };
            self.remove_client(&unused).await?;
            if !self.clients.add(&client.id, &entry, MAX_CLIENTS) {
                return Err(FacadeError::Full("registered clients"));
            }
        }
        let saved = async {
            let mut lock = self.store.lock(&id(RecordKind::Client, &client.id)).await?;
            save(&mut *lock, client).await
        };
        let saved = saved.await;
        if saved.is_err() {
            self.clients.forget(&client.id);
        }
        saved
    }

    async fn remove_client(&self, name: &str) -> Result<(), FacadeError> {
        self.store.lock(&id(RecordKind::Client, name)).await?.remove().await?;
        self.clients.forget(name);
        Ok(())
    }

    pub(super) async fn client(&self, name: &str) -> Result<Option<FacadeClient>, FacadeError> {
        parse(self.store.read(&id(RecordKind::Client, name)).await?)
    }

    /// A client has got tokens: its registration is kept. If that fails, it has them anyway.
    pub(super) async fn note_use(&self, client: &FacadeClient, now: u64) {
        let is_noted = !client.is_unused() && now < client.used_at.saturating_add(86_400);
        let Some(registered) = client.registered_at.filter(|_| !is_noted) else { return };
        let used = FacadeClient { used_at: now.max(registered + 1), ..client.clone() };
        let noted = async {
            let mut lock = self.store.lock(&id(RecordKind::Client, &client.id)).await?;
            save(&mut *lock, &used).await
        };
        match noted.await {
            Ok(()) => self.clients.note(&client.id, &used.entry()),
            Err(failed) => {
                tracing::warn!(client = client.id, "the use of a client is not noted: {failed}");
            }
        }
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

    pub(super) async fn add_grant(
        &self,
        name: &str,
        grant: &StoredGrant,
    ) -> Result<(), FacadeError> {
        let entry = grant.entry();
        if !self.grants.add(name, &entry, MAX_GRANTS) {
            return Err(FacadeError::Full("people who are signed in"));
        }
        let saved = async {
            let mut lock = self.store.lock(&id(RecordKind::Grant, name)).await?;
            save(&mut *lock, grant).await
        };
        let saved = saved.await;
        if saved.is_err() {
            self.grants.forget(name);
        }
        saved
    }

    /// The oldest grant of a person who has too many.
    pub(super) fn one_too_many(&self, grant: &StoredGrant) -> Option<String> {
        let subject = grant.entry().subject;
        let is_theirs = |it: &RecordEntry| it.subject == subject && !it.is_ended;
        let (oldest, count) = self.grants.oldest(is_theirs)?;
        (count > GRANTS_PER_PERSON).then_some(oldest)
    }

    /// A grant, if there is one of this name.
    pub(super) async fn grant(&self, name: &str) -> Result<Option<LockedGrant>, FacadeError> {
        Ok(self.locked(name).await?.filter(|found| !found.grant.entry().is_ended))
    }

    async fn locked(&self, name: &str) -> Result<Option<LockedGrant>, FacadeError> {
        let id = id(RecordKind::Grant, name);
        // Most names that are made up end here.
        if self.store.read(&id).await?.is_none() {
            return Ok(None);
        }
        let lock = self.store.lock(&id).await?;
        let grant = parse(lock.read().await?)?;
        Ok(grant.map(|grant| LockedGrant { lock, grant }))
    }

    /// Ends a grant. While tokens of it may be good, its record says so, for the next process.
    pub(super) async fn end(
        &self,
        name: &str,
        mut grant: LockedGrant,
        now: u64,
    ) -> Result<(), FacadeError> {
        if !grant.grant.end(now) {
            return self.remove(name, grant).await;
        }
        grant.save().await?;
        self.grants.note(name, &grant.grant.entry());
        Ok(())
    }

    async fn remove(&self, name: &str, mut grant: LockedGrant) -> Result<(), FacadeError> {
        grant.lock.remove().await?;
        self.grants.forget(name);
        Ok(())
    }

    /// Forgets what nobody uses any more.
    pub(super) async fn sweep(&self, now: u64) -> Result<(), FacadeError> {
        for name in self.store.list(RecordKind::Grant).await? {
            let found = self.locked(&name).await;
            let Some(grant) = look_at(found, &name) else { continue };
            if grant.grant.is_over(now) {
                self.remove(&name, grant).await?;
            } else {
                self.grants.note(&name, &grant.grant.entry());
            }
        }
        for name in self.store.list(RecordKind::Client).await? {
            let found = self.client(&name).await;
            let Some(client) = look_at(found, &name) else { continue };
            if now > client.used_at.saturating_add(CLIENT_IDLE) {
                self.remove_client(&name).await?;
            }
        }
        Ok(())
    }
}

impl LockedGrant {
    pub(super) async fn save(&mut self) -> Result<(), FacadeError> {
        save(&mut *self.lock, &self.grant).await
    }
}
