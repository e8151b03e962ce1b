//! What roads that are pipes have in common: reading, writing, coming back.
//!
//! A pipe is made when there is something to write, and made again after it
//! broke when there is something to write again: nothing runs for nobody. The
//! pace of new attempts is that of [`Restart`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use switchboard_proto::backoff::Restart;
use switchboard_proto::client::Half;
use switchboard_proto::exchange::Lane;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::line;

use super::{Road, Target, Upstream, child, sse};
use crate::face::{lock, now};

/// Why a pipe is over.
pub(super) enum End {
    /// We were told to stop.
    Stopped,
    /// It broke; in words for whoever waits for an answer.
    Broke(String),
    /// This is not the transport the server speaks; try the other.
    WrongRoad,
}

/// How long a server that keeps ending is left alone.
const REST: Duration = Duration::from_mins(1);

/// Makes the pipe whenever it is needed, until told to stop.
pub(super) async fn run(up: Arc<Upstream>) {
    let mut restart = Restart::new();
    let mut not_before = now();
    while up.stop.until(up.wanted()).await.is_some() {
        if !up.stop.sleep(not_before.saturating_duration_since(now())).await {
            break;
        }
        let started = now();
        let end = match up.server.target() {
            Target::Command(command) => child::run(&up, command).await,
            Target::Url { url, .. } => Box::pin(sse::run(&up, url)).await,
        };
        match end {
            End::Stopped => break,
            End::Broke(why) => {
                let next = restart.handle_exit(started, now());
                up.lost(match next {
                    Some(_) => why,
                    None => format!("{why}; it has ended too often and is left alone for a minute"),
                });
                not_before = next.unwrap_or_else(|| now() + REST);
            }
            End::WrongRoad => {
                up.change_road();
                break;
            }
        }
    }
}

/// Gives up on calls that take too long.
pub(super) async fn watch_deadlines(up: Arc<Upstream>) {
    loop {
        // Deadlines are long, so looking now and then is exact enough.
        let next = up.next_deadline().map_or(REST, |at| at.saturating_duration_since(now()));
        if !up.stop.sleep(next.clamp(Duration::from_millis(10), REST)).await {
            return;
        }
        up.step(Half::handle_timeout).1.detach();
    }
}

impl Upstream {
    fn next_deadline(&self) -> Option<Instant> {
        lock(&self.core).half.poll_timeout()
    }

    /// Waits until there is something to write.
    async fn wanted(&self) {
        loop {
            let written = self.written.notified();
            if !lock(&self.core).outbound.is_empty() {
                return;
            }
            written.await;
        }
    }

    /// Waits for messages to write and takes all there are.
    pub(super) async fn next_outbound(&self) -> Vec<Message> {
        self.wanted().await;
        let mut core = lock(&self.core);
        core.outbound_bytes = 0;
        let messages = core.outbound.drain(..).collect();
        drop(core);
        self.drained.notify_waiters();
        messages
    }

    /// Waits until the pipe has room again.
    pub(super) async fn room(&self) {
        loop {
            let drained = self.drained.notified();
            if lock(&self.core).outbound_bytes <= super::HIGH_WATER {
                return;
            }
            drained.await;
        }
    }

    /// A line, or an event, arrived: act on it, and wait for slow readers.
    pub(super) async fn handle_piped(self: &Arc<Self>, text: Bytes) {
        // On a pipe sending leaves nothing to wait for but room, which the
        // reader must not wait for: the server may be waiting for us to read.
        self.handle_text(Lane::MAIN, text).detach();
        self.clients_have_room().await;
    }

    /// The server speaks the other HTTP transport: what waits goes there.
    pub(super) fn change_road(self: &Arc<Self>) {
        let mut core = lock(&self.core);
        core.road = match core.road {
            Road::Pipe => Road::Http,
            Road::Http => Road::Pipe,
        };
        tracing::info!(server = self.name, "changing to {:?}", core.road);
        core.started = false;
        let waiting: Vec<_> = core.outbound.drain(..).collect();
        core.outbound_bytes = 0;
        drop(core);
        for message in waiting {
            self.resend(message).detach();
        }
    }
}

/// The lines for a batch of messages, in one buffer for one write.
pub(super) fn lines(messages: &[Message]) -> BytesMut {
    let mut buffer = BytesMut::with_capacity(messages.iter().map(|m| m.text().len() + 1).sum());
    for message in messages {
        line::encode(message.text(), &mut buffer);
    }
    buffer
}
