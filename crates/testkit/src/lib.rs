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

use std::time::Duration;

/// Bounds a test that would otherwise hang.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("in time")
}
