//! A gateway that runs: started with a file of ours, watched, and ended by its id.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use crate::caller::{Caller, Era};
use crate::http::{self, PATIENCE};
use crate::process::{Process, marked, until};

/// Keys that the files of the campaign give to people.
pub(crate) const ROOT: &str = "key-of-root-0123456789abcdef";
pub(crate) const ADA: &str = "key-of-ada-0123456789abcdef";
pub(crate) const BOB: &str = "key-of-bob-0123456789abcdef";

/// Lines of its log that are kept, to tell how it ended.
const LOG: usize = 400;

static NUMBER: AtomicU64 = AtomicU64::new(1);

/// What to start, and how.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) servers: Value,
    /// The section `switchboard`.
    pub(crate) section: Value,
    pub(crate) args: Vec<String>,
    /// Words before the binary, such as a shell that sets limits and becomes it.
    pub(crate) before: Vec<String>,
    /// A port that was found free; 0 lets the gateway find one.
    pub(crate) port: u16,
    /// Words after the binary in place of `serve` and its file.
    pub(crate) instead: Option<Vec<String>>,
}

impl Plan {
    pub(crate) fn new(servers: Value) -> Self {
        let args = vec!["--no-cache".to_owned(), "--session-timeout".to_owned(), "4".to_owned()];
        Self { servers, section: json!({}), args, before: Vec::new(), port: 0, instead: None }
    }

    pub(crate) fn section(mut self, section: Value) -> Self {
        self.section = section;
        self
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    fn serve(&self, file: &Path) -> Vec<String> {
        let mut words = ["serve", "--config"].map(ToOwned::to_owned).to_vec();
        words.push(file.to_string_lossy().into_owned());
        words.extend(["--port".to_owned(), self.port.to_string()]);
        words.extend(self.args.iter().cloned());
        words
    }

    fn text(&self, mark: &str) -> String {
        let mut servers = self.servers.clone();
        for server in servers.as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
            if server["command"].is_string() {
                let (name, value) = mark.split_once('=').unwrap_or((mark, ""));
                server["env"][name] = value.into();
            }
        }
        json!({"mcpServers": servers, "switchboard": self.section}).to_string()
    }
}

/// What a process holds at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Footprint {
    pub(crate) processes: u64,
    pub(crate) descriptors: u64,
    pub(crate) tasks: u64,
    pub(crate) memory: u64,
}

/// A gateway that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) process: Process,
    pub(crate) port: u16,
    pub(crate) home: PathBuf,
    child: Child,
    mark: String,
    log: Arc<Mutex<VecDeque<String>>>,
    /// Every process it was ever seen to have.
    family: Mutex<HashMap<u32, Process>>,
}

impl Gateway {
    /// Starts one and waits until it listens.
    pub(crate) async fn start(binary: &Path, plan: &Plan) -> Result<Self, String> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("switchboard-torture-{}-{number}", std::process::id());
        let home = std::env::temp_dir().join(&name);
        fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        let mark = format!("TORTURE_MARK={name}");
        let file = home.join("servers.json");
        write(&file, &plan.text(&mark))?;
        let mut words = plan.before.clone();
        words.push(binary.to_string_lossy().into_owned());
        words.extend(plan.instead.clone().unwrap_or_else(|| plan.serve(&file)));
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .env_remove("RUST_LOG")
            .env_remove("LOG_LEVEL")
            .envs([("ROOT_KEY", ROOT), ("ADA_KEY", ADA), ("BOB_KEY", BOB)])
            .env("HOME", &home)
            .env("TORTURE_MARK", &name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} did not start: {error}", words[0]))?;
        let log = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(keep_log(stderr, Arc::clone(&log)));
        }
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = timeout(PATIENCE, lines.next_line()).await;
        let port = line.ok().and_then(Result::ok).flatten().and_then(|line| port_of(&line));
        let process = child.id().and_then(Process::find);
        // What else it says there is read, so that it never waits for us.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let (Some(port), Some(process)) = (port, process) else {
            let last = said(&log, 3);
            _ = child.start_kill();
            return Err(format!("the gateway did not start: {last}"));
        };
        Ok(Self { process, port, home, child, mark, log, family: Mutex::default() })
    }

    /// Puts another file in place of the one it follows.
    pub(crate) fn rewrite(&self, plan: &Plan) -> Result<(), String> {
        self.write(&plan.text(&self.mark))
    }

    /// The same, and waits until it is in force.
    pub(crate) async fn reload(&self, plan: &Plan) -> Result<(), String> {
        let before = self.status().await?["config"].clone();
        self.rewrite(plan)?;
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let now = self.status().await?["config"].clone();
            if now["loaded"] != before["loaded"] {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("another file is never in force: {now}, {}", self.said(2)));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Goes back to a file, and waits until it is in force, also if it is already.
    pub(crate) async fn reload_to(&self, plan: &Plan) -> Result<(), String> {
        // Another meaning first, so that the way back is one too.
        let mut other = plan.clone();
        other.section["groups"]["between"] = json!([]);
        self.rewrite(&other)?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.reload(plan).await
    }

    pub(crate) fn write(&self, text: &str) -> Result<(), String> {
        let draft = self.home.join("servers.json~");
        write(&draft, text)?;
        let file = self.home.join("servers.json");
        fs::rename(draft, &file).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// The last lines of its log.
    pub(crate) fn said(&self, lines: usize) -> String {
        said(&self.log, lines)
    }

    /// Fails if the process is gone.
    pub(crate) fn lives(&self) -> Result<(), String> {
        if self.process.runs() {
            return Ok(());
        }
        Err(format!("the gateway is dead: {}", self.said(3)))
    }

    /// `/status`, as whoever may see everything.
    pub(crate) async fn status(&self) -> Result<Value, String> {
        let reply = http::get(self.port, "/status", Some(ROOT)).await;
        reply.map(|reply| reply.message()).map_err(|lost| format!("/status: {lost}"))
    }

    /// Waits until these servers can be called.
    pub(crate) async fn ready(&self, names: &[&str]) -> Result<(), String> {
        let end = Instant::now() + Duration::from_mins(1);
        loop {
            let status = self.status().await?;
            let state = |name: &&str| status["servers"][name]["state"].clone();
            if names.iter().all(|name| state(name) == "ready") {
                return Ok(());
            }
            if Instant::now() > end {
                let found: Vec<_> = names.iter().map(state).collect();
                return Err(format!("{names:?} are {found:?}, not ready: {}", self.said(2)));
            }
            self.lives()?;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// One metric without labels, or the sum of those with.
    pub(crate) async fn metric(&self, name: &str) -> Result<Option<f64>, String> {
        let reply = http::get(self.port, "/metrics", Some(ROOT)).await;
        let text = reply.map_err(|lost| format!("/metrics: {lost}"))?.text();
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let is_it = rest.starts_with(' ') || rest.starts_with('{');
            is_it.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
        });
        Ok(values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value)))
    }

    pub(crate) async fn footprint(&self) -> Result<Footprint, String> {
        let tasks = self.metric("switchboard_tasks").await?.unwrap_or(0.0);
        let gone = || format!("the gateway is dead: {}", self.said(3));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let tasks = tasks as u64;
        Ok(Footprint {
            processes: self.children().len() as u64,
            descriptors: self.process.descriptors().ok_or_else(gone)?,
            tasks,
            memory: self.process.memory().ok_or_else(gone)?,
        })
    }

    /// The processes it has at present, with all they started.
    pub(crate) fn children(&self) -> Vec<Process> {
        let now = self.process.descendants();
        let mut family = self.family.lock().unwrap_or_else(PoisonError::into_inner);
        family.retain(|_, process| process.runs());
        family.extend(now.iter().map(|process| (process.id, *process)));
        now
    }

    /// Its server processes whose command line has this word.
    pub(crate) fn servers(&self, word: &str) -> Vec<Process> {
        let is_it = |it: &Process| it.words().iter().any(|has| has == word);
        self.children().into_iter().filter(is_it).collect()
    }

    /// A client that may do everything.
    pub(crate) fn caller(&self, path: &str, era: Era) -> Caller {
        Caller::new(self.port, path, era, Some(ROOT))
    }

    /// Whether `/healthz` says that all is well, within `patience`.
    pub(crate) async fn is_well(&self, patience: Duration) -> Result<(), String> {
        self.lives()?;
        let bytes = http::request("GET /healthz", self.port, &[], b"");
        let reply = http::send(self.port, &bytes, patience).await;
        let reply = reply.map_err(|lost| format!("/healthz: {lost}"))?;
        let is_ok = reply.status == 200 && reply.body.starts_with(b"ok");
        if is_ok { Ok(()) } else { Err(format!("/healthz says {}", reply.status)) }
    }

    /// Whether it runs, is well, and answers a call of each era with what was asked.
    pub(crate) async fn serves(&self, tool: &str) -> Result<(), String> {
        self.is_well(PATIENCE).await?;
        for era in crate::caller::ERAS {
            let mut caller = self.caller("/mcp", era);
            if !caller.echo(tool, json!({})).await? {
                let said = caller.call(tool, json!({"message": "again"})).await;
                return Err(format!("an honest call fails afterwards: {said}"));
            }
            caller.leave().await;
        }
        Ok(())
    }

    /// Ends it by a signal; fails if it, or a process of its servers, stays.
    pub(crate) async fn end(mut self, signal: Signal, patience: Duration) -> Result<(), String> {
        self.children();
        self.process.signal(signal);
        if timeout(patience, self.child.wait()).await.is_err() {
            return Err(format!("still runs {} s after {signal:?}", patience.as_secs()));
        }
        self.nothing_is_left(Duration::from_secs(15)).await
    }

    /// Fails if a process that it had, or that its servers had, stays.
    async fn nothing_is_left(&self, patience: Duration) -> Result<(), String> {
        until(patience, || self.left().is_empty()).await;
        let left = self.left();
        let words: Vec<_> = left.iter().map(|process| process.words().join(" ")).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("processes are left: {words:?}")) }
    }

    fn left(&self) -> Vec<Process> {
        let family = self.family.lock().unwrap_or_else(PoisonError::into_inner);
        let known = family.values().copied().filter(|process| process.runs());
        let mut left: Vec<_> = known.collect();
        left.extend(marked(&self.mark));
        left.dedup();
        left
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.children();
        self.process.signal(Signal::KILL);
        let left = self.left();
        for process in left {
            process.signal(Signal::KILL);
        }
        // What is left of it is a folder in the system's folder for such.
        _ = fs::remove_dir_all(&self.home);
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

fn port_of(line: &str) -> Option<u16> {
    line.split_once("://127.0.0.1:")?.1.split('/').next()?.parse().ok()
}

fn said(log: &Mutex<VecDeque<String>>, lines: usize) -> String {
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    let last: Vec<_> = log.iter().skip(log.len().saturating_sub(lines)).cloned().collect();
    last.join(" | ")
}

async fn keep_log(from: impl AsyncRead + Unpin, log: Arc<Mutex<VecDeque<String>>>) {
    let mut lines = BufReader::new(from).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() == LOG {
            log.pop_front();
        }
        log.push_back(String::from_utf8_lossy(&line).chars().take(300).collect());
    }
}
