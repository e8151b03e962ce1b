//! Requests and answers of calls, kept while a person has switched that on, and never else.
//!
//! A rule names a server, a user, or both, and ends after 15 minutes at most. What was kept goes
//! 15 minutes after it came, when there is too much, or when a person says so. All of it is in
//! memory alone. While there is no rule, a call costs one look at a flag.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use crate::lock;

/// Rules at once.
pub const MAX_RULES: usize = 8;
/// How long a rule may last, and how long what it kept is kept.
pub const MAX_TIME: Duration = Duration::from_mins(15);
/// Bytes of one request or answer.
const MAX_BODY: usize = 64 << 10;
/// Bytes of all.
const MAX_BYTES: usize = 16 << 20;
/// Calls that are kept: each has a few bytes beside its text.
const MAX_CALLS: usize = 4096;

/// Which calls are kept, until when, and who said so.
#[derive(Clone, Debug)]
pub struct CaptureRule {
    /// Tells it from others.
    pub number: u64,
    /// Calls to this server; to any if there is none.
    pub server: Option<String>,
    /// Calls of this user; of any if there is none.
    pub principal: Option<String>,
    /// When it ends.
    pub until: SystemTime,
    /// Who switched it on.
    pub by: String,
    ends: Instant,
}

impl CaptureRule {
    fn takes(&self, server: Option<&str>, principal: Option<&str>, now: Instant) -> bool {
        let is_meant = |wanted: &Option<String>, said: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == said)
        };
        now < self.ends && is_meant(&self.server, server) && is_meant(&self.principal, principal)
    }
}

/// The beginning of a request or an answer. It counts among all that is kept until it is dropped.
#[derive(Debug)]
pub(crate) struct CapturedBody {
    text: Box<[u8]>,
    is_cut: bool,
    bytes: Arc<AtomicUsize>,
}

impl CapturedBody {
    /// What was kept, and whether there was more.
    pub(crate) fn text(&self) -> (String, bool) {
        (String::from_utf8_lossy(&self.text).into_owned(), self.is_cut)
    }
}

impl Drop for CapturedBody {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.text.len(), Ordering::Relaxed);
    }
}

/// A call that was kept.
#[derive(Debug)]
pub(crate) struct CapturedCall {
    number: u64,
    at: Instant,
    pub(crate) request: Box<CapturedBody>,
    /// None if there was no answer, or no room for it.
    pub(crate) answer: Option<Box<CapturedBody>>,
}

/// What people have switched on, and what was kept for them.
#[derive(Default)]
pub struct Captures {
    is_on: AtomicBool,
    /// Of all bodies, those of open calls too.
    bytes: Arc<AtomicUsize>,
    state: Mutex<CaptureState>,
}

#[derive(Default)]
struct CaptureState {
    rules: Vec<CaptureRule>,
    calls: VecDeque<Arc<CapturedCall>>,
    next: u64,
}

impl Captures {
    /// Switches a rule on. None if there are too many.
    pub fn switch_on(
        &self,
        (server, principal): (Option<String>, Option<String>),
        time: Duration,
        by: &str,
    ) -> Option<CaptureRule> {
        self.tidy();
        let mut state = lock(&self.state);
        if state.rules.len() >= MAX_RULES {
            return None;
        }
        let time = time.min(MAX_TIME);
        state.next += 1;
        let (until, ends) = (SystemTime::now() + time, switchboard_net::now() + time);
        let number = state.next;
        let rule = CaptureRule { number, server, principal, until, by: by.to_owned(), ends };
        state.rules.push(rule.clone());
        self.is_on.store(true, Ordering::Relaxed);
        Some(rule)
    }

    /// Switches the rule of this number off, or all; how many those were. With the last rule
    /// all that was kept goes.
    pub fn switch_off(&self, number: Option<u64>) -> usize {
        let mut state = lock(&self.state);
        let before = state.rules.len();
        state.rules.retain(|rule| number.is_some_and(|number| rule.number != number));
        let count = before - state.rules.len();
        if state.rules.is_empty() {
            self.is_on.store(false, Ordering::Relaxed);
            state.calls.clear();
        }
        count
    }

    /// The rules that are in force.
    pub fn rules(&self) -> Vec<CaptureRule> {
        let now = switchboard_net::now();
        lock(&self.state).rules.iter().filter(|rule| now < rule.ends).cloned().collect()
    }

    /// How many calls are kept, and the bytes of all.
    pub fn size(&self) -> (usize, usize) {
        (lock(&self.state).calls.len(), self.bytes.load(Ordering::Relaxed))
    }

    /// Lets go of what is too old.
    pub(crate) fn tidy(&self) {
        if !self.is_on.load(Ordering::Relaxed) && self.bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        let now = switchboard_net::now();
        let mut state = lock(&self.state);
        state.rules.retain(|rule| now < rule.ends);
        self.is_on.store(!state.rules.is_empty(), Ordering::Relaxed);
        while state.calls.front().is_some_and(|call| call.at + MAX_TIME <= now) {
            state.calls.pop_front();
        }
    }

    /// The beginning of a request, if any call is to be kept at this time.
    pub(super) fn begin(&self, text: &[u8]) -> Option<Box<CapturedBody>> {
        if !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        self.keep(text)
    }

    /// Makes room for a body. None if open calls have all there is.
    fn keep(&self, text: &[u8]) -> Option<Box<CapturedBody>> {
        let kept = &text[..text.len().min(MAX_BODY)];
        let has_room = || self.bytes.load(Ordering::Relaxed) + kept.len() <= MAX_BYTES;
        while !has_room() {
            // What others read at this moment counts until they have.
            lock(&self.state).calls.pop_front()?;
        }
        self.bytes.fetch_add(kept.len(), Ordering::Relaxed);
        let (bytes, is_cut) = (Arc::clone(&self.bytes), kept.len() < text.len());
        Some(Box::new(CapturedBody { text: kept.into(), is_cut, bytes }))
    }

    /// A call is over: it is kept if a rule says so.
    pub(super) fn end(
        &self,
        (number, request): (u64, Box<CapturedBody>),
        (server, principal): (Option<&str>, Option<&str>),
        answer: Option<&[u8]>,
    ) {
        let at = switchboard_net::now();
        let is_meant = |rule: &CaptureRule| rule.takes(server, principal, at);
        if !lock(&self.state).rules.iter().any(is_meant) {
            return;
        }
        let answer = answer.and_then(|text| self.keep(text));
        let call = Arc::new(CapturedCall { number, at, request, answer });
        let mut state = lock(&self.state);
        if state.calls.len() >= MAX_CALLS {
            state.calls.pop_front();
        }
        state.calls.push_back(call);
    }

    /// What was kept of a call.
    pub(crate) fn call(&self, number: u64) -> Option<Arc<CapturedCall>> {
        let now = switchboard_net::now();
        let state = lock(&self.state);
        let found = state.calls.iter().find(|call| call.number == number);
        found.filter(|call| now < call.at + MAX_TIME).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(captures: &Captures, server: Option<&str>) -> CaptureRule {
        let whose = (server.map(str::to_owned), None);
        captures.switch_on(whose, Duration::from_hours(1), "ada").expect("a rule")
    }

    fn call(captures: &Captures, number: u64, server: &str, text: &[u8]) {
        if let Some(request) = captures.begin(text) {
            captures.end((number, request), (Some(server), None), Some(text));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_but_by_a_rule_and_for_its_time() {
        // C-7
        let captures = Captures::default();
        call(&captures, 1, "a", b"{}");
        assert!(captures.call(1).is_none());
        on(&captures, Some("a"));
        call(&captures, 2, "a", b"{}");
        call(&captures, 3, "b", b"{}");
        assert!(captures.call(2).is_some() && captures.call(3).is_none());
        assert_eq!(captures.size(), (1, 4), "of the other call nothing is left");
        tokio::time::advance(MAX_TIME).await;
        call(&captures, 4, "a", b"{}");
        assert!(captures.rules().is_empty(), "no rule lasts longer");
        assert!(captures.call(2).is_none() && captures.call(4).is_none());
        captures.tidy();
        assert_eq!(captures.size(), (0, 0));
        assert!(captures.begin(b"{}").is_none(), "the flag is down");
    }

    #[test]
    fn all_together_has_its_bound() {
        // B-4
        let captures = Captures::default();
        on(&captures, None);
        let long = vec![b' '; 2 * MAX_BODY];
        for number in 0..200 {
            call(&captures, number, "a", &long);
            assert!(captures.size().1 <= MAX_BYTES);
        }
        assert_eq!(captures.size().1, MAX_BYTES, "as much as there is room for");
        assert!(captures.call(0).is_none(), "the oldest go first");
        let last = captures.call(199).expect("the newest");
        assert_eq!((last.request.text().0.len(), last.request.text().1), (MAX_BODY, true));
        drop(last);
        assert_eq!(captures.switch_off(None), 1);
        assert_eq!(captures.size(), (0, 0));
        (0..MAX_RULES).for_each(|_| drop(on(&captures, None)));
        assert!(captures.switch_on((None, None), MAX_TIME, "ada").is_none());
    }

    #[test]
    fn open_calls_that_have_all_the_room_keep_others_out() {
        let captures = Captures::default();
        on(&captures, None);
        let long = vec![b' '; MAX_BODY];
        let open: Vec<_> = (0..300).filter_map(|_| captures.begin(&long)).collect();
        assert_eq!(open.len(), MAX_BYTES / MAX_BODY);
        drop(open);
        assert!(captures.begin(&long).is_some());
    }
}
