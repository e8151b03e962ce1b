//! Calls of modern clients that wait until their client comes back with input.
//!
//! The halves do the waiting. `Parking` keeps their client connections alive, closes
//! rounds of questions, and gives up on clients that do not come back.
//!
//! [`Sealer`] encrypts what a client carries back to us, so that it can neither be
//! read nor made up (MRTR-8). A sealed state names a parked call: which client, which
//! exchange, which round, until when. It is bound to the principal that it was given to.
//! The key lives and dies with the process, and so do the calls it names. Replicas of one
//! gateway share a key: then a state also names the replica where its call is parked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use switchboard_proto::Table;
use switchboard_proto::cluster::ReplicaId;
use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::limits::Limits;
use switchboard_proto::refusal::Refusal;
use tokio::task::JoinSet;

#[cfg(feature = "client")]
use crate::cluster::key::ClusterKey;
use crate::connection::{ClientConnection, lock};
use crate::drive::{OwnedTask, now};
use crate::seal::{KEY_LENGTH, SealingKey};
use crate::secret::hex_digest;

/// How long a round stays open for the next question, if some come close together: a
/// busy server takes this long to write it, and nobody who is asked notices.
const GATHER: Duration = Duration::from_millis(20);

/// How often it stays open for one more.
const MOST_GATHERS: usize = 10;

/// How often somebody looks for clients that did not come back.
const SWEEP: Duration = Duration::from_secs(1);

/// A call to go on with, and the round that its client was asked in.
pub(crate) type ParkedCall = (Arc<ClientConnection>, (Exchange, u32));

/// The calls that wait at one endpoint.
#[derive(Debug)]
pub(crate) struct Parking {
    /// None only if the system had no randomness for a key: then nothing is parked.
    sealer: Option<Sealer>,
    most: AtomicUsize,
    patience: Duration,
    waiting: Mutex<WaitingCalls>,
    /// Whoever may park here, by number, as long as they are there.
    here: Mutex<Table<u64, Weak<ClientConnection>>>,
}

#[derive(Debug, Default)]
struct WaitingCalls {
    clients: Table<u64, Arc<ClientConnection>>,
    /// The task that gives up on late clients, while calls wait here.
    sweeping: Option<OwnedTask>,
    /// The tasks that wait for further questions of a round.
    gathering: JoinSet<()>,
}

impl Parking {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Self::sealed_by(limits, Sealer::new(now()).ok())
    }

    /// The same with a sealer of its owner's.
    pub(crate) fn sealed_by(limits: &Limits, sealer: Option<Sealer>) -> Arc<Self> {
        let (most, patience) = (AtomicUsize::new(limits.parked), limits.park);
        let (waiting, here) = (Mutex::default(), Mutex::default());
        Arc::new(Self { sealer, most, patience, waiting, here })
    }

    /// A client may park here from now on.
    pub(crate) fn enter(&self, client: &Arc<ClientConnection>) {
        lock(&self.here).insert(client.number(), Arc::downgrade(client));
    }

    /// It is gone.
    pub(crate) fn leave(&self, number: u64) {
        lock(&self.here).remove(&number);
    }

    /// Whoever may park here, whether a call of theirs does or not.
    pub(crate) fn clients(&self) -> Vec<Arc<ClientConnection>> {
        lock(&self.here).values().filter_map(Weak::upgrade).collect()
    }

    /// Takes so many from here on; those that wait go on waiting.
    pub(crate) fn bound(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Whether one more call of this client can wait: over HTTP each has one, and
    /// whoever has more has a parking of its own.
    pub(crate) fn has_room(&self, client: &ClientConnection) -> bool {
        let most = self.most.load(Ordering::Relaxed);
        let mut waiting = lock(&self.waiting);
        if waiting.clients.len() >= most {
            // Some may be back, and not swept yet.
            waiting.clients.retain(|_, client| client.parked() > 0);
        }
        let principal = client.principal();
        let of_theirs = |other: &&Arc<ClientConnection>| other.principal() == principal;
        // Whoever is somebody leaves a quarter of the places to others.
        let has_share = principal.is_empty()
            || waiting.clients.values().filter(of_theirs).count() < most - most / 4;
        self.sealer.is_some() && waiting.clients.len() < most && client.parked() < most && has_share
    }

    /// How many clients are waited for.
    pub(crate) fn len(&self) -> usize {
        lock(&self.waiting).clients.values().map(|client| client.parked()).sum()
    }

    /// The call that a request goes on with, if it brings a state that we gave
    /// to this principal.
    pub(crate) fn claim(
        &self,
        request: &Message,
        principal: &[u8],
    ) -> Result<Option<ParkedCall>, Refusal> {
        let state = request.string(Member::RequestState);
        let (Some(state), Some(sealer)) = (state, &self.sealer) else { return Ok(None) };
        if !sealer.is_ours(&state) {
            return Ok(None);
        }
        let call = sealer.open(&state, principal, now());
        let call = call.filter(|call| call.owner == sealer.replica).ok_or(Refusal::BadState)?;
        let client = lock(&self.waiting).clients.get(&call.client).cloned();
        Ok(Some((client.ok_or(Refusal::BadState)?, (call.exchange, call.round))))
    }

    /// Whether a text may have a state of ours in it.
    #[cfg(feature = "client")]
    pub(crate) fn may_be_retry(&self, text: &[u8]) -> bool {
        let has = |mark: &str| text.windows(mark.len()).any(|part| part == mark.as_bytes());
        self.sealer.as_ref().is_some_and(|sealer| sealer.keys.iter().any(|(mark, _)| has(mark)))
    }

    /// The replica where the call is parked that a request goes on with.
    #[cfg(feature = "client")]
    pub(crate) fn owner(&self, request: &Message, principal: &[u8]) -> Option<ReplicaId> {
        let state = request.string(Member::RequestState)?;
        self.sealer.as_ref()?.open(&state, principal, now())?.owner
    }

    /// Once the questions of a call have been gathered, answers it with them, and keeps its
    /// connection.
    pub(crate) fn gather(self: &Arc<Self>, client: &Arc<ClientConnection>, round: (Exchange, u32)) {
        let mut gathered = client.questions(round);
        let (parking, asked) = (Arc::downgrade(self), Arc::downgrade(client));
        let mut waiting = lock(&self.waiting);
        while waiting.gathering.try_join_next().is_some() {}
        waiting.gathering.spawn(async move {
            for _ in 0..MOST_GATHERS {
                tokio::time::sleep(GATHER).await;
                let Some(client) = asked.upgrade() else { return };
                let before = std::mem::replace(&mut gathered, client.questions(round));
                if gathered <= before {
                    break;
                }
            }
            let (Some(this), Some(client)) = (parking.upgrade(), asked.upgrade()) else { return };
            let (until, (exchange, number)) = (now() + this.patience, round);
            let sealer = this.sealer.as_ref();
            let owner = sealer.and_then(|sealer| sealer.replica);
            let call =
                SealedCall { client: client.number(), exchange, round: number, until, owner };
            let state = sealer.and_then(|sealer| sealer.seal(call, client.principal()));
            let Some(state) = state else { return };
            // Nobody sweeps in between: who is told to come back is there to be found.
            let mut waiting = lock(&this.waiting);
            client.close_round(round, &state, until);
            if client.parked() > 0 {
                waiting.sweeping.get_or_insert_with(|| OwnedTask::spawn(sweep(parking)));
                waiting.clients.insert(client.number(), client);
            }
        });
    }

    /// Ends the calls of those who may not stay: the ones that are open, and the ones
    /// that wait for their client.
    pub(crate) fn give_up_unless(&self, stays: impl Fn(&ClientConnection) -> bool) {
        for client in self.clients().iter().filter(|client| !stays(client)) {
            client.give_up(&Refusal::KeyRemoved).detach();
            lock(&self.waiting).clients.remove(&client.number());
        }
    }

    /// Gives up on who is late, and lets go of client connections that wait for nobody.
    fn give_up_late(&self) {
        let clients: Vec<_> = lock(&self.waiting).clients.values().cloned().collect();
        for client in clients {
            // Not under the lock: the backend is told, and may ask for more.
            client.give_up_parked();
            let mut waiting = lock(&self.waiting);
            if client.parked() == 0 {
                waiting.clients.remove(&client.number());
            }
        }
    }
}

/// Looks after the calls that wait until none is left, or the parking is gone.
async fn sweep(parking: Weak<Parking>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(parking) = parking.upgrade() else { return };
        parking.give_up_late();
        let mut waiting = lock(&parking.waiting);
        if waiting.clients.is_empty() {
            waiting.sweeping = None;
            return;
        }
    }
}

/// What a state begins with that we, or a server like us, made.
const MARK: &str = "sb1.";

/// The same, with what tells one sealer from another.
fn mark(name: [u8; 8]) -> String {
    format!("{MARK}{:016x}.", u64::from_be_bytes(name))
}

/// The call that a state names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct SealedCall {
    client: u64,
    exchange: Exchange,
    round: u32,
    until: Instant,
    /// Where it is parked, if there are several replicas.
    owner: Option<ReplicaId>,
}

/// Makes and opens states.
#[derive(Debug)]
pub struct Sealer {
    /// Each with what a state of this sealer begins with; another's passes it by, for
    /// there may be a server like us behind us. The first seals, and all of them open.
    keys: Vec<(String, SealingKey)>,
    /// Instants are sealed as distances from here.
    start: Instant,
    /// What the start is called, in milliseconds.
    epoch: u64,
    replica: Option<ReplicaId>,
}

impl Sealer {
    /// A sealer with a key nobody else has.
    pub fn new(now: Instant) -> Result<Self, getrandom::Error> {
        let (mut key, mut name) = ([0; KEY_LENGTH], [0; 8]);
        getrandom::fill(&mut key)?;
        getrandom::fill(&mut name)?;
        let keys = vec![(mark(name), SealingKey::new(&key))];
        Ok(Self { keys, start: now, epoch: 0, replica: None })
    }

    /// A sealer whose states open at every replica that has the key, for the same purpose.
    #[cfg(feature = "client")]
    pub fn shared(key: &ClusterKey, replica: ReplicaId, purpose: &str) -> Self {
        let (marks, states) = (format!("mark of states: {purpose}"), format!("states: {purpose}"));
        let keys = key.derive(&marks).zip(key.derive(&states));
        let keys = keys.map(|(name, key)| {
            let name = name.first_chunk().expect("a key is longer than a mark");
            (mark(*name), SealingKey::new(&key))
        });
        let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let epoch = u64::try_from(epoch.as_millis()).unwrap_or(u64::MAX);
        Self { keys: keys.collect(), start: now(), epoch, replica: Some(replica) }
    }

    /// A sealer that opens what another one with the same key has sealed.
    pub fn with_key(key: &[u8; KEY_LENGTH], now: Instant) -> Self {
        let mark = format!("{MARK}{}.", &hex_digest(key)[..16]);
        Self { keys: vec![(mark, SealingKey::new(key))], start: now, epoch: 0, replica: None }
    }

    /// Whether this looks like something of ours.
    pub fn is_ours(&self, state: &str) -> bool {
        self.keys.iter().any(|(mark, _)| state.starts_with(mark))
    }

    /// Whether this looks like something that any sealer has made.
    pub(crate) fn is_sealed(state: &str) -> bool {
        state.starts_with(MARK)
    }

    /// Seals the name of a call for `principal`. None if the system has no randomness left.
    fn seal(&self, call: SealedCall, principal: &[u8]) -> Option<String> {
        let until = call.until.saturating_duration_since(self.start).as_millis();
        let until = u128::from(self.epoch) + until;
        let mut text = format!("{} {} {} {until}", call.client, call.exchange.0, call.round);
        if let Some(ReplicaId(owner)) = call.owner {
            text = format!("{text} {owner}");
        }
        self.seal_bytes(text.as_bytes(), principal)
    }

    /// Seals anything for `principal`. None if the system has no randomness left.
    pub fn seal_bytes(&self, text: &[u8], principal: &[u8]) -> Option<String> {
        let (mark, key) = self.keys.first()?;
        let whole = key.seal(text, principal).ok()?;
        Some(format!("{mark}{}", URL_SAFE_NO_PAD.encode(whole)))
    }

    /// Opens what `principal` brought. None if it is not a state that we gave to this client,
    /// or not any more.
    fn open(&self, state: &str, principal: &[u8], now: Instant) -> Option<SealedCall> {
        let text = String::from_utf8(self.open_bytes(state, principal)?).ok()?;
        let mut numbers = text.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (client, exchange) = (next()?, Exchange(next()?));
        let round = u32::try_from(next()?).ok()?;
        let until = Duration::from_millis(next()?.checked_sub(self.epoch)?);
        let until = self.start.checked_add(until)?;
        let owner = next().and_then(|owner| u32::try_from(owner).ok()).map(ReplicaId);
        (until > now).then_some(SealedCall { client, exchange, round, until, owner })
    }

    /// Opens what [`Sealer::seal_bytes`] has sealed for `principal`.
    pub fn open_bytes(&self, state: &str, principal: &[u8]) -> Option<Vec<u8>> {
        let (text, key) = self
            .keys
            .iter()
            .find_map(|(mark, key)| Some((state.strip_prefix(mark.as_str())?, key)))?;
        key.open(URL_SAFE_NO_PAD.decode(text).ok()?, principal)
    }
}

#[cfg(test)]
mod tests;
