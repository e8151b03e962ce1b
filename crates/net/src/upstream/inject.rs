//! The access token of a child process: in a variable of its environment, or in a file that a
//! variable names (OU-13).
//!
//! A file is written again whenever the token is renewed. A variable cannot change, so a child
//! that has one is ended before its token is, as soon as no client waits for an answer; the
//! next call starts another.

use std::ffi::OsString;
use std::fs;
use std::future::pending;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use switchboard_proto::auth::AuthError;
use switchboard_proto::failure::{Failure, FailureSource};

use super::Upstream;
use crate::connection::now;
use crate::platform;

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
    file: Option<PathBuf>,
    /// When it has to be renewed.
    until: Option<Instant>,
}

impl InjectedToken {
    /// The variable of the child, and its value.
    pub(super) fn variable(&self) -> (&str, &str) {
        (&self.variable, &self.value)
    }
}

impl Drop for InjectedToken {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // It may be gone with its folder.
            _ = fs::remove_file(file);
        }
    }
}

impl Upstream {
    /// What a child that is about to start is given; none if it is given nothing.
    pub(super) async fn inject(&self) -> Result<Option<InjectedToken>, Failure> {
        let Some(how) = &self.server.details.inject else { return Ok(None) };
        let (token, until) = self.token().await?;
        let (variable, value, file) = match how {
            TokenInjection::Env(name) => (name.clone(), token, None),
            TokenInjection::File(name) => {
                let path = new_path(&self.server.details.environment)
                    .and_then(|path| write(&path, &token).map(|()| path));
                let path = path
                    .map_err(|error| Failure::NotStarted { source: FailureSource::new(error) })?;
                (name.clone(), path.display().to_string(), Some(path))
            }
        };
        Ok(Some(InjectedToken { variable, value, file, until }))
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
    pub(super) async fn keep_token(self: &Arc<Self>, injected: Option<&InjectedToken>) {
        let Some(InjectedToken { file, until: Some(until), .. }) = injected else {
            return pending().await;
        };
        let mut until = Some(*until);
        while let Some(at) = until {
            tokio::time::sleep_until(at.into()).await;
            let Some(file) = file else { break };
            until = match self.token().await {
                Ok((token, next)) => {
                    if let Err(error) = write(file, &token) {
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
fn new_path(environment: &[(OsString, OsString)]) -> io::Result<PathBuf> {
    let mut chance = [0_u8; 16];
    getrandom::fill(&mut chance).map_err(io::Error::other)?;
    let name = u128::from_be_bytes(chance);
    let set = |name: &str| environment.iter().find(|(it, _)| it == name).map(|(_, value)| value);
    let folder = ["XDG_RUNTIME_DIR", "TMPDIR", "TEMP"].into_iter().find_map(set);
    let folder = folder.map(PathBuf::from).filter(|folder| folder.is_dir());
    let folder = folder.unwrap_or_else(|| PathBuf::from("/tmp"));
    Ok(folder.join(format!("switchboard-token-{name:032x}")))
}

/// Writes beside and renames: whoever reads it finds the old token or the new one.
fn write(path: &PathBuf, token: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    _ = fs::remove_file(&beside);
    let mut file = platform::private_file().write(true).create_new(true).open(&beside)?;
    file.write_all(token.as_bytes())?;
    drop(file);
    fs::rename(&beside, path)
}
