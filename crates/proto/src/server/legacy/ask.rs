//! Questions on their way to a client, and its answers.

use super::{Asked, Legacy, Phase};
use crate::exchange::{Ask, Exchange, Up};
use crate::jsonrpc::{Id, Member, Message};
use crate::refusal::Refusal;

impl Legacy {
    /// The server needs input. False if there is nobody to ask.
    #[must_use]
    pub fn ask(&mut self, exchange: Option<Exchange>, ask: Ask, request: &Message) -> bool {
        if self.bare || self.asks.len() >= self.most_asks || self.phase == Phase::Ended {
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
