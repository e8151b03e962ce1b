//! Log lines on stderr, never on stdout.
//!
//! ```text
//! [2026-01-15T10:30:00.123Z] [INFO] [component] message key=value
//! ```
//!
//! A text with the target [`PLAIN`] is for people, and has no such head.
//!
//! The component is the server that an event is about, if it names one, else the
//! last part of its target. What a peer or a child made us log cannot forge a
//! line or a field: control characters are escaped, and values with spaces quoted.
//!
//! Some clients start us with a pipe as stderr and never read it. Once the pipe
//! is full, a plain write would stop every conversation for good. So stderr is behind a
//! bounded queue and a thread of its own: a full queue drops lines, and says how many once
//! there is room again.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use switchboard_gateway::plan::PlanSecret;
use switchboard_gateway::status::is_hidden;
use switchboard_proto::moment;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::args::{Form, LOG_LEVELS, LogArgs};

/// The target of texts that are written as they are, where the log is text.
pub(crate) const PLAIN: &str = "switchboard::plain";

/// Starts logging. `lookup` is the environment: `RUST_LOG` decides alone; else
/// the option, else `LOG_LEVEL`, else `info`, or `error` where it is `quiet`.
pub(crate) fn start(args: &LogArgs, quiet: bool, lookup: impl Fn(&str) -> Option<String>) -> Sink {
    let sink = Sink::new(io::stderr());
    let usual = if quiet { "error" } else { "info" };
    let (filter, complaint) = filter(args.log_level.as_deref(), usual, lookup);
    let writer = sink.clone();
    tracing_subscriber::fmt()
        .event_format(args.log_format)
        .with_env_filter(filter)
        .with_writer(move || writer.clone())
        .init();
    if let Some(complaint) = complaint {
        tracing::warn!("{complaint}");
    }
    sink
}

fn filter(
    option: Option<&str>,
    usual: &str,
    lookup: impl Fn(&str) -> Option<String>,
) -> (EnvFilter, Option<String>) {
    let mut complaint = None;
    if let Some(directives) = lookup("RUST_LOG").filter(|text| !text.trim().is_empty()) {
        match EnvFilter::try_new(directives) {
            Ok(filter) => return (filter, None),
            Err(error) => complaint = Some(format!("RUST_LOG is ignored: {error}")),
        }
    }
    let variable = lookup("LOG_LEVEL").filter(|name| option.is_none() && !name.trim().is_empty());
    let known = |name: &str| LOG_LEVELS.into_iter().find(|it| it.eq_ignore_ascii_case(name.trim()));
    let said = variable.as_deref().and_then(known);
    if let (Some(name), None) = (&variable, said) {
        // Other programs read the variable too, so a word of theirs is no reason to stop.
        complaint = Some(format!("LOG_LEVEL is ignored: {name:?} is no level"));
    }
    let ours = option.or(said).unwrap_or(usual);
    let others = if ["off", "error"].contains(&ours) { ours } else { "warn" };
    // Ours also match by prefix: `switchboard` stands for `switchboard_net`.
    // Why a certificate is refused is in our own errors, in words for people.
    let quiet = "rustls_platform_verifier=off";
    let directives = format!("{others},{quiet},switchboard={ours},child={ours}");
    (EnvFilter::new(directives), complaint)
}

/// Writes an event as one line.
impl<S, N> FormatEvent<S, N> for Form
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut said = EventFields::default();
        event.record(&mut said);
        said.veil();
        let target = event.metadata().target();
        let module = || target.rsplit("::").next().unwrap_or(target).to_owned();
        let component = said.server.take().unwrap_or_else(module);
        let (time, level) = (moment::text(SystemTime::now()), event.metadata().level());
        match self {
            Self::Text if target == PLAIN => {
                let lines: Vec<_> = said.message.lines().map(tame).collect();
                write!(out, "{}", lines.join("\n"))?;
            }
            Self::Text => {
                write!(out, "[{time}] [{level}] [{}] {}", tame(&component), tame(&said.message))?;
                for (name, value) in &said.fields {
                    let text = value.as_str().map_or_else(|| value.to_string(), tame);
                    let text = if said.quoted.contains(name) { quoted(text) } else { text };
                    write!(out, " {name}={text}")?;
                }
            }
            Self::Json => {
                let fields = said.fields.into_iter().map(|(name, value)| (name.into(), value));
                let fields: serde_json::Map<_, _> = fields.collect();
                let line = serde_json::json!({
                    "timestamp": time,
                    "level": level.as_str(),
                    "component": component,
                    "message": said.message,
                    "fields": fields,
                });
                write!(out, "{line}")?;
            }
        }
        writeln!(out)
    }
}

/// What an event contains: numbers as such, all else as text.
#[derive(Default)]
struct EventFields {
    message: String,
    server: Option<String>,
    fields: Vec<(&'static str, Value)>,
    /// Those whose values are words of others.
    quoted: Vec<&'static str>,
}

impl EventFields {
    /// Leaves out what is secret.
    fn veil(&mut self) {
        let secrets = SECRETS.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(secrets) = secrets else { return };
        self.message = PlanSecret::veil(&self.message, &secrets).into_owned();
        for (_, value) in &mut self.fields {
            if let Value::String(text) = value {
                *text = PlanSecret::veil(text, &secrets).into_owned();
            }
        }
    }

    fn take(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            "server" => self.server = Some(text),
            name => self.fields.push((name, text.into())),
        }
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, format!("{value:?}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.quoted.push(field.name());
        self.take(field, value.to_owned());
    }
}

/// In quotes, if it could be taken for more than one value.
fn quoted(text: String) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !matches!(c, '=' | '"');
    if text.chars().all(is_plain) { text } else { Value::from(text).to_string() }
}

/// Without characters that could end the line or paint the terminal.
fn tame(text: &str) -> String {
    let mut tamed = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\t' => tamed.push(character),
            _ if is_hidden(character) => tamed.extend(character.escape_default()),
            _ => tamed.push(character),
        }
    }
    tamed
}

static SECRETS: RwLock<Option<Arc<[PlanSecret]>>> = RwLock::new(None);

/// Leaves these out of all lines from here on. The longest should come first.
pub(crate) fn hide(secrets: Vec<PlanSecret>) {
    let secrets = (!secrets.is_empty()).then(|| secrets.into());
    *SECRETS.write().unwrap_or_else(PoisonError::into_inner) = secrets;
}

/// Where log lines are handed in. Clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    queue: SyncSender<SinkLine>,
    dropped: Arc<AtomicUsize>,
}

/// A line, and what is dropped when it and everything before it is written.
type SinkLine = (Vec<u8>, Option<SyncSender<()>>);

impl Sink {
    fn new(out: impl Write + Send + 'static) -> Self {
        let (queue, lines) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&dropped);
        let writing = move || write_all(out, &lines, &counted);
        // Without the thread the queue has no reader and lines are dropped: the
        // program itself is worth more than its log.
        _ = thread::Builder::new().name("log".to_owned()).spawn(writing);
        Self { queue, dropped }
    }

    /// Waits until everything is written, but not for a reader that does not read.
    pub(crate) fn flush_lines(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send((Vec::new(), Some(done))).is_ok() {
            // The other end is dropped, and nothing is sent.
            _ = written.recv_timeout(LAST_LINES);
        }
    }
}

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send((line.to_vec(), None)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(mut out: impl Write, lines: &Receiver<SinkLine>, dropped: &AtomicUsize) {
    for (line, _done) in lines {
        let written = out.write_all(&line);
        let lost = dropped.swap(0, Ordering::Relaxed);
        if written.is_ok() && lost > 0 {
            // If this fails, so does the next line.
            _ = writeln!(out, "({lost} log lines dropped: stderr is read too slowly)");
        }
    }
}

/// Lines that may wait; the longest are those of a child, a few KiB each.
const QUEUE: usize = 1024;
/// How long the end of the program may wait for its last lines.
const LAST_LINES: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn rust_log_decides_alone_then_the_option_then_log_level() {
        let with = |option, vars: &[(&str, &str)]| {
            let vars: Vec<_> = vars.to_vec();
            let lookup = |name: &str| {
                let found = vars.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let (filter, complaint) = filter(option, "info", lookup);
            (filter.to_string().contains("switchboard=debug"), complaint.is_some())
        };
        assert_eq!(with(None, &[]), (false, false));
        assert_eq!(with(None, &[("LOG_LEVEL", "DEBUG")]), (true, false));
        assert_eq!(with(Some("debug"), &[("LOG_LEVEL", "error")]), (true, false));
        assert_eq!(with(Some("debug"), &[("RUST_LOG", "info")]), (false, false));
        assert_eq!(with(Some("debug"), &[("RUST_LOG", "=,=")]), (true, true));
        assert_eq!(with(None, &[("LOG_LEVEL", "verbose")]), (false, true));
    }

    #[test]
    fn any_time_has_a_date() {
        let at = |seconds, millis: u32| {
            let since = Duration::new(seconds, millis * 1_000_000);
            moment::text(SystemTime::UNIX_EPOCH + since)
        };
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_399, 999), "2000-02-28T23:59:59.999Z");
        assert_eq!(at(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
        assert_eq!(at(1_798_761_599, 1), "2026-12-31T23:59:59.001Z");
    }

    #[test]
    fn words_of_others_cannot_forge_a_line_or_a_field() {
        assert_eq!(tame("a\u{2028}b\u{202e}c"), "a\\u{2028}b\\u{202e}c");
        assert_eq!(quoted("tools/call".to_owned()), "tools/call");
        assert_eq!(quoted("x outcome=ok".to_owned()), "\"x outcome=ok\"");
        assert_eq!(tame("a\n[x] \u{1b}[31mé\tb\r"), "a\\n[x] \\u{1b}[31mé\tb\\r");
    }

    /// Blocks in its first write until it is let go.
    struct Stuck {
        entered: std::sync::mpsc::Sender<()>,
        let_go: Receiver<()>,
        seen: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            _ = self.entered.send(());
            _ = self.let_go.recv();
            self.seen.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_costs_lines_but_never_blocks() {
        let (entered, has_entered) = channel();
        let (release, let_go) = channel();
        let seen = Arc::default();
        let mut sink = Sink::new(Stuck { entered, let_go, seen: Arc::clone(&seen) });
        sink.write_all(b"first\n").unwrap();
        has_entered.recv().unwrap();
        for _ in 0..QUEUE + 7 {
            sink.write_all(b"more\n").unwrap();
        }
        drop(release);
        // The queue is full when the flush is asked for, so ask until there is room.
        let written = || String::from_utf8(seen.lock().unwrap().clone()).unwrap();
        while written().lines().filter(|line| *line == "more").count() < QUEUE {
            thread::yield_now();
        }
        sink.flush_lines();
        assert!(written().starts_with("first\n(7 log lines dropped"), "{:.80}", written());
    }

    #[test]
    fn a_flush_waits_for_all_that_came_before() {
        let seen = Arc::default();
        let (entered, _has_entered) = channel();
        let (release, let_go) = channel();
        drop(release);
        let mut sink = Sink::new(Stuck { entered, let_go, seen: Arc::clone(&seen) });
        for _ in 0..100 {
            sink.write_all(b"x").unwrap();
        }
        sink.flush_lines();
        assert_eq!(seen.lock().unwrap().len(), 100);
    }
}
