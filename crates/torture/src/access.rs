//! Who gets in: strangers, people with less than all, and what belongs to others.

use serde_json::{Value, json};

use crate::caller::{CallResult, Caller, ERAS, Era};
use crate::campaign::{Campaign, Verdict, ensure};
use crate::gateway::{ADA, BOB, Gateway, Plan, ROOT};
use crate::http::{self, request};

mod hosts;
mod paths;

/// A server that only `root` may know of. Its name is nowhere else, so that an answer with it is a leak.
const SECRET: &str = "vaultserver";

/// Three people: `ada` and `bob` have the same server, and neither has the secret one.
fn plan(cx: &Campaign) -> Plan {
    let grant = json!({"servers": ["demo"]});
    let key = |name: &str, grant: &Value| {
        let mut entry = grant.clone();
        entry["key"] = format!("${{{name}_KEY}}").into();
        entry
    };
    let section = json!({
        "diagnostics": true,
        "groups": {"vaultgroup": [SECRET]},
        "keys": {
            "root": key("ROOT", &json!({})),
            "ada": key("ADA", &grant),
            "bob": key("BOB", &grant),
        },
    });
    let mut demo = cx.demo(&[]);
    demo["process"] = "shared".into();
    Plan::new(json!({"demo": demo, SECRET: cx.shared("tools")})).section(section)
}

pub(crate) async fn run(cx: &mut Campaign) {
    cx.enter("access");
    let plan = plan(cx);
    cx.attack(
        "paths: escapes, dots, slashes, case, absolute form, methods; without a key",
        "401 or a refusal for all but /healthz and /readyz; nothing tells what is there",
        async |cx| {
            let gateway = cx.ready(&plan).await?;
            let times = paths::without_key(&gateway, SECRET).await?;
            gateway.serves("demo__echo").await.map(|()| times)
        },
    )
    .await;
    cx.attack(
        "the same with a key that is granted less",
        "what is not granted answers like what is not there; its name is in no answer",
        async |cx| paths::with_less(&cx.ready(&plan).await?, SECRET).await,
    )
    .await;
    cx.attack(
        "Host and Origin of strangers in every disguise",
        "403 or 400: a web page of another site gets nothing, with or without a key",
        async |cx| hosts::run(&cx.ready(&plan).await?).await,
    )
    .await;
    cx.attack(
        "preflight requests of web pages to servers that are there and that are not",
        "the same answer, so that it tells nothing of which servers exist",
        async |cx| {
            let mut plan = plan.clone();
            // Nobody is there, and nobody needs to be.
            let vault = json!({"url": "http://127.0.0.1:9/mcp", "passHeaders": ["X-Vault"]});
            plan.servers[SECRET] = vault;
            preflight(&cx.gateway(&plan).await?).await
        },
    )
    .await;
    owners(cx, &plan).await;
    cx.attack(
        "processes, descriptors, tasks and memory after 2,000 refused requests",
        "back to what they were",
        async |cx| {
            let gateway = cx.ready(&plan).await?;
            gateway.serves("demo__echo").await?;
            let before = gateway.footprint().await?;
            let mut times = 0;
            while times < 2000 {
                times += paths::without_key(&gateway, SECRET).await?;
            }
            cx.at_rest(&gateway, before).await.map(|()| times)
        },
    )
    .await;
}

async fn owners(cx: &mut Campaign, plan: &Plan) {
    cx.attack(
        "a session of another key: POST, GET, resume, DELETE",
        "404 as for a session that never was, 401 without a key; the session lives on",
        async |cx| sessions(&cx.ready(plan).await?).await,
    )
    .await;
    cx.attack(
        "a parked call (requestState) of another key, and forged ones",
        "refused; the owner goes on with it afterwards",
        async |cx| parked(&cx.ready(plan).await?).await,
    )
    .await;
    cx.attack(
        "a task of another key: get, update, cancel",
        "not found, as an id that never was; the task comes to its end for its owner",
        async |cx| tasks(&cx.ready(plan).await?).await,
    )
    .await;
    cx.attack(
        "/status, /metrics and traces of calls of another key",
        "403 for a key without full permission, 401 without a key; a trace is its caller's alone",
        async |cx| pages(&cx.ready(plan).await?).await,
    )
    .await;
    cx.attack(
        "a key that is removed while its calls are open",
        "its open calls and its sessions end at once",
        async |cx| removed_key(cx, plan).await,
    )
    .await;
    cx.attack(
        "a flood of notifications by a key with a rate limit",
        "notifications count too: 429 once the rate is used up",
        async |cx| notifications(cx, plan).await,
    )
    .await;
}

async fn preflight(gateway: &Gateway) -> Verdict {
    let mut seen: Vec<(String, String)> = Vec::new();
    let origin = format!("http://127.0.0.1:{}", gateway.port);
    for origin in [origin.as_str(), "http://evil.example"] {
        let mut first: Option<String> = None;
        for path in [
            format!("/servers/{SECRET}/mcp"),
            "/servers/demo/mcp".to_owned(),
            "/servers/nobody/mcp".to_owned(),
            "/groups/vaultgroup/mcp".to_owned(),
            "/groups/nobody/mcp".to_owned(),
        ] {
            let headers = [
                ("Origin", origin),
                ("Access-Control-Request-Method", "POST"),
                ("Access-Control-Request-Headers", "content-type, x-api-key"),
            ];
            let bytes = request(&format!("OPTIONS {path}"), gateway.port, &headers, b"");
            let reply = http::send(gateway.port, &bytes, http::PATIENCE).await;
            let reply = reply.map_err(|lost| format!("{path}: {lost}"))?;
            let mut lines: Vec<_> = reply
                .head
                .lines()
                .filter(|line| !line.to_lowercase().starts_with("date"))
                .collect();
            lines.sort_unstable();
            let told = format!("{}{}", lines.join("\n"), reply.text());
            let same = first.get_or_insert_with(|| told.clone());
            ensure(*same == told, || {
                format!("{path} answers another preflight: {}", reply.status)
            })?;
            seen.push((path, told));
        }
    }
    Ok(seen.len() as u64)
}

async fn sessions(gateway: &Gateway) -> Verdict {
    let mut times = 0;
    for path in ["/mcp", "/servers/demo/mcp"] {
        let tool = if path == "/mcp" { "demo__echo" } else { "echo" };
        let mut ada = Caller::new(gateway.port, path, Era::Legacy, Some(ADA));
        ada.greet().await.map_err(|said| format!("ada cannot greet: {said}"))?;
        let session = ada.session.clone().unwrap_or_default();
        for (key, expected) in
            [(Some(BOB), 404), (Some(ROOT), 404), (Some("wrong"), 401), (None, 401)]
        {
            let mut thief = Caller::new(gateway.port, path, Era::Legacy, key);
            thief.session = Some(session.clone());
            let call =
                thief.bytes("tools/call", json!({"name": tool, "arguments": {"message": "x"}})).1;
            let key: Vec<_> = key.map(|key| ("X-API-Key", key)).into_iter().collect();
            let session = [("Mcp-Session-Id", session.as_str())];
            let stream = [("Accept", "text/event-stream")];
            let resume = [("Last-Event-ID", "1-1")];
            let line = |method: &str| format!("{method} {path}");
            let bytes = |line: &str, more: &[&[(&str, &str)]]| {
                let headers = [&key[..], &session[..], &more.concat()].concat();
                request(line, gateway.port, &headers, b"")
            };
            for bytes in [
                call,
                bytes(&line("GET"), &[&stream]),
                bytes(&line("GET"), &[&stream, &resume]),
                bytes(&line("DELETE"), &[]),
            ] {
                let reply = http::send(gateway.port, &bytes, http::PATIENCE).await;
                let status = reply.map_err(|lost| lost.to_string())?.status;
                ensure(status == expected, || {
                    format!("{status} in place of {expected} at {path}")
                })?;
                times += 1;
            }
        }
        ensure(ada.echo(tool, json!({})).await?, || "ada's session does not live on".to_owned())?;
        ada.leave().await;
    }
    Ok(times)
}

async fn parked(gateway: &Gateway) -> Verdict {
    let tool = "demo__test_input_required_result_elicitation";
    let able = json!({"elicitation": {}});
    let person = |key| Caller::new(gateway.port, "/mcp", Era::Modern, Some(key)).able(able.clone());
    let (mut ada, mut bob) = (person(ADA), person(BOB));
    let said = ada.call(tool, json!({})).await;
    let CallResult::Result(result) = &said else { return Err(format!("no question: {said}")) };
    let state = result["requestState"].as_str().ok_or("the question has no state")?.to_owned();
    let key = result["inputRequests"].as_object().and_then(|all| all.keys().next().cloned());
    let key = key.ok_or("the result has no question")?;
    let retry = |state: &str| {
        let accepted = json!({"action": "accept", "content": {"name": "Ada"}});
        json!({"name": tool, "arguments": {}, "requestState": state, "inputResponses": {key.as_str(): accepted}})
    };
    let mut forged =
        vec![String::new(), "x".to_owned(), state[..state.len() / 2].to_owned(), state.repeat(2)];
    for at in 0..state.len().min(40) {
        let mut bytes = state.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        forged.extend(String::from_utf8(bytes).ok());
    }
    let mut times = 0;
    for state in std::iter::once(&state).chain(&forged) {
        let said = bob.ask("tools/call", retry(state)).await;
        let is_taken = said.text().is_some_and(|text| text.contains("Ada"));
        ensure(!is_taken && said.is_failure(), || format!("bob goes on with it: {said}"))?;
        times += 1;
    }
    let said = ada.ask("tools/call", retry(&state)).await;
    ensure(said.text() == Some("Hello, Ada!"), || format!("ada cannot go on: {said}"))?;
    Ok(times)
}

async fn tasks(gateway: &Gateway) -> Verdict {
    let able = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let person = |key| Caller::new(gateway.port, "/mcp", Era::Modern, Some(key)).able(able.clone());
    let (mut ada, mut bob) = (person(ADA), person(BOB));
    let said = ada.call("demo__slow_compute", json!({"seconds": 1, "label": "mine"})).await;
    let CallResult::Result(result) = &said else { return Err(format!("no task: {said}")) };
    let id = result["taskId"].as_str().ok_or("the result is no task")?.to_owned();
    let mut times = 0;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let mut told = Vec::new();
        for task in [id.as_str(), "made-up", "demo.made-up"] {
            let said = bob.ask(method, json!({"taskId": task, "inputResponses": {}})).await;
            ensure(matches!(said, CallResult::Error(..)), || {
                format!("{method} of {task}: {said}")
            })?;
            let CallResult::Error(code, text) = said else { continue };
            told.push((code, text.replace(task, "TASK")));
            times += 1;
        }
        ensure(told.windows(2).all(|two| two[0] == two[1]), || {
            format!("{method} tells: {told:?}")
        })?;
    }
    for _ in 0..200 {
        let said = ada.ask("tasks/get", json!({"taskId": id})).await;
        let CallResult::Result(task) = &said else {
            return Err(format!("ada's task is gone: {said}"));
        };
        match task["status"].as_str() {
            Some("working") => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            Some("completed") => return Ok(times),
            _ => return Err(format!("ada's task: {task}")),
        }
    }
    Err("ada's task never ends".to_owned())
}

async fn pages(gateway: &Gateway) -> Verdict {
    let mut times = 0;
    for path in ["/status", "/metrics"] {
        for (key, expected) in [
            (None, 401),
            (Some("wrong"), 401),
            (Some(ADA), 403),
            (Some(BOB), 403),
            (Some(ROOT), 200),
        ] {
            let reply =
                http::get(gateway.port, path, key).await.map_err(|lost| lost.to_string())?;
            ensure(reply.status == expected, || {
                format!("{path} says {} to {key:?}", reply.status)
            })?;
            let leaks = expected != 200 && reply.text().contains(SECRET);
            ensure(!leaks, || format!("{path} names the secret server"))?;
            times += 1;
        }
    }
    for era in ERAS {
        let mut ada = Caller::new(gateway.port, "/mcp", era, Some(ADA));
        let said = ada.call("demo__echo", json!({"message": "mine"})).await;
        let CallResult::Result(result) = &said else { return Err(format!("{said}")) };
        let trace =
            result["_meta"]["switchboard/traceId"].as_str().ok_or("no trace id")?.to_owned();
        let arguments = json!({"trace_id": trace, "traceId": trace, "id": trace});
        for (key, is_owner) in [(ADA, true), (BOB, false), (ROOT, false)] {
            let mut caller = Caller::new(gateway.port, "/mcp", era, Some(key));
            let said = caller.call("get_trace_by_id", arguments.clone()).await;
            let tells = said.text().is_some_and(|text| text.contains("demo")) && !said.is_failure();
            ensure(tells == is_owner, || format!("{key} asks for ada's trace: {said}"))?;
            times += 1;
        }
    }
    Ok(times)
}

async fn removed_key(cx: &Campaign, plan: &Plan) -> Verdict {
    let mut plan = plan.clone();
    plan.section["keys"]["ada"]["servers"] = json!(["demo", SECRET]);
    let gateway = cx.ready(&plan).await?;
    let mut calls = Vec::new();
    for era in ERAS {
        let mut ada = Caller::new(gateway.port, "/mcp", era, Some(ADA));
        ada.greet().await.map_err(|said| format!("{said}"))?;
        let tool = format!("{SECRET}__wait");
        calls.push(tokio::spawn(async move {
            ada.call(&tool, json!({"ms": 20_000, "message": "after the end"})).await
        }));
    }
    for _ in 0..500 {
        if gateway.status().await?["servers"][SECRET]["calls"] == 2 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let mut without = plan.clone();
    without.section["keys"].as_object_mut().map(|keys| keys.remove("ada"));
    gateway.rewrite(&without)?;
    let since = tokio::time::Instant::now();
    for call in calls {
        let said = call.await.map_err(|error| error.to_string())?;
        let is_served = said.text() == Some("after the end");
        let took = since.elapsed().as_secs();
        ensure(!is_served && took < 15, || format!("after {took} s the call gets {said}"))?;
    }
    gateway.serves("demo__echo").await.map(|()| 2)
}

async fn notifications(cx: &Campaign, plan: &Plan) -> Verdict {
    let mut plan = plan.clone();
    plan.section["keys"]["ada"]["rateLimit"] = "20/h".into();
    let gateway = cx.ready(&plan).await?;
    let mut ada = Caller::new(gateway.port, "/mcp", Era::Legacy, Some(ADA));
    ada.greet().await.map_err(|said| format!("{said}"))?;
    for times in 1..=60 {
        let params = json!({"progressToken": times, "progress": times});
        let status = ada.note("notifications/progress", params).await;
        if status.map_err(|lost| lost.to_string())? == 429 {
            return Ok(times);
        }
    }
    Err("60 notifications passed a rate of 20".to_owned())
}
