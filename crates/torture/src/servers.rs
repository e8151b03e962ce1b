//! Bad servers: on stdio and over HTTP, from their greeting to their end.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::caller::{CallResult, Caller, ERAS, Era, nonce};
use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::{Gateway, Plan};

mod order;
mod ways;
mod web;

pub(crate) use web::Web;

/// An honest server beside others.
fn beside(cx: &Campaign, others: &[(&str, Value)]) -> Plan {
    let mut servers = json!({"honest": cx.shared("tools")});
    for (name, server) in others {
        servers[name] = server.clone();
    }
    Plan::new(servers)
}

fn with(mut server: Value, key: &str, value: Value) -> Value {
    server[key] = value;
    server
}

pub(crate) async fn run(cx: &mut Campaign) {
    cx.enter("servers");
    cx.attack(
        "servers that exit at once, never greet, greet wrongly or twice, write garbage or a line without end",
        "their calls fail in time; another server's calls work; starts and memory are bounded",
        async |cx| bad_starts(cx).await,
    )
    .await;
    cx.attack(
        "garbage, a line without end, answers twice, answers to calls nobody made",
        "every caller gets its own answer and nothing else",
        async |cx| strays(cx).await,
    )
    .await;
    cx.attack(
        "answers that cannot be read, on stdio: torn, not UTF-8, too deep",
        "the call fails at once, not after its timeout; the next call works",
        async |cx| unreadable(cx).await,
    )
    .await;
    cx.attack(
        "a server that never answers, and one that stops reading",
        "the call fails after its timeout; other servers do not notice",
        async |cx| silent(cx).await,
    )
    .await;
    cx.attack(
        "floods of notifications while calls are made",
        "every call is answered; memory is bounded",
        async |cx| flood(cx).await,
    )
    .await;
    cx.attack(
        "questions that belong to no call, to clients that cannot be asked",
        "refused at the server; no client sees one; calls go on",
        async |cx| asker(cx).await,
    )
    .await;
    cx.attack(
        "grandchildren that heed neither SIGTERM nor the end of stdin",
        "all of the server's group is gone with the gateway, and with a server that is removed",
        async |cx| family(cx).await,
    )
    .await;
    cx.attack(
        "answers of 20 MiB, several at once",
        "passed on whole; memory is back afterwards",
        async |cx| big(cx).await,
    )
    .await;
    cx.attack(
        "descriptors that the gateway inherited",
        "no server gets them: it has its three streams",
        async |cx| descriptors(cx).await,
    )
    .await;
    order::run(cx).await;
    ways::run(cx).await;
}

/// A call that must fail in a clear way, in time.
async fn fails(caller: &mut Caller, tool: &str, within: Duration) -> Result<(), String> {
    let since = Instant::now();
    let said = caller.call(tool, json!({"message": nonce()})).await;
    let lasted = since.elapsed();
    let is_known = !matches!(&said, CallResult::Error(_, why) if why.contains("Unknown tool"));
    ensure(said.is_failure() && is_known, || format!("{tool}: {said}"))?;
    ensure(lasted < within, || format!("{tool} failed only after {} s", lasted.as_secs()))
}

async fn bad_starts(cx: &Campaign) -> Verdict {
    let kinds = ["exit", "mute", "garbage", "endless-line", "wrong-greeting", "twice-greeting"];
    let bad = |kind: &str| {
        with(with(cx.hostile(kind), "startTimeout", "3s".into()), "timeout", "3s".into())
    };
    let others: Vec<_> = kinds.iter().map(|kind| (*kind, bad(kind))).collect();
    let gateway = cx.gateway(&beside(cx, &others)).await?;
    gateway.ready(&["honest"]).await?;
    let mut times = 0;
    for round in 0..cx.size(1, 4) {
        let mut calling = Vec::new();
        for era in ERAS {
            for kind in kinds {
                let caller = gateway.caller(&format!("/servers/{kind}/mcp"), era);
                calling.push(tokio::spawn(call_to_a_bad_one(caller, kind)));
            }
        }
        gateway.serves("honest__echo").await?;
        for calling in calling {
            let called = calling.await.map_err(|error| error.to_string())?;
            called.map_err(|why| format!("round {round}: {why}"))?;
            times += 1;
        }
        gateway.serves("honest__echo").await?;
    }
    let starts = gateway.metric("switchboard_server_starts_total").await?.unwrap_or(0.0);
    ensure(starts < 120.0, || format!("{starts} processes were started"))?;
    let memory = gateway.process.peak_memory().unwrap_or(0) >> 20;
    ensure(memory < 400, || format!("{memory} MiB of memory"))?;
    gateway.end(Signal::TERM, Duration::from_secs(30)).await.map(|()| times)
}

/// Fails in time; one that greets twice is good enough to be used.
async fn call_to_a_bad_one(mut caller: Caller, kind: &str) -> Result<(), String> {
    let since = Instant::now();
    let said = caller.call("echo", json!({"message": "x"})).await;
    let is_told = said.is_failure() || kind == "twice-greeting" && said.text() == Some("x");
    ensure(is_told, || format!("{kind}, {:?}: {said}", caller.era))?;
    let seconds = since.elapsed().as_secs();
    ensure(seconds < 20, || format!("{kind}, {:?} failed only after {seconds} s", caller.era))
}

/// Calls all of these at once by as many clients, again and again; each must get its own nonce.
async fn each_gets_its_own(gateway: &Gateway, tools: &[(&str, Value)], rounds: usize) -> Verdict {
    let mut calling = Vec::new();
    for era in ERAS {
        for (tool, arguments) in tools {
            let (tool, arguments) = ((*tool).to_owned(), arguments.clone());
            let mut caller = gateway.caller("/mcp", era);
            calling.push(tokio::spawn(async move {
                for _ in 0..rounds {
                    let answered = caller.echo(&tool, arguments.clone()).await?;
                    ensure(answered, || format!("a call of {tool} failed"))?;
                }
                caller.leave().await;
                Ok::<_, String>(rounds as u64)
            }));
        }
    }
    let mut times = 0;
    for calling in calling {
        times += calling.await.map_err(|error| error.to_string())??;
    }
    Ok(times)
}

async fn strays(cx: &Campaign) -> Verdict {
    let gateway = cx.ready(&beside(cx, &[])).await?;
    let tools = [
        ("honest__echo", json!({})),
        ("honest__wait", json!({"ms": 5})),
        ("honest__garbage", json!({})),
        ("honest__twice", json!({})),
        ("honest__stray", json!({"count": 50})),
        ("honest__echo", json!({})),
    ];
    let times = each_gets_its_own(&gateway, &tools, cx.size(40, 400)).await?;
    let endless = [("honest__endless", json!({"count": 40 << 20})), ("honest__echo", json!({}))];
    let more = each_gets_its_own(&gateway, &endless, 3).await?;
    gateway.serves("honest__echo").await.map(|()| times + more)
}

async fn unreadable(cx: &Campaign) -> Verdict {
    let gateway = cx.ready(&beside(cx, &[])).await?;
    let mut times = 0;
    for era in ERAS {
        let mut caller = gateway.caller("/mcp", era);
        for tool in ["torn", "binary", "deep"] {
            fails(&mut caller, &format!("honest__{tool}"), Duration::from_secs(10)).await?;
            ensure(caller.echo("honest__echo", json!({})).await?, || {
                format!("no call after {tool}")
            })?;
            times += 1;
        }
        // More digits than any number of ours has; they are passed on as they are.
        let (_, bytes) =
            caller.bytes("tools/call", json!({"name": "honest__number", "arguments": {}}));
        let reply = caller.exchange(&bytes).await.map_err(|lost| format!("number: {lost}"))?;
        let is_whole = reply.text().contains(&"9".repeat(100_000));
        ensure(is_whole, || format!("number: {:.200}", reply.text()))?;
        caller.leave().await;
    }
    Ok(times)
}

async fn silent(cx: &Campaign) -> Verdict {
    let short = with(cx.shared("tools"), "timeout", "2s".into());
    let deaf = with(with(cx.shared("deaf"), "timeout", "2s".into()), "startTimeout", "3s".into());
    let gateway = cx.gateway(&beside(cx, &[("short", short), ("deaf", deaf)])).await?;
    gateway.ready(&["honest", "short"]).await?;
    let mut times = 0;
    for era in ERAS {
        let mut caller = gateway.caller("/mcp", era);
        fails(&mut caller, "short__hang", Duration::from_secs(15)).await?;
        ensure(caller.echo("short__echo", json!({})).await?, || {
            "no call after one that hung".to_owned()
        })?;
        let mut deaf = gateway.caller("/servers/deaf/mcp", era);
        let big = "x".repeat(1 << 20);
        for _ in 0..3 {
            let since = Instant::now();
            let said = deaf.call("echo", json!({"message": big})).await;
            ensure(said.is_failure(), || format!("of a deaf server: {said}"))?;
            ensure(since.elapsed().as_secs() < 20, || {
                "a deaf server's call failed late".to_owned()
            })?;
            times += 1;
        }
        gateway.serves("honest__echo").await?;
        times += 1;
    }
    Ok(times)
}

async fn flood(cx: &Campaign) -> Verdict {
    let gateway = cx.gateway(&beside(cx, &[("flood", cx.shared("flood"))])).await?;
    gateway.ready(&["honest"]).await?;
    let tools = [
        ("flood__echo", json!({})),
        ("honest__echo", json!({})),
        ("honest__flood", json!({"count": 2000})),
    ];
    let times = each_gets_its_own(&gateway, &tools, cx.size(5, 50)).await?;
    let memory = gateway.process.peak_memory().unwrap_or(0) >> 20;
    ensure(memory < 300, || format!("{memory} MiB of memory"))?;
    gateway.serves("honest__echo").await.map(|()| times)
}

async fn asker(cx: &Campaign) -> Verdict {
    let gateway = cx.ready(&beside(cx, &[("asker", cx.shared("asker"))])).await?;
    let mut times = 0;
    let mut callers: Vec<_> = ERAS.iter().map(|era| gateway.caller("/mcp", *era)).collect();
    for _ in 0..cx.size(20, 100) {
        for caller in &mut callers {
            caller.greet().await.map_err(|said| format!("{said}"))?;
            let wanted = nonce();
            let params = json!({"name": "asker__wait", "arguments": {"ms": 20, "message": wanted}});
            let (id, bytes) = caller.bytes("tools/call", params);
            let reply = caller.exchange(&bytes).await.map_err(|lost| lost.to_string())?;
            let messages = reply.messages();
            let asked = messages
                .iter()
                .find(|message| message["method"].is_string() && !message["id"].is_null());
            ensure(asked.is_none(), || {
                format!(
                    "a client without capabilities was asked for {}",
                    asked.map_or("", |it| it["method"].as_str().unwrap_or_default())
                )
            })?;
            let said = crate::caller::said(&id, &reply);
            ensure(said.text() == Some(&wanted), || format!("asked beside: {said}"))?;
            times += 1;
        }
    }
    Ok(times)
}

async fn family(cx: &Campaign) -> Verdict {
    let others = [("family", cx.shared("family")), ("stubborn", cx.shared("stubborn"))];
    let plan = beside(cx, &others);
    let gateway = cx.ready(&plan).await?;
    let before = gateway.children().len();
    ensure(before > 12, || format!("only {before} processes"))?;
    gateway.rewrite(&beside(cx, &[]))?;
    let end = Instant::now() + Duration::from_secs(40);
    while gateway.children().len() > 4 {
        ensure(Instant::now() < end, || {
            let words: Vec<_> = gateway.children().iter().map(|it| it.words().join(" ")).collect();
            format!("processes of servers that were removed: {words:?}")
        })?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    gateway.rewrite(&plan)?;
    gateway.ready(&["family", "stubborn"]).await?;
    gateway.end(Signal::TERM, Duration::from_secs(30)).await?;
    let gateway = cx.ready(&plan).await?;
    gateway.end(Signal::KILL, Duration::from_secs(30)).await.map(|()| 3)
}

async fn big(cx: &Campaign) -> Verdict {
    let gateway = cx.ready(&beside(cx, &[])).await?;
    gateway.serves("honest__echo").await?;
    let before = gateway.footprint().await?;
    let bytes = 20 << 20;
    let mut times = 0;
    for _ in 0..cx.size(1, 5) {
        let mut calling = Vec::new();
        for era in [Era::Legacy, Era::Modern, Era::Legacy, Era::Modern] {
            let mut caller = gateway.caller("/mcp", era);
            calling.push(tokio::spawn(async move {
                let said = caller.call("honest__big", json!({"bytes": bytes})).await;
                caller.leave().await;
                said.text().map_or(0, str::len)
            }));
        }
        for calling in calling {
            let length = calling.await.map_err(|error| error.to_string())?;
            ensure(length == bytes, || format!("{length} of {bytes} bytes came"))?;
            times += 1;
        }
    }
    cx.at_rest(&gateway, before).await.map(|()| times)
}

async fn descriptors(cx: &Campaign) -> Verdict {
    let mut plan = beside(cx, &[]);
    let line = "exec 7</dev/null 8</dev/null 9>/dev/null; exec \"$0\" \"$@\"";
    plan.before = ["sh", "-c", line].map(ToOwned::to_owned).to_vec();
    let gateway = cx.ready(&plan).await?;
    let mut caller = gateway.caller("/mcp", Era::Modern);
    let said = caller.call("honest__descriptors", json!({})).await;
    let told = said.text().unwrap_or_default().to_owned();
    let extra: Vec<_> = told.split(' ').filter(|it| !["0", "1", "2"].contains(it)).collect();
    ensure(!told.is_empty() && extra.is_empty(), || {
        format!("a server has descriptors {told}: {said}")
    })?;
    Ok(3)
}
