//! The requests of the page, by path: who may ask, and which part answers.

use std::collections::HashMap;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, IF_NONE_MATCH, SET_COOKIE};
use http::{HeaderValue, Method, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use switchboard_net::http::page::PageVisit;
use switchboard_net::http::site::{ConnectedClient, Site};
use switchboard_proto::moment;

use super::sign_in::{SignedInBy, Viewer, check_origin, moment_at};
use super::{ApiError, ApiResult, Console, json_response, read_body, tagged_json};
use crate::config::ConsoleMode;
use crate::connect::form_fields;
use crate::status;
use crate::stderr_logs::{MAX_LINES, StderrLine};

/// Sessions in one answer.
const MAX_SESSIONS: usize = 200;

impl Console {
    /// Answers a request below `/console/api/`.
    pub(super) async fn answer_api(
        &self,
        what: &str,
        visit: &PageVisit,
    ) -> ApiResult<Response<Bytes>> {
        let is_read = matches!(visit.method, Method::GET | Method::HEAD);
        check_origin(&visit.headers, !is_read)?;
        if is_read && what == "sign-in" {
            return Ok(json_response(&self.issuers()));
        }
        if (&visit.method, what) == (&Method::POST, "sign-in") {
            if let Some(issuer) = read_body(&visit.body)?["issuer"].as_str() {
                return self.begin_at_issuer(visit, issuer).await;
            }
            let (viewer, cookie) = self.sign_ins.sign_in(visit)?;
            return Ok(with_cookie(&self.me(&viewer), cookie));
        }
        let viewer = self.require_viewer(visit)?;
        let parts: Vec<_> =
            what.split('/').map(|part| percent_decode_str(part).decode_utf8_lossy()).collect();
        let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
        if (&visit.method, &*parts) == (&Method::POST, &["config", "trial"]) {
            return Ok(json_response(&self.try_server(viewer, visit).await?));
        }
        let is_of_file = match parts.first() {
            Some(&"config" | &"found") => true,
            Some(&"keys") => !is_read,
            _ => false,
        };
        if is_of_file {
            let value = self.answer_config(viewer, visit, &parts).await?;
            return Ok(json_response(&value));
        }
        if is_read && *parts == ["accounts"] {
            return Ok(json_response(&self.accounts(&viewer).await?));
        }
        if is_read {
            let query = form_fields(visit.query.as_bytes());
            if *parts == ["calls"] && query.get("format").is_some_and(|it| it == "jsonl") {
                let name = "attachment; filename=\"calls.jsonl\"";
                return Ok(lines_response(self.call_lines(&viewer, &query)?, Some(name)));
            }
            let value = self.read_api(&viewer, &parts, &query)?;
            return Ok(tagged_json(&value, visit.headers.get(IF_NONE_MATCH)));
        }
        match (&visit.method, &*parts) {
            (&Method::POST, ["sign-out"]) => {
                self.sign_ins.end(&visit.headers).await;
                let cookie = self.sign_ins.cookie("", 0);
                Ok(with_cookie(&json!({"did": "signed out"}), cookie))
            }
            (&Method::POST, ["servers", name, "doctor"]) => self.ask_doctor(&viewer, name).await,
            (&Method::POST, ["servers", name, action]) => {
                Ok(json_response(&self.act(&viewer, name, action)?))
            }
            (&Method::POST, ["accounts", server, action]) => {
                Ok(json_response(&self.change_account(&viewer, server, action).await?))
            }
            (&Method::POST, ["capture"]) => {
                Ok(json_response(&self.start_capture(&viewer, &visit.body)?))
            }
            (&Method::POST, ["safety", "approve"]) => {
                Ok(json_response(&self.approve(&viewer, &visit.body).await?))
            }
            (&Method::DELETE, ["capture"]) => Ok(json_response(&self.end_capture(&viewer, None)?)),
            (&Method::DELETE, ["capture", number]) => {
                Ok(json_response(&self.end_capture(&viewer, Some(number))?))
            }
            (&Method::DELETE, ["calls", "open", id]) => {
                Ok(json_response(&self.cancel_call(&viewer, id)?))
            }
            (&Method::DELETE, ["sessions", id]) => {
                Ok(json_response(&self.end_session(&viewer, id)?))
            }
            _ => Err(unknown(&parts)),
        }
    }

    /// Whoever is signed in.
    pub(super) fn require_viewer(&self, visit: &PageVisit) -> ApiResult<Viewer> {
        let missing = || {
            let error = ApiError::new(StatusCode::UNAUTHORIZED, "sign_in", "sign in first");
            error.hint("open the link that serve has printed, or sign in with a key")
        };
        self.sign_ins.viewer(&visit.headers).ok_or_else(missing)
    }

    fn read_api(
        &self,
        viewer: &Viewer,
        parts: &[&str],
        query: &HashMap<String, String>,
    ) -> ApiResult {
        match parts {
            ["me"] => Ok(self.me(viewer)),
            ["overview"] => Ok(self.overview(viewer)),
            ["servers"] => Ok(self.servers(viewer)),
            ["servers", name] => self.server(viewer, name),
            ["servers", name, "stderr"] => self.stderr(viewer, name, query),
            ["calls"] => self.calls(viewer, query),
            ["calls", "open"] => Ok(self.open_calls(viewer)),
            ["calls", id] => self.call(viewer, id),
            ["sessions"] => Ok(self.sessions(viewer)),
            ["capture"] => Ok(self.captures(viewer)),
            ["safety"] => Ok(self.safety(viewer)),
            ["snippets"] => self.snippets(viewer, query),
            ["keys"] => self.keys(viewer),
            // One pair of eyes: a path of thousands would be as deep a recursion.
            ["as", _, "as", ..] => Err(unknown(parts)),
            ["as", name, rest @ ..] => self.read_api(&self.seen_as(viewer, name)?, rest, query),
            ["charts"] => {
                let server = query.get("server").map(String::as_str);
                if let Some(name) = server {
                    self.running(viewer, name)?;
                }
                Ok(self.charts.shown(viewer, self.gateway.fleet(), server))
            }
            _ => Err(unknown(parts)),
        }
    }

    fn me(&self, viewer: &Viewer) -> Value {
        let by = match viewer.by {
            SignedInBy::Link => "link",
            SignedInBy::Key => "key",
            SignedInBy::Issuer => "issuer",
        };
        json!({
            "principal": viewer.who.name(),
            "isWhole": viewer.is_whole(),
            "canWrite": viewer.is_whole() && self.mode() == ConsoleMode::Write,
            "by": by,
            "signedInAt": moment::text(moment_at(viewer.since)),
            "expiresAt": moment::text(moment_at(viewer.until())),
            "version": env!("CARGO_PKG_VERSION"),
            "digest": self.files.digest(),
            "features": self.features(viewer),
        })
    }

    /// What the page can show to somebody.
    fn features(&self, viewer: &Viewer) -> Vec<&'static str> {
        let mut features = vec![
            "overview", "servers", "calls", "sessions", "charts", "feed", "mcp", "open",
            "snippets", "capture", "safety",
        ];
        if viewer.is_whole() && self.gateway.fleet().stderr().is_some() {
            features.push("stderr");
        }
        if viewer.is_whole() && self.config_file.get().is_some() {
            features.extend(["config", "versions", "found"]);
        }
        if viewer.is_whole() {
            features.extend(["keys", "as"]);
        }
        if self.gateway.fleet().connector().is_some() {
            features.push("accounts");
        }
        if self.mode() == ConsoleMode::Write {
            features.extend(["end", "cancel"]);
            features.extend(viewer.is_whole().then_some("actions"));
            features.extend(self.doctor.get().filter(|_| viewer.is_whole()).map(|_| "doctor"));
            let has_file = self.config_file.get().is_some();
            features.extend((viewer.is_whole() && has_file).then_some("trial"));
        }
        features
    }

    /// What is wrong with the configuration file.
    pub(super) fn config_need(&self) -> Option<Value> {
        use std::sync::atomic::Ordering::Relaxed;
        let problems = self.config.problems.load(Relaxed);
        let text = match (problems, self.config.is_behind.load(Relaxed)) {
            (0, _) => return None,
            (1, false) => "the configuration has a mistake".to_owned(),
            (many, false) => format!("the configuration has {many} mistakes"),
            (_, true) => {
                "the configuration was changed and has mistakes; what was in force stays in force"
                    .to_owned()
            }
        };
        Some(json!({"kind": "config_problem", "text": text, "problems": problems}))
    }

    fn stderr(&self, viewer: &Viewer, name: &str, query: &HashMap<String, String>) -> ApiResult {
        self.running(viewer, name)?;
        if !viewer.is_whole() {
            return Err(ApiError::not_granted());
        }
        let after = query.get("after").and_then(|text| text.parse().ok()).unwrap_or_default();
        Ok(self.stderr_after(name, after))
    }

    /// What a server said after a line.
    pub(super) fn stderr_after(&self, name: &str, number: u64) -> Value {
        let logs = self.gateway.fleet().stderr();
        let found = logs.map(|logs| logs.after(name, number)).unwrap_or_default();
        debug_assert!(found.lines.len() <= MAX_LINES);
        let line = |StderrLine { number, at, text }: &StderrLine| json!({"n": number, "at": moment::text(*at), "text": &**text});
        let lines: Vec<_> = found.lines.iter().map(line).collect();
        json!({"lines": lines, "next": found.last, "lost": found.lost})
    }

    /// Who is connected, as far as somebody may know.
    pub(super) fn connected(&self, viewer: &Viewer) -> Vec<ConnectedClient> {
        let all = self.sites().into_iter().flat_map(|site| site.seen());
        let sees = |it: &ConnectedClient| viewer.is_whole() || viewer.is_own(it.client.principal());
        all.filter(sees).collect()
    }

    /// Sessions and open calls of them, as far as somebody may know.
    pub(super) fn open_sessions(&self, viewer: &Viewer) -> (usize, usize) {
        let seen = self.connected(viewer);
        let open = seen.iter().map(|it| it.client.owed()).sum();
        (seen.iter().filter(|it| it.client.phase().is_some()).count(), open)
    }

    /// How many sessions, listens and streams there are, as far as somebody may know.
    pub(super) fn session_counts(&self, viewer: &Viewer) -> Value {
        counts(&self.connected(viewer), self.parked(viewer))
    }

    /// Calls that wait for their clients. Whose they are is not told.
    fn parked(&self, viewer: &Viewer) -> Option<usize> {
        viewer.is_whole().then(|| self.sites().iter().map(Site::parked).sum())
    }

    fn sessions(&self, viewer: &Viewer) -> Value {
        let mut seen = self.connected(viewer);
        let mut answer = counts(&seen, self.parked(viewer));
        // The busiest first: those with most calls, then those that were used last.
        seen.sort_by_cached_key(|it| (std::cmp::Reverse(it.client.owed()), it.client.quiet()));
        let rows: Vec<_> = seen.iter().take(MAX_SESSIONS).map(session_row).collect();
        answer["rows"] = rows.into();
        answer
    }
}

fn counts(seen: &[ConnectedClient], parked: Option<usize>) -> Value {
    let sessions = seen.iter().filter(|it| it.client.phase().is_some()).count();
    let streams: usize = seen.iter().map(|it| it.client.streams()).sum();
    json!({
        "count": sessions,
        "listens": seen.len() - sessions,
        "streams": streams,
        "parked": parked,
    })
}

fn session_row(seen: &ConnectedClient) -> Value {
    let mut row = status::row(seen);
    row["id"] = row["session"].take();
    row["openCalls"] = row["calls"].take();
    if let Some(row) = row.as_object_mut() {
        row.retain(|name, _| !matches!(name.as_str(), "session" | "calls"));
    }
    row
}

fn unknown(parts: &[&str]) -> ApiError {
    ApiError::not_found(format!("there is no {:?} here", parts.join("/")))
}

fn with_cookie(value: &Value, cookie: HeaderValue) -> Response<Bytes> {
    let mut response = json_response(value);
    response.headers_mut().insert(SET_COOKIE, cookie);
    response
}

/// JSON lines that nobody keeps; to be saved, if they are given a name.
pub(super) fn lines_response(lines: String, name: Option<&'static str>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(lines));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(name) = name {
        headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static(name));
    }
    response
}
