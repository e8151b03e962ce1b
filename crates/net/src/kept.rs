//! Messages of clients that are kept for as long as their sessions live.
//!
//! A greeting and a log level are repeated to servers that the client calls later. They
//! have a bound of their own, and are copied: the text of a request is charged to its
//! sender until the last part of it is dropped, which would be the end of the session.

use bytes::Bytes;
use switchboard_proto::jsonrpc::{self, Incoming, InvalidMessage, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;

/// The largest message that is kept. Honest ones have a few kilobytes.
const MOST: usize = 256 << 10;

/// Reads what a client sent, so that any message of it may be kept.
pub(crate) fn parse(text: Bytes) -> Result<Incoming, InvalidMessage> {
    Ok(match jsonrpc::parse(text)? {
        Incoming::One(message) => Incoming::One(keepable(message)?),
        Incoming::Batch(batch) => {
            let keepable = |one: Result<_, _>| one.and_then(keepable);
            Incoming::Batch(batch.into_iter().map(keepable).collect())
        }
    })
}

fn keepable(message: Message) -> Result<Message, InvalidMessage> {
    if !matches!(message.method(), method::INITIALIZE | method::SET_LEVEL) {
        return Ok(message);
    }
    if message.text().len() > MOST {
        let why = Refusal::TooLarge { limit: MOST };
        return Err(InvalidMessage { id: message.id().cloned(), why });
    }
    jsonrpc::parse_one(Bytes::copy_from_slice(message.text()))
}
