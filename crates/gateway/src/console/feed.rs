//! The feed: what changes, told to a page for as long as it looks.
//!
//! A task for each feed looks at what is there, four times a second, and writes what is
//! different. There is no queue that could grow: a page that reads slowly is told later, of what
//! is there then. While no page looks, there is no task.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};
use switchboard_net::OwnedTask;
use switchboard_net::http::page::{PageStream, PageVisit};
use switchboard_proto::framing::{Outgoing, encode_comment, encode_event};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::calls::{CallFilter, row};
use super::servers::ServersView;
use super::sign_in::{Viewer, check_origin};
use super::{ApiError, ApiResult, Console};
use crate::connect::form_fields;

/// How often the feed looks (C-29).
const TICK: Duration = Duration::from_millis(250);
/// What takes more to look at is looked at once in so many ticks.
const SLOW_TICKS: u64 = 4;
/// Rows in one event: 200 in a second.
const MAX_ROWS: usize = 50;
/// Silence that a comment ends.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Pieces that a page has not read; then the feed waits.
const MAX_PIECES: usize = 4;
/// How soon a browser comes back, in milliseconds.
const RETRY: u64 = 1000;

/// The feed of one page.
struct Feed {
    console: Arc<Console>,
    viewer: Viewer,
    views: Vec<String>,
    filter: CallFilter,
    /// Whose stderr is wanted.
    server: Option<String>,
    ticks: u64,
    /// The number of the last call that was told of.
    call: u64,
    /// How many calls there were at the last look.
    counted: (u64, Instant),
    line: u64,
    /// The rows of servers that were told, as text.
    rows: BTreeMap<String, String>,
    /// What was told of each kind, as text.
    told: HashMap<&'static str, String>,
    config: usize,
    /// The captures that were told.
    captures: Vec<Value>,
    /// Events that are to be written.
    out: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl Console {
    /// The feed that a page asks for.
    pub(super) fn open_feed(&self, visit: &PageVisit) -> ApiResult<Response<PageStream>> {
        if visit.method != Method::GET {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            return Err(ApiError::new(status, "method", "the feed is to be read"));
        }
        check_origin(&visit.headers, false)?;
        let viewer = self.require_viewer(visit)?;
        let query = form_fields(visit.query.as_bytes());
        let filter = CallFilter::read(&query)?;
        let full = |_| ApiError::too_many("too many pages look at the console", 5);
        let permit = Arc::clone(&self.feeds).try_acquire_owned().map_err(full)?;
        let closed = || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "it ends");
        let console = self.this.upgrade().filter(|_| !*self.closing.borrow());
        let console = console.ok_or_else(closed)?;
        let views = query.get("views").map(String::as_str).unwrap_or_default();
        let mut feed = Feed {
            viewer,
            views: views.split(',').map(str::to_owned).take(16).collect(),
            filter,
            server: query.get("server").cloned(),
            ticks: 0,
            call: 0,
            counted: (console.gateway.fleet().monitor().calls().last(), Instant::now()),
            line: query.get("line").and_then(|text| text.parse().ok()).unwrap_or_default(),
            rows: BTreeMap::new(),
            told: HashMap::new(),
            config: console.config.edition.load(Ordering::Relaxed),
            captures: Vec::new(),
            out: Vec::new(),
            _permit: permit,
            console,
        };
        feed.begin(visit, query.get("after").map(String::as_str));
        let (sender, pieces) = mpsc::channel(MAX_PIECES);
        let task = OwnedTask::spawn(feed.run(sender));
        let mut response = Response::new(PageStream { pieces, task });
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }
}

impl Feed {
    fn wants(&self, view: &str) -> bool {
        self.views.iter().any(|it| it == view)
    }

    /// Finds where a page that was here before goes on, or one that has rows already.
    fn begin(&mut self, visit: &PageVisit, after: Option<&str>) {
        let opening = Outgoing { retry: Some(RETRY), ..Outgoing::default() };
        encode_event(&opening, &mut self.out);
        let (first, last) = {
            let calls = self.console.gateway.fleet().monitor().calls();
            (calls.first(), calls.last())
        };
        self.call = last;
        let known = visit.headers.get("last-event-id").and_then(|id| id.to_str().ok());
        let number: Option<u64> = match (known.and_then(|id| id.split_once('-')), after) {
            // Calls of an earlier gateway have numbers of their own.
            (Some((boot, _)), _) if boot != self.console.boot => None,
            (Some((_, number)), _) | (None, Some(number)) => number.parse().ok(),
            (None, None) => return,
        };
        match number.filter(|number| *number <= last && number + 1 >= first) {
            Some(number) => self.call = number,
            None => self.tell("reset", &json!({})),
        }
    }

    /// Writes an event.
    fn tell(&mut self, name: &str, data: &Value) {
        let (id, data) = (format!("{}-{}", self.console.boot, self.call), data.to_string());
        let event = Outgoing {
            id: Some(&id),
            name: Some(name),
            data: data.as_bytes(),
            ..Outgoing::default()
        };
        encode_event(&event, &mut self.out);
    }

    /// Writes an event if it says something else than the last one of its kind.
    fn tell_if_other(&mut self, name: &'static str, data: &Value) {
        let text = data.to_string();
        if self.told.get(name) != Some(&text) {
            self.tell(name, data);
            self.told.insert(name, text);
        }
    }

    async fn run(mut self, sender: mpsc::Sender<Bytes>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut written = Instant::now();
        loop {
            ticks.tick().await;
            let end = self.look();
            if self.out.is_empty() && written.elapsed() >= KEEP_ALIVE {
                encode_comment("ping", &mut self.out);
            }
            if !self.out.is_empty() {
                written = Instant::now();
                let piece = std::mem::take(&mut self.out);
                if sender.send(piece.into()).await.is_err() {
                    return;
                }
            }
            if end || sender.is_closed() {
                return;
            }
        }
    }

    /// Looks at what is there, and writes what is different. True if the feed is over.
    fn look(&mut self) -> bool {
        if *self.console.closing.borrow() {
            self.tell("end", &json!({"code": "stopping"}));
            return true;
        }
        let Some(viewer) = self.console.sign_ins.renewed(&self.viewer) else {
            self.tell("end", &json!({"code": "sign_in"}));
            return true;
        };
        self.viewer = viewer;
        if self.wants("calls") {
            self.tell_calls();
        }
        if self.wants("stderr") {
            self.tell_stderr();
        }
        if self.ticks.is_multiple_of(SLOW_TICKS) {
            self.tell_slow();
        }
        self.ticks += 1;
        false
    }

    fn tell_calls(&mut self) {
        let console = Arc::clone(&self.console);
        let calls = console.gateway.fleet().monitor().calls();
        let last = calls.last();
        if last == self.call {
            return;
        }
        let is_meant = |call: &Arc<_>| self.viewer.sees(call) && self.filter.lets(call);
        let found = calls.after(self.call);
        let seen: Vec<_> = found.iter().filter(|call| is_meant(call)).collect();
        let rows: Vec<_> = seen.iter().take(MAX_ROWS).rev().map(|call| row(call)).collect();
        let elapsed = self.counted.1.elapsed().as_secs_f64().max(TICK.as_secs_f64());
        let of_all = if self.viewer.is_whole() { last - self.counted.0 } else { seen.len() as u64 };
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let rate = (of_all as f64 / elapsed).round();
        let skipped = seen.len() - rows.len();
        (self.call, self.counted) = (last, (last, Instant::now()));
        if !rows.is_empty() {
            let data = json!({"rows": rows, "skipped": skipped, "callsPerSecond": rate});
            self.tell("calls", &data);
        }
    }

    fn tell_stderr(&mut self) {
        let Some(server) = self.server.clone() else { return };
        if !self.viewer.is_whole() || self.console.running(&self.viewer, &server).is_err() {
            return;
        }
        let mut said = self.console.stderr_after(&server, self.line);
        let next = said["next"].as_u64().unwrap_or_default();
        if next != self.line && said["lines"].as_array().is_some_and(|lines| !lines.is_empty()) {
            said["server"] = server.into();
            self.tell("stderr", &said);
        }
        self.line = next;
    }

    /// What takes more to look at, or changes all the time.
    fn tell_slow(&mut self) {
        let console = Arc::clone(&self.console);
        let viewer = self.viewer.clone();
        if self.wants("servers") || self.wants("charts") {
            let view = ServersView::new(console.gateway.fleet(), &viewer);
            if self.wants("servers") {
                self.tell_servers(view.rows(&console));
            }
            if self.wants("charts") {
                let (totals, needs) = (console.totals(&view), console.needs(&view));
                self.tell_if_other("charts", &json!({"totals": totals, "needs": needs}));
            }
        }
        if self.wants("sessions") {
            self.tell_if_other("sessions", &console.session_counts(&viewer));
        }
        self.tell_captures(console.capture_rows(&viewer));
        let edition = console.config.edition.load(Ordering::Relaxed);
        if self.wants("config") && viewer.is_whole() && edition != self.config {
            self.config = edition;
            self.tell("config", &json!({"edition": edition}));
        }
    }

    /// Everybody whom it concerns sees that requests and answers are kept (C-7).
    fn tell_captures(&mut self, rows: Vec<Value>) {
        if rows == self.captures {
            return;
        }
        let texts: Vec<_> = rows.iter().filter_map(|row| row["text"].as_str()).collect();
        let (level, text) = if texts.is_empty() {
            ("info", "requests and answers are not kept any more".to_owned())
        } else {
            ("warning", texts.join("; "))
        };
        let notice = json!({"level": level, "text": text, "kind": "capture", "rows": rows});
        self.tell("notice", &notice);
        self.captures = rows;
    }

    fn tell_servers(&mut self, rows: Vec<Value>) {
        let (mut changed, mut now) = (Vec::new(), BTreeMap::new());
        for row in rows {
            let name = row["name"].as_str().unwrap_or_default().to_owned();
            let mut lasting = row.clone();
            // It runs down by itself.
            lasting["nextAttemptMs"] = row["nextAttemptMs"].is_null().into();
            let text = lasting.to_string();
            if self.rows.get(&name) != Some(&text) {
                changed.push(row);
            }
            now.insert(name, text);
        }
        let gone: Vec<_> = self.rows.keys().filter(|name| !now.contains_key(*name)).collect();
        let data = json!({"rows": changed, "gone": gone});
        let is_news = !changed.is_empty() || !gone.is_empty();
        self.rows = now;
        if is_news {
            self.tell("servers", &data);
        }
    }
}
