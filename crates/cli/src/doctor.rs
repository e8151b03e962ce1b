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
//!
//! A server that wants a token is shown the one of the user's account. If it refuses that,
//! or there is none, the doctor reads what a sign-in would read, and nobody signs in.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::styling::Style;
use serde::Serialize;
use serde_json::{Value, json};
use switchboard_gateway::status::era_name;
use switchboard_net::auth::{Authorizer, OauthCredential};
use switchboard_proto::method::meta;

use crate::args::{CredentialArgs, DoctorArgs, Form, LoginChoice, OauthArgs};
use crate::command::client::{find, interrupted, other, until, usage};
use crate::exit::{CommandError, CommandResult, ExitStatus};
use crate::output::{BAD, DOUBT, HINT, counted, painted, plain, table};
use crate::sign_in::{self, AskUser};
use crate::signal::StopSignal;
use crate::target::NamedServer;
use evidence::{Evidence, ListReading, RequestResult, VisitedTransport};
use visit::visit;

mod check;
mod evidence;
mod visit;
mod wire;

/// How long one answer may take, unless the user or the file says otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// Visits the server and reports.
pub(crate) async fn run(args: &DoctorArgs) -> CommandResult<ExitStatus> {
    let stop = StopSignal::on_signals().map_err(other)?;
    let (found, rest) = find(&args.reach, &args.operands).map_err(usage)?;
    if let Some(more) = rest.first() {
        return Err(usage(CommandError::new(format!("{more:?} is one too many"))));
    }
    let said = args.reach.timeout.map(Duration::from_secs);
    let patience = said.or(found.options.start).unwrap_or(PATIENCE);
    let account = account(&found, &args.reach.credentials).map_err(usage)?;
    let visiting = Box::pin(visit(&found.server, account.as_ref(), args.reach.era.0, patience));
    let visited = until(&stop, visiting).await;
    let mut evidence = visited.ok_or_else(interrupted)?;
    // What may be secret in a URL is left out.
    let called = args.operands.first().and_then(|name| name.split(['?', '#']).next());
    called.unwrap_or_default().clone_into(&mut evidence.called);
    let report = judge(evidence);
    let form = if args.json { Form::Json } else { Form::Text };
    form.show(&report.json(), |_| report.text());
    Ok(if report.is_healthy() { ExitStatus::Success } else { ExitStatus::Failure })
}

/// Visits a server of a gateway that runs, and says what is wrong with it.
#[cfg(feature = "console")]
pub(crate) async fn examine(
    found: &NamedServer,
    credentials: &CredentialArgs,
) -> CommandResult<Report> {
    let account = account(found, credentials)?;
    let patience = found.options.start.unwrap_or(PATIENCE);
    Ok(judge(visit(&found.server, account.as_ref(), None, patience).await))
}

/// The account of the user at a server.
struct DoctorAccount {
    authorizer: Authorizer,
    /// Shows its token, if there is one.
    credential: Arc<OauthCredential>,
}

fn account(
    found: &NamedServer,
    credentials: &CredentialArgs,
) -> CommandResult<Option<DoctorAccount>> {
    let shown = sign_in::shown_beside(found).zip(found.server.fetch().cloned());
    let Some((headers, fetch)) = shown else { return Ok(None) };
    let asking = AskUser { login: LoginChoice::Never, owns_stdin: false };
    let credentials = credentials.clone();
    let oauth = OauthArgs { credentials, ..OauthArgs::default() };
    let authorizer = sign_in::authorizer(found, &oauth, asking, fetch)?;
    let credential = Arc::new(OauthCredential::new(authorizer.clone(), headers));
    Ok(Some(DoctorAccount { authorizer, credential }))
}

/// Says what is wrong with a server that was visited.
fn judge(evidence: Evidence) -> Report {
    let mut findings = Findings::default();
    // What a server does to strangers says nothing of what it does to its users.
    let checks = if evidence.is_shut() { check::SHUT } else { check::ALL };
    for check in checks {
        check(&evidence, &mut findings);
    }
    let has_error = findings.list.iter().any(|finding| finding.severity == Severity::Error);
    // A visit without a conversation is no sign of health, whatever the reason.
    if !evidence.was_greeted() && !has_error {
        let what = "no conversation came about, and it cannot be said why";
        let remedy = "look at what is said with --log-level trace";
        findings.add(Severity::Error, "greeting.none", "LIF-1", what, remedy);
    }
    findings.list.sort_by_key(|finding| finding.severity);
    Report { evidence, findings: findings.list }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
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

    fn style(self) -> Style {
        match self {
            Self::Error => BAD,
            Self::Warning => DOUBT,
            Self::Note => HINT,
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// A name for scripts.
    pub(crate) id: &'static str,
    /// The rule of the protocol that it breaks, by its number in docs/wire-rules.txt.
    pub(crate) rule: Option<&'static str>,
    /// The fact.
    pub(crate) what: String,
    /// What to do.
    pub(crate) remedy: String,
}

/// What the checks found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) list: Vec<Finding>,
}

impl Findings {
    /// Adds what was found: its name, the rule that it breaks or nothing, the fact, and what
    /// to do.
    pub(crate) fn add(
        &mut self,
        severity: Severity,
        id: &'static str,
        rule: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let rule = (!rule.is_empty()).then_some(rule);
        self.list.push(Finding { severity, id, rule, what: what.into(), remedy: remedy.into() });
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
        let steps = steps.map(|(name, took)| json!({"name": name, "millis": millis(*took)}));
        let counts = evidence.lists.iter();
        let counts =
            counts.map(|list| (list.kind.member().key().to_owned(), json!(list.items().count())));
        json!({
            "target": evidence.target,
            "healthy": self.is_healthy(),
            "transport": evidence.transport.map(VisitedTransport::name),
            "era": evidence.era.map(era_name),
            "protocolVersion": evidence.revision,
            "supportedVersions": evidence.welcome.get("supportedVersions"),
            "server": self.server(),
            "capabilities": evidence.welcome.get("capabilities"),
            "counts": counts.collect::<serde_json::Map<_, _>>(),
            "steps": steps.collect::<Vec<_>>(),
            "oauth": self.sign_in_steps(|asked, came, rule| json!({"asked": asked, "came": came, "rule": rule})),
            "findings": self.findings,
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
        let rows: Vec<_> = rows.map(|(name, took)| vec![name.clone(), shown(*took)]).collect();
        if !rows.is_empty() {
            text = format!("{text}\n{}\n", table("STEP  TIME", &rows, ""));
        }
        let rows = self.sign_in_steps(|asked, came, rule| {
            vec![asked, plain(&came), rule.unwrap_or_default().to_owned()]
        });
        if !rows.is_empty() {
            text = format!("{text}\n{}\n", table("TO SIGN IN  ANSWER  BREAKS", &rows, ""));
        }
        if !self.findings.is_empty() {
            text.push('\n');
        }
        for finding in &self.findings {
            let Finding { severity, rule, what, remedy, .. } = finding;
            let rule = rule.map(|rule| format!(" [{rule}]")).unwrap_or_default();
            // Writing to a string does not fail.
            let name = painted(severity.style(), &format!("{}:", severity.name()));
            _ = writeln!(text, "{name} {}{rule}", plain(what));
            _ = writeln!(text, "  {}", plain(remedy));
        }
        let all = [Severity::Error, Severity::Warning, Severity::Note];
        let counts = all.into_iter().filter(|severity| self.count(*severity) > 0);
        let counts = counts.map(|severity| counted(self.count(severity), severity.name()));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let verdict = match (self.is_healthy(), self.findings.is_empty()) {
            (true, true) => "healthy".to_owned(),
            (true, false) => format!("healthy, with {counts}"),
            (false, _) => format!("not healthy: {counts}"),
        };
        text + "\n" + &verdict
    }

    /// What was asked to find out how to sign in, what came, and the rule that it breaks.
    fn sign_in_steps<T>(&self, show: impl Fn(String, String, Option<&'static str>) -> T) -> Vec<T> {
        let steps = self.evidence.sign_in.iter().flat_map(check::sign_in::steps);
        steps.map(|step| show(step.asked, step.came, step.rule)).collect()
    }

    fn head(&self) -> String {
        let evidence = &self.evidence;
        let mut lines = vec![("target", evidence.target.clone())];
        if let Some(server) = self.server() {
            let name = server["name"].as_str().unwrap_or("nameless");
            lines.push(("server", format!("{name} {}", server["version"].as_str().unwrap_or(""))));
        }
        lines.extend(evidence.transport.map(|it| ("transport", it.name().to_owned())));
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
        let has = |list: &&ListReading| list.pages.iter().any(|p| p.result().is_some());
        let lists = evidence.lists.iter().filter(has);
        let noun = |list: &ListReading| list.words().trim_end_matches('s');
        let counts = lists.map(|list| counted(list.items().count(), noun(list)));
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

fn shown(time: Duration) -> String {
    if time >= Duration::from_secs(1) {
        return format!("{:.1} s", time.as_secs_f64());
    }
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// An error and why it came about.
pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

/// What a request came to, in half a sentence.
pub(crate) fn in_words(outcome: &RequestResult) -> String {
    match outcome {
        RequestResult::Answer { message, .. } => match message.get("error") {
            Some(error) => {
                let text = error["message"].as_str().unwrap_or("without a message");
                format!("was answered with error {}: {text}", error["code"])
            }
            None => "was answered".to_owned(),
        },
        RequestResult::Http(facts) => format!("was answered with HTTP {}", facts.status),
        RequestResult::Silence => "was not answered in time".to_owned(),
        RequestResult::Gone { text } => format!("ended the server: {text}"),
        RequestResult::Lost(error) => format!("got no answer: {error}"),
    }
}
