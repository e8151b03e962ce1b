//! Clients that close their sending side and wait for the answer, and clients that
//! are gone: to a socket they look alike until something is written.

use std::io::Write as _;
use std::net::Shutdown;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{NEVER, Set, start};
use crate::client::{Way, call, enveloped};
use switchboard_net::http::site::SiteOptions;
use switchboard_testkit::within;

/// Sends a modern call.
pub(super) async fn send(set: &Set, accept: &str) -> TcpStream {
    let Way::Socket(address) = &set.way else { panic!("a socket") };
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(asking(accept).as_bytes()).await.unwrap();
    stream
}

/// A modern call, as it is sent.
fn asking(accept: &str) -> String {
    let body = enveloped(call(1, "slow")).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: {accept}\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: slow\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    head + &body
}

/// No comments and no stream by itself: nothing but the client's end says anything.
fn silent() -> SiteOptions {
    let mut options = super::limits(|limits| limits.stream_after = NEVER);
    options.keep_alive = NEVER;
    options
}

pub(super) const BOTH: &str = "application/json, text/event-stream";

#[tokio::test]
async fn a_client_that_sends_nothing_more_gets_its_answer() {
    let mut set = start(silent()).await;
    for (accept, length) in
        [(BOTH, 5), ("application/json", 5), (BOTH, 8 << 20), ("application/json", 8 << 20)]
    {
        let mut stream = send(&set, accept).await;
        // With the request, or while it is answered.
        let (call, ()) = tokio::join!(set.stage.call(), async {
            if length > 5 {
                stream.shutdown().await.unwrap();
            }
        });
        stream.shutdown().await.unwrap();
        if accept == BOTH {
            let mut head = [0; 12];
            within(stream.read_exact(&mut head)).await.unwrap();
            assert_eq!(&head, b"HTTP/1.1 200", "a stream is begun, to see who is there");
        }
        call.finish(&json!({"text": "x".repeat(length)}));
        let mut rest = String::new();
        within(stream.read_to_string(&mut rest)).await.unwrap();
        // It may come in chunks.
        assert!(rest.matches('x').count() >= length, "{accept}: {}", rest.len());
    }
    assert!(set.stage.is_silent());
    set.stopped().await;
}

#[tokio::test]
async fn a_client_whose_end_comes_with_its_request_gets_its_answer() {
    let mut set = start(silent()).await;
    let Way::Socket(address) = set.way else { panic!("a socket") };
    let page = "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned();
    for request in [asking(BOTH), asking("application/json"), page] {
        // Nobody else runs before all of it is sent.
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut stream = TcpStream::from_std(stream).unwrap();
        if request.starts_with("POST") {
            within(set.stage.call()).await.finish(&json!({"transport": "http"}));
        }
        let mut said = String::new();
        within(stream.read_to_string(&mut said)).await.unwrap();
        assert!(said.contains("\"transport\":"), "{request}: {said}");
    }
    set.stopped().await;
}

#[tokio::test]
async fn a_client_that_is_gone_before_all_of_its_body_is_not_waited_for() {
    let set = start(silent()).await;
    let Way::Socket(address) = &set.way else { panic!("a socket") };
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut said = String::new();
    within(stream.read_to_string(&mut said)).await.unwrap();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 400"), "{said}");
    set.stopped().await;
}

#[tokio::test]
async fn a_client_that_is_gone_drops_its_call() {
    // wire: CAN-1
    let mut set = start(silent()).await;
    for is_stream in [false, true] {
        let mut stream = send(&set, BOTH).await;
        let call = set.stage.call().await;
        if is_stream {
            call.note("notifications/message", &json!({"data": "here"}));
            let mut head = [0; 12];
            within(stream.read_exact(&mut head)).await.unwrap();
        }
        drop(stream);
        assert_eq!(set.stage.dropped().await, call.exchange);
    }
    set.stopped().await;
}

#[tokio::test]
async fn a_client_that_is_gone_and_takes_no_stream_is_given_up_on_in_time() {
    // wire: CAN-1
    let mut set = start(silent()).await;
    let stream = send(&set, "application/json").await;
    let call = set.stage.call().await;
    drop(stream);
    tokio::time::pause();
    for _ in 0..10_000 {
        if !set.stage.is_silent() {
            break;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(!set.stage.is_silent(), "it is given up on");
    tokio::time::resume();
    assert_eq!(set.stage.dropped().await, call.exchange);
    set.stopped().await;
}
