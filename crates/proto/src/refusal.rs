//! Why we turned a message away, and what each reason looks like on the wire.
//!
//! The only file that maps a reason to a JSON-RPC code and an HTTP status.

use std::time::Duration;

use serde_json::{Value, json};

use crate::header::Mismatch;
use crate::json::Fault;
use crate::jsonrpc::{Kind, Member, Message};
use crate::revision::{Era, Revision};

/// The peer sent something we must not act on.
///
/// Always the peer's doing. The network's are `std::io::Error`; no type carries both.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The bytes do not parse.
    #[error("not JSON, from byte {at}")]
    NotJson { at: usize },
    /// The bytes are not UTF-8.
    #[error("not UTF-8, from byte {at}")]
    NotUtf8 { at: usize },
    /// It parses, but is nested deeper than we follow.
    #[error("JSON nested too deep, at byte {at}")]
    TooDeep { at: usize },
    /// It parses, but is no request, notification or response.
    #[error("not a JSON-RPC 2.0 message: {why}")]
    NotJsonRpc { why: &'static str },
    /// Longer than the limit.
    #[error("message is longer than {limit} bytes")]
    TooLarge { limit: usize },
    /// Headers that are kept for servers are longer than the limit.
    #[error("the headers that are passed on to servers have more than {limit} bytes")]
    PassedTooLarge { limit: usize },
    /// The rest of a body did not come.
    #[error("the body did not arrive in time")]
    TooSlow,
    /// An array, where the revision in use has no batches.
    #[error("batches are not part of this protocol revision; send one message at a time")]
    NoBatches { era: Era },
    /// A batch that breaks the rules for batches.
    #[error("batch refused: {why}")]
    BadBatch { why: &'static str },
    /// A header and the body it mirrors disagree (modern).
    #[error("{what}")]
    HeaderMismatch { what: String },
    /// The envelope in `_meta` is missing or broken (modern).
    #[error("{what}")]
    BadEnvelope { what: String },
    /// The client did not declare what the call needs of it (META-3).
    #[error("this call needs a client that can do more")]
    NeedsMore { needed: Value },
    /// The parameters make no sense.
    #[error("{what}")]
    BadParams { what: String },
    /// A revision we do not speak.
    #[error("protocol version {asked:?} is not spoken here")]
    UnknownRevision { asked: String },
    /// The revision named in a legacy header is not one of ours.
    #[error("unsupported MCP-Protocol-Version header {asked:?}")]
    BadVersionHeader { asked: String },
    /// This side of the era divide is not served here.
    #[error("this server does not speak {asked}; it serves {serves} revisions only")]
    WrongEra { asked: String, serves: &'static str },
    /// The state of a call that is not known here: forged, used before, or too late.
    #[error("requestState is not, or no longer, valid; make the call again without it")]
    BadState,
    /// No such method here.
    #[error("Method not found: {method}")]
    UnknownMethod { method: String },
    /// No session header on a request that needs one.
    #[error("Mcp-Session-Id header is required after initialize")]
    NoSession,
    /// The session has ended, or never was (legacy HTTP only).
    #[error("Session not found")]
    SessionOver,
    /// Something before `initialize`.
    #[error("initialize first")]
    NotInitialized,
    /// `initialize` on a session that has had one.
    #[error("this session is initialized already")]
    Initialized,
    /// A request under the id of another that is still open.
    #[error("id {id} is in use by a request that is still open")]
    IdInUse { id: String },
    /// A response where none can be meant for us.
    #[error("responses are not accepted here")]
    UnaskedResponse,
    /// More open calls than one client may have.
    #[error("too many calls are open; wait for one to finish")]
    TooManyCalls,
    /// More bytes of requests in flight than this server holds.
    #[error("too many bytes of requests are in flight; try again later")]
    TooManyBytes,
    /// More bytes of requests in flight than one principal may have.
    #[error("too many bytes of your requests are in flight; wait for one to finish")]
    TooManyBytesOfYours,
    /// More calls in a short time than one client may make.
    #[error("rate limit reached: too many calls in a short time; retry in {} s", seconds(*wait))]
    TooOften { wait: Duration },
    /// More resources than one client may watch.
    #[error("too many resources are watched; stop watching one first")]
    TooManyWatched,
    /// More open streams than one session may have.
    #[error("too many streams are open on this session; close one first")]
    TooManyStreams,
    /// More sessions than this server holds.
    #[error("too many sessions; try again later")]
    TooManySessions,
    /// The replica that has the session does not answer, and the session may come back.
    #[error("the session is at a replica that does not answer; try again")]
    OwnerAway,
    /// The replica that had a call is gone. The call is not sent again, for it may have run.
    #[error("the replica that had this call is gone; whether it ran is not known")]
    OwnerGone,
    /// `Last-Event-ID` names an event we do not know, or whose successors are gone.
    #[error("events after {id:?} are no longer known; initialize a new session")]
    UnknownEvent { id: String },
    /// The body is not JSON by its own account.
    #[error("Content-Type must be application/json")]
    WrongMediaType,
    /// The client accepts neither of the two forms of an answer.
    #[error("Accept must name application/json and text/event-stream")]
    NotAcceptable,
    /// An HTTP method that this endpoint does not have.
    #[error("this endpoint takes {allow}")]
    WrongHttpMethod { allow: &'static str },
    /// The request came through a gateway that it would come to again.
    #[error(
        "this leads back to a gateway that the request came through; remove the server that names this one"
    )]
    Loop { ids: Vec<u64> },
    /// A tool that is not offered here.
    #[error("Tool \"{name}\" is not available")]
    HiddenTool { name: String },
    /// The server could not be greeted in the name of a client without a session.
    #[error("the server could not be greeted: {why}")]
    NotGreeted { why: String },
    /// The lists of the server are not known yet, and say what the client may use.
    #[error("it is not known yet what this server offers")]
    ListsUnknown,
    /// More processes of servers than one key may have.
    #[error("too many server processes run for this key; end a session first")]
    TooManyProcesses,
    /// We end, and the answer has not come by then.
    #[error("this server is stopping, and the call was not finished by then")]
    Stopping,
    /// The key that made the call is not valid any more.
    #[error("the key that this call was made with is no longer valid")]
    KeyRemoved,
    /// Somebody who looks after the gateway has cancelled the call.
    #[error("an operator of the gateway has cancelled this call")]
    CancelledByOperator,
    /// Nobody is there to take the question.
    #[error("no client can answer this request: none is connected, or it lacks the capability")]
    NobodyToAsk,
}

impl Refusal {
    /// The parameters make no sense: why.
    pub fn bad_params(what: impl Into<String>) -> Self {
        Self::BadParams { what: what.into() }
    }

    /// There is no method of this name.
    pub fn unknown_method(name: &str) -> Self {
        Self::UnknownMethod { method: name.to_owned() }
    }

    /// The JSON-RPC error code, where the revision defines one.
    pub fn rpc_code(&self) -> i32 {
        self.row().0
    }

    /// The HTTP status, when the message came over HTTP.
    pub fn http_status(&self) -> u16 {
        self.row().1
    }

    /// All that is fixed of a reason side by side, so that nothing can be forgotten: its
    /// JSON-RPC code, its HTTP status, its name.
    #[rustfmt::skip]
    fn row(&self) -> (i32, u16, &'static str) {
        match self {
            Self::NotJson { .. }                 => (-32700, 400, "not_json"),
            Self::NotUtf8 { .. }                 => (-32700, 400, "not_utf8"),
            Self::TooDeep { .. }                 => (-32600, 400, "too_deep"),
            Self::NotJsonRpc { .. }              => (-32600, 400, "not_json_rpc"),
            Self::TooLarge { .. }                => (-32600, 413, "too_large"),
            Self::PassedTooLarge { .. }          => (-32600, 431, "passed_too_large"),
            Self::TooSlow                        => (-32600, 408, "too_slow"),
            Self::NoBatches { era: Era::Legacy } => (-32600, 200, "no_batches"),
            Self::NoBatches { era: Era::Modern } => (-32600, 400, "no_batches"),
            Self::BadBatch { .. }                => (-32600, 400, "bad_batch"),
            Self::HeaderMismatch { .. }          => (-32020, 400, "header_mismatch"),
            Self::BadEnvelope { .. }             => (-32602, 400, "bad_envelope"),
            Self::NeedsMore { .. }               => (-32021, 400, "needs_more"),
            Self::BadParams { .. }               => (-32602, 200, "bad_params"),
            Self::UnknownRevision { .. }         => (-32022, 400, "unknown_revision"),
            Self::BadVersionHeader { .. }        => (-32600, 400, "bad_version_header"),
            Self::WrongEra { .. }                => (-32022, 400, "wrong_era"),
            Self::BadState                       => (-32602, 200, "bad_state"),
            Self::UnknownMethod { .. }           => (-32601, 404, "unknown_method"),
            Self::NoSession                      => (-32600, 400, "no_session"),
            Self::SessionOver                    => (-32001, 404, "session_over"),
            Self::NotInitialized                 => (-32600, 400, "not_initialized"),
            Self::Initialized                    => (-32600, 400, "initialized"),
            Self::IdInUse { .. }                 => (-32600, 400, "id_in_use"),
            Self::UnaskedResponse                => (-32600, 400, "unasked_response"),
            Self::TooManyCalls                   => (-32603, 429, "too_many_calls"),
            Self::TooManyBytes                   => (-32603, 503, "too_many_bytes"),
            Self::TooManyBytesOfYours            => (-32603, 429, "too_many_bytes_of_yours"),
            Self::TooOften { .. }                => (-32603, 429, "too_often"),
            Self::TooManyWatched                 => (-32603, 429, "too_many_watched"),
            Self::TooManyStreams                 => (-32603, 429, "too_many_streams"),
            Self::TooManySessions                => (-32603, 503, "too_many_sessions"),
            Self::OwnerAway                      => (-32603, 503, "owner_away"),
            Self::OwnerGone                      => (-32603, 200, "owner_gone"),
            Self::UnknownEvent { .. }            => (-32600, 400, "unknown_event"),
            Self::WrongMediaType                 => (-32600, 415, "wrong_media_type"),
            Self::NotAcceptable                  => (-32600, 406, "not_acceptable"),
            Self::WrongHttpMethod { .. }         => (-32600, 405, "wrong_http_method"),
            Self::Loop { .. }                    => (-32603, 508, "loop"),
            Self::HiddenTool { .. }              => (-32603, 200, "hidden_tool"),
            Self::NotGreeted { .. }              => (-32603, 200, "not_greeted"),
            Self::ListsUnknown                   => (-32603, 200, "lists_unknown"),
            Self::TooManyProcesses               => (-32603, 200, "too_many_processes"),
            Self::Stopping                       => (-32603, 200, "stopping"),
            Self::KeyRemoved                     => (-32603, 401, "key_removed"),
            Self::CancelledByOperator            => (-32603, 200, "cancelled_by_operator"),
            Self::NobodyToAsk                    => (-32601, 200, "nobody_to_ask"),
        }
    }

    /// After how many seconds the same may go well, if waiting helps.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::TooOften { wait } => Some(seconds(*wait)),
            // The lease of a replica that is gone lasts not much longer.
            Self::OwnerAway => Some(1),
            // As long as a short call takes.
            other => matches!(other.http_status(), 429 | 503).then_some(5),
        }
    }

    /// Which reason it is, in a word for those who count.
    pub fn name(&self) -> &'static str {
        self.row().2
    }

    /// What else the peer needs to know to do better.
    pub fn data(&self) -> Option<Value> {
        match self {
            Self::UnknownRevision { asked } => {
                Some(json!({"supported": Revision::names(Era::Modern), "requested": asked}))
            }
            Self::WrongEra { asked, serves } => {
                let served = if *serves == "legacy" { Era::Legacy } else { Era::Modern };
                Some(json!({"supported": Revision::names(served), "requested": asked}))
            }
            Self::NeedsMore { needed } => Some(json!({"requiredCapabilities": needed})),
            Self::Loop { ids } => {
                let ids: Vec<_> = ids.iter().map(|id| format!("{id:016x}")).collect();
                Some(json!({"switchboard": "loop", "ids": ids}))
            }
            _ => None,
        }
    }
}

/// Whole seconds, and never too few.
pub(crate) fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0 || wait.is_zero())
}

impl From<Mismatch> for Refusal {
    fn from(mismatch: Mismatch) -> Self {
        Self::HeaderMismatch { what: mismatch.to_string() }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Syntax { at } => Self::NotJson { at },
            Fault::TooDeep { at } => Self::TooDeep { at },
        }
    }
}

/// The status that an answer of a modern server gets, from its error code (MH-13, MH-14).
pub fn status_of_error(code: i64) -> u16 {
    match code {
        -32022..=-32020 => 400,
        -32601 => 404,
        _ => 200,
    }
}

/// The codes by which a modern server can be told from a legacy one (NEG-3, NEG-5, DIV-2).
pub fn is_modern_code(code: i64) -> bool {
    (-32022..=-32020).contains(&code)
}

/// Whether an answer is a [`Refusal::Loop`] with this id.
pub fn is_loop(answer: &Message, id: u64) -> bool {
    if answer.kind() != Kind::Error {
        return false;
    }
    let data = answer.value(Member::Data).unwrap_or_default();
    let has = |ids: &Vec<Value>| ids.contains(&format!("{id:016x}").into());
    data["switchboard"] == "loop" && data["ids"].as_array().is_some_and(has)
}

/// The code for "your mirror headers are wrong", which a client can mend (HDR-12).
pub const HEADER_MISMATCH: i64 = -32020;

/// The code that a modern client gets for one of a legacy server: what a modern
/// code means is not a legacy server's to say (GW-58, ERR-4).
pub fn code_for_modern(code: i64) -> i64 {
    match code {
        code::RESOURCE_NOT_FOUND => code::INVALID_PARAMS,
        -32099..=-32020 => code::INTERNAL,
        other => other,
    }
}

/// The code that a legacy client gets for one of a modern server. Some are
/// about the way between us and that server, and mean nothing beyond it (ERR-4).
pub fn code_for_legacy(code: i64, is_missing_resource: bool) -> i64 {
    match code {
        code::INVALID_PARAMS if is_missing_resource => code::RESOURCE_NOT_FOUND,
        -32022..=-32020 => code::INTERNAL,
        other => other,
    }
}

/// The codes that the answers of a server use, for those who write one.
pub mod code {
    /// The request makes no sense here and now.
    pub const INVALID_REQUEST: i64 = -32600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The method is there, its parameters are wrong (ERR-3).
    pub const INVALID_PARAMS: i64 = -32602;
    /// Our own fault.
    pub const INTERNAL: i64 = -32603;
    /// There is no such resource: what legacy clients know it by.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The client did not declare what the call needs of it (META-3).
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// Pages have to be visited before the call can be made (UTL-8).
    pub const VISIT_FIRST: i64 = -32042;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: MSG-9, HTTP-22, NEG-1, HDR-11, META-1, MH-13, MH-15, ERR-2
    #[test]
    fn codes_and_statuses_are_those_of_the_specification() {
        let asked = || "1999-01-01".to_owned();
        let table = [
            (Refusal::NotJson { at: 0 }, -32700, 400),
            (Refusal::NoBatches { era: Era::Legacy }, -32600, 200),
            (Refusal::NoBatches { era: Era::Modern }, -32600, 400),
            (Refusal::SessionOver, -32001, 404),
            (Refusal::UnknownRevision { asked: asked() }, -32022, 400),
            (Refusal::HeaderMismatch { what: String::new() }, -32020, 400),
            (Refusal::BadEnvelope { what: String::new() }, -32602, 400),
            (Refusal::UnknownMethod { method: String::new() }, -32601, 404),
            (Refusal::TooLarge { limit: 1 }, -32600, 413),
            (Refusal::PassedTooLarge { limit: 1 }, -32600, 431),
            (Refusal::Loop { ids: vec![1] }, -32603, 508),
        ];
        for (refusal, code, status) in table {
            assert_eq!((refusal.rpc_code(), refusal.http_status()), (code, status), "{refusal:?}");
        }
        for draft in [-32001, -32003, -32004] {
            assert!(!is_modern_code(draft) && status_of_error(draft) == 200, "{draft}");
        }
        let unknown = Refusal::UnknownMethod { method: "a/b".to_owned() };
        assert_eq!(unknown.to_string(), "Method not found: a/b");
        let data = Refusal::UnknownRevision { asked: asked() }.data().unwrap();
        assert_eq!(data, json!({"supported": ["2026-07-28"], "requested": "1999-01-01"}));
        let other = |serves| Refusal::WrongEra { asked: asked(), serves }.data().unwrap();
        assert_eq!(other("modern")["supported"], json!(Revision::names(Era::Modern)));
        assert_eq!(other("legacy")["supported"], json!(Revision::names(Era::Legacy)));
    }

    #[test]
    fn whoever_has_to_wait_is_told_how_long() {
        let often = |millis| Refusal::TooOften { wait: Duration::from_millis(millis) };
        for (millis, wait) in [(0, 1), (1, 1), (1000, 1), (1001, 2)] {
            assert_eq!(often(millis).retry_after(), Some(wait), "{millis}");
        }
        assert_eq!(often(1).http_status(), 429);
        assert_eq!(Refusal::TooManySessions.retry_after(), Some(5));
        assert_eq!(Refusal::SessionOver.retry_after(), None);
    }
}
