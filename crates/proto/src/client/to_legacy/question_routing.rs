//! Questions of a legacy server, and the calls they belong to.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::json;

use super::{Call, InternalCall, ToLegacy};
use crate::client::ledger::likely_call;
use crate::client::{CallId, Sharing, Ticket};
use crate::exchange::{Ask, ServerEvent, To};
use crate::failure::Failure;
use crate::jsonrpc::{Id, Kind, Member, Message, Part};
use crate::method;
use crate::project;
use crate::refusal::Refusal;

/// How often one call may be told to visit a page first.
const MOST_VISITS: u32 = 10;

/// Pages that a call may want visited at once. Who wants more has failed.
const MOST_PAGES: usize = 64;

/// The call that a question was put to.
#[derive(Debug)]
pub(super) struct Asked {
    number: u64,
    /// The question and whose it is, if it is a guess that it was about that call.
    guess: Option<(Message, Box<[u8]>)>,
}

/// Pages to visit before a call can be made.
#[derive(Debug)]
pub(super) struct Visit {
    waiting: BTreeSet<Ask>,
    /// What the server said, for who does not go there.
    error: Message,
    declined: bool,
}

impl<T: Ticket> ToLegacy<T> {
    /// The server asks something: the client is asked on the call that it is about (GW-47).
    pub(super) fn handle_ask(
        &mut self,
        to: &To<InternalCall<T>>,
        ask: Ask,
        request: &Message,
        now: Instant,
    ) {
        if self.keep_question(ask, request, now) || self.keep_early(ask, request, now) {
            return;
        }
        if self.waits_for(request).is_none() && self.ask_native(to, ask, request, now) {
            return;
        }
        let params = project::modern_question(request.payload().unwrap_or(b"{}"));
        let waits = self.waits_for(request);
        let request = request.with_payload(&params);
        // A task's question may come by any call's lane.
        let (number, guessed) = match to {
            _ if waits.is_some() => (waits, false),
            &To::Call(InternalCall::Call { number, .. }) => (Some(number), false),
            To::Session => (self.likely(None), true),
            To::Call(_) => (None, false),
        };
        match number {
            Some(number) => self.put_to(number, ask, request, guessed, now),
            None => self.inner.refuse_ask(ask, now),
        }
    }

    fn put_to(&mut self, number: u64, ask: Ask, request: Message, guessed: bool, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else {
            return self.inner.refuse_ask(ask, now);
        };
        call.asked = true;
        self.inner.put_on(ask, call.inner, now);
        let to = To::Call(call.ticket.clone());
        let guess = guessed.then(|| (request.clone(), call.client.clone()));
        self.asks.insert(ask, Asked { number, guess });
        self.down.push_back(ServerEvent::Ask { to, ask, request });
    }

    /// The call that a question is likely to be about, where nothing says it. A
    /// guess harms nobody while all are of one client: whichever of its calls is
    /// told, the answer goes to the question. Among those of several there is no
    /// guessing: nobody is shown what another client is asked. `whose` it is, if
    /// that is known.
    fn likely(&self, whose: Option<(&[u8], &[u8])>) -> Option<u64> {
        if self.has_native_asking() {
            return None;
        }
        let asking = || self.calls.iter().filter(|(_, call)| call.may_ask());
        let mut clients = asking().map(|(_, call)| (call.ticket.principal(), &*call.client));
        let first = whose.or_else(|| clients.next())?;
        if self.sharing == Sharing::Shared && clients.any(|other| other != first) {
            return None;
        }
        let open = asking().map(|(&number, _)| number);
        likely_call(open, self.asks.values().map(|asked| asked.number))
    }

    /// The server does not need an answer any more (GW-50).
    pub(super) fn handle_recall(&mut self, ask: Ask, message: Message) {
        self.recall_question(ask);
        let asked = self.asks.remove(&ask);
        if let Some(call) = asked.and_then(|asked| self.calls.get(&asked.number)) {
            let to = To::Call(call.ticket.clone());
            self.down.push_back(ServerEvent::Recall { to, ask, message });
        }
    }

    /// A client answers a question.
    pub fn supply(&mut self, ask: Ask, answer: &Message, now: Instant) {
        let asked = self.asks.remove(&ask);
        if asked.is_some_and(|asked| self.visited(asked.number, ask, answer, now)) {
            return self.translate(now);
        }
        self.inner.supply(ask, answer, now);
        self.translate(now);
    }

    /// Nobody is there to answer a question.
    pub fn refuse_ask(&mut self, ask: Ask, now: Instant) {
        self.supply(ask, &Message::refusal(None, &Refusal::NobodyToAsk), now);
    }

    /// A call is over: what it was asked will not be answered (GW-46). If it
    /// was a guess that it was about this call, then it is about another.
    pub(super) fn end_questions_of(&mut self, number: u64, ticket: &T, now: Instant) {
        let theirs = self.asks.iter().filter(|(_, asked)| asked.number == number);
        for ask in theirs.map(|(&ask, _)| ask).collect::<Vec<_>>() {
            let Some(mut asked) = self.asks.remove(&ask) else { continue };
            let Some((request, client)) = asked.guess.take() else {
                self.inner.refuse_ask(ask, now);
                continue;
            };
            match self.likely(Some((ticket.principal(), &client))) {
                Some(other) => {
                    let words = Message::notification(method::CANCELLED, None);
                    let to = To::Call(ticket.clone());
                    self.down.push_back(ServerEvent::Recall { to, ask, message: words });
                    self.put_to(other, ask, request, true, now);
                }
                None => self.inner.refuse_ask(ask, now),
            }
        }
    }

    /// The server wants a page to be visited before it takes the call (GW-49).
    pub(super) fn begin_visit(&mut self, number: u64, error: &Message) -> bool {
        let pages = pages(error);
        let Some(call) = self.calls.get_mut(&number) else { return false };
        let is_sane = (1..=MOST_PAGES).contains(&pages.len()) && call.visits < MOST_VISITS;
        if !is_sane || !method::may_ask(call.request.method()) {
            return false;
        }
        call.visits += 1;
        let to = call.ticket.clone();
        let mut waiting = BTreeSet::new();
        for request in pages {
            let ask = Ask(self.next_ask);
            self.next_ask += 1;
            waiting.insert(ask);
            self.asks.insert(ask, Asked { number, guess: None });
            self.down.push_back(ServerEvent::Ask { to: To::Call(to.clone()), ask, request });
        }
        call.visit = Some(Visit { waiting, error: error.clone(), declined: false });
        true
    }

    /// A client says whether it goes to a page. True if that is what was asked.
    fn visited(&mut self, number: u64, ask: Ask, answer: &Message, now: Instant) -> bool {
        let Some(call) = self.calls.get_mut(&number) else { return false };
        let Some(visit) = call.visit.as_mut() else { return false };
        if !visit.waiting.remove(&ask) {
            return false;
        }
        let could_not_ask = answer.kind() == Kind::Error;
        let action = answer.string(Member::Action).filter(|_| !could_not_ask);
        visit.declined |= action.as_deref() != Some("accept");
        if !visit.waiting.is_empty() && !could_not_ask {
            return true;
        }
        let Some(visit) = call.visit.take() else { return true };
        if could_not_ask {
            let needed = json!({"elicitation": {"url": {}}});
            self.finish(number, Refusal::NeedsMore { needed }, now);
        } else if visit.declined {
            self.finish(number, Failure::translation(visit.error.error_message()), now);
        } else {
            self.begin(number, now);
        }
        true
    }
}

impl<T> Call<T> {
    /// Whether the server has it, has not answered it, and may want to know something for it.
    fn may_ask(&self) -> bool {
        let is_there = self.inner != CallId::DONE && self.visit.is_none();
        is_there && self.lingers.is_none() && method::may_ask(self.request.method())
    }
}

/// The pages that an error names, as questions.
fn pages(error: &Message) -> Vec<Message> {
    let all = error.inside(Member::Data, &["elicitations"]).into_iter().flat_map(Part::items);
    let page = |page: Part<'_>| {
        let params = project::modern_question(page.text());
        let params = Part::new(&params).with("mode", b"\"url\"")?;
        Some(Message::request(&Id::from(0), method::ELICIT, Some(&params)))
    };
    all.filter_map(page).collect()
}
