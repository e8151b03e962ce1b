//! Three replicas on a real server of Redis, without a balancer: each request of a session
//! goes to another replica. Numbers are those of the design of the cluster.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::feature::modern;
use super::{demo, file};
use crate::named::Home;
use crate::process::{PATIENCE, Switchboard, greeting, until};
use crate::web::{Events, Response, post, post_to, send};

const KEY: &str = "5b3f0c9d1e7a48b2c6d4f1a09e8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b";

/// A server of our own, which ends with the test.
struct RedisServer(Child);

impl RedisServer {
    fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server; ./test.sh setup installs it");
        until("redis-server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        (Self(child), format!("redis://127.0.0.1:{port}"))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

struct Replicas {
    processes: Vec<Switchboard>,
    ports: Vec<u16>,
    /// Where they reach each other.
    inner: Vec<u16>,
    turn: usize,
    _store: RedisServer,
    _home: Home,
}

impl Replicas {
    fn start(servers: &Value) -> Self {
        let (store, url) = RedisServer::start();
        let home = Home::new();
        let config = home.write("servers.json", &file(servers, &json!({})));
        let (mut processes, mut ports, mut inner) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..3 {
            let args = ["serve", "--config", &config, "--port", "0", "--no-cache"];
            let cluster = ["--cluster", &url, "--cluster-listen", "127.0.0.1:0"];
            let key = [("SWITCHBOARD_CLUSTER_KEY", KEY)];
            let mut process = Switchboard::start_with(&[&args[..], &cluster].concat(), &key);
            let line = process.until_logged("is reached by others at");
            inner.push(line.trim().rsplit(':').next().unwrap().parse().unwrap());
            ports.push(process.port());
            processes.push(process);
        }
        for &port in &ports {
            until("the server is ready", || {
                let status = send(port, "GET /status", &[], b"").message();
                status["servers"]["d"]["state"] == "ready"
            });
        }
        Self { processes, ports, inner, turn: 0, _store: store, _home: home }
    }

    /// The replica whose turn it is.
    fn next(&mut self) -> u16 {
        self.turn += 1;
        self.ports[self.turn % self.ports.len()]
    }

    fn ready(&mut self, session: &str) {
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        assert_eq!(in_session(self.next(), session, &ready).status, 202);
    }
}

/// Greets the replica at `port`: the id of the session.
fn greet(port: u16) -> String {
    let hello = request(0, "initialize", &greeting());
    let answer = post(port, &[], hello.as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.header("mcp-session-id").expect("a session id").to_owned()
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn in_session(port: u16, session: &str, body: &str) -> Response {
    post(port, &[("Mcp-Session-Id", session)], body.as_bytes())
}

fn add(id: u64, one: u64, other: u64) -> String {
    request(id, "tools/call", &json!({"name": "d__add", "arguments": {"a": one, "b": other}}))
}

fn legacy() -> Value {
    json!({"d": demo(&["--era", "legacy"])})
}

///
#[test]
fn each_request_of_a_session_may_go_to_another_replica() {
    let mut replicas = Replicas::start(&legacy());
    let sessions: Vec<_> = replicas.ports.iter().copied().map(greet).collect();
    for session in &sessions {
        let (owner, rest) = session.split_once('-').expect("a hint");
        assert_eq!((owner.len(), rest.len()), (8, 32), "{session}");
        replicas.ready(session);
    }
    for round in 0..40 {
        for (number, session) in sessions.iter().enumerate() {
            let (id, one) = (round * 10, 1000 * (number as u64 + 1));
            let answer = in_session(replicas.next(), session, &add(id, one, round));
            assert_eq!(answer.status, 200, "{answer:?}");
            let message = answer.message();
            assert_eq!(message["id"], id, "{message}");
            let sum = &message["result"]["structuredContent"]["sum"];
            assert_eq!(*sum, one + round, "{message}");
        }
        replicas.turn += 1;
    }
    // Ended at one of them, it is over at all.
    let gone = send(replicas.next(), "DELETE /mcp", &[("Mcp-Session-Id", &sessions[0])], b"");
    assert_eq!(gone.status, 204);
    for _ in 0..3 {
        assert_eq!(in_session(replicas.next(), &sessions[0], &add(1, 1, 1)).status, 404);
        assert_eq!(in_session(replicas.next(), &sessions[1], &add(1, 1, 1)).status, 200);
    }
    // Without the key of the cluster nobody is let in where replicas talk.
    for &port in &replicas.inner {
        let answer = post(port, &[("Mcp-Session-Id", &sessions[1])], add(1, 1, 1).as_bytes());
        assert_eq!(answer.status, 403, "{answer:?}");
    }
}

/// notifications and streams are the owner's, at whichever replica they are read.
#[test]
fn a_stream_is_read_at_another_replica() {
    let mut replicas = Replicas::start(&legacy());
    let session = greet(replicas.ports[0]);
    replicas.ready(&session);
    let uri = json!({"uri": "test://watched-resource"});
    let watch = request(1, "resources/subscribe", &uri);
    let answer = in_session(replicas.next(), &session, &watch);
    assert!(answer.message()["result"].is_object(), "{answer:?}");
    let port = replicas.ports[1];
    let mut events = Events::open_with(port, "/mcp", &format!("Mcp-Session-Id: {session}\r\n"));
    let touch = request(2, "tools/call", &json!({"name": "d__touch", "arguments": {}}));
    let answer = in_session(replicas.ports[2], &session, &touch);
    assert_eq!(answer.message()["id"], 2, "{answer:?}");
    let event = events.next("event: message");
    assert!(event.contains("notifications/resources/updated"), "{event}");
}

/// R-10, for clients of the first revision.
#[test]
fn messages_of_an_sse_client_may_go_to_another_replica() {
    let replicas = Replicas::start(&legacy());
    let mut events = Events::open(replicas.ports[0], "/sse");
    let place = events.next("event: endpoint");
    let hello = request(0, "initialize", &greeting());
    let answer = post_to(replicas.ports[1], &place, &[], hello.as_bytes());
    assert_eq!(answer.status, 202, "{answer:?}");
    let answer: Value = serde_json::from_str(&events.next("event: message")).unwrap();
    assert_eq!(answer["id"], 0, "{answer}");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(post_to(replicas.ports[2], &place, &[], ready.as_bytes()).status, 202);
    let answer = post_to(replicas.ports[2], &place, &[], add(7, 3, 4).as_bytes());
    assert_eq!(answer.status, 202, "{answer:?}");
    let answer: Value = serde_json::from_str(&events.next("event: message")).unwrap();
    assert_eq!(answer["result"]["structuredContent"]["sum"], 7, "{answer}");
}

///
#[test]
fn a_parked_call_goes_on_from_any_replica() {
    let replicas = Replicas::start(&legacy());
    let tool = "d__test_elicitation";
    let arguments = json!({"message": "How are you?"});
    let asked = modern(replicas.ports[0], tool, &json!({"arguments": arguments}));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let questions = asked["result"]["inputRequests"].as_object().unwrap();
    let answer = json!({"action": "decline"});
    let answers: Value = questions.keys().map(|key| (key.clone(), answer.clone())).collect();
    let state = asked["result"]["requestState"].clone();
    let again = json!({"arguments": arguments, "requestState": state, "inputResponses": answers});
    let done = modern(replicas.ports[1], tool, &again);
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    // Once it is answered, no replica goes on with it.
    for &port in &replicas.ports {
        let over = modern(port, tool, &again);
        assert!(over["error"]["message"].as_str().unwrap().contains("requestState"), "{over}");
    }
}

/// A session ends with its replica; others do not notice. It is gone when the lease is over,
/// and until then the client is asked to come back.
#[test]
fn a_killed_replica_takes_only_its_own_sessions_along() {
    let replicas = Replicas::start(&legacy());
    let sessions: Vec<_> = replicas.ports.iter().copied().map(greet).collect();
    replicas.processes[0].signal(Signal::KILL);
    let [_, one, other] = replicas.ports[..] else { panic!("three replicas") };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = in_session(one, &sessions[0], &add(1, 1, 1));
        match answer.status {
            404 => break,
            503 => assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}"),
            // It was sent as the replica ended: it is not sent again.
            200 => assert_eq!(answer.message()["error"]["code"], -32603, "{answer:?}"),
            _ => panic!("{answer:?}"),
        }
        assert!(Instant::now() < deadline, "it is never gone");
        sleep(Duration::from_millis(50));
    }
    for session in &sessions[1..] {
        for port in [one, other] {
            assert_eq!(in_session(port, session, &add(1, 1, 1)).status, 200);
        }
    }
}
