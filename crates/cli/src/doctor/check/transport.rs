//! Checks of the way to a server: whether it starts, connects, and keeps the rules of
//! stdio or HTTP.

use switchboard_net::http::fetch::FetchError;
use switchboard_proto::method;
use switchboard_proto::revision::Era;

use crate::doctor::evidence::{
    Evidence, ExchangeResult, Facts, Reply, Transport, Trial, Unreached,
};
use crate::doctor::{Finding, in_words};

/// How the first words were received, if they got us nowhere.
fn refused(evidence: &Evidence) -> Option<&Facts> {
    let first = evidence.exchange(method::INITIALIZE).or(evidence.exchange(method::DISCOVER));
    first.filter(|_| !evidence.was_greeted())?.outcome.facts()
}

fn when(
    evidence: &Evidence,
    wanted: impl Fn(u16) -> bool,
    finding: impl Fn(&Facts) -> Finding,
) -> Vec<Finding> {
    refused(evidence).filter(|facts| wanted(facts.status)).map(finding).into_iter().collect()
}

/// What the body says, if it is short and no page.
fn said(facts: &Facts) -> String {
    let text = facts.body.trim();
    if text.is_empty() || facts.is_html() {
        return String::new();
    }
    let line: String = text.lines().next().unwrap_or_default().chars().take(160).collect();
    format!(": {line}")
}

pub(super) fn lets_us_in(evidence: &Evidence) -> Vec<Finding> {
    when(
        evidence,
        |status| matches!(status, 401 | 403 | 407),
        |facts| {
            let said = said(facts);
            if facts.status == 401 {
                let how = match &facts.challenge {
                    Some(_) => "it says how to get one in WWW-Authenticate",
                    None => "it does not say how to get one (no WWW-Authenticate)",
                };
                return Finding::error(
                    "http.401",
                    format!("the server wants a token{said}; {how}"),
                )
                .rule("AUTH-1")
                .remedy("send one: --header 'Authorization: Bearer ${TOKEN}'");
            }
            let what = format!("the server does not let us in (HTTP {}){said}", facts.status);
            Finding::error("http.403", what).rule("MH-11").remedy(
                "the token lacks a right, or the server does not take this Host or Origin: \
             look for its list of allowed hosts",
            )
        },
    )
}

pub(super) fn has_an_endpoint(evidence: &Evidence) -> Vec<Finding> {
    let is_page = refused(evidence).is_some_and(|facts| facts.status < 300 && facts.is_html());
    if is_page {
        let what = "there is a web page at this URL, and no MCP server";
        let finding = Finding::error("http.html", what).rule("HTTP-5");
        return vec![finding.remedy("the path is missing or wrong: often it ends in /mcp or /sse")];
    }
    // With a JSON-RPC error, a 400 is the server's own refusal.
    let is_told = first_answer(evidence).is_some();
    when(
        evidence,
        |status| matches!(status, 404 | 405 | 410) || (status == 400 && !is_told),
        |facts| {
            let (said, status) = (said(facts), facts.status);
            let (id, what) = match status {
                404 | 410 => {
                    ("http.404", format!("there is nothing at this path (HTTP {status}){said}"))
                }
                405 => ("http.405", format!("this path takes no POST (HTTP 405){said}")),
                _ => ("http.400", format!("the greeting is refused (HTTP 400){said}")),
            };
            let remedy = match status {
                400 => "what the server says is the reason; a proxy in front may need a header",
                _ => "check the path: often it ends in /mcp, or in /sse for an older server",
            };
            Finding::error(id, what).rule("HTTP-1").remedy(remedy)
        },
    )
}

pub(super) fn opens_the_stream_that_was_wanted(evidence: &Evidence) -> Vec<Finding> {
    // A server that was also asked over another transport has findings of that transport.
    let is_all = evidence.exchanges.is_empty();
    let Some(outcome) = evidence.no_stream.as_ref().filter(|_| is_all) else { return Vec::new() };
    let what = match outcome {
        ExchangeResult::Http(facts) if facts.status == 200 && facts.is_stream() => {
            "the event stream does not begin with the address to post to".to_owned()
        }
        ExchangeResult::Http(facts) => format!(
            "a GET for the event stream is answered with HTTP {} {}",
            facts.status, facts.content_type
        ),
        outcome => format!("a GET for the event stream {}", in_words(outcome)),
    };
    let finding = Finding::error("sse.stream", what).rule("OLD-2");
    vec![finding.remedy("this is no HTTP+SSE endpoint; leave out --transport sse-only, or \"sse\"")]
}

pub(super) fn takes_our_media_types(evidence: &Evidence) -> Vec<Finding> {
    when(
        evidence,
        |status| matches!(status, 406 | 415),
        |facts| {
            let (id, header) = match facts.status {
                406 => ("http.406", "Accept: application/json, text/event-stream"),
                _ => ("http.415", "Content-Type: application/json"),
            };
            let what = format!("the server refuses {header} (HTTP {})", facts.status);
            Finding::error(id, what).rule("HTTP-2").remedy(
                "every client sends this; the server, or a proxy in front of it, has to take it",
            )
        },
    )
}

pub(super) fn does_not_break(evidence: &Evidence) -> Vec<Finding> {
    let upset = evidence.exchange(method::DISCOVER).and_then(|asked| asked.outcome.facts());
    let upset = upset.filter(|facts| facts.status >= 500 && evidence.was_greeted()).map(|facts| {
        let what = format!("server/discover is answered with HTTP {}", facts.status);
        Finding::warning("http.probe", what).rule("NEG-5").remedy(
            "answer methods you do not know with 400 or 404 and a JSON-RPC error; clients of newer \
             revisions take this for a broken server",
        )
    });
    let broken = when(
        evidence,
        |status| status >= 500,
        |facts| {
            let what = format!("the server fails (HTTP {}){}", facts.status, said(facts));
            Finding::error("http.500", what).rule("MH-14").remedy(
            "look into the server's log; 502 to 504 come from a proxy in front that does not reach it",
        )
        },
    );
    upset.into_iter().chain(broken).collect()
}

pub(super) fn answers_with_json_or_a_stream(evidence: &Evidence) -> Vec<Finding> {
    let answers = evidence.exchanges.iter().filter(|asked| asked.outcome.message().is_some());
    let odd = answers
        .filter_map(|asked| asked.outcome.facts())
        .find(|facts| !facts.is_json() && !facts.is_stream() && facts.status < 300);
    let odd = odd.map(|facts| {
        let kind = if facts.content_type.is_empty() { "nothing" } else { &facts.content_type };
        let what = format!("answers are JSON, but their Content-Type says {kind}");
        Finding::error("http.content-type", what)
            .rule("HTTP-5")
            .remedy("send Content-Type: application/json, or text/event-stream for a stream")
    });
    let empty = refused(evidence).filter(|facts| facts.status < 300 && !facts.is_html());
    let empty = empty.filter(|_| first_answer(evidence).is_none()).map(|facts| {
        let kind =
            if facts.content_type.is_empty() { "no Content-Type" } else { &facts.content_type };
        let what = format!(
            "the greeting is answered with HTTP {} and {kind}, but with no JSON-RPC answer{}",
            facts.status,
            said(facts)
        );
        Finding::error("http.no-answer", what)
            .rule("HTTP-5")
            .remedy("answer a request with its JSON-RPC response, as JSON or on an event stream")
    });
    odd.into_iter().chain(empty).collect()
}

fn first_answer(evidence: &Evidence) -> Option<&serde_json::Value> {
    evidence.exchange(method::INITIALIZE)?.outcome.message()
}

/// What a trial came to, with a word for a response that did not come.
fn facts(evidence: &Evidence, trial: Trial) -> Option<Result<&Facts, String>> {
    Some(match evidence.trial(trial)? {
        Reply::Http(facts) => Ok(facts),
        Reply::Lost(error) => Err(error.to_string()),
        Reply::Silence => Err("no response in time".to_owned()),
    })
}

pub(super) fn accepts_the_end_of_the_handshake(evidence: &Evidence) -> Vec<Finding> {
    let finding = match facts(evidence, Trial::Initialized) {
        None => None,
        Some(Ok(facts)) if facts.status == 202 => None,
        Some(Ok(facts)) if (200..300).contains(&facts.status) => {
            let what = format!("notifications are answered with HTTP {}", facts.status);
            let finding = Finding::warning("http.notification", what);
            Some(finding.rule("HTTP-4").remedy("answer them with 202 and no body"))
        }
        Some(Ok(facts)) => {
            let what = format!("notifications/initialized is refused (HTTP {})", facts.status);
            Some(
                Finding::error("http.notification", what)
                    .rule("HTTP-4")
                    .remedy("answer it with 202"),
            )
        }
        Some(Err(why)) => {
            let what = format!("notifications/initialized gets no answer: {why}");
            Some(
                Finding::error("http.notification", what)
                    .rule("HTTP-4")
                    .remedy("answer it with 202"),
            )
        }
    };
    finding.into_iter().collect()
}

pub(super) fn listens_or_says_that_it_does_not(evidence: &Evidence) -> Vec<Finding> {
    let what = match facts(evidence, Trial::Listen) {
        None => return Vec::new(),
        Some(Ok(facts)) if facts.status == 405 || (facts.status == 200 && facts.is_stream()) => {
            return Vec::new();
        }
        Some(Ok(facts)) if facts.status == 200 => {
            format!("a GET for a stream is answered with {}", facts.content_type)
        }
        Some(Ok(facts)) => format!("a GET for a stream is answered with HTTP {}", facts.status),
        Some(Err(why)) => format!("a GET for a stream gets no answer: {why}"),
    };
    let finding = Finding::warning("http.get", what)
        .rule("HTTP-13")
        .remedy("open an event stream at once, or answer 405 if there is nothing to say on it");
    vec![finding]
}

pub(super) fn keeps_its_sessions_apart(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    let greeting = evidence.exchange(method::INITIALIZE).and_then(|asked| asked.outcome.facts());
    if let Some(session) = greeting.and_then(|facts| facts.session.as_deref())
        && (session.is_empty() || !session.bytes().all(|byte| (0x21..=0x7e).contains(&byte)))
    {
        let what = "the session id has characters that are not visible ASCII";
        let finding = Finding::error("http.session-id", what).rule("HTTP-20");
        findings.push(finding.remedy("use a UUID, or the like"));
    }
    if let Some(Ok(facts)) = facts(evidence, Trial::NoSession)
        && facts.status != 400
    {
        let what = format!("a call without its session is answered with HTTP {}", facts.status);
        let finding = Finding::note("http.no-session", what).rule("HTTP-21");
        findings.push(finding.remedy("answer 400 to what lacks the Mcp-Session-Id header"));
    }
    if let Some(Ok(facts)) = facts(evidence, Trial::StrangeSession)
        && facts.status != 404
    {
        let what = format!("a session that is not there is answered with HTTP {}", facts.status);
        let finding = Finding::warning("http.lost-session", what).rule("HTTP-22");
        findings.push(finding.remedy(
            "answer 404: it makes clients greet anew; with another status they stay dead after \
             each restart of the server",
        ));
    }
    findings
}

pub(super) fn gives_out_the_session_it_wants(evidence: &Evidence) -> Vec<Finding> {
    let greeting = evidence.exchange(method::INITIALIZE).and_then(|asked| asked.outcome.facts());
    let has_none = greeting.is_some_and(|facts| facts.session.is_none());
    let is_refused =
        |trial: &(Trial, Reply)| matches!(&trial.1, Reply::Http(facts) if facts.status == 400);
    let is_refused = evidence.trials.iter().any(is_refused)
        && evidence
            .exchange(method::PING)
            .is_some_and(|asked| asked.outcome.facts().is_some_and(|facts| facts.status == 400));
    if !has_none || !is_refused {
        return Vec::new();
    }
    let what = "calls are refused (HTTP 400) as if they lacked a session, but none was given out";
    let finding = Finding::error("http.session-missing", what).rule("HTTP-20").remedy(
        "send Mcp-Session-Id with the answer to initialize; a proxy in front may take it off",
    );
    vec![finding]
}

pub(super) fn ends_sessions(evidence: &Evidence) -> Vec<Finding> {
    let finding = match facts(evidence, Trial::Delete) {
        None => None,
        Some(Ok(facts)) if (200..300).contains(&facts.status) => None,
        Some(Ok(facts)) if facts.status == 405 => {
            let what = "sessions cannot be ended by clients (DELETE is 405)";
            let remedy = "allowed; but make sure that unused ones end by themselves";
            Some(Finding::note("http.delete", what).rule("HTTP-23").remedy(remedy))
        }
        Some(Ok(facts)) => Some(delete(format!("DELETE is answered with HTTP {}", facts.status))),
        Some(Err(why)) => Some(delete(format!("DELETE gets no answer: {why}"))),
    };
    finding.filter(|_| evidence.era == Some(Era::Legacy)).into_iter().collect()
}

fn delete(what: String) -> Finding {
    let remedy = "end the session and answer 2xx, or 405 if clients may not; else sessions pile up";
    Finding::warning("http.delete", what).rule("HTTP-23").remedy(remedy)
}

pub(super) fn starts_its_command(evidence: &Evidence) -> Vec<Finding> {
    let Some(Unreached::Spawn { text }) = &evidence.unreached else { return Vec::new() };
    let finding = Finding::error("command.start", format!("the command does not start: {text}"));
    vec![finding.remedy("run it by itself in a terminal; what works there has to be written here")]
}

pub(super) fn connects(evidence: &Evidence) -> Vec<Finding> {
    let lost = match &evidence.unreached {
        Some(Unreached::Fetch(error)) => Some(error),
        _ => evidence.exchanges.iter().find_map(|exchange| match &exchange.outcome {
            ExchangeResult::Lost(error) => Some(error),
            _ => None,
        }),
    };
    lost.map(unreached).into_iter().collect()
}

fn unreached(error: &FetchError) -> Finding {
    let cause = std::error::Error::source(error);
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    let what = format!("{error}{cause}");
    match error {
        FetchError::Unresolved { .. } => Finding::error("connect.dns", what)
            .remedy("check the name of the host; inside a container or a VPN it may have another"),
        FetchError::Refused { .. } => Finding::error("connect.refused", what).remedy(
            "start the server, or check the port; in a container it must listen on 0.0.0.0",
        ),
        FetchError::TimedOut { .. } => Finding::error("connect.timeout", what)
            .remedy("a firewall or a wrong address; can the host be reached from here at all?"),
        FetchError::Tls { .. } => tls(what),
        FetchError::ProxyRefused { .. } => Finding::error("connect.proxy", what)
            .remedy("check HTTPS_PROXY and its credentials, or name the host in NO_PROXY"),
        FetchError::Lost { .. } => Finding::error("connect.lost", what)
            .remedy("the server hangs up on requests; look into its log, or is it https://?"),
        FetchError::RedirectRefused { .. } | FetchError::TooManyRedirects { .. } => {
            Finding::error("http.redirect", what).rule("MH-18").remedy("use the URL it leads to")
        }
        _ => Finding::error("connect.failed", what).remedy("check the URL and the network"),
    }
}

fn tls(what: String) -> Finding {
    let remedy =
        "trust its authority with --ca-file PEM; check its date and name; or is it http://?";
    Finding::error("connect.tls", what).remedy(remedy)
}

pub(super) fn is_at_another_path(evidence: &Evidence) -> Vec<Finding> {
    let found = evidence.siblings.iter().map(|url| {
        Finding::note("http.sibling", format!("a server answers at {url}"))
            .remedy("if that is the one you mean, use this URL")
    });
    found.collect()
}

pub(super) fn has_moved(evidence: &Evidence) -> Vec<Finding> {
    let moved = evidence.moved.as_deref().map(|url| {
        let url = url.split(['?', '#']).next().unwrap_or_default();
        Finding::warning("http.moved", format!("the server redirects to {url}"))
            .rule("MH-18")
            .remedy("use that URL: not every client follows, and each call takes twice as long")
    });
    let elsewhere = evidence.exchanges.iter().rev().find_map(|exchange| {
        let facts = exchange.outcome.facts()?;
        let is_redirect = matches!(facts.status, 301 | 302 | 303 | 307 | 308);
        is_redirect.then_some(facts)
    });
    let elsewhere = elsewhere.filter(|_| !evidence.was_greeted()).map(|facts| {
        let to = facts.location.as_deref().unwrap_or("nowhere");
        let to = to.split(['?', '#']).next().unwrap_or_default();
        let what = format!("the server redirects (HTTP {}) to {to}", facts.status);
        Finding::error("http.redirect", what).rule("MH-18").remedy(
            "use that URL if you trust it; a redirect to a login page means that it wants a token",
        )
    });
    moved.into_iter().chain(elsewhere).collect()
}

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
