//! Several replicas as one gateway: their key, their store, and the hops between them.
//!
//! What a store does is [`ModelStore`]; here is the way to one. [`ProcessStore`] is for several
//! gateways in one process, as tests have them. The one on Redis is in `switchboard-gateway`.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use switchboard_proto::cluster::command::{StoreCommand, StoreReply};
use switchboard_proto::cluster::model::ModelStore;

use crate::drive::now;

#[cfg(feature = "client")]
pub mod key;
#[cfg(feature = "client")]
pub mod replica;

/// The store did not answer in time, or not at all. What was sent may have been done.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the store of the cluster does not answer")]
pub struct StoreAway;

/// What comes of a pipeline: a reply for each command.
pub type StoreAnswer<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<StoreReply>, StoreAway>> + Send + 'a>>;

/// A store that several replicas share.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Does these, in this order, in one round trip.
    fn execute(&self, commands: Vec<StoreCommand>) -> StoreAnswer<'_>;

    /// How many connections it has had. After a new one, what was written last may be lost.
    fn connections(&self) -> u64 {
        1
    }
}

/// A store in the memory of this process.
#[derive(Debug, Default)]
pub struct ProcessStore {
    model: Mutex<ModelStore>,
}

impl Store for ProcessStore {
    fn execute(&self, commands: Vec<StoreCommand>) -> StoreAnswer<'_> {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now();
        let replies = commands.iter().map(|command| model.execute(now, command)).collect();
        Box::pin(async { Ok(replies) })
    }
}
