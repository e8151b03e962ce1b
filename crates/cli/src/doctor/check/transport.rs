//! Checks of the way to a server: whether it starts, connects, and keeps the rules of
//! stdio or HTTP.

use http::header::LOCATION;
use switchboard_net::http::fetch::FetchError;
use switchboard_proto::header::SESSION_ID;
use switchboard_proto::method;

use crate::doctor::Severity::{Error, Note, Warning};
use crate::doctor::evidence::{Evidence, Facts, RequestResult, Trial, VisitedTransport};
use crate::doctor::{Findings, in_words, with_cause};

/// How the first words were received, if they got us nowhere.
fn refused(evidence: &Evidence) -> Option<&Facts> {
    let first = evidence.outcome(method::INITIALIZE).or(evidence.outcome(method::DISCOVER));
    first.filter(|_| !evidence.was_greeted())?.facts()
}

/// Whether `initialize` was answered with a message.
fn is_told(evidence: &Evidence) -> bool {
    evidence.outcome(method::INITIALIZE).is_some_and(|first| first.message().is_some())
}

/// What the body says, if it is short and no page.
pub(super) fn said(facts: &Facts) -> String {
    let text = facts.body.trim();
    if text.is_empty() || facts.is_html() {
        return String::new();
    }
    let line: String = text.lines().next().unwrap_or_default().chars().take(160).collect();
    format!(": {line}")
}

/// A refused greeting is told by its status.
pub(super) fn takes_the_greeting(evidence: &Evidence, found: &mut Findings) {
    let upset = evidence.facts(method::DISCOVER).filter(|_| evidence.was_greeted());
    if let Some(facts) = upset.filter(|facts| facts.status >= 500) {
        let what = format!("server/discover is answered with HTTP {}", facts.status);
        let remedy = "answer methods you do not know with 400 or 404 and a JSON-RPC error; \
                      clients of newer revisions take this for a broken server";
        found.add(Warning, "http.probe", "NEG-5", what, remedy);
    }
    let Some(facts) = refused(evidence) else { return };
    let (status, said) = (facts.status, said(facts));
    let wrong_path = "check the path: often it ends in /mcp, or in /sse for an older server";
    let (id, rule, what, remedy) = match status {
        ..300 if facts.is_html() => {
            let what = "there is a web page at this URL, and no MCP server".to_owned();
            let remedy = "the path is missing or wrong: often it ends in /mcp or /sse";
            ("http.html", "HTTP-5", what, remedy)
        }
        403 | 407 => {
            let what = format!("the server does not let us in (HTTP {status}){said}");
            let remedy = "the token lacks a right, or the server does not take this Host or \
                          Origin: look for its list of allowed hosts";
            ("http.403", "MH-11", what, remedy)
        }
        404 | 410 => {
            let what = format!("there is nothing at this path (HTTP {status}){said}");
            ("http.404", "HTTP-1", what, wrong_path)
        }
        405 => {
            let what = format!("this path takes no POST (HTTP 405){said}");
            ("http.405", "HTTP-1", what, wrong_path)
        }
        // With a JSON-RPC error, a 400 is the server's own refusal.
        400 if !is_told(evidence) => {
            let what = format!("the greeting is refused (HTTP 400){said}");
            let remedy = "what the server says is the reason; a proxy in front may need a header";
            ("http.400", "HTTP-1", what, remedy)
        }
        406 | 415 => {
            let (id, header) = match status {
                406 => ("http.406", "Accept: application/json, text/event-stream"),
                _ => ("http.415", "Content-Type: application/json"),
            };
            let what = format!("the server refuses {header} (HTTP {status})");
            let remedy =
                "every client sends this; the server, or a proxy in front of it, has to take it";
            (id, "HTTP-2", what, remedy)
        }
        429 => {
            let what = format!("the server has had too many requests (HTTP 429){said}");
            let remedy = "wait, and look again; a proxy in front may limit requests by address";
            ("http.429", "", what, remedy)
        }
        402..500 => {
            let what = format!("the greeting is refused (HTTP {status}){said}");
            let remedy = "what the server says is the reason; a proxy in front may need a header";
            ("http.refused", "", what, remedy)
        }
        500.. => {
            let what = format!("the server fails (HTTP {status}){said}");
            let remedy = "look into the server's log; 502 to 504 come from a proxy in front that \
                          does not reach it";
            ("http.500", "MH-14", what, remedy)
        }
        _ => return,
    };
    found.add(Error, id, rule, what, remedy);
}

pub(super) fn opens_the_stream_that_was_wanted(evidence: &Evidence, found: &mut Findings) {
    // A server that was also asked over another transport has findings of that transport.
    let is_all = evidence.requests.is_empty();
    let Some(outcome) = evidence.no_stream.as_ref().filter(|_| is_all) else { return };
    let what = match outcome {
        RequestResult::Http(facts) if facts.status == 200 && facts.is_stream() => {
            "the event stream does not begin with the address to post to".to_owned()
        }
        RequestResult::Http(facts) => format!(
            "a GET for the event stream is answered with HTTP {} {}",
            facts.status,
            facts.kind_or("")
        ),
        outcome => format!("a GET for the event stream {}", in_words(outcome)),
    };
    let remedy = "this is no HTTP+SSE endpoint; leave out --transport sse-only, or \"sse\"";
    found.add(Error, "sse.stream", "OLD-2", what, remedy);
}

pub(super) fn answers_with_json_or_a_stream(evidence: &Evidence, found: &mut Findings) {
    let answers = evidence.requests.iter().filter(|asked| asked.outcome.message().is_some());
    let mut answers = answers.filter_map(|asked| asked.outcome.facts());
    let is_odd = |facts: &&Facts| {
        facts.media_type() != "application/json" && !facts.is_stream() && facts.status < 300
    };
    if let Some(facts) = answers.find(is_odd) {
        let kind = facts.kind_or("nothing");
        let what = format!("answers are JSON, but their Content-Type says {kind}");
        let remedy = "send Content-Type: application/json, or text/event-stream for a stream";
        found.add(Error, "http.content-type", "HTTP-5", what, remedy);
    }
    let empty = refused(evidence).filter(|facts| facts.status < 300 && !facts.is_html());
    if let Some(facts) = empty.filter(|_| !is_told(evidence)) {
        let (kind, said) = (facts.kind_or("no Content-Type"), said(facts));
        let what = format!(
            "the greeting is answered with HTTP {} and {kind}, but with no JSON-RPC answer{said}",
            facts.status
        );
        let remedy = "answer a request with its JSON-RPC response, as JSON or on an event stream";
        found.add(Error, "http.no-answer", "HTTP-5", what, remedy);
    }
}

pub(super) fn accepts_the_end_of_the_handshake(evidence: &Evidence, found: &mut Findings) {
    let (id, rule) = ("http.notification", "HTTP-4");
    let what = match evidence.trial(Trial::Initialized) {
        None => return,
        Some(Ok(facts)) if facts.status == 202 => return,
        Some(Ok(facts)) if (200..300).contains(&facts.status) => {
            let what = format!("notifications are answered with HTTP {}", facts.status);
            return found.add(Warning, id, rule, what, "answer them with 202 and no body");
        }
        Some(Ok(Facts { status, .. })) => {
            format!("notifications/initialized is refused (HTTP {status})")
        }
        Some(Err(why)) => format!("notifications/initialized gets no answer: {why}"),
    };
    found.add(Error, id, rule, what, "answer it with 202");
}

pub(super) fn listens_or_says_that_it_does_not(evidence: &Evidence, found: &mut Findings) {
    let what = match evidence.trial(Trial::Listen) {
        None => return,
        Some(Ok(facts)) => match facts.status {
            405 => return,
            200 if facts.is_stream() => return,
            200 => format!("a GET for a stream is answered with {}", facts.kind_or("")),
            status => format!("a GET for a stream is answered with HTTP {status}"),
        },
        Some(Err(why)) => format!("a GET for a stream gets no answer: {why}"),
    };
    let remedy = "open an event stream at once, or answer 405 if there is nothing to say on it";
    found.add(Warning, "http.get", "HTTP-13", what, remedy);
}

pub(super) fn keeps_its_sessions_apart(evidence: &Evidence, found: &mut Findings) {
    let greeting = evidence.facts(method::INITIALIZE);
    if let Some(session) = greeting.and_then(|facts| facts.header(SESSION_ID))
        && (session.is_empty() || !session.bytes().all(|byte| (0x21..=0x7e).contains(&byte)))
    {
        let what = "the session id has characters that are not visible ASCII";
        found.add(Error, "http.session-id", "HTTP-20", what, "use a UUID, or the like");
    }
    if let Some(Ok(facts)) = evidence.trial(Trial::NoSession)
        && facts.status != 400
    {
        let what = format!("a call without its session is answered with HTTP {}", facts.status);
        let remedy = "answer 400 to what lacks the Mcp-Session-Id header";
        found.add(Note, "http.no-session", "HTTP-21", what, remedy);
    }
    if let Some(Ok(facts)) = evidence.trial(Trial::StrangeSession)
        && facts.status != 404
    {
        let what = format!("a session that is not there is answered with HTTP {}", facts.status);
        let remedy = "answer 404: it makes clients greet anew; with another status they stay dead \
                      after each restart of the server";
        found.add(Warning, "http.lost-session", "HTTP-22", what, remedy);
    }
    let has_none = greeting.is_some_and(|facts| facts.header(SESSION_ID).is_none());
    let is_400 = |facts: Option<&Facts>| facts.is_some_and(|facts| facts.status == 400);
    let is_refused = evidence.trials.iter().any(|(_, outcome)| is_400(outcome.as_ref().ok()))
        && is_400(evidence.facts(method::PING));
    if has_none && is_refused {
        let what =
            "calls are refused (HTTP 400) as if they lacked a session, but none was given out";
        let remedy =
            "send Mcp-Session-Id with the answer to initialize; a proxy in front may take it off";
        found.add(Error, "http.session-missing", "HTTP-20", what, remedy);
    }
}

pub(super) fn ends_sessions(evidence: &Evidence, found: &mut Findings) {
    let (id, rule) = ("http.delete", "HTTP-23");
    let what = match evidence.trial(Trial::Delete) {
        None => return,
        Some(Ok(facts)) => match facts.status {
            200..300 => return,
            405 => {
                let what = "sessions cannot be ended by clients (DELETE is 405)";
                let remedy = "allowed; but make sure that unused ones end by themselves";
                return found.add(Note, id, rule, what, remedy);
            }
            status => format!("DELETE is answered with HTTP {status}"),
        },
        Some(Err(why)) => format!("DELETE gets no answer: {why}"),
    };
    let remedy = "end the session and answer 2xx, or 405 if clients may not; else sessions pile up";
    found.add(Warning, id, rule, what, remedy);
}

pub(super) fn connects(evidence: &Evidence, found: &mut Findings) {
    if let Some(RequestResult::Gone { text }) = &evidence.unreached {
        let what = format!("the command does not start: {text}");
        let remedy = "run it by itself in a terminal; what works there has to be written here";
        found.add(Error, "command.start", "", what, remedy);
    }
    let asked = evidence.requests.iter().map(|asked| &asked.outcome);
    let lost = evidence.unreached.iter().chain(asked).find_map(|outcome| match outcome {
        RequestResult::Lost(error) => Some(error),
        _ => None,
    });
    let Some(error) = lost else { return };
    let (id, remedy) = match error {
        FetchError::Unresolved { .. } => (
            "connect.dns",
            "check the name of the host; inside a container or a VPN it may have another",
        ),
        FetchError::Refused { .. } => (
            "connect.refused",
            "start the server, or check the port; in a container it must listen on 0.0.0.0",
        ),
        FetchError::TimedOut { .. } => (
            "connect.timeout",
            "a firewall or a wrong address; can the host be reached from here at all?",
        ),
        FetchError::Tls { .. } => {
            ("connect.tls", "see what it shows: openssl s_client -connect HOST:PORT -showcerts")
        }
        FetchError::ProxyRefused { .. } => {
            ("connect.proxy", "check HTTPS_PROXY and its credentials, or name the host in NO_PROXY")
        }
        FetchError::Lost { .. } => (
            "connect.lost",
            "the server hangs up on requests; look into its log, or is it https://?",
        ),
        FetchError::RedirectRefused { .. } | FetchError::TooManyRedirects { .. } => {
            let remedy = "use the URL it leads to";
            return found.add(Error, "http.redirect", "MH-18", with_cause(error), remedy);
        }
        _ => ("connect.failed", "check the URL and the network"),
    };
    found.add(Error, id, "", with_cause(error), remedy);
}

pub(super) fn is_verified(evidence: &Evidence, found: &mut Findings) {
    if evidence.is_insecure {
        let what = "the certificate of the server is not verified: whoever is on the way can read \
                    and change all that is sent";
        let remedy = "leave out --insecure, or \"insecure\" in the file, and trust the server by \
                      --ca-file PEM, or \"caFile\"";
        found.add(Warning, "connect.insecure", "", what, remedy);
    }
}

pub(super) fn is_elsewhere(evidence: &Evidence, found: &mut Findings) {
    for url in &evidence.siblings {
        let what = format!("a server answers at {url}");
        found.add(Note, "http.sibling", "", what, "if that is the one you mean, use this URL");
    }
    let bare = |url: &str| url.split(['?', '#']).next().unwrap_or_default().to_owned();
    if let Some(url) = &evidence.moved {
        let what = format!("the server redirects to {}", bare(url));
        let remedy = "use that URL: not every client follows, and each call takes twice as long";
        found.add(Warning, "http.moved", "MH-18", what, remedy);
    }
    let mut answers = evidence.requests.iter().rev().filter_map(|asked| asked.outcome.facts());
    let elsewhere = answers.find(|facts| matches!(facts.status, 301 | 302 | 303 | 307 | 308));
    if let Some(facts) = elsewhere.filter(|_| !evidence.was_greeted()) {
        let to = bare(&facts.header(LOCATION).unwrap_or("nowhere".into()));
        let what = format!("the server redirects (HTTP {}) to {to}", facts.status);
        let remedy = "use that URL if you trust it; a redirect to a login page means that it wants \
                      a token";
        found.add(Error, "http.redirect", "MH-18", what, remedy);
    }
}

fn is_stdio(evidence: &Evidence) -> bool {
    evidence.transport == Some(VisitedTransport::Stdio)
}

pub(super) fn ends_early(evidence: &Evidence, found: &mut Findings) {
    let Some(last) = evidence.requests.last().filter(|_| is_stdio(evidence)) else { return };
    let RequestResult::Gone { text } = &last.outcome else { return };
    if evidence.was_greeted() {
        let what = format!("the server ends on {}: {text}", last.method);
        let remedy = "what it says on stderr is the reason; --log-level debug shows all of it";
        found.add(Error, "command.dies", "STD-10", what, remedy);
    } else {
        let what = format!("the server ends before it can be greeted: {text}");
        let remedy = "what it says on stderr is the reason: a missing variable (--env NAME=VALUE, or \
             --pass-environment), a wrong argument, or a program that is no MCP server";
        found.add(Error, "command.exits", "LIF-1", what, remedy);
    }
}

pub(super) fn writes_only_messages(evidence: &Evidence, found: &mut Findings) {
    let strays = &evidence.heard.strays;
    let Some(first) = strays.first() else { return };
    let more = match strays.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let (id, rule, place) = match evidence.transport {
        Some(VisitedTransport::Stdio) => ("stdio.garbage", "STD-2", "on stdout"),
        _ => ("http.garbage", "MSG-1", "in its streams"),
    };
    let what = format!("the server writes {place} what is no message: {first:?}{more}");
    let remedy = if is_stdio(evidence) && first.starts_with("http") {
        "the command serves at this URL and not on stdio: name the URL instead of the command; \
         switchboard itself needs serve --stdio, or bridge without --port"
    } else {
        "write logs to stderr; look for print, console.log and banners of libraries"
    };
    found.add(Error, id, rule, what, remedy);
}

pub(super) fn behaves_on_stdio(evidence: &Evidence, found: &mut Findings) {
    // A child that was silent or died when it was asked for its era.
    let probed = evidence.outcome(method::DISCOVER).filter(|_| evidence.was_greeted());
    let upset = probed.filter(|outcome| is_stdio(evidence) && outcome.message().is_none());
    if let Some(outcome) = upset {
        let what = format!("server/discover {}", in_words(outcome));
        let remedy = "answer methods you do not know with an error; until then clients of newer \
                      revisions start the server twice. --era legacy spares it the question";
        found.add(Warning, "stdio.probe", "NEG-7", what, remedy);
    }
    if is_stdio(evidence) && evidence.outstayed {
        let what = "the server goes on after its stdin is closed, and has to be killed";
        let remedy = "end when stdin ends; otherwise clients that crash leave processes behind";
        found.add(Warning, "stdio.outstays", "STD-5", what, remedy);
    }
}
