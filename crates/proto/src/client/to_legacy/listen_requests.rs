//! `subscriptions/listen` at a server that has never heard of it (GW-51).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ToLegacy;
use crate::client::tasks::{LISTS, listen_filter, request_about};
use crate::client::{InternalCall, Ticket, listener};
use crate::exchange::{To, take_number};
use crate::failure::Outcome;
use crate::jsonrpc::{Id, Kind, Member, Message, Part};
use crate::method::{self, meta};
use crate::refusal::Refusal;
use crate::server::legacy::covers;
use crate::server::modern::listen_over;
use crate::watch::Watcher;

/// Resources in one listen.
const MOST_WATCHED: usize = 1024;

/// Who listens, and for what.
#[derive(Debug)]
pub(super) struct ListenRequest<T> {
    pub(super) ticket: T,
    lists: BTreeSet<&'static str>,
    uris: BTreeSet<Box<str>>,
    tasks: BTreeSet<Box<str>>,
    /// Until when it waits to be known whether the server can tell.
    pub(super) deaf: Option<Instant>,
    /// Resources that the server has not said yes or no to.
    pending: usize,
    acknowledged: bool,
    /// What came before the acknowledgement, which is first (SUB-3).
    early: Vec<Message>,
}

/// How long it may take to see whether a server can tell what belongs to no
/// call. Some do not say so before they have something to tell.
const HEARING: Duration = Duration::from_secs(1);

/// Notes that wait for an acknowledgement. Who listens for more looks again anyway.
const MOST_EARLY: usize = 64;

impl<T: Ticket> ListenRequest<T> {
    /// What a client wants to hear of; none if it does not say.
    fn parse(ticket: T, request: &Message) -> Option<Self> {
        let wanted = request.value(Member::Notifications).filter(Value::is_object)?;
        let lists = LISTS.iter().filter(|(name, _)| wanted[name] == true).map(|(_, list)| *list);
        let names = |member: &str| -> Option<BTreeSet<Box<str>>> {
            let names = wanted.get(member).cloned().unwrap_or_else(|| json!([]));
            serde_json::from_value(names).ok().filter(|it: &BTreeSet<_>| it.len() <= MOST_WATCHED)
        };
        let (uris, tasks) = (names("resourceSubscriptions")?, names("taskIds")?);
        Some(Self {
            ticket,
            lists: lists.collect(),
            uris,
            tasks,
            deaf: None,
            pending: 0,
            acknowledged: false,
            early: Vec::new(),
        })
    }

    /// Who watches resources for it: each listen for itself.
    fn watcher(&self, number: u64) -> Watcher {
        Watcher::new(listener(number), self.ticket.principal())
    }

    /// Whether it asked to be told this.
    fn wants(&self, message: &Message) -> bool {
        let mut lists = LISTS.iter().map(|(_, list)| *list);
        let about = lists.find(|it| method::list_changed(it) == Some(message.method()));
        if message.method() == method::TASK_CHANGED {
            return message.task_id().is_some_and(|id| self.tasks.contains(&*id));
        }
        match (about, message.uri()) {
            (Some(list), _) => self.lists.contains(list),
            (None, Some(uri)) => self.uris.iter().any(|watched| covers(watched, &uri)),
            (None, None) => false,
        }
    }
}

impl<T: Ticket> ToLegacy<T> {
    pub(super) fn listen(&mut self, ticket: T, request: &Message, now: Instant) {
        let Some(mut listen) = ListenRequest::parse(ticket.clone(), request) else {
            let why = Refusal::bad_params("params.notifications must say what to listen for");
            return self.to_client.finish(ticket, why);
        };
        if self.listens.len() >= self.limits().calls {
            return self.to_client.finish(ticket, Refusal::TooManyCalls);
        }
        listen.tasks.retain(|id| self.has_task(id, ticket.principal()));
        let number = take_number(&mut self.next_call);
        self.listens.insert(number, listen);
        self.inner.meet(InternalCall::Listen(number), now);
    }

    /// The server has been greeted: what of a listen can it honour?
    pub(super) fn handle_met(&mut self, number: u64, outcome: Outcome, now: Instant) {
        if outcome.result().is_none() {
            return self.fail_listen(number, outcome, now);
        }
        match self.listens.get_mut(&number).filter(|_| self.hears.is_none()) {
            Some(listen) => listen.deaf = Some(now + HEARING),
            None => self.honour(number, now),
        }
    }

    /// It is known whether the server can tell what belongs to no call (GW-51).
    pub(in crate::client) fn handle_hearing(&mut self, hears: bool, now: Instant) {
        self.hears = Some(hears);
        self.stop_waiting_to_hear(None, now);
        if !hears {
            // The server does not tell any more what was promised: whoever listens gets to know.
            let is_promised = |it: &ListenRequest<T>| {
                it.acknowledged && !(it.lists.is_empty() && it.uris.is_empty())
            };
            let promised = self.listens.iter().filter(|(_, listen)| is_promised(listen));
            for number in promised.map(|(&number, _)| number).collect::<Vec<_>>() {
                self.finish_listen(number, now);
            }
        }
    }

    /// Those that have waited long enough, or all of them, are taken to be told.
    pub(super) fn stop_waiting_to_hear(&mut self, late: Option<Instant>, now: Instant) {
        let is_due = |until: &mut Instant| late.is_none_or(|late| *until <= late);
        let listens = self.listens.iter_mut();
        let due = listens.filter_map(|(&number, it)| it.deaf.take_if(is_due).map(|_| number));
        for number in due.collect::<Vec<_>>() {
            self.honour(number, now);
        }
    }

    /// Has the server watch what it can, and says what that is.
    fn honour(&mut self, number: u64, now: Instant) {
        let welcome = self.inner.welcome.clone();
        let deaf = self.hears == Some(false);
        let Some(listen) = self.listens.get_mut(&number) else { return };
        let offers = |capability: &str, member: &str| {
            let said = welcome.as_ref().and_then(|it| it.capability(&[capability, member]));
            !deaf && said.is_some_and(Part::is_true)
        };
        listen.lists.retain(|capability| offers(capability, "listChanged"));
        if !offers("resources", "subscribe") {
            listen.uris.clear();
        }
        let watcher = listen.watcher(number);
        if !self.inner.watches.have_room(listen.uris.iter().map(|uri| &**uri), watcher) {
            return self.fail_listen(number, Refusal::TooManyWatched.into(), now);
        }
        listen.pending = listen.uris.len();
        let ticket = listen.ticket.clone();
        for uri in listen.uris.clone() {
            let request = request_about(method::SUBSCRIBE, "uri", &uri);
            let ticket = ticket.clone();
            self.inner.open(InternalCall::Watch { listen: number, uri, ticket }, &request, now);
        }
        self.acknowledge(number, now);
    }

    /// The server said whether it watches a resource. A server that is lost has not
    /// said no: it is asked again when it is back.
    pub(super) fn handle_watched(&mut self, number: u64, uri: &str, said: Outcome, now: Instant) {
        let is_there = self.inner.is_ready();
        let Some(listen) = self.listens.get_mut(&number) else { return };
        match said {
            Outcome::Answered(answer) if answer.kind() == Kind::Result => {}
            // It is watched as soon as the server is back.
            _ if !is_there => self.inner.watches.add(uri, listen.watcher(number)),
            Outcome::Answered(_) => _ = listen.uris.remove(uri),
            failed @ Outcome::Failed(_) => {
                self.fail_listen(number, failed, now);
                // It may have been heard all the same.
                let request = request_about(method::UNSUBSCRIBE, "uri", uri);
                return self.inner.open(InternalCall::Aside, &request, now);
            }
        }
        listen.pending = listen.pending.saturating_sub(1);
        self.acknowledge(number, now);
    }

    /// What it was to hear of cannot be had, and nobody has refused it.
    fn fail_listen(&mut self, number: u64, why: Outcome, now: Instant) {
        if let Some(to) = self.end_listen(number, now) {
            let outcome = why.and_then(|error| self.newer_answer(error, method::LISTEN));
            self.to_client.finish(to, outcome);
        }
    }

    /// Says what is honoured, once that is known (SUB-3, SUB-5).
    fn acknowledge(&mut self, number: u64, now: Instant) {
        let Some(listen) = self.listens.get_mut(&number) else { return };
        if listen.pending > 0 || std::mem::replace(&mut listen.acknowledged, true) {
            return;
        }
        let (uris, tasks) = (json!(listen.uris), json!(listen.tasks));
        let honoured = listen_filter(|list| listen.lists.contains(list), uris, tasks);
        let nothing = honoured.is_empty();
        let params = json!({"_meta": {meta::SUBSCRIPTION: 0}, "notifications": honoured});
        let params = params.to_string();
        let message = Message::notification(method::ACKNOWLEDGED, Some(params.as_bytes()));
        self.to_client.note(To::Call(listen.ticket.clone()), message);
        for message in std::mem::take(&mut listen.early) {
            if listen.wants(&message) {
                self.to_client.note(To::Call(listen.ticket.clone()), message);
            }
        }
        if nothing {
            self.finish_listen(number, now);
        }
    }

    pub(super) fn finish_listen(&mut self, number: u64, now: Instant) {
        if let Some(to) = self.end_listen(number, now) {
            self.to_client.finish(to, Message::result(&Id::from(0), &listen_over("0")));
        }
    }

    /// Nobody listens here any more: the server watches nothing for it. Whose it was.
    pub(super) fn end_listen(&mut self, number: u64, now: Instant) -> Option<T> {
        let listen = self.listens.remove(&number)?;
        self.inner.forget_owner(listener(number), now);
        Some(listen.ticket)
    }

    /// Something changed: told to who asked for it (SUB-2). False if nobody did.
    pub(super) fn tell_listens(&mut self, message: &Message) -> bool {
        let message = message.with(Member::MetaSubscription, "0");
        if !message.has(Member::MetaSubscription) {
            return false;
        }
        let mut is_heard = false;
        for listen in self.listens.values_mut().filter(|listen| listen.wants(&message)) {
            is_heard = true;
            if listen.acknowledged {
                self.to_client.note(To::Call(listen.ticket.clone()), message.clone());
            } else if listen.early.len() < MOST_EARLY {
                listen.early.push(message.clone());
            }
        }
        is_heard
    }
}
