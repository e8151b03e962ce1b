//! The calls towards one server: their owners, ids and progress tokens, which of them a
//! question is about, and the tasks that they have begun.
//!
//! Every call gets an id of ours, so that no two clients and none of our own
//! errands collide. Tokens are rewritten only where clients share the server (STD-9).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::across::TaskTerm;
use super::{CallId, Sharing};
use crate::calls::{CallEvent, Calls, Patience};
use crate::failure::Failure;
use crate::jsonrpc::{Id, Kind, Member, Message};
use crate::limits::{Limits, MAX_ID};
use crate::method;

/// All calls in flight. `O` says whose a call is.
#[derive(Debug)]
pub(super) struct Ledger<O> {
    sharing: Sharing,
    calls: Calls<Call<O>>,
    /// Open calls on which the server may want input.
    asking: BTreeSet<u64>,
    /// By value, for a server may spell a token its own way.
    tokens: HashMap<Id, Token>,
    next_token: u64,
    /// For the greeting.
    greeting: Patience,
    pub(super) running: Running,
}

/// One call in flight.
#[derive(Debug)]
pub(super) struct Call<O> {
    pub(super) owner: O,
    /// In its client's words.
    pub(super) request: Message,
    /// As it went out, in case it may be sent again.
    pub(super) sent: Message,
    /// It was sent again already.
    pub(super) repeated: bool,
    begun: Instant,
    token: Option<Id>,
}

impl<O> Call<O> {
    /// What its owner is told when it has taken too long.
    pub(super) fn timed_out(&self, now: Instant) -> Failure {
        Failure::Timeout { waited: now.saturating_duration_since(self.begun) }
    }
}

/// What the client calls its progress, and the call that it is about.
#[derive(Debug)]
struct Token {
    original: Bytes,
    call: u64,
}

impl<O> Ledger<O> {
    pub(super) fn new(sharing: Sharing, limits: &Limits) -> Self {
        let patience = Patience { quiet: limits.quiet, total: limits.total };
        Self {
            sharing,
            calls: Calls::new(patience),
            asking: BTreeSet::new(),
            tokens: HashMap::new(),
            next_token: 1,
            greeting: Patience { quiet: limits.greeting.unwrap_or(limits.quiet), ..patience },
            running: Running::new(limits),
        }
    }

    /// Starts a call; says under which id, and what to send.
    pub(super) fn begin(&mut self, owner: O, request: &Message, now: Instant) -> (CallId, Message) {
        let may_ask = method::may_ask(request.method());
        let (sent, token) = self.take_token(request);
        let message = sent.clone();
        let call = Call {
            owner,
            request: request.clone(),
            sent,
            repeated: false,
            begun: now,
            token: token.as_ref().map(|(wire, _)| wire.clone()),
        };
        let id = match request.method() {
            method::INITIALIZE => self.calls.begin_with(call, self.greeting, now),
            _ => self.calls.begin(call, now),
        };
        if let Some((wire, original)) = token {
            self.tokens.insert(wire, Token { original, call: id });
        }
        if may_ask {
            self.asking.insert(id);
        }
        (CallId(id), message.with_id(&Id::from(id)))
    }

    /// The request as it goes out, and its progress token: on the wire, and the client's own.
    fn take_token(&mut self, request: &Message) -> (Message, Option<(Id, Bytes)>) {
        let original = request.get(Member::MetaProgressToken).map(Bytes::copy_from_slice);
        let (Some(original), Some(token)) = (original, request.progress_token()) else {
            return (request.clone(), None);
        };
        if self.sharing == Sharing::Alone {
            return (request.clone(), Some((token, original)));
        }
        let wire = Id::Text(format!("switchboard-{}", self.next_token).into());
        self.next_token += 1;
        let sent = request.with(Member::MetaProgressToken, wire.to_string());
        (sent, Some((wire, original)))
    }

    /// An answer arrived: whose it is. None if nobody waits for it.
    pub(super) fn answer(&mut self, answer: &Message) -> Option<(CallId, Call<O>)> {
        self.end(CallId(call_number(answer.id()?)?))
    }

    /// A call is over. None if nobody waits for it.
    pub(super) fn end(&mut self, id: CallId) -> Option<(CallId, Call<O>)> {
        self.calls.handle_answer(id.0).ok()?;
        self.next_closed()
    }

    /// Progress arrived: the call it is about, and the notification in its client's words.
    pub(super) fn progress(
        &mut self,
        message: &Message,
        now: Instant,
    ) -> Option<(CallId, Message)> {
        let token = self.tokens.get(&message.progress_token()?)?;
        self.calls.handle_progress(token.call, now);
        let message = match self.sharing {
            Sharing::Alone => message.clone(),
            Sharing::Shared => message.with(Member::ProgressToken, token.original.clone()),
        };
        Some((CallId(token.call), message))
    }

    /// A call goes on for as long as it takes.
    pub(super) fn keep(&mut self, id: CallId, now: Instant) {
        self.calls.keep(id.0, now);
    }

    /// The server waits for the client of a call.
    pub(super) fn hold(&mut self, id: CallId, now: Instant) {
        self.calls.hold(id.0, now);
    }

    /// It has what it waited for.
    pub(super) fn release(&mut self, id: CallId, now: Instant) {
        self.calls.release(id.0, now);
    }

    /// Open calls of this method, and what was asked.
    pub(super) fn of_method(&self, method: &str) -> impl Iterator<Item = (CallId, &Message)> {
        let open = self.calls.iter().map(|(id, call)| (CallId(id), &call.request));
        open.filter(move |(_, request)| request.method() == method)
    }

    /// Nobody wants the answer any more.
    pub(super) fn cancel(&mut self, id: CallId, now: Instant) -> Option<Call<O>> {
        self.calls.cancel(id.0, now);
        self.next_closed().map(|(_, call)| call)
    }

    /// The next call that has taken too long.
    pub(super) fn expired(&mut self, now: Instant) -> Option<(CallId, Call<O>)> {
        self.calls.handle_timeout(now);
        self.next_closed()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.calls.poll_timeout()
    }

    fn next_closed(&mut self) -> Option<(CallId, Call<O>)> {
        let (CallEvent::Answered { id, ticket } | CallEvent::GaveUp { id, ticket, .. }) =
            self.calls.poll()?;
        self.clear(id, &ticket);
        Some((CallId(id), ticket))
    }

    /// The link is gone: every call that was open.
    pub(super) fn drain(&mut self) -> Vec<Call<O>> {
        self.asking.clear();
        self.tokens.clear();
        self.running.lose();
        self.calls.drain().into_iter().map(|(_, call)| call).collect()
    }

    fn clear(&mut self, id: u64, call: &Call<O>) {
        self.asking.remove(&id);
        if let Some(token) = &call.token {
            self.tokens.remove(token);
        }
    }

    pub(super) fn get(&self, id: CallId) -> Option<&Call<O>> {
        self.calls.get(id.0)
    }

    pub(super) fn get_mut(&mut self, id: CallId) -> Option<&mut Call<O>> {
        self.calls.get_mut(id.0)
    }

    /// Notes that a call was sent again; false if it had been before.
    pub(super) fn repeat(&mut self, id: CallId) -> bool {
        match self.calls.get_mut(id.0) {
            Some(call) => !std::mem::replace(&mut call.repeated, true),
            None => false,
        }
    }

    /// The calls that the server could be asking about, oldest first.
    pub(super) fn asking(&self) -> impl Iterator<Item = CallId> {
        self.asking.iter().map(|&id| CallId(id))
    }

    /// The only call that the server could be asking about, if there is just one.
    pub(super) fn sole_asking(&self) -> Option<CallId> {
        let mut open = self.asking.iter();
        match (open.next(), open.next()) {
            (Some(&id), None) => Some(CallId(id)),
            _ => None,
        }
    }

    /// The only call that is open, if there is just one.
    pub(super) fn sole(&self) -> Option<CallId> {
        let mut open = self.calls.iter();
        match (open.next(), open.next()) {
            (Some((id, _)), None) => Some(CallId(id)),
            _ => None,
        }
    }

    /// The open calls that asked for log records, oldest first (LOG-1).
    pub(super) fn wanting_logs(&self) -> Vec<CallId> {
        let open = self.calls.iter().filter(|(_, call)| call.sent.has(Member::MetaLogLevel));
        open.map(|(id, _)| CallId(id)).collect()
    }

    /// The open calls that `is_theirs` says yes to.
    pub(super) fn ids(&self, is_theirs: impl Fn(&O) -> bool) -> Vec<CallId> {
        let theirs = self.calls.iter().filter(|(_, call)| is_theirs(&call.owner));
        theirs.map(|(id, _)| CallId(id)).collect()
    }

    /// Whose the open calls are.
    pub(super) fn owners(&self) -> impl Iterator<Item = &O> {
        self.calls.iter().map(|(_, call)| &call.owner)
    }

    /// The only open call, if there is just one.
    pub(super) fn only(&self) -> Option<CallId> {
        let mut open = self.calls.iter();
        match (open.next(), open.next()) {
            (Some((id, _)), None) => Some(CallId(id)),
            _ => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }
}

/// The number that an id of ours is.
pub(super) fn call_number(id: &Id) -> Option<u64> {
    match id {
        Id::Integer(number) => u64::try_from(*number).ok(),
        Id::Large(_) | Id::Text(_) => None,
    }
}

/// The notice that a call is cancelled: the client's own, if it gave one, under our id.
pub(super) fn cancel_notice(id: CallId, words: Option<&Message>) -> Message {
    let words = words.filter(|message| message.kind() == Kind::Notification);
    // Who might read another id than ours in them could cancel a call of somebody else.
    let words = words.filter(|message| !message.is_ambiguous(Member::RequestId)).cloned();
    let words = words.unwrap_or_else(|| Message::notification(method::CANCELLED, None));
    let has_list = words.payload().is_some_and(|params| !params.starts_with(b"{"));
    let words = if has_list { words.with_payload(b"{}") } else { words };
    words.with(Member::RequestId, id.0.to_string())
}

/// Questions of one call before others are thought to be about another.
const MOST_OF_ONE: usize = 8;

/// The oldest of the `open` calls that is not asked yet. Where all are, it is most
/// likely one more of the last that was: others may be parked, and their clients
/// gone. `asked` names a call for each question, the oldest question first.
pub(super) fn likely_call<K: Ord + Copy>(
    open: impl Iterator<Item = K>,
    asked: impl Iterator<Item = K>,
) -> Option<K> {
    let mut questions: BTreeMap<K, usize> = open.map(|call| (call, 0)).collect();
    let mut last = None;
    for call in asked {
        if let Some(count) = questions.get_mut(&call) {
            *count += 1;
        }
        last = Some(call);
    }
    let (&idlest, &fewest) = questions.iter().min_by_key(|&(call, count)| (*count, *call))?;
    let again = last.filter(|call| questions.get(call).is_some_and(|&count| count < MOST_OF_ONE));
    again.filter(|_| fewest > 0).or(Some(idlest))
}

// Tasks that go on at a server, as seen in passing. Clients of its era know of them without
// our help, but the server must not be taken for unused.
// In the core of an era a task is over when its result was fetched, for its server must keep it
// until then. As an extension, it is over when the server says so.

#[derive(Debug)]
pub(super) struct Running {
    tasks: BTreeMap<Box<str>, TaskTerm>,
    most: usize,
    longest: Duration,
}

impl Running {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { tasks: BTreeMap::new(), most: limits.tasks, longest: limits.total }
    }

    /// Whether one goes on.
    pub(super) fn holds(&self, now: Instant) -> bool {
        self.tasks.values().any(|term| term.holds(now, self.longest))
    }

    /// The server is another from here on.
    pub(super) fn lose(&mut self) {
        self.tasks.clear();
    }

    /// The server answers a request.
    pub(super) fn see(&mut self, request: &Message, answer: &Message, now: Instant) {
        let is_result = answer.kind() == Kind::Result;
        let subject = || request.task_id().unwrap_or_default();
        match request.method() {
            method::CALL_TOOL if is_result => self.begin(answer, now),
            method::GET_TASK if is_result => self.renew(&subject(), answer),
            method::CANCEL_TASK if !is_result => {}
            method::GET_TASK | method::TASK_RESULT | method::CANCEL_TASK => {
                self.tasks.remove(&*subject());
            }
            _ => {}
        }
    }

    /// A task may have begun.
    fn begin(&mut self, answer: &Message, now: Instant) {
        let is_flat = answer.result_type().is_some_and(|kind| kind == "task");
        let id = answer.string(if is_flat { Member::TaskId } else { Member::NewTaskId });
        let Some(id) = id.filter(|id| id.len() <= MAX_ID) else { return };
        let state = if is_flat { answer.payload_value() } else { answer.value(Member::Task) };
        if self.tasks.len() >= self.most {
            self.tasks.retain(|_, term| term.holds(now, self.longest));
        }
        if self.tasks.len() < self.most {
            self.tasks.insert(id.into(), TaskTerm::begin(&state.unwrap_or_default(), now));
        }
    }

    fn renew(&mut self, id: &str, answer: &Message) {
        let has_end = answer.has(Member::EndResult) || answer.has(Member::EndError);
        if has_end || answer.string(Member::Status).is_some_and(|status| status == "cancelled") {
            self.tasks.remove(id);
        } else if let Some(term) = self.tasks.get_mut(id) {
            term.renew(&answer.payload_value().unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_is_not_asked_then_the_one_that_was_asked_last() {
        let guess =
            |open: &[u8], asked: &[u8]| likely_call(open.iter().copied(), asked.iter().copied());
        assert_eq!(guess(&[], &[1]), None);
        assert_eq!(guess(&[2, 1], &[]), Some(1));
        assert_eq!(guess(&[1, 2, 3], &[1, 3]), Some(2));
        assert_eq!(guess(&[1, 2], &[2, 1]), Some(1));
        assert_eq!(guess(&[1, 2], &[1, 2]), Some(2));
        assert_eq!(guess(&[1, 2], &[1, 2, 9]), Some(1), "the last is not open any more");
        assert_eq!(guess(&[1, 2], &[1, 2, 2, 2, 2, 2, 2, 2, 2]), Some(1), "so many of one call");
    }
}

#[cfg(test)]
mod running_tests {
    use std::time::Duration;

    use super::*;
    use crate::shorthand::message;

    fn running() -> Running {
        let total = Duration::from_secs(100);
        Running::new(&Limits { tasks: 2, total, ..Limits::default() })
    }

    #[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
    fn start() -> Instant {
        Instant::now()
    }

    fn see(running: &mut Running, request: &str, answer: &str, now: Instant) {
        running.see(&message(request), &message(answer), now);
    }

    /// wire: TASK-2, TASK-4
    #[test]
    fn a_task_of_the_extension_goes_on_until_its_end_is_told() {
        let (mut running, now) = (running(), start());
        see(&mut running, "1 tools/call {}", r#"1 = {"resultType":"complete","taskId":"no"}"#, now);
        assert!(!running.holds(now));
        see(&mut running, "1 tools/call {}", r#"1 = {"resultType":"task","taskId":"a"}"#, now);
        let get = r#"2 tasks/get {"taskId":"a"}"#;
        see(&mut running, get, r#"2 = {"taskId":"a","status":"working"}"#, now);
        assert!(running.holds(now));
        see(&mut running, get, r#"2 = {"taskId":"a","status":"completed","result":{}}"#, now);
        assert!(!running.holds(now));
    }

    #[test]
    fn a_task_of_the_core_goes_on_until_its_result_is_fetched() {
        let (mut running, now) = (running(), start());
        let begun = r#"1 = {"task":{"taskId":"a","status":"working","ttl":5000}}"#;
        see(&mut running, "1 tools/call {}", begun, now);
        let cancel = r#"2 tasks/cancel {"taskId":"a"}"#;
        see(&mut running, cancel, "2 ! -32602 it is over", now);
        let get = r#"3 tasks/get {"taskId":"a"}"#;
        see(&mut running, get, r#"3 = {"taskId":"a","status":"completed","ttl":9000}"#, now);
        assert!(running.holds(now + Duration::from_secs(8)));
        assert!(!running.holds(now + Duration::from_secs(9)), "its server has forgotten it");
        see(&mut running, r#"4 tasks/result {"taskId":"a"}"#, r#"4 = {"content":[]}"#, now);
        assert!(!running.holds(now));
    }

    #[test]
    fn a_task_that_is_cancelled_or_unknown_is_over() {
        let (mut running, now) = (running(), start());
        for end in [
            (r#"2 tasks/cancel {"taskId":"a"}"#, "2 = {}"),
            (r#"2 tasks/get {"taskId":"a"}"#, r#"2 = {"status":"cancelled"}"#),
            (r#"2 tasks/get {"taskId":"a"}"#, "2 ! -32602 no such task"),
        ] {
            see(&mut running, "1 tools/call {}", r#"1 = {"resultType":"task","taskId":"a"}"#, now);
            assert!(running.holds(now));
            see(&mut running, end.0, end.1, now);
            assert!(!running.holds(now), "{end:?}");
        }
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for_and_none_for_ever() {
        let (mut running, now) = (running(), start());
        for id in 0..3 {
            let begun = format!(r#"1 = {{"task":{{"taskId":"{id}"}}}}"#);
            see(&mut running, "1 tools/call {}", &begun, now);
        }
        assert_eq!(running.tasks.len(), 2);
        let later = now + Duration::from_secs(100);
        assert!(!running.holds(later));
        see(&mut running, "1 tools/call {}", r#"1 = {"task":{"taskId":"b"}}"#, later);
        assert!(running.holds(later));
    }
}
