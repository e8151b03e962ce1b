//! What the doctor says of bad servers at a URL.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};

use crate::doctor::{findings, report};
use crate::process::run;

/// One request, as far as a fault may look at it.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) verb: String,
    pub(crate) path: String,
    /// The address of the server.
    pub(crate) origin: String,
    session: Option<String>,
    method: String,
    message: Value,
}

/// Status, headers and body.
pub(crate) struct Response(pub(crate) u16, pub(crate) String, pub(crate) String);

/// A server at `/mcp` that is healthy, but for what `fault` says first.
pub(crate) struct Site {
    pub(crate) url: String,
}

pub(crate) type Fault = fn(&Asked) -> Option<Response>;

impl Site {
    fn start(fault: Fault) -> Self {
        Self::start_with(move |asked| fault(asked).unwrap_or_else(|| healthy(asked)))
    }

    /// A server that answers like this.
    pub(crate) fn start_with(answer: impl Fn(&Asked) -> Response + Copy + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        // Ends with the process; nobody waits for it.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream, answer));
            }
        });
        Self { url }
    }
}

fn serve(mut stream: TcpStream, answer: impl Fn(&Asked) -> Response) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let mut lines = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        lines.next().map(|(_, value)| value.to_owned())
    };
    let length = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut words = head.split(' ').map(str::to_owned);
    let asked = Asked {
        verb: words.next()?,
        path: words.next()?,
        origin: format!("http://{}", header("host")?),
        session: header("mcp-session-id"),
        method: message["method"].as_str().unwrap_or_default().to_owned(),
        message,
    };
    let Response(status, headers, body) = answer(&asked);
    let length = body.len();
    let head = format!("HTTP/1.1 {status} S\r\ncontent-length: {length}\r\nconnection: close\r\n");
    stream.write_all(format!("{head}{headers}\r\n{body}").as_bytes()).ok()
}

const JSON: &str = "content-type: application/json\r\n";
const SESSION: &str = "content-type: application/json\r\nmcp-session-id: s1\r\n";

pub(crate) fn respond(status: u16, headers: &str, body: impl Into<String>) -> Response {
    Response(status, headers.to_owned(), body.into())
}

pub(crate) fn status(status: u16) -> Response {
    respond(status, "", "")
}

/// A good legacy server with one tool.
fn healthy(asked: &Asked) -> Response {
    match (asked.verb.as_str(), asked.path.as_str()) {
        (_, path) if path != "/mcp" => status(404),
        ("GET", _) => status(405),
        ("DELETE", _) => status(204),
        _ if asked.method == "initialize" || asked.method == "server/discover" => answer(asked),
        _ if asked.session.is_none() => status(400),
        _ if asked.session.as_deref() != Some("s1") => status(404),
        _ if asked.message.get("id").is_none() => status(202),
        _ => answer(asked),
    }
}

fn answer(asked: &Asked) -> Response {
    let mut answer = json!({"jsonrpc": "2.0", "id": asked.message["id"]});
    match asked.method.as_str() {
        "initialize" => {
            answer["result"] = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "ill", "version": "1"},
            });
            return respond(200, SESSION, answer.to_string());
        }
        "ping" => answer["result"] = json!({}),
        "tools/list" => {
            let tool = json!({"name": "t", "description": "d", "inputSchema": {"type": "object"}});
            answer["result"] = json!({ "tools": [tool] });
        }
        _ => answer["error"] = json!({"code": -32601, "message": "Method not found"}),
    }
    respond(200, JSON, answer.to_string())
}

/// What is found in a server with that fault, and nothing else.
#[track_caller]
fn ill(fault: Fault, expected: &[&str]) -> String {
    let site = Site::start(fault);
    let run = run(&["doctor", "--json", "--timeout", "2", &site.url], &[]);
    let report = report(&run);
    assert_eq!(findings(&report), expected, "{}", report["findings"]);
    let is_healthy = !expected.iter().any(|one| one.starts_with("error"));
    assert_eq!((run.code, &report["healthy"]), (Some(i32::from(!is_healthy)), &json!(is_healthy)));
    report["findings"].to_string()
}

/// Answers every POST like this.
fn posts(asked: &Asked, response: Response) -> Option<Response> {
    (asked.verb == "POST").then_some(response)
}

#[test]
fn a_healthy_server_has_nothing_wrong_with_it() {
    ill(|_| None, &[]);
}

/// wire: HTTP-1, HTTP-2
#[test]
fn a_refused_greeting_is_told_by_its_status() {
    let told = ill(|asked| posts(asked, respond(403, "", "bad host")), &["error http.403"]);
    assert!(told.contains("bad host"), "{told}");
    ill(|asked| posts(asked, status(404)), &["error http.404"]);
    ill(|asked| posts(asked, status(405)), &["error http.405"]);
    ill(|asked| posts(asked, status(406)), &["error http.406"]);
    ill(|asked| posts(asked, status(415)), &["error http.415"]);
    let told = ill(|asked| posts(asked, respond(500, "", "boom")), &["error http.500"]);
    assert!(told.contains("boom"), "{told}");
}

/// A JSON-RPC error is believed more than the status it came with.
#[test]
fn a_refusal_in_words_is_told_once() {
    fn refused(asked: &Asked, status: u16) -> Option<Response> {
        let error = json!({"code": -32000, "message": "not today"});
        let body = json!({"jsonrpc": "2.0", "id": asked.message["id"], "error": error});
        posts(asked, respond(status, JSON, body.to_string()))
    }
    let told = ill(|asked| refused(asked, 400), &["error greeting.refused"]);
    assert!(told.contains("not today"), "{told}");
    ill(|asked| refused(asked, 200), &["error greeting.refused"]);
    let told = ill(|asked| refused(asked, 401), &["error oauth.no-challenge"]);
    assert!(told.contains("not today"), "{told}");
    ill(|asked| refused(asked, 503), &["error http.500"]);
}

/// What guards a server, or fails in front of it, answers in JSON that is no JSON-RPC. It is no
/// noise, and nobody promised a `jsonrpc` in it.
#[test]
fn json_that_is_no_message_is_what_the_status_says() {
    fn of_their_own(asked: &Asked, status: u16) -> Option<Response> {
        let member = if status == 500 { "message" } else { "error" };
        let body = json!({ member: "not today" }).to_string();
        posts(asked, respond(status, JSON, body))
    }
    let told = |fault: Fault, expected: &str| {
        let told = ill(fault, &[expected]);
        assert!(told.contains("not today"), "{told}");
    };
    told(|asked| of_their_own(asked, 400), "error http.400");
    told(|asked| of_their_own(asked, 401), "error oauth.no-challenge");
    told(|asked| of_their_own(asked, 403), "error http.403");
    told(|asked| of_their_own(asked, 404), "error http.404");
    told(|asked| of_their_own(asked, 422), "error http.refused");
    told(|asked| of_their_own(asked, 429), "error http.429");
    told(|asked| of_their_own(asked, 500), "error http.500");
    told(|asked| of_their_own(asked, 200), "error http.no-answer");
}

/// wire: OLD-2
#[test]
fn a_stream_that_was_wanted_and_is_not_there_is_told() {
    let site = Site::start(|_| None);
    let args = ["doctor", "--json", "--transport", "sse-only", &site.url];
    let run = run(&args, &[]);
    assert_eq!(findings(&report(&run))[0], "error sse.stream");
    assert_eq!(run.code, Some(1));
}

/// wire: HTTP-5, MH-18
#[test]
fn what_is_no_server_is_told_from_one() {
    let is_page: Fault =
        |asked| posts(asked, respond(200, "content-type: text/html\r\n", "<!doctype html>"));
    ill(is_page, &["error http.html"]);
    ill(|asked| posts(asked, respond(200, "", "ok")), &["error http.no-answer"]);
    let told = ill(
        |asked| {
            posts(
                asked,
                respond(302, "location: https://login.example.com/?t=1\r\n", String::new()),
            )
        },
        &["error http.redirect"],
    );
    assert!(told.contains("https://login.example.com/") && !told.contains("t=1"), "{told}");
}

/// wire: OLD-7
#[test]
fn the_right_path_is_found_beside_the_wrong_one() {
    let at_root: Fault = |asked| match asked.path.as_str() {
        "/api/mcp" => Some(healthy(&Asked { path: "/mcp".to_owned(), ..asked.clone() })),
        _ => Some(status(404)),
    };
    let told = ill(at_root, &["error http.404", "note http.sibling"]);
    assert!(told.contains("/api/mcp"), "{told}");
    let moved: Fault = |asked| match asked.path.as_str() {
        "/mcp/" => Some(healthy(&Asked { path: "/mcp".to_owned(), ..asked.clone() })),
        _ => Some(respond(307, "location: /mcp/\r\n", String::new())),
    };
    ill(moved, &["warning http.moved"]);
}

/// wire: HTTP-4, HTTP-5, HTTP-13
#[test]
fn bad_manners_over_http_are_found() {
    ill(
        |asked| (asked.method == "tools/list").then(|| respond(200, "", answer(asked).2)),
        &["error http.content-type"],
    );
    let noted: Fault = |asked| (asked.method == "notifications/initialized").then(|| status(200));
    ill(noted, &["warning http.notification"]);
    let noted: Fault = |asked| (asked.method == "notifications/initialized").then(|| status(500));
    ill(noted, &["error http.notification"]);
    ill(|asked| (asked.verb == "GET").then(|| status(500)), &["warning http.get"]);
    ill(|asked| (asked.method == "server/discover").then(|| status(500)), &["warning http.probe"]);
}

/// wire: HTTP-20, HTTP-21, HTTP-22, HTTP-23
#[test]
fn sessions_that_cannot_be_kept_are_found() {
    let careless: Fault = |asked| {
        let is_strange = asked.session.as_deref() != Some("s1") && asked.method == "ping";
        is_strange.then(|| answer(asked))
    };
    ill(careless, &["warning http.lost-session", "note http.no-session"]);
    ill(|asked| (asked.verb == "DELETE").then(|| status(405)), &["note http.delete"]);
    ill(|asked| (asked.verb == "DELETE").then(|| status(500)), &["warning http.delete"]);
    let keeps: Fault =
        |asked| (asked.method == "initialize").then(|| respond(200, JSON, answer(asked).2));
    let site = Site::start(keeps);
    let kept = run(&["doctor", "--json", "--timeout", "2", &site.url], &[]);
    assert!(findings(&report(&kept)).contains(&"error http.session-missing".to_owned()));
    let odd: Fault = |asked| {
        let headers = "content-type: application/json\r\nmcp-session-id: s 1\r\n";
        (asked.method == "initialize").then(|| respond(200, headers, answer(asked).2))
    };
    let site = Site::start(odd);
    let run = run(&["doctor", "--json", "--timeout", "2", &site.url], &[]);
    assert!(findings(&report(&run)).contains(&"error http.session-id".to_owned()));
}

#[test]
fn nobody_there_is_told_by_its_cause() {
    let check = |url: &str, expected: &str| {
        let run = run(&["doctor", "--json", url], &[("NO_PROXY", "*")]);
        assert_eq!(run.code, Some(1), "{url}");
        assert_eq!(findings(&report(&run)), [expected], "{url}");
    };
    check("http://127.0.0.1:1/mcp", "error connect.refused");
    check("http://name.invalid/mcp", "error connect.dns");
    let plain = Site::start(|_| None);
    check(&plain.url.replace("http:", "https:"), "error connect.tls");
}
