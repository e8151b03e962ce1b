//! The accept loop: its bounds, and how it stops.

use std::io::{self, Write as _};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use switchboard_net::http::listen::ListenOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

use crate::peer::{Running, dropped_in_time, start, stuck, text};
use switchboard_testkit::within;

const HOUR: Duration = Duration::from_hours(1);
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_slot() {
    let options = ListenOptions::default().max_connections(1);
    let server = start(options, |_| async { text("hello") }).await;
    let mut first = connect(&server).await;
    assert_ends(&ask(&mut first).await, "hello");

    let mut second = connect(&server).await;
    second.write_all(GET).await.unwrap();
    let mut byte = [0];
    let early = timeout(Duration::from_millis(100), second.peek(&mut byte)).await;
    assert!(early.is_err(), "the second connection was served beside the first");

    drop(first);
    assert_ends(&answer(&mut second).await, "hello");
    drop(second);
    server.stopped().await;
}

#[tokio::test]
async fn slow_heads_are_cut_however_they_begin() {
    let options = ListenOptions::default().head_timeout(Duration::from_millis(50));
    let server = start(options, |_| async { text("hello") }).await;
    for start in ["", "P", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nHost: x\r\n"] {
        let mut peer = connect(&server).await;
        peer.write_all(start.as_bytes()).await.unwrap();
        ended(&mut peer).await;
    }
    for next in ["", "GET / HTTP/1.1\r\nHost: x\r\n"] {
        let mut peer = connect(&server).await;
        assert_ends(&ask(&mut peer).await, "hello");
        peer.write_all(next.as_bytes()).await.unwrap();
        ended(&mut peer).await;
    }
    server.stopped().await;
}

#[tokio::test]
async fn slow_readers_are_not_cut_with_the_slow_heads() {
    let options = ListenOptions::default().head_timeout(Duration::from_millis(50));
    let server = start(options, |_| async { text("x".repeat(16 << 20)) }).await;
    let mut slow = connect(&server).await;
    slow.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    slow.readable().await.unwrap();
    // So long as others that say nothing are waited for, twice.
    for _ in 0..2 {
        ended(&mut connect(&server).await).await;
    }
    let mut all = Vec::new();
    within(slow.read_to_end(&mut all)).await.unwrap();
    assert!(all.len() > 16 << 20, "{} bytes", all.len());
    server.stopped().await;
}

#[tokio::test]
async fn slow_answers_are_not_cut_with_the_slow_heads() {
    let options = ListenOptions::default().head_timeout(Duration::from_millis(50));
    let gate = Arc::new(Notify::new());
    let app = {
        let gate = Arc::clone(&gate);
        move |_| {
            let gate = Arc::clone(&gate);
            async move {
                gate.notified().await;
                text("late")
            }
        }
    };
    let server = start(options, app).await;
    let mut patient = connect(&server).await;
    patient.write_all(GET).await.unwrap();
    for _ in 0..2 {
        ended(&mut connect(&server).await).await;
    }
    gate.notify_one();
    assert_ends(&answer(&mut patient).await, "late");
    server.stopped().await;
}

#[tokio::test]
async fn large_heads_are_refused() {
    let options = ListenOptions::default().max_head(8192);
    let server = start(options, |_| async { text("hello") }).await;
    let mut peer = connect(&server).await;
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\nCookie: {}\r\n\r\n", "a".repeat(9000));
    // The server may close before it has read it all.
    _ = peer.write_all(head.as_bytes()).await;
    let said = answer(&mut peer).await;
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
    server.stopped().await;
}

#[tokio::test]
async fn graceful_stop_finishes_the_request_in_flight_and_closes_the_port() {
    let options = ListenOptions::default().grace(HOUR);
    let (entered, mut entering) = mpsc::channel(1);
    let gate = Arc::new(Notify::new());
    let app = {
        let gate = Arc::clone(&gate);
        move |_| {
            let (gate, entered) = (Arc::clone(&gate), entered.clone());
            async move {
                entered.send(()).await.unwrap();
                gate.notified().await;
                text("finished")
            }
        }
    };
    let server = start(options, app).await;
    let mut idle = connect(&server).await;
    let mut busy = connect(&server).await;
    busy.write_all(GET).await.unwrap();
    within(entering.recv()).await.unwrap();

    server.stop.send(()).unwrap();
    ended(&mut idle).await;
    let refused = TcpStream::connect(server.address).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    assert!(!server.task.is_finished());

    gate.notify_one();
    let said = answer(&mut busy).await;
    assert_ends(&said, "finished");
    assert!(said.contains("connection: close"), "{said}");
    within(server.task).await.unwrap();
}

#[tokio::test]
async fn streams_that_outlive_the_grace_are_cut() {
    let options = ListenOptions::default().grace(Duration::from_millis(50));
    let server = start(options, |_| async { stuck(None) }).await;
    let mut peer = connect(&server).await;
    peer.write_all(GET).await.unwrap();
    answer(&mut peer).await;
    server.stopped().await;
    ended(&mut peer).await;
}

#[tokio::test]
async fn http2_streams_are_served_and_cut_as_well() {
    let options = ListenOptions::default().grace(Duration::from_millis(50));
    let (held, mut dropped) = oneshot::channel();
    let held = Arc::new(std::sync::Mutex::new(Some(held)));
    let app = move |_| {
        let held = held.lock().unwrap().take();
        async move { stuck(held) }
    };
    let server = start(options, app).await;
    let io = TokioIo::new(connect(&server).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get(server.url("/")).body(Empty::<Bytes>::new()).unwrap();
    let mut response = within(sender.send_request(request)).await.unwrap();
    let first = within(response.frame()).await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "first");

    server.stopped().await;
    let state = dropped.try_recv();
    assert_eq!(state, Err(TryRecvError::Closed), "the body is gone once serve has returned");
    assert!(!matches!(within(response.frame()).await, Some(Ok(_))));
    _ = within(connection).await.unwrap();
}

#[tokio::test]
async fn dropping_the_loop_cuts_its_connections() {
    let server = start(ListenOptions::default(), |_| async { stuck(None) }).await;
    let mut peer = connect(&server).await;
    peer.write_all(GET).await.unwrap();
    answer(&mut peer).await;
    server.task.abort();
    ended(&mut peer).await;
}

#[tokio::test]
async fn peer_that_leaves_drops_the_work_for_it() {
    // wire: CAN-1
    let (entered, mut entering) = mpsc::channel::<oneshot::Receiver<()>>(1);
    let app = move |_| {
        let entered = entered.clone();
        async move {
            let (_working, dropped) = oneshot::channel();
            entered.send(dropped).await.unwrap();
            std::future::pending().await
        }
    };
    let server = start(ListenOptions::default(), app).await;
    for is_reset in [true, false] {
        let mut peer = connect(&server).await;
        if is_reset {
            peer.set_zero_linger().unwrap();
        }
        peer.write_all(GET).await.unwrap();
        let dropped = within(entering.recv()).await.unwrap();
        drop(peer);
        if is_reset {
            assert!(within(dropped).await.is_err());
        } else {
            dropped_in_time(dropped).await;
        }
    }
    server.stopped().await;
}

#[tokio::test]
async fn peer_whose_end_comes_with_its_request_gets_its_answer() {
    let app = |_| async {
        // Long enough for the end to be read, by turns and not by the clock.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        text("hello")
    };
    let server = start(ListenOptions::default(), app).await;
    // Nobody else runs before all of it is sent.
    let mut peer = std::net::TcpStream::connect(server.address).unwrap();
    peer.write_all(GET).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    peer.set_nonblocking(true).unwrap();
    let mut peer = TcpStream::from_std(peer).unwrap();
    let mut said = String::new();
    within(peer.read_to_string(&mut said)).await.unwrap();
    assert_ends(&said, "hello");
    server.stopped().await;
}

#[tokio::test]
async fn panic_of_the_service_costs_its_connection_and_no_slot() {
    let options = ListenOptions::default().max_connections(1);
    let server = start(options, |request: Request<_>| async move {
        assert_ne!(request.uri().path(), "/panic");
        text("alive")
    })
    .await;
    let mut doomed = connect(&server).await;
    doomed.write_all(b"GET /panic HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    ended(&mut doomed).await;
    assert_ends(&ask(&mut connect(&server).await).await, "alive");
    server.stopped().await;
}

/// What a listener with a page for those who watch over us does when it is full.
fn reserved(max_connections: usize) -> ListenOptions {
    let reserve_paths = vec!["/healthz".to_owned()];
    ListenOptions::default().max_connections(max_connections).reserve_paths(reserve_paths)
}

async fn get(server: &Running, path: &str) -> String {
    let mut peer = connect(server).await;
    peer.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut said = String::new();
    within(peer.read_to_string(&mut said)).await.unwrap();
    said
}

#[tokio::test]
async fn whoever_watches_over_us_is_answered_when_all_connections_are_taken() {
    let server = start(reserved(2), |_| async { text("well") }).await;
    let mut held = [connect(&server).await, connect(&server).await];
    for peer in &mut held {
        assert_ends(&ask(peer).await, "well");
    }
    for _ in 0..20 {
        let well = get(&server, "/healthz").await;
        assert!(well.starts_with("HTTP/1.1 200") && well.ends_with("well"), "{well}");
        let full = get(&server, "/mcp").await;
        assert!(full.starts_with("HTTP/1.1 503") && full.contains("retry-after: 5"), "{full}");
    }
    drop(held);
    server.stopped().await;
}

#[tokio::test]
async fn one_address_does_not_take_all_connections() {
    let server = start(reserved(4), |_| async { text("well") }).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(connect(&server).await);
        assert_ends(&ask(held.last_mut().unwrap()).await, "well");
    }
    assert!(get(&server, "/mcp").await.starts_with("HTTP/1.1 503"), "the fourth is for others");
    let other = tokio::net::TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = within(other.connect(server.address)).await.unwrap();
    assert_ends(&ask(&mut other).await, "well");
    drop((held, other));
    server.stopped().await;
}

#[tokio::test]
async fn connections_of_the_reserve_that_say_nothing_end_soon() {
    let server = start(reserved(1), |_| async { text("well") }).await;
    let mut held = connect(&server).await;
    assert_ends(&ask(&mut held).await, "well");
    let mut idle = Vec::new();
    for _ in 0..ListenOptions::default().reserve {
        idle.push(connect(&server).await);
    }
    assert_ends(&get(&server, "/healthz").await, "well");
    for mut peer in idle {
        ended(&mut peer).await;
    }
    drop(held);
    server.stopped().await;
}

#[tokio::test]
async fn a_connection_ends_after_a_401_on_either_version_of_http() {
    let app = |_| async {
        let mut answer = text("who are you?");
        *answer.status_mut() = http::StatusCode::UNAUTHORIZED;
        answer
    };
    let server = start(ListenOptions::default(), app).await;
    let said = get(&server, "/").await;
    assert!(said.starts_with("HTTP/1.1 401") && said.contains("connection: close"), "{said}");
    let io = TokioIo::new(connect(&server).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get(server.url("/")).body(Empty::<Bytes>::new()).unwrap();
    let response = within(sender.send_request(request)).await.unwrap();
    assert_eq!(response.status(), 401);
    assert_eq!(crate::peer::read(response.into_body()).await, "who are you?");
    within(connection).await.unwrap().unwrap();
    server.stopped().await;
}

async fn connect(server: &Running) -> TcpStream {
    within(TcpStream::connect(server.address)).await.unwrap()
}

async fn ask(peer: &mut TcpStream) -> String {
    peer.write_all(GET).await.unwrap();
    answer(peer).await
}

/// What arrives up to the end of the first thing that a test body says.
async fn answer(peer: &mut TcpStream) -> String {
    let mut said = String::new();
    let mut buffer = [0; 4096];
    while said
        .split_once("\r\n\r\n")
        .is_none_or(|(head, body)| body.is_empty() && !head.contains("content-length: 0"))
    {
        let read = within(peer.read(&mut buffer)).await.unwrap();
        assert_ne!(read, 0, "ended after {said:?}");
        said.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    said
}

/// Waits for the other side to close, however rudely.
async fn ended(peer: &mut TcpStream) {
    let mut rest = Vec::new();
    _ = within(peer.read_to_end(&mut rest)).await;
}

#[track_caller]
fn assert_ends(said: &str, expected: &str) {
    assert!(said.ends_with(expected), "{said:?}");
}
