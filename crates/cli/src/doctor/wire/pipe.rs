//! A child, spoken to by hand.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::Value;
use switchboard_net::stdio::child::{Child, Command, Grace, SpawnError};
use switchboard_proto::line::LineDecoder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};

use super::super::evidence::{ExchangeResult, Heard};
use super::{MAX, Sorted, sort};

pub(in crate::doctor) struct Pipe {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    lines: LineDecoder,
    pub(in crate::doctor) heard: Heard,
}

impl Pipe {
    pub(in crate::doctor) fn start(
        command: &Command,
        environment: &[(OsString, OsString)],
        heard: Heard,
    ) -> Result<Self, SpawnError> {
        let mut child = command.spawn(environment)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Self { child, stdin, stdout, lines: LineDecoder::new(MAX), heard })
    }

    pub(super) async fn ask(&mut self, request: &Value) -> ExchangeResult {
        if self.write(request).await.is_none() {
            return self.gone().await;
        }
        loop {
            while let Some(line) = self.lines.next_line() {
                let Ok(line) = line else {
                    self.heard.stray("a line that is longer than 8 MiB");
                    continue;
                };
                for sorted in sort(&line, request, &mut self.heard) {
                    match sorted {
                        Sorted::Answer(message) => {
                            return ExchangeResult::Answer { message, http: None };
                        }
                        Sorted::Reply(reply) => _ = self.write(&reply).await,
                        Sorted::Nothing => {}
                    }
                }
            }
            let Some(stdout) = &mut self.stdout else { return self.gone().await };
            if !matches!(stdout.read_buf(self.lines.buffer()).await, Ok(1..)) {
                return self.gone().await;
            }
        }
    }

    pub(in crate::doctor) async fn write(&mut self, message: &Value) -> Option<()> {
        let stdin = self.stdin.as_mut()?;
        stdin.write_all(format!("{message}\n").as_bytes()).await.ok()?;
        stdin.flush().await.ok()
    }

    /// Why it is gone; some close their stdout and live on.
    async fn gone(&mut self) -> ExchangeResult {
        let ended = tokio::time::timeout(LAST_WORDS, self.child.wait()).await;
        let text = ended.map_or_else(
            |_| "it closed its stdout".to_owned(),
            |exit| {
                let words = exit.last_words.iter().rev().take(5).rev();
                let words = words.map(String::as_str).collect::<Vec<_>>().join(" | ");
                let words = if words.is_empty() { "nothing on stderr".to_owned() } else { words };
                format!("{}; {words}", exit.status)
            },
        );
        ExchangeResult::Gone { text }
    }

    /// Ends it; whether the end of its stdin was enough.
    pub(in crate::doctor) async fn close(mut self) -> (bool, Heard) {
        drop(self.stdin.take());
        let went = tokio::time::timeout(PATIENCE, self.child.wait()).await.is_ok();
        self.child.stop(Grace { close: Duration::ZERO, ..Grace::default() }).await;
        (went, self.heard)
    }
}

/// How long the end of a process may come after that of its stdout.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long a server may take to end by itself, before clients send a signal.
const PATIENCE: Duration = Duration::from_secs(2);
