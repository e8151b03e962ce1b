//! Results as each revision wants them.
//!
//! A tool is written once, in the newest words; what an older client has never
//! heard of is put into words that it knows (GW-70).

use bytes::Bytes;
use switchboard_proto::patch;
use switchboard_proto::project;
use switchboard_proto::revision::Era;

use super::Server;
use super::error::Error;
use super::handler::Call;
use super::session::Caller;

pub use project::Cache;

impl Server {
    /// A result in the words of whoever made the call.
    pub(super) fn dress(
        &self,
        caller: &Caller,
        call: &Call,
        result: Bytes,
    ) -> Result<Bytes, Error> {
        let dressed = match caller.era() {
            Era::Modern => {
                project::modern(&result, call.method(), Some(&self.identity.text), self.cache)
            }
            Era::Legacy => project::legacy(result, call.method(), caller.revision()),
        };
        dressed.map_err(|_| Error::internal("the server made a result that is no JSON object"))
    }
}

/// A result that nobody is to keep: it came of answers to questions (MRTR-12).
pub(super) fn unkept(result: Bytes) -> Bytes {
    let result = patch::put(&result, &[], "ttlMs", b"0").unwrap_or(result);
    patch::put(&result, &[], "cacheScope", b"\"private\"").unwrap_or(result)
}
