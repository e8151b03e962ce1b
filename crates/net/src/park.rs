//! Where calls of modern clients wait for their client to come back with input.
//!
//! The halves do the waiting; this keeps their client connections alive, seals what the
//! clients carry, closes rounds, and gives up on who does not come back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::limits::Limits;
use switchboard_proto::refusal::Refusal;

use crate::connection::{ClientConnection, lock, now};
use crate::drive::OwnedTask;
use crate::seal::{Sealer, Token};

/// How long a round stays open for the next question, if some come close together: a
/// busy server takes this long to write it, and nobody who is asked notices.
const GATHER: Duration = Duration::from_millis(20);

/// How often it stays open for one more.
const MOST_GATHERS: usize = 10;

/// How often somebody looks for clients that did not come back.
const SWEEP: Duration = Duration::from_secs(1);

/// A call to go on with, and the round that its client was asked in.
pub(crate) type Parked = (Arc<ClientConnection>, (Exchange, u32));

/// The calls that wait at one endpoint.
#[derive(Debug)]
pub(crate) struct Parking {
    /// None only if the system had no randomness for a key: then nothing is parked.
    sealer: Option<Sealer>,
    most: AtomicUsize,
    patience: Duration,
    lot: Mutex<Lot>,
    /// Whoever may park here, by number, as long as they are there.
    here: Mutex<HashMap<u64, Weak<ClientConnection>>>,
}

#[derive(Debug, Default)]
struct Lot {
    clients: HashMap<u64, Arc<ClientConnection>>,
    /// The task that gives up on late clients, while calls wait here.
    sweeping: Option<OwnedTask>,
}

impl Parking {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let sealer = Sealer::new(now()).ok();
        let (most, patience) = (AtomicUsize::new(limits.parked), limits.park);
        let (lot, here) = (Mutex::default(), Mutex::default());
        Arc::new(Self { sealer, most, patience, lot, here })
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
    /// whoever has more has a lot of its own.
    pub(crate) fn has_room(&self, client: &ClientConnection) -> bool {
        let most = self.most.load(Ordering::Relaxed);
        let mut lot = lock(&self.lot);
        if lot.clients.len() >= most {
            // Some may be back, and not swept yet.
            lot.clients.retain(|_, client| client.parked() > 0);
        }
        let principal = client.principal();
        let of_theirs = |other: &&Arc<ClientConnection>| other.principal() == principal;
        // Whoever is somebody leaves a quarter of the places to others.
        let has_share = principal.is_empty()
            || lot.clients.values().filter(of_theirs).count() < most - most / 4;
        self.sealer.is_some() && lot.clients.len() < most && client.parked() < most && has_share
    }

    /// How many clients are waited for.
    pub(crate) fn len(&self) -> usize {
        lock(&self.lot).clients.values().map(|client| client.parked()).sum()
    }

    /// The call that a request goes on with, if it brings a state that we gave
    /// to this principal.
    pub(crate) fn claim(
        &self,
        request: &Message,
        principal: &[u8],
    ) -> Result<Option<Parked>, Refusal> {
        let state = request.string(Member::RequestState);
        let (Some(state), Some(sealer)) = (state, &self.sealer) else { return Ok(None) };
        if !sealer.is_ours(&state) {
            return Ok(None);
        }
        let token = sealer.open(&state, principal, now()).map_err(|_| Refusal::BadState)?;
        let client =
            lock(&self.lot).clients.get(&token.client).cloned().ok_or(Refusal::BadState)?;
        Ok(Some((client, (token.exchange, token.round))))
    }

    /// Puts the questions of a call to its client, once they have been gathered.
    pub(crate) fn gather(
        self: &Arc<Self>,
        client: &Arc<ClientConnection>,
        exchange: Exchange,
        round: u32,
    ) {
        let parking = Arc::clone(self);
        let mut gathered = client.questions((exchange, round));
        let waiting = Arc::downgrade(client);
        // Short enough to need no owner, and ends when nobody waits for the call.
        tokio::spawn(async move {
            for _ in 0..MOST_GATHERS {
                tokio::time::sleep(GATHER).await;
                let Some(client) = waiting.upgrade() else { return };
                let before = std::mem::replace(&mut gathered, client.questions((exchange, round)));
                if gathered <= before {
                    break;
                }
            }
            if let Some(client) = waiting.upgrade() {
                parking.park(&client, (exchange, round));
            }
        });
    }

    /// Answers a call with its questions, and keeps its connection. Nobody sweeps in
    /// between: who is told to come back is there to be found.
    fn park(self: &Arc<Self>, client: &Arc<ClientConnection>, (exchange, round): (Exchange, u32)) {
        let until = now() + self.patience;
        let token = Token { client: client.number(), exchange, round, until };
        let sealer = self.sealer.as_ref();
        let state = sealer.and_then(|sealer| sealer.seal(token, client.principal()));
        let Some(state) = state else { return };
        let mut lot = lock(&self.lot);
        client.close_round((exchange, round), &state, until);
        if client.parked() == 0 {
            return;
        }
        lot.clients.insert(client.number(), Arc::clone(client));
        lot.sweeping.get_or_insert_with(|| OwnedTask::spawn(sweep(Arc::downgrade(self))));
    }

    /// Ends the calls of those who may not stay: the ones that are open, and the ones
    /// that wait for their client.
    pub(crate) fn give_up_unless(&self, stays: impl Fn(&ClientConnection) -> bool) {
        for client in self.clients().iter().filter(|client| !stays(client)) {
            client.give_up(&Refusal::KeyRemoved).detach();
            lock(&self.lot).clients.remove(&client.number());
        }
    }

    /// Gives up on who is late, and lets go of client connections that wait for nobody.
    fn give_up_late(&self) {
        let clients: Vec<_> = lock(&self.lot).clients.values().cloned().collect();
        for client in clients {
            // Not under the lock: the backend is told, and may ask for more.
            client.give_up_parked();
            let mut lot = lock(&self.lot);
            if client.parked() == 0 {
                lot.clients.remove(&client.number());
            }
        }
    }
}

/// Looks after the lot until it is empty or gone.
async fn sweep(parking: Weak<Parking>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(parking) = parking.upgrade() else { return };
        parking.give_up_late();
        let mut lot = lock(&parking.lot);
        if lot.clients.is_empty() {
            lot.sweeping = None;
            return;
        }
    }
}

#[cfg(test)]
mod tests;
