//! Calls of modern clients that wait until their client comes back with input.
//!
//! The halves do the waiting. `Parking` keeps their client connections alive, closes
//! rounds of questions, and gives up on clients that do not come back.
//!
//! [`Sealer`] encrypts what a client carries back to us, so that it can neither be
//! read nor made up (MRTR-8). A sealed state names a parked call: which client, which
//! exchange, which round, until when. It is bound to the principal that it was given to.
//! The key lives and dies with the process, and so do the calls it names.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use switchboard_proto::Table;
use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::limits::Limits;
use switchboard_proto::refusal::Refusal;
use tokio::task::JoinSet;

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
        let sealer = Sealer::new(now()).ok();
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
        let call = sealer.open(&state, principal, now()).ok_or(Refusal::BadState)?;
        let client = lock(&self.waiting).clients.get(&call.client).cloned();
        Ok(Some((client.ok_or(Refusal::BadState)?, (call.exchange, call.round))))
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
            let call = SealedCall { client: client.number(), exchange, round: number, until };
            let sealer = this.sealer.as_ref();
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

/// The call that a state names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct SealedCall {
    client: u64,
    exchange: Exchange,
    round: u32,
    until: Instant,
}

/// Makes and opens states.
#[derive(Debug)]
pub struct Sealer {
    key: SealingKey,
    /// What a state of this sealer begins with; another's passes it by, for
    /// there may be a server like us behind us.
    mark: String,
    /// Instants are sealed as distances from here.
    start: Instant,
}

impl Sealer {
    /// A sealer with a key nobody else has.
    pub fn new(now: Instant) -> Result<Self, getrandom::Error> {
        let (mut key, mut name) = ([0; KEY_LENGTH], [0; 8]);
        getrandom::fill(&mut key)?;
        getrandom::fill(&mut name)?;
        let mark = format!("{MARK}{:016x}.", u64::from_be_bytes(name));
        Ok(Self { key: SealingKey::new(&key), mark, start: now })
    }

    /// A sealer that opens what another one with the same key has sealed.
    pub fn with_key(key: &[u8; KEY_LENGTH], now: Instant) -> Self {
        let mark = format!("{MARK}{}.", &hex_digest(key)[..16]);
        Self { key: SealingKey::new(key), mark, start: now }
    }

    /// Whether this looks like something of ours.
    pub fn is_ours(&self, state: &str) -> bool {
        state.starts_with(&self.mark)
    }

    /// Whether this looks like something that any sealer has made.
    pub(crate) fn is_sealed(state: &str) -> bool {
        state.starts_with(MARK)
    }

    /// Seals the name of a call for `principal`. None if the system has no randomness left.
    fn seal(&self, call: SealedCall, principal: &[u8]) -> Option<String> {
        let until = call.until.saturating_duration_since(self.start).as_millis();
        let text = format!("{} {} {} {until}", call.client, call.exchange.0, call.round);
        self.seal_bytes(text.as_bytes(), principal)
    }

    /// Seals anything for `principal`. None if the system has no randomness left.
    pub fn seal_bytes(&self, text: &[u8], principal: &[u8]) -> Option<String> {
        let whole = self.key.seal(text, principal).ok()?;
        Some(format!("{}{}", self.mark, URL_SAFE_NO_PAD.encode(whole)))
    }

    /// Opens what `principal` brought. None if it is not a state that we gave to this client,
    /// or not any more.
    fn open(&self, state: &str, principal: &[u8], now: Instant) -> Option<SealedCall> {
        let text = String::from_utf8(self.open_bytes(state, principal)?).ok()?;
        let mut numbers = text.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (client, exchange) = (next()?, Exchange(next()?));
        let round = u32::try_from(next()?).ok()?;
        let until = self.start.checked_add(Duration::from_millis(next()?))?;
        (until > now).then_some(SealedCall { client, exchange, round, until })
    }

    /// Opens what [`Sealer::seal_bytes`] has sealed for `principal`.
    pub fn open_bytes(&self, state: &str, principal: &[u8]) -> Option<Vec<u8>> {
        let text = state.strip_prefix(&self.mark)?;
        self.key.open(URL_SAFE_NO_PAD.decode(text).ok()?, principal)
    }
}

#[cfg(test)]
mod tests;
