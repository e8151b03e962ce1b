//! Servers whose calls wait in line, die in between, or are cancelled.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{beside, with};
use crate::caller::{ERAS, Era, said};
use crate::campaign::{Campaign, Verdict, ensure};

pub(super) async fn run(cx: &mut Campaign) {
    cx.attack(
        "calls that wait in line when the process dies once",
        "the call it had fails; those that waited are answered by the next process",
        async |cx| queued(cx).await,
    )
    .await;
    cx.attack(
        "an answer that comes after its call was cancelled",
        "the answer reaches the client that cancelled; the next call works",
        async |cx| cancelled(cx).await,
    )
    .await;
    cx.attack(
        "a server that dies in every call",
        "each call fails at once or is answered; another server does not notice",
        async |cx| dying(cx).await,
    )
    .await;
}

async fn queued(cx: &Campaign) -> Verdict {
    let one = with(cx.shared("tools"), "maxConcurrency", json!(1));
    let gateway = cx.ready(&beside(cx, &[("one", one)])).await?;
    let mut first = gateway.caller("/mcp", Era::Modern);
    let first = tokio::spawn(async move { first.call("one__wait", json!({"ms": 60_000})).await });
    calls_at(&gateway, 1.0).await?;
    let mut waiting = Vec::new();
    for number in 0..cx.size(20, 200) {
        let mut caller = gateway.caller("/mcp", ERAS[number % 2]);
        waiting.push(tokio::spawn(async move {
            let answered = caller.echo("one__echo", json!({})).await;
            caller.leave().await;
            answered
        }));
    }
    let count = waiting.len();
    queued_at(&gateway, count).await?;
    let status = gateway.status().await?;
    let process = gateway.servers("tools");
    // Both servers are of the same program; the older is not told from the newer by words.
    for process in process {
        process.signal(rustix::process::Signal::KILL);
    }
    let said = first.await.map_err(|error| error.to_string())?;
    ensure(said.is_failure(), || {
        format!("the call that it had: {said} ({})", status["servers"]["one"])
    })?;
    for waiting in waiting {
        let answered = waiting.await.map_err(|error| error.to_string())??;
        ensure(answered, || "a call that waited failed with the process".to_owned())?;
    }
    Ok(count as u64)
}

async fn calls_at(gateway: &crate::gateway::Gateway, wanted: f64) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(20);
    while gateway.metric("switchboard_server_open_calls").await?.unwrap_or(0.0) < wanted {
        ensure(Instant::now() < end, || "the calls never came to their server".to_owned())?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn queued_at(gateway: &crate::gateway::Gateway, wanted: usize) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let queued = gateway.metric("switchboard_server_queued_calls").await?.unwrap_or(0.0);
        #[expect(clippy::cast_precision_loss, reason = "a small count")]
        if queued >= wanted as f64 {
            return Ok(());
        }
        ensure(Instant::now() < end, || format!("{queued} of {wanted} calls wait"))?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn cancelled(cx: &Campaign) -> Verdict {
    let gateway = cx.ready(&beside(cx, &[])).await?;
    let mut times = 0;
    for path in ["/mcp", "/servers/honest/mcp"] {
        let tool = if path == "/mcp" { "honest__late" } else { "late" };
        for _ in 0..cx.size(3, 20) {
            let mut caller = gateway.caller(path, Era::Legacy);
            caller.greet().await.map_err(|said| format!("{said}"))?;
            let call = json!({"name": tool, "arguments": {"message": "late"}});
            let (id, bytes) = caller.bytes("tools/call", call);
            // The same session, by another connection.
            let mut second = gateway.caller(path, Era::Legacy);
            second.session = caller.session.clone();
            let calling = tokio::spawn(async move { caller.exchange(&bytes).await });
            calls_at(&gateway, 1.0).await?;
            let noted = second.note("notifications/cancelled", json!({"requestId": id})).await;
            ensure(noted == Ok(202), || format!("the cancellation: {noted:?}"))?;
            let reply = timeout(Duration::from_secs(10), calling).await;
            let reply = reply.map_err(|_| "a cancelled call has no end".to_owned())?;
            let reply =
                reply.map_err(|error| error.to_string())?.map_err(|lost| lost.to_string())?;
            let said = said(&id, &reply);
            ensure(said.text() == Some("late"), || format!("a cancelled call gets {said}"))?;
            let next = second.echo(&tool.replace("late", "echo"), json!({})).await?;
            ensure(next, || "the next call fails".to_owned())?;
            second.leave().await;
            times += 1;
        }
    }
    Ok(times)
}

async fn dying(cx: &Campaign) -> Verdict {
    let gateway = cx.ready(&beside(cx, &[("mortal", cx.hostile("tools"))])).await?;
    let mut times = 0;
    for _ in 0..cx.size(2, 6) {
        for era in ERAS {
            let mut caller = gateway.caller("/servers/mortal/mcp", era);
            let since = Instant::now();
            let said = caller.call("die", json!({})).await;
            ensure(said.is_failure(), || format!("the call that kills it: {said}"))?;
            ensure(since.elapsed().as_secs() < 20, || "it failed late".to_owned())?;
            gateway.serves("honest__echo").await?;
            caller.leave().await;
            times += 1;
        }
    }
    Ok(times)
}
