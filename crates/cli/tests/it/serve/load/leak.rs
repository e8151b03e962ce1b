//! Clients that come in crowds, and go without a word.

use std::net::TcpStream;
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use super::super::Gateway;
use super::super::reload::{events, rude, shared};
use super::{at_rest, size};
use crate::named::Home;
use crate::process::{text_of, until};
use crate::web::{Session, send};

/// Opens sessions, each with a stream and a call; half of them say goodbye.
fn crowd(gateway: &Gateway, sessions: usize, descriptors: usize) {
    let port = gateway.port;
    let open = |_| {
        let session = Session::open_at(port, "switchboard");
        let stream = events(port, "/mcp", &session.id);
        let answer = session.call("it__echo", &json!({"text": session.id})).message();
        assert_eq!(text_of(&answer), session.id);
        (session, stream)
    };
    let doors = sessions.min(8);
    let each = sessions.div_ceil(doors);
    let there: Vec<(Session, TcpStream)> = thread::scope(|scope| {
        let opening: Vec<_> =
            (0..doors).map(|_| scope.spawn(|| (0..each).map(open).collect::<Vec<_>>())).collect();
        opening.into_iter().flat_map(|opening| opening.join().unwrap()).collect()
    });
    assert!(gateway.process.descriptors() > sessions, "each has its stream");
    for (session, _) in there.iter().step_by(2) {
        let headers = [("Mcp-Session-Id", session.id.as_str())];
        assert_eq!(send(port, "DELETE /mcp", &headers, b"").status, 204);
    }
    let last = there.last().map(|(session, _)| session.id.clone()).unwrap();
    drop(there);
    until("sessions that were abandoned are over", || {
        let page = send(port, "GET /metrics", &[], b"").body;
        String::from_utf8(page).unwrap().contains("switchboard_sessions{path=\"/mcp\"} 0\n")
    });
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    assert_eq!(Session { port, id: last }.post(ping.as_bytes()).status, 404);
    until("no descriptor is left", || gateway.process.descriptors() <= descriptors);
}

/// After crowds everything is as it was before the first, when a single client had come and gone.
fn check(server: &Value, sessions: usize) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let args = ["--session-timeout", "2", "--log-level", "error"];
    let gateway = Gateway::start_with(Home::new(), &json!({"it": server}), &json!({}), &args);
    gateway.until_ready(&["it"]);
    crowd(&gateway, 1, 64);
    let (descriptors, start) = (gateway.process.descriptors(), at_rest(&gateway.process));
    let children = gateway.process.children().len();
    for round in 1..=2 {
        crowd(&gateway, sessions, descriptors);
        until("no process is left", || gateway.process.children().len() <= children);
        until(&format!("memory is back from {start} after crowd {round}"), || {
            gateway.process.memory() <= start + start / 10
        });
    }
}

#[test]
fn crowds_with_open_streams_leave_nothing_behind() {
    check(&shared(rude("")), size(300, 2000));
}

#[test]
fn crowds_with_a_server_each_leave_none_behind() {
    check(&rude(""), size(40, 200));
}
