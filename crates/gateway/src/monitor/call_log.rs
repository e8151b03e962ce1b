//! The last calls of all clients, and the last that failed: for `get_trace_by_id`, and for the
//! people who look at the console.
//!
//! Of a call no arguments, no results and no words of an error are remembered. An entry has no
//! text of its own: names are kept once for all calls that have them.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::digest::{SHA256, digest};
use switchboard_net::call::CallPoint;
use switchboard_net::connection::ClientConnection;
use switchboard_proto::method;
use switchboard_proto::revision::Era;

use super::{CallEnd, CallResult, METHODS, ObservedCall};
use crate::lock;

/// Calls that are remembered.
const MAX_CALLS: usize = 4096;
/// Calls that failed, and are remembered for longer.
const MAX_FAILED: usize = 1024;
/// Names that are kept; those that no call has any more are dropped first.
const MAX_NAMES: usize = 4 * (MAX_CALLS + MAX_FAILED);

/// A call that is over.
#[derive(Clone, Debug)]
pub struct LoggedCall {
    /// Counts the calls.
    pub number: u64,
    /// The trace that it is part of.
    pub trace: u128,
    /// When it came, in microseconds of Unix time.
    at: u64,
    /// How long it took, in microseconds.
    took: u32,
    /// When it reached each point after it came.
    pub(super) points: CallPoints,
    /// The code of an error.
    pub code: Option<i32>,
    /// How it ended.
    pub outcome: CallResult,
    method: u8,
    /// The era of its client.
    pub era: Era,
    /// Whether its client is on our own stdio.
    is_piped: bool,
    /// The server that it went to.
    pub server: Option<Arc<str>>,
    /// The tool, prompt or resource as the client calls it.
    pub offered: Option<Arc<str>>,
    /// The same as its server calls it.
    pub target: Option<Arc<str>>,
    /// Whose it is; empty for clients without a key.
    pub identity: Arc<str>,
    /// What the client calls itself.
    pub client: Option<Arc<str>>,
    /// The beginning of its session's id.
    pub session: Option<Arc<str>>,
}

/// When a call reached some points, in microseconds after it came; zero for those that it did
/// not reach.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallPoints {
    /// It was routed to its server.
    pub routed: u32,
    /// The server may have it.
    pub admitted: u32,
    /// The server asked its first question.
    pub asked: u32,
    /// The answer came.
    pub answered: u32,
}

/// Microseconds that fit.
pub(super) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

impl CallPoints {
    pub(super) fn reach(&mut self, point: CallPoint, after: Duration) {
        let field = match point {
            CallPoint::Admitted => &mut self.admitted,
            CallPoint::Asked => &mut self.asked,
            CallPoint::Answered => &mut self.answered,
            _ => return,
        };
        // Of several questions the first counts, of several answers the last.
        if *field == 0 || point == CallPoint::Answered {
            *field = micros(after).max(1);
        }
    }
}

impl LoggedCall {
    /// When it came.
    pub fn at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.at)
    }

    /// How long it took.
    pub fn took(&self) -> Duration {
        Duration::from_micros(self.took.into())
    }

    /// When it reached some points.
    pub fn points(&self) -> CallPoints {
        self.points
    }

    /// How its client is connected.
    pub fn transport(&self) -> &'static str {
        if self.is_piped { "stdio" } else { "http" }
    }

    /// Its method; `other` if that is none of the protocol.
    pub fn method(&self) -> &'static str {
        METHODS[usize::from(self.method)]
    }

    /// Whether it failed.
    pub fn has_failed(&self) -> bool {
        matches!(self.outcome, CallResult::Error | CallResult::ToolError)
    }

    /// The name of whoever made it; what tells those apart who have none; nothing if they do
    /// not say.
    pub fn principal(&self) -> Option<String> {
        let name = self.identity.split('\0').next().unwrap_or_default();
        if !name.is_empty() || self.identity.is_empty() {
            return Some(name.to_owned()).filter(|name| !name.is_empty());
        }
        let digest = digest(&SHA256, self.identity.as_bytes());
        Some(digest.as_ref()[..4].iter().fold(String::new(), |text, it| format!("{text}{it:02x}")))
    }
}

/// The last calls. While nobody wants them, none is remembered.
#[derive(Default)]
pub struct CallLog {
    /// Whether the tools of the gateway itself want them.
    tools_want: AtomicBool,
    /// Whether people want them.
    people_want: AtomicBool,
    /// How many calls there were.
    last: AtomicU64,
    kept: Mutex<KeptCalls>,
}

#[derive(Default)]
struct KeptCalls {
    calls: VecDeque<Arc<LoggedCall>>,
    failed: VecDeque<Arc<LoggedCall>>,
    names: HashSet<Arc<str>>,
}

impl KeptCalls {
    /// The one copy of a name.
    fn name(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.names.get(text) {
            return Arc::clone(known);
        }
        if self.names.len() >= MAX_NAMES {
            self.names.retain(|name| Arc::strong_count(name) > 1);
        }
        let name: Arc<str> = text.into();
        self.names.insert(Arc::clone(&name));
        name
    }

    fn push(&mut self, call: LoggedCall) {
        let call = Arc::new(call);
        if call.has_failed() {
            push_bounded(&mut self.failed, Arc::clone(&call), MAX_FAILED);
        }
        push_bounded(&mut self.calls, call, MAX_CALLS);
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}

impl CallLog {
    /// Whether the tools of the gateway itself want them, from here on.
    pub(super) fn offer_tools(&self, are_offered: bool) {
        self.tools_want.store(are_offered, Ordering::Relaxed);
    }

    pub(super) fn has_tools(&self) -> bool {
        self.tools_want.load(Ordering::Relaxed)
    }

    /// Remembers calls for people, from here on.
    pub(super) fn keep_for_people(&self) {
        self.people_want.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.has_tools() || self.people_want.load(Ordering::Relaxed)
    }

    /// Remembers a call, if calls are; its number.
    pub(super) fn add(
        &self,
        client: &ClientConnection,
        call: &ObservedCall,
        end: &CallEnd,
    ) -> Option<u64> {
        if !self.is_wanted() || &*call.method == method::PING {
            return None;
        }
        let at = call.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let method = METHODS.iter().position(|known| *known == &*call.method);
        let method = method.unwrap_or(METHODS.len() - 1);
        let said = client.intro().map(|intro| &*intro.name).filter(|name| !name.is_empty());
        let said = said.or(call.client.as_deref());
        let mut kept = lock(&self.kept);
        let mut name = |text: Option<&str>| text.map(|text| kept.name(text));
        let call = LoggedCall {
            number: self.last.load(Ordering::Relaxed) + 1,
            trace: call.trace,
            at: u64::try_from(at).unwrap_or_default(),
            took: micros(end.took),
            points: call.points,
            code: end.code.and_then(|code| i32::try_from(code).ok()),
            outcome: end.outcome,
            method: u8::try_from(method).unwrap_or_default(),
            era: client.era(),
            is_piped: call.transport != "tcp",
            server: call.server.clone(),
            offered: name(call.offered.as_deref()),
            target: name(call.target.as_deref()),
            identity: client.who().shared_identity(),
            client: name(said),
            session: name(client.session()),
        };
        let number = call.number;
        self.last.store(number, Ordering::Relaxed);
        kept.push(call);
        Some(number)
    }

    /// How many calls there were.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// The calls after one of this number that are kept, newest first: those of all, and
    /// before them the ones that failed.
    pub fn after(&self, number: u64) -> Vec<Arc<LoggedCall>> {
        let kept = lock(&self.kept);
        let is_new = |call: &&Arc<LoggedCall>| call.number > number;
        let mut found: Vec<_> = kept.calls.iter().rev().take_while(is_new).cloned().collect();
        let first = kept.calls.front().map_or(0, |call| call.number);
        let earlier = kept.failed.iter().rev().skip_while(|call| call.number >= first);
        found.extend(earlier.take_while(is_new).cloned());
        found
    }

    /// The number of the oldest call of all that is kept.
    pub fn first(&self) -> u64 {
        lock(&self.kept).calls.front().map_or(self.last() + 1, |call| call.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: u64, outcome: CallResult) -> LoggedCall {
        LoggedCall {
            number,
            trace: 0,
            at: 0,
            took: 0,
            points: CallPoints::default(),
            code: None,
            outcome,
            method: 0,
            era: Era::Modern,
            is_piped: false,
            server: None,
            offered: None,
            target: None,
            identity: "".into(),
            client: None,
            session: None,
        }
    }

    #[test]
    fn good_calls_do_not_push_out_those_that_failed() {
        let log = CallLog::default();
        let mut kept = lock(&log.kept);
        kept.push(call(1, CallResult::Error));
        (2..=5000).for_each(|number| kept.push(call(number, CallResult::Ok)));
        drop(kept);
        let all = log.after(0);
        assert_eq!(all.len(), MAX_CALLS + 1);
        assert_eq!((all[0].number, all.last().unwrap().number), (5000, 1));
        assert_eq!(log.first(), 5000 - MAX_CALLS as u64 + 1);
        assert_eq!(log.after(4999).len(), 1);
        assert!(log.after(5000).is_empty());
    }

    #[test]
    fn the_last_calls_take_a_mebibyte_at_most() {
        // B-4: two counters stand before each call, and two queues point to it.
        let each = size_of::<LoggedCall>() + 4 * size_of::<usize>();
        assert!(each * (MAX_CALLS + MAX_FAILED) <= 1 << 20, "{each} bytes a call");
    }

    #[test]
    fn a_name_is_kept_once_and_goes_with_its_last_call() {
        let mut kept = KeptCalls::default();
        let first = kept.name("echo");
        assert!(Arc::ptr_eq(&first, &kept.name("echo")));
        (0..MAX_NAMES).for_each(|number| drop(kept.name(&format!("name {number}"))));
        assert!(kept.names.len() <= MAX_NAMES && kept.names.contains("echo"));
    }

    #[test]
    fn a_caller_is_told_by_name_or_by_what_tells_it_from_others() {
        let named = |identity: &str| {
            LoggedCall { identity: identity.into(), ..call(1, CallResult::Ok) }.principal()
        };
        assert_eq!(named(""), None);
        assert_eq!(named("ada"), Some("ada".to_owned()));
        assert_eq!(named("ada\u{0}7"), Some("ada".to_owned()));
        assert_eq!(named("\u{0}abc").map(|it| it.len()), Some(8));
    }
}
