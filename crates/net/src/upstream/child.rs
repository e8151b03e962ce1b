//! The road to a child process: lines to its stdin, lines from its stdout.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_proto::exchange::Lane;
use switchboard_proto::failure::{Failure, FailureSource};
use switchboard_proto::framing::{LineDecoder, LineTooLong};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};

use super::pipe::{End, lines};
use super::{Upstream, via};
use crate::drive::{Either, race};
use crate::stdio::child::{Command, ExitWatch};

/// How long a child that reads no more may take to write what it still has, and
/// how long what a child wrote before it exited may take to be read.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Bytes that are read once the child has exited: as much as a pipe holds. A
/// descendant of the child that keeps the pipe may write to it for ever.
const LEFT_IN_PIPE: usize = 1 << 20;

/// Starts the child and serves it until it ends or we are told to stop.
pub(super) async fn run(up: &Arc<Upstream>, command: &Command) -> End {
    let command = match up.server.via() {
        Some(via) => command.clone().env(via::VARIABLE, via.variable()),
        None => command.clone(),
    };
    let mut child = match command.spawn(up.server.environment()) {
        Ok(child) => child,
        Err(error) => return End::Broke(Failure::NotStarted { source: FailureSource::new(error) }),
    };
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return End::Broke(Failure::closed("no pipes"));
    };
    tracing::debug!(server = up.name, pid = child.id(), "started");
    let _runs = up.server.traffic().child();
    let talk = race(up.choked(), race(write(up, stdin), read(up, stdout, child.exit_watch())));
    let talked = up.stop.until(race(up.until_rest(), Box::pin(talk))).await;
    // Either direction being closed ends the conversation: a child that reads
    // no more cannot be asked, one that writes no more cannot answer.
    let exit = child.stop(up.server.grace()).await;
    if matches!(talked, Some(Either::Right(_))) && !up.scouts() {
        up.server.traffic().broke();
    }
    match talked {
        None => End::Stopped,
        Some(Either::Left(())) => End::Rested,
        Some(Either::Right(Either::Left(why) | Either::Right(Either::Right(Some(why))))) => {
            End::Broke(why)
        }
        Some(Either::Right(Either::Right(_))) => End::Broke(Failure::Exited(exit)),
    }
}

/// Writes what is to be written; returns when the child does not read any more,
/// a little later: what it wrote before that is still to be read.
async fn write(up: &Arc<Upstream>, mut stdin: ChildStdin) {
    loop {
        let messages = up.next_outbound().await;
        if stdin.write_all(&lines(&messages)).await.is_err() {
            up.stop.sleep(LAST_ANSWERS).await;
            return;
        }
    }
}

/// Reads until the child closes its stdout or has exited, or why nobody can read that.
/// A descendant in a session of its own may hold the pipe open after the child's exit.
async fn read(up: &Arc<Upstream>, mut stdout: ChildStdout, child: ExitWatch) -> Option<Failure> {
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
            take(up, line).await;
        }
        if !more {
            if let Some(line) = decoder.finish() {
                take(up, line).await;
            }
            return None;
        }
        if decoder.is_endless() {
            return Some(Failure::EndlessLine);
        }
    }
}

async fn take(up: &Arc<Upstream>, line: Result<bytes::Bytes, LineTooLong>) {
    match line {
        Ok(line) => up.handle_piped(line).await,
        Err(LineTooLong { limit, head }) => {
            up.handle_too_long(Lane::MAIN, &head, limit);
            up.pace().await;
        }
    }
}
