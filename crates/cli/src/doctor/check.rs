//! The checks of the doctor: one function for each question that it asks of the evidence.
//! Those here look at the handshake, the messages and the time that steps take.

use std::time::Duration;

use serde_json::Value;
use switchboard_proto::method::{self, meta};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision, era_of};

use super::evidence::{Evidence, ExchangeResult, Transport};
use super::visit::NO_METHOD;
use super::{Finding, in_words};
use transport::is_silent;

mod lists;
mod transport;

/// Looks at the evidence for one thing.
pub(super) type Check = fn(&Evidence) -> Vec<Finding>;

/// All of them, in the order in which a person would ask.
pub(super) const ALL: &[Check] = &[
    transport::starts_its_command,
    transport::connects,
    transport::is_at_another_path,
    transport::has_moved,
    transport::ends_early,
    transport::writes_only_messages,
    transport::bears_the_question_for_its_era,
    transport::ends_with_its_stdin,
    transport::lets_us_in,
    transport::has_an_endpoint,
    transport::opens_the_stream_that_was_wanted,
    transport::takes_our_media_types,
    transport::does_not_break,
    transport::answers_with_json_or_a_stream,
    transport::accepts_the_end_of_the_handshake,
    transport::listens_or_says_that_it_does_not,
    transport::keeps_its_sessions_apart,
    transport::gives_out_the_session_it_wants,
    transport::ends_sessions,
    answers_the_greeting,
    agrees_on_a_version,
    says_what_it_is,
    says_what_a_modern_server_must,
    answers_with_the_id_it_was_asked_with,
    answers_in_jsonrpc,
    answers_only_what_was_asked,
    asks_only_what_it_may,
    refuses_what_it_does_not_know,
    answers_pings,
    lists::has_what_it_announces,
    lists::announces_what_it_has,
    lists::come_to_an_end,
    lists::say_how_long_they_last,
    lists::tools_have_usable_names,
    lists::tools_have_valid_schemas,
    lists::tools_have_valid_header_annotations,
    lists::names_are_unique,
    lists::tools_are_described,
    is_quick,
];

fn answers_the_greeting(evidence: &Evidence) -> Vec<Finding> {
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

fn agrees_on_a_version(evidence: &Evidence) -> Vec<Finding> {
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

fn says_what_it_is(evidence: &Evidence) -> Vec<Finding> {
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

fn says_what_a_modern_server_must(evidence: &Evidence) -> Vec<Finding> {
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

fn answers_with_the_id_it_was_asked_with(evidence: &Evidence) -> Vec<Finding> {
    let wrong = evidence.exchanges.iter().find_map(|asked| {
        let message = asked.outcome.message()?;
        let got = message.get("id").unwrap_or(&Value::Null);
        let unread = got.is_null() && message.get("error").is_some();
        (*got != asked.id && !unread).then_some((asked, got))
    });
    let finding = wrong.map(|(asked, got)| {
        let what = format!("{} had the id {}, and its answer has {got}", asked.method, asked.id);
        Finding::error("message.id", what)
            .rule("MSG-3")
            .remedy("repeat the id as it came: a number stays a number, a text a text")
    });
    finding.into_iter().collect()
}

fn answers_in_jsonrpc(evidence: &Evidence) -> Vec<Finding> {
    let messages = evidence.exchanges.iter();
    let messages = messages.filter_map(|asked| Some((&asked.method, asked.outcome.message()?)));
    let mut findings = Vec::new();
    for (method, message) in messages {
        let finding = if message["jsonrpc"] != "2.0" {
            Finding::error(
                "message.version",
                format!("the answer to {method} lacks \"jsonrpc\": \"2.0\""),
            )
            .rule("MSG-1")
            .remedy("say it in every message")
        } else if message.get("result").is_some() && message.get("error").is_some() {
            Finding::error(
                "message.both",
                format!("the answer to {method} has a result and an error"),
            )
            .rule("MSG-3")
            .remedy("leave out the one that is not meant, also if it is null")
        } else if let Some(error) = message.get("error")
            && !(error["code"].is_i64() && error["message"].is_string())
        {
            Finding::error(
                "message.error",
                format!("the error of {method} has no code and message"),
            )
            .rule("MSG-5")
            .remedy("an error has an integer code and a text as its message")
        } else {
            continue;
        };
        findings.push(finding);
        // One of a kind is enough.
        break;
    }
    findings
}

fn answers_only_what_was_asked(evidence: &Evidence) -> Vec<Finding> {
    let Some(id) = evidence.heard.unasked.first() else { return Vec::new() };
    let what = format!("the server answers a request with the id {id}, which nobody made");
    let finding = Finding::error("message.unasked", what).rule("MSG-3");
    vec![finding.remedy("answer each request once, and nothing else")]
}

fn asks_only_what_it_may(evidence: &Evidence) -> Vec<Finding> {
    let Some(method) = evidence.heard.asked.first() else { return Vec::new() };
    let (rule, what) = match evidence.era {
        Some(Era::Modern) => ("MOD-1", format!("the server sends a request ({method})")),
        _ => ("LIF-3", format!("the server asks for {method}, which this client does not offer")),
    };
    let remedy = "look at the capabilities of the client before asking";
    vec![Finding::warning("message.asks", what).rule(rule).remedy(remedy)]
}

fn refuses_what_it_does_not_know(evidence: &Evidence) -> Vec<Finding> {
    let Some(asked) = evidence.exchange(NO_METHOD) else { return Vec::new() };
    let right = Refusal::UnknownMethod { method: String::new() }.rpc_code();
    let finding = match &asked.outcome {
        outcome @ ExchangeResult::Answer { .. } => match outcome.error() {
            Some(error) if error["code"] == right => return Vec::new(),
            Some(error) => {
                let what = format!("an unknown method is answered with error {}", error["code"]);
                Finding::note("message.unknown-method", what)
            }
            None => Finding::error(
                "message.unknown-method",
                "a method that does not exist has a result",
            ),
        },
        outcome => {
            let what = format!("a method that does not exist {}", in_words(outcome));
            Finding::warning("message.unknown-method", what)
        }
    };
    vec![finding.rule("MH-13").remedy(format!("answer it with error {right}, Method not found"))]
}

fn answers_pings(evidence: &Evidence) -> Vec<Finding> {
    let asked = evidence.exchange(method::PING).filter(|asked| asked.outcome.result().is_none());
    let finding = asked.map(|asked| {
        let what = format!("ping {}", in_words(&asked.outcome));
        let remedy = "answer it with an empty result; clients take this for a dead server";
        Finding::error("message.ping", what).rule("UTL-3").remedy(remedy)
    });
    finding.into_iter().collect()
}

/// What a person waits for without wondering.
const USUAL: Duration = Duration::from_secs(1);
/// A start may install things.
const START: Duration = Duration::from_secs(10);

fn is_quick(evidence: &Evidence) -> Vec<Finding> {
    let slow = evidence.steps.iter().filter(|step| {
        let is_start = [method::INITIALIZE, method::DISCOVER].contains(&step.name.as_str());
        // A child that does not answer has a finding of its own.
        step.took > if is_start { START } else { USUAL } && evidence.was_greeted()
    });
    let slow = slow.map(|step| {
        let what = format!("{} takes {:.1} s", step.name, step.took.as_secs_f64());
        let remedy = match step.name.as_str() {
            "resolve" => "look at the DNS servers of this machine",
            "connect" | "TLS" => "the way to the server is long, or the server is busy",
            _ => "clients wait for it at each start; some give up after 10 seconds",
        };
        Finding::warning("slow", what).remedy(remedy)
    });
    slow.collect()
}

#[cfg(test)]
mod tests;
