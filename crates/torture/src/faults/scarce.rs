//! What runs out under a gateway: descriptors, room on disk, somewhere to log.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpStream;

use crate::caller::{CallResult, Era, nonce};
use crate::campaign::{Campaign, Verdict, ensure, eventually};
use crate::gateway::Plan;
use crate::http::Lost;

pub(super) async fn run(cx: &mut Campaign) {
    cx.attack(
        "no descriptors left: more connections than ulimit -n",
        "the gateway lives, says so in its log, and serves again when some are free",
        async |cx| descriptors(cx).await,
    )
    .await;
    cx.attack(
        "a full disk, and folders that are none, for the cache; a full device for the log",
        "the gateway serves all the same",
        async |cx| disk(cx).await,
    )
    .await;
}

async fn descriptors(cx: &Campaign) -> Verdict {
    let mut plan = Plan::new(json!({"tools": cx.shared("tools"), "own": cx.hostile("tools")}));
    let line = "ulimit -n 80; exec \"$0\" \"$@\"";
    plan.before = ["sh", "-c", line].map(ToOwned::to_owned).to_vec();
    let gateway = cx.ready(&plan).await?;
    let mut open = Vec::new();
    for _ in 0..120 {
        let connecting = tokio::time::timeout(
            Duration::from_millis(300),
            TcpStream::connect(("127.0.0.1", gateway.port)),
        )
        .await;
        // Beyond its bound they wait in the kernel, and at last nobody takes them.
        open.extend(connecting.ok().and_then(Result::ok));
    }
    let mut calls = Vec::new();
    for _ in 0..cx.size(10, 30) {
        let mut caller = gateway.caller("/servers/own/mcp", Era::Legacy);
        // Of another address, so that the share of the first is not what it meets.
        (caller.from, caller.patience) = (Ipv4Addr::new(127, 0, 0, 2), Duration::from_mins(1));
        let wanted = nonce();
        calls.push((
            wanted.clone(),
            tokio::spawn(async move { caller.call("echo", json!({"message": wanted})).await }),
        ));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    gateway.lives()?;
    drop(open);
    for (wanted, call) in calls {
        let said = call.await.map_err(|error| error.to_string())?;
        // Some fail or are cut off, for there is nothing left for them; none is answered wrongly or never.
        let is_fine = said.is_failure()
            || said.text() == Some(&wanted)
            || matches!(said, CallResult::Lost(Lost::Closed(_)));
        ensure(is_fine, || said.to_string())?;
    }
    gateway.serves("tools__echo").await?;
    Ok(120)
}

async fn disk(cx: &Campaign) -> Verdict {
    let servers = json!({"tools": cx.shared("tools"), "demo": cx.demo(&[])});
    let mut plan = Plan::new(servers);
    plan.args = ["--session-timeout", "4", "--cache-dir"].map(ToOwned::to_owned).to_vec();
    let mut times = 0;
    for folder in ["/dev/full/cache", "/proc/1/cache", "/dev/null"] {
        let mut plan = plan.clone();
        plan.args.push(folder.to_owned());
        let gateway = cx.ready(&plan).await?;
        gateway.serves("tools__echo").await.map_err(|why| format!("{folder}: {why}"))?;
        times += 1;
    }
    let mut log = plan.clone();
    log.args.push("/dev/null".to_owned());
    log.before = ["sh", "-c", "exec \"$0\" \"$@\" 2>/dev/full"].map(ToOwned::to_owned).to_vec();
    let gateway = cx.ready(&log).await?;
    gateway.serves("tools__echo").await.map_err(|why| format!("a full log: {why}"))?;
    times += 1;
    // Where we may, a file system of our own that is full; it ends with the gateway.
    let line = "mkdir -p \"$HOME/cache\" && mount -t tmpfs -o size=4k none \"$HOME/cache\" && \
                { head -c 8192 /dev/zero > \"$HOME/cache/full\" 2>/dev/null || :; } && exec \"$0\" \"$@\"";
    let mut full = plan.clone();
    full.args.push("cache".to_owned());
    full.before = ["unshare", "--mount", "sh", "-c", &format!("cd \"$HOME\" && {line}")]
        .map(ToOwned::to_owned)
        .to_vec();
    if let Ok(gateway) = cx.gateway(&full).await {
        gateway.ready(&["tools", "demo"]).await?;
        gateway.serves("tools__echo").await.map_err(|why| format!("a full disk: {why}"))?;
        eventually("it lives", Duration::from_secs(1), || gateway.lives().is_ok()).await?;
        times += 1;
    }
    ensure(times >= 4, || "nothing was tried".to_owned())?;
    Ok(times)
}
