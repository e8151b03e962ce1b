//! Servers in containers: `docker run` and `podman run` as children.
//!
//! The child is only the engine's client; the container is somewhere else, and
//! killing the one leaves the other. So each container that we have started
//! carries labels of ours, and by them it is removed in every ending: by us
//! when its client has exited, by the guard when we are gone (decision 0004), and
//! by whoever of us starts a container next, should the guard have been
//! killed too. A container without our labels is never touched.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use tokio::process;
use tokio::time::timeout;

use super::Status;
use super::command::Command;
use crate::connection::lock;
use crate::platform::{self, Cleanup, SHELL};

/// The engines whose command line we know.
const ENGINES: [&str; 2] = ["docker", "podman"];

/// Which container it is.
const ID: &str = "switchboard.id";

/// Who started it: host, process, and when that began.
const OWNER: &str = "switchboard.owner";

/// What an engine needs to be found, beside what every child gets.
const VARIABLES: [&str; 15] = [
    "CONTAINERS_CONF",
    "CONTAINERS_REGISTRIES_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINER_CONNECTION",
    "CONTAINER_HOST",
    "CONTAINER_SSHKEY",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "REGISTRY_AUTH_FILE",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];

/// An engine that takes longer over a removal does not answer at all.
const PATIENCE: Duration = Duration::from_secs(20);

/// Removes what carries the label `$1`; the rest is the engine and its options.
/// `kill` first, because `podman rm` would wait ten seconds for an orderly end.
const REMOVE: &str = r#"
label=$1
shift
ids=$("$@" ps -aq --filter "label=$label") && [ -n "$ids" ] || exit 0
"$@" kill $ids
"$@" rm -f $ids
"#;

/// A container that a command is about to run, or runs.
#[derive(Clone, Debug)]
pub(super) struct Container {
    /// The engine, with the options that come before `run`.
    engine: Vec<String>,
    rest: Rest,
    id: String,
    /// What the engine's client gets to see.
    pub(super) environment: Vec<(OsString, OsString)>,
}

/// What follows `run`.
#[derive(Clone, Debug)]
enum Rest {
    Words(Vec<String>),
    /// In the line of a shell, which has to read it.
    Line(String),
}

impl Container {
    /// The container of a command, if it runs one.
    pub(super) fn of(command: &Command, parent: &[(OsString, OsString)]) -> Option<Self> {
        let (engine, rest) = by_words(command).or_else(|| by_shell(command))?;
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).ok()?;
        let wanted = |name: &OsString| VARIABLES.iter().any(|known| name == known);
        let mut environment: Vec<_> =
            parent.iter().filter(|(name, _)| wanted(name)).cloned().collect();
        environment.extend(command.environment(parent));
        let id = format!("{:016x}", u64::from_ne_bytes(bytes));
        Some(Self { engine, rest, id, environment })
    }

    /// The arguments of the engine, or of the shell that calls it: those of the
    /// command, and our labels. A name of ours too, unless there may be one already.
    pub(super) fn args(&self) -> Vec<String> {
        let mut ours = vec![format!("--label={ID}={}", self.id)];
        ours.push(format!("--label={OWNER}={}", owner()));
        let is_named = match &self.rest {
            Rest::Words(rest) => {
                rest.iter().any(|arg| arg == "--name" || arg.starts_with("--name="))
            }
            Rest::Line(rest) => rest.contains("--name"),
        };
        if !is_named {
            ours.push(format!("--name=switchboard-{}", self.id));
        }
        match &self.rest {
            Rest::Words(rest) => {
                let run = ["run".to_owned()];
                [&self.engine[1..], &run, &ours, rest].concat()
            }
            Rest::Line(rest) => {
                let engine: Vec<_> = self.engine.iter().map(|word| quoted(word)).collect();
                let line = format!("exec {} run {} {rest}", engine.join(" "), ours.join(" "));
                vec!["-c".to_owned(), line]
            }
        }
    }

    /// What the guard does if we are gone: the same as [`remove`](Self::remove).
    pub(super) fn cleanup(&self) -> Cleanup {
        Cleanup::new(&self.environment, REMOVE, &self.remove_words())
    }

    /// The words for [`REMOVE`] that remove this container.
    fn remove_words(&self) -> Vec<String> {
        self.words(&format!("{ID}={}", self.id))
    }

    fn words(&self, label: &str) -> Vec<String> {
        [label.to_owned()].into_iter().chain(self.engine.iter().cloned()).collect()
    }

    /// Removes the container, whatever state it is in.
    pub(super) async fn remove(&self) {
        self.remove_labelled(&format!("{ID}={}", self.id)).await;
    }

    async fn remove_labelled(&self, label: &str) {
        let mut removal = self.command(SHELL);
        removal.args(["-c", REMOVE, "switchboard-remove"]).args(self.words(label));
        // In a group of its own, so that it goes on when the child's group is ended.
        platform::lead_own_group(&mut removal);
        let removed = timeout(PATIENCE, removal.status()).await;
        if !matches!(removed, Ok(Ok(_))) {
            tracing::warn!(engine = self.engine[0], "a container may be left: {label}");
        }
    }

    /// Removes containers that were left by those of us who are no more; once
    /// for each engine, by each of us.
    pub(super) async fn remove_stale(self) {
        static DONE: Mutex<Vec<Vec<String>>> = Mutex::new(Vec::new());
        if !is_first(&DONE, &self.engine) {
            return;
        }
        for owner in self.owners().await.unwrap_or_default() {
            if is_gone(&owner) {
                tracing::info!(engine = self.engine[0], "removing what an earlier run has left");
                self.remove_labelled(&format!("{OWNER}={owner}")).await;
            }
        }
    }

    /// Who has containers, by their labels.
    async fn owners(&self) -> Option<HashSet<String>> {
        let filter = format!("label={OWNER}");
        let ids = self.ask(&["ps", "-aq", "--filter", &filter]).await?;
        let format = format!("{{{{index .Config.Labels \"{OWNER}\"}}}}");
        let mut inspect = vec!["inspect", "--format", &format];
        inspect.extend(ids.lines());
        if inspect.len() == 3 {
            return None;
        }
        Some(self.ask(&inspect).await?.lines().map(|line| line.trim().to_owned()).collect())
    }

    /// What the engine prints.
    async fn ask(&self, args: &[&str]) -> Option<String> {
        let mut command = self.command(&self.engine[0]);
        let output = command.args(&self.engine[1..]).args(args).stdout(Stdio::piped()).output();
        let output = timeout(PATIENCE, output).await.ok()?.ok()?;
        String::from_utf8(output.stdout).ok()
    }

    fn command(&self, program: &str) -> process::Command {
        let mut command = process::Command::new(program);
        command
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Why the container came to nothing, in words for a person, as far as can be told.
    pub(super) fn explain(&self, status: Status, last_words: &[String]) -> Option<String> {
        let Status::Code(code) = status else { return None };
        let engine = Path::new(&self.engine[0]).file_name()?.to_str()?;
        let said = last_words.join("\n").to_lowercase();
        explain(engine, code, &said)
    }
}

/// Whether this engine is new among those `seen`. Nobody has more than a few.
fn is_first(seen: &Mutex<Vec<Vec<String>>>, engine: &[String]) -> bool {
    let mut seen = lock(seen);
    let is_new = seen.len() < MOST_ENGINES && !seen.iter().any(|other| other == engine);
    if is_new {
        seen.push(engine.to_vec());
    }
    is_new
}

const MOST_ENGINES: usize = 16;

/// The engine and what follows `run`, if the command runs a container.
fn by_words(command: &Command) -> Option<(Vec<String>, Rest)> {
    let name = Path::new(&command.program).file_name()?.to_str()?;
    // Options may come before it, and some have a value; no value is called `run`.
    let run = command.args.iter().position(|arg| arg == "run")?;
    let (before, rest) = command.args.split_at(run);
    let is_other = |arg: &String| ["exec", "compose", "start", "pod"].contains(&arg.as_str());
    if !ENGINES.contains(&name) || before.iter().any(is_other) {
        return None;
    }
    let engine = [&command.program].into_iter().chain(before).cloned();
    Some((engine.collect(), Rest::Words(rest[1..].to_vec())))
}

/// The same if a shell does nothing else.
fn by_shell(command: &Command) -> Option<(Vec<String>, Rest)> {
    let shell = Path::new(&command.program).file_name()?.to_str()?;
    let [flag, line] = &command.args[..] else { return None };
    let (engine, rest) = line.split_once(" run ")?;
    let has_more =
        engine.contains(['$', '`', '\\']) || unquoted(line).contains(['&', '|', ';', '\n']);
    if flag != "-c" || !["sh", "bash"].contains(&shell) || has_more {
        return None;
    }
    let engine = Command::parse(engine).ok().filter(|engine| engine.env.is_empty())?;
    let (engine, _) = by_words(&engine.arg("run"))?;
    Some((engine, Rest::Line(rest.to_owned())))
}

/// What of a line for a shell is not in quotes.
fn unquoted(line: &str) -> String {
    let (mut quote, mut is_escaped) = (None, false);
    let is_plain = |&character: &char| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        match (quote, character) {
            (None | Some('"'), '\\') => is_escaped = true,
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => return quote.is_none(),
        }
        false
    };
    line.chars().filter(is_plain).collect()
}

/// A word that a shell reads as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn explain(engine: &str, code: i32, said: &str) -> Option<String> {
    let says = |texts: &[&str]| texts.iter().any(|text| said.contains(text));
    let socket = says(&["daemon", "socket", ".sock"]);
    let why = match code {
        125 if socket && says(&["permission denied"]) => {
            format!(
                "this user may not use {engine}; join its group, or use podman, which needs none"
            )
        }
        125 if says(&["cannot connect", "is the docker daemon running", "connection refused"]) => {
            format!("{engine} is not running; start it, and try again")
        }
        125 if says(&IMAGE) => {
            format!("there is no such image; check its name, or get it first with {engine} pull")
        }
        125 => format!("{engine} could not start the container"),
        126 => "the container's command could not be run".to_owned(),
        127 => "the container's command is not in the image".to_owned(),
        137 => "the container was killed, perhaps for want of memory".to_owned(),
        _ => return None,
    };
    Some(why)
}

/// What engines say of an image that cannot be had, in lower case.
const IMAGE: [&str; 7] = [
    "image not known",
    "no such image",
    "unable to find image",
    "did not resolve to an alias",
    "manifest unknown",
    "pull access denied",
    "repository does not exist",
];

/// Ourselves, as a label: host and process namespace, process, and when it began.
fn owner() -> String {
    let id = std::process::id();
    format!(
        "{}.{id}.{}",
        platform::process_space(),
        platform::process_began(id).unwrap_or_default()
    )
}

/// Whether the owner was one of us, here, and is no more. Of others nothing is
/// known, and where the system does not say when a process began, of nobody.
fn is_gone(owner: &str) -> bool {
    let parts =
        owner.strip_prefix(&platform::process_space()).and_then(|rest| rest.strip_prefix('.'));
    let Some((id, since)) = parts.and_then(|parts| parts.split_once('.')) else { return false };
    !since.is_empty()
        && id.parse().is_ok_and(|id| platform::process_began(id).as_deref() != Some(since))
}

#[cfg(test)]
mod tests;
