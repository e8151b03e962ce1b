//! Clients on a WebSocket, with a real client of that protocol.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use switchboard_net::connection::unread::Unread;
use switchboard_net::http::body::BodyBudget;
use switchboard_net::http::listen::ListenOptions;
use switchboard_net::http::site::SiteOptions;
use switchboard_proto::limits::Limits;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{NEVER, Set, start, start_within};
use crate::client::{Client, LEGACY, Way, call, enveloped, initialize, initialized};
use switchboard_testkit::within;

type Socket = WebSocketStream<TcpStream>;

fn options() -> SiteOptions {
    SiteOptions::default().ws_path("/ws").keep_alive(NEVER)
}

fn handshake(set: &Set) -> Request<()> {
    let Way::Socket(address) = &set.way else { panic!("no port") };
    format!("ws://{address}/ws").into_client_request().unwrap()
}

async fn connect(set: &Set, request: Request<()>) -> Result<Socket, Box<Error>> {
    let Way::Socket(address) = &set.way else { panic!("no port") };
    let stream = TcpStream::connect(address).await.unwrap();
    let connected = within(tokio_tungstenite::client_async(request, stream)).await;
    connected.map(|(socket, _)| socket).map_err(Box::new)
}

async fn open(set: &Set) -> Socket {
    connect(set, handshake(set)).await.unwrap()
}

async fn say(socket: &mut Socket, message: &Value) {
    within(socket.send(Message::text(message.to_string()))).await.unwrap();
}

async fn hear(socket: &mut Socket) -> Value {
    loop {
        match within(socket.next()).await.expect("the socket is open").unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("not text: {other:?}"),
        }
    }
}

/// What the server says last.
async fn close_code(socket: &mut Socket) -> CloseCode {
    loop {
        let message = within(socket.next()).await.expect("a close frame").unwrap();
        if let Message::Close(frame) = message {
            return frame.expect("a code").code;
        }
    }
}

/// A refused handshake's status.
fn status(refused: Result<Socket, Box<Error>>) -> StatusCode {
    match *refused.expect_err("it is refused") {
        Error::Http(response) => response.status(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn both_eras_converse_on_one_socket_and_calls_do_not_wait_for_each_other() {
    let mut set = start(options()).await;
    let mut socket = open(&set).await;
    say(&mut socket, &initialize(LEGACY)).await;
    assert_eq!(hear(&mut socket).await["result"]["protocolVersion"], LEGACY);
    say(&mut socket, &initialized()).await;
    set.stage.noted().await;
    say(&mut socket, &call(1, "slow")).await;
    let slow = set.stage.call().await;
    say(&mut socket, &call(2, "quick")).await;
    let quick = set.stage.call().await;
    quick.finish(&json!({"which": "quick"}));
    assert_eq!(hear(&mut socket).await["result"]["which"], "quick");
    slow.note("notifications/progress", &json!({"progress": 1}));
    assert_eq!(hear(&mut socket).await["method"], "notifications/progress");
    slow.finish(&json!({"which": "slow"}));
    assert_eq!(hear(&mut socket).await["id"], 1);
    let modern = enveloped(call(3, "modern"));
    within(socket.send(Message::binary(modern.to_string()))).await.unwrap();
    set.stage.call().await.finish(&json!({"resultType": "complete"}));
    assert_eq!(hear(&mut socket).await["id"], 3);
    assert_eq!(set.site.sessions(), 1);
    within(socket.close(None)).await.unwrap();
    set.stage.forgot(1).await;
    within(set.site.sockets_closed()).await;
    set.stopped().await;
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_the_next_one_works() {
    let set = start(options()).await;
    let mut socket = open(&set).await;
    within(socket.send(Message::text("{"))).await.unwrap();
    assert_eq!(hear(&mut socket).await["error"]["code"], -32700);
    say(&mut socket, &initialize(LEGACY)).await;
    assert_eq!(hear(&mut socket).await["id"], 0);
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_socket_and_says_so() {
    let limits = Limits { message: 1024, ..Limits::default() };
    let mut set = start(options().limits(limits)).await;
    let mut socket = open(&set).await;
    within(socket.send(Message::text("x".repeat(2000)))).await.unwrap();
    assert_eq!(close_code(&mut socket).await, CloseCode::Size);
    set.stage.forgot(1).await;
}

#[tokio::test]
async fn strangers_and_plain_requests_get_no_socket() {
    let set = start(options()).await;
    let mut foreign = handshake(&set);
    foreign.headers_mut().insert("origin", "https://evil.example".parse().unwrap());
    assert_eq!(status(connect(&set, foreign).await), 403);
    let mut rebound = handshake(&set);
    rebound.headers_mut().insert("host", "evil.example".parse().unwrap());
    assert_eq!(status(connect(&set, rebound).await), 403);
    let client = Client::new(set.way.clone());
    let plain = client.send(client.request(Method::GET, "/ws"), "").await;
    assert_eq!((plain.status.as_u16(), plain.header("upgrade")), (426, Some("websocket")));
    let posted = client.send(client.request(Method::POST, "/ws"), "").await;
    assert_eq!(posted.status, 405);
    assert_eq!(set.site.sessions(), 0);
    set.stopped().await;
}

#[tokio::test]
async fn sockets_count_as_sessions() {
    let set = start(options().max_sessions(1)).await;
    let mut first = open(&set).await;
    assert_eq!(status(connect(&set, handshake(&set)).await), 503);
    within(first.close(None)).await.unwrap();
    within(set.site.sockets_closed()).await;
    open(&set).await;
}

#[tokio::test]
async fn the_protocol_that_the_sdks_offer_is_taken() {
    let set = start(options()).await;
    let mut offering = handshake(&set);
    offering.headers_mut().insert("sec-websocket-protocol", "other, mcp".parse().unwrap());
    let Way::Socket(address) = &set.way else { panic!("no port") };
    let stream = TcpStream::connect(address).await.unwrap();
    let (_socket, response) =
        within(tokio_tungstenite::client_async(offering, stream)).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "mcp");
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_pinged_and_one_that_does_not_answer_is_closed() {
    let keep_alive = Duration::from_millis(20);
    let mut set = start(options().keep_alive(keep_alive)).await;
    let mut lively = open(&set).await;
    let pinged = within(lively.next()).await.unwrap().unwrap();
    assert!(matches!(pinged, Message::Ping(_)), "{pinged:?}");
    // Reading is what answers pings; this one is never read.
    let deaf = open(&set).await;
    let talk = async {
        loop {
            // Only as long as somebody reads is it alive.
            within(lively.next()).await.unwrap().unwrap();
        }
    };
    tokio::select! {
        () = set.stage.forgot(1) => {}
        () = talk => {}
    }
    assert_eq!(set.site.sessions(), 1);
    drop(deaf);
}

#[tokio::test(start_paused = true)]
async fn at_the_end_calls_are_answered_before_the_socket_says_goodbye() {
    let mut set = start(options()).await;
    let mut socket = open(&set).await;
    say(&mut socket, &initialize(LEGACY)).await;
    hear(&mut socket).await;
    say(&mut socket, &call(1, "t")).await;
    let call = set.stage.call().await;
    set.site.close();
    assert_eq!(status(connect(&set, handshake(&set)).await), 503);
    call.finish(&json!({}));
    assert_eq!(hear(&mut socket).await["id"], 1);
    assert_eq!(close_code(&mut socket).await, CloseCode::Away);
    within(set.site.sockets_closed()).await;
    set.stopped().await;
}

#[tokio::test]
async fn calls_that_are_given_up_are_answered_and_dropped_in_both_eras() {
    let mut set = start(options()).await;
    let mut socket = open(&set).await;
    say(&mut socket, &initialize(LEGACY)).await;
    hear(&mut socket).await;
    for message in [call(1, "t"), enveloped(call("b", "t"))] {
        say(&mut socket, &message).await;
        let open = set.stage.call().await;
        set.site.give_up().await;
        let answer = hear(&mut socket).await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&message["id"], &json!(-32603)));
        assert_eq!(set.stage.dropped().await, open.exchange);
    }
    set.site.close();
    assert_eq!(close_code(&mut socket).await, CloseCode::Away);
    set.stopped().await;
}

/// A frame of a message that goes on.
fn begun(bytes: usize, is_first: bool) -> Message {
    let part = if is_first { Data::Text } else { Data::Continue };
    Message::Frame(Frame::message(vec![b' '; bytes], OpCode::Data(part), false))
}

#[tokio::test]
async fn messages_without_an_end_are_held_within_the_budget_for_requests() {
    let bodies = Arc::new(BodyBudget::new(256 << 10, 256 << 10));
    let mut set = start(options().bodies(Arc::clone(&bodies))).await;
    let mut slow = open(&set).await;
    let until_held = |bytes: usize| {
        let bodies = Arc::clone(&bodies);
        within(async move {
            while bodies.held() / 1000 != bytes / 1000 {
                tokio::task::yield_now().await;
            }
        })
    };
    within(slow.send(begun(100_000, true))).await.unwrap();
    until_held(100_000).await;
    within(slow.send(Message::Ping(vec![0; 100].into()))).await.unwrap();
    within(slow.send(begun(100_000, false))).await.unwrap();
    until_held(200_000).await;
    let mut other = open(&set).await;
    within(other.send(begun(100_000, true))).await.unwrap();
    assert_eq!(close_code(&mut other).await, CloseCode::Again);
    set.stage.forgot(1).await;
    drop(slow);
    set.stage.forgot(2).await;
    until_held(0).await;
    let mut again = open(&set).await;
    for id in 0..20 {
        let mut message = enveloped(call(id, "large"));
        message["params"]["arguments"] = json!({"text": "x".repeat(100_000)});
        say(&mut again, &message).await;
        let call = set.stage.call().await;
        assert!(bodies.held() > 100_000, "its call is open");
        call.finish(&json!({"resultType": "complete"}));
        hear(&mut again).await;
    }
}

#[tokio::test]
async fn a_socket_that_is_ended_while_its_client_does_not_read_is_cut() {
    let unread = Arc::new(Unread::default());
    let mut set = start(options().unread(Arc::clone(&unread))).await;
    let mut deaf = open(&set).await;
    say(&mut deaf, &initialize(LEGACY)).await;
    hear(&mut deaf).await;
    say(&mut deaf, &call(1, "large")).await;
    // More than the sockets of both ends hold.
    let call = set.stage.call().await;
    call.finish(&json!({"text": "x".repeat(24 << 20)}));
    within(async {
        while unread.held() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    call.face.end();
    within(set.site.sockets_closed()).await;
    drop(deaf);
}

#[tokio::test]
async fn sockets_count_as_connections_of_their_address() {
    let listen = ListenOptions::default().max_per_address(1);
    let set = start_within(listen, options()).await;
    let mut first = open(&set).await;
    say(&mut first, &initialize(LEGACY)).await;
    hear(&mut first).await;
    assert!(connect(&set, handshake(&set)).await.is_err(), "there is one already");
    within(first.close(None)).await.unwrap();
    within(set.site.sockets_closed()).await;
    within(async { while connect(&set, handshake(&set)).await.is_err() {} }).await;
}

#[tokio::test]
async fn a_greeting_is_not_charged_for_as_long_as_its_socket_is_open() {
    let bodies = Arc::new(BodyBudget::default());
    let mut set = start(options().bodies(Arc::clone(&bodies))).await;
    let mut socket = open(&set).await;
    let mut hello = initialize(LEGACY);
    hello["params"]["capabilities"] = json!({"slow": true});
    hello["params"]["pad"] = json!("x".repeat(90 << 10));
    say(&mut socket, &hello).await;
    let call = set.stage.call().await;
    call.finish(&json!({"protocolVersion": LEGACY, "capabilities": {}}));
    assert_eq!(hear(&mut socket).await["id"], hello["id"]);
    assert_eq!(bodies.held(), 0, "the greeting is kept, and not its charge");
    hello["params"]["pad"] = json!("x".repeat(256 << 10));
    hello["id"] = json!(2);
    say(&mut socket, &hello).await;
    assert_eq!(hear(&mut socket).await["error"]["code"], -32600);
    drop(call);
    set.stopped().await;
}
