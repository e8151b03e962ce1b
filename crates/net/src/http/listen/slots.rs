//! The bounds on open connections, and the next one that there is a place for.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ListenOptions;
use crate::connection::lock;
use crate::drive::{Either, race};

/// The bounds on open connections: so many in all, a share of them for each address,
/// and a few more for health checks.
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    max: usize,
    max_each: usize,
    each: SlotCounts,
    /// Whether it was told that all are taken, since one was free.
    told: AtomicBool,
}

/// Open connections by address.
type SlotCounts = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// The place of one connection, free again when it is dropped.
pub(super) struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
    /// None if it is one of the reserve, which does not count for its address.
    counted: Option<(SlotCounts, IpAddr)>,
}

impl ConnectionSlot {
    /// Whether it may only ask for the paths that the reserve is for.
    pub(super) fn is_reserve(&self) -> bool {
        self.counted.is_none()
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let Some((each, address)) = &self.counted else { return };
        let mut each = lock(each);
        let Some(open) = each.get_mut(address) else { return };
        *open -= 1;
        if *open == 0 {
            each.remove(address);
        }
    }
}

impl ConnectionSlots {
    pub(super) fn new(options: &ListenOptions) -> Self {
        let max = options.max_connections;
        let reserve = if options.reserve_paths.is_empty() { 0 } else { options.reserve };
        Self {
            free: Arc::new(Semaphore::new(max)),
            reserve: Arc::new(Semaphore::new(reserve)),
            max,
            max_each: options.max_per_address.unwrap_or(max - max / 4).max(1),
            each: Arc::default(),
            told: AtomicBool::new(false),
        }
    }

    pub(super) fn taken(&self) -> usize {
        self.max - self.free.available_permits()
    }

    /// The next connection that there is a place for. Never gives up.
    pub(super) async fn accept(&self, listener: &TcpListener) -> (TcpStream, ConnectionSlot) {
        loop {
            self.has_place().await;
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) if is_peers_fault(&error) => continue,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections, pausing");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(slot) = self.take(network(peer.ip())) else {
                tracing::debug!(%peer, "one address has all the connections that it may have");
                continue;
            };
            // Answers are small and whole; waiting for more to send only delays them.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "no TCP_NODELAY");
            }
            return (stream, slot);
        }
    }

    /// Waits until a connection may be taken.
    async fn has_place(&self) {
        if self.free.available_permits() > 0 {
            self.told.store(false, Ordering::Relaxed);
            return;
        }
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(max = self.max, "all connection slots are taken");
        }
        // One that is there is not kept: which it is, the peer's address says.
        let (Either::Left(place) | Either::Right(place)) =
            race(self.free.acquire(), self.reserve.acquire()).await;
        drop(place);
    }

    fn take(&self, address: IpAddr) -> Option<ConnectionSlot> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            let mut each = lock(&self.each);
            let open = each.entry(address).or_default();
            if *open < self.max_each {
                *open += 1;
                let counted = Some((Arc::clone(&self.each), address));
                return Some(ConnectionSlot { _permit: permit, counted });
            }
        }
        let permit = Arc::clone(&self.reserve).try_acquire_owned().ok()?;
        Some(ConnectionSlot { _permit: permit, counted: None })
    }
}

/// What counts as one address: whoever has one of version 6 has 2^64 of them.
pub(in crate::http) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Whether the connection failed, not the listener: no reason to pause.
fn is_peers_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Long enough for descriptors to be freed, short enough to go unnoticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failed_listener_makes_us_pause() {
        let aborted = io::Error::from(io::ErrorKind::ConnectionAborted);
        let too_many_files = io::Error::from_raw_os_error(24);
        assert!(is_peers_fault(&aborted));
        assert!(!is_peers_fault(&too_many_files));
    }

    #[test]
    fn addresses_of_one_network_share_their_connections() {
        let options = ListenOptions {
            max_connections: 8,
            reserve: 1,
            reserve_paths: vec!["/healthz".to_owned()],
            ..ListenOptions::default()
        };
        let slots = ConnectionSlots::new(&options);
        let take = |address: &str| slots.take(network(address.parse().unwrap()));
        let mut taken: Vec<_> = (0..6).map(|n| take(&format!("2001:db8::{n}"))).collect();
        assert!(taken.iter().flatten().all(|slot| !slot.is_reserve()) && taken.len() == 6);
        assert!(take("2001:db8::7").is_some_and(|slot| slot.is_reserve()));
        taken.push(take("2001:db8:0:1::1"));
        taken.push(take("::ffff:192.0.2.1"));
        assert!(taken.iter().flatten().all(|slot| !slot.is_reserve()));
        let last = take("192.0.2.2");
        assert!(last.as_ref().is_some_and(ConnectionSlot::is_reserve), "all are taken");
        assert!(take("192.0.2.3").is_none());
        drop((taken, last));
        assert!(lock(&slots.each).is_empty() && slots.taken() == 0);
    }
}
