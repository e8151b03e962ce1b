//! The ways in which an HTTP server can fail a call.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::web::{Web, answer, whole};
use super::with;
use crate::caller::{CallResult, Caller, ERAS, Era, nonce};
use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::{Gateway, Plan};
use crate::http;

/// Each is a tool; its call must fail, or be answered with its own nonce.
pub(super) const NAMES: &[&str] = &[
    "html",
    "no-type",
    "wrong-json",
    "empty-200",
    "204",
    "401",
    "404",
    "500",
    "302-to-itself",
    "308-to-itself",
    "308-in-a-circle",
    "redirect-to-a-file",
    "stall-before-the-head",
    "stall-in-the-head",
    "stall-in-the-body",
    "stall-in-an-event",
    "slow-head",
    "endless-head",
    "endless-events",
    "endless-comments",
    "endless-line",
    "wrong-id",
    "two-answers",
    "answers-of-others",
    "reset",
    "reset-in-an-event",
    "half-a-body",
    "bad-chunk",
    "two-lengths",
    "gzip",
    "http-09",
    "http-3",
    "huge-event",
    "100-for-ever",
];

pub(super) async fn run(cx: &mut Campaign) {
    cx.attack(
        "HTTP servers: wrong types and statuses, redirect loops, stalls, resets, events without end",
        "each call fails within its timeout under its own id; the next call works; memory is bounded",
        async |cx| every_way(cx).await,
    )
    .await;
    cx.attack(
        "a header of the client that it names in Connection",
        "not passed on to the server, for it was meant for the next hop only",
        async |cx| hop_by_hop(cx).await,
    )
    .await;
}

async fn every_way(cx: &Campaign) -> Verdict {
    let web = Web::start().await?;
    let server = with(json!({"url": web.url(), "type": "http"}), "timeout", "4s".into());
    let gateway = cx.ready(&Plan::new(json!({"web": server}))).await?;
    all_are_listed(&gateway).await?;
    let mut each: Vec<_> =
        ERAS.iter().flat_map(|era| NAMES.iter().map(|way| (*era, *way))).collect();
    each = each.repeat(cx.size(1, 5));
    // A few at a time: some of them keep the machine busy.
    for few in each.chunks(12) {
        let calling = few.iter().map(|(era, way)| {
            let caller = gateway.caller("/mcp", *era);
            tokio::spawn(one_way(caller, format!("web__{way}")))
        });
        for calling in calling.collect::<Vec<_>>() {
            calling.await.map_err(|error| error.to_string())??;
        }
    }
    let times = each.len() as u64;
    let memory = gateway.process.peak_memory().unwrap_or(0) >> 20;
    ensure(memory < 600, || format!("{memory} MiB of memory"))?;
    gateway.end(Signal::TERM, Duration::from_secs(30)).await.map(|()| times)
}

/// A name that the gateway does not list would fail for another reason than ours.
async fn all_are_listed(gateway: &Gateway) -> Result<(), String> {
    let said = gateway.caller("/mcp", Era::Modern).ask("tools/list", json!({})).await;
    let CallResult::Result(result) = &said else { return Err(said.to_string()) };
    let text = result.to_string();
    let missing: Vec<_> =
        NAMES.iter().filter(|way| !text.contains(&format!("\"web__{way}\""))).collect();
    ensure(missing.is_empty(), || format!("{missing:?} are not listed"))
}

/// A call that fails in one way, or not, and a call after it that works.
async fn one_way(mut caller: Caller, tool: String) -> Result<(), String> {
    let since = Instant::now();
    caller.echo(&tool, json!({})).await.map_err(|why| format!("{:?}: {why}", caller.era))?;
    let seconds = since.elapsed().as_secs();
    ensure(seconds < 20, || format!("{tool} took {seconds} s"))?;
    let wanted = nonce();
    let said = caller.call("web__echo", json!({"message": wanted})).await;
    ensure(said.text() == Some(&wanted), || format!("the call after {tool}: {said}"))?;
    caller.leave().await;
    Ok(())
}

async fn hop_by_hop(cx: &Campaign) -> Verdict {
    let web = Web::start().await?;
    let server = json!({"url": web.url(), "type": "http", "passHeaders": ["X-Mine", "X-Hop"]});
    let gateway = cx.ready(&Plan::new(json!({"web": server}))).await?;
    let mut times = 0;
    for named in ["X-Hop", "close, X-Hop", "x-hop,keep-alive", "keep-alive , x-HOP"] {
        let caller = {
            let mut caller = gateway.caller("/mcp", Era::Modern);
            let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            caller.headers = vec![
                header("Connection", named),
                header("X-Hop", "secret-hop"),
                header("X-Mine", "mine"),
            ];
            caller
        };
        let (_, bytes) =
            caller.bytes("tools/call", json!({"name": "web__echo", "arguments": {"message": "x"}}));
        let reply = http::send(gateway.port, &bytes, http::PATIENCE)
            .await
            .map_err(|lost| lost.to_string())?;
        ensure(reply.status == 200, || format!("the call gets {}", reply.status))?;
        let heads = web.heads().join("\n");
        ensure(heads.contains("mine"), || "no header is passed on at all".to_owned())?;
        ensure(!heads.contains("secret-hop"), || format!("passed on with Connection: {named}"))?;
        times += 1;
    }
    Ok(times)
}

/// Longer than any call waits, shorter than any attack.
const LONG: Duration = Duration::from_secs(30);

const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

/// What `good` would be, spoilt.
pub(super) async fn behave(
    stream: &mut TcpStream,
    way: &str,
    port: u16,
    id: &Value,
    good: &str,
) -> Option<()> {
    let json = "application/json";
    let redirect = |status: u16, to: String| {
        format!(
            "HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    };
    let text = match way {
        "html" => {
            return whole(stream, 200, "text/html", "<p>Welcome to the hotel's network").await;
        }
        "no-type" => format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{good}",
            good.len()
        ),
        "wrong-json" => return whole(stream, 200, json, "{\"jsonrpc\":").await,
        "empty-200" => return whole(stream, 200, json, "").await,
        "204" => "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_owned(),
        "401" | "404" | "500" => {
            return whole(stream, way.parse().unwrap_or(500), "text/plain", "no").await;
        }
        "302-to-itself" => redirect(302, "/mcp".to_owned()),
        "308-to-itself" => redirect(308, "/mcp".to_owned()),
        "308-in-a-circle" => {
            redirect(308, format!("http://127.0.0.1:{port}/mcp?{}", id.to_string().len()))
        }
        "redirect-to-a-file" => redirect(307, "file:///etc/passwd".to_owned()),
        "wrong-id" => {
            return whole(stream, 200, json, &answer(&json!("somebody-elses"), "stolen")).await;
        }
        "two-answers" => format!("{STREAM}data: {good}\n\ndata: {}\n\n", answer(id, "stolen")),
        "answers-of-others" => {
            let near = id.as_u64().unwrap_or(0);
            let others: Vec<_> =
                (1..50).map(|other| answer(&json!(near + other + 1_000_000), "stolen")).collect();
            let others = others.join(
                "

data: ",
            );
            format!("{STREAM}data: {others}\n\ndata: {good}\n\n")
        }
        "half-a-body" => format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {json}\r\nContent-Length: {}\r\n\r\n{good}",
            good.len() * 2
        ),
        "bad-chunk" => format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {json}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{good}\r\n0\r\n\r\n"
        ),
        "two-lengths" => format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {json}\r\nContent-Length: 5\r\nContent-Length: {}\r\n\r\n{good}",
            good.len()
        ),
        "gzip" => format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {json}\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\u{1f}\u{8b}x"
        ),
        "http-09" => good.to_owned(),
        "http-3" => format!("HTTP/3 200\r\n\r\n{good}"),
        other => return misbehave(stream, other, good).await,
    };
    stream.write_all(text.as_bytes()).await.ok()
}

/// The ways that take their time.
async fn misbehave(stream: &mut TcpStream, way: &str, good: &str) -> Option<()> {
    let half = format!("{STREAM}data: {{\"jsonrpc\":\"2.0\",");
    match way {
        "stall-before-the-head" => {}
        "stall-in-the-head" => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Ty").await.ok()?,
        "stall-in-the-body" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
            stream.write_all(head.as_bytes()).await.ok()?;
        }
        "stall-in-an-event" => stream.write_all(half.as_bytes()).await.ok()?,
        "slow-head" => {
            for byte in format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(500)).bytes() {
                stream.write_all(&[byte]).await.ok()?;
                sleep(Duration::from_millis(100)).await;
            }
        }
        "endless-head" => return repeat(stream, "HTTP/1.1 200 OK\r\n", "X: y\r\n").await,
        "endless-events" => {
            let note = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}\n\n";
            return repeat(stream, STREAM, note).await;
        }
        "endless-comments" => return repeat(stream, STREAM, ": still there\n").await,
        "endless-line" | "huge-event" => {
            return repeat(
                stream,
                STREAM,
                "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            )
            .await;
        }
        "100-for-ever" => return repeat(stream, "", "HTTP/1.1 100 Continue\r\n\r\n").await,
        "reset-in-an-event" => {
            stream.write_all(half.as_bytes()).await.ok()?;
            return stream.set_zero_linger().ok();
        }
        "reset" => return stream.set_zero_linger().ok(),
        _ => return whole(stream, 200, "application/json", good).await,
    }
    sleep(LONG).await;
    None
}

/// Writes the same again and again, yet no more than is good for the machine.
async fn repeat(stream: &mut TcpStream, start: &str, piece: &str) -> Option<()> {
    stream.write_all(start.as_bytes()).await.ok()?;
    let block = piece.repeat(16_384 / piece.len().max(1) + 1);
    let end = Instant::now() + LONG;
    let mut written = 0;
    while Instant::now() < end && written < 64 << 20 {
        stream.write_all(block.as_bytes()).await.ok()?;
        written += block.len();
        // What is shown is that it has no end, not how fast the machine is.
        sleep(Duration::from_millis(2)).await;
    }
    sleep(end.saturating_duration_since(Instant::now())).await;
    None
}
