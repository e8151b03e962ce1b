//! Servers that are commands.

use switchboard_proto::method;

use crate::doctor::evidence::{Evidence, ExchangeResult, Transport};
use crate::doctor::report::{Finding, in_words};

fn is_stdio(evidence: &Evidence) -> bool {
    evidence.transport == Some(Transport::Stdio)
}

pub(super) fn ends_early(evidence: &Evidence) -> Vec<Finding> {
    let last = evidence.exchanges.last().filter(|_| is_stdio(evidence));
    let Some(ExchangeResult::Gone { text }) = last.map(|last| &last.outcome) else {
        return Vec::new();
    };
    let method = last.map(|last| last.method.as_str()).unwrap_or_default();
    let finding = if evidence.was_greeted() {
        Finding::error("command.dies", format!("the server ends on {method}: {text}"))
            .rule("STD-10")
            .remedy("what it says on stderr is the reason; --log-level debug shows all of it")
    } else {
        Finding::error("command.exits", format!("the server ends before it can be greeted: {text}"))
            .rule("LIF-1")
            .remedy(
                "what it says on stderr is the reason: a missing variable (--env NAME=VALUE, or \
                 --pass-environment), a wrong argument, or a program that is no MCP server",
            )
    };
    vec![finding]
}

pub(super) fn writes_only_messages(evidence: &Evidence) -> Vec<Finding> {
    let strays = &evidence.heard.strays;
    let Some(first) = strays.first() else { return Vec::new() };
    let more = match strays.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let (id, rule, place) = match evidence.transport {
        Some(Transport::Stdio) => ("stdio.garbage", "STD-2", "on stdout"),
        _ => ("http.garbage", "MSG-1", "in its streams"),
    };
    let what = format!("the server writes {place} what is no message: {first:?}{more}");
    let remedy = "write logs to stderr; look for print, console.log and banners of libraries";
    vec![Finding::error(id, what).rule(rule).remedy(remedy)]
}

pub(super) fn bears_the_question_for_its_era(evidence: &Evidence) -> Vec<Finding> {
    let Some(outcome) = evidence.upset_by_probe.as_ref().filter(|_| evidence.was_greeted()) else {
        return Vec::new();
    };
    let what = format!("server/discover {}", in_words(outcome));
    let finding = Finding::warning("stdio.probe", what).rule("NEG-7").remedy(
        "answer methods you do not know with an error; until then clients of newer revisions \
         start the server twice. --era legacy spares it the question",
    );
    vec![finding]
}

pub(super) fn ends_with_its_stdin(evidence: &Evidence) -> Vec<Finding> {
    if !is_stdio(evidence) || !evidence.outstayed {
        return Vec::new();
    }
    let what = "the server goes on after its stdin is closed, and has to be killed";
    let finding = Finding::warning("stdio.outstays", what)
        .rule("STD-5")
        .remedy("end when stdin ends; otherwise clients that crash leave processes behind");
    vec![finding]
}

/// Whether the greeting got no answer at all.
pub(super) fn is_silent(evidence: &Evidence) -> bool {
    let greeting = evidence.exchange(method::INITIALIZE);
    matches!(greeting.map(|greeting| &greeting.outcome), Some(ExchangeResult::Silence))
}
