//! The road to a child process: lines to its stdin, lines from its stdout.

use std::sync::Arc;
use std::time::Duration;

use switchboard_proto::client::Half;
use switchboard_proto::exchange::Lane;
use switchboard_proto::line::{Decoder, TooLong};
use switchboard_proto::refusal::Refusal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};

use super::http::sentence;
use super::pipe::{End, lines};
use super::words::NOT_STARTED;
use super::{Seat, Upstream, via};
use crate::drive::{Either, race};
use crate::stdio::child::Command;

/// How long a child that reads no more may take to write what it still has.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Starts the child and serves it until it ends or we are told to stop.
pub(super) async fn run(up: &Arc<Upstream>, command: &Command) -> End {
    let command = match up.server.via() {
        Some(via) => command.clone().env(via::VARIABLE, via.variable()),
        None => command.clone(),
    };
    let mut child = match command.spawn(up.server.environment()) {
        Ok(child) => child,
        Err(error) => return End::Broke(up.told(sentence(&error), NOT_STARTED)),
    };
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return End::Broke("Transport closed (no pipes)".to_owned());
    };
    tracing::debug!(server = up.name, pid = child.id(), "started");
    let _runs = up.server.traffic().child();
    let talk = race(up.choked(), race(write(up, stdin), read(up, stdout)));
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
        Some(Either::Right(Either::Right(_))) => {
            End::Broke(up.told(exit.to_string(), exit.brief()))
        }
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

/// Reads until the child closes its stdout, or why nobody can read that.
async fn read(up: &Arc<Upstream>, mut stdout: ChildStdout) -> Option<String> {
    let mut decoder = Decoder::new(up.limits.message);
    loop {
        let more = matches!(stdout.read_buf(decoder.buffer()).await, Ok(1..));
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
            return Some("the server writes a line that does not end".to_owned());
        }
    }
}

async fn take(up: &Arc<Upstream>, line: Result<bytes::Bytes, TooLong>) {
    match line {
        Ok(line) => up.handle_piped(line).await,
        Err(error) => up.handle_skipped(&error),
    }
}

/// What a line that was cut off says about the call it answers.
enum Answered {
    Call(u64),
    /// It is an answer, but its id comes later.
    Some,
    Nothing,
}

impl Upstream {
    /// A line that was too long: if it answers a call, that call has failed.
    fn handle_skipped(self: &Arc<Self>, skipped: &TooLong) {
        tracing::warn!(server = self.name, "skipped a line: {skipped}");
        let text = format!("answer is longer than {} bytes", skipped.limit);
        let fail = |half: &mut Half<Seat>, now| {
            let lane = match answered(&skipped.head) {
                Answered::Call(number) => Some(Lane(number)),
                Answered::Some => half.only_call(),
                Answered::Nothing => None,
            };
            if let Some(lane) = lane {
                half.handle_unanswered(lane, &Refusal::FarSide { text }, now);
            }
        };
        self.step(fail).1.detach();
    }
}

/// Looks for the id of an answer at its beginning. Only what stands before the
/// payload counts: what is inside of it is not ours.
fn answered(head: &[u8]) -> Answered {
    let head = String::from_utf8_lossy(head);
    let payload = ["\"result\"", "\"error\""].iter().filter_map(|member| head.find(member)).min();
    let Some(payload) = payload.filter(|_| head.starts_with('{')) else { return Answered::Nothing };
    let envelope = &head[..payload];
    if envelope.contains("\"method\"") {
        return Answered::Nothing;
    }
    let id =
        envelope.split_once("\"id\"").and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
    let number = id.and_then(|rest| rest.split(',').next()?.trim().parse().ok());
    number.map_or(Answered::Some, Answered::Call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_envelope_of_an_answer_says_whose_it_is() {
        let id = |head: &str| match answered(head.as_bytes()) {
            Answered::Call(number) => number.to_string(),
            Answered::Some => "?".to_owned(),
            Answered::Nothing => "-".to_owned(),
        };
        assert_eq!(id(r#"{"jsonrpc": "2.0", "id": 7, "result": {"id": 9"#), "7");
        assert_eq!(id(r#"{"result":{"id":9,"content":"#), "?");
        assert_eq!(id(r#"{"jsonrpc":"2.0","method":"m","params":{"result":1"#), "-");
        assert_eq!(id("xxxxxxxxxxxx"), "-");
    }
}
