//! Bad clients: they hang up, never read, ask for everything and abandon it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::caller::{CallResult, Caller, ERAS, Era, nonce};
use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::{Gateway, Plan, ROOT};
use crate::http::{Connection, Lost};

mod crowd;

fn plan(cx: &Campaign) -> Plan {
    Plan::new(json!({"tools": cx.shared("tools"), "own": cx.hostile("tools")}))
}

/// Attacks a gateway that is then as it was.
async fn against(
    cx: &Campaign,
    attack: impl AsyncFnOnce(&Campaign, &Gateway) -> Verdict,
) -> Verdict {
    let gateway = cx.ready(&plan(cx)).await?;
    gateway.serves("tools__echo").await?;
    gateway.serves("own__echo").await?;
    let before = gateway.footprint().await?;
    let times = attack(cx, &gateway).await?;
    gateway.serves("tools__echo").await?;
    cx.at_rest(&gateway, before).await.map(|()| times)
}

pub(crate) async fn run(cx: &mut Campaign) {
    cx.enter("clients");
    cx.attack(
        "hang up at every byte of a request, and at any moment of its answer",
        "nothing is left behind; others do not notice",
        async |cx| against(cx, hang_up).await,
    )
    .await;
    cx.attack(
        "ask for 384 MiB and more, and never read it",
        "memory is bounded; others are answered; all is given back",
        async |cx| against(cx, never_read).await,
    )
    .await;
    cx.attack(
        "half-closed: send a request, end the sending side, wait for the answer",
        "the answer comes",
        async |cx| against(cx, half_closed).await,
    )
    .await;
    cx.attack(
        "floods of calls at once, by few clients",
        "each is answered with its own answer, or refused with 429",
        async |cx| against(cx, flood).await,
    )
    .await;
    cx.attack(
        "calls that are cancelled or dropped at any moment",
        "every other call gets its own answer; nothing is left behind",
        async |cx| against(cx, cancels).await,
    )
    .await;
    cx.attack(
        "sessions that are opened and abandoned",
        "they end after the session timeout, with their processes",
        async |cx| against(cx, abandoned).await,
    )
    .await;
    crowd::run(cx).await;
}

async fn hang_up(cx: &Campaign, gateway: &Gateway) -> Verdict {
    let mut times = 0;
    let mut random = cx.random.fork(41);
    let step = cx.size(7, 1);
    for era in ERAS {
        for tool in ["tools__wait", "own__wait"] {
            let mut caller = gateway.caller("/mcp", era);
            caller.greet().await.map_err(|said| format!("{said}"))?;
            let call = json!({"name": tool, "arguments": {"ms": 30, "message": "x"}});
            let length = caller.bytes("tools/call", call.clone()).1.len();
            for at in (0..=length).step_by(step) {
                let (_, bytes) = caller.bytes("tools/call", call.clone());
                let mut connection =
                    Connection::open(gateway.port).await.map_err(|lost| lost.to_string())?;
                // It need not listen to the end.
                _ = connection.send(&bytes[..at.min(bytes.len())]).await;
                if at >= length {
                    tokio::time::sleep(Duration::from_millis(random.below(40))).await;
                }
                if random.once_in(2) {
                    // A reset in place of an orderly end.
                    _ = connection.stream.set_zero_linger();
                }
                times += 1;
            }
            for _ in 0..cx.size(20, 200) {
                let (_, bytes) = caller.bytes("tools/call", call.clone());
                let mut connection =
                    Connection::open(gateway.port).await.map_err(|lost| lost.to_string())?;
                _ = connection.send(&bytes).await;
                tokio::time::sleep(Duration::from_millis(random.below(45))).await;
                times += 1;
            }
            caller.leave().await;
        }
    }
    gateway.lives().map(|()| times)
}

async fn never_read(cx: &Campaign, gateway: &Gateway) -> Verdict {
    let count = cx.size(96, 256);
    let before = gateway.process.memory().unwrap_or(0);
    let mut deaf = Vec::new();
    for number in 0..count {
        let mut caller = gateway.caller("/mcp", ERAS[number % 2]);
        caller.greet().await.map_err(|said| format!("{said}"))?;
        let call = json!({"name": "tools__big", "arguments": {"bytes": 4 << 20}});
        let (_, bytes) = caller.bytes("tools/call", call);
        let mut connection =
            Connection::open(gateway.port).await.map_err(|lost| lost.to_string())?;
        connection.send(&bytes).await.map_err(|lost| lost.to_string())?;
        deaf.push((connection, caller));
    }
    let mut most = 0;
    let mut caller = gateway.caller("/mcp", Era::Modern).patient(Duration::from_mins(1));
    for _ in 0..100 {
        let answered = caller.echo("own__echo", json!({})).await?;
        ensure(answered, || "an honest call fails beside them".to_owned())?;
        most = most.max(gateway.process.memory().unwrap_or(0));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // At the same server its answer comes behind all that they asked for.
    caller.patience = Duration::from_mins(2);
    let answered = caller.echo("tools__echo", json!({})).await?;
    ensure(answered, || "an honest call fails behind them".to_owned())?;
    most = most.max(gateway.process.memory().unwrap_or(0));
    let grown = most.saturating_sub(before) >> 20;
    // 256 MiB is what clients may leave unread, and some is on its way.
    ensure(grown < 400, || format!("memory grew by {grown} MiB"))?;
    for (connection, caller) in deaf {
        drop(connection);
        caller.leave().await;
    }
    Ok(count as u64)
}

async fn half_closed(cx: &Campaign, gateway: &Gateway) -> Verdict {
    let mut times = 0;
    let mut unanswered = BTreeMap::new();
    for era in ERAS {
        for ms in [0, 300] {
            for _ in 0..cx.size(5, 50) {
                times += 1;
                if let Err(why) = half_closed_call(gateway.caller("/mcp", era), ms).await {
                    let all = unanswered.entry(format!("{era:?}, {ms} ms: {why}")).or_insert(0);
                    *all += 1;
                }
            }
        }
    }
    ensure(unanswered.is_empty(), || format!("of {times} calls: {unanswered:?}"))?;
    Ok(times)
}

async fn half_closed_call(mut caller: Caller, ms: u64) -> Result<(), String> {
    caller.greet().await.map_err(|said| said.to_string())?;
    let wanted = nonce();
    let call = json!({"name": "tools__wait", "arguments": {"ms": ms, "message": wanted}});
    let (id, bytes) = caller.bytes("tools/call", call);
    let mut connection = Connection::open(caller.port).await.map_err(|lost| lost.to_string())?;
    connection.send(&bytes).await.map_err(|lost| lost.to_string())?;
    connection.end().await;
    let reply = connection.reply().await.map_err(|lost| lost.to_string())?;
    let said = crate::caller::said(&id, &reply);
    caller.leave().await;
    ensure(said.text() == Some(&wanted), || said.to_string())
}

async fn flood(cx: &Campaign, gateway: &Gateway) -> Verdict {
    let mut calling = Vec::new();
    let count = cx.size(400, 2_000);
    let mut session = gateway.caller("/mcp", Era::Legacy);
    session.greet().await.map_err(|said| format!("{said}"))?;
    for number in 0..count {
        let mut caller = gateway.caller("/mcp", ERAS[number % 2]);
        if caller.era == Era::Legacy {
            caller.session.clone_from(&session.session);
        }
        calling.push(tokio::spawn(async move {
            caller.patience = Duration::from_mins(1);
            caller.echo("tools__wait", json!({"ms": 20})).await
        }));
    }
    let mut answered = 0;
    for calling in calling {
        answered += u64::from(calling.await.map_err(|error| error.to_string())??);
    }
    ensure(answered > count as u64 / 4, || format!("only {answered} of {count} were answered"))?;
    session.leave().await;
    Ok(count as u64)
}

async fn cancels(cx: &Campaign, gateway: &Gateway) -> Verdict {
    let mut calling = Vec::new();
    for number in 0..cx.size(40, 200) {
        let (port, random) = (gateway.port, cx.random.fork(4300 + number as u64));
        calling.push(tokio::spawn(one_that_cancels(port, ERAS[number % 2], random)));
    }
    let mut times = 0;
    for calling in calling {
        times += calling.await.map_err(|error| error.to_string())??;
    }
    Ok(times)
}

/// Makes calls of which it drops or cancels many; the others must be right.
async fn one_that_cancels(port: u16, era: Era, mut random: crate::random::Random) -> Verdict {
    let mut caller = Caller::new(port, "/mcp", era, Some(ROOT));
    caller.greet().await.map_err(|said| format!("{said}"))?;
    for _ in 0..20 {
        let tool = *random.pick(&["tools__wait", "own__wait"]);
        if random.once_in(2) {
            let answered = caller.echo(tool, json!({"ms": random.below(20)})).await?;
            ensure(answered, || "a call beside cancelled ones fails".to_owned())?;
            continue;
        }
        let call = json!({"name": tool, "arguments": {"ms": 200, "message": "x"}});
        let (id, bytes) = caller.bytes("tools/call", call);
        let mut connection = Connection::open(port).await.map_err(|lost| lost.to_string())?;
        connection.send(&bytes).await.map_err(|lost| lost.to_string())?;
        tokio::time::sleep(Duration::from_millis(random.below(30))).await;
        if era == Era::Legacy {
            let noted = caller.note("notifications/cancelled", json!({"requestId": id})).await;
            ensure(noted == Ok(202), || format!("the cancellation: {noted:?}"))?;
            let ended = timeout(Duration::from_secs(20), connection.reply()).await;
            ensure(ended.is_ok(), || "a cancelled call has no end".to_owned())?;
        }
    }
    caller.leave().await;
    Ok(20)
}

async fn abandoned(cx: &Campaign, gateway: &Gateway) -> Verdict {
    let count = cx.size(150, 1_000);
    let mut times = 0;
    let since = Instant::now();
    for number in 0..count {
        // Some have a process of their own.
        let path = if number % 15 == 0 { "/servers/own/mcp" } else { "/mcp" };
        let mut caller = gateway.caller(path, Era::Legacy);
        match caller.greet().await {
            Ok(()) => times += 1,
            Err(CallResult::Refused(503, _) | CallResult::Error(..)) => {}
            Err(CallResult::Lost(Lost::Closed(_))) if since.elapsed().as_secs() > 60 => break,
            Err(said) => return Err(format!("session {number}: {said}")),
        }
    }
    let end = Instant::now() + Duration::from_secs(30);
    while gateway.metric("switchboard_sessions").await?.unwrap_or(0.0) > 0.0 {
        ensure(Instant::now() < end, || "sessions outlive their timeout".to_owned())?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(times)
}
