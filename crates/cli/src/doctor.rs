//! `switchboard doctor`: says what is wrong with a server.
//!
//! ```text
//!   visit ──▶ Evidence ──▶ check/*.rs ──▶ Finding ──▶ Report
//!   talks,      what was      pure: one       what is wrong,   for people,
//!   judges      said and      function for    the rule, and    or as JSON
//!   nothing     seen          each question   what to do
//! ```
//!
//! The visit does not use our client, because the client tolerates mistakes that the
//! doctor has to report. It calls no tool and changes nothing.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_proto::method::meta;
use switchboard_proto::revision::Era;

use crate::args::DoctorArgs;
use crate::command::client::{find, interrupted, other, until, usage};
use crate::exit::{CommandError, ExitStatus};
use crate::output::{plain, table, write_line};
use crate::signal::Stop;
use evidence::{Evidence, ExchangeResult};
use visit::{VisitOptions, visit};

mod check;
mod evidence;
mod visit;
mod wire;

/// How long one answer may take, unless the user or the file says otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// Visits the server and reports.
pub(crate) async fn run(args: &DoctorArgs) -> Result<ExitStatus, CommandError> {
    let stop = Stop::on_signals().map_err(|error| other(&CommandError::of(&error).to_string()))?;
    let (found, rest) = find(&args.reach, &args.operands).map_err(usage)?;
    if let Some(more) = rest.first() {
        return Err(usage(CommandError::new(format!("{more:?} is one too many"))));
    }
    let said = args.reach.timeout.map(Duration::from_secs);
    let patience = said.or(found.timeouts.start).unwrap_or(PATIENCE);
    let options = VisitOptions { era: args.reach.era.era(), patience };
    let visited = until(&stop, Box::pin(visit(found, options))).await;
    let report = judge(visited.ok_or_else(interrupted)?);
    if args.json {
        write_line(&serde_json::to_string_pretty(&report.json()).unwrap_or_default());
    } else {
        write_line(&report.text());
    }
    Ok(if report.is_healthy() { ExitStatus::Success } else { ExitStatus::Failure })
}

/// Says what is wrong with a server that was visited.
fn judge(evidence: Evidence) -> Report {
    let mut findings: Vec<_> = check::ALL.iter().flat_map(|check| check(&evidence)).collect();
    // A visit without a conversation is no sign of health, whatever the reason.
    if !evidence.was_greeted() && findings.iter().all(|finding| !finding.is_error()) {
        let what = "no conversation came about, and it cannot be said why";
        let remedy = "look at what is said with --log-level trace";
        findings.push(Finding::error("greeting.none", what).rule("LIF-1").remedy(remedy));
    }
    findings.sort_by_key(|finding| finding.severity);
    Report { evidence, findings }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Severity {
    /// Clients fail on it.
    Error,
    /// Some clients, or some days.
    Warning,
    /// Good to know.
    Note,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// A name for scripts.
    pub(crate) id: &'static str,
    /// The rule of the protocol, by its number in docs/wire-rules.txt.
    pub(crate) rule: Option<&'static str>,
    /// The fact.
    pub(crate) what: String,
    /// What to do.
    pub(crate) remedy: String,
}

impl Finding {
    pub(crate) fn error(id: &'static str, what: impl Into<String>) -> Self {
        let (what, remedy) = (what.into(), String::new());
        Self { severity: Severity::Error, id, rule: None, what, remedy }
    }

    pub(crate) fn warning(id: &'static str, what: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(id, what) }
    }

    pub(crate) fn note(id: &'static str, what: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(id, what) }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Names the rule that it breaks.
    #[must_use]
    pub(crate) fn rule(mut self, rule: &'static str) -> Self {
        self.rule = Some(rule);
        self
    }

    /// Says what to do.
    #[must_use]
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

/// A visit and what is thought of it.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) evidence: Evidence,
    pub(crate) findings: Vec<Finding>,
}

impl Report {
    /// How many findings are that bad.
    pub(crate) fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    /// For scripts.
    pub(crate) fn json(&self) -> Value {
        let evidence = &self.evidence;
        let millis = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        let steps = evidence.steps.iter();
        let steps = steps.map(|step| json!({"name": step.name, "millis": millis(step.took)}));
        let findings = self.findings.iter().map(|finding| {
            json!({
                "severity": finding.severity.name(),
                "id": finding.id,
                "rule": finding.rule,
                "what": finding.what,
                "remedy": finding.remedy,
            })
        });
        let counts = evidence.lists.iter();
        let counts = counts.map(|list| (list.member.to_owned(), json!(list.items().count())));
        json!({
            "target": evidence.target,
            "healthy": self.is_healthy(),
            "transport": evidence.transport.map(evidence::Transport::name),
            "era": evidence.era.map(era_name),
            "protocolVersion": evidence.revision,
            "supportedVersions": evidence.welcome.get("supportedVersions"),
            "server": self.server(),
            "capabilities": evidence.welcome.get("capabilities"),
            "counts": counts.collect::<serde_json::Map<_, _>>(),
            "steps": steps.collect::<Vec<_>>(),
            "findings": findings.collect::<Vec<_>>(),
        })
    }

    fn server(&self) -> Option<&Value> {
        let welcome = &self.evidence.welcome;
        welcome.get("serverInfo").or_else(|| welcome.get("_meta")?.get(meta::SERVER))
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = self.head();
        let rows = self.evidence.steps.iter();
        let rows: Vec<_> = rows.map(|step| vec![step.name.clone(), shown(step.took)]).collect();
        if !rows.is_empty() {
            text.push('\n');
            text.push_str(&table(&["STEP", "TIME"], &rows, ""));
            text.push('\n');
        }
        if !self.findings.is_empty() {
            text.push('\n');
        }
        for finding in &self.findings {
            let rule = finding.rule.map(|rule| format!(" [{rule}]")).unwrap_or_default();
            let what = plain(&finding.what);
            // Writing to a string does not fail.
            _ = writeln!(text, "{}: {what}{rule}", finding.severity.name());
            if !finding.remedy.is_empty() {
                _ = writeln!(text, "  {}", plain(&finding.remedy));
            }
        }
        let counts = [Severity::Error, Severity::Warning, Severity::Note]
            .map(|severity| (self.count(severity), severity.name()));
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts = counts
            .map(|(count, name)| format!("{count} {name}{}", if *count == 1 { "" } else { "s" }));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let verdict = match (self.is_healthy(), self.findings.is_empty()) {
            (true, true) => "healthy".to_owned(),
            (true, false) => format!("healthy, with {counts}"),
            (false, _) => format!("not healthy: {counts}"),
        };
        text + "\n" + &verdict
    }

    fn head(&self) -> String {
        let evidence = &self.evidence;
        let mut lines = vec![("target", evidence.target.clone())];
        if let Some(server) = self.server() {
            let name = server["name"].as_str().unwrap_or("nameless");
            lines.push(("server", format!("{name} {}", server["version"].as_str().unwrap_or(""))));
        }
        lines
            .extend(evidence.transport.map(|transport| ("transport", transport.name().to_owned())));
        if let (Some(revision), Some(era)) = (&evidence.revision, evidence.era) {
            let offered = evidence.welcome["supportedVersions"].as_array().into_iter().flatten();
            let offered: Vec<_> = offered.filter_map(Value::as_str).collect();
            let offers = match offered.len() {
                0 | 1 => String::new(),
                _ => format!("; offers {}", offered.join(", ")),
            };
            lines.push(("protocol", format!("{revision} ({}){offers}", era_name(era))));
        }
        if let Some(capabilities) = evidence.welcome["capabilities"].as_object() {
            let names: Vec<_> = capabilities.keys().map(String::as_str).collect();
            lines.push(("can do", names.join(", ")));
        }
        let has = |list: &&evidence::List| list.pages.iter().any(|p| p.result().is_some());
        let counts = evidence.lists.iter().filter(has).map(|list| {
            let words = if list.member == "resourceTemplates" { "templates" } else { list.member };
            match list.items().count() {
                1 => format!("1 {}", words.trim_end_matches('s')),
                count => format!("{count} {words}"),
            }
        });
        let counts = counts.collect::<Vec<_>>().join(", ");
        if !counts.is_empty() {
            lines.push(("has", counts));
        }
        lines.iter().fold(String::new(), |text, (name, value)| {
            let line = format!("{name:10}{}", plain(value));
            text + line.trim_end() + "\n"
        })
    }
}

fn era_name(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

fn shown(time: Duration) -> String {
    if time >= Duration::from_secs(1) {
        return format!("{:.1} s", time.as_secs_f64());
    }
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// What a request came to, in half a sentence.
pub(crate) fn in_words(outcome: &ExchangeResult) -> String {
    match outcome {
        ExchangeResult::Answer { message, .. } => match message.get("error") {
            Some(error) => {
                let text = error["message"].as_str().unwrap_or("without a message");
                format!("was answered with error {}: {text}", error["code"])
            }
            None => "was answered".to_owned(),
        },
        ExchangeResult::Http(facts) => format!("was answered with HTTP {}", facts.status),
        ExchangeResult::Silence => "was not answered in time".to_owned(),
        ExchangeResult::Gone { text } => format!("ended the server: {text}"),
        ExchangeResult::Lost(error) => format!("got no answer: {error}"),
    }
}
