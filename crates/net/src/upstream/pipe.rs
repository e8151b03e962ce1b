//! Servers at the other end of a pipe: what waits to be written, when the pipe is made, and
//! the pipe to a child process. `sse.rs` has the other kind.
//!
//! A pipe is made when there is something to write, and made again after it
//! broke when there is something to write again: no process runs without a call.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use switchboard_proto::backoff::Restart;
use switchboard_proto::exchange::Lane;
use switchboard_proto::failure::{Failure, FailureSource};
use switchboard_proto::framing::{self, LineDecoder, LineTooLong};
use switchboard_proto::jsonrpc::{Kind, Message};
use switchboard_proto::limits::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Notify;

use super::target::Piped;
use super::{Core, Fallback, Strategy, Target, Transport, Upstream, add, sse, via};
use crate::backend::PendingWork;
use crate::connection::lock;
use crate::drive::{Either, now, race};
use crate::stdio::child::{Command, ExitWatch, Grace};

/// Whether there is a pipe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PipeState {
    Away,
    /// It is wanted before there is anything to write.
    Ahead,
    Here,
    /// It is to end: no client uses it.
    Leaving,
}

/// Why a pipe is over.
pub(super) enum PipeEnd {
    /// We were told to stop.
    Stopped,
    /// No client uses it: it is made again when one does.
    Rested,
    /// It broke.
    Broke(Failure),
    /// It was not started: somebody has to sign in first.
    NoToken(Failure),
    /// This is not the transport the server speaks, as far as can be told.
    WrongTransport(Failure),
}

/// Messages that wait to be written to a pipe.
#[derive(Default)]
pub(super) struct Outbound {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Those of them that answer what the server asked.
    answer_bytes: usize,
    /// Messages that were taken to be written, and are not known to be.
    unwritten: usize,
    /// The server leaves more of them unread than the bound allows.
    is_choked: bool,
}

/// Bytes waiting to be written to a pipe before a client that adds to them has
/// to wait. Beyond `Limits::backlog` its calls are refused, and a server that
/// leaves that much of our own unread is given up.
const HIGH_WATER: usize = 1 << 20;

/// What a message in a queue takes besides its text, its allocations included.
const OVERHEAD: usize = size_of::<Message>() + 64;

/// How long a server that keeps ending is left alone.
const REST: Duration = Duration::from_mins(1);

/// How long a server may take to read what it was sent before we ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How long a server may leave answers to its own requests unread, more than
/// [`HIGH_WATER`] bytes of them, before it is taken for one that does not read.
const UNREAD_WAIT: Duration = Duration::from_secs(30);

/// How long a child that reads no more may take to write what it still has, and
/// how long what a child wrote before it exited may take to be read.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Bytes that are read once the child has exited: as much as a pipe holds. A
/// descendant of the child that keeps the pipe may write to it for ever.
const LEFT_IN_PIPE: usize = 1 << 20;

/// The bytes that a message in a queue counts for.
fn cost(message: &Message) -> usize {
    message.text().len() + OVERHEAD
}

impl Outbound {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether one more message would be more than a pipe may have waiting.
    pub(super) fn is_full(&self, message: &Message, limits: &Limits) -> bool {
        !self.is_empty() && self.bytes.saturating_add(cost(message)) > limits.backlog
    }

    /// Adds a message. Clients' calls are bounded where they are opened; a server that
    /// leaves so much else unread does not read at all.
    pub(super) fn push(&mut self, message: Message, limits: &Limits) {
        if message.kind() != Kind::Request && self.is_full(&message, limits) {
            self.is_choked = true;
            return;
        }
        let cost = cost(&message);
        self.bytes += cost;
        if message.is_response() {
            self.answer_bytes += cost;
        }
        self.messages.push_back(message);
    }

    /// The next message to write, and what it counted for.
    fn pop(&mut self) -> Option<(Message, usize)> {
        let message = self.messages.pop_front()?;
        let cost = cost(&message);
        self.bytes = self.bytes.saturating_sub(cost);
        if message.is_response() {
            self.answer_bytes = self.answer_bytes.saturating_sub(cost);
        }
        Some((message, cost))
    }
}

/// Makes the pipe whenever it is needed, until told to stop. It counts meanwhile.
///
/// [`Restart`] paces the attempts of this one connection, whose server may have no
/// supervisor (`switchboard bridge`, a library client) or other connections that work. A
/// supervisor is told of each end by [`lost`](Upstream::lost), and paces its own attempts.
pub(super) async fn run(up: Arc<Upstream>, _counts: Option<Piped>) {
    let mut restart = Restart::default();
    let mut not_before = now();
    // Why calls fail at once until then, if they do not wait for the next attempt.
    let mut left_alone: Option<Failure> = None;
    let is_wanted = |core: &Core| !core.outbound.is_empty() || core.pipe == PipeState::Ahead;
    while up.stop.until(up.until_core(&up.pipe_changed, is_wanted)).await.is_some() {
        if let Some(why) = left_alone.as_ref().filter(|_| now() < not_before) {
            up.lost(why);
            continue;
        }
        if !up.stop.sleep(not_before.saturating_duration_since(now())).await {
            break;
        }
        let started = now();
        up.set_pipe(PipeState::Here);
        let end = match up.server.target() {
            Target::Command(command) => Box::pin(run_child(&up, command)).await,
            Target::Url { .. } => Box::pin(sse::run(&up)).await,
        };
        up.set_pipe(PipeState::Away);
        let why = match end {
            PipeEnd::Stopped => break,
            PipeEnd::Rested => {
                tracing::debug!(server = up.name, "ended, for nobody uses it");
                continue;
            }
            PipeEnd::Broke(why) => why,
            PipeEnd::NoToken(why) => {
                // The next call may be after the sign-in.
                up.lost(&why);
                continue;
            }
            PipeEnd::WrongTransport(why) => {
                if let Err(why) = up.try_other_transport(&why, None) {
                    up.lost(&why);
                }
                break;
            }
        };
        let next = restart.handle_exit(started, now());
        not_before = next.unwrap_or_else(|| now() + REST);
        let why = if next.is_some() { why } else { Failure::LeftAlone { why: Arc::new(why) } };
        up.lost(&why);
        left_alone = next.is_none().then_some(why);
    }
}

/// Starts the child and serves it until it ends or we are told to stop.
async fn run_child(up: &Arc<Upstream>, command: &Command) -> PipeEnd {
    let injected = match up.inject().await {
        Ok(injected) => injected,
        Err(why @ Failure::NotSignedIn { .. }) => return PipeEnd::NoToken(why),
        Err(why) => return PipeEnd::Broke(why),
    };
    let command = match up.server.via() {
        Some(via) => command.clone().env(via::VARIABLE, &via.variable),
        None => command.clone(),
    };
    let command = match &injected {
        Some(injected) => injected.give_to(command),
        None => command,
    };
    let mut child = match command.spawn(&up.server.details.environment) {
        Ok(child) => child,
        Err(error) => {
            let (problem, source) = (error.problem(), FailureSource::new(error));
            return PipeEnd::Broke(Failure::NotStarted { problem, source });
        }
    };
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return PipeEnd::Broke(Failure::closed("no pipes"));
    };
    tracing::debug!(server = up.name, pid = child.id(), "started");
    let _runs = up.server.traffic().child();
    let hidden = Arc::clone(child.hidden());
    // Either direction being closed ends the conversation: a child that reads
    // no more cannot be asked, one that writes no more cannot answer.
    let talk = race(write_lines(up, stdin), read_lines(up, stdout, child.exit_watch()));
    let talk = async {
        match race(talk, up.keep_token(injected.as_ref(), &hidden)).await {
            Either::Left(talked) => talked,
            Either::Right(()) => Either::Right(None),
        }
    };
    let talked = Box::pin(up.serve_pipe(talk)).await;
    let exit = child.stop(Grace::default()).await;
    let is_meant = matches!(talked, Err(PipeEnd::Stopped | PipeEnd::Rested));
    if !is_meant && !up.probes_era.load(Ordering::Relaxed) {
        up.server.traffic().broke();
    }
    match talked {
        Err(end) => end,
        Ok(Either::Right(Some(why))) => PipeEnd::Broke(why),
        Ok(_) => PipeEnd::Broke(Failure::Exited(exit)),
    }
}

/// Writes what is to be written; returns when the child does not read any more,
/// a little later: what it wrote before that is still to be read.
async fn write_lines(up: &Arc<Upstream>, mut stdin: ChildStdin) {
    loop {
        let messages = up.next_outbound().await;
        let length = messages.iter().map(|message| message.text().len() + 1).sum();
        let mut lines = BytesMut::with_capacity(length);
        for message in &messages {
            framing::encode_line(message.text(), &mut lines);
        }
        if stdin.write_all(&lines).await.is_err() {
            up.stop.sleep(LAST_ANSWERS).await;
            return;
        }
    }
}

/// Reads until the child closes its stdout or has exited, or why that cannot be read.
/// A descendant in a session of its own may hold the pipe open after the child's exit.
async fn read_lines(
    up: &Arc<Upstream>,
    mut stdout: ChildStdout,
    child: ExitWatch,
) -> Option<Failure> {
    let mut decoder = LineDecoder::new(up.limits.message);
    let mut exit = child.clone();
    let mut exited = pin!(async {
        exit.wait().await;
        up.stop.sleep(LAST_ANSWERS).await;
    });
    let mut left = LEFT_IN_PIPE;
    loop {
        // What is there is read before the exit counts.
        let more = match race(stdout.read_buf(decoder.buffer()), &mut exited).await {
            Either::Left(Ok(count @ 1..)) => {
                if child.now().is_some() {
                    left = left.saturating_sub(count);
                }
                left > 0
            }
            Either::Left(_) | Either::Right(()) => false,
        };
        while let Some(line) = decoder.next_line() {
            take_line(up, line).await;
        }
        if !more {
            if let Some(line) = decoder.finish() {
                take_line(up, line).await;
            }
            return None;
        }
        if decoder.is_endless() {
            return Some(Failure::EndlessLine);
        }
    }
}

async fn take_line(up: &Arc<Upstream>, line: Result<Bytes, LineTooLong>) {
    match line {
        Ok(line) => up.receive(Lane::MAIN, line).await,
        Err(LineTooLong { limit, head }) => up.handle_too_long(Lane::MAIN, &head, limit).await,
    }
}

impl Upstream {
    /// Waits until the state of the connection is so; `changed` says when it may be.
    async fn until_core(&self, changed: &Notify, is_so: impl Fn(&Core) -> bool) {
        loop {
            let changed = changed.notified();
            if is_so(&lock(&self.core)) {
                return;
            }
            changed.await;
        }
    }

    /// Starts the child before a client needs it.
    pub(crate) fn warm(self: &Arc<Self>) {
        let mut core = lock(&self.core);
        core.pipe = PipeState::Ahead;
        self.start(&mut core);
        drop(core);
        self.pipe_changed.notify_waiters();
    }

    /// There is a pipe, or there is none any more.
    fn set_pipe(&self, pipe: PipeState) {
        let mut core = lock(&self.core);
        core.pipe = pipe;
        core.outbound.unwritten = 0;
    }

    /// Serves a pipe until `talk` is over, or why it was to end before that.
    pub(super) async fn serve_pipe<T>(&self, talk: impl Future<Output = T>) -> Result<T, PipeEnd> {
        let is_over = |core: &Core| core.pipe == PipeState::Leaving || core.outbound.is_choked;
        let is_over = self.until_core(&self.pipe_changed, is_over);
        match self.stop.until(race(is_over, Box::pin(talk))).await {
            None => Err(PipeEnd::Stopped),
            Some(Either::Left(())) if lock(&self.core).outbound.is_choked => {
                let why = "the server does not read what it is sent";
                Err(PipeEnd::Broke(Failure::closed(why)))
            }
            // Even if it is wanted again by now: then it is made anew.
            Some(Either::Left(())) => Err(PipeEnd::Rested),
            Some(Either::Right(talked)) => Ok(talked),
        }
    }

    /// Waits for messages to write, and takes a handful.
    pub(super) async fn next_outbound(&self) -> Vec<Message> {
        // The writer that asks for more has written what it took.
        lock(&self.core).outbound.unwritten = 0;
        self.progressed.notify_waiters();
        let is_ready = |core: &Core| !core.outbound.is_empty() && core.pipe != PipeState::Leaving;
        self.until_core(&self.pipe_changed, is_ready).await;
        let mut core = lock(&self.core);
        let mut messages = Vec::new();
        let (mut taken, mut sent) = (0, 0);
        while taken < HIGH_WATER
            && let Some((message, cost)) = core.outbound.pop()
        {
            taken += cost;
            sent += message.text().len();
            messages.push(message);
        }
        core.outbound.unwritten = messages.len();
        drop(core);
        add(&self.server.traffic().sent, sent);
        self.progressed.notify_waiters();
        messages
    }

    /// Waits a little until all is written, if there is a pipe: the server should hear of
    /// cancelled calls before the end.
    pub(super) async fn last_words(&self) {
        let is_written = |core: &Core| {
            let has_more = core.outbound.unwritten > 0 || !core.outbound.is_empty();
            core.pipe != PipeState::Here || !has_more
        };
        let written = self.until_core(&self.progressed, is_written);
        _ = tokio::time::timeout(LAST_WORDS, written).await;
    }

    /// Adds to a client's work that it waits until the pipe has room again.
    pub(super) fn when_room(self: &Arc<Self>, mut works: PendingWork) -> PendingWork {
        let has_room = |core: &Core| core.outbound.bytes <= HIGH_WATER;
        if !has_room(&lock(&self.core)) {
            let this = Arc::clone(self);
            let room = async move { this.until_core(&this.progressed, has_room).await };
            works.append(PendingWork::one(room));
        }
        works
    }

    /// Waits while the server leaves too many answers to its own requests unread.
    pub(super) async fn answers_are_read(&self) {
        let are_read = |core: &Core| core.outbound.answer_bytes <= HIGH_WATER;
        if are_read(&lock(&self.core)) {
            return;
        }
        let reading = self.until_core(&self.progressed, are_read);
        // A server that waits until we read, and reads nothing, would wait for ever.
        if tokio::time::timeout(UNREAD_WAIT, reading).await.is_err() {
            lock(&self.core).outbound.is_choked = true;
            self.pipe_changed.notify_waiters();
        }
    }

    /// Whether this transport may be the wrong one.
    pub(super) fn may_change_transport(&self) -> bool {
        use Strategy::{HttpFirst, SseFirst};
        let is_settled = matches!(lock(&self.core).fallback, Fallback::Settled);
        let target = self.server.target();
        !is_settled && matches!(target, Target::Url { strategy: HttpFirst | SseFirst, .. })
    }

    /// The server does not speak this transport, for the reason `why`: what
    /// waits, and the greeting that was refused, go by the other. If that is
    /// not to be tried, or has been: why, in all, and the next greeting begins anew.
    pub(super) fn try_other_transport(
        self: &Arc<Self>,
        why: &Failure,
        greeting: Option<&Message>,
    ) -> Result<(), Failure> {
        if !self.may_change_transport() {
            return Err(why.clone());
        }
        let mut core = lock(&self.core);
        core.transport = match core.transport {
            Transport::Pipe => Transport::Http,
            Transport::Http => Transport::Pipe,
        };
        core.is_piped = false;
        let other = match core.transport {
            Transport::Pipe => "HTTP+SSE",
            Transport::Http => "Streamable HTTP",
        };
        if self.server.details.is_supervised {
            tracing::debug!(server = self.name, "{why}; trying {other}");
        } else {
            tracing::info!(server = self.name, "{why}; trying {other}");
        }
        if let Fallback::Second(first) = std::mem::replace(&mut core.fallback, Fallback::First) {
            return Err(Failure::BothTransports {
                first: Arc::new(first),
                second: Arc::new(why.clone()),
            });
        }
        core.fallback = Fallback::Second(why.clone());
        let waiting = std::mem::take(&mut core.outbound).messages;
        let mut works = PendingWork::none();
        self.start(&mut core);
        for message in waiting.into_iter().chain(greeting.cloned()) {
            match core.transport {
                Transport::Pipe => core.outbound.push(message, &self.limits),
                Transport::Http => {
                    let id = message.id().filter(|_| message.kind() == Kind::Request);
                    let lane = id.and_then(|id| core.half.lane_of(id)).unwrap_or(Lane::MAIN);
                    works.append(self.post(&mut core, lane, message, Vec::new()));
                }
            }
        }
        drop(core);
        self.pipe_changed.notify_waiters();
        works.detach();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use switchboard_proto::client::Sharing;
    use switchboard_proto::jsonrpc::Id;
    use switchboard_proto::revision::Era;

    use super::*;
    use crate::upstream::{Eras, ServerTarget};

    const BACKLOG: usize = 4 << 20;

    /// A pipe that nobody writes to, with answers enqueued while `more` says so.
    fn with_answers(more: impl Fn(&Outbound) -> bool) -> Arc<Upstream> {
        let server = ServerTarget::command(Command::new("none"), Vec::new());
        let limits = Arc::new(Limits { backlog: BACKLOG, ..Limits::default() });
        let up = Upstream::new(server, Eras::both(Era::Legacy), Sharing::Alone, None, limits);
        let mut core = lock(&up.core);
        (core.is_piped, core.next_look, core.pipe) = (true, Some(now()), PipeState::Here);
        while more(&core.outbound) {
            core.outbound.push(Message::result(&Id::from(1), b"{}"), &up.limits);
        }
        drop(core);
        up
    }

    #[tokio::test]
    async fn the_bound_of_a_pipe_counts_what_its_messages_take() {
        let up = with_answers(|outbound| !outbound.is_choked);
        let taken = up.unsent() * size_of::<Message>();
        assert!(taken <= BACKLOG, "{taken} bytes besides the texts");
        let mut written = 0;
        while up.unsent() > 0 {
            written += up.next_outbound().await.len();
        }
        assert!(written > 1000, "{written}");
        let outbound = &lock(&up.core).outbound;
        assert_eq!((outbound.bytes, outbound.answer_bytes), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_leaves_its_answers_unread_is_read_no_further_and_given_up_at_last() {
        let up = with_answers(|outbound| outbound.answer_bytes <= HIGH_WATER);
        let begun = tokio::time::Instant::now();
        up.receive(Lane::MAIN, Bytes::from_static(b"{}")).await;
        assert_eq!(begun.elapsed(), UNREAD_WAIT);
        let Err(PipeEnd::Broke(why)) = up.serve_pipe(std::future::pending::<()>()).await else {
            panic!("it goes on");
        };
        assert!(why.to_string().contains("does not read"));
    }

    /// Wants the server again when the conversation with it is dropped.
    struct WantedAgain(Arc<Upstream>);

    impl Drop for WantedAgain {
        fn drop(&mut self) {
            self.0.warm();
        }
    }

    #[tokio::test]
    async fn a_server_that_rests_is_not_broken_even_if_it_is_wanted_again_at_once() {
        let up = with_answers(|_| false);
        let wanted = WantedAgain(Arc::clone(&up));
        let talk = async move {
            let _wanted = wanted;
            std::future::pending::<()>().await;
        };
        lock(&up.core).pipe = PipeState::Leaving;
        let end = up.serve_pipe(talk).await;
        assert_eq!(lock(&up.core).pipe, PipeState::Ahead, "it is wanted by now");
        assert!(matches!(end, Err(PipeEnd::Rested)), "a break would count as a restart");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_read_again_when_it_reads() {
        let up = with_answers(|outbound| outbound.answer_bytes <= HIGH_WATER);
        let begun = tokio::time::Instant::now();
        let reading = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            up.next_outbound().await;
        };
        tokio::join!(up.receive(Lane::MAIN, Bytes::from_static(b"{}")), reading);
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
        assert!(!lock(&up.core).outbound.is_choked);
    }
}
