//! The server half: faces one client, whatever revision it speaks.
//!
//! [`classify`] tells by its first message which era a client speaks;
//! [`legacy::LegacyServerHalf`] and [`modern::ModernServerHalf`] are the two machines. Both are
//! told what arrived on which lane and hand out [`Frame`]s for lanes and
//! [`ClientEvent`] verbs for the backend; drain both after every call.

use bytes::Bytes;
use http::HeaderMap;

use crate::exchange::{Ask, ClientEvent, Exchange, Lane};
use crate::header;
use crate::jsonrpc::{Id, Incoming, InvalidMessage, Kind, Member, Message};
use crate::method::{self, meta};
use crate::refusal::Refusal;
use crate::replay::EventId;
use crate::revision::{Era, era_of};
use legacy::LegacyServerHalf;
use modern::ModernServerHalf;

pub mod legacy;
pub mod modern;

/// What to do on a lane next.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the field names say it")]
pub enum Frame {
    /// The whole answer: nothing came before it, nothing follows.
    Answer { status: u16, text: Bytes },
    /// Taken; there is no answer to wait for.
    Accepted,
    /// This begins a stream; more is to come.
    Begin { prime: Option<Prime> },
    /// One message of a stream, or one line of a pipe.
    Message { event: Option<EventId>, text: Bytes },
    /// The stream is over, or the call is without an answer.
    End,
}

/// An event that only says how to come back (HTTP-10, HTTP-11).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the field names say it")]
pub struct Prime {
    pub event: EventId,
    pub retry_ms: u64,
}

impl Frame {
    /// How much of a backlog it is.
    pub fn weight(&self) -> usize {
        match self {
            Self::Answer { text, .. } | Self::Message { text, .. } => text.len() + 64,
            Self::Accepted | Self::Begin { .. } | Self::End => 64,
        }
    }
}

/// The half for one client, of either era.
#[derive(Debug)]
#[expect(missing_docs, reason = "the eras say it")]
pub enum ServerHalf {
    Legacy(Box<LegacyServerHalf>),
    Modern(Box<ModernServerHalf>),
}

/// The same method of whichever half it is.
macro_rules! each {
    ($half:expr, $it:ident => $what:expr) => {
        match $half {
            ServerHalf::Legacy($it) => $what,
            ServerHalf::Modern($it) => $what,
        }
    };
}

impl ServerHalf {
    /// Something arrived on `lane`; with its headers, if it came over HTTP.
    pub fn handle_incoming(&mut self, lane: Lane, incoming: Incoming, headers: Option<&HeaderMap>) {
        match (self, incoming) {
            (Self::Legacy(half), incoming) => half.handle_incoming(lane, incoming),
            (Self::Modern(half), Incoming::One(message)) => {
                half.handle_message(lane, message, headers);
            }
            (Self::Modern(half), Incoming::Batch(_)) => {
                let why = Refusal::NoBatches { era: Era::Modern };
                half.handle_refused(lane, &why.into());
            }
        }
    }

    /// A request arrived that brings back the state of a parked call; only modern clients have one.
    pub fn handle_retry(
        &mut self,
        key: (Exchange, u32),
        lane: Lane,
        request: &Message,
        headers: Option<&HeaderMap>,
    ) {
        if let Self::Modern(half) = self {
            half.handle_retry(key, lane, request, headers);
        }
    }

    /// Something arrived on `lane` that is no message.
    pub fn handle_refused(&mut self, lane: Lane, refused: &InvalidMessage) {
        each!(self, half => half.handle_refused(lane, refused));
    }

    /// A GET wants to listen, or to go on after `last`; only a legacy client can.
    pub fn handle_listen(&mut self, lane: Lane, last: Option<&str>) -> Result<(), Refusal> {
        match self {
            Self::Legacy(half) => half.handle_listen(lane, last),
            Self::Modern(_) => Err(Refusal::SessionOver),
        }
    }

    /// A lane was closed from outside.
    pub fn handle_closed(&mut self, lane: Lane) {
        each!(self, half => half.handle_closed(lane));
    }

    /// The answer on `lane` takes its time: show a stream.
    pub fn begin_stream(&mut self, lane: Lane) {
        each!(self, half => half.begin_stream(lane));
    }

    /// Ends the connection that a call came by, if its client knows how to come back.
    pub fn hang_up(&mut self, exchange: Exchange) {
        if let Self::Legacy(half) = self {
            half.hang_up(exchange);
        }
    }

    /// The same for the call that is at present shown on `lane`, if one is.
    pub fn let_go(&mut self, lane: Lane) {
        if let Self::Legacy(half) = self {
            half.let_go(lane);
        }
    }

    /// Something on the way.
    pub fn note(&mut self, exchange: Option<Exchange>, message: &Message) {
        each!(self, half => half.note(exchange, message));
    }

    /// The server needs input. False if this client cannot be asked.
    #[must_use]
    pub fn ask(&mut self, exchange: Option<Exchange>, ask: Ask, request: &Message) -> bool {
        each!(self, half => half.ask(exchange, ask, request))
    }

    /// The server does not need the input any more.
    pub fn recall(&mut self, ask: Ask, message: &Message) {
        match self {
            Self::Legacy(half) => half.recall(ask, message),
            Self::Modern(half) => half.recall(ask),
        }
    }

    /// A call with questions to put to its client, and the number of their round.
    pub fn poll_round(&mut self) -> Option<(Exchange, u32)> {
        match self {
            Self::Legacy(_) => None,
            Self::Modern(half) => half.poll_round(),
        }
    }

    /// The answer to a call.
    pub fn finish(&mut self, exchange: Exchange, answer: &Message) {
        each!(self, half => half.finish(exchange, answer));
    }

    /// The inside may still answer a call that was cancelled; false if nobody wants that.
    #[must_use]
    pub fn await_cancelled(&mut self, exchange: Exchange) -> bool {
        match self {
            Self::Legacy(half) => half.await_cancelled(exchange),
            // Its stream is closed, or it hears nothing more (CAN-1, CAN-2).
            Self::Modern(_) => false,
        }
    }

    /// It will not: a cancelled call gets no answer.
    pub fn end_cancelled(&mut self, exchange: Exchange) {
        if let Self::Legacy(half) = self {
            half.end_cancelled(exchange);
        }
    }

    /// The inside has heard of a cancel, and says by now whether it may answer.
    pub fn acknowledge_cancelled(&mut self, exchange: Exchange) {
        if let Self::Legacy(half) = self {
            half.acknowledge_cancelled(exchange);
        }
    }

    /// Nothing more will come from the client: what it was asked stays unanswered.
    pub fn handle_silence(&mut self) {
        each!(self, half => half.handle_silence());
    }

    /// The inside does not take a call: an answer that has its own status where the era has them.
    pub fn turn_away(&mut self, exchange: Exchange, id: Option<&Id>, why: &Refusal) {
        match self {
            Self::Legacy(half) => half.finish(exchange, &Message::refusal(id, why)),
            Self::Modern(half) => half.turn_away(exchange, why),
        }
    }

    /// The conversation is over.
    pub fn end(&mut self) {
        each!(self, half => half.end());
    }

    /// What to do on which lane, oldest first.
    pub fn poll_transmit(&mut self) -> Option<(Lane, Frame)> {
        each!(self, half => half.poll_transmit())
    }

    /// What the client wants, oldest first.
    pub fn poll_to_server(&mut self) -> Option<ClientEvent> {
        each!(self, half => half.poll_to_server())
    }

    /// The calls that are open and will be answered in time, oldest first. Listens are
    /// not: they go on until somebody ends them.
    pub fn owed_calls(&self) -> Vec<Exchange> {
        each!(self, half => half.owed_calls())
    }

    /// How many they are.
    pub fn owed(&self) -> usize {
        match self {
            Self::Legacy(half) => half.calls(),
            Self::Modern(half) => half.owed(),
        }
    }

    /// Bytes kept for a client that comes back: for the rest of a stream, or with
    /// answers to what it was asked.
    pub fn history_bytes(&self) -> usize {
        match self {
            Self::Legacy(half) => half.history_bytes(),
            Self::Modern(half) => half.parked_bytes(),
        }
    }

    /// Keeps none of them; returns how many there were. The inside drops the calls
    /// that waited for their client.
    pub fn forget_history(&mut self) -> usize {
        let bytes = self.history_bytes();
        match self {
            Self::Legacy(half) => half.forget_history(),
            Self::Modern(half) => half.handle_silence(),
        }
        bytes
    }

    /// How many calls are open.
    pub fn calls(&self) -> usize {
        each!(self, half => half.calls())
    }
}

/// The era that a message belongs to; `headers` if it came over HTTP (3.6 step 7, NEG-10).
///
/// The body decides. The version header only cross-checks, because a proxy may strip
/// it (VAL-1). A message claims the modern era by the version key in its `_meta`
/// (META-7). A broken claim is an error, never served as legacy.
pub fn classify(incoming: &Incoming, headers: Option<&HeaderMap>) -> Result<Era, Refusal> {
    let message = match incoming {
        Incoming::One(message) => message,
        Incoming::Batch(elements) => {
            let modern = elements.iter().flatten().any(claims_modern);
            let refused = Refusal::NoBatches { era: Era::Modern };
            return if modern { Err(refused) } else { Ok(Era::Legacy) };
        }
    };
    if claims_modern(message) {
        return Ok(Era::Modern);
    }
    let version = headers.and_then(|headers| headers.get(header::PROTOCOL_VERSION));
    let version = version.and_then(|value| value.to_str().ok()).map(str::trim);
    let says_modern = version.is_some_and(|name| era_of(name) == Era::Modern && !name.is_empty());
    match message.kind() {
        _ if !says_modern => Ok(Era::Legacy),
        Kind::Request if message.method() == method::INITIALIZE => Err(Refusal::HeaderMismatch {
            what: "initialize is not part of the protocol version in the header".to_owned(),
        }),
        Kind::Request => Err(Refusal::BadEnvelope {
            what: format!("params._meta must carry {} and {}", meta::VERSION, meta::CAPABILITIES),
        }),
        Kind::Notification | Kind::Result | Kind::Error => Ok(Era::Modern),
    }
}

/// Whether a message carries the modern envelope, sound or not.
pub fn claims_modern(message: &Message) -> bool {
    !message.is_response() && message.has(Member::MetaVersion)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::parse;

    const CLAIM: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;

    /// wire: META-7, NEG-10, VAL-1, VAL-2, MSG-9
    #[test]
    fn the_body_decides_and_the_header_cross_checks() {
        let call = |params: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#)
        };
        check(&call("{}"), None, "Legacy");
        check(&call("{}"), Some("2025-11-25"), "Legacy");
        check(&call("{}"), Some("2026-07-28"), "-32602");
        check(&call(CLAIM), None, "Modern");
        check(&call(CLAIM), Some("2025-11-25"), "Modern");
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        check(hello, None, "Legacy");
        check(hello, Some("2026-07-28"), "-32020");
        let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#;
        check(note, None, "Legacy");
        check(note, Some("2026-07-28"), "Modern");
        check(&format!("[{}]", call("{}")), None, "Legacy");
        check(&format!("[{},{}]", call("{}"), call(CLAIM)), None, "-32600");
    }

    #[track_caller]
    fn check(text: &str, header: Option<&str>, expected: &str) {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert(header::PROTOCOL_VERSION, value.parse().unwrap());
        }
        let incoming = parse(text.to_owned().into()).unwrap();
        let seen = match classify(&incoming, Some(&headers)) {
            Ok(era) => format!("{era:?}"),
            Err(why) => why.rpc_code().to_string(),
        };
        assert_eq!(seen, expected, "{text} with {header:?}");
    }
}
