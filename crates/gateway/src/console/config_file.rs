//! The configuration file in the console: with masks for what may be secret, checked, and written.
//!
//! ```text
//!   file ──▶ MaskedText: "${…ID}" in the place of each literal that may be a secret
//!   text of the page ──▶ masks undone ──▶ Config::parse, Plan::build ──▶ problems, changes
//!                                     └─▶ written beside, renamed; the gateway hears of it
//! ```
//!
//! A text that leaves a mask leaves the value. What was in force before is kept in memory, so
//! that one can go back.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use http::header::{HeaderMap, IF_MATCH};
use http::{Method, StatusCode};
use ring::hmac;
use ring::rand::SystemRandom;
use serde_json::{Value, json};
use switchboard_net::http::page::PageVisit;
use switchboard_net::upstream::Target;
use switchboard_proto::moment;

use super::files::digest_of;
use super::masked_text::{MASK, MaskedText};
use super::servers::entry;
use super::sign_in::Viewer;
use super::{ApiError, ApiResult, Console, read_body};
use crate::config::{
    Config, Import, ImportOutcome, Problem, ReadError, Surroundings, Weight, known, replace_file,
};
use crate::lock;
use crate::plan::{Plan, PlanChanges, PlanSecret, ServerPlan};

/// Bytes of a text that the console takes.
pub(super) const MAX_TEXT: usize = 1 << 20;
/// Earlier texts that one can go back to.
const MAX_VERSIONS: usize = 10;
/// Servers of other clients that are shown.
const MAX_FOUND: usize = 500;
/// Seconds after a sign-in in which commands may be added and changed (C-37).
const FRESH: u64 = 10 * 60;

/// The files that a gateway follows. The first one is shown and changed.
pub(super) struct ConfigFile {
    files: Vec<PathBuf>,
    around: Surroundings,
    versions: Mutex<VecDeque<EarlierText>>,
    /// Held from the reading of a file until the writing, so that no change is lost.
    changing: Mutex<()>,
    /// Names the masks, until the gateway ends. None if the system has no random numbers: then
    /// nothing is shown.
    mask_key: Option<hmac::Key>,
}

/// A text that was replaced.
struct EarlierText {
    number: u64,
    at: SystemTime,
    /// Who replaced it.
    by: String,
    text: String,
}

/// What a text would mean.
struct CheckedText {
    problems: Vec<Value>,
    /// None if the files cannot be followed.
    plan: Option<Plan>,
    /// What is different from the files as they are.
    changes: PlanChanges,
    /// What must not be told, the longest first.
    secrets: Vec<PlanSecret>,
}

/// Bytes of a value that is hidden in what is said of a text. More is hidden than in logs: people
/// can write such a text to learn a value.
const MIN_HIDDEN: usize = 4;

/// What is said of a text, without secrets.
fn hide(said: &mut Value, secrets: &[PlanSecret]) {
    match said {
        Value::String(text) => {
            for PlanSecret { name, value } in secrets {
                *text = text.replace(value, &format!("${{{name}}}"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, secrets)),
        Value::Object(members) => {
            let told = members.iter_mut().filter(|(name, _)| !matches!(&***name, "kind" | "level"));
            told.for_each(|(_, member)| hide(member, secrets));
        }
        _ => {}
    }
}

impl ConfigFile {
    fn file(&self) -> &Path {
        self.files.first().map_or(Path::new(""), PathBuf::as_path)
    }

    fn text(&self) -> ApiResult<String> {
        fs::read_to_string(self.file()).map_err(|error| unavailable("read", &error))
    }

    /// The text with masks; none if the file is not JSON.
    fn masked(&self, text: &str) -> Option<MaskedText> {
        let config = Config::parse(self.file(), text, &self.around).ok()?;
        let secrets = PlanSecret::collect(&[&Plan::build(&[config]).0]);
        MaskedText::new(text, &secrets, self.mask_key.as_ref()?)
    }

    fn is_writable(&self) -> bool {
        let is_json = !self.file().extension().is_some_and(|it| it.eq_ignore_ascii_case("toml"));
        let real = fs::canonicalize(self.file());
        is_json && real.and_then(fs::metadata).is_ok_and(|it| !it.permissions().readonly())
    }

    /// The files, with a text in the place of the first one, and why some cannot be read.
    fn configs(&self, text: &str) -> (Vec<Config>, Vec<Value>) {
        let mut problems = Vec::new();
        let mut configs = Vec::new();
        for (at, file) in self.files.iter().enumerate() {
            let read = match at {
                0 => Config::parse(file, text, &self.around),
                _ => Config::read(file, &self.around),
            };
            match read {
                Ok(config) => configs.push(config),
                Err(error) => problems.push(match &error {
                    ReadError::Syntax(problem) => problem_row(problem),
                    _ => json!({"level": "error", "line": 1, "column": 1,
                        "text": error.to_string(), "hint": error.instead()}),
                }),
            }
        }
        (configs, problems)
    }

    /// What must not be told of texts: secrets of plans, and of variables in a text all values.
    fn secrets(&self, plans: &[&Plan], texts: [&str; 2]) -> Vec<PlanSecret> {
        let is_named = |name: &str| {
            let forms = [format!("{{{name}"), format!("${name}"), format!(":{name}")];
            let is_in = |text: &str| forms.iter().any(|form| text.contains(form));
            name.starts_with("INPUT_") || texts.into_iter().any(is_in)
        };
        let named = self.around.variables().filter(|(name, _)| is_named(name));
        let named = named.map(|(name, value)| (name.clone(), value.clone()));
        let literals = texts.into_iter().filter_map(|text| self.masked(text));
        let literals = literals.flat_map(|masked| masked.masks).filter_map(|(mask, own)| {
            let own = serde_json::from_str::<Value>(&own).ok()?;
            let name = mask.trim_matches(['"', '$', '{', '}']).to_owned();
            Some((name, own.as_str()?.to_owned()))
        });
        let all = named.chain(literals).filter(|(_, value)| value.len() >= MIN_HIDDEN);
        let all = all.map(|(name, value)| PlanSecret { name, value });
        let mut secrets: Vec<_> = PlanSecret::collect(plans).into_iter().chain(all).collect();
        secrets.sort_by_key(|it| std::cmp::Reverse(it.value.len()));
        secrets
    }

    /// What a text would mean in the place of the old one.
    fn check(&self, text: &str, old: &str) -> CheckedText {
        let (configs, mut problems) = self.configs(text);
        let is_readable = problems.is_empty();
        let (plan, wrong) = Plan::build(&configs);
        let has_errors = wrong.iter().any(|problem| problem.weight == Weight::Error);
        problems.extend(wrong.iter().map(problem_row));
        let now = Plan::build(&self.configs(old).0).0;
        let secrets = self.secrets(&[&plan, &now], [text, old]);
        for problem in &mut problems {
            hide(problem, &secrets);
        }
        let plan = Some(plan).filter(|_| is_readable && !has_errors);
        let changes = plan.as_ref().map(|plan| plan.diff(&now)).unwrap_or_default();
        CheckedText { problems, plan, changes, secrets }
    }

    /// Puts a text in the place of the file, and keeps the old one.
    fn write(&self, text: &str, old: String, by: &str) -> io::Result<u64> {
        replace_file(self.file(), text)?;
        let mut versions = lock(&self.versions);
        let number = versions.back().map_or(1, |last| last.number + 1);
        if versions.len() >= MAX_VERSIONS {
            versions.pop_front();
        }
        let at = SystemTime::now();
        versions.push_back(EarlierText { number, at, by: by.to_owned(), text: old });
        Ok(number)
    }

    fn version(&self, number: &str) -> ApiResult<String> {
        let versions = lock(&self.versions);
        let found = versions.iter().find(|it| it.number.to_string() == number);
        let unknown = || ApiError::not_found("this version is not kept any more");
        found.map(|it| it.text.clone()).ok_or_else(unknown)
    }
}

fn digest(text: &str) -> String {
    digest_of(&[text.as_bytes()])
}

fn unavailable(what: &str, error: &io::Error) -> ApiError {
    let message = format!("the file cannot be {what}: {error}");
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
}

fn problem_row(problem: &Problem) -> Value {
    let level = if problem.weight == Weight::Error { "error" } else { "warning" };
    json!({
        "level": level,
        "line": problem.place.line,
        "column": problem.place.column,
        "server": problem.server,
        "text": problem.what,
        "hint": problem.instead,
    })
}

/// What would come of a plan, in words (C-10). Commands are shown as they would run.
fn change_rows(changes: &PlanChanges, plan: &Plan, sessions: usize) -> Vec<Value> {
    let secrets = PlanSecret::collect(&[plan]);
    let command = |name: &String| match &plan.servers.get(name)?.target {
        Target::Command(command) => {
            let words = [&command.program].into_iter().chain(&command.args);
            Some(
                words.map(|word| PlanSecret::veil(word, &secrets).into_owned()).collect::<Vec<_>>(),
            )
        }
        Target::Url { .. } => None,
    };
    let row = |kind: &str, name: &String, text: String| json!({"kind": kind, "server": name, "text": text, "command": command(name)});
    let PlanChanges { added, removed, changed, adjusted, access, listen, .. } = changes;
    let mut rows = Vec::new();
    rows.extend(added.iter().map(|name| row("added", name, format!("adds {name}"))));
    rows.extend(
        removed
            .iter()
            .map(|name| row("removed", name, format!("removes {name}, once its calls are over"))),
    );
    rows.extend(changed.iter().map(|name| {
        row("changed", name, format!("starts {name} anew; sessions that go on: {sessions}"))
    }));
    rows.extend(adjusted.iter().map(|name| {
        row("adjusted", name, format!("{name} goes on; clients see something else of it"))
    }));
    rows.extend(access.iter().map(|text| json!({"kind": "access", "text": text})));
    if *listen {
        let text = "the address or the limits of connections hold from the next start on";
        rows.push(json!({"kind": "listen", "text": text}));
    }
    rows
}

impl Console {
    /// The gateway follows these files from here on.
    pub fn follow_files(&self, files: Vec<PathBuf>, around: Surroundings) {
        if !files.is_empty() {
            let (versions, changing) = (Mutex::default(), Mutex::default());
            let mask_key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok();
            let file = ConfigFile { files, around, versions, changing, mask_key };
            _ = self.config_file.set(Arc::new(file));
        }
    }

    /// Does what reads or writes the file where nobody waits for the disk.
    pub(super) async fn with_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let gone = || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "it ends");
        let console = self.this.upgrade().ok_or_else(gone)?;
        tokio::task::spawn_blocking(move || work(&console)).await.map_err(|_| gone())?
    }

    /// Answers a request about the file.
    pub(super) async fn answer_config(
        &self,
        viewer: Viewer,
        visit: &PageVisit,
        parts: &[&str],
    ) -> ApiResult {
        let parts: Vec<_> = parts.iter().map(|part| (*part).to_owned()).collect();
        let visit = visit.clone();
        let answering = self.with_disk(move |console| {
            let parts: Vec<_> = parts.iter().map(String::as_str).collect();
            console.answer_config_now(&viewer, &visit, &parts)
        });
        answering.await
    }

    fn answer_config_now(&self, viewer: &Viewer, visit: &PageVisit, parts: &[&str]) -> ApiResult {
        let PageVisit { method, headers, body, .. } = visit;
        let changed = self.config_file.get().filter(|_| !matches!(method.as_str(), "GET" | "HEAD"));
        let _changing = changed.map(|file| lock(&file.changing));
        let parts = match parts {
            ["config", rest @ ..] => rest,
            ["keys", name] if *method == Method::POST => return self.make_key(viewer, name, body),
            ["keys", name] if *method == Method::DELETE => return self.remove_key(viewer, name),
            ["found"] if *method == Method::GET => return self.found(viewer),
            _ => return Err(ApiError::not_found("there is nothing here")),
        };
        match (method.as_str(), parts) {
            ("GET" | "HEAD", []) => self.read_config(viewer),
            ("GET" | "HEAD", ["versions"]) => self.config_versions(viewer),
            ("GET" | "HEAD", ["versions", number]) => self.config_version(viewer, number),
            ("POST", ["check"]) => self.check_config(viewer, body),
            ("POST", ["apply"]) => self.write_config(viewer, headers, body),
            ("POST", ["versions", number, "restore"]) => {
                self.restore_config(viewer, headers, number)
            }
            _ => Err(ApiError::not_found("there is nothing here")),
        }
    }

    /// Servers in the files of other clients of this machine that are not in ours.
    fn found(&self, viewer: &Viewer) -> ApiResult {
        let file = self.files_of(viewer)?;
        let import = Import::gather(&known(&file.around), Some(file.file()), &file.around);
        let import = import.map_err(|error| ApiError::bad_request(error.to_string()))?;
        let added = import.candidates.iter().filter_map(|found| match &found.fate {
            ImportOutcome::Added(name) => Some((name, &found.client, &found.entry.as_ref()?.plan)),
            _ => None,
        });
        let added: Vec<_> = added.take(MAX_FOUND).collect();
        let servers = added.iter().map(|(name, _, plan)| ((*name).clone(), (*plan).clone()));
        let plan = Plan { servers: servers.collect(), ..Plan::default() };
        let secrets = PlanSecret::collect(&[&plan]);
        let rows = added.iter().map(|(name, client, plan)| {
            json!({"name": name, "source": client, "entry": entry(plan, &secrets)})
        });
        let rows: Vec<_> = rows.collect();
        Ok(json!({"rows": rows}))
    }

    fn files_of(&self, viewer: &Viewer) -> ApiResult<&Arc<ConfigFile>> {
        let none = || ApiError::not_found("the gateway has no configuration file");
        let files = self.config_file.get().ok_or_else(none)?;
        if viewer.is_whole() { Ok(files) } else { Err(ApiError::not_granted()) }
    }

    /// The file with masks.
    fn read_config(&self, viewer: &Viewer) -> ApiResult {
        let file = self.files_of(viewer)?;
        let text = file.text()?;
        let name = file.file().file_name().unwrap_or_default().to_string_lossy();
        Ok(json!({
            "file": name,
            "isWritable": file.is_writable() && self.may_change(viewer).is_ok(),
            "digest": digest(&text),
            "text": file.masked(&text).map(|masked| masked.text),
            "problems": file.check(&text, &text).problems,
        }))
    }

    /// What a text would mean.
    fn check_config(&self, viewer: &Viewer, body: &[u8]) -> ApiResult {
        let file = self.files_of(viewer)?;
        let old = file.text()?;
        // Other values stand for the masks: nothing of the own ones can be told.
        let masked = file.masked(&old).map(MaskedText::with_stand_ins);
        let text = undone(masked.as_ref(), body)?;
        let old = masked.and_then(|masked| masked.undo(&masked.text)).unwrap_or(old);
        let CheckedText { problems, plan, changes, secrets } = file.check(&text, &old);
        let (sessions, _) = self.open_sessions(viewer);
        let rows = plan.map(|plan| change_rows(&changes, &plan, sessions));
        let mut rows = Value::from(rows.unwrap_or_default());
        hide(&mut rows, &secrets);
        Ok(json!({"problems": problems, "changes": rows}))
    }

    /// Writes a text, if the file is still the one that the page has seen.
    fn write_config(&self, viewer: &Viewer, headers: &HeaderMap, body: &[u8]) -> ApiResult {
        let file = self.files_of(viewer)?;
        let old = file.text()?;
        let text = unmasked(file, &old, body)?;
        self.put_config(viewer, Some(headers), (old, text))
    }

    /// Goes back to an earlier text.
    fn restore_config(&self, viewer: &Viewer, headers: &HeaderMap, number: &str) -> ApiResult {
        let file = self.files_of(viewer)?;
        self.put_config(viewer, Some(headers), (file.text()?, file.version(number)?))
    }

    /// The file as it is, to be changed.
    pub(super) fn config_text(&self, viewer: &Viewer) -> ApiResult<(PathBuf, String)> {
        let file = self.files_of(viewer)?;
        Ok((file.file().to_owned(), file.text()?))
    }

    /// Puts a text in the place of the old one. `headers` say which text the page has seen;
    /// without them it is the old one.
    pub(super) fn put_config(
        &self,
        viewer: &Viewer,
        headers: Option<&HeaderMap>,
        (old, text): (String, String),
    ) -> ApiResult {
        self.may_change(viewer)?;
        let file = self.files_of(viewer)?;
        if !file.is_writable() {
            let message = "the file cannot be written";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "read_only", message));
        }
        let known = |headers: &HeaderMap| {
            let tag = headers.get(IF_MATCH).and_then(|value| value.to_str().ok());
            tag.is_some_and(|tag| tag.trim_matches('"') == digest(&old))
        };
        if !headers.is_none_or(known) {
            let message = "the file was changed meanwhile";
            let error = ApiError::new(StatusCode::PRECONDITION_FAILED, "changed", message);
            return Err(error.hint("read it again, and make the change once more"));
        }
        let checked = file.check(&text, &old);
        let Some(plan) = checked.plan else {
            return Err(ApiError::bad_request("the text has mistakes; check it first"));
        };
        // Whoever writes the text has seen what it does; whoever removes a key has not.
        if headers.is_none() && plan.access.is_open() && !self.gateway.plan().access.is_open() {
            let message = "it is the last key; without it, anybody would come in";
            let error = ApiError::new(StatusCode::CONFLICT, "last_key", message);
            return Err(error.hint("make another key first, or write what you mean into the file"));
        }
        let (sessions, _) = self.open_sessions(viewer);
        let mut rows = Value::from(change_rows(&checked.changes, &plan, sessions));
        hide(&mut rows, &checked.secrets);
        let runs_command = rows.as_array().into_iter().flatten().any(|row| {
            row["command"].is_array() && matches!(row["kind"].as_str(), Some("added" | "changed"))
        });
        if runs_command {
            self.require_fresh(viewer)?;
        }
        let by = viewer.who.name();
        let number = file.write(&text, old, by).map_err(|error| unavailable("written", &error))?;
        let PlanChanges { added, removed, changed, adjusted, access, .. } = &checked.changes;
        tracing::info!(
            principal = by,
            ?added,
            ?removed,
            restarted = ?changed,
            ?adjusted,
            ?access,
            "configuration written in the console"
        );
        Ok(json!({
            "did": "the file is written; what it says is in force in a moment",
            "digest": digest(&text),
            "changes": rows,
            "undo": {"method": "POST", "path": format!("config/versions/{number}/restore")},
        }))
    }

    /// Refuses somebody whose sign-in is too old to run a command (C-37).
    fn require_fresh(&self, viewer: &Viewer) -> ApiResult<()> {
        if self.sign_ins.is_fresh(viewer, FRESH) {
            return Ok(());
        }
        let message = "the sign-in is older than ten minutes, and this runs a command";
        Err(ApiError::new(StatusCode::UNAUTHORIZED, "sign_in_again", message))
    }

    /// The server of a name in a text that is not kept yet, to be tried.
    pub(super) fn server_to_try(&self, viewer: &Viewer, body: &[u8]) -> ApiResult<ServerPlan> {
        self.may_change(viewer)?;
        let file = self.files_of(viewer)?;
        let old = file.text()?;
        let text = unmasked(file, &old, body)?;
        let name = read_body(body)?["server"].as_str().unwrap_or_default().to_owned();
        let mistakes = || ApiError::bad_request("the text has mistakes; check it first");
        let mut plan = file.check(&text, &old).plan.ok_or_else(mistakes)?;
        plan.assign_accounts();
        let unknown = || ApiError::not_found(format!("the text has no server {name:?}"));
        let server = plan.servers.remove(&name).ok_or_else(unknown)?;
        if matches!(server.target, Target::Command(_)) {
            self.require_fresh(viewer)?;
        }
        Ok(server)
    }

    /// The texts that one can go back to, newest first.
    fn config_versions(&self, viewer: &Viewer) -> ApiResult {
        let file = self.files_of(viewer)?;
        let versions = lock(&file.versions);
        let row = |EarlierText { number, at, by, text }: &EarlierText| {
            let (at, digest) = (moment::text(*at), digest(text));
            json!({"n": number, "at": at, "by": by, "digest": digest, "bytes": text.len()})
        };
        let rows: Vec<_> = versions.iter().rev().map(row).collect();
        Ok(json!({"rows": rows}))
    }

    /// An earlier text, with masks.
    fn config_version(&self, viewer: &Viewer, number: &str) -> ApiResult {
        let file = self.files_of(viewer)?;
        let text = file.version(number)?;
        Ok(json!({"n": number.parse::<u64>().ok(), "text": file.masked(&text).map(|it| it.text)}))
    }
}

/// The text of a body, with what its masks stand for in the file as it is.
fn unmasked(file: &ConfigFile, old: &str, body: &[u8]) -> ApiResult<String> {
    undone(file.masked(old).as_ref(), body)
}

/// The text of a body, with what its masks stand for.
fn undone(masked: Option<&MaskedText>, body: &[u8]) -> ApiResult<String> {
    let body = read_body(body)?;
    let text = body["text"].as_str().ok_or_else(|| ApiError::bad_request("\"text\" is missing"))?;
    if text.len() > MAX_TEXT {
        let message = "the text is longer than 1 MiB";
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_long", message));
    }
    let undone = match masked {
        Some(masked) => masked.undo(text),
        None => Some(text.to_owned()).filter(|text| !text.contains(MASK)),
    };
    let unknown = || {
        let message = "the text has a mask ${…} whose value is not in the file, or a part of one";
        ApiError::bad_request(message).hint("read the file again, or write the value itself")
    };
    undone.ok_or_else(unknown)
}
