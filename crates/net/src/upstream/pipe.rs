//! What roads that are pipes have in common: reading, writing, coming back.
//!
//! A pipe is made when there is something to write, and made again after it
//! broke when there is something to write again: nothing runs for nobody. The
//! pace of new attempts is that of [`Restart`].

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use switchboard_proto::backoff::Restart;
use switchboard_proto::client::ClientHalf;
use switchboard_proto::exchange::Lane;
use switchboard_proto::failure::Failure;
use switchboard_proto::framing;
use switchboard_proto::jsonrpc::{Kind, Message};
use switchboard_proto::limits::Limits;

use super::core::{PipeState, cost, look_at};
use super::target::Piped;
use super::{Core, Fallback, HIGH_WATER, Target, Transport, Upstream, child, http, sse};
use crate::backend::PendingWork;
use crate::connection::{lock, now};
use crate::drive::race;

/// Why a pipe is over.
pub(super) enum End {
    /// We were told to stop.
    Stopped,
    /// Nobody uses it: it is made again when somebody does.
    Rested,
    /// It broke.
    Broke(Failure),
    /// This is not the transport the server speaks, as far as can be told.
    WrongRoad(Failure),
}

/// How long a server that keeps ending is left alone.
const REST: Duration = Duration::from_mins(1);

/// How long a server may take to read what it was sent before we ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How long a server may leave answers to its own requests unread, more than
/// [`HIGH_WATER`] bytes of them, before it is taken for one that does not read.
const UNREAD_WAIT: Duration = Duration::from_secs(30);

/// Makes the pipe whenever it is needed, until told to stop. It counts meanwhile.
pub(super) async fn run(up: Arc<Upstream>, _counts: Option<Piped>) {
    let mut restart = Restart::new();
    let mut not_before = now();
    let mut left_alone: Option<Failure> = None;
    while up.stop.until(up.wanted()).await.is_some() {
        if let Some(why) = left_alone.as_ref().filter(|_| now() < not_before) {
            up.lost(why);
            continue;
        }
        if !up.stop.sleep(not_before.saturating_duration_since(now())).await {
            break;
        }
        let started = now();
        up.set_stay(PipeState::Here);
        let end = match up.server.target() {
            Target::Command(command) => Box::pin(child::run(&up, command)).await,
            Target::Url { url, .. } => Box::pin(sse::run(&up, url)).await,
        };
        up.set_stay(PipeState::Away);
        let why = match end {
            End::Stopped => break,
            End::Rested => {
                tracing::debug!(server = up.name, "ended, for nobody uses it");
                continue;
            }
            End::Broke(why) => why,
            End::WrongRoad(why) => {
                if let Err(why) = up.try_other_road(&why, None) {
                    up.lost(&why);
                }
                break;
            }
        };
        if let Some(next) = restart.handle_exit(started, now()) {
            (not_before, left_alone) = (next, None);
            up.lost(&why);
        } else {
            not_before = now() + REST;
            let why = left_alone.insert(Failure::LeftAlone { why: Arc::new(why) });
            up.lost(why);
        }
    }
}

/// Gives up on calls that take too long.
pub(super) async fn watch_deadlines(up: Arc<Upstream>) {
    // A call that is opened meanwhile has at least this much time.
    let soon = (up.limits.quiet.min(up.limits.total) / 4).min(REST);
    loop {
        let next = up.next_look(soon);
        let pause = race(tokio::time::sleep(next), up.sooner.notified());
        if up.stop.until(pause).await.is_none() {
            return;
        }
        up.step(ClientHalf::handle_timeout).1.detach();
    }
}

impl Upstream {
    /// How long until the deadlines are looked at again. Said where steps see it,
    /// so that none of them can add a sooner one unnoticed.
    fn next_look(&self, at_most: Duration) -> Duration {
        let mut core = lock(&self.core);
        let now = now();
        let look = look_at(core.half.poll_timeout(), now, at_most);
        core.next_look = Some(look);
        look - now
    }

    /// Waits until there is something to write, or the pipe is wanted ahead of that.
    async fn wanted(&self) {
        loop {
            let written = self.written.notified();
            let is_wanted = {
                let core = lock(&self.core);
                !core.outbound.is_empty() || core.stay == PipeState::Ahead
            };
            if is_wanted {
                return;
            }
            written.await;
        }
    }

    /// Waits until there is something to write to this very pipe.
    async fn writable(&self) {
        loop {
            let written = self.written.notified();
            let is_writable = {
                let core = lock(&self.core);
                !core.outbound.is_empty() && core.stay != PipeState::Leaving
            };
            if is_writable {
                return;
            }
            written.await;
        }
    }

    /// There is a pipe, or there is none any more.
    fn set_stay(&self, stay: PipeState) {
        let mut core = lock(&self.core);
        core.stay = stay;
        core.unwritten = 0;
    }

    /// Adds a message to what is to be written. Clients' calls are bounded where
    /// they are opened; a server that leaves so much else unread does not read at all.
    pub(super) fn enqueue(self: &Arc<Self>, core: &mut Core, message: Message) {
        self.start(core);
        if message.kind() != Kind::Request && core.is_full(&message, &self.limits) {
            core.choked = true;
            self.choked.notify_waiters();
            return;
        }
        core.push_outbound(message);
        self.written.notify_one();
    }

    /// Waits until it is seen that the server does not read; why that is the end.
    pub(super) async fn choked(&self) -> Failure {
        loop {
            let choked = self.choked.notified();
            if lock(&self.core).choked {
                return Failure::closed("the server does not read what it is sent");
            }
            choked.await;
        }
    }

    /// Waits for messages to write, and takes a handful.
    pub(super) async fn next_outbound(&self) -> Vec<Message> {
        // Whoever asks for more has written what it took.
        lock(&self.core).unwritten = 0;
        self.drained.notify_waiters();
        self.writable().await;
        let mut core = lock(&self.core);
        let mut messages = Vec::new();
        let (mut taken, mut sent) = (0, 0);
        while taken < HIGH_WATER
            && let Some((message, cost)) = core.pop_outbound()
        {
            taken += cost;
            sent += message.text().len();
            messages.push(message);
        }
        core.unwritten = messages.len();
        drop(core);
        self.server.traffic().add_sent(sent);
        self.drained.notify_waiters();
        messages
    }

    /// Waits a little until all is written, if there is a pipe: that nobody waits
    /// for a call should be known before the end.
    pub(super) async fn last_words(&self) {
        let written = async {
            loop {
                let drained = self.drained.notified();
                let is_written = {
                    let core = lock(&self.core);
                    let has_more = core.unwritten > 0 || !core.outbound.is_empty();
                    core.stay != PipeState::Here || !has_more
                };
                if is_written {
                    return;
                }
                drained.await;
            }
        };
        _ = tokio::time::timeout(LAST_WORDS, written).await;
    }

    /// Adds to a client's work that it waits until the pipe has room again.
    pub(super) fn when_room(self: &Arc<Self>, mut works: PendingWork) -> PendingWork {
        if lock(&self.core).outbound_bytes > HIGH_WATER {
            let this = Arc::clone(self);
            works.append(PendingWork::one(async move { this.room().await }));
        }
        works
    }

    async fn room(&self) {
        loop {
            let drained = self.drained.notified();
            if lock(&self.core).outbound_bytes <= HIGH_WATER {
                return;
            }
            drained.await;
        }
    }

    /// Waits while the server leaves too many answers to its own requests unread.
    async fn answers_are_read(&self) {
        let are_read = || lock(&self.core).answer_bytes <= HIGH_WATER;
        if are_read() {
            return;
        }
        let reading = async {
            loop {
                let drained = self.drained.notified();
                if are_read() {
                    return;
                }
                drained.await;
            }
        };
        // A server that waits until we read, and reads nothing, would wait for ever.
        if tokio::time::timeout(UNREAD_WAIT, reading).await.is_err() {
            lock(&self.core).choked = true;
            self.choked.notify_waiters();
        }
    }

    /// A line, or an event, arrived: act on it, and wait for slow readers.
    pub(super) async fn handle_piped(self: &Arc<Self>, text: Bytes) {
        self.handle_text(Lane::MAIN, text).detach();
        self.answers_are_read().await;
        self.answers_are_taken().await;
        self.pace().await;
        self.clients_have_room().await;
    }

    /// Whether this transport may be the wrong one.
    pub(super) fn may_change_road(&self) -> bool {
        let is_settled = matches!(lock(&self.core).trial, Fallback::Settled);
        !is_settled && self.server.has_other_road()
    }

    /// The server does not speak this transport, for the reason `why`: what
    /// waits, and the greeting that was refused, go by the other. If that is
    /// not to be tried, or has been: why, in all, and the next greeting begins anew.
    pub(super) fn try_other_road(
        self: &Arc<Self>,
        why: &Failure,
        greeting: Option<&Message>,
    ) -> Result<(), Failure> {
        if !self.may_change_road() {
            return Err(why.clone());
        }
        let mut core = lock(&self.core);
        core.transport = core.transport.other();
        core.piped = false;
        tracing::info!(server = self.name, "{why}; changing to {:?}", core.transport);
        if let Fallback::Second(first) = std::mem::replace(&mut core.trial, Fallback::First) {
            return Err(Failure::BothTransports {
                first: Arc::new(first),
                second: Arc::new(why.clone()),
            });
        }
        core.trial = Fallback::Second(why.clone());
        let waiting: Vec<_> = core.take_outbound().into_iter().chain(greeting.cloned()).collect();
        let mut works = PendingWork::none();
        for message in waiting {
            match core.transport {
                Transport::Pipe => self.enqueue(&mut core, message),
                Transport::Http => {
                    let lane = message.id().and_then(http::lane_of).unwrap_or(Lane::MAIN);
                    works.append(self.dispatch(&mut core, lane, message, Vec::new()));
                }
            }
        }
        drop(core);
        works.detach();
        Ok(())
    }
}

impl Core {
    /// Whether one more message would be more than a pipe may have waiting.
    pub(super) fn is_full(&self, message: &Message, limits: &Limits) -> bool {
        let more = cost(message);
        !self.outbound.is_empty() && self.outbound_bytes.saturating_add(more) > limits.backlog
    }
}

impl Transport {
    fn other(self) -> Self {
        match self {
            Self::Pipe => Self::Http,
            Self::Http => Self::Pipe,
        }
    }
}

/// The lines for a batch of messages, in one buffer for one write.
pub(super) fn lines(messages: &[Message]) -> BytesMut {
    let mut buffer = BytesMut::with_capacity(messages.iter().map(|m| m.text().len() + 1).sum());
    for message in messages {
        framing::encode_line(message.text(), &mut buffer);
    }
    buffer
}

#[cfg(test)]
mod tests {
    use switchboard_proto::client::Sharing;
    use switchboard_proto::jsonrpc::Id;
    use switchboard_proto::revision::Era;

    use super::*;
    use crate::stdio::child::Command;
    use crate::upstream::ServerTarget;

    const BACKLOG: usize = 4 << 20;

    /// A pipe that nobody writes to, with answers enqueued while `more` says so.
    fn with_answers(more: impl Fn(&Core) -> bool) -> Arc<Upstream> {
        let server = ServerTarget::command(Command::new("none"), Vec::new());
        let limits = Arc::new(Limits { backlog: BACKLOG, ..Limits::default() });
        let up = Upstream::new(server, Era::Legacy, Sharing::Alone, None, limits);
        let mut core = lock(&up.core);
        (core.piped, core.watched, core.stay) = (true, true, PipeState::Here);
        while more(&core) {
            up.enqueue(&mut core, Message::result(&Id::from(1), b"{}"));
        }
        drop(core);
        up
    }

    #[tokio::test]
    async fn the_bound_of_a_pipe_counts_what_its_messages_take() {
        let up = with_answers(|core| !core.choked);
        let taken = up.unsent() * size_of::<Message>();
        assert!(taken <= BACKLOG, "{taken} bytes besides the texts");
        let mut written = 0;
        while up.unsent() > 0 {
            written += up.next_outbound().await.len();
        }
        assert!(written > 1000, "{written}");
        let core = lock(&up.core);
        assert_eq!((core.outbound_bytes, core.answer_bytes), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_leaves_its_answers_unread_is_read_no_further_and_given_up_at_last() {
        let up = with_answers(|core| core.answer_bytes <= HIGH_WATER);
        let begun = tokio::time::Instant::now();
        up.handle_piped(Bytes::from_static(b"{}")).await;
        assert_eq!(begun.elapsed(), UNREAD_WAIT);
        assert!(up.choked().await.to_string().contains("does not read"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_read_again_when_it_reads() {
        let up = with_answers(|core| core.answer_bytes <= HIGH_WATER);
        let begun = tokio::time::Instant::now();
        let reading = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            up.next_outbound().await;
        };
        tokio::join!(up.handle_piped(Bytes::from_static(b"{}")), reading);
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
        assert!(!lock(&up.core).choked);
    }
}
