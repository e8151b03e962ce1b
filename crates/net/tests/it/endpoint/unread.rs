//! Clients that do not read: what they hold together, and who gives way.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use switchboard_net::access::Authenticate;
use switchboard_net::call::ReplySink as _;
use switchboard_net::connection::unread::Unread;
use switchboard_net::http::site::SiteOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::gate::{Names, post};
use super::half::{BOTH, send};
use super::{direct, limits, start};
use crate::client::{Client, LEGACY, Way, call, enveloped, request};
use crate::script::notification;
use switchboard_testkit::within;

const KIB: usize = 1024;

fn bounded(unread: &Arc<Unread>, history: usize) -> SiteOptions {
    let options = limits(|limits| limits.history = history);
    options.unread(Arc::clone(unread))
}

async fn until(is_so: impl Fn() -> bool) {
    within(async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn of_clients_that_do_not_read_the_one_that_holds_most_is_cut() {
    let unread = Arc::new(Unread::new(1024 * KIB));
    let mut set = direct(bounded(&unread, 0));
    let slow = Client::ready(set.way.clone(), LEGACY).await;
    let (slow_face, _) = set.stage.noted().await;
    let other = Client::ready(set.way.clone(), LEGACY).await;
    let (other_face, _) = set.stage.noted().await;
    let slow_stream = slow.listen(None).await;
    let mut other_stream = other.listen(None).await;
    let sized = |size: usize| {
        notification("notifications/message", &json!({"data": "x".repeat(size * KIB)}))
    };
    let note = sized(300);
    slow_face.note(None, &note);
    slow_face.note(None, &note);
    other_face.note(None, &note);
    assert_eq!(set.stage.forgotten(), 0, "there is room for all of it");
    assert!(unread.held() > 900 * KIB, "{}", unread.held());
    other_face.note(None, &sized(200));
    set.stage.forgot(1).await;
    until(|| unread.held() < 700 * KIB).await;
    assert_eq!(slow.post(&request(1, "tools/list")).await.status, 404);
    assert_eq!(slow_stream.messages().await.len(), 0, "its stream is over");
    for _ in 0..2 {
        assert_eq!(other_stream.message().await.0["method"], "notifications/message");
    }
    assert_eq!(other.post(&request(1, "tools/list")).await.status, 200);
    assert_eq!(unread.held(), 0);
}

#[tokio::test]
async fn what_a_client_could_resume_gives_way_before_the_client_does() {
    let unread = Arc::new(Unread::new(1024 * KIB));
    let mut set = direct(bounded(&unread, 4096 * KIB));
    let client = Client::ready(set.way.clone(), LEGACY).await;
    let (face, _) = set.stage.noted().await;
    let mut stream = client.listen(None).await;
    let note = notification("notifications/message", &json!({"data": "x".repeat(300 * KIB)}));
    for _ in 0..8 {
        face.note(None, &note);
        stream.message().await;
        until(|| unread.held() <= 1024 * KIB).await;
    }
    assert_eq!(client.post(&request(1, "tools/list")).await.status, 200);
    drop((stream, face, set));
    until(|| unread.held() == 0).await;
}

#[tokio::test]
async fn a_connection_whose_client_does_not_read_a_large_answer_is_cut() {
    let unread = Arc::new(Unread::new(8 << 20));
    let mut set = start(bounded(&unread, 0)).await;
    let mut stream = send(&set, BOTH).await;
    let call = set.stage.call().await;
    call.finish(&json!({"text": "x".repeat(24 << 20)}));
    drop(call);
    until(|| unread.held() == 0).await;
    let mut said = Vec::new();
    // However it ends, it ends early.
    _ = within(stream.read_to_end(&mut said)).await;
    assert!(said.len() < 24 << 20, "{}", said.len());
    set.stopped().await;
}

/// A request of a session, as it is sent.
fn asked_by(client: &Client, body: &Value) -> String {
    let body = body.to_string();
    let (session, length) = (client.session.as_deref().unwrap(), body.len());
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: {BOTH}\r\n\
         MCP-Protocol-Version: {LEGACY}\r\nMcp-Session-Id: {session}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn a_session_is_cut_at_a_connection_that_it_and_others_have_used_before() {
    let unread = Arc::new(Unread::new(8 << 20));
    let mut set = start(bounded(&unread, 0)).await;
    let Way::Socket(address) = set.way else { panic!("a socket") };
    for is_shared in [false, true] {
        let one = Client::ready(Way::Socket(address), LEGACY).await;
        set.stage.noted().await;
        let other = Client::ready(Way::Socket(address), LEGACY).await;
        set.stage.noted().await;
        let before = if is_shared { [&one, &other] } else { [&one, &one] };
        let mut stream = TcpStream::connect(address).await.unwrap();
        for client in before {
            let asked = asked_by(client, &request(1, "tools/list"));
            stream.write_all(asked.as_bytes()).await.unwrap();
            let mut said = Vec::new();
            while !said.ends_with(b"}") {
                within(stream.read_buf(&mut said)).await.unwrap();
            }
        }
        stream.write_all(asked_by(&one, &call(2, "slow")).as_bytes()).await.unwrap();
        let slow = set.stage.call().await;
        slow.finish(&json!({"text": "x".repeat(24 << 20)}));
        drop(slow);
        until(|| unread.held() == 0).await;
        let mut said = Vec::new();
        _ = within(stream.read_to_end(&mut said)).await;
        assert!(said.len() < 24 << 20, "{}", said.len());
    }
    set.stopped().await;
}

#[tokio::test]
async fn of_principals_the_one_whose_clients_hold_most_together_gives_way() {
    let unread = Arc::new(Unread::new(1024 * KIB));
    let gate: Option<Arc<dyn Authenticate>> = Some(Arc::new(Names::default()));
    let mut set = direct(bounded(&unread, 0).authenticator(gate));
    let mut open = Vec::new();
    for (name, size) in [("ada", 400), ("mal", 350), ("mal", 350)] {
        let client = Client::modern(set.way.clone());
        let posted =
            tokio::spawn(async move { post(&client, name, &enveloped(call(1, "slow"))).await });
        let call = set.stage.call().await;
        call.note("notifications/message", &json!({"data": "x".repeat(size * KIB)}));
        open.push((call, within(posted).await.unwrap()));
    }
    until(|| unread.held() <= 1024 * KIB).await;
    let (message, _) = open[0].1.message().await;
    assert_eq!(message["method"], "notifications/message", "ada holds most, but mal more");
}

#[tokio::test(start_paused = true)]
async fn who_reads_is_not_cut_for_who_does_not() {
    let unread = Arc::new(Unread::new(1024 * KIB));
    let mut set = direct(bounded(&unread, 0));
    let slow = Client::ready(set.way.clone(), LEGACY).await;
    let (slow_face, _) = set.stage.noted().await;
    let reader = Client::ready(set.way.clone(), LEGACY).await;
    let (reader_face, _) = set.stage.noted().await;
    let _slow_stream = slow.listen(None).await;
    let mut stream = reader.listen(None).await;
    let sized = |size: usize| {
        notification("notifications/message", &json!({"data": "x".repeat(size * KIB)}))
    };
    slow_face.note(None, &sized(200));
    tokio::time::advance(Duration::from_mins(1)).await;
    reader_face.note(None, &sized(900));
    set.stage.forgot(1).await;
    assert_eq!(slow.post(&request(1, "tools/list")).await.status, 404);
    assert_eq!(stream.message().await.0["method"], "notifications/message");
    assert_eq!(reader.post(&request(1, "tools/list")).await.status, 200);
}

#[tokio::test]
async fn small_answers_count_too() {
    let unread = Arc::new(Unread::new(1024 * KIB));
    let mut set = direct(bounded(&unread, 0));
    let mut open = Vec::new();
    for _ in 0..200 {
        let client = Client::modern(set.way.clone());
        let posted = tokio::spawn(async move { client.post(&enveloped(call(1, "slow"))).await });
        set.stage.call().await.finish(&json!({"text": "x".repeat(4 * KIB)}));
        open.push(within(posted).await.unwrap());
    }
    assert!(unread.held() > 800 * KIB, "{}", unread.held());
    drop(open);
    assert_eq!(unread.held(), 0);
}

#[test]
fn clients_give_way_though_an_earlier_loop_was_dropped() {
    let unread = Arc::new(Unread::new(64 * KIB));
    let overfull = async || {
        let mut set = direct(bounded(&unread, 0));
        let client = Client::ready(set.way.clone(), LEGACY).await;
        let (face, _) = set.stage.noted().await;
        let stream = client.listen(None).await;
        let note = json!({"data": "x".repeat(128 * KIB)});
        face.note(None, &notification("notifications/message", &note));
        (set, stream)
    };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The task that would have it give way never has its turn.
    runtime().block_on(async { overfull().await });
    runtime().block_on(async {
        let (mut set, _stream) = overfull().await;
        set.stage.forgot(1).await;
    });
}

#[tokio::test]
async fn a_stream_of_http2_whose_client_does_not_read_is_cut_alone() {
    let unread = Arc::new(Unread::new(8 << 20));
    let mut set = start(bounded(&unread, 0)).await;
    let Way::Socket(address) = set.way else { panic!("a socket") };
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let ask = |accept: &str| {
        let message = enveloped(call(1, "slow"));
        let client = Client::modern(set.way.clone());
        let mut request = client.posting(&message).uri(format!("http://{address}/mcp"));
        request.headers_mut().unwrap().insert("accept", accept.parse().unwrap());
        let request = request.body(Full::new(Bytes::from(message.to_string()))).unwrap();
        let mut sender = sender.clone();
        tokio::spawn(async move { sender.send_request(request).await.unwrap() })
    };
    let other = ask(BOTH);
    let other_call = set.stage.call().await;
    for accept in ["application/json", "text/event-stream"] {
        let asked = ask(accept);
        let call = set.stage.call().await;
        call.finish(&json!({"text": "x".repeat(24 << 20)}));
        drop(call);
        // It is there, and nothing of it is read.
        let response = within(asked).await.unwrap();
        until(|| unread.held() == 0).await;
        let read = within(response.into_body().collect()).await;
        assert!(read.is_err(), "its stream is reset");
    }
    other_call.finish(&json!({"text": "here"}));
    drop(other_call);
    let said = within(within(other).await.unwrap().into_body().collect()).await.unwrap();
    assert!(String::from_utf8_lossy(&said.to_bytes()).contains("here"));
    drop(sender);
    _ = within(connection).await.unwrap();
    set.stopped().await;
}
