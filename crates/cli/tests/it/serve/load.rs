//! Many clients that call without a pause, while everything around them changes.
//!
//! Small by default; `SWITCHBOARD_LOAD=full` makes each as large as people may have it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use switchboard_net::client::{CallError, Client, ClientOptions};
use tokio::task::JoinHandle;

use super::{ERAS, Gateway, text};
use crate::process::{PATIENCE, SERVER, Switchboard, until};

mod change;
mod kill;
mod leak;
mod stop;

/// How much of something: in CI, and when somebody wants to know.
fn size(small: usize, full: usize) -> usize {
    if std::env::var("SWITCHBOARD_LOAD").is_ok_and(|it| it == "full") { full } else { small }
}

/// Clients that call the tool `mark`, each call with a text of its own.
struct Callers {
    file: PathBuf,
    stop: Arc<AtomicBool>,
    /// How many calls have failed so far.
    failures: Arc<AtomicUsize>,
    calling: Vec<JoinHandle<Made>>,
}

/// What came of the calls of one client.
#[derive(Default)]
struct Made {
    answered: Vec<String>,
    failed: Vec<(String, CallError)>,
}

impl Callers {
    fn new(gateway: &Gateway) -> Self {
        let file = gateway.home.path.join("marks");
        Self { file, stop: Arc::default(), failures: Arc::default(), calling: Vec::new() }
    }

    /// A client of each era that calls `tool` at `path` until it is told to
    /// stop, or until it cannot reach anybody any more.
    async fn call(&mut self, gateway: &Gateway, path: &str, tool: &str) {
        for era in ERAS {
            let client = gateway.client_at(path, era, ClientOptions::default()).await;
            let name = format!("{tool} of {path} in {era:?}, {}", self.calling.len());
            let (stop, file) = (Arc::clone(&self.stop), self.file.clone());
            let (tool, failures) = (tool.to_owned(), Arc::clone(&self.failures));
            let calling = async move {
                let made = calls(&client, &tool, &name, &file, (&stop, &failures)).await;
                client.close().await;
                made
            };
            self.calling.push(tokio::spawn(calling));
        }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// What came of all calls.
    async fn made(self) -> Made {
        let mut all = Made::default();
        for calling in self.calling {
            let Made { answered, failed } = calling.await.unwrap();
            all.answered.extend(answered);
            all.failed.extend(failed);
        }
        let all_told = all.answered.iter().collect::<BTreeSet<_>>();
        assert_eq!(all_told.len(), all.answered.len(), "an answer came twice");
        all
    }
}

async fn calls(
    client: &Client,
    tool: &str,
    name: &str,
    file: &std::path::Path,
    (stop, failures): (&AtomicBool, &AtomicUsize),
) -> Made {
    let mut made = Made::default();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let mark = format!("{name}: {number}");
        let call = client.call_tool(tool, json!({"file": file, "text": mark}));
        let answer = tokio::time::timeout(PATIENCE, call).await;
        match answer.unwrap_or_else(|_| panic!("no answer: {mark}")) {
            Ok(answer) => {
                assert_eq!(text(&answer), mark, "an answer to something else");
                made.answered.push(mark);
            }
            Err(error) => {
                failures.fetch_add(1, Ordering::Relaxed);
                let is_over = !matches!(error, CallError::Server { .. });
                made.failed.push((mark, error));
                if is_over {
                    break;
                }
            }
        }
    }
    made
}

/// What the servers have done, in alphabetical order.
fn marks(gateway: &Gateway) -> Vec<String> {
    let text = fs::read_to_string(gateway.home.path.join("marks")).unwrap();
    let mut marks: Vec<_> = text.lines().map(ToOwned::to_owned).collect();
    marks.sort_unstable();
    marks
}

/// The processes of the test server that a gateway has started.
fn servers(gateway: &Gateway) -> Vec<u32> {
    let is_server = |id: &u32| {
        let line = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split('\0').nth(1) == Some(SERVER[1])
    };
    gateway.process.children().into_iter().filter(is_server).collect()
}

/// Memory once it has stopped to fall.
fn at_rest(process: &Switchboard) -> u64 {
    let mut last = u64::MAX;
    until("memory is at rest", || {
        thread::sleep(Duration::from_secs(3));
        let now = process.memory();
        let rests = now + now / 50 >= last;
        last = now;
        rests
    });
    last
}
