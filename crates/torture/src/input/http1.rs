//! HTTP/1 as nobody should write it.

use std::time::Duration;

use crate::caller::Era;
use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::{Gateway, ROOT};
use crate::http::{Connection, Lost};

/// A request whose body is followed by another, which must never be answered as one.
const HIDDEN: &str =
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-API-Key: key-of-root-0123456789abcdef\r\n\r\n";

const PING: &str = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;

/// The end of a head, and a body, in which a second request hides.
fn ambiguous() -> Vec<String> {
    let hidden = HIDDEN;
    let all = PING.len() + hidden.len();
    let chunks = format!("{:x}\r\n{PING}\r\n0\r\n\r\n", PING.len());
    let mut made = vec![
        // Length and chunks: who believes the other finds a request behind the body.
        format!(
            "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{hidden}",
            chunks.len() + hidden.len()
        ),
        format!("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n{chunks}{hidden}"),
        format!("Content-Length: {}\r\nContent-Length: {all}\r\n\r\n{PING}{hidden}", PING.len()),
        format!("Content-Length: {all}\r\nContent-Length: {}\r\n\r\n{PING}{hidden}", PING.len()),
        format!("Content-Length: {}, {all}\r\n\r\n{PING}{hidden}", PING.len()),
        format!("Content-Length: {all}\r\ncontent-length: {}\r\n\r\n{PING}{hidden}", PING.len()),
    ];
    for coding in [
        "xchunked",
        "chunked, identity",
        "identity",
        "chunked, chunked",
        "gzip, chunked",
        "\u{b}chunked",
        "chunked\u{b}",
        "Chunked;a=b",
        "cow",
        "",
        "'chunked'",
        "chunked,",
    ] {
        made.push(format!(
            "Transfer-Encoding: {coding}\r\nContent-Length: {all}\r\n\r\n{chunks}{hidden}"
        ));
        // Where chunks are the last coding, the second request is an honest one.
        if !coding.trim_end_matches(',').ends_with("chunked") || coding == "xchunked" {
            made.push(format!(
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: {coding}\r\n\r\n{chunks}{hidden}"
            ));
            made.push(format!("Transfer-Encoding: {coding}\r\n\r\n{chunks}{hidden}"));
        }
    }
    for name in [
        "Transfer-Encoding ",
        " Transfer-Encoding",
        "Transfer_Encoding",
        "Transfer-Encoding\t",
        "X: y\nTransfer-Encoding",
        "Transfer\u{0}-Encoding",
    ] {
        made.push(format!(
            "{name}: chunked\r\nContent-Length: {}\r\n\r\n{PING}{hidden}",
            chunks.len() + hidden.len()
        ));
    }
    for length in [
        "-1",
        "+42",
        "0x2a",
        "42 42",
        "4_2",
        "99999999999999999999",
        "",
        " ",
        "42;",
        "4.2e1",
        "\u{a0}42",
    ] {
        made.push(format!("Content-Length: {length}\r\n\r\n{PING}{hidden}"));
    }
    made
}

/// Bodies in chunks that are none.
fn bad_chunks() -> Vec<String> {
    let sizes = [
        "-1",
        "g",
        "",
        "0x10",
        "FFFFFFFFFFFFFFFFF",
        "7fffffffffffffff",
        "1 0",
        "\n",
        "1;\n",
        "1;a=\"\r\n\"",
        "1\r",
        " 1",
        "+1",
    ];
    let mut made: Vec<_> =
        sizes.iter().map(|size| format!("{size}\r\nx\r\n0\r\n\r\n{HIDDEN}")).collect();
    made.push(format!("1\r\nxy\r\n0\r\n\r\n{HIDDEN}"));
    made.push(format!("1\nx\n0\n\n{HIDDEN}"));
    made.push(format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(200_000)));
    made.push(format!("0\r\n{}\r\n{HIDDEN}", "Trailer: x\r\n".repeat(20_000)));
    made
}

fn head(gateway: &Gateway) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n",
        gateway.port
    )
}

/// How many answers come on one connection, and whether one is a page that was hidden.
async fn answers(gateway: &Gateway, bytes: &[u8]) -> Result<(usize, bool), Lost> {
    let mut connection = Connection::open(gateway.port).await?.patient(Duration::from_secs(2));
    connection.send(bytes).await?;
    let mut count = 0;
    loop {
        match connection.reply().await {
            Ok(reply) => {
                count += 1;
                if reply.text().contains("switchboard_build_info") {
                    return Ok((count, true));
                }
            }
            Err(_) => return Ok((count, false)),
        }
    }
}

pub(super) async fn smuggling(_: &Campaign, gateway: &Gateway) -> Verdict {
    let mut times = 0;
    let head = head(gateway);
    let chunked =
        bad_chunks().into_iter().map(|body| format!("Transfer-Encoding: chunked\r\n\r\n{body}"));
    for rest in ambiguous().into_iter().chain(chunked) {
        times += 1;
        // A connection that ends before all is sent is an answer too.
        let Ok((_, is_shown)) = answers(gateway, format!("{head}{rest}").as_bytes()).await else {
            continue;
        };
        ensure(!is_shown, || {
            format!("a hidden request was answered, behind {:?}", &rest[..rest.len().min(120)])
        })?;
    }
    for line in [
        "GET /status",
        "GET /status HTTP/9.9",
        "GET  /status  HTTP/1.1",
        "GET /status HTTP/1.1 x",
        "\r\n\r\n\r\nGET /status HTTP/1.1",
        "get /status HTTP/1.1",
        "GET\t/status\tHTTP/1.1",
        "G\u{0}T /status HTTP/1.1",
        "GET /st\u{0}atus HTTP/1.1",
        "PRI * HTTP/2.0",
        "GET /status HTTP/1.1\r\nX",
        "GET /status HTTP/1.1\r\n: x",
        "GET /status HTTP/1.1\r\nA\u{1}: x",
        "GET /status HTTP/1.1\r\nA: \u{0}",
        "GET /status HTTP/1.1\r\n folded: x",
        "GET /status HTTP/1.1\r\nA: x\r\n folded",
        "GET * HTTP/1.1",
        "CONNECT 127.0.0.1:1 HTTP/1.1",
        "\u{16}\u{3}\u{1}",
    ] {
        times += 1;
        _ = answers(gateway, format!("{line}\r\nHost: localhost\r\n\r\n").as_bytes()).await;
        gateway.lives()?;
    }
    Ok(times)
}

pub(super) async fn heads(cx: &Campaign, gateway: &Gateway) -> Verdict {
    let mut held = Vec::new();
    let count = cx.size(100, 400);
    let start = head(gateway);
    for number in 0..count {
        let mut connection =
            Connection::open(gateway.port).await.map_err(|lost| lost.to_string())?;
        let part = match number % 4 {
            0 => String::new(),
            1 => "PO".to_owned(),
            2 => start.clone(),
            _ => format!("{start}X-API-Key: {ROOT}\r\nContent-Length: 100\r\n\r\n{{\"jsonrpc\""),
        };
        connection.send(part.as_bytes()).await.map_err(|lost| lost.to_string())?;
        held.push(connection);
    }
    let mut caller = gateway.caller("/mcp", Era::Legacy);
    for _ in 0..20 {
        let answered = caller.echo("tools__echo", serde_json::json!({})).await?;
        ensure(answered, || "a call fails while others are slow".to_owned())?;
    }
    caller.leave().await;
    for rest in [
        format!("A: {}\r\n\r\n", "x".repeat(1 << 20)),
        "A: b\r\n".repeat(100_000),
        format!("{}: x\r\n\r\n", "n".repeat(1 << 20)),
    ] {
        let mut connection =
            Connection::open(gateway.port).await.map_err(|lost| lost.to_string())?;
        // It may hang up while we send.
        let sent = connection.send(format!("{start}{rest}").as_bytes()).await;
        let reply = connection.reply().await;
        let is_refused =
            sent.is_err() || reply.as_ref().map_or(true, |reply| matches!(reply.status, 400 | 431));
        ensure(is_refused, || format!("a head of {} bytes: {reply:?}", rest.len()))?;
    }
    let target = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(1 << 20));
    let mut connection = Connection::open(gateway.port).await.map_err(|lost| lost.to_string())?;
    _ = connection.send(target.as_bytes()).await;
    drop(held);
    Ok(count as u64 + 4)
}
