//! Finding out which era a server speaks, and greeting it.
//!
//! ```text
//!   known or forced legacy ─────────────────────────────────▶ initialize
//!   else: server/discover ──▶ modern: that was all
//!              ├──▶ legacy, by its answer ──▶ the same child ─▶ initialize
//!              ├──▶ child silent or dead ───▶ a fresh child ──▶ initialize   (NEG-7)
//!              └──▶ HTTP 401, 5xx, network ─▶ an error: no evidence          (NEG-6)
//! ```

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_proto::client::probe::{self, ProbeReply, Verdict};
use switchboard_proto::exchange::Carrier;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Id, Kind, Member, Message, Part};
use switchboard_proto::method;
use switchboard_proto::revision::{Era, Revision, era_of};

use super::connection::{Connection, Far};
use super::options::ClientOptions;
use super::{CallError, ConnectError};
use crate::connection::now;
use crate::upstream::{ServerTarget, Strategy, Target, ViaBridge, asked};

/// What is known of a server once it has been met.
#[derive(Debug)]
pub(super) struct Negotiated {
    pub(super) connection: Connection,
    pub(super) era: Era,
    pub(super) revision: String,
    /// The result of `initialize` or `server/discover`.
    pub(super) welcome: Value,
}

const NO_VERSIONS: &str = "its answer names no versions";

/// Meets a server.
pub(super) async fn negotiate(
    server: &ServerTarget,
    options: &Arc<ClientOptions>,
) -> Result<Negotiated, ConnectError> {
    if let Some(behind) = server.through() {
        return negotiate_via_bridge(server, behind, options).await;
    }
    let known = options.remembered.filter(|known| known.until > now()).map(|known| known.era);
    let era = options.era.or(known.filter(|&era| era == Era::Legacy));
    match (era, server.target()) {
        (Some(Era::Legacy), _) | (None, Target::Url { strategy: Strategy::SseOnly, .. }) => {
            greet(Connection::new(server, Era::Legacy, options), options, None).await
        }
        (None, Target::Url { strategy: Strategy::SseFirst, .. }) => {
            negotiate_legacy_first(server, options).await
        }
        (_, Target::Command(_)) => negotiate_with_child(server, options).await,
        (_, Target::Url { .. }) => negotiate_with_endpoint(server, options).await,
    }
}

/// A bridge speaks whatever its clients speak. In a guise without an era it is asked
/// what the server speaks: what that one says is then not translated for us.
async fn negotiate_via_bridge(
    server: &ServerTarget,
    behind: &ViaBridge,
    options: &Arc<ClientOptions>,
) -> Result<Negotiated, ConnectError> {
    let guise = &behind.identity;
    if guise.era() == Some(Era::Legacy) {
        return greet(Connection::new(server, Era::Legacy, options), options, guise.greeting())
            .await;
    }
    let connection = Connection::new(server, Era::Modern, options);
    let (question, mut envelope) = (question(options), guise.envelope());
    if guise.era().is_none() {
        let able = options.callbacks.answers.capabilities(Era::Modern, &options.capabilities);
        envelope.push((Member::MetaCapabilities, able.to_string()));
    }
    let question = asked(question, envelope);
    let params = question.payload().unwrap_or_default();
    let answer = connection.ask_within(method::DISCOVER, params, options.timeout).await?;
    if guise.era().is_none() && behind.bridge.common_era() == Some(Era::Legacy) {
        if answer.kind() == Kind::Error {
            return Err(CallError::from_answer(&answer).into());
        }
        // It has been greeted with that, and answers the same again.
        return greet(Connection::new(server, Era::Legacy, options), options, None).await;
    }
    match probe::verdict(Carrier::Http, &probe::reply(None, &answer)) {
        Verdict::Modern(revision) => Ok(modern(connection, revision, Some(&answer))),
        _ => Err(CallError::from_answer(&answer).into()),
    }
}

/// The older transport has no modern servers; but there may be one where it
/// was looked for.
async fn negotiate_legacy_first(
    server: &ServerTarget,
    options: &Arc<ClientOptions>,
) -> Result<Negotiated, ConnectError> {
    let greeted = greet(Connection::new(server, Era::Legacy, options), options, None).await;
    let is_other =
        |error: &CallError| matches!(error, CallError::Server { .. }) || error.status().is_some();
    if !matches!(&greeted, Err(ConnectError::Failed(error)) if is_other(error)) {
        return greeted;
    }
    let only_modern = ClientOptions { era: Some(Era::Modern), ..ClientOptions::clone(options) };
    match negotiate_with_endpoint(server, &Arc::new(only_modern)).await {
        Ok(negotiated) => Ok(negotiated),
        Err(_) => greeted,
    }
}

fn question(options: &ClientOptions) -> Message {
    probe::question(&Id::from(1), &options.whoami())
}

/// wire: NEG-3, NEG-7, NEG-8
async fn negotiate_with_child(
    server: &ServerTarget,
    options: &Arc<ClientOptions>,
) -> Result<Negotiated, ConnectError> {
    let connection = Connection::new(server, Era::Modern, options);
    let question = question(options);
    let params = question.payload().unwrap_or_default();
    // Who must be modern is not started again as a legacy one.
    connection.far.scout(options.era != Some(Era::Modern));
    let answer = connection.ask_within(method::DISCOVER, params, options.probe_timeout).await;
    connection.far.scout(false);
    let reply = match &answer {
        Ok(answer) => probe::reply(None, answer),
        Err(CallError::Failed(Failure::Timeout { .. })) => ProbeReply::Silence,
        Err(_) => ProbeReply::Broken,
    };
    match probe::verdict(Carrier::Pipe, &reply) {
        Verdict::Modern(revision) => Ok(modern(connection, revision, answer.ok().as_ref())),
        Verdict::Unusable => Err(nothing_in_common(connection, answer.ok().as_ref())),
        Verdict::Legacy | Verdict::Undecided if options.era == Some(Era::Modern) => {
            close_later(connection);
            Err(not_modern(answer))
        }
        Verdict::Legacy | Verdict::Undecided if answer.is_ok() => {
            // It answered, so it lives. But some take the question for the
            // beginning of a modern conversation, and refuse any other.
            connection.far.turn_legacy();
            match greet(connection, options, None).await {
                Err(ConnectError::Failed(_)) => {
                    greet(Connection::new(server, Era::Legacy, options), options, None).await
                }
                negotiated => negotiated,
            }
        }
        Verdict::Legacy | Verdict::Undecided => {
            close_later(connection);
            greet(Connection::new(server, Era::Legacy, options), options, None).await
        }
    }
}

fn not_modern(answer: Result<Message, CallError>) -> ConnectError {
    match answer {
        Ok(answer) if answer.kind() == Kind::Error => {
            ConnectError::NotModern { why: CallError::from_answer(&answer).to_string() }
        }
        Ok(_) => ConnectError::NotModern { why: NO_VERSIONS.to_owned() },
        Err(error) => ConnectError::Failed(error),
    }
}

/// wire: NEG-5, NEG-6
async fn negotiate_with_endpoint(
    server: &ServerTarget,
    options: &Arc<ClientOptions>,
) -> Result<Negotiated, ConnectError> {
    let connection = Connection::new(server, Era::Modern, options);
    let question = question(options);
    let Far::Own(upstream) = &connection.far else {
        return Err(ConnectError::NotModern { why: NO_VERSIONS.to_owned() });
    };
    let Ok(probed) = tokio::time::timeout(options.timeout, upstream.probe(&question)).await else {
        return Err(CallError::timeout(options.timeout).into());
    };
    if probed.is_sse && options.era.is_none() {
        return greet(Connection::new(&server.sse_only(), Era::Legacy, options), options, None)
            .await;
    }
    match probe::verdict(Carrier::Http, &probed.reply) {
        Verdict::Modern(revision) => Ok(modern(connection, revision, probed.answer.as_ref())),
        Verdict::Unusable => Err(nothing_in_common(connection, probed.answer.as_ref())),
        Verdict::Legacy if options.era != Some(Era::Modern) => {
            greet(Connection::new(server, Era::Legacy, options), options, None).await
        }
        Verdict::Legacy => {
            let why = probed.failure.map_or_else(|| NO_VERSIONS.to_owned(), |why| why.to_string());
            Err(ConnectError::NotModern { why })
        }
        Verdict::Undecided => {
            Err(CallError::Failed(probed.failure.unwrap_or(Failure::CLOSED)).into())
        }
    }
}

/// The rest of the way down is not waited for.
fn close_later(connection: Connection) {
    tokio::spawn(async move { connection.far.close().await });
}

fn modern(connection: Connection, revision: Revision, answer: Option<&Message>) -> Negotiated {
    let answer = answer.filter(|answer| answer.kind() == Kind::Result);
    let welcome = answer.and_then(Message::payload_value).unwrap_or_default();
    Negotiated { connection, era: Era::Modern, revision: revision.to_string(), welcome }
}

fn nothing_in_common(connection: Connection, answer: Option<&Message>) -> ConnectError {
    close_later(connection);
    let theirs = answer.and_then(|answer| {
        let supported = answer.body().get(&["supportedVersions"]);
        supported.or_else(|| answer.inside(Member::Data, &["supported"]))
    });
    let theirs = theirs.map_or(&b"nothing we know"[..], Part::text);
    let theirs = String::from_utf8_lossy(theirs).into_owned();
    ConnectError::NoCommonRevision { theirs }
}

/// wire: LIF-1, LIF-2
async fn greet(
    connection: Connection,
    options: &Arc<ClientOptions>,
    words: Option<&[u8]>,
) -> Result<Negotiated, ConnectError> {
    let params = json!({
        "protocolVersion": Revision::NEWEST_LEGACY.as_str(),
        "capabilities": options.callbacks.answers.capabilities(Era::Legacy, &options.capabilities),
        "clientInfo": options.whoami(),
    });
    let params = params.to_string();
    let params = words.unwrap_or(params.as_bytes());
    let answer = connection.ask_within(method::INITIALIZE, params, options.timeout).await;
    let greeted = answer.map_err(ConnectError::from).and_then(|answer| welcome(&answer));
    let (revision, welcome) = match greeted {
        Ok(greeted) => greeted,
        Err(error) => {
            close_later(connection);
            return Err(error);
        }
    };
    connection.far.note(Message::notification(method::INITIALIZED, None)).detach();
    connection.far.until_listening().await;
    if let Some(level) = &options.log_level
        && welcome["capabilities"].get("logging").is_some()
    {
        let params = json!({ "level": level }).to_string();
        let time = options.timeout.min(Duration::from_secs(5));
        // A server that does not take the level can be used all the same.
        _ = connection.ask_within(method::SET_LEVEL, params.as_bytes(), time).await;
    }
    Ok(Negotiated { connection, era: Era::Legacy, revision, welcome })
}

/// What a legacy server settled on. Versions before the newest we know follow
/// the rules of those before them; others cannot be guessed.
fn welcome(answer: &Message) -> Result<(String, Value), ConnectError> {
    if answer.kind() == Kind::Error {
        return Err(CallError::from_answer(answer).into());
    }
    let welcome = answer.payload_value().unwrap_or_default();
    let Some(version) = welcome["protocolVersion"].as_str() else {
        let what = "initialize was answered without a protocolVersion".to_owned();
        return Err(CallError::Unusable { what }.into());
    };
    let version = version.to_owned();
    let usable = era_of(&version) == Era::Legacy && *version <= *Revision::NEWEST_LEGACY.as_str();
    if usable {
        Ok((version, welcome))
    } else {
        Err(ConnectError::NoCommonRevision { theirs: version })
    }
}
