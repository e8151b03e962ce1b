//! What can be used up: bytes, connections, sessions, users, processes, and ourselves.

use std::net::Ipv4Addr;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::caller::{CallResult, Caller, Era};
use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::{ADA, Gateway, Plan};
use crate::http::{Connection, request};
use crate::servers::Web;

pub(crate) async fn run(cx: &mut Campaign) {
    cx.enter("exhaustion");
    cx.attack(
        "bytes: bodies that are never finished, 1 GiB in all, with one key",
        "memory is bounded; calls of another key are answered meanwhile; all is given back",
        async |cx| bodies(cx).await,
    )
    .await;
    cx.attack(
        "connections: all of them taken by bodies that trickle",
        "/healthz answers; calls from another address are served",
        async |cx| trickle(cx, true).await,
    )
    .await;
    cx.attack(
        "connections: all of them taken by clients that rest after a 401",
        "/healthz answers; calls from another address are served",
        async |cx| trickle(cx, false).await,
    )
    .await;
    cx.attack(
        "sessions: more than there may be",
        "503 beyond the bound; calls of sessions that are open work, and so do those of other eras",
        async |cx| sessions(cx).await,
    )
    .await;
    cx.attack(
        "users: thousands of names that come once",
        "tasks, descriptors and memory are bounded; what users leave behind is forgotten",
        async |cx| users(cx).await,
    )
    .await;
    cx.attack(
        "processes: sessions with one each, opened and left",
        "each works; all processes end with their sessions",
        async |cx| processes(cx).await,
    )
    .await;
    cx.attack(
        "a gateway that is a server of its own file",
        "the gateway serves its other servers; connections and tasks do not grow; the call fails",
        async |cx| itself(cx).await,
    )
    .await;
}

fn plan(cx: &Campaign) -> Plan {
    let keys = json!({"root": {"key": "${ROOT_KEY}"}, "ada": {"key": "${ADA_KEY}"}});
    Plan::new(json!({"tools": cx.shared("tools")})).section(json!({"keys": keys}))
}

async fn bodies(cx: &Campaign) -> Verdict {
    let gateway = cx.ready(&plan(cx)).await?;
    gateway.serves("tools__echo").await?;
    let before = gateway.footprint().await?;
    let piece = vec![b' '; 8 << 20];
    let mut sending = Vec::new();
    for _ in 0..128 {
        let (port, piece) = (gateway.port, piece.clone());
        sending.push(tokio::spawn(async move {
            let length = (16 << 20).to_string();
            let headers = [
                ("X-API-Key", ADA),
                ("Content-Length", &length),
                crate::http::POST[0],
                crate::http::POST[1],
            ];
            let head = request("POST /mcp", port, &headers, b"");
            let mut connection = Connection::open(port).await.ok()?.patient(Duration::from_secs(4));
            connection.send(&head).await.ok()?;
            // Where nothing is read any more, sending stops; that is a bound too.
            _ = connection.send(&piece).await;
            Some(connection)
        }));
    }
    let mut most = 0;
    let mut caller = gateway.caller("/mcp", Era::Modern);
    let end = Instant::now() + Duration::from_secs(8);
    let mut honest = 0;
    while Instant::now() < end {
        let answered = caller.echo("tools__echo", json!({})).await?;
        ensure(answered, || "an honest call fails beside them".to_owned())?;
        honest += 1;
        most = most.max(gateway.process.memory().unwrap_or(0));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut open = Vec::new();
    for sending in sending {
        open.extend(sending.await.map_err(|error| error.to_string())?);
    }
    let grown = most.saturating_sub(before.memory) >> 20;
    // 128 MiB is what one key may have in flight, and some is on its way.
    ensure(grown < 400, || format!("memory grew by {grown} MiB"))?;
    drop(open);
    ensure(honest > 10, || format!("only {honest} honest calls in eight seconds"))?;
    cx.at_rest(&gateway, before).await.map(|()| 128)
}

/// An address of this machine that the attackers do not use.
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

async fn trickle(cx: &Campaign, trickles: bool) -> Verdict {
    let mut plan = plan(cx);
    if trickles {
        // Whoever has no key is sent away before a body is read.
        plan.section = json!({});
    }
    plan.section["limits"] = json!({"maxConnections": 32});
    let gateway = cx.ready(&plan).await?;
    let mut held = Vec::new();
    for _ in 0..40 {
        let connecting = Connection::open(gateway.port).await;
        let mut connection =
            connecting.map_err(|lost| lost.to_string())?.patient(Duration::from_secs(2));
        let bytes = if trickles {
            let headers =
                [("Content-Length", "100000"), crate::http::POST[0], crate::http::POST[1]];
            request("POST /mcp", gateway.port, &headers, b"{")
        } else {
            request("GET /status", gateway.port, &[], b"")
        };
        // The last ones wait in the kernel.
        _ = connection.send(&bytes).await;
        held.push(connection);
    }
    let holding = tokio::spawn(async move {
        // A byte now and then, for as long as the attack takes.
        for _ in 0..120 {
            for connection in &mut held {
                if trickles {
                    _ = connection.send(b" ").await;
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        drop(held);
    });
    let since = Instant::now();
    let well = loop {
        let well = gateway.is_well(Duration::from_secs(3)).await;
        if well.is_ok() || since.elapsed().as_secs() > 25 {
            break well;
        }
    };
    let mut caller = gateway.caller("/mcp", Era::Modern).patient(Duration::from_secs(20));
    caller.from = OTHER;
    let answered = match &well {
        Ok(()) => caller.echo("tools__echo", json!({})).await,
        Err(_) => Ok(false),
    };
    holding.abort();
    well?;
    ensure(answered?, || "an honest call fails beside them".to_owned())?;
    Ok(40)
}

async fn sessions(cx: &Campaign) -> Verdict {
    let mut plan = plan(cx);
    plan.section["limits"] = json!({"maxSessions": 50});
    plan.args = vec!["--no-cache".to_owned(), "--session-timeout".to_owned(), "6".to_owned()];
    let gateway = cx.ready(&plan).await?;
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..200 {
        let mut caller = gateway.caller("/mcp", Era::Legacy);
        match caller.greet().await {
            Ok(()) => open.push(caller),
            Err(CallResult::Refused(503, _) | CallResult::Error(..)) => refused += 1,
            Err(said) => return Err(format!("{said}")),
        }
    }
    // One key leaves a quarter of them to others.
    ensure(open.len() == 38, || format!("{} sessions are open, {refused} refused", open.len()))?;
    for caller in open.iter_mut().take(5) {
        ensure(caller.echo("tools__echo", json!({})).await?, || {
            "an open session fails".to_owned()
        })?;
    }
    let mut modern = gateway.caller("/mcp", Era::Modern);
    ensure(modern.echo("tools__echo", json!({})).await?, || "a modern client fails".to_owned())?;
    for caller in open {
        caller.leave().await;
    }
    gateway.serves("tools__echo").await.map(|()| 200)
}

async fn users(cx: &Campaign) -> Verdict {
    let web = Web::start().await?;
    let server = json!({"url": web.url(), "type": "http", "passHeaders": ["X-User"]});
    let gateway = cx.ready(&Plan::new(json!({"web": server, "tools": cx.shared("tools")}))).await?;
    gateway.serves("tools__echo").await?;
    // 1,024 users are remembered at each path; what comes after them is about the forgotten.
    let (first, count) = (cx.size(20, 1_100), cx.size(180, 3_000));
    let come = async |gateway: &Gateway, from: usize, count: usize| {
        for number in from..from + count {
            let mut caller = gateway.caller("/mcp", Era::Modern);
            caller.headers = vec![("X-User".to_owned(), format!("user-{number}"))];
            let answered = caller.echo("web__echo", json!({})).await?;
            ensure(answered, || format!("the call of user {number} fails"))?;
            let listed = caller.ask("tools/list", json!({})).await;
            ensure(matches!(listed, CallResult::Result(_)), || format!("user {number}: {listed}"))?;
        }
        Ok::<_, String>(())
    };
    come(&gateway, 0, first).await?;
    let before = gateway.footprint().await?;
    come(&gateway, 10_000, count).await?;
    let allowed = if cx.is_quick { 8 * count as u64 } else { 100 };
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let now = gateway.footprint().await?;
        let (tasks, descriptors) = (
            now.tasks.saturating_sub(before.tasks),
            now.descriptors.saturating_sub(before.descriptors),
        );
        let memory = now.memory.saturating_sub(before.memory) >> 20;
        if tasks < allowed && descriptors < 100 && memory < 96 {
            break;
        }
        ensure(Instant::now() < end, || {
            format!("{count} users left {tasks} tasks, {descriptors} descriptors and {memory} MiB")
        })?;
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    gateway.serves("tools__echo").await.map(|()| count as u64)
}

async fn processes(cx: &Campaign) -> Verdict {
    let gateway = cx
        .ready(&Plan::new(json!({"own": cx.hostile("tools"), "tools": cx.shared("tools")})))
        .await?;
    gateway.serves("tools__echo").await?;
    let before = gateway.footprint().await?;
    let count = cx.size(60, 400);
    let mut callers: Vec<Caller> = Vec::new();
    for _ in 0..count {
        let mut caller = gateway.caller("/servers/own/mcp", Era::Legacy);
        ensure(caller.echo("echo", json!({})).await?, || {
            "a session with its own process fails".to_owned()
        })?;
        callers.push(caller);
    }
    let most = gateway.children().len();
    for (number, caller) in callers.into_iter().enumerate() {
        // Half of them say goodbye, the others are forgotten.
        if number % 2 == 0 {
            caller.leave().await;
        }
    }
    cx.at_rest(&gateway, before)
        .await
        .map_err(|why| format!("{why}; there were {most} processes"))?;
    gateway.end(Signal::TERM, Duration::from_secs(20)).await.map(|()| count as u64)
}

async fn itself(cx: &Campaign) -> Verdict {
    let mut gateway = None;
    // Somebody else may take the port before the gateway does; then another is tried.
    for _ in 0..5 {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        drop(listener);
        let url = format!("http://127.0.0.1:{port}/mcp");
        let mut plan = Plan::new(
            json!({"tools": cx.shared("tools"), "myself": {"url": url, "type": "http", "timeout": "5s", "startTimeout": "5s"}}),
        );
        plan.port = port;
        if let Ok(started) = cx.gateway(&plan).await {
            gateway = Some(started);
            break;
        }
    }
    let gateway = gateway.ok_or("the gateway does not start")?;
    gateway.ready(&["tools"]).await?;
    let mut caller = gateway.caller("/mcp", Era::Modern);
    let end = Instant::now() + Duration::from_secs(cx.size(8, 30) as u64);
    let mut times = 0;
    while Instant::now() < end {
        ensure(caller.echo("tools__echo", json!({})).await?, || "an honest call fails".to_owned())?;
        for name in ["myself__tools__echo", "myself__myself__tools__echo"] {
            let since = Instant::now();
            let said = caller.call(name, json!({"message": "x"})).await;
            let is_told = said.is_failure() || said.text() == Some("x");
            ensure(is_told && since.elapsed().as_secs() < 30, || format!("{name}: {said}"))?;
        }
        let now = gateway.footprint().await?;
        ensure(now.descriptors < 200 && now.tasks < 400, || {
            format!("{} descriptors and {} tasks", now.descriptors, now.tasks)
        })?;
        let listed = caller.ask("tools/list", json!({})).await;
        let CallResult::Result(result) = &listed else { return Err(format!("{listed}")) };
        let tools = result["tools"].as_array().map_or(0, Vec::len);
        ensure(tools < 200, || format!("{tools} tools are listed"))?;
        times += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(times)
}
