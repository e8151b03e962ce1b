//! Results as each revision wants them.
//!
//! A tool is written once, in the newest words; what an older client has never
//! heard of is put into words that it knows (GW-70).

use bytes::Bytes;
use switchboard_proto::jsonrpc::Part;
use switchboard_proto::revision::Era;
use switchboard_proto::{method, project};

use super::Server;
use super::error::Error;
use super::handler::Request;
use super::session::Caller;

pub use project::CacheHints;

impl Server {
    /// A result in the words of whoever made the call.
    pub(super) fn dress(
        &self,
        caller: &Caller,
        call: &Request,
        result: Bytes,
    ) -> Result<Bytes, Error> {
        let dressed = match caller.era() {
            Era::Modern => {
                project::modern(&result, call.method(), Some(&self.identity.text), self.cache)
            }
            Era::Legacy => {
                let wrapped = self.is_wrapped(call);
                project::legacy(result, call.method(), caller.revision(), wrapped)
            }
        };
        dressed.map_err(|_| Error::internal("the server made a result that is no JSON object"))
    }

    /// Whether a call, or the task that it asks for, is one of a tool whose
    /// output schema is listed inside another.
    fn is_wrapped(&self, call: &Request) -> bool {
        let text = |name| call.text(name).unwrap_or_default();
        match call.method() {
            method::CALL_TOOL => {
                self.catalog().tools.get(&text("name")).is_some_and(|it| it.is_wrapped())
            }
            method::TASK_RESULT => self.tasks.is_wrapped(&text("taskId")),
            _ => false,
        }
    }
}

/// A result that nobody is to keep: it came of answers to questions (MRTR-12).
pub(super) fn unkept(result: Bytes) -> Bytes {
    let result = Part::new(&result).with("ttlMs", b"0").unwrap_or(result);
    Part::new(&result).with("cacheScope", b"\"private\"").unwrap_or(result)
}
