//! Checks of calls and their answers: texts, sizes, many at once, cancelled, failed.

use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time;

use super::checks::same;
use super::{Connection, only_text};
use crate::Failure;

const PATTERN: &str = "0123456789abcdef";
const MEBIBYTE: usize = 1024 * 1024;
const UNICODE: &str = "naïve 日本語 🦀 \0\u{2028}\u{2029} \"quotes\" \\ \r\n\t end";
/// How long a call of `restart` may take before the next one is tried.
const ATTEMPT: Duration = Duration::from_secs(2);

pub(super) async fn echo(connection: &Connection) -> Result<(), Failure> {
    echoes(connection, "hello").await
}

pub(super) async fn unicode(connection: &Connection) -> Result<(), Failure> {
    echoes(connection, UNICODE).await
}

async fn echoes(connection: &Connection, text: &str) -> Result<(), Failure> {
    let answer = connection.call("echo", json!({ "text": text })).await?;
    same(&answer.as_str(), &text)
}

pub(super) async fn big(connection: &Connection) -> Result<(), Failure> {
    let text = connection.call("big", json!({ "bytes": MEBIBYTE })).await?;
    same(&text.len(), &MEBIBYTE)?;
    let differs =
        text.bytes().zip(PATTERN.bytes().cycle()).position(|(found, expected)| found != expected);
    same(&differs, &None)
}

pub(super) async fn parallel(connection: &Connection) -> Result<(), Failure> {
    let mut calls = JoinSet::new();
    for n in 0..20 {
        let client = connection.client.clone();
        let text = format!("call {n} {}", "x".repeat(n * 100));
        calls.spawn(async move {
            let result = client.call_tool("echo", json!({ "text": text })).await;
            (text, result)
        });
    }
    while let Some(joined) = calls.join_next().await {
        let (text, result) = joined?;
        same(&only_text(&result?)?, &text)?;
    }
    Ok(())
}

pub(super) async fn unknown_tool(connection: &Connection) -> Result<(), Failure> {
    if connection.call("no_such_tool", json!({})).await.is_ok() {
        return Err("the call of an unknown tool succeeded".into());
    }
    echo(connection).await
}

/// A call is cancelled by dropping its future.
pub(super) async fn cancel(connection: &Connection) -> Result<(), Failure> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let tag = format!("ours-{}-{}", std::process::id(), since_epoch.as_nanos());
    let call = connection.call("slow", json!({"ms": 8000, "tag": tag}));
    if let Ok(ended) = time::timeout(Duration::from_millis(300), call).await {
        return Err(format!("the call ended before it was cancelled: {ended:?}").into());
    }
    while connection.call("was_cancelled", json!({ "tag": tag })).await? != "true" {
        time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

pub(super) async fn restart(connection: &Connection) -> Result<(), Failure> {
    let before = connection.call("whoami", json!({})).await?;
    // No time-out of our own: the client has to be told that nobody will answer.
    if connection.call("die", json!({})).await.is_ok() {
        return Err("die was answered".into());
    }
    loop {
        let asked = time::timeout(ATTEMPT, connection.call("whoami", json!({}))).await;
        match asked {
            Ok(Ok(after)) => {
                return if after == before { Err("it is the same process".into()) } else { Ok(()) };
            }
            Ok(Err(error)) => eprintln!("not back yet: {error}"),
            Err(_) => eprintln!("not back yet: no answer"),
        }
        time::sleep(Duration::from_millis(100)).await;
    }
}
