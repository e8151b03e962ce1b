//! Questions on their way to a client, and its answers.

use super::{Asked, Legacy, Phase};
use crate::exchange::{Ask, Exchange, Up};
use crate::jsonrpc::{Id, Member, Message, Part};
use crate::method;
use crate::refusal::Refusal;

/// Questions, and what a client declares that can be asked them.
const DECLARED: [(&str, &str); 3] =
    [(method::ELICIT, "elicitation"), (method::ROOTS, "roots"), (method::SAMPLE, "sampling")];

impl Legacy {
    /// Remembers what the client of this greeting can be asked. A server may know it by
    /// the greeting of another client, or heed none.
    pub(super) fn note_abilities(&mut self, greeting: &Message) {
        let is_declared =
            |name| greeting.inside(Member::Capabilities, &[name]).is_some_and(Part::is_object);
        let able = DECLARED.iter().filter(|(_, name)| is_declared(name));
        self.able = able.map(|(method, _)| *method).collect();
    }

    /// Whether it may be asked this; what we do not know passes.
    fn is_able(&self, question: &str) -> bool {
        self.able.contains(&question) || DECLARED.iter().all(|(method, _)| *method != question)
    }

    /// The server needs input. False if there is nobody to ask, or nobody who can be
    /// asked this.
    #[must_use]
    pub fn ask(&mut self, exchange: Option<Exchange>, ask: Ask, request: &Message) -> bool {
        let is_full = self.asks.len() >= self.most_asks;
        if self.bare || is_full || self.phase == Phase::Ended || !self.is_able(request.method()) {
            return false;
        }
        let owner = exchange.and_then(|exchange| self.calls.get(&exchange)).map(|call| call.lane);
        let newest = || self.calls.values().next_back().map(|call| call.lane);
        let lane = owner.or_else(|| if self.streams.is_heard() { None } else { newest() });
        let number = self.next_ask;
        self.next_ask += 1;
        self.asks.insert(number, Asked { ask, exchange });
        self.streams.send(lane, request.with_id(&Id::from(number)).text().clone());
        true
    }

    /// The server does not need the input any more.
    pub fn recall(&mut self, ask: Ask, message: &Message) {
        let Some(number) = self.number_of(ask) else { return };
        let Some(asked) = self.asks.remove(&number) else { return };
        let message = message.with(Member::RequestId, number.to_string());
        if message.has(Member::RequestId) {
            let lane = asked.exchange.and_then(|exchange| self.calls.get(&exchange));
            let lane = lane.map(|call| call.lane);
            self.streams.send(lane, message.text().clone());
        }
    }

    /// The client will say nothing more: nobody answers what it was asked.
    pub fn handle_silence(&mut self) {
        for (_, asked) in self.asks.drain() {
            let answer = Message::refusal(None, &Refusal::NobodyToAsk);
            self.up.push_back(Up::Supply { ask: asked.ask, answer });
        }
    }

    fn number_of(&self, ask: Ask) -> Option<u64> {
        self.asks.iter().find(|(_, asked)| asked.ask == ask).map(|(&number, _)| number)
    }

    /// An answer to one of our questions; others are ignored.
    pub(super) fn handle_answer(&mut self, answer: Message) {
        let number = match answer.id() {
            Some(Id::Integer(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        if let Some(asked) = number.and_then(|number| self.asks.remove(&number)) {
            self.up.push_back(Up::Supply { ask: asked.ask, answer });
        }
    }
}
