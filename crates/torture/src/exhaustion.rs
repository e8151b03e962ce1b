//! Stub.
use crate::campaign::Campaign;
pub(crate) async fn run(_cx: &mut Campaign) {}
