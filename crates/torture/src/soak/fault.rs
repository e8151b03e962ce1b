//! The faults of the long form, one a step, chosen by the seed.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::{OWN, SHARED, Soak, good};
use crate::caller::{CallResult, Caller, ERAS, Era};
use crate::gateway::ROOT;
use crate::http::{Connection, Lost, POST, request};
use crate::process::Process;
use crate::random::Random;

/// Does one thing that must harm nobody who is not meant; says what.
pub(super) async fn inject(soak: &mut Soak, random: &mut Random) -> Result<&'static str, String> {
    match random.below(20) {
        0..=2 => Ok(kill(soak, random)),
        3..=4 => Ok(stop(soak, random).await),
        5 => pause_gateway(soak, random).await,
        6..=7 => reload(soak, random),
        8 => broken_file(soak),
        9 => hang_ups(soak, random).await,
        10 => bad_bodies(soak, random).await,
        11 => half_requests(soak, random).await,
        12 => unread(soak, random).await,
        13 => abandoned(soak, random).await,
        14 => cancels(soak, random).await,
        15 => strangers(soak, random).await,
        16 => misbehaving_tools(soak, random).await,
        17 => web_breaks(soak, random).await,
        18 => {
            soak.gateway.process.signal(Signal::HUP);
            Ok("SIGHUP")
        }
        _ => dying_tool(soak, random).await,
    }
}

/// The processes of one server, by its label or, for the built-in one, by its command.
fn processes(soak: &Soak, server: &str) -> Vec<Process> {
    let word = if server.starts_with("demo") { "demo" } else { server };
    soak.gateway.servers(word)
}

fn victim(soak: &Soak, random: &mut Random) -> Option<Process> {
    let names: Vec<_> = good().into_iter().filter(|name| !name.starts_with("web")).collect();
    let name: &str = random.pick::<&str>(&names);
    let all = processes(soak, name);
    if all.is_empty() { None } else { Some(*random.pick(&all)) }
}

fn kill(soak: &Soak, random: &mut Random) -> &'static str {
    let signal = *random.pick(&[Signal::KILL, Signal::KILL, Signal::TERM, Signal::ABORT]);
    // It may be between two lives.
    victim(soak, random).map(|victim| victim.signal(signal));
    "server killed"
}

async fn stop(soak: &Soak, random: &mut Random) -> &'static str {
    let Some(victim) = victim(soak, random) else { return "server stopped" };
    victim.signal(Signal::STOP);
    tokio::time::sleep(Duration::from_millis(random.below(2000))).await;
    victim.signal(Signal::CONT);
    "server stopped"
}

async fn pause_gateway(soak: &Soak, random: &mut Random) -> Result<&'static str, String> {
    soak.gateway.process.signal(Signal::STOP);
    tokio::time::sleep(Duration::from_millis(random.below(2500))).await;
    soak.gateway.process.signal(Signal::CONT);
    Ok("gateway stopped")
}

fn reload(soak: &Soak, random: &mut Random) -> Result<&'static str, String> {
    let mut other = soak.plan.clone();
    match random.below(5) {
        0 => other.servers["extra"] = soak.cx.hostile("tools"),
        1 => {
            other.servers[*random.pick(&OWN)]["env"] = json!({"NUMBER": random.next().to_string()});
        }
        2 => {
            let name = *random.pick(&SHARED);
            other.servers.as_object_mut().map(|servers| servers.remove(name));
        }
        3 => other.servers[*random.pick(&SHARED)]["excludeTools"] = json!(["die"]),
        _ => other.section["groups"]["more"] = json!(["own*"]),
    }
    soak.gateway.rewrite(&other).map(|()| "file changed")
}

fn broken_file(soak: &Soak) -> Result<&'static str, String> {
    soak.gateway.write("{ \"mcpServers\": { this is no configuration").map(|()| "file broken")
}

fn caller(soak: &Soak, random: &mut Random) -> Caller {
    let era = *random.pick(&ERAS);
    soak.gateway.caller("/mcp", era)
}

fn tool(random: &mut Random, name: &str) -> String {
    let servers = [&SHARED[..], &OWN].concat();
    format!("{}__{name}", random.pick(&servers))
}

/// A connection; the gateway lives, so that one is always to be had.
async fn connect(soak: &Soak) -> Result<Connection, String> {
    Connection::open(soak.gateway.port).await.map_err(|lost| format!("no connection: {lost}"))
}

async fn hang_ups(soak: &Soak, random: &mut Random) -> Result<&'static str, String> {
    for _ in 0..10 {
        let caller = soak.gateway.caller("/mcp", Era::Modern);
        let call = json!({"name": tool(random, "wait"), "arguments": {"ms": 50, "message": "x"}});
        let (_, bytes) = caller.bytes("tools/call", call);
        let mut connection = connect(soak).await?;
        let at = if random.once_in(2) {
            bytes.len()
        } else {
            usize::try_from(random.below(bytes.len() as u64)).unwrap_or(0)
        };
        _ = connection.send(&bytes[..at]).await;
        tokio::time::sleep(Duration::from_millis(random.below(30))).await;
        if random.once_in(2) {
            _ = connection.stream.set_zero_linger();
        }
    }
    Ok("clients hung up")
}

async fn bad_bodies(soak: &Soak, random: &mut Random) -> Result<&'static str, String> {
    for _ in 0..10 {
        let length = usize::try_from(random.below(2000)).unwrap_or(0);
        let mut body: Vec<u8> = (0..length).map(|_| random.next().to_le_bytes()[0]).collect();
        if random.once_in(3) {
            body = vec![b'['; length];
        }
        let headers = [POST[0], POST[1], ("X-API-Key", ROOT)];
        let bytes = request("POST /mcp", soak.gateway.port, &headers, &body);
        let mut connection = connect(soak).await?;
        _ = connection.send(&bytes).await;
        match connection.reply().await {
            Ok(reply) if reply.status == 500 => return Err("500 for a bad body".to_owned()),
            Err(Lost::Silent) => return Err("no answer to a bad body".to_owned()),
            _ => {}
        }
    }
    Ok("bad bodies")
}

async fn half_requests(soak: &Soak, random: &mut Random) -> Result<&'static str, String> {
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut connection = connect(soak).await?;
        let part = *random.pick(&[
            "",
            "PO",
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM",
        ]);
        _ = connection.send(part.as_bytes()).await;
        held.push(connection);
    }
    tokio::time::sleep(Duration::from_millis(random.below(500))).await;
    Ok("half requests")
}

async fn unread(soak: &Soak, random: &mut Random) -> Result<&'static str, String> {
    let mut held = Vec::new();
    for _ in 0..6 {
        let caller = soak.gateway.caller("/mcp", Era::Modern);
        let call = json!({"name": tool(random, "big"), "arguments": {"bytes": 1 << 20}});
        let (_, bytes) = caller.bytes("tools/call", call);
        let mut connection = connect(soak).await?;
        _ = connection.send(&bytes).await;
        held.push(connection);
    }
    tokio::time::sleep(Duration::from_millis(random.below(800))).await;
    Ok("answers unread")
}

async fn abandoned(soak: &Soak, random: &mut Random) -> Result<&'static str, String> {
    for _ in 0..8 {
        let path = if random.once_in(4) {
            format!("/servers/{}/mcp", random.pick(&OWN))
        } else {
            "/mcp".to_owned()
        };
        let mut caller = soak.gateway.caller(&path, Era::Legacy);
        match caller.greet().await {
            Err(CallResult::Lost(lost)) => return Err(format!("a greeting at {path}: {lost}")),
            Err(CallResult::Crossed(what)) => return Err(what),
            _ => {}
        }
    }
    Ok("sessions abandoned")
}

async fn cancels(soak: &Soak, random: &mut Random) -> Result<&'static str, String> {
    let mut caller = soak.gateway.caller("/mcp", Era::Legacy);
    for _ in 0..5 {
        // A server may be away; then there is nothing to cancel.
        if caller.greet().await.is_err() {
            break;
        }
        let call = json!({"name": tool(random, "wait"), "arguments": {"ms": 500, "message": "x"}});
        let (id, bytes) = caller.bytes("tools/call", call);
        let mut connection = connect(soak).await?.patient(crate::load::DEADLINE);
        _ = connection.send(&bytes).await;
        tokio::time::sleep(Duration::from_millis(random.below(60))).await;
        _ = caller.note("notifications/cancelled", json!({"requestId": id})).await;
        if connection.reply().await.is_err_and(|lost| lost == Lost::Silent) {
            return Err("a cancelled call has no end".to_owned());
        }
    }
    caller.leave().await;
    Ok("calls cancelled")
}

async fn strangers(soak: &Soak, random: &mut Random) -> Result<&'static str, String> {
    for _ in 0..10 {
        let key = *random.pick(&["", "wrong", "key-of-nobody-0123456789"]);
        let path = *random.pick(&["/mcp", "/status", "/metrics", "/servers/shared0/mcp"]);
        let headers = [POST[0], POST[1], ("X-API-Key", key)];
        let line = format!("{} {path}", random.pick(&["GET", "POST", "DELETE"]));
        let mut connection = connect(soak).await?;
        _ = connection.send(&request(&line, soak.gateway.port, &headers, b"")).await;
        match connection.reply().await {
            Ok(reply) if reply.status < 400 => {
                return Err(format!("{line} without a key: {}", reply.status));
            }
            Err(Lost::Silent) => return Err(format!("{line} without a key: no answer")),
            _ => {}
        }
    }
    Ok("strangers")
}

async fn misbehaving_tools(soak: &Soak, random: &mut Random) -> Result<&'static str, String> {
    let name = *random.pick(&["garbage", "twice", "stray", "flood"]);
    let tool = tool(random, name);
    let mut caller = caller(soak, random).patient(crate::load::DEADLINE);
    // Its server may be away, and then the call fails.
    caller.echo(&tool, json!({"count": 500})).await?;
    caller.leave().await;
    Ok("tools misbehave")
}

async fn web_breaks(soak: &Soak, random: &mut Random) -> Result<&'static str, String> {
    let web = random.pick(&soak.web);
    web.break_off(true);
    tokio::time::sleep(Duration::from_millis(random.below(1500))).await;
    web.break_off(false);
    Ok("HTTP server broken")
}

async fn dying_tool(soak: &Soak, random: &mut Random) -> Result<&'static str, String> {
    let tool = tool(random, "die");
    let mut caller = caller(soak, random).patient(crate::load::DEADLINE);
    match caller.call(&tool, json!({})).await {
        CallResult::Result(result) if result["isError"] != true => {
            Err(format!("{tool} is answered: {result}"))
        }
        CallResult::Crossed(what) => Err(what),
        CallResult::Lost(lost) => Err(format!("{tool}: {lost}")),
        _ => {
            caller.leave().await;
            Ok("server died in a call")
        }
    }
}
