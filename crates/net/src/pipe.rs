//! A client at the other end of a pipe, in both eras: on stdio or a `WebSocket`.
//!
//! Each message says which era it belongs to, and a client connection of either stands ready.
//! How messages are framed is for the shell to know.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Carrier, Lane};
use switchboard_proto::jsonrpc::{Id, Incoming, InvalidMessage, Kind, Member};
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use switchboard_proto::server::classify;
use switchboard_proto::server::{Frame, ServerHalf};

use crate::backend::{Backend, PendingWork};
use crate::charge::{Charge, parse_to_keep};
use crate::connection::ClientConnection;
use crate::connection::unread::Unread;
use crate::drive;
use crate::drive::{Either, race};
use crate::parked_calls::Parking;
use crate::who::{Turns, Who};

/// The client at the other end.
pub(crate) struct Pipe {
    legacy: Arc<ClientConnection>,
    modern: Arc<ClientConnection>,
    /// Calls of the modern era that wait for input.
    parking: Arc<Parking>,
}

impl Pipe {
    pub(crate) fn new(
        backend: &Arc<dyn Backend>,
        sharing: Sharing,
        limits: &Limits,
        who: &Who,
    ) -> Self {
        let new =
            |era| ClientConnection::new(era, Carrier::Pipe, Arc::clone(backend), limits, sharing);
        let parking = Parking::new(limits);
        let pipe = Self { legacy: new(Era::Legacy), modern: new(Era::Modern), parking };
        pipe.modern.park_in(&pipe.parking);
        for client in [&pipe.legacy, &pipe.modern] {
            client.speak_for(who);
        }
        pipe
    }

    /// Headers of the request that made the connection.
    pub(crate) fn carry(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        self.legacy.carry(headers)?;
        self.modern.carry(headers)
    }

    /// Counts what the client does not read here.
    pub(crate) fn count_in(&self, unread: &Arc<Unread>) {
        self.legacy.count_in(unread);
        self.modern.count_in(unread);
    }

    /// One message of the client, with what it is charged for, or why it could not be read.
    pub(crate) fn message_from_client(
        &self,
        text: Result<Bytes, Refusal>,
        charge: Option<&Arc<Charge>>,
    ) -> PendingWork {
        let parsed = text.map_err(InvalidMessage::from).and_then(parse_to_keep);
        let parsed = parsed.and_then(|incoming| match classify(&incoming, None) {
            Ok(era) => Ok((self.client(era, &incoming), incoming)),
            Err(why) => Err(InvalidMessage { id: None, why }),
        });
        let (client, incoming) = match parsed {
            Ok(parsed) => parsed,
            Err(refused) => {
                tracing::warn!("refused a message: {refused}");
                return self.legacy.step(|half| half.handle_refused(Lane::MAIN, &refused)).1;
            }
        };
        let turns = match client.who().enter(&incoming, Turns::default()) {
            Ok(turns) => turns,
            Err(why) => return refuse(client, &incoming, why),
        };
        if let (Era::Modern, Incoming::One(message)) = (client.era(), &incoming) {
            match self.parking.claim(message, client.principal()) {
                Ok(Some((client, key))) => {
                    let retry =
                        |half: &mut ServerHalf| half.handle_retry(key, Lane::MAIN, message, None);
                    return client.step_in(turns, charge, retry).1;
                }
                Ok(None) => {}
                Err(why) => return refuse(client, &incoming, why),
            }
        }
        client.step_in(turns, charge, |half| half.handle_incoming(Lane::MAIN, incoming, None)).1
    }

    /// Whose message it is. A cancellation carries no envelope: it belongs to
    /// whichever era has the call.
    fn client(&self, era: Era, incoming: &Incoming) -> &Arc<ClientConnection> {
        let is_modern = match incoming {
            Incoming::One(message) if message.method() == method::CANCELLED => {
                let id = message.id_in(Member::RequestId);
                id.is_some_and(|id| self.modern.step(|half| knows(half, &id)).0)
            }
            _ => era == Era::Modern,
        };
        if is_modern { &self.modern } else { &self.legacy }
    }

    /// Waits until the client has read enough of what it was sent.
    pub(crate) async fn room(&self) {
        self.legacy.wait_for_room().await;
        self.modern.wait_for_room().await;
    }

    /// All there is to tell the client, once there is something, and whether it
    /// is the last.
    pub(crate) async fn next(&self) -> (Vec<Bytes>, bool) {
        let next = race(self.legacy.next_frame(Lane::MAIN), self.modern.next_frame(Lane::MAIN));
        let (Either::Left(frame) | Either::Right(frame)) = next.await;
        let mut messages = Vec::new();
        let mut over = !put(frame, &mut messages);
        for client in [&self.legacy, &self.modern] {
            while let Some(frame) = client.try_frame(Lane::MAIN) {
                over |= !put(Some(frame), &mut messages);
            }
        }
        (messages, over)
    }

    /// What is asked from here on is not answered.
    pub(crate) fn stop_reading(&self) {
        for client in [&self.legacy, &self.modern] {
            client.step(ServerHalf::handle_silence).1.detach();
        }
    }

    /// Waits until no answer is owed.
    pub(crate) async fn is_quiet(&self) {
        self.legacy.all_answered().await;
        self.modern.all_answered().await;
    }

    /// Waits for the answers that are owed, and gives up on those that do not
    /// come within `grace`, a moment before it is over.
    pub(crate) async fn finish_within(&self, grace: Duration) {
        if tokio::time::timeout(drive::time_for_calls(grace), self.is_quiet()).await.is_err() {
            // Servers get as long to hear that nobody waits as clients to read it.
            let given_up = self.give_up(&Refusal::Stopping);
            _ = tokio::time::timeout(drive::time_to_read_errors(grace), given_up).await;
        }
    }

    /// Answers every open call with `why`, and tells the backend to drop it.
    pub(crate) fn give_up(&self, why: &Refusal) -> PendingWork {
        let mut works = self.legacy.give_up(why);
        works.append(self.modern.give_up(why));
        works
    }

    /// Waits until the conversation is over in one of the eras.
    pub(crate) async fn over(&self) {
        race(self.legacy.over(), self.modern.over()).await;
    }

    /// The conversation is over.
    pub(crate) fn end(&self) {
        self.legacy.end();
        self.modern.end();
    }
}

fn refuse(client: &Arc<ClientConnection>, incoming: &Incoming, why: Refusal) -> PendingWork {
    let id = match incoming {
        Incoming::One(message) if message.kind() == Kind::Notification => {
            // On a pipe nobody waits for an answer to it.
            tracing::debug!("refused a notification: {why}");
            return PendingWork::none();
        }
        Incoming::One(message) => message.id().cloned(),
        Incoming::Batch(_) => None,
    };
    let refused = InvalidMessage { id, why };
    client.step(|half| half.handle_refused(Lane::MAIN, &refused)).1
}

fn knows(half: &mut ServerHalf, id: &Id) -> bool {
    matches!(half, ServerHalf::Modern(half) if half.knows(id))
}

/// Adds what a frame says; false if it is the last.
fn put(frame: Option<Frame>, messages: &mut Vec<Bytes>) -> bool {
    match frame {
        Some(Frame::Message { text, .. } | Frame::Answer { text, .. }) => {
            messages.push(text);
            true
        }
        Some(Frame::Accepted | Frame::Begin { .. }) => true,
        Some(Frame::End) | None => false,
    }
}
