//! The access token of a child process: in a variable of its environment, or in a file that a
//! variable names (OU-13).
//!
//! A file is written again whenever the token is renewed. A variable cannot change, so a child
//! that has one is ended before its token is, as soon as no client waits for an answer; the
//! next call starts another.

use std::ffi::OsString;
use std::fs::{self, File};
use std::future::pending;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use switchboard_proto::auth::{AuthError, Secret};
use switchboard_proto::failure::{Failure, FailureSource, StartProblem};

use super::Upstream;
use crate::connection::lock;
use crate::drive::now;
use crate::platform;
use crate::stdio::child::{Command, HiddenWords};

/// How a command is given its access token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TokenInjection {
    /// This variable is the token.
    Env(String),
    /// This variable names a file with the token.
    File(String),
}

/// How long after a renewal that failed the next one is tried.
const AGAIN: Duration = Duration::from_secs(30);

/// What a child was started with.
pub(super) struct InjectedToken {
    variable: String,
    value: String,
    token: Secret,
    file: Option<TokenFile>,
    /// When it has to be renewed.
    until: Option<Instant>,
}

impl InjectedToken {
    /// The command with its variable. What the child prints of the token is not logged.
    pub(super) fn give_to(&self, command: Command) -> Command {
        let (name, token) = (&*self.variable, self.token.reveal());
        command.env(name, &*self.value).hiding(name, token)
    }
}

/// The file of a token, in the folder of this process.
struct TokenFile {
    path: PathBuf,
    _folder: Arc<TokenFolder>,
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // It may be gone with its folder.
        _ = fs::remove_file(&self.path);
    }
}

/// A folder that only we may read, with a lock that the kernel lets go of when this process
/// ends, however it does. Folders of others whose lock is free are removed.
struct TokenFolder {
    path: PathBuf,
    _lock: File,
}

/// The folder of this process, while it has files.
static FOLDER: Mutex<Weak<TokenFolder>> = Mutex::new(Weak::new());

/// How the names of such folders begin.
const FOLDERS: &str = "switchboard-tokens-";

/// Whoever holds it lives.
const LOCK: &str = "lock";

impl Drop for TokenFolder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.path);
    }
}

impl TokenFolder {
    /// That of this process.
    fn open(base: &Path) -> io::Result<Arc<Self>> {
        let mut current = lock(&FOLDER);
        if let Some(folder) = current.upgrade() {
            return Ok(folder);
        }
        Self::remove_stale(base);
        let folder = Arc::new(Self::make(base)?);
        *current = Arc::downgrade(&folder);
        Ok(folder)
    }

    fn make(base: &Path) -> io::Result<Self> {
        loop {
            let path = base.join(format!("{FOLDERS}{}", random_name()?));
            platform::make_private_folder(&path)?;
            let name = path.join(LOCK);
            let lock = platform::private_file().write(true).create_new(true).open(&name)?;
            // Else another process has just taken it for one that was left behind.
            if lock.try_lock().is_ok() && platform::is_at(&lock, &name)? {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    /// Removes what processes have left that were killed.
    fn remove_stale(base: &Path) {
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            let is_one = entry.file_name().to_str().is_some_and(|name| name.starts_with(FOLDERS));
            let is_ours = || {
                let about = fs::symlink_metadata(entry.path());
                about.is_ok_and(|about| about.is_dir() && platform::is_only_ours(&about))
            };
            if !is_one || !is_ours() {
                continue;
            }
            let held = File::open(entry.path().join(LOCK));
            if held.is_ok_and(|held| held.try_lock().is_ok()) {
                _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Upstream {
    /// What a child that is about to start is given; none if it is given nothing.
    pub(super) async fn inject(&self) -> Result<Option<InjectedToken>, Failure> {
        let Some(how) = &self.server.details.inject else { return Ok(None) };
        let (token, until) = self.token().await?;
        let secret = Secret::new(&*token);
        let (variable, value, file) = match how {
            TokenInjection::Env(name) => (name.clone(), token, None),
            TokenInjection::File(name) => {
                let file = new_file(&self.server.details.environment)
                    .and_then(|file| write(&file.path, &token).map(|()| file));
                let file = file.map_err(|error| {
                    let (problem, source) = (StartProblem::Other, FailureSource::new(error));
                    Failure::NotStarted { problem, source }
                })?;
                (name.clone(), file.path.display().to_string(), Some(file))
            }
        };
        Ok(Some(InjectedToken { variable, value, token: secret, file, until }))
    }

    async fn token(&self) -> Result<(String, Option<Instant>), Failure> {
        // What an earlier child was given may be over.
        self.credentials.lock().await.take();
        let (headers, _) = self.credentials(None).await?.unwrap_or_default();
        let until = self.credentials.lock().await.as_ref().and_then(|(_, _, until)| *until);
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = shown.and_then(|shown| shown.split_once(' ')).map(|(_, token)| token);
        let none = || AuthError::NoPerson("there is no token for this command".to_owned());
        let token = token.ok_or_else(|| Failure::NotSignedIn { why: Arc::new(none()) })?;
        Ok((token.to_owned(), until))
    }

    /// Renews the token of a running child in time; ends the child where that cannot be.
    /// What the child prints of the newer tokens is `hidden` too.
    pub(super) async fn keep_token(
        self: &Arc<Self>,
        injected: Option<&InjectedToken>,
        hidden: &HiddenWords,
    ) {
        let Some(InjectedToken { file, until: Some(until), variable, .. }) = injected else {
            return pending().await;
        };
        let mut until = Some(*until);
        while let Some(at) = until {
            tokio::time::sleep_until(at.into()).await;
            let Some(file) = file else { break };
            until = match self.token().await {
                Ok((token, next)) => {
                    hidden.add(variable, &token);
                    if let Err(error) = write(&file.path, &token) {
                        tracing::warn!(server = self.name, "its token cannot be written: {error}");
                    }
                    next.map(|next| next.max(now() + Duration::from_secs(1)))
                }
                Err(_) => Some(now() + AGAIN),
            };
        }
        if file.is_some() {
            return pending().await;
        }
        // Clients that listen may do so for ever.
        while !self.rest_from_listens() {
            self.until(|it| !it.is_called()).await;
            tokio::task::yield_now().await;
        }
        // The pipe is told to end.
        pending::<()>().await;
    }
}

/// A file of our own, which nobody can guess.
fn new_file(environment: &[(OsString, OsString)]) -> io::Result<TokenFile> {
    let set = |name: &str| environment.iter().find(|(it, _)| it == name).map(|(_, value)| value);
    let folder = ["XDG_RUNTIME_DIR", "TMPDIR", "TEMP"].into_iter().find_map(set);
    let folder = folder.map(PathBuf::from).filter(|folder| folder.is_dir());
    let folder = folder.unwrap_or_else(|| PathBuf::from("/tmp"));
    let folder = TokenFolder::open(&folder)?;
    Ok(TokenFile { path: folder.path.join(random_name()?), _folder: folder })
}

fn random_name() -> io::Result<String> {
    let mut chance = [0_u8; 16];
    getrandom::fill(&mut chance).map_err(io::Error::other)?;
    Ok(format!("{:032x}", u128::from_be_bytes(chance)))
}

/// Writes beside and renames: whoever reads it finds the old token or the new one.
fn write(path: &Path, token: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    _ = fs::remove_file(&beside);
    let mut file = platform::private_file().write(true).create_new(true).open(&beside)?;
    file.write_all(token.as_bytes())?;
    drop(file);
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_has_left_is_removed() {
        // wire: OU-13
        let base = std::env::temp_dir().join(format!("inject-{}", random_name().unwrap()));
        platform::make_private_folder(&base).unwrap();
        let alive = TokenFolder::make(&base).unwrap();
        let dead = base.join(format!("{FOLDERS}dead"));
        platform::make_private_folder(&dead).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        fs::write(dead.join("token"), "secret").unwrap();
        TokenFolder::remove_stale(&base);
        assert!(!dead.exists() && alive.path.exists());
        let path = alive.path.clone();
        drop(alive);
        assert!(!path.exists(), "nothing is left");
        fs::remove_dir(&base).unwrap();
    }

    #[test]
    fn the_log_of_a_child_does_not_show_its_token() {
        // wire: OU-13
        let injected = InjectedToken {
            variable: "TOKEN".to_owned(),
            value: "/path".to_owned(),
            token: Secret::new("s3cret"),
            file: None,
            until: None,
        };
        let command = injected.give_to(Command::new("x"));
        assert_eq!(command.env, [("TOKEN".to_owned(), "/path".to_owned())]);
        assert_eq!(command.secrets, [("TOKEN".to_owned(), "s3cret".to_owned())]);
    }
}
