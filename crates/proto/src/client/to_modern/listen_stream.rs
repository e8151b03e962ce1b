//! What a modern server says only to who listens, for clients that expect to be told (GW-22, GW-23).
//!
//! ```text
//!   what is wanted changes ──▶ a new listen ──acknowledged──▶ heard; the old one a moment longer
//!                                  ▲      └──refused──▶ deaf, until something else is wanted
//!                                  └──a while later── lost, or ended by the server
//! ```
//!
//! One listen serves all clients of the connection: lists that change, and every
//! resource that one of them watches. After a gap the lists may have changed,
//! and clients are told so once.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{ToModern, older_answer};
use crate::backoff::Reconnect;
use crate::client::tasks::{LISTS, listen_filter};
use crate::client::{InternalCall, Ticket};
use crate::exchange::{To, take_number};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Kind, Member, Message, Part};
use crate::limits::MAX_ID;
use crate::method;
use crate::project::{Envelope, unmarked};
use crate::refusal::Refusal;
use crate::watch::{Watcher, Watches};

/// How long a listen goes on beside the one that follows it: what the server said
/// before it knew of that one may still be on its way.
const LINGER: Duration = Duration::from_secs(1);

/// How many of them go on; further ones end at once.
const MOST_OLD: usize = 4;

/// Attempts in a row that bring nothing. A client that subscribes starts anew.
const ATTEMPTS: u32 = 20;

/// Resources in one listen.
const MOST_WATCHED: usize = 4096;

/// The listening of one connection.
#[derive(Debug)]
pub(super) struct ListenStream<T> {
    /// A client is there to be told.
    pub(super) ready: bool,
    watches: Watches,
    next: u64,
    /// Acknowledged.
    heard: Option<ListenCall>,
    /// Not yet.
    fresh: Option<ListenCall>,
    /// Not needed any more, oldest first, and when they end.
    old: VecDeque<(ListenCall, Instant)>,
    overlap: Overlap,
    /// Clients that wait to know whether a resource is watched.
    pub(super) subscribers: Vec<(T, String)>,
    reconnect: Reconnect,
    due: Option<Instant>,
    /// Nothing was heard for a while.
    gap: bool,
    pause: Option<Pause>,
}

/// Why nobody listens for now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pause {
    /// Nobody uses the server, until the next call.
    Rest,
    /// It was away for too long; worth another try when it is seen to answer.
    Away,
}

#[derive(Debug)]
struct ListenCall {
    number: u64,
    wanted: Value,
}

impl<T> Default for ListenStream<T> {
    fn default() -> Self {
        Self {
            ready: false,
            watches: Watches::default(),
            next: 1,
            heard: None,
            fresh: None,
            old: VecDeque::new(),
            overlap: Overlap::default(),
            subscribers: Vec::new(),
            reconnect: Reconnect::new(ATTEMPTS),
            due: None,
            gap: false,
            pause: None,
        }
    }
}

impl<T> ListenStream<T> {
    pub(super) fn due(&self) -> Option<Instant> {
        let old = self.old.front().map(|&(_, until)| until);
        self.due.into_iter().chain(old).min()
    }
}

impl<T: Ticket> ToModern<T> {
    /// The link was ended because nobody uses it. What is said meanwhile is not missed.
    pub(in crate::client) fn rest(&mut self) {
        (self.listening.due, self.listening.gap, self.listening.pause) =
            (None, false, Some(Pause::Rest));
        self.listening.reconnect.handle_success();
    }

    /// Whether a client counts on the link though it has no call open.
    pub(in crate::client) fn is_needed(&self, now: Instant) -> bool {
        let watches = self.listening.watches.uris().next().is_some();
        watches || self.tasks.holds(now, self.limits().total) || self.inner.is_needed(now)
    }

    /// Time has reached `now`.
    pub(super) fn handle_listen_timeout(&mut self, now: Instant) {
        while let Some((listen, _)) = self.listening.old.pop_front_if(|(_, until)| *until <= now) {
            self.end_listen(&listen, now);
        }
        if self.listening.due.is_some_and(|due| due <= now) {
            self.listen_anew(now);
        }
    }

    fn end_listen(&mut self, listen: &ListenCall, now: Instant) {
        self.listening.overlap.end(listen.number);
        self.inner.drop_call(&InternalCall::Listen(listen.number), None, now);
    }

    /// Listens again, if that is why nobody does: the server is used, or answers a call.
    pub(super) fn listen_after(&mut self, pause: Pause, now: Instant) {
        if self.listening.pause == Some(pause) {
            self.listening.reconnect.handle_success();
            self.listen_anew(now);
        }
    }

    pub(super) fn subscribe(&mut self, ticket: T, request: &Message, now: Instant) {
        let Some(uri) = request.uri() else {
            let why = Refusal::bad_params("params.uri must be a string");
            return self.to_client.finish(ticket, why);
        };
        let listening = &mut self.listening;
        let watcher = Watcher::new(ticket.owner(), ticket.principal());
        if listening.subscribers.len() + listening.watches.uris().count() >= MOST_WATCHED
            || !listening.watches.have_room(std::iter::once(&*uri), watcher)
        {
            return self.to_client.finish(ticket, Refusal::TooManyWatched);
        }
        listening.watches.add(&uri, watcher);
        listening.subscribers.push((ticket, uri.into_owned()));
        listening.reconnect.handle_success();
        self.listen_anew(now);
    }

    pub(super) fn unsubscribe(&mut self, ticket: T, request: &Message, now: Instant) {
        if request.uri().is_some_and(|uri| self.listening.watches.remove(&uri, ticket.owner())) {
            self.listen_anew(now);
        }
        self.answer(ticket, b"{}");
    }

    pub(super) fn forget_watcher(&mut self, owner: u64, now: Instant) {
        self.listening.subscribers.retain(|(ticket, _)| ticket.owner() != owner);
        if !self.listening.watches.forget(owner).is_empty() {
            self.listen_anew(now);
        }
    }

    /// Everything that is to be listened for; none if there is nothing.
    fn wanted(&self) -> Option<Value> {
        let discovered = self.discovered.as_ref().filter(|_| self.listening.ready);
        let tells = |capability: &str| {
            let said = discovered.and_then(|it| it.capability(&[capability, "listChanged"]));
            said.is_some_and(Part::is_true)
        };
        let uris: Vec<_> = self.listening.watches.uris().collect();
        let wanted = listen_filter(tells, json!(uris), json!(self.tasks_to_hear_of()));
        (!wanted.is_empty()).then(|| wanted.into())
    }

    /// Listens for what is wanted now. The old listen goes on until the new one is acknowledged.
    pub(super) fn listen_anew(&mut self, now: Instant) {
        (self.listening.due, self.listening.pause) = (None, None);
        let wanted = self.wanted();
        let newest = self.listening.fresh.as_ref().or(self.listening.heard.as_ref());
        if newest.map(|listen| &listen.wanted) == wanted.as_ref() {
            return self.answer_subscribers(None);
        }
        if let Some(old) = self.listening.fresh.take() {
            self.end_listen(&old, now);
        }
        let Some(wanted) = wanted else {
            let old = std::mem::take(&mut self.listening.old).into_iter().map(|(listen, _)| listen);
            for listen in old.chain(self.listening.heard.take()).collect::<Vec<_>>() {
                self.end_listen(&listen, now);
            }
            // Who wanted to watch has thought better of it meanwhile.
            return self.answer_subscribers(None);
        };
        let number = take_number(&mut self.listening.next);
        let params = json!({"notifications": wanted}).to_string();
        let request = Message::request(&0.into(), method::LISTEN, Some(params.as_bytes()));
        let hears_of_tasks = wanted.get("taskIds").is_some();
        let request = Envelope::ours().taking_tasks(hears_of_tasks).put_on(&request);
        self.inner.open(InternalCall::Listen(number), &request, &None, now);
        self.listening.fresh = Some(ListenCall { number, wanted });
        self.listening.overlap.begin(number);
    }

    /// Something came by a listen.
    pub(super) fn handle_heard(&mut self, number: u64, message: &Message, now: Instant) {
        self.listening.reconnect.handle_success();
        if message.method() == method::ACKNOWLEDGED {
            return self.handle_acknowledged(number, message, now);
        }
        if Some(message.method()) == method::list_changed("tools") {
            self.tools.forget();
        }
        if message.method() == method::TASK_CHANGED {
            self.handle_task_note(message, now);
        } else if self.listening.overlap.is_news(number, message) {
            self.to_client.note(To::Session, unmarked(message));
        }
    }

    fn handle_acknowledged(&mut self, number: u64, message: &Message, now: Instant) {
        let Some(fresh) = self.listening.fresh.take_if(|fresh| fresh.number == number) else {
            return;
        };
        if let Some(old) = self.listening.heard.replace(fresh) {
            self.listening.old.push_back((old, now + LINGER));
        }
        if self.listening.old.len() > MOST_OLD
            && let Some((oldest, _)) = self.listening.old.pop_front()
        {
            self.end_listen(&oldest, now);
        }
        let honoured = message.value(Member::Notifications).unwrap_or_default();
        self.answer_subscribers(Some(&honoured));
        // What was refused is not listened for: whoever wants it again is to hear the same.
        let wanted = self.wanted().unwrap_or_default();
        if let Some(heard) = &mut self.listening.heard {
            heard.wanted = wanted;
        }
        if std::mem::replace(&mut self.listening.gap, false) {
            for (name, capability) in LISTS {
                let changed = method::list_changed(capability).filter(|_| honoured[name] == true);
                if let Some(method) = changed {
                    self.to_client.note(To::Session, Message::notification(method, None));
                }
            }
        }
    }

    /// Tells clients whether what they wanted to watch is watched. `honoured` is
    /// what a new listen comes to; none if the last one covers all.
    fn answer_subscribers(&mut self, honoured: Option<&Value>) {
        if honoured.is_none() && self.listening.fresh.is_some() {
            return;
        }
        let watched: Option<BTreeSet<&str>> = honoured.map(|honoured| {
            let uris = honoured["resourceSubscriptions"].as_array().into_iter().flatten();
            uris.filter_map(Value::as_str).collect()
        });
        for (ticket, uri) in std::mem::take(&mut self.listening.subscribers) {
            if watched.as_ref().is_none_or(|watched| watched.contains(&*uri)) {
                self.answer(ticket, b"{}");
            } else {
                self.listening.watches.remove(&uri, ticket.owner());
                self.to_client.finish(ticket, Failure::NotWatched { uri: uri.into() });
            }
        }
    }

    /// A listen is over: refused, ended, or lost.
    pub(super) fn handle_listen_over(&mut self, number: u64, outcome: &Outcome, now: Instant) {
        self.listening.overlap.end(number);
        self.listening.old.retain(|(listen, _)| listen.number != number);
        let is_it = |listen: &mut ListenCall| listen.number == number;
        let was_fresh = self.listening.fresh.take_if(is_it).is_some();
        if self.listening.heard.take_if(is_it).is_none() && !was_fresh {
            return;
        }
        self.listening.gap = true;
        if was_fresh {
            for (to, uri) in std::mem::take(&mut self.listening.subscribers) {
                self.listening.watches.remove(&uri, to.owner());
                let older = |it: &Message| {
                    older_answer(it, method::SUBSCRIBE, self.revision_of(&to), false)
                };
                let outcome = outcome.clone().and_then(older);
                self.to_client.finish(to, outcome);
            }
        }
        // An error that the server gave would be given again.
        let refused = was_fresh && outcome.answer().is_some_and(|it| it.kind() == Kind::Error);
        if !refused {
            self.listening.due = self.listening.reconnect.handle_break(now, Duration::ZERO);
            self.listening.pause = self.listening.due.is_none().then_some(Pause::Away);
        }
    }
}

// Listens that overlap: what several of them bring is told once, by the first that brings it.
// Each has a place in what was told. A new one begins where all that is told ends: it may have
// missed some of what an older one is still to bring, and then lags. The oldest has missed nothing.

/// Kinds of notices that are counted; of others all are told.
const MOST_COUNTED: usize = 4096;

/// How often each kind of notice was there.
type Count = HashMap<String, u64>;

#[derive(Debug, Default)]
struct Overlap {
    told: Count,
    /// By number, oldest first.
    listens: Vec<(u64, Count)>,
}

impl Overlap {
    fn begin(&mut self, number: u64) {
        self.listens.push((number, self.told.clone()));
    }

    fn end(&mut self, number: u64) {
        self.listens.retain(|(listen, _)| *listen != number);
        if self.listens.len() < 2 {
            self.told.clear();
        }
        if let Some((_, oldest)) = self.listens.first_mut() {
            oldest.clone_from(&self.told);
        }
    }

    /// Whether no other listen has brought this notice.
    fn is_news(&mut self, number: u64, notice: &Message) -> bool {
        if self.listens.len() < 2 {
            return true;
        }
        let Some((_, count)) = self.listens.iter_mut().find(|(listen, _)| *listen == number) else {
            return false;
        };
        let uri = notice.uri().filter(|_| notice.method() == method::UPDATED);
        let kind = format!("{} {}", notice.method(), uri.unwrap_or_default());
        let is_long = kind.len() > MAX_ID;
        if is_long || self.told.len() >= MOST_COUNTED && !self.told.contains_key(&kind) {
            return true;
        }
        let seen = count.entry(kind.clone()).or_default();
        let told = self.told.entry(kind).or_default();
        *seen += 1;
        let is_news = *seen > *told;
        *told = (*told).max(*seen);
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updated(uri: &str) -> Message {
        let params = format!("{{\"uri\":\"{uri}\"}}");
        Message::notification(method::UPDATED, Some(params.as_bytes()))
    }

    #[test]
    fn what_two_bring_is_told_once_whoever_is_first() {
        let mut overlap = Overlap::default();
        overlap.begin(1);
        assert!(overlap.is_news(1, &updated("a")));
        overlap.begin(2);
        assert!(overlap.is_news(1, &updated("a")));
        assert!(!overlap.is_news(2, &updated("a")));
        assert!(overlap.is_news(2, &updated("a")));
        assert!(!overlap.is_news(1, &updated("a")));
        assert!(overlap.is_news(2, &updated("b")), "another resource");
    }

    #[test]
    fn what_only_the_old_one_was_sent_is_told() {
        let mut overlap = Overlap::default();
        overlap.begin(1);
        overlap.begin(2);
        // The old one was sent two, the new one the second of them, and is faster.
        assert!(overlap.is_news(2, &updated("a")));
        assert!(!overlap.is_news(1, &updated("a")));
        assert!(overlap.is_news(1, &updated("a")));
        overlap.end(1);
        assert!(overlap.is_news(2, &updated("a")), "nobody else brings it any more");
    }

    #[test]
    fn who_lags_is_heard_again_when_it_is_the_oldest() {
        let mut overlap = Overlap::default();
        overlap.begin(1);
        overlap.begin(2);
        assert!(overlap.is_news(1, &updated("a")));
        overlap.begin(3);
        overlap.end(1);
        assert!(overlap.is_news(2, &updated("a")));
        assert!(!overlap.is_news(3, &updated("a")));
        overlap.end(2);
        assert!(overlap.is_news(3, &updated("a")));
    }

    #[test]
    fn long_names_are_told_and_not_kept() {
        let mut overlap = Overlap::default();
        overlap.begin(1);
        overlap.begin(2);
        assert!(overlap.is_news(1, &updated(&"a".repeat(MAX_ID))));
        assert!(overlap.told.is_empty());
    }

    #[test]
    fn more_kinds_than_can_be_counted_are_all_told() {
        let mut overlap = Overlap::default();
        overlap.begin(1);
        overlap.begin(2);
        for number in 0..MOST_COUNTED + 10 {
            assert!(overlap.is_news(1, &updated(&number.to_string())));
        }
        assert!(overlap.is_news(2, &updated(&(MOST_COUNTED + 1).to_string())));
        assert_eq!(overlap.told.len(), MOST_COUNTED);
    }
}
