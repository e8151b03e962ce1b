//! The line to one server: its other end, and the desk that it talks to.

use std::sync::Arc;
use std::time::Duration;

use switchboard_proto::exchange::Exchange;
use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::method;
use switchboard_proto::revision::Era;

use super::cache::Place;
use super::desk::Desk;
use super::error::CallError;
use super::far::Far;
use super::options::ClientOptions;
use super::slot::{Patience, Slot};
use crate::call::Call;
use crate::drive::{Either, race};
use crate::face::now;
use crate::upstream::Server;

/// Everything that a call needs of a connection.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) far: Far,
    pub(super) desk: Arc<Desk>,
    _end: Arc<End>,
}

/// Ends the connection with its last user. Nobody waits for it, but it comes.
#[derive(Debug)]
struct End(Far);

impl Drop for End {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Line {
    pub(super) fn new(server: &Server, era: Era, options: &Arc<ClientOptions>) -> Self {
        let far = Far::new(server, era, Arc::clone(&options.limits));
        let desk = Desk::new(Place::of(server), Arc::clone(options), &far);
        far.attach(&desk);
        let end = Arc::new(End(far.clone()));
        Self { far, desk, _end: end }
    }

    /// Opens a call; its place, and what keeps it open.
    pub(super) fn open(&self, exchange: Exchange, slot: &Arc<Slot>) -> Open {
        self.desk.await_answer(exchange, slot);
        let sink = Arc::<Desk>::clone(&self.desk);
        // Behind a bridge our calls are beside those of its clients.
        let call = match self.far.face() {
            Some(_) => Call::internal(sink, exchange),
            None => Call::new(sink, exchange),
        };
        Open { line: self.clone(), call, over: false }
    }

    /// Sends a request and waits for its answer, whatever that is.
    pub(super) async fn ask(
        &self,
        exchange: Exchange,
        slot: Arc<Slot>,
        request: &Message,
        patience: Patience,
    ) -> Result<Message, CallError> {
        let mut open = self.open(exchange, &slot);
        let started = now();
        let works = self.far.open(&open.call, request);
        // On HTTP the work is the call itself, so it goes on here.
        let working = async {
            works.await;
            std::future::pending::<()>().await;
        };
        match race(slot.answer(patience), working).await {
            Either::Left(Some(outcome)) => {
                open.over = true;
                match outcome {
                    Outcome::Answered(answer) => Ok(answer),
                    Outcome::Failed(why) => Err(why.into()),
                }
            }
            Either::Left(None) | Either::Right(()) => {
                open.give_up("Request timeout");
                let waited = now().saturating_duration_since(started);
                let time = if now() < patience.until { patience.quiet } else { waited };
                Err(CallError::timeout(time))
            }
        }
    }

    /// Starts a call that is not answered soon; the works are on their way.
    pub(super) fn start(&self, open: &Open, request: &Message) {
        self.far.open(&open.call, request).detach();
    }

    /// A plain question within a time.
    pub(super) async fn ask_within(
        &self,
        method: &str,
        params: &[u8],
        time: Duration,
    ) -> Result<Message, CallError> {
        let request = Message::request(&Id::from(0), method, Some(params));
        let slot = Arc::new(Slot::new(None, None));
        let patience = Patience { quiet: time, until: now() + time };
        self.ask(self.desk.next_exchange(), slot, &request, patience).await
    }
}

/// A call that is open. Dropped before it is over, it is cancelled, and the
/// server told (CAN-1, CAN-2, UTL-1).
#[derive(Debug)]
pub(super) struct Open {
    line: Line,
    call: Call,
    over: bool,
}

impl Open {
    fn give_up(&mut self, reason: &str) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let params = serde_json::json!({"requestId": 0, "reason": reason}).to_string();
        let words = Message::notification(method::CANCELLED, Some(params.as_bytes()));
        self.line.desk.forget(self.call.exchange());
        self.call.cancel(Some(&words)).detach();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.give_up("not wanted any more");
    }
}
