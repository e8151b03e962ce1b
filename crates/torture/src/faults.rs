//! Faults under load: every answer is checked while processes die, stop, and are replaced.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::caller::{ERAS, Era, nonce};
use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::{Gateway, Plan};
use crate::load::{Load, Target};
use crate::servers::Web;

mod scarce;

/// Every sort of server there is.
fn servers(cx: &Campaign, web: &Web) -> Value {
    json!({
        "shared": cx.shared("tools"),
        "own": cx.hostile("tools"),
        "demo": cx.demo(&[]),
        "web": {"url": web.url(), "type": "http"},
    })
}

/// Clients of both eras at each.
fn load(cx: &Campaign, gateway: &Gateway, targets: &[Target]) -> Load {
    let mut load = Load::new();
    let rounds = cx.size(1, 3);
    for round in 0..rounds {
        for (number, target) in targets.iter().enumerate() {
            for (turn, era) in ERAS.into_iter().enumerate() {
                let random = cx.random.fork((round * 1000 + number * 10 + turn) as u64);
                load.add(gateway.caller(&target.path, era), target.clone(), random);
            }
        }
    }
    load
}

fn targets() -> Vec<Target> {
    let names = ["shared", "own", "demo", "web"];
    names
        .iter()
        .map(|name| Target::of(name))
        .chain(names.iter().map(|name| Target::alone(name)))
        .collect()
}

pub(crate) async fn run(cx: &mut Campaign) {
    cx.enter("faults");
    cx.attack(
        "SIGKILL of server processes under load",
        "every answer is its caller's own; calls of a killed process fail, all others are answered",
        async |cx| killed(cx, false).await,
    )
    .await;
    cx.attack(
        "SIGSTOP and SIGCONT of server processes under load",
        "every answer is its caller's own; calls of other servers do not wait",
        async |cx| killed(cx, true).await,
    )
    .await;
    cx.attack(
        "another file, again and again, under load",
        "no call fails of a server that stays as it is",
        async |cx| reloads(cx).await,
    )
    .await;
    cx.attack(
        "SIGTERM under load",
        "calls in flight are answered; the gateway ends with status 0; no process is left",
        async |cx| terminated(cx).await,
    )
    .await;
    cx.attack("SIGKILL of the gateway under load", "no process of a server is left", async |cx| {
        gateway_killed(cx).await
    })
    .await;
    cx.attack(
        "the gateway itself is stopped for some seconds (a jump of the clock)",
        "no call is lost, none is answered wrongly",
        async |cx| stopped(cx).await,
    )
    .await;
    scarce::run(cx).await;
}

/// Signals server processes at random for a while.
async fn killed(cx: &Campaign, stops: bool) -> Verdict {
    let web = Web::start().await?;
    let gateway = cx.ready(&Plan::new(servers(cx, &web))).await?;
    gateway.serves("shared__echo").await?;
    let before = gateway.footprint().await?;
    let load = load(cx, &gateway, &targets());
    let mut random = cx.random.fork(51 + u64::from(stops));
    let end = Instant::now() + Duration::from_secs(cx.size(6, 40) as u64);
    let mut times = 0;
    while Instant::now() < end {
        let pause = Duration::from_millis(100 + random.below(400));
        tokio::time::sleep(pause).await;
        let servers = [gateway.servers("tools"), gateway.servers("demo")].concat();
        if servers.is_empty() {
            continue;
        }
        let victim = *random.pick(&servers);
        if stops {
            victim.signal(Signal::STOP);
            tokio::time::sleep(Duration::from_millis(random.below(1500))).await;
            victim.signal(Signal::CONT);
        } else {
            victim.signal(Signal::KILL);
        }
        times += 1;
        gateway.lives()?;
        load.is_right()?;
    }
    // The servers come back, whatever was done to them.
    gateway.ready(&["shared", "web"]).await?;
    load.goes_on(100, Duration::from_mins(1)).await?;
    load.stop_without_loss().await?;
    cx.at_rest(&gateway, before).await?;
    gateway.end(Signal::TERM, Duration::from_secs(20)).await?;
    Ok(times)
}

async fn reloads(cx: &Campaign) -> Verdict {
    let web = Web::start().await?;
    let plan = Plan::new(servers(cx, &web));
    let gateway = cx.ready(&plan).await?;
    let stay = ["shared", "demo", "web"];
    let mut all: Vec<_> = stay.iter().map(|name| Target::of(name).sure()).collect();
    all.extend(stay.iter().map(|name| Target::alone(name).sure()));
    all.push(Target::of("own"));
    let load = load(cx, &gateway, &all);
    let times = cx.size(8, 60) as u64;
    for number in 0..times {
        let mut other = plan.clone();
        match number % 4 {
            0 => other.servers["extra"] = cx.hostile("tools"),
            1 => other.servers["own"]["env"] = json!({"NUMBER": number.to_string()}),
            2 => {
                other.servers.as_object_mut().map(|servers| servers.remove("own"));
            }
            _ => other.section = json!({"groups": {"some": ["shared", "d*"]}}),
        }
        gateway.reload(&other).await?;
        load.goes_on(60, Duration::from_mins(1)).await?;
        if number % 3 == 0 {
            gateway.write("{ this is no configuration")?;
            load.goes_on(20, Duration::from_mins(1)).await?;
        }
        gateway.lives()?;
    }
    load.stop_without_loss().await?;
    gateway.end(Signal::TERM, Duration::from_secs(20)).await.map(|()| times)
}

async fn terminated(cx: &Campaign) -> Verdict {
    let mut times = 0;
    for _ in 0..cx.size(1, 5) {
        let web = Web::start().await?;
        let gateway = cx.ready(&Plan::new(servers(cx, &web))).await?;
        let load = load(cx, &gateway, &targets());
        load.goes_on(100, Duration::from_mins(1)).await?;
        let mut waiting = Vec::new();
        for tool in ["shared__wait", "own__wait", "web__wait"] {
            for era in ERAS {
                let mut caller = gateway.caller("/mcp", era);
                caller.greet().await.map_err(|said| format!("{said}"))?;
                let wanted = nonce();
                let call = json!({"name": tool, "arguments": {"ms": 2000, "message": wanted}});
                let (id, bytes) = caller.bytes("tools/call", call);
                waiting.push(tokio::spawn(async move {
                    let reply = caller
                        .exchange(&bytes)
                        .await
                        .map_err(|lost| format!("{tool}, {era:?}: {lost}"))?;
                    let said = crate::caller::said(&id, &reply);
                    ensure(said.text() == Some(&wanted), || format!("{tool}, {era:?}: {said}"))
                }));
            }
        }
        let end = Instant::now() + Duration::from_secs(20);
        while gateway.metric("switchboard_open_calls").await?.unwrap_or(0.0) < 6.0 {
            ensure(Instant::now() < end, || "the calls never came".to_owned())?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        gateway.end(Signal::TERM, Duration::from_secs(20)).await?;
        for waiting in waiting {
            waiting.await.map_err(|error| error.to_string())??;
            times += 1;
        }
        load.stop().await?;
    }
    Ok(times)
}

async fn gateway_killed(cx: &Campaign) -> Verdict {
    let times = cx.size(2, 10);
    for _ in 0..times {
        let web = Web::start().await?;
        let gateway = cx.ready(&Plan::new(servers(cx, &web))).await?;
        let load = load(cx, &gateway, &targets());
        load.goes_on(50, Duration::from_mins(1)).await?;
        gateway.end(Signal::KILL, Duration::from_secs(5)).await?;
        load.stop().await?;
    }
    Ok(times as u64)
}

async fn stopped(cx: &Campaign) -> Verdict {
    let web = Web::start().await?;
    let gateway = cx.ready(&Plan::new(servers(cx, &web))).await?;
    let sure: Vec<_> = targets().into_iter().map(Target::sure).collect();
    let load = load(cx, &gateway, &sure);
    load.goes_on(50, Duration::from_mins(1)).await?;
    let times = cx.size(1, 3);
    for _ in 0..times {
        gateway.process.signal(Signal::STOP);
        tokio::time::sleep(Duration::from_secs(cx.size(3, 20) as u64)).await;
        gateway.process.signal(Signal::CONT);
        load.goes_on(50, Duration::from_mins(1)).await?;
    }
    load.stop_without_loss().await?;
    let mut caller = gateway.caller("/mcp", Era::Modern);
    ensure(caller.echo("shared__echo", json!({})).await?, || "no call afterwards".to_owned())?;
    Ok(times as u64)
}
