//! Reads files of headers, and runs the command that prints some.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use switchboard_net::platform;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::Credentials;

#[cfg(test)]
mod tests;

/// Bytes of headers: servers take less.
const MAX: u64 = 64 << 10;
/// How long the command may take, as in Claude Code.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there are no credentials. Says where, never what was there.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A line is not `Name: value`.
    #[error("line {line} of {} is no header", file.display())]
    BadLine { file: PathBuf, line: usize },
    /// The command failed.
    #[error("{program} ended with {status}")]
    Failed { program: String, status: ExitStatus },
    /// The command printed something else.
    #[error("{program} printed no JSON object of headers")]
    NotHeaders { program: String },
    /// The command cannot be run.
    #[error("cannot run {program}")]
    NotRun { program: String, source: std::io::Error },
    /// The command took too long.
    #[error("{program} printed nothing within {} s", PATIENCE.as_secs())]
    TimedOut { program: String },
    /// The file cannot be read, or is no text.
    #[error("cannot read {}", file.display())]
    Unreadable { file: PathBuf, source: std::io::Error },
}

impl Credentials {
    /// Headers of the files and of the command, in order: what [`Credentials::merge`]
    /// wants. `environment` is what the command sees.
    pub async fn fetch(
        &self,
        environment: &[(OsString, OsString)],
    ) -> Result<Vec<HeaderMap>, FetchError> {
        let mut fetched = Vec::new();
        for file in &self.files {
            fetched.push(read(file).await?);
        }
        if let Some([program, args @ ..]) = self.command.as_deref() {
            fetched.push(run(program, args, environment).await?);
        }
        Ok(fetched)
    }
}

async fn read(file: &Path) -> Result<HeaderMap, FetchError> {
    let unreadable = |source| FetchError::Unreadable { file: file.to_owned(), source };
    let opened = tokio::fs::File::open(file).await.map_err(unreadable)?;
    let text = text(opened).await.map_err(unreadable)?;
    let mut headers = HeaderMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let header = line.split_once(':').and_then(|(name, value)| header(name, value));
        let bad = || FetchError::BadLine { file: file.to_owned(), line: number + 1 };
        let (name, value) = header.ok_or_else(bad)?;
        headers.append(name, value);
    }
    Ok(headers)
}

async fn run(
    program: &str,
    args: &[String],
    environment: &[(OsString, OsString)],
) -> Result<HeaderMap, FetchError> {
    let named = || program.to_owned();
    let not_run = |source| FetchError::NotRun { program: named(), source };
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(environment.iter().cloned()).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    platform::lead_own_group(&mut command);
    let mut group = Group { child: command.spawn().map_err(not_run)? };
    let ended = timeout(PATIENCE, output(&mut group.child)).await;
    let ended = ended.map_err(|_| FetchError::TimedOut { program: named() })?;
    let (text, status) = ended.map_err(not_run)?;
    if !status.success() {
        return Err(FetchError::Failed { program: named(), status });
    }
    parse(&text).ok_or_else(|| FetchError::NotHeaders { program: named() })
}

/// All that a child prints, and how it ended.
async fn output(child: &mut Child) -> std::io::Result<(String, ExitStatus)> {
    let text = match child.stdout.take() {
        Some(stdout) => text(stdout).await?,
        None => String::new(),
    };
    Ok((text, child.wait().await?))
}

/// A whole text that is not too long.
async fn text(from: impl AsyncRead + Unpin) -> std::io::Result<String> {
    let mut text = String::new();
    from.take(MAX + 1).read_to_string(&mut text).await?;
    if text.len() as u64 > MAX {
        return Err(std::io::Error::other(format!("longer than {MAX} bytes")));
    }
    Ok(text)
}

fn parse(text: &str) -> Option<HeaderMap> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).ok()?;
    let headers = object.iter().map(|(name, value)| header(name, value.as_str()?));
    headers.collect()
}

/// A header that no log shows.
fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}

/// A child and all that it started: none of it is left when this is dropped.
struct Group {
    child: Child,
}

impl Drop for Group {
    fn drop(&mut self) {
        // Over, and waited for: its number may be another's.
        let Some(id) = self.child.id() else { return };
        platform::kill_led_group(id);
    }
}
