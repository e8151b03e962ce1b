//! The calls of a client: a method for each thing that a server can do, and the way of a
//! call: its envelope, its rounds of questions, its result.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::{Id, Kind, Member, Message, Part};
use switchboard_proto::method;
use switchboard_proto::refusal::code;
use switchboard_proto::revision::Era;
use tokio::task::JoinSet;

use super::connection::{OpenCall, PendingCall, TimeLimit};
use super::{CallError, CallOptions, Client, ClientCore, Task, cache, client_tasks};
use crate::drive::now;

/// Pages of one list. A server that has more has no end.
const PAGES: usize = 1000;

impl Client {
    /// All tools.
    pub async fn tools(&self) -> Result<Vec<Value>, CallError> {
        self.all(method::LIST_TOOLS, "tools").await
    }

    /// All prompts.
    pub async fn prompts(&self) -> Result<Vec<Value>, CallError> {
        self.all(method::LIST_PROMPTS, "prompts").await
    }

    /// All resources.
    pub async fn resources(&self) -> Result<Vec<Value>, CallError> {
        self.all(method::LIST_RESOURCES, "resources").await
    }

    /// All templates of resources.
    pub async fn templates(&self) -> Result<Vec<Value>, CallError> {
        self.all(method::LIST_TEMPLATES, "resourceTemplates").await
    }

    /// Every page of a list, in order. A cursor that was kept may lead nowhere
    /// any more: then the list is read anew.
    ///
    /// wire: CACHE-4
    pub(super) async fn all(&self, method: &str, member: &str) -> Result<Vec<Value>, CallError> {
        let plain = &CallOptions::default();
        let inbox = &self.core.connection.inbox;
        let mut read = self.list_raw(method, member, plain, usize::MAX).await;
        if let Some(cache) = &inbox.options.cache
            && matches!(read, Err(CallError::Server { code: code::INVALID_PARAMS, .. }))
            && cache.forget_list(&inbox.cache_owner, method)
        {
            read = self.list_raw(method, member, plain, usize::MAX).await;
        }
        read?.items.iter().map(|item| to_value(item)).collect()
    }

    /// Calls a tool; the result may say `isError`. A call that goes on as a task
    /// is waited for, and a tool that runs only as a task is called as one.
    pub async fn call_tool(&self, name: &str, args: impl Serialize) -> Result<Value, CallError> {
        self.call_tool_with(name, args, CallOptions::default()).await
    }

    /// The same with something different about this call.
    pub async fn call_tool_with(
        &self,
        name: &str,
        args: impl Serialize,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        let params = client_tasks::tool_params(name, args)?;
        match self.request_with(method::CALL_TOOL, &params, options.clone()).await {
            // Only for who says that tasks are welcome on this connection.
            Ok(result) if self.era() == Era::Modern => match Task::created(self, &result) {
                Some(mut task) => task.result().await,
                None => Ok(result),
            },
            // Nobody has acted on it.
            Err(why) if self.must_be_task(&why) => {
                self.begin(params, None, options).await?.result().await
            }
            called => called,
        }
    }

    /// Gets a prompt.
    pub async fn prompt(&self, name: &str, args: impl Serialize) -> Result<Value, CallError> {
        let mut params = json!({ "name": name });
        match serde_json::to_value(args).map_err(|_| CallError::BadParams)? {
            Value::Null => {}
            args => params["arguments"] = args,
        }
        self.request(method::GET_PROMPT, params).await
    }

    /// Reads a resource.
    pub async fn read(&self, uri: &str) -> Result<Value, CallError> {
        self.request(method::READ_RESOURCE, json!({ "uri": uri })).await
    }

    /// Completes the argument `name` of a prompt (`{"type": "ref/prompt", "name"}`)
    /// or of a template (`{"type": "ref/resource", "uri"}`); `context` is what is
    /// filled in already.
    pub async fn complete(
        &self,
        of: Value,
        name: &str,
        value: &str,
        context: Map<String, Value>,
    ) -> Result<Value, CallError> {
        let mut params = json!({"ref": of, "argument": {"name": name, "value": value}});
        if !context.is_empty() {
            params["context"] = json!({ "arguments": context });
        }
        self.request(method::COMPLETE, params).await
    }

    /// Whether the server is there. A modern one is asked what it speaks.
    pub async fn ping(&self) -> Result<(), CallError> {
        let method = match self.era() {
            Era::Legacy => method::PING,
            Era::Modern => method::DISCOVER,
        };
        // What was kept would say nothing.
        let none = Bytes::from_static(b"{}");
        self.core.converse(method, none, &CallOptions::default()).await.map(drop)
    }

    /// Tells a legacy server that the roots have changed, if it was told of any.
    /// A modern one asks when it wants to know.
    pub async fn roots_changed(&self) -> Result<(), CallError> {
        match self.era() {
            Era::Legacy if self.core.options().callbacks.answers.roots.is_some() => {
                self.notify("notifications/roots/list_changed", json!({})).await
            }
            Era::Legacy | Era::Modern => Ok(()),
        }
    }

    /// Calls a method; the result as the bytes it came in.
    pub async fn request_raw(
        &self,
        method: &str,
        params: impl Serialize,
        options: CallOptions,
    ) -> Result<Bytes, CallError> {
        self.core.call(method, to_params(&params)?, &options).await
    }

    /// Every item of a list, in order, of at most `most` bytes in all.
    ///
    /// wire: CACHE-4, PAG-1, UTL-5
    pub(crate) async fn list_raw(
        &self,
        method: &str,
        member: &str,
        options: &CallOptions,
        most: usize,
    ) -> Result<RawList, CallError> {
        let unusable = |why| CallError::unusable(format!("{method} {why}"));
        let mut list = RawList::default();
        let mut size = 0;
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let params = cursor.as_ref().map_or(json!({}), |cursor| json!({ "cursor": cursor }));
            let page = self.core.call(method, to_params(&params)?, options).await?;
            size += page.len();
            if size > most {
                return Err(unusable("is too long"));
            }
            list.items.extend(elements(&page, member).unwrap_or_default());
            list.narrow(Part::new(&page), cursor.is_none());
            let next = Part::new(&page).string("nextCursor");
            // An empty cursor is one only where the revision says so.
            let next = next.filter(|next| !next.is_empty() || self.era() == Era::Modern);
            let Some(next) = next else { return Ok(list) };
            if cursor.as_deref() == Some(&*next) {
                return Err(unusable("gives the same cursor again and again"));
            }
            cursor = Some(next.into_owned());
        }
        Err(unusable("has no end"))
    }
}

/// A whole list, and how long it may be kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawList {
    pub(crate) items: Vec<Bytes>,
    /// The shortest time that any page names.
    pub(crate) ttl: Duration,
    /// Whether every page says that anybody may share it.
    pub(crate) is_public: bool,
}

impl RawList {
    /// Another page, which may say less.
    fn narrow(&mut self, page: Part<'_>, is_first: bool) {
        let (ttl, is_public) = cache::read_hints(page);
        self.ttl = if is_first { ttl } else { self.ttl.min(ttl) };
        self.is_public = is_public && (is_first || self.is_public);
    }
}

/// The elements of the array `member`; none if there is no such array.
pub(crate) fn elements(text: &Bytes, member: &str) -> Option<Vec<Bytes>> {
    let list = Part::new(text).get(&[member]).filter(|it| it.is_list())?;
    Some(list.items().map(|item| text.slice_ref(item.text())).collect())
}

/// How often a server may ask before it can answer (MRTR-11).
const ROUNDS: u32 = 10;

/// How long to wait before a call is made again that nobody was asked about:
/// so long times the round, and at most this (MRTR-6).
const PACE: Duration = Duration::from_millis(50);
const SLOWEST: Duration = Duration::from_millis(250);

fn pace(round: u32) -> Duration {
    PACE.saturating_mul(round.saturating_add(1)).min(SLOWEST)
}

/// A result as a value.
pub(super) fn to_value(result: &[u8]) -> Result<Value, CallError> {
    Part::new(result).read().map_err(|error| CallError::unusable(error.to_string()))
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

impl ClientCore {
    /// Makes a call, unless its result is known already.
    ///
    /// wire: CACHE-2, MRTR-12
    pub(super) async fn call(
        &self,
        method: &str,
        params: Bytes,
        options: &CallOptions,
    ) -> Result<Bytes, CallError> {
        let cache =
            self.options().cache.as_ref().filter(|_| self.may_keep(method, &params, options));
        let Some(cache) = cache else {
            return Ok(self.converse(method, params, options).await?.0);
        };
        let owner = &self.connection.inbox.cache_owner;
        if let Some(kept) = cache.get(owner, method, &params, now()) {
            return Ok(kept);
        }
        let emptied = cache.emptied();
        let (result, rounds) = self.converse(method, params.clone(), options).await?;
        if rounds == 0 {
            cache.put(owner, (method, &params), &result, emptied, now());
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
    ) -> Result<(Bytes, u32), CallError> {
        let until = now() + options.total.unwrap_or(self.options().total);
        let quiet = options.timeout.unwrap_or(self.options().timeout);
        let original = Message::request(&Id::from(0), method, Some(&params));
        let mut request = original.clone();
        let reports = method::may_ask(method) || options.on_progress.is_some();
        for round in 0..=ROUNDS {
            let pending = PendingCall::new(options.on_progress.clone(), None);
            let open = OpenCall::new(&self.connection, pending);
            let token = reports.then_some(open.exchange());
            let limit = TimeLimit { quiet, until };
            let answer = open.ask(&self.enveloped(&request, options, token), limit).await?;
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
                    return Err(CallError::unusable(format!("resultType {kind:?} for {method}")));
                }
            }
        }
        Err(CallError::TooManyRounds { rounds: ROUNDS })
    }

    /// Whether a call may go on as a task (TASK-1).
    fn takes_tasks(&self, options: &CallOptions) -> bool {
        let always = self.options().capabilities.get("extensions");
        always.is_some_and(|always| always.get(client_tasks::EXTENSION).is_some())
            || options.extensions.contains_key(client_tasks::EXTENSION)
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
        round: u32,
    ) -> Result<Message, CallError> {
        let state = answer.get(Member::RequestState);
        let mut request = original.clone();
        if let Some(requests) = answer.part(Member::InputRequests) {
            let requests = requests.read();
            let requests =
                requests.map_err(|_| CallError::unusable("inputRequests is no object"))?;
            let answers = Value::from(self.answer_all(requests).await?).to_string();
            request = request.with(Member::InputResponses, answers);
        } else if state.is_some() {
            tokio::time::sleep(pace(round)).await;
        } else {
            return Err(CallError::unusable("input_required without questions or state"));
        }
        if let Some(state) = state {
            request = request.with(Member::RequestState, Bytes::copy_from_slice(state));
        }
        Ok(request)
    }

    /// All answers of one round, side by side; the first that fails ends it
    /// for all, because there is no way to say so (MRTR-10).
    pub(super) async fn answer_all(
        &self,
        requests: Map<String, Value>,
    ) -> Result<Map<String, Value>, CallError> {
        if requests.len() > self.options().limits.asks {
            return Err(CallError::unusable("too many inputRequests"));
        }
        let unanswered = |method: &str, why: &str| CallError::Unanswered {
            method: method.to_owned(),
            why: why.to_owned(),
        };
        let mut answering = JoinSet::new();
        for (key, mut request) in requests {
            let method = request["method"].as_str().unwrap_or_default().to_owned();
            let params = take_member(&mut request, "params");
            let Some(answer) = self.options().callbacks.answers.find(&method, &params) else {
                return Err(unanswered(&method, "nobody here answers that"));
            };
            let answer = answer(params);
            answering.spawn(async move { (key, method, answer.await) });
        }
        let mut answers = Map::new();
        while let Some(done) = answering.join_next().await {
            let (key, method, answer) =
                done.map_err(|_| unanswered("input", "answering failed"))?;
            answers.insert(key, answer.map_err(|why| unanswered(&method, &why.0))?);
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
        assert_eq!(pace(u32::MAX), SLOWEST);
    }

    /// wire: EXT-1
    #[test]
    fn a_call_may_declare_more_than_the_connection() {
        let more = Map::from_iter([("a.b/c".to_owned(), serde_json::json!({"k": 1}))]);
        assert_eq!(extended("{}", &more), r#"{"extensions":{"a.b/c":{"k":1}}}"#);
        assert_eq!(extended(r#"{"roots":{}}"#, &Map::new()), r#"{"roots":{}}"#);
    }

    /// wire: CACHE-2, CACHE-4
    #[test]
    fn a_list_is_kept_as_its_strictest_page_says() {
        let listed = |pages: &[&str]| {
            let mut list = RawList::default();
            for (number, page) in pages.iter().enumerate() {
                list.narrow(Part::new(page.as_bytes()), number == 0);
            }
            (list.ttl.as_millis(), list.is_public)
        };
        let public = r#"{"ttlMs":9000,"cacheScope":"public"}"#;
        assert_eq!(listed(&[public, public]), (9000, true));
        assert_eq!(listed(&[public, r#"{"ttlMs":5,"cacheScope":"private"}"#]), (5, false));
        assert_eq!(listed(&[r#"{"cacheScope":"public"}"#, public]), (0, true));
        assert_eq!(listed(&[public, "{}"]), (0, false));
        assert_eq!(listed(&[r#"{"ttlMs":-1,"cacheScope":7}"#]), (0, false));
    }
}
