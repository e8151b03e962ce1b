//! `switchboard status`: how a running gateway stands.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use switchboard_net::http::fetch::Fetch;
use tokio::time::timeout;

use super::client::{interrupted, other, until, usage};
use crate::args::StatusArgs;
use crate::exit::{CommandError, ExitStatus};
use crate::output::{cell, plain, table, write_line};
use crate::signal::Stop;
use crate::{header, target};

mod session;

/// How long a gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that an answer may have: far more than a thousand servers take.
const MOST: usize = 16 << 20;

/// Erases the screen, and goes to its upper left corner.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Shows it once, or until a signal.
pub(crate) async fn run(args: &StatusArgs) -> Result<(), CommandError> {
    let stop = Stop::on_signals().map_err(|error| other(&CommandError::of(&error).to_string()))?;
    let gateway = Gateway::of(args).map_err(usage)?;
    let showing = async {
        show(args, &gateway.ask().await?);
        while let Some(seconds) = args.watch {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            match gateway.ask().await {
                Ok(status) => show(args, &status),
                // It may come back.
                Err(failure) => failure.report(),
            }
        }
        Ok(())
    };
    until(&stop, Box::pin(showing)).await.unwrap_or_else(|| Err(interrupted()))
}

/// Where a gateway is, and what to show there.
struct Gateway {
    url: Uri,
    key: Option<HeaderValue>,
    fetch: Fetch,
}

impl Gateway {
    fn of(args: &StatusArgs) -> Result<Self, CommandError> {
        let variable = |name: &str| std::env::var(name).ok();
        let key = match &args.key {
            Some(key) => Some(header::filled(key, variable)?),
            None => variable("SWITCHBOARD_KEY").filter(|key| !key.is_empty()),
        };
        let key = key.map(|key| {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
                .map_err(|_| CommandError::new("the key has characters that no header may have"))?;
            value.set_sensitive(true);
            Ok::<_, CommandError>(value)
        });
        Ok(Self { url: page(&args.url)?, key: key.transpose()?, fetch: target::fetch_as_usual()? })
    }

    async fn ask(&self) -> Result<Value, CommandError> {
        let mut request = Request::new(Bytes::new());
        request.uri_mut().clone_from(&self.url);
        if let Some(key) = &self.key {
            request.headers_mut().insert(AUTHORIZATION, key.clone());
        }
        let unreachable = |failure: CommandError| {
            let hint = "is it running? start it with: switchboard serve";
            failure.hint(hint).for_scripts(ExitStatus::Unreachable, "unreachable")
        };
        let asked = timeout(PATIENCE, async {
            let response =
                self.fetch.send(request).await.map_err(|error| CommandError::of(&error))?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), MOST).collect().await;
            let body = body.map_err(|error| CommandError::new(error.to_string()))?;
            Ok::<_, CommandError>((status, body.to_bytes()))
        });
        let asked =
            asked.await.unwrap_or_else(|_| Err(CommandError::new("the gateway does not answer")));
        match asked.map_err(unreachable)? {
            (401 | 403, _) => Err(CommandError::new("the gateway does not let us in")
                .hint("show a key: --key '${KEY}', or SWITCHBOARD_KEY in the environment")
                .for_scripts(ExitStatus::Auth, "auth")),
            (200, body) => {
                let status: Option<Value> = serde_json::from_slice(&body).ok();
                status.filter(|status| status["servers"].is_object()).ok_or_else(no_gateway)
            }
            _ => Err(no_gateway()),
        }
    }
}

fn no_gateway() -> CommandError {
    CommandError::new("what answers there is no gateway")
        .hint("give the address that switchboard serve printed when it started")
        .for_scripts(ExitStatus::Failure, "other")
}

/// The page of the gateway at `text`, which may also name one of its endpoints.
fn page(text: &str) -> Result<Uri, CommandError> {
    let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = full.parse::<Uri>().ok();
    let url = url.filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
    let url = url.filter(|url| url.authority().is_some_and(|it| !it.as_str().contains('@')));
    let parsed = url.and_then(|url| {
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix("/mcp").or(path.strip_suffix("/status")).unwrap_or(path);
        let place = format!("{}://{}{path}/status", url.scheme_str()?, url.authority()?);
        place.parse().ok()
    });
    parsed.ok_or_else(|| {
        CommandError::new("the gateway's URL is none").hint("write it like http://127.0.0.1:3001")
    })
}

fn show(args: &StatusArgs, status: &Value) {
    match (args.json, args.watch) {
        (true, Some(_)) => write_line(&status.to_string()),
        (true, None) => write_line(&serde_json::to_string_pretty(status).unwrap_or_default()),
        (false, None) => write_line(&text(status)),
        (false, Some(_)) => {
            let mut stdout = std::io::stdout();
            if stdout.is_terminal() {
                // Whoever closed stdout has seen enough.
                _ = stdout.write_all(CLEAR.as_bytes());
            }
            write_line(&format!("{}\n ", text(status)));
        }
    }
}

const HEAD: [&str; 8] =
    ["SERVER", "STATE", "ERA", "TRANSPORT", "TOOLS", "CALLS", "CHILDREN", "RESTARTS"];

/// For people.
fn text(status: &Value) -> String {
    let servers = status["servers"].as_object().into_iter().flatten();
    let rows: Vec<_> = servers
        .map(|(name, server)| {
            let number = |key: &str| server[key].as_u64().map_or("-".to_owned(), |n| n.to_string());
            let word = |key: &str| server[key].as_str().map_or("-".to_owned(), plain);
            let state = match server["error"].as_str() {
                Some(error) => format!("{} ({})", word("state"), plain(error)),
                None => word("state"),
            };
            let numbers = ["tools", "calls", "children", "restarts"].map(number);
            let words = [cell(&name.as_str().into()), state, word("era"), word("transport")];
            words.into_iter().chain(numbers).collect()
        })
        .collect();
    let servers = table(&HEAD, &rows, "no servers");
    let parts = [Some(servers), session::rows(status), Some(session::summary(status))];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_gateway_is_found_by_its_address_or_by_one_of_its_endpoints() {
        for (said, asked) in [
            ("http://127.0.0.1:3001", "http://127.0.0.1:3001/status"),
            ("127.0.0.1:3001/", "http://127.0.0.1:3001/status"),
            ("http://127.0.0.1:3001/mcp", "http://127.0.0.1:3001/status"),
            ("https://a.example/x/status", "https://a.example/x/status"),
        ] {
            assert_eq!(page(said).unwrap(), asked, "{said}");
        }
        for wrong in ["ftp://a", "http://me:s3cret@a", "http://", "a b"] {
            assert!(!page(wrong).unwrap_err().to_string().contains("s3cret"), "{wrong}");
        }
    }

    #[test]
    fn servers_are_rows_and_without_sessions_a_line_follows() {
        let status = json!({
            "version": "1.2.3",
            "uptimeSeconds": 61,
            "servers": {
                "a": {"state": "ready", "era": "modern", "transport": "stdio", "tools": 3,
                    "calls": 0, "children": 1, "restarts": 0},
                "b\u{1b}": {"state": "failed", "error": "timeout", "transport": "http"},
            },
            "sessions": {"count": 0, "streams": 1, "parked": 0, "principals": {}, "list": []},
        });
        let expected = "\
SERVER  STATE             ERA     TRANSPORT  TOOLS  CALLS  CHILDREN  RESTARTS
a       ready             modern  stdio      3      0      1         0
b       failed (timeout)  -       http       -      -      -         -

0 sessions, 0 listens, 1 stream, 0 parked calls; up 1 min 1 s, version 1.2.3";
        assert_eq!(text(&status), expected);
    }
}
