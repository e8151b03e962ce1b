//! `switchboard status`: the servers and sessions of a running gateway.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use switchboard_net::http::fetch::{Fetch, ServerTls};
use switchboard_proto::failure::down_text;
use tokio::time::timeout;

use super::client::{interrupted, other, until, usage};
use crate::args::{NetworkArgs, StatusArgs};
use crate::exit::{CommandError, CommandResult, ExitStatus};
use crate::output::{cell, counted, plain, table, write_line};
use crate::signal::StopSignal;
use crate::{header, target};

/// How long a gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that an answer may have: far more than a thousand servers take.
const MOST: usize = 16 << 20;

/// Erases the screen, and goes to its upper left corner.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Shows it once, or until a signal.
pub(crate) async fn run(args: &StatusArgs) -> CommandResult {
    let stop = StopSignal::on_signals().map_err(other)?;
    let gateway = StatusPage::new(args).map_err(usage)?;
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

/// How a gateway is asked, with the key that it wants.
struct StatusPage {
    request: Request<Bytes>,
    fetch: Fetch,
}

impl StatusPage {
    fn new(args: &StatusArgs) -> CommandResult<Self> {
        let key = match &args.key {
            Some(key) => Some(header::filled(key)?),
            None => target::variable("SWITCHBOARD_KEY").filter(|key| !key.is_empty()),
        };
        let mut request = Request::new(Bytes::new());
        if let Some(key) = key {
            let bad = |_| CommandError::new("the key has characters that no header may have");
            let mut key = HeaderValue::from_str(&format!("Bearer {key}")).map_err(bad)?;
            key.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, key);
        }
        *request.uri_mut() = page(&args.url)?;
        let fetch = target::fetch(&NetworkArgs::default())?;
        let fetch = target::with_tls(&fetch, request.uri(), ServerTls::default(), &args.tls)?;
        Ok(Self { request, fetch })
    }

    async fn ask(&self) -> CommandResult<Value> {
        let unreachable = |failure: CommandError| {
            let hint = "is it running? start it with: switchboard serve";
            failure.hint(hint).for_scripts(ExitStatus::Unreachable, "unreachable")
        };
        let asked = timeout(PATIENCE, async {
            let response = self.fetch.send(self.request.clone()).await?;
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
fn page(text: &str) -> CommandResult<Uri> {
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
                // A reader that closed stdout wants no more.
                _ = stdout.write_all(CLEAR.as_bytes());
            }
            write_line(&format!("{}\n ", text(status)));
        }
    }
}

const HEAD: &str =
    "SERVER  STATE  PROTOCOL  TRANSPORT  TOOLS  ALL CALLS  OPEN CALLS  PROCESSES  RESTARTS";

/// For people.
fn text(status: &Value) -> String {
    let servers = || status["servers"].as_object().into_iter().flatten();
    let rows: Vec<_> = servers()
        .map(|(name, server)| {
            let words = [cell(&name.as_str().into()), shown(&server["state"]), protocol(server)];
            let members = ["transport", "tools", "callsTotal", "calls", "children", "restarts"];
            words.into_iter().chain(members.map(|key| shown(&server[key]))).collect()
        })
        .collect();
    let table = table(HEAD, &rows, "no servers");
    let down: Vec<_> = servers().filter_map(|(name, server)| down(name, server)).collect();
    let down = (!down.is_empty()).then(|| down.join("\n"));
    let insecure: Vec<_> = servers().filter_map(|(name, server)| insecure(name, server)).collect();
    let insecure = (!insecure.is_empty()).then(|| insecure.join("\n"));
    let parts = [
        Some(table),
        down,
        insecure,
        mistakes(status),
        session_rows(status),
        Some(session_summary(status)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

/// The revision of the protocol that is spoken; an older gateway tells only the era.
fn protocol(of: &Value) -> String {
    let revision = Some(&of["revision"]).filter(|revision| revision.is_string());
    shown(revision.unwrap_or(&of["era"]))
}

/// Why a server is down, and when it is tried again.
fn down(name: &str, server: &Value) -> Option<String> {
    let why = plain(server["error"].as_str()?);
    let next = server["nextAttemptMs"].as_u64().map(Duration::from_millis);
    Some(format!("{} {}", plain(name), down_text(&why, next)))
}

/// That anybody could be in the place of a server.
fn insecure(name: &str, server: &Value) -> Option<String> {
    let is_so = server["insecure"] == true;
    let what = "its certificate is not verified (\"insecure\"): trust it by \"caFile\" instead";
    is_so.then(|| format!("WARNING: {}: {what}", plain(name)))
}

/// What is wrong with the files of the gateway, if something is.
fn mistakes(status: &Value) -> Option<String> {
    let config = &status["config"];
    let problems = counted(count(&config["problems"]), "mistake");
    let find = "to see where: switchboard serve --check --config FILE";
    match (count(&config["problems"]), &config["isCurrent"]) {
        (0, _) => None,
        (_, Value::Bool(false)) => {
            let loaded = cell(&config["loaded"]);
            Some(format!(
                "the configuration has changed and has {problems}: the one of {loaded} stays in force; {find}"
            ))
        }
        _ => Some(format!(
            "the configuration has {problems}: the servers with mistakes are left out; {find}"
        )),
    }
}

/// A word or a number; a dash if there is none.
fn shown(value: &Value) -> String {
    match value.as_u64().map_or_else(|| cell(value), |number| number.to_string()) {
        none if none.is_empty() => "-".to_owned(),
        word => word,
    }
}

/// Sessions in the table: with some servers above they fit a screen.
const MOST_SESSIONS: usize = 20;

const SESSION_HEAD: &str =
    "SESSION  USER  CLIENT  PROTOCOL  TRANSPORT  PATH  AGE  IDLE  OPEN CALLS  STREAMS";

fn count(of: &Value) -> usize {
    usize::try_from(of.as_u64().unwrap_or_default()).unwrap_or(usize::MAX)
}

/// A table of the first sessions; none if there are no sessions.
fn session_rows(status: &Value) -> Option<String> {
    let sessions = &status["sessions"];
    let list = sessions["list"].as_array().filter(|list| !list.is_empty())?;
    let rows: Vec<_> = list.iter().take(MOST_SESSIONS).map(session_row).collect();
    let text = table(SESSION_HEAD, &rows, "");
    // What the gateway leaves out of its list is more, too.
    let all = count(&sessions["count"]) + count(&sessions["listens"]);
    let more = all.max(list.len()).saturating_sub(rows.len());
    Some(if more > 0 { format!("{text}\nand {more} more") } else { text })
}

fn session_row(session: &Value) -> Vec<String> {
    let show = |key: &str| shown(&session[key]);
    let time = |key: &str| session[key].as_u64().map_or("-".to_owned(), elapsed);
    let client = match cell(&session["version"]) {
        version if version.is_empty() => show("client"),
        version => format!("{} {version}", show("client")),
    };
    [show("session"), show("principal"), client, protocol(session)]
        .into_iter()
        .chain(["transport", "path"].map(show))
        .chain(["ageSeconds", "idleSeconds"].map(time))
        .chain(["calls", "streams"].map(show))
        .collect()
}

/// How many there are, and whose.
fn session_summary(status: &Value) -> String {
    let sessions = &status["sessions"];
    let counted = |key: &str, noun: &str| counted(count(&sessions[key]), noun);
    let mut text = counted("count", "session");
    let principals = sessions["principals"].as_object().into_iter().flatten();
    let principals: Vec<_> =
        principals.map(|(who, count)| format!("{} {count}", plain(who))).collect();
    if !principals.is_empty() {
        text = format!("{text} ({})", principals.join(", "));
    }
    let listens = counted("listens", "listen");
    let (streams, parked) = (counted("streams", "stream"), counted("parked", "parked call"));
    let up = elapsed(status["uptimeSeconds"].as_u64().unwrap_or_default());
    let version = cell(&status["version"]);
    format!("{text}, {listens}, {streams}, {parked}; up {up}, version {version}")
}

/// `3 d 4 h`, `5 min 6 s`.
fn elapsed(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
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
                "a": {"state": "ready", "era": "modern", "revision": "r", "transport": "stdio",
                    "tools": 3, "calls": 1, "callsTotal": 7, "children": 1, "restarts": 0},
                "b\u{1b}": {"state": "failed", "error": "timeout", "transport": "http",
                    "nextAttemptMs": 39_100},
            },
            "config": {"problems": 0},
            "sessions": {"count": 0, "streams": 1, "parked": 0, "principals": {}, "list": []},
        });
        let expected = "\
SERVER  STATE   PROTOCOL  TRANSPORT  TOOLS  ALL CALLS  OPEN CALLS  PROCESSES  RESTARTS
a       ready   r         stdio      3      7          1           1          0
b       failed  -         http       -      -          -           -          -

b is down (timeout); next try in 40 s

0 sessions, 0 listens, 1 stream, 0 parked calls; up 1 min 1 s, version 1.2.3";
        assert_eq!(text(&status), expected);
    }

    #[test]
    fn mistakes_in_the_files_are_told() {
        let told = |config: Value| mistakes(&json!({ "config": config })).unwrap_or_default();
        assert_eq!(told(json!({"problems": 0})), "");
        let start = told(json!({"problems": 2, "isCurrent": true}));
        assert!(start.contains("2 mistakes: the servers with mistakes are left out"), "{start}");
        let edited = told(json!({"problems": 1, "isCurrent": false, "loaded": "then"}));
        assert!(
            edited.contains("has changed and has 1 mistake: the one of then stays"),
            "{edited}"
        );
    }

    fn status(count: usize, listed: usize) -> Value {
        let one = json!({
            "session": "ab12cd", "principal": "ada", "client": "c\u{1b}", "version": "1.0",
            "era": "legacy", "revision": "r", "transport": "http", "path": "/mcp",
            "ageSeconds": 3700, "idleSeconds": 5, "calls": 2, "streams": 1,
        });
        let list = vec![one; listed];
        json!({"version": "1.2.3", "uptimeSeconds": 61, "sessions": {"count": count,
            "listens": 1, "streams": 1, "parked": 0, "principals": {"ada": count}, "list": list}})
    }

    #[test]
    fn a_session_is_a_row_and_all_are_a_line() {
        let expected = "\
SESSION  USER  CLIENT  PROTOCOL  TRANSPORT  PATH  AGE        IDLE  OPEN CALLS  STREAMS
ab12cd   ada   c 1.0   r         http       /mcp  1 h 1 min  5 s   2           1";
        assert_eq!(session_rows(&status(0, 1)).unwrap(), expected);
        let line =
            "2 sessions (ada 2), 1 listen, 1 stream, 0 parked calls; up 1 min 1 s, version 1.2.3";
        assert_eq!(session_summary(&status(2, 1)), line);
        assert_eq!([5, 3700, 90_000].map(elapsed), ["5 s", "1 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn those_beyond_the_table_are_counted_listed_or_not() {
        for (count, listed, more) in [(19, 20, None), (20, 21, Some(1)), (999, 200, Some(980))] {
            let text = session_rows(&status(count, listed)).unwrap();
            let last = text.lines().last().unwrap();
            assert_eq!(last.strip_prefix("and "), more.map(|n| format!("{n} more")).as_deref());
            assert_eq!(text.lines().count(), 1 + MOST_SESSIONS + usize::from(more.is_some()));
        }
        assert_eq!(session_rows(&status(0, 0)), None);
    }

    #[test]
    fn an_older_gateway_has_no_list() {
        assert_eq!(session_rows(&json!({"sessions": {"count": 3}})), None);
        assert!(session_rows(&json!({"sessions": {"list": [{}]}})).unwrap().contains('-'));
    }
}
