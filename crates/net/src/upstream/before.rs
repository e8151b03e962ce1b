//! Who stands before a recipient for one call: all passes by but the answer.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use switchboard_proto::exchange::{Ask, Exchange};
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::Message;

use super::Recipient;

/// Somebody who does something with the answer to a call before its owner has it.
pub(crate) trait Before: fmt::Debug + Send + Sync {
    /// Whose call it is.
    fn owner(&self) -> &Arc<dyn Recipient>;
    /// The call is over.
    fn finish(&self, exchange: Exchange, outcome: Outcome);
}

/// A recipient that has somebody before it.
#[derive(Debug)]
pub(crate) struct Passing<B>(pub(crate) B);

impl<B: Before> Recipient for Passing<B> {
    fn number(&self) -> u64 {
        self.0.owner().number()
    }

    fn principal(&self) -> &[u8] {
        self.0.owner().principal()
    }

    fn note(&self, exchange: Option<Exchange>, message: &Message) {
        self.0.owner().note(exchange, message);
    }

    fn ask(self: Arc<Self>, exchange: Option<Exchange>, ask: Ask, request: &Message) -> bool {
        Arc::clone(self.0.owner()).ask(exchange, ask, request)
    }

    fn recall(&self, ask: Ask, message: &Message) {
        self.0.owner().recall(ask, message);
    }

    fn finish(&self, exchange: Exchange, outcome: Outcome) {
        self.0.finish(exchange, outcome);
    }

    fn await_dropped(&self, exchange: Exchange) -> bool {
        self.0.owner().await_dropped(exchange)
    }

    fn unanswered(&self, exchange: Exchange) {
        self.0.owner().unanswered(exchange);
    }

    fn hang_up(&self, exchange: Exchange) {
        self.0.owner().hang_up(exchange);
    }

    fn lost(&self, why: &Failure) {
        self.0.owner().lost(why);
    }

    fn is_slow(&self) -> bool {
        self.0.owner().is_slow()
    }

    fn room(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Arc::clone(self.0.owner()).room()
    }

    fn end(self: Arc<Self>) {
        Arc::clone(self.0.owner()).end();
    }
}
