//! The client against real servers: reuse, redirects, cancelling, failing.

mod proxy;
pub(crate) mod tls;

use std::collections::HashSet;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use switchboard_net::http::fetch::{Fetch, FetchError, FetchOptions};
use switchboard_net::http::listen::ListenOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use crate::peer::{Answer, dropped_in_time, read, start, stuck, text};
use switchboard_testkit::within;

#[tokio::test]
async fn get_and_post_arrive_as_sent() {
    let server = start(ListenOptions::default(), echo).await;
    let fetch = fetch();
    let answer = within(fetch.send(get(&server.url("/a?b=c")))).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let host = server.address;
    assert_eq!(read(answer.into_body()).await, format!("GET /a?b=c host={host} x= body="));
    let post = Request::post(server.url("/")).header("x", "1").body("hello".into()).unwrap();
    let answer = within(fetch.send(post)).await.unwrap();
    assert_eq!(read(answer.into_body()).await, format!("POST / host={host} x=1 body=hello"));
    drop(fetch);
    server.stopped().await;
}

/// Node.js and uvicorn close them after five seconds, and lose what is sent at that moment.
#[test]
fn connections_are_let_go_before_common_servers_close_them() {
    assert!(FetchOptions::default().idle_timeout < Duration::from_secs(5));
}

#[tokio::test]
async fn connections_are_reused_by_all_clones() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let peers = Arc::new(Mutex::new(HashSet::new()));
    let counting = tokio::spawn(accept_and_count(listener, Arc::clone(&peers)));
    let fetch = fetch();
    for _ in 0..5 {
        let answer = within(fetch.clone().send(get(&url))).await.unwrap();
        read(answer.into_body()).await;
    }
    assert_eq!(peers.lock().unwrap().len(), 1);
    counting.abort();
}

#[tokio::test]
async fn a_request_takes_another_connection_if_the_server_has_closed_the_unused_one() {
    let other = start(ListenOptions::default(), echo).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // Answers one request on each connection, and says nothing of closing it.
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert_ne!(stream.read(&mut [0; 1024]).await.unwrap(), 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await.unwrap();
        }
    });
    let fetch = fetch();
    let answer = within(fetch.send(get(&url))).await.unwrap();
    assert_eq!(read(answer.into_body()).await, "hi");
    // What comes by another connection comes after the end of that one.
    let answer = within(fetch.send(get(&other.url("/")))).await.unwrap();
    read(answer.into_body()).await;
    let answer = within(fetch.send(get(&url))).await.unwrap();
    assert_eq!(read(answer.into_body()).await, "hi");
    within(server).await.unwrap();
    drop(fetch);
    other.stopped().await;
}

#[tokio::test]
async fn unused_connections_are_closed_after_a_while() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert_ne!(stream.read(&mut [0; 1024]).await.unwrap(), 0);
        stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        stream.read(&mut [0; 1024]).await.unwrap()
    });
    let options = FetchOptions::default().idle_timeout(Duration::from_millis(1));
    let fetch = Fetch::new(options).unwrap();
    drop(within(fetch.send(get(&url))).await.unwrap());
    assert_eq!(within(server).await.unwrap(), 0, "the end");
}

#[tokio::test]
async fn same_origin_redirect_keeps_method_headers_and_body() {
    // wire: MH-18
    let server = start(ListenOptions::default(), redirecting).await;
    for (status, path) in [(307, "/307?to=/end"), (308, "/308?to=end")] {
        let post = Request::post(server.url(path)).header("x", "kept").body("body".into()).unwrap();
        let answer = within(fetch().send(post)).await.unwrap();
        let expected = format!("POST /end host={} x=kept body=body", server.address);
        assert_eq!(read(answer.into_body()).await, expected, "{status}");
    }
    server.stopped().await;
}

#[tokio::test]
async fn other_redirects_are_refused_with_the_name_of_their_target() {
    // wire: MH-18, OLD-3
    let server = start(ListenOptions::default(), redirecting).await;
    for (path, expected) in [
        (
            "/307?to=http://evil.example:81/mcp",
            "server redirects (307 Temporary Redirect) to http://evil.example:81, which is not followed",
        ),
        (
            "/308?to=https://user:secret@evil.example/",
            "server redirects (308 Permanent Redirect) to https://evil.example, which is not followed",
        ),
    ] {
        let refused = within(fetch().send(get(&server.url(path)))).await.unwrap_err();
        assert_eq!(refused.to_string(), expected);
        assert!(!refused.is_connect());
    }
    let changed = within(fetch().send(get(&server.url("/302?to=/end")))).await.unwrap_err();
    assert!(matches!(changed, FetchError::RedirectRefused { status: StatusCode::FOUND, .. }));
    let endless = within(fetch().send(get(&server.url("/307?to=/307?to=/307")))).await.unwrap_err();
    assert_eq!(endless, FetchError::TooManyRedirects { max: 5 });
    server.stopped().await;
}

#[tokio::test]
async fn redirect_comes_back_as_it_is_when_asked_for_one_answer() {
    let server = start(ListenOptions::default(), redirecting).await;
    let answer = within(fetch().send_once(get(&server.url("/302?to=/end")))).await.unwrap();
    assert_eq!(
        (answer.status(), &answer.headers()["location"]),
        (StatusCode::FOUND, &"/end".parse().unwrap())
    );
    server.stopped().await;
}

#[tokio::test]
async fn dropping_the_call_takes_it_off_the_wire() {
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
    let fetch = fetch();
    let call = tokio::spawn({
        let (fetch, request) = (fetch.clone(), get(&server.url("/")));
        async move { fetch.send(request).await.map(|_| ()) }
    });
    let dropped = within(entering.recv()).await.unwrap();
    call.abort();
    dropped_in_time(dropped).await;
    server.stopped().await;
}

#[tokio::test]
async fn dropping_a_silent_body_takes_it_off_the_wire() {
    // wire: CAN-1
    let (streaming, mut streams) = mpsc::channel::<oneshot::Receiver<()>>(1);
    let app = move |_| {
        let streaming = streaming.clone();
        async move {
            let (held, dropped) = oneshot::channel();
            streaming.send(dropped).await.unwrap();
            stuck(Some(held))
        }
    };
    let server = start(ListenOptions::default(), app).await;
    let fetch = fetch();
    for read_on in [false, true] {
        let mut answer = within(fetch.send(get(&server.url("/")))).await.unwrap();
        let first = within(answer.frame()).await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "first");
        if read_on {
            // As a reader of events does: already waiting for the next one.
            let more = tokio::time::timeout(Duration::from_millis(20), answer.frame()).await;
            assert!(more.is_err(), "{more:?}");
        }
        drop(answer);
        let dropped = within(streams.recv()).await.unwrap();
        assert!(within(dropped).await.is_err());
    }
    server.stopped().await;
}

#[tokio::test]
async fn refused_connection_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://user:secret@{address}/?token=secret");
    let failed = within(fetch().send(get(&url))).await.unwrap_err();
    assert_eq!(failed.to_string(), format!("connection refused by http://{address}"));
    assert!(failed.is_connect());
    assert!(!format!("{failed:?}").contains("secret"));
}

#[tokio::test]
async fn unknown_name_says_so_and_why() {
    // A label this long fails in the resolver, without a question to the network.
    let url = format!("http://{}.example/", "a".repeat(64));
    let failed = within(fetch().send(get(&url))).await.unwrap_err();
    assert!(matches!(failed, FetchError::Unresolved { .. }), "{failed:?}");
    assert!(failed.to_string().starts_with("cannot resolve http://aaaa"), "{failed}");
    assert!(failed.source().is_some());
    assert!(failed.is_connect());
}

#[tokio::test]
async fn connection_that_never_comes_about_times_out() {
    // Accepted by the kernel, and never answered: the TLS handshake hangs.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let limit = Duration::from_millis(50);
    let options = FetchOptions::default().connect_timeout(limit);
    let fetch = Fetch::new(options).unwrap();
    let failed = within(fetch.send(get(&format!("https://{address}/")))).await.unwrap_err();
    assert_eq!(failed, FetchError::TimedOut { origin: format!("https://{address}"), limit });
    assert_eq!(failed.to_string(), format!("no connection to https://{address} within 50ms"));
}

#[tokio::test]
async fn connection_lost_before_the_answer_is_not_a_connect_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read(&mut [0; 1024]).await.unwrap()
    });
    let failed = within(fetch().send(get(&format!("http://{address}/")))).await.unwrap_err();
    assert_eq!(
        failed.to_string(),
        format!("connection to http://{address} was lost before the answer")
    );
    assert!(!failed.is_connect());
    assert_ne!(within(server).await.unwrap(), 0);
}

#[tokio::test]
async fn urls_without_host_or_with_another_scheme_are_refused() {
    for url in ["/mcp", "ftp://host/", "host:80"] {
        assert_eq!(fetch().send(get(url)).await.unwrap_err(), FetchError::BadUrl, "{url}");
    }
}

fn fetch() -> Fetch {
    Fetch::new(FetchOptions::default()).unwrap()
}

fn get(url: &str) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).unwrap()
}

async fn echo(request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    let header = |name| parts.headers.get(name).map_or("", |value| value.to_str().unwrap());
    let (host, x) = (header("host"), header("x"));
    let said = format!("{} {} host={host} x={x} body=", parts.method, parts.uri);
    text(said + &read(body).await)
}

/// `/307?to=X` redirects to X with 307, and so on; everything else is an echo.
async fn redirecting(request: Request<Incoming>) -> Answer {
    let Ok(status) = request.uri().path()[1..].parse::<u16>() else { return echo(request).await };
    let to = request.uri().query().and_then(|query| query.strip_prefix("to=")).unwrap_or("/307");
    let mut answer = text("moved");
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer.headers_mut().insert("location", to.parse().unwrap());
    answer
}

/// Answers everything, and notes which connections the requests came on.
async fn accept_and_count(listener: TcpListener, peers: Arc<Mutex<HashSet<std::net::SocketAddr>>>) {
    loop {
        let (stream, peer) = listener.accept().await.unwrap();
        peers.lock().unwrap().insert(peer);
        tokio::spawn(tls::serve_stream(stream, echo));
    }
}
