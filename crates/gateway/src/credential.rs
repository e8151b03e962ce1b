//! What is sent to a server beyond the headers that its file spells out: headers of the
//! client, of header files, and of a command that prints them.

use std::error::Error as _;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use switchboard_net::platform;
use switchboard_net::upstream::{
    Credential, CredentialRefusal, CredentialUser, Fetching, IdentityDigest, NoCredential,
};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// What is sent along beyond the headers that the file spells out.
///
/// Later ones replace earlier ones, and nothing replaces the protocol's own:
/// headers of the client that are passed on, headers of the file, of header
/// files, of the command. The client's `Authorization` is never among them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Credentials {
    /// Headers of the client's request to pass on.
    pub pass: Vec<HeaderName>,
    /// Files with a `Name: value` on each line, read at each connection.
    pub files: Vec<PathBuf>,
    /// A program that prints a JSON object of headers, run at each connection:
    /// itself and its arguments.
    pub command: Option<Vec<String>>,
}

impl Credentials {
    /// Whether all that is ever sent is in the file.
    pub fn is_static(&self) -> bool {
        *self == Self::default()
    }

    /// What a request carries: `client` is what our client sent, `configured` what
    /// the file spells out, `fetched` what the files and the command gave, in order.
    pub fn merge<'h>(
        &self,
        client: &HeaderMap,
        configured: &HeaderMap,
        fetched: impl IntoIterator<Item = &'h HeaderMap>,
    ) -> HeaderMap {
        let mut merged = HeaderMap::new();
        for name in self.pass.iter().filter(|name| may_pass(name)) {
            for value in client.get_all(name) {
                merged.append(name, value.clone());
            }
        }
        // What comes later takes the place of what has the same name.
        merged.extend(configured.clone());
        for headers in fetched {
            merged.extend(headers.clone());
        }
        merged
    }
}

/// Whether a client's header may go on to a server. What shows who the client is
/// to us must not show up elsewhere, and how a message travels is ours to say.
pub fn may_pass(name: &HeaderName) -> bool {
    const NEVER: &str = "accept authorization connection content-encoding content-length \
        content-type cookie host last-event-id origin proxy-authorization te transfer-encoding \
        upgrade x-api-key";
    let name = name.as_str();
    !NEVER.split(' ').any(|never| never == name) && !name.starts_with("mcp-")
}

/// Bytes of headers: servers take less.
const MAX_HEADERS: u64 = 64 << 10;
/// How long the command may take, as in Claude Code.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there are no credentials. Says where, never what was there.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
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
    #[error("{program} printed nothing within {} s", COMMAND_TIMEOUT.as_secs())]
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
    ) -> Result<Vec<HeaderMap>, CredentialError> {
        let mut fetched = Vec::new();
        for file in &self.files {
            fetched.push(read_header_file(file).await?);
        }
        if let Some([program, args @ ..]) = self.command.as_deref() {
            fetched.push(run_header_command(program, args, environment).await?);
        }
        Ok(fetched)
    }
}

async fn read_header_file(file: &Path) -> Result<HeaderMap, CredentialError> {
    let unreadable = |source| CredentialError::Unreadable { file: file.to_owned(), source };
    let opened = tokio::fs::File::open(file).await.map_err(unreadable)?;
    let read_text = read_text(opened).await.map_err(unreadable)?;
    let mut headers = HeaderMap::new();
    for (number, line) in read_text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let sensitive_header =
            line.split_once(':').and_then(|(name, value)| sensitive_header(name, value));
        let bad = || CredentialError::BadLine { file: file.to_owned(), line: number + 1 };
        let (name, value) = sensitive_header.ok_or_else(bad)?;
        headers.append(name, value);
    }
    Ok(headers)
}

async fn run_header_command(
    program: &str,
    args: &[String],
    environment: &[(OsString, OsString)],
) -> Result<HeaderMap, CredentialError> {
    let named = || program.to_owned();
    let not_run = |source| CredentialError::NotRun { program: named(), source };
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(environment.iter().cloned()).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    platform::lead_own_group(&mut command);
    let mut group = ProcessGroup { child: command.spawn().map_err(not_run)? };
    let ended = timeout(COMMAND_TIMEOUT, command_output(&mut group.child)).await;
    let ended = ended.map_err(|_| CredentialError::TimedOut { program: named() })?;
    let (read_text, status) = ended.map_err(not_run)?;
    if !status.success() {
        return Err(CredentialError::Failed { program: named(), status });
    }
    parse_headers(&read_text).ok_or_else(|| CredentialError::NotHeaders { program: named() })
}

/// All that a child prints, and how it ended.
async fn command_output(child: &mut Child) -> std::io::Result<(String, ExitStatus)> {
    let read_text = match child.stdout.take() {
        Some(stdout) => read_text(stdout).await?,
        None => String::new(),
    };
    Ok((read_text, child.wait().await?))
}

/// A whole text that is not too long.
async fn read_text(from: impl AsyncRead + Unpin) -> std::io::Result<String> {
    let mut read_text = String::new();
    from.take(MAX_HEADERS + 1).read_to_string(&mut read_text).await?;
    if read_text.len() as u64 > MAX_HEADERS {
        return Err(std::io::Error::other(format!("longer than {MAX_HEADERS} bytes")));
    }
    Ok(read_text)
}

fn parse_headers(read_text: &str) -> Option<HeaderMap> {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(read_text).ok()?;
    let headers = object.iter().map(|(name, value)| sensitive_header(name, value.as_str()?));
    headers.collect()
}

/// A header that no log shows.
fn sensitive_header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}

/// A child and all that it started: none of it is left when this is dropped.
struct ProcessGroup {
    child: Child,
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Over, and waited for: its number may be another's.
        let Some(id) = self.child.id() else { return };
        platform::kill_led_group(id);
    }
}

/// What one server is shown: files and commands are read whenever it is asked for.
pub(crate) struct CredentialSource {
    pub(crate) credentials: Credentials,
    /// What the file spells out.
    pub(crate) headers: HeaderMap,
    /// What the command sees.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl Credential for CredentialSource {
    fn passes(&self) -> &[HeaderName] {
        &self.credentials.pass
    }

    fn digest(&self, user: CredentialUser<'_>, digest: &mut IdentityDigest) {
        // What the files and the command give may change, and is still one account.
        digest.add(format!("{:?}", self.credentials));
        digest.add_headers(&self.credentials.merge(user.headers, &self.headers, []));
    }

    fn headers<'c>(
        &'c self,
        user: CredentialUser<'c>,
        refusal: Option<&'c CredentialRefusal>,
    ) -> Fetching<'c> {
        Box::pin(async move {
            // There may be other ones by now, and that is found out once.
            if refusal.is_some_and(|it| it.attempt > 0 || it.status != StatusCode::UNAUTHORIZED) {
                return Ok(None);
            }
            let fetched = self.credentials.fetch(&self.environment).await.map_err(|error| {
                let why = error.source().map(|why| format!(": {why}")).unwrap_or_default();
                NoCredential::Unavailable(format!("{error}{why}"))
            })?;
            Ok(Some(self.credentials.merge(user.headers, &self.headers, &fetched).into()))
        })
    }
}

/// The headers of a file, which never change.
pub(crate) struct FixedHeaders(pub(crate) HeaderMap);

impl Credential for FixedHeaders {
    fn passes(&self) -> &[HeaderName] {
        &[]
    }

    fn digest(&self, _: CredentialUser<'_>, digest: &mut IdentityDigest) {
        digest.add_headers(&self.0);
    }

    fn headers<'c>(
        &'c self,
        _: CredentialUser<'c>,
        refusal: Option<&'c CredentialRefusal>,
    ) -> Fetching<'c> {
        let found = refusal.is_none().then(|| self.0.clone().into());
        Box::pin(std::future::ready(Ok(found)))
    }
}

#[cfg(test)]
mod tests;
