//! Many calls that wait for one server, and one event that moves them all.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::caller::{CallResult, ERAS, Era};
use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::{Gateway, Plan};
use crate::http::Connection;

pub(super) async fn run(cx: &mut Campaign) {
    cx.attack(
        "17 sorts of clients, 128 calls open, 100 waiting, and one hangs up",
        "the gateway lives; each call that waited is answered or refused",
        async |cx| seventeen(cx).await,
    )
    .await;
    cx.attack(
        "1,024 calls wait for a server that takes one at a time, and it is removed",
        "the gateway lives; each call is answered or refused",
        async |cx| removed(cx).await,
    )
    .await;
}

/// Waits until so many calls wait for servers.
async fn queued(gateway: &Gateway, wanted: f64) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(40);
    loop {
        let queued = gateway.metric("switchboard_server_queued_calls").await?.unwrap_or(0.0);
        if queued >= wanted {
            return Ok(());
        }
        ensure(Instant::now() < end, || format!("{queued} of {wanted} calls wait"))?;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// Waits until so many calls are open at servers.
async fn open(gateway: &Gateway, wanted: f64) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(40);
    while gateway.metric("switchboard_server_open_calls").await?.unwrap_or(0.0) < wanted {
        ensure(Instant::now() < end, || "the calls never came to their server".to_owned())?;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    Ok(())
}

async fn seventeen(cx: &Campaign) -> Verdict {
    let gateway = cx
        .ready(&Plan::new(json!({"own": cx.hostile("tools"), "tools": cx.shared("tools")})))
        .await?;
    let sort = |number: usize| {
        let able = json!({"experimental": {"sort": {"number": number}}});
        gateway.caller("/mcp", Era::Modern).able(able)
    };
    let mut held = Vec::new();
    for number in 0..128 {
        let (_, bytes) =
            sort(number % 16).bytes("tools/call", json!({"name": "own__hang", "arguments": {}}));
        let mut connection =
            Connection::open(gateway.port).await.map_err(|lost| lost.to_string())?;
        connection.send(&bytes).await.map_err(|lost| lost.to_string())?;
        held.push(connection);
    }
    open(&gateway, 128.0).await?;
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut caller = sort(16);
        waiting.push(tokio::spawn(async move { caller.echo("own__echo", json!({})).await }));
    }
    queued(&gateway, 100.0).await?;
    drop(held.pop());
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        gateway.lives()?;
    }
    drop(held);
    for waiting in waiting {
        waiting.await.map_err(|error| error.to_string())??;
    }
    gateway.serves("tools__echo").await.map(|()| 229)
}

async fn removed(cx: &Campaign) -> Verdict {
    let mut one = cx.shared("tools");
    one["maxConcurrency"] = json!(1);
    let honest = Plan::new(json!({"tools": cx.shared("tools")}));
    let mut plan = honest.clone();
    plan.servers["one"] = one;
    let gateway = cx.ready(&plan).await?;
    // A server that is removed has a minute for the calls it has; that is for the full form.
    let (first, ms) = if cx.is_quick { ("one__wait", 10_000) } else { ("one__hang", 0) };
    let mut waiting = Vec::new();
    for number in 0..=1024 {
        let mut caller = gateway.caller("/mcp", ERAS[number % 2]).patient(Duration::from_mins(2));
        let (tool, ms) = if number == 0 || !cx.is_quick { (first, ms) } else { ("one__wait", 0) };
        waiting.push(tokio::spawn(async move {
            let said = caller.call(tool, json!({"ms": ms})).await;
            caller.leave().await;
            said
        }));
        if number == 0 {
            // It is the one that the others wait for.
            open(&gateway, 1.0).await?;
        }
    }
    // Some are refused, for the line is full; the others wait.
    queued(&gateway, 1000.0).await?;
    gateway.rewrite(&honest)?;
    for waiting in waiting {
        let said = waiting.await.map_err(|error| error.to_string())?;
        let is_told = said.is_failure() || matches!(said, CallResult::Result(_));
        gateway.lives()?;
        ensure(is_told, || format!("a call that waited: {said}"))?;
    }
    gateway.serves("tools__echo").await.map(|()| 1025)
}
