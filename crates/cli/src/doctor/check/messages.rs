//! The shape of what the server says.

use serde_json::Value;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use crate::doctor::evidence::{Evidence, ExchangeResult};
use crate::doctor::report::{Finding, in_words};
use crate::doctor::visit::NO_METHOD;

pub(super) fn answers_with_the_id_it_was_asked_with(evidence: &Evidence) -> Vec<Finding> {
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

pub(super) fn answers_in_jsonrpc(evidence: &Evidence) -> Vec<Finding> {
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

pub(super) fn answers_only_what_was_asked(evidence: &Evidence) -> Vec<Finding> {
    let Some(id) = evidence.heard.unasked.first() else { return Vec::new() };
    let what = format!("the server answers a request with the id {id}, which nobody made");
    let finding = Finding::error("message.unasked", what).rule("MSG-3");
    vec![finding.remedy("answer each request once, and nothing else")]
}

pub(super) fn asks_only_what_it_may(evidence: &Evidence) -> Vec<Finding> {
    let Some(method) = evidence.heard.asked.first() else { return Vec::new() };
    let (rule, what) = match evidence.era {
        Some(Era::Modern) => ("MOD-1", format!("the server sends a request ({method})")),
        _ => ("LIF-3", format!("the server asks for {method}, which this client does not offer")),
    };
    let remedy = "look at the capabilities of the client before asking";
    vec![Finding::warning("message.asks", what).rule(rule).remedy(remedy)]
}

pub(super) fn refuses_what_it_does_not_know(evidence: &Evidence) -> Vec<Finding> {
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

pub(super) fn answers_pings(evidence: &Evidence) -> Vec<Finding> {
    let asked = evidence.exchange(method::PING).filter(|asked| asked.outcome.result().is_none());
    let finding = asked.map(|asked| {
        let what = format!("ping {}", in_words(&asked.outcome));
        let remedy = "answer it with an empty result; clients take this for a dead server";
        Finding::error("message.ping", what).rule("UTL-3").remedy(remedy)
    });
    finding.into_iter().collect()
}
