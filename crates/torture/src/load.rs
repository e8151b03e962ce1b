//! Honest clients of both eras that call without a pause and check every answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::caller::{CallResult, Caller, Era, nonce};
use crate::campaign::ensure;
use crate::http::Lost;
use crate::random::Random;

/// What all clients have seen together.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    stop: AtomicBool,
    pub(crate) calls: AtomicU64,
    /// Answered with what was asked for.
    pub(crate) answered: AtomicU64,
    /// Failed in a clear way, under their own id.
    pub(crate) failed: AtomicU64,
    /// Lost with their connection: fine only where the gateway itself ends.
    pub(crate) lost: AtomicU64,
    last_lost: Mutex<String>,
    /// What must never be, with who saw it.
    wrong: Mutex<Vec<String>>,
}

impl Tally {
    /// The first thing that must never be.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }

    /// The last call that was lost with its connection.
    pub(crate) fn last_lost(&self) -> String {
        self.last_lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn found(&self, what: String) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() < 20 {
            wrong.push(what);
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Where a client calls, and what.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) path: String,
    /// What its tools are called there: a prefix.
    pub(crate) prefix: String,
    /// Whether its server knows more than `echo`.
    pub(crate) is_ours: bool,
    /// Whether it can ask its callers, each for the call it is about.
    pub(crate) asks: bool,
    /// Whether its calls may fail; else a failure is wrong.
    pub(crate) may_fail: bool,
}

impl Target {
    /// A server of a gateway, among all.
    pub(crate) fn of(server: &str) -> Self {
        let (path, prefix) = ("/mcp".to_owned(), format!("{server}__"));
        let is_demo = server.starts_with("demo");
        Self { path, prefix, is_ours: !is_demo, asks: server == "demo", may_fail: true }
    }

    /// The same server at its own path.
    pub(crate) fn alone(server: &str) -> Self {
        let path = format!("/servers/{server}/mcp");
        Self { path, prefix: String::new(), ..Self::of(server) }
    }

    pub(crate) fn sure(mut self) -> Self {
        self.may_fail = false;
        self
    }
}

/// Clients that call until they are told to stop.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) tally: Arc<Tally>,
    clients: JoinSet<()>,
}

impl Load {
    pub(crate) fn new() -> Self {
        Self { tally: Arc::default(), clients: JoinSet::new() }
    }

    /// Adds a client that calls at random moments.
    pub(crate) fn add(&mut self, caller: Caller, target: Target, random: Random) {
        let caller = if target.asks { caller.able(json!({"elicitation": {}})) } else { caller };
        self.clients.spawn(call(caller, target, Arc::clone(&self.tally), random));
    }

    /// Waits until so many more calls were answered.
    pub(crate) async fn goes_on(&self, answers: u64, patience: Duration) -> Result<(), String> {
        let wanted = self.tally.answered.load(Ordering::Relaxed) + answers;
        let end = Instant::now() + patience;
        while self.tally.answered.load(Ordering::Relaxed) < wanted {
            self.is_right()?;
            if Instant::now() > end {
                let answered = self.tally.answered.load(Ordering::Relaxed);
                return Err(format!("{answered} answers where {wanted} were to come"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Fails with the first thing that must never be.
    pub(crate) fn is_right(&self) -> Result<(), String> {
        self.tally.wrong().map_or(Ok(()), Err)
    }

    /// Stops all clients, waits for their last answers, and says what they have seen.
    pub(crate) async fn stop(mut self) -> Result<Arc<Tally>, String> {
        self.tally.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.map_err(|error| error.to_string())?;
        }
        self.is_right()?;
        Ok(self.tally)
    }

    /// The same, and no client has lost its connection.
    pub(crate) async fn stop_without_loss(self) -> Result<(), String> {
        let tally = self.stop().await?;
        let is_whole = tally.lost.load(Ordering::Relaxed) == 0;
        ensure(is_whole, || "connections of clients were lost".to_owned())
    }
}

/// How long each call may take: longer than any server of the campaign may start.
pub(crate) const DEADLINE: Duration = Duration::from_secs(100);

const LIST: &str = "tools/list";

/// One request: what it was, and what came of it. `wanted` is the text that must come back.
async fn one(
    caller: &mut Caller,
    target: &Target,
    wanted: &mut String,
    random: &mut Random,
) -> (String, CallResult) {
    if random.once_in(20) {
        return (LIST.to_owned(), caller.ask(LIST, json!({})).await);
    }
    if target.asks && caller.era == Era::Modern && random.once_in(3) {
        let said = caller.round(&target.prefix, wanted).await;
        *wanted = format!("Hello, {wanted}!");
        return (format!("{}round", target.prefix), said);
    }
    let waits = target.is_ours && random.once_in(4);
    let (tool, ms) = if waits { ("wait", random.below(120)) } else { ("echo", 0) };
    let tool = format!("{}{tool}", target.prefix);
    let said = caller.call(&tool, json!({"message": wanted, "ms": ms})).await;
    (tool, said)
}

async fn call(mut caller: Caller, target: Target, tally: Arc<Tally>, mut random: Random) {
    caller.patience = DEADLINE;
    while !tally.is_over() {
        let mut wanted = nonce();
        tally.calls.fetch_add(1, Ordering::Relaxed);
        let (tool, said) = one(&mut caller, &target, &mut wanted, &mut random).await;
        let who = || format!("{:?} client of {} at {}", caller.era, tool, target.path);
        match &said {
            CallResult::Result(result) if tool == LIST && result["tools"].is_array() => {
                tally.answered.fetch_add(1, Ordering::Relaxed);
            }
            _ if said.text() == Some(&wanted) => {
                tally.answered.fetch_add(1, Ordering::Relaxed);
            }
            CallResult::Crossed(what) => {
                tally.found(format!("{}: crossed answer: {what}", who()));
            }
            CallResult::Lost(Lost::Closed(why)) => {
                tally.lost.fetch_add(1, Ordering::Relaxed);
                let lost = format!("{}: {wanted}: {why}", who());
                *tally.last_lost.lock().unwrap_or_else(PoisonError::into_inner) = lost;
                if caller.era == Era::Legacy {
                    caller.session = None;
                }
            }
            CallResult::Lost(lost) => tally.found(format!("{}: {wanted}: {lost}", who())),
            _ if said.is_failure() => {
                tally.failed.fetch_add(1, Ordering::Relaxed);
                if !target.may_fail {
                    tally.found(format!("{}: {wanted} failed: {said}", who()));
                }
            }
            other => tally.found(format!("{}: {wanted} came back as {other:.300?}", who())),
        }
        if random.once_in(16) {
            // Other people come and go.
            let again = Caller::new(caller.port, &caller.path, caller.era, caller.key.as_deref());
            let again = again.able(caller.capabilities.clone()).patient(DEADLINE);
            std::mem::replace(&mut caller, again).leave().await;
        }
        // Whoever fails at once would else do nothing but fail.
        let pause = if said.is_failure() || matches!(said, CallResult::Lost(_)) { 50 } else { 3 };
        tokio::time::sleep(Duration::from_millis(random.below(pause * 2))).await;
    }
    caller.leave().await;
}
