//! The console of the binary: the link that `serve` prints, changes that are followed, and its end.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Gateway, demo};
use crate::named::Home;
use crate::process::{PATIENCE, until};
use crate::web::{Response, send};

const OWN: [(&str, &str); 2] = [("Sec-Fetch-Site", "same-origin"), ("X-Switchboard", "console")];

/// Somebody who has opened a link.
struct Operator {
    port: u16,
    cookie: String,
}

impl Operator {
    /// Uses the link in a line of the log.
    fn open(port: u16, line: &str) -> Self {
        let place = format!("http://127.0.0.1:{port}/console/#link=");
        let token = line.split_once(&place).unwrap_or_else(|| panic!("no link: {line}")).1;
        let body = json!({"link": token}).to_string();
        let answer = change(port, &OWN, "POST /console/api/sign-in", &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        Self { port, cookie }
    }

    fn get(&self, path: &str) -> Response {
        let line = format!("GET /console/api/{path}");
        send(self.port, &line, &[("Cookie", &self.cookie)], b"")
    }

    fn change(&self, line: &str, more: &[(&str, &str)], body: &str) -> Response {
        let headers = [&OWN[..], &[("Cookie", &*self.cookie)], more].concat();
        change(self.port, &headers, line, body)
    }
}

fn change(port: u16, headers: &[(&str, &str)], line: &str, body: &str) -> Response {
    let length = body.len().to_string();
    send(port, line, &[headers, &[("Content-Length", &*length)]].concat(), body.as_bytes())
}

#[test]
fn serve_prints_a_link_last_and_the_next_one_when_it_was_used() {
    // C-31, C-32
    let mut gateway = Gateway::start(&json!({"a": demo(&[])}));
    let line = gateway.process.until_logged("Open the console: ");
    let status = gateway.process.logged.iter().position(|it| it.contains("switchboard status"));
    assert!(status.is_some_and(|at| at + 1 < gateway.process.logged.len()), "after the summary");
    let operator = Operator::open(gateway.port, &line);
    let me = operator.get("me").message();
    assert_eq!((&me["principal"], &me["canWrite"]), (&json!("operator"), &json!(true)));
    let next = gateway.process.until_logged("Open the console again: ");
    Operator::open(gateway.port, &next);
    let page = send(gateway.port, "GET /", &[("Accept", "text/html")], b"");
    assert_eq!((page.status, page.header("location")), (302, Some("/console/")));
}

#[test]
fn what_is_changed_in_the_console_is_followed() {
    // C-2, C-10
    let mut gateway = Gateway::start(&json!({"a": demo(&[]), "b": demo(&[])}));
    gateway.until_ready(&["a", "b"]);
    let line = gateway.process.until_logged("Open the console: ");
    let operator = Operator::open(gateway.port, &line);
    let at = |name: &str| send(gateway.port, &format!("GET /servers/{name}/mcp"), &[], b"").status;
    assert_ne!(at("b"), 404);
    let stopped = operator.change("POST /console/api/servers/b/stop", &[], "{}");
    assert_eq!(stopped.status, 200, "{stopped:?}");
    until("b is not served", || at("b") == 404);
    assert_ne!(at("a"), 404);
    let started = operator.change("POST /console/api/servers/b/start", &[], "{}");
    assert_eq!(started.status, 200, "{started:?}");
    until("b is served", || at("b") != 404);
    let config = operator.get("config").message();
    let digest = config["digest"].as_str().unwrap();
    let text = config["text"].as_str().unwrap().replacen("\"a\"", "\"c\"", 1);
    let body = json!({"text": text}).to_string();
    let done = operator.change("POST /console/api/config/apply", &[("If-Match", digest)], &body);
    assert_eq!(done.status, 200, "{done:?}");
    gateway.process.until_logged("configuration is in force");
    until("c is there", || gateway.status()["servers"]["c"].is_object());
    let kinds = done.message()["changes"].take();
    let kinds: Vec<_> = kinds.as_array().unwrap().iter().map(|it| it["kind"].clone()).collect();
    assert_eq!(kinds, ["added", "removed"]);
}

#[test]
fn the_doctor_visits_a_server_for_people_in_the_console() {
    // C-2
    let mut gateway = Gateway::start(&json!({"a": demo(&[])}));
    let line = gateway.process.until_logged("Open the console: ");
    let operator = Operator::open(gateway.port, &line);
    let actions = operator.get("servers/a").message()["actions"].take();
    assert_eq!(actions, json!(["restart", "stop", "doctor"]));
    let visited = operator.change("POST /console/api/servers/a/doctor", &[], "{}");
    assert_eq!(visited.status, 200, "{visited:?}");
    assert_eq!(visited.header("content-type"), Some("application/x-ndjson"));
    let said = String::from_utf8(visited.body).unwrap();
    let lines: Vec<Value> = said.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let (last, steps) = lines.split_last().unwrap();
    assert!(last.get("step").is_none() && last["outcome"] != "failed", "{lines:?}");
    assert!(steps.iter().any(|step| step["ms"].is_number()), "{lines:?}");
    let unknown = operator.change("POST /console/api/servers/none/doctor", &[], "{}");
    assert_eq!(unknown.status, 404);
}

#[test]
fn a_page_that_looks_does_not_delay_the_end() {
    // C-29
    let mut gateway = Gateway::start(&json!({"a": demo(&[])}));
    let line = gateway.process.until_logged("Open the console: ");
    let operator = Operator::open(gateway.port, &line);
    let mut feed = TcpStream::connect(("127.0.0.1", gateway.port)).unwrap();
    feed.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "GET /console/feed?views=servers HTTP/1.0\r\nHost: 127.0.0.1:{}\r\nCookie: {}\r\n\r\n",
        gateway.port, operator.cookie
    );
    feed.write_all(head.as_bytes()).unwrap();
    let mut seen = String::new();
    let mut piece = [0; 4096];
    while !seen.contains("event: servers") {
        let read = feed.read(&mut piece).unwrap();
        assert!(read > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    gateway.process.signal(Signal::TERM);
    feed.read_to_string(&mut seen).unwrap();
    assert!(seen.contains("\"stopping\""), "{seen}");
    assert_eq!(gateway.process.exit_code(), Some(0));
    assert!(!gateway.process.whole_log().contains("grace period is all but over"));
}

#[test]
fn without_a_console_nothing_is_there_and_no_link_is_printed() {
    // C-26
    let more = json!({"switchboard": {"console": false}});
    let mut gateway = Gateway::start_in(Home::new(), &json!({"a": demo(&[])}), &more);
    gateway.process.until_logged("switchboard status http://127.0.0.1:");
    for path in ["/", "/console/", "/console/api/me", "/console/mcp"] {
        let answer = send(gateway.port, &format!("GET {path}"), &[], b"");
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
    }
    let status: Value = gateway.status();
    assert_eq!(status["servers"]["a"]["transport"], "stdio");
    gateway.process.signal(Signal::TERM);
    // The path of the program is in the log too.
    let log = gateway.process.whole_log();
    assert!(!log.contains("Open the console") && !log.contains("/console/#"), "{log}");
}

#[test]
fn where_other_machines_come_in_without_a_key_there_is_no_console() {
    // C-31
    let home = Home::new();
    let args = ["--host", "0.0.0.0", "--allow-unauthenticated"];
    let servers = json!({"a": demo(&[])});
    let gateway = Gateway::start_with(home, &servers, &json!({}), &args);
    assert_eq!(send(gateway.port, "GET /console/", &[], b"").status, 404);
    let args = ["--host", "0.0.0.0", "--api-key", "key-of-somebody-0123456789"];
    let gateway = Gateway::start_with(Home::new(), &servers, &json!({}), &args);
    assert_eq!(send(gateway.port, "GET /console/", &[], b"").status, 200);
}
