//! The calls towards one server: their owners, ids and progress tokens, which of them a
//! question is about, and the tasks that they have begun.
//!
//! Every call gets an id of ours, so that no two clients and none of our own
//! calls collide. A call that takes too long is given up. Tokens are rewritten only where clients share the server (STD-9).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::across::TaskTerm;
use super::{CallId, Sharing};
use crate::failure::Failure;
use crate::jsonrpc::{Id, Kind, Member, Message};
use crate::limits::{Limits, MAX_ID};
use crate::method;

/// All calls in flight. `O` says whose a call is.
///
/// ```text
///              begin
///                │
///                ▼        answer, cancel, or deadline
///   progress ┌─ open ──────────────────────────────▶ gone
///   (extends)└──▶│ ▲
///                │ └─ release: the server has what it waited for
///                └ hold: the server waits for a client, only the time in all runs
/// ```
#[derive(Debug)]
pub(super) struct Ledger<O> {
    sharing: Sharing,
    next_id: u64,
    open: BTreeMap<u64, OutstandingCall<O>>,
    /// Each open call once, the most urgent first.
    deadlines: BTreeSet<(Instant, u64)>,
    /// Open calls on which the server may want input.
    asking: BTreeSet<u64>,
    /// By value, for a server may spell a token its own way.
    tokens: HashMap<Id, ProgressToken>,
    next_token: u64,
    /// How long a call may take: between signs of life, and in all.
    quiet: Duration,
    total: Duration,
    /// The first for the greeting.
    greeting: Duration,
    pub(super) running: Running,
}

/// One call in flight.
#[derive(Debug)]
pub(super) struct OutstandingCall<O> {
    pub(super) owner: O,
    /// In its client's words.
    pub(super) request: Message,
    /// As it went out, in case it may be sent again.
    pub(super) sent: Message,
    /// It was sent again already.
    pub(super) repeated: bool,
    begun: Instant,
    token: Option<Id>,
    quiet: Duration,
    deadline: Instant,
    /// When its time in all is over.
    latest: Instant,
    /// What of a client the server waits for.
    holds: usize,
}

impl<O> OutstandingCall<O> {
    /// What its owner is told when it has taken too long.
    pub(super) fn timed_out(&self, now: Instant) -> Failure {
        Failure::Timeout { waited: now.saturating_duration_since(self.begun) }
    }
}

/// What the client calls its progress, and the call that it is about.
#[derive(Debug)]
struct ProgressToken {
    original: Bytes,
    call: u64,
}

/// Longer than anybody waits.
const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 10);

/// A time without end must not overflow the clock.
fn after(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now + FOR_EVER)
}

impl<O> Ledger<O> {
    pub(super) fn new(sharing: Sharing, limits: &Limits) -> Self {
        Self {
            sharing,
            next_id: 1,
            open: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            asking: BTreeSet::new(),
            tokens: HashMap::new(),
            next_token: 1,
            quiet: limits.quiet,
            total: limits.total,
            greeting: limits.greeting.unwrap_or(limits.quiet),
            running: Running::new(limits),
        }
    }

    /// Starts a call; says under which id, and what to send.
    pub(super) fn begin(&mut self, owner: O, request: &Message, now: Instant) -> (CallId, Message) {
        let id = self.next_id;
        self.next_id += 1;
        let (sent, token) = self.take_token(request);
        let message = sent.with_id(&Id::from(id));
        let greets = request.method() == method::INITIALIZE;
        let quiet = if greets { self.greeting } else { self.quiet };
        let latest = after(now, self.total);
        let deadline = latest.min(after(now, quiet));
        let call = OutstandingCall {
            owner,
            request: request.clone(),
            sent,
            repeated: false,
            begun: now,
            token: token.as_ref().map(|(wire, _)| wire.clone()),
            quiet,
            deadline,
            latest,
            holds: 0,
        };
        self.open.insert(id, call);
        self.deadlines.insert((deadline, id));
        if let Some((wire, original)) = token {
            self.tokens.insert(wire, ProgressToken { original, call: id });
        }
        if method::may_ask(request.method()) {
            self.asking.insert(id);
        }
        (CallId(id), message)
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
    pub(super) fn answer(&mut self, answer: &Message) -> Option<(CallId, OutstandingCall<O>)> {
        let id = CallId(call_number(answer.id()?)?);
        Some((id, self.end(id)?))
    }

    /// A call is over: answered, or nobody wants the answer any more. None if it is not open.
    pub(super) fn end(&mut self, id: CallId) -> Option<OutstandingCall<O>> {
        let call = self.open.remove(&id.0)?;
        self.deadlines.remove(&(call.deadline, id.0));
        self.asking.remove(&id.0);
        if let Some(token) = &call.token {
            self.tokens.remove(token);
        }
        Some(call)
    }

    /// Progress arrived: the call it is about, and the notification in its client's words.
    pub(super) fn progress(
        &mut self,
        message: &Message,
        now: Instant,
    ) -> Option<(CallId, Message)> {
        let token = self.tokens.get(&message.progress_token()?)?;
        let id = CallId(token.call);
        let message = match self.sharing {
            Sharing::Alone => message.clone(),
            Sharing::Shared => message.with(Member::ProgressToken, token.original.clone()),
        };
        self.change(id, now, |_| {});
        Some((id, message))
    }

    /// The server took a call on for an unknown time: it goes on for as long as it takes.
    pub(super) fn keep(&mut self, id: CallId, now: Instant) {
        self.change(id, now, |call| (call.quiet, call.latest) = (FOR_EVER, now + FOR_EVER));
    }

    /// The server waits for the client of a call: until as many times
    /// [`release`](Self::release), only the time in all runs.
    pub(super) fn hold(&mut self, id: CallId, now: Instant) {
        self.change(id, now, |call| call.holds += 1);
    }

    /// It has what it waited for.
    pub(super) fn release(&mut self, id: CallId, now: Instant) {
        self.change(id, now, |call| call.holds = call.holds.saturating_sub(1));
    }

    /// There is a sign of life.
    fn change(
        &mut self,
        CallId(id): CallId,
        now: Instant,
        change: impl FnOnce(&mut OutstandingCall<O>),
    ) {
        let Some(call) = self.open.get_mut(&id) else { return };
        self.deadlines.remove(&(call.deadline, id));
        change(call);
        let is_held = call.holds > 0;
        call.deadline = if is_held { call.latest } else { call.latest.min(after(now, call.quiet)) };
        self.deadlines.insert((call.deadline, id));
    }

    /// Open calls of this method, and what was asked.
    pub(super) fn of_method(&self, method: &str) -> impl Iterator<Item = (CallId, &Message)> {
        let open = self.open.iter().map(|(&id, call)| (CallId(id), &call.request));
        open.filter(move |(_, request)| request.method() == method)
    }

    /// The next call that has taken too long.
    pub(super) fn expired(&mut self, now: Instant) -> Option<(CallId, OutstandingCall<O>)> {
        let &(_, id) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now)?;
        Some((CallId(id), self.end(CallId(id))?))
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// The link is gone: every call that was open, oldest first.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = OutstandingCall<O>> + use<O> {
        self.deadlines.clear();
        self.asking.clear();
        self.tokens.clear();
        self.running.lose();
        std::mem::take(&mut self.open).into_values()
    }

    pub(super) fn get(&self, id: CallId) -> Option<&OutstandingCall<O>> {
        self.open.get(&id.0)
    }

    pub(super) fn get_mut(&mut self, id: CallId) -> Option<&mut OutstandingCall<O>> {
        self.open.get_mut(&id.0)
    }

    /// Notes that a call was sent again; false if it had been before.
    pub(super) fn repeat(&mut self, id: CallId) -> bool {
        match self.open.get_mut(&id.0) {
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

    /// The open calls that asked for log records, oldest first (LOG-1).
    pub(super) fn wanting_logs(&self) -> Vec<CallId> {
        let open = self.open.iter().filter(|(_, call)| call.sent.has(Member::MetaLogLevel));
        open.map(|(&id, _)| CallId(id)).collect()
    }

    /// The open calls that `is_theirs` says yes to.
    pub(super) fn ids(&self, is_theirs: impl Fn(&O) -> bool) -> Vec<CallId> {
        let theirs = self.open.iter().filter(|(_, call)| is_theirs(&call.owner));
        theirs.map(|(&id, _)| CallId(id)).collect()
    }

    /// Whose the open calls are.
    pub(super) fn owners(&self) -> impl Iterator<Item = &O> {
        self.open.values().map(|call| &call.owner)
    }

    /// The only open call, if there is just one.
    pub(super) fn only(&self) -> Option<CallId> {
        let mut open = self.open.iter();
        match (open.next(), open.next()) {
            (Some((&id, _)), None) => Some(CallId(id)),
            _ => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
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
mod tests;
