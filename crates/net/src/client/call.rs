//! One call: its envelope, its rounds of questions, its result.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::{Id, Kind, Member, Message, Part};
use switchboard_proto::method;
use switchboard_proto::revision::Era;
use tokio::task::JoinSet;

use super::inbox::{Patience, PendingCall};
use super::options::CallOptions;
use super::{CallError, Inner, client_tasks};
use crate::connection::now;

/// How often a server may ask before it can answer (MRTR-11).
const ROUNDS: usize = 10;

/// How long to wait before a call is made again that nobody was asked about:
/// so long times the round, and at most this (MRTR-6).
const PACE: Duration = Duration::from_millis(50);
const SLOWEST: Duration = Duration::from_millis(250);

fn pace(round: usize) -> Duration {
    let times = u32::try_from(round).unwrap_or(u32::MAX).saturating_add(1);
    PACE.saturating_mul(times).min(SLOWEST)
}

/// Parameters as text: an object, or nothing.
pub(super) fn to_params(params: &impl Serialize) -> Result<Bytes, CallError> {
    let text = serde_json::to_vec(params).map_err(|_| CallError::BadParams)?;
    match text.first() {
        Some(b'{') => Ok(text.into()),
        Some(b'n') => Ok(Bytes::from_static(b"{}")),
        _ => Err(CallError::BadParams),
    }
}

impl Inner {
    /// Makes a call, unless its result is known already.
    ///
    /// wire: CACHE-2, MRTR-12
    pub(super) async fn call(
        &self,
        method: &str,
        params: Bytes,
        options: &CallOptions,
    ) -> Result<Bytes, CallError> {
        let cache = self.options.cache.as_ref().filter(|_| self.may_keep(method, &params, options));
        let Some(cache) = cache else {
            return Ok(self.converse(method, params, options).await?.0);
        };
        let place = &self.connection.inbox.place;
        if let Some(kept) = cache.get(place, method, &params, now()) {
            return Ok(kept);
        }
        let emptied = cache.emptied();
        let (result, rounds) = self.converse(method, params.clone(), options).await?;
        if rounds == 0 {
            cache.put(place, (method, &params), &result, emptied, now());
        }
        Ok(result)
    }

    /// Whether a result would depend on nothing but who asks and for what.
    fn may_keep(&self, method: &str, params: &Bytes, options: &CallOptions) -> bool {
        let plain = options.meta.is_empty() && options.extensions.is_empty();
        let telling = [Member::Meta, Member::InputResponses, Member::RequestState];
        let tells = telling.iter().any(|it| Part::new(params).get(&[it.key()]).is_some());
        self.era == Era::Modern && method::is_cacheable(method) && plain && !tells
    }

    /// Makes a call and answers what the server asks on the way; the result, and
    /// how often it was asked for before.
    ///
    /// wire: MRTR-5, MRTR-6, MRTR-11, MOD-6
    pub(super) async fn converse(
        &self,
        method: &str,
        params: Bytes,
        options: &CallOptions,
    ) -> Result<(Bytes, usize), CallError> {
        let until = now() + options.total.unwrap_or(self.options.total);
        let quiet = options.timeout.unwrap_or(self.options.timeout);
        let original = Message::request(&Id::from(0), method, Some(&params));
        let mut request = original.clone();
        for round in 0..=ROUNDS {
            let patience = Patience { quiet, until };
            let answer = self.ask(&request, options, patience).await?;
            if answer.kind() == Kind::Error {
                return Err(CallError::from_answer(&answer));
            }
            let result = || Bytes::copy_from_slice(answer.payload().unwrap_or_default());
            match answer.result_type().as_deref().filter(|_| self.era == Era::Modern) {
                None | Some("complete") => return Ok((result(), round)),
                Some("input_required") if method::may_ask(method) => {
                    let left = until.saturating_duration_since(now());
                    let next = self.next_round(&original, &answer, round);
                    let Ok(next) = tokio::time::timeout(left, next).await else {
                        return Err(CallError::timeout(left));
                    };
                    request = next?;
                }
                Some("task") if method == method::CALL_TOOL && self.takes_tasks(options) => {
                    return Ok((result(), round));
                }
                Some(kind) => {
                    let what = format!("resultType {kind:?} for {method}");
                    return Err(CallError::Unusable { what });
                }
            }
        }
        Err(CallError::TooManyRounds { rounds: ROUNDS })
    }

    /// Whether a call may go on as a task (TASK-1).
    fn takes_tasks(&self, options: &CallOptions) -> bool {
        let always = self.options.capabilities.get("extensions");
        let always =
            always.is_some_and(|extensions| extensions.get(client_tasks::EXTENSION).is_some());
        always || options.extensions.contains_key(client_tasks::EXTENSION)
    }

    async fn ask(
        &self,
        request: &Message,
        options: &CallOptions,
        patience: Patience,
    ) -> Result<Message, CallError> {
        let exchange = self.connection.inbox.next_exchange();
        let reports = method::may_ask(request.method()) || options.on_progress.is_some();
        let request = self.enveloped(request, options, reports.then_some(exchange));
        let pending = Arc::new(PendingCall::new(options.on_progress.clone(), None));
        self.connection.ask(exchange, pending, &request, patience).await
    }

    /// Adds what every request says about itself: in `_meta`, where its own
    /// members win only if they are not the envelope's.
    ///
    /// wire: META-1, PRG-1
    pub(super) fn enveloped(
        &self,
        message: &Message,
        options: &CallOptions,
        token: Option<Exchange>,
    ) -> Message {
        let more = &options.meta;
        let mut members: Vec<(&str, String)> =
            more.iter().map(|(name, value)| (name.as_str(), value.to_string())).collect();
        let key = Member::MetaProgressToken.key();
        let has_token = more.contains_key(key) || message.has(Member::MetaProgressToken);
        if let Some(token) = token.filter(|_| !has_token) {
            members.push((key, token.0.to_string()));
        }
        members.extend(self.envelope.iter().map(|(member, value)| match member {
            Member::MetaCapabilities => (member.key(), extended(value, &options.extensions)),
            _ => (member.key(), value.clone()),
        }));
        if members.is_empty() {
            return message.clone();
        }
        let meta = message.part(Member::Meta).filter(|meta| meta.is_object());
        let meta = Bytes::copy_from_slice(meta.map_or(b"{}", Part::text));
        let meta = members.iter().rev().fold(meta, |meta, (name, value)| {
            Part::new(&meta).with(name, value.as_bytes()).unwrap_or(meta)
        });
        message.with(Member::Meta, meta)
    }

    /// The request of the next round: the first one, the answers to all
    /// questions, and the server's state as it was given.
    async fn next_round(
        &self,
        original: &Message,
        answer: &Message,
        round: usize,
    ) -> Result<Message, CallError> {
        let requests = answer.part(Member::InputRequests);
        let state = answer.get(Member::RequestState);
        let mut request = original.clone();
        match (requests, state) {
            (Some(requests), _) => {
                let requests = requests.read().map_err(|_| CallError::Unusable {
                    what: "inputRequests is no object".to_owned(),
                })?;
                let answers = Value::from(self.gather(requests).await?).to_string();
                request = request.with(Member::InputResponses, answers);
            }
            (None, Some(_)) => {
                tokio::time::sleep(pace(round)).await;
            }
            (None, None) => {
                let what = "input_required without questions or state".to_owned();
                return Err(CallError::Unusable { what });
            }
        }
        if let Some(state) = state {
            request = request.with(Member::RequestState, Bytes::copy_from_slice(state));
        }
        Ok(request)
    }

    /// All answers of one round, side by side; the first that fails ends it
    /// for all, because there is no way to say so (MRTR-10).
    pub(super) async fn gather(
        &self,
        requests: Map<String, Value>,
    ) -> Result<Map<String, Value>, CallError> {
        if requests.len() > self.options.limits.asks {
            return Err(CallError::Unusable { what: "too many inputRequests".to_owned() });
        }
        let mut answering = JoinSet::new();
        for (key, mut request) in requests {
            let method = request["method"].as_str().unwrap_or_default().to_owned();
            let params = take_member(&mut request, "params");
            let Some(answer) = self.options.callbacks.answers.find(&method, &params) else {
                let why = "nobody here answers that".to_owned();
                return Err(CallError::Unanswered { method, why });
            };
            let answer = answer(params);
            answering.spawn(async move { (key, method, answer.await) });
        }
        let mut answers = Map::new();
        while let Some(done) = answering.join_next().await {
            let Ok((key, method, answer)) = done else {
                let why = "answering failed".to_owned();
                return Err(CallError::Unanswered { method: "input".to_owned(), why });
            };
            match answer {
                Ok(answer) => _ = answers.insert(key, answer),
                Err(why) => {
                    return Err(CallError::Unanswered { method, why: why.to_string() });
                }
            }
        }
        Ok(answers)
    }
}

/// A member of what a server said, whatever that is: writing `value["member"]`
/// to change it would panic where there is no object.
pub(super) fn take_member(value: &mut Value, member: &str) -> Value {
    value.get_mut(member).map(Value::take).unwrap_or_default()
}

/// Capabilities with more extensions (EXT-1).
fn extended(capabilities: &str, extensions: &Map<String, Value>) -> String {
    if extensions.is_empty() {
        return capabilities.to_owned();
    }
    let mut all: Value = serde_json::from_str(capabilities).unwrap_or_default();
    for (name, settings) in extensions {
        all["extensions"][name] = settings.clone();
    }
    all.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: MRTR-6
    #[test]
    fn a_server_that_gives_nothing_but_its_state_is_asked_more_and_more_slowly() {
        let paces: Vec<_> = (0..ROUNDS).map(pace).collect();
        assert!(paces.is_sorted() && paces[0] > Duration::ZERO, "{paces:?}");
        assert_eq!(pace(usize::MAX), SLOWEST);
    }

    /// wire: EXT-1
    #[test]
    fn a_call_may_declare_more_than_the_connection() {
        let more = Map::from_iter([("a.b/c".to_owned(), serde_json::json!({"k": 1}))]);
        assert_eq!(extended("{}", &more), r#"{"extensions":{"a.b/c":{"k":1}}}"#);
        assert_eq!(extended(r#"{"roots":{}}"#, &Map::new()), r#"{"roots":{}}"#);
    }
}
