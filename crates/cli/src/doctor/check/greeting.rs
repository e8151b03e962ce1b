//! The first words, and what the server says of itself.

use serde_json::Value;
use switchboard_proto::method::{self, meta};
use switchboard_proto::revision::{Era, Revision, era_of};

use super::stdio::is_silent;
use crate::doctor::evidence::{Evidence, ExchangeResult, Transport};
use crate::doctor::report::{Finding, in_words};

pub(super) fn answers(evidence: &Evidence) -> Vec<Finding> {
    if evidence.was_greeted() {
        return Vec::new();
    }
    if is_silent(evidence) {
        let remedy = match evidence.transport {
            Some(Transport::Stdio) => {
                "is it an MCP server on stdio? Does it flush stdout after each line? A slow start \
                 needs more patience: --timeout SECONDS"
            }
            _ => {
                "is something in front of it that holds responses back? More patience: --timeout SECONDS"
            }
        };
        let what = "the server does not answer initialize";
        return vec![Finding::error("greeting.silence", what).rule("LIF-1").remedy(remedy)];
    }
    let Some(asked) = evidence.exchange(method::INITIALIZE) else { return not_modern(evidence) };
    match &asked.outcome {
        // Statuses that say more than the error have findings of their own.
        ExchangeResult::Answer { http: Some(facts), .. } if facts.status > 400 => Vec::new(),
        outcome @ ExchangeResult::Answer { .. } if outcome.error().is_some() => {
            let what = format!("initialize {}", in_words(outcome));
            let remedy = "the message of the server is the reason; if it is about the version, it \
                          has to answer with one that it speaks instead";
            vec![Finding::error("greeting.refused", what).rule("LIF-1").remedy(remedy)]
        }
        ExchangeResult::Answer { .. } => {
            let what = "initialize is answered without a protocolVersion";
            let remedy = "say protocolVersion, capabilities and serverInfo in the result";
            vec![Finding::error("greeting.no-version", what).rule("LIF-1").remedy(remedy)]
        }
        _ => Vec::new(),
    }
}

/// Only a modern server was wanted, or it speaks nothing that we do.
fn not_modern(evidence: &Evidence) -> Vec<Finding> {
    let Some(asked) = evidence.exchange(method::DISCOVER) else { return Vec::new() };
    let payload = asked.outcome.message().cloned().unwrap_or_default();
    let theirs = payload["result"].get("supportedVersions");
    let theirs = theirs.or_else(|| payload["error"].get("data")?.get("supported"));
    let finding = match (theirs, &asked.outcome) {
        (Some(theirs), _) => {
            let what = format!("the server speaks {theirs}, and none of these is known here");
            Finding::error("greeting.versions", what).rule("NEG-1").remedy("update switchboard")
        }
        (None, outcome @ (ExchangeResult::Answer { .. } | ExchangeResult::Silence))
            if outcome.facts().is_none_or(|facts| facts.status <= 400) =>
        {
            let what = format!("server/discover {}", in_words(outcome));
            let finding = Finding::error("greeting.not-modern", what).rule("DISC-1");
            finding.remedy("the server is not modern; leave --era modern out")
        }
        _ => return Vec::new(),
    };
    vec![finding]
}

pub(super) fn agrees_on_a_version(evidence: &Evidence) -> Vec<Finding> {
    let Some(revision) = evidence.revision.as_deref() else { return Vec::new() };
    if evidence.era != Some(Era::Legacy) || Revision::parse(revision).is_some_and(is_legacy) {
        return Vec::new();
    }
    let finding = if era_of(revision) == Era::Modern {
        let what = format!("initialize agrees on {revision}, which has no initialize");
        Finding::error("greeting.version", what)
            .rule("NEG-11")
            .remedy(format!("answer {} or older", Revision::NEWEST_LEGACY))
    } else {
        let what = format!("initialize is answered with version {revision:?}, which nobody knows");
        Finding::error("greeting.version", what)
            .rule("LIF-1")
            .remedy(format!("answer one of {}", Revision::names(Era::Legacy).join(", ")))
    };
    vec![finding]
}

fn is_legacy(revision: Revision) -> bool {
    revision.era() == Era::Legacy
}

pub(super) fn says_what_it_is(evidence: &Evidence) -> Vec<Finding> {
    if !evidence.was_greeted() || evidence.welcome.is_null() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if !evidence.welcome["capabilities"].is_object() {
        let finding = Finding::error("greeting.capabilities", "the server names no capabilities");
        findings.push(finding.rule("LIF-1").remedy("say capabilities, if only {}"));
    }
    let (server, rule, place) = match evidence.era {
        Some(Era::Modern) => (&evidence.welcome["_meta"][meta::SERVER], "MOD-7", "in _meta"),
        _ => (&evidence.welcome["serverInfo"], "LIF-1", "as serverInfo"),
    };
    if !server["name"].is_string() || !server["version"].is_string() {
        let what = "the server does not say its name and version";
        let finding = Finding::warning("greeting.server", what).rule(rule);
        findings.push(finding.remedy(format!("say {{\"name\", \"version\"}} {place}")));
    }
    findings
}

pub(super) fn says_what_a_modern_server_must(evidence: &Evidence) -> Vec<Finding> {
    if evidence.era != Some(Era::Modern) || evidence.welcome.is_null() {
        return Vec::new();
    }
    let welcome = &evidence.welcome;
    let mut findings = Vec::new();
    if !welcome["supportedVersions"]
        .as_array()
        .is_some_and(|list| list.iter().all(Value::is_string))
    {
        let what = "server/discover does not list the versions";
        let finding = Finding::error("discover.versions", what).rule("DISC-2");
        findings.push(finding.remedy("say supportedVersions: [\"…\"]"));
    }
    if welcome.get("resultType").is_none() {
        let finding = Finding::warning("discover.result-type", "results have no resultType");
        findings.push(finding.rule("MOD-6").remedy("say \"resultType\": \"complete\""));
    }
    findings
}
