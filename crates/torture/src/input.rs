//! Bad input: JSON, HTTP/1, HTTP/2, `WebSockets` and event streams that break every rule.

use std::time::Duration;

use serde_json::json;

use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::{Gateway, Plan};

mod http1;
mod http2;
mod json;
mod sse;
mod websocket;

/// What a message may have (32 MiB), twice for a buffer that grows, and some for the allocator.
const GROWTH: u64 = 160 << 20;

fn plan(cx: &Campaign) -> Plan {
    Plan::new(json!({"tools": cx.shared("tools")}))
}

/// Attacks a gateway, and looks whether it lives, serves, has not grown, and is at rest again.
async fn against(
    cx: &Campaign,
    attack: impl AsyncFnOnce(&Campaign, &Gateway) -> Verdict,
) -> Verdict {
    let gateway = cx.ready(&plan(cx)).await?;
    gateway.serves("tools__echo").await?;
    let before = gateway.footprint().await?;
    let times = attack(cx, &gateway).await?;
    gateway.serves("tools__echo").await?;
    let peak = gateway.process.peak_memory().unwrap_or(0);
    ensure(peak < before.memory + GROWTH, || {
        format!("memory grew from {} to {} MiB", before.memory >> 20, peak >> 20)
    })?;
    cx.at_rest(&gateway, before).await.map(|()| times)
}

const ERROR: &str = "a clear error each; no crash, no growth, and the next call works";

pub(crate) async fn run(cx: &mut Campaign) {
    cx.enter("input");
    cx.attack(
        "JSON: deep, huge numbers, twice the same key, bad UTF-8, NUL, cut, batches",
        ERROR,
        async |cx| against(cx, json::spelled_out).await,
    )
    .await;
    cx.attack("JSON: a good call with random bytes changed, cut or put in", ERROR, async |cx| {
        against(cx, json::mutated).await
    })
    .await;
    cx.attack(
        "HTTP/1: two lengths, length and chunks, bad chunks, bad heads",
        "400 or the end of the connection; what hides in a body is never a request",
        async |cx| against(cx, http1::smuggling).await,
    )
    .await;
    cx.attack(
        "HTTP/1: heads without end, and slow ones",
        "431 or the end of the connection; nobody else waits",
        async |cx| against(cx, http1::heads).await,
    )
    .await;
    cx.attack(
        "HTTP/2: floods of SETTINGS, PING, PRIORITY, empty DATA and unknown frames",
        "the connection is bounded or ends; the gateway serves others and does not grow",
        async |cx| against(cx, http2::floods).await,
    )
    .await;
    cx.attack(
        "HTTP/2: rapid reset, CONTINUATION without end, header bombs",
        "the connection ends; the gateway serves others and does not grow",
        async |cx| against(cx, http2::streams).await,
    )
    .await;
    cx.attack(
        "HTTP/2: window tricks, wrong stream ids and lengths, half a preface",
        "the connection ends or waits; the gateway serves others and does not grow",
        async |cx| against(cx, http2::rules).await,
    )
    .await;
    cx.attack(
        "event streams: bad Last-Event-ID, bad session ids, at both endpoints",
        "refused with 400 or 404; never the events of another session",
        async |cx| against(cx, sse::run).await,
    )
    .await;
    cx.attack(
        "WebSocket: unmasked, reserved bits, bad opcodes, huge, fragmented control frames",
        "the socket is closed; the bridge serves others and does not grow",
        async |cx| websocket::run(cx).await,
    )
    .await;
}

/// How long a peer that broke a rule may stay.
const SOON: Duration = Duration::from_secs(40);
