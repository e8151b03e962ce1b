//! What our tests share.

pub mod bounds;
pub mod caller;
pub mod count;
pub mod http;
pub mod issuer;
pub mod script;
pub mod seeds;
pub mod source;
pub mod tidy;
pub mod wire;

use std::panic::Location;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Bounds a test that would otherwise hang, by the clock on the wall: paused time runs ahead
/// of sockets and processes when the machine is busy.
#[track_caller]
pub fn within<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    const LONG: Duration = Duration::from_secs(30);
    let caller = Location::caller();
    async move {
        let start = Instant::now();
        let mut future = pin!(future);
        loop {
            if let Ok(value) = tokio::time::timeout(LONG, future.as_mut()).await {
                return value;
            }
            assert!(start.elapsed() < LONG, "not within {LONG:?}: {caller}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A port that no other test uses at the time, below those that the system gives out.
///
/// # Panics
///
/// Never: the number is small.
pub fn own_port() -> u16 {
    static USED: AtomicU32 = AtomicU32::new(0);
    let number = std::process::id() * 16 + USED.fetch_add(1, Ordering::Relaxed);
    u16::try_from(11_000 + number % 16_000).expect("below 27,000")
}
