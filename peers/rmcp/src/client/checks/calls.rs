//! Checks of calls and their answers: texts, sizes, many at once, cancelled, failed.

use std::time::{Duration, SystemTime};

use rmcp::{model::RequestMetaObject, service::ServiceError};
use serde_json::json;
use tokio::{sync::oneshot, task::JoinSet, time};

use super::same;
use crate::{
    client::connection::{Connection, only_text, params},
    era::Failure,
};

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
        let peer = connection.peer().clone();
        let text = format!("call {n}");
        calls.spawn(async move {
            let call = params("echo", json!({ "text": text }));
            let result = peer.call_tool_once(call).await?;
            Ok::<_, ServiceError>((text, result))
        });
    }
    while let Some(joined) = calls.join_next().await {
        let (text, response) = joined??;
        let rmcp::model::CallToolResponse::Complete(result) = response else {
            return Err("echo asked for input".into());
        };
        same(&only_text(&result)?, &text)?;
    }
    Ok(())
}

pub(super) async fn unknown_tool(connection: &Connection) -> Result<(), Failure> {
    if connection.call("no_such_tool", json!({})).await.is_ok() {
        return Err("the call of an unknown tool succeeded".into());
    }
    echo(connection).await
}

pub(super) async fn cancel(connection: &Connection) -> Result<(), Failure> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let tag = format!("rmcp-{}-{}", std::process::id(), since_epoch.as_nanos());
    let arguments = json!({ "ms": 8000, "tag": tag });
    let no_meta = RequestMetaObject::new();
    let mut call = connection.start("slow", arguments, no_meta).await?;
    time::sleep(Duration::from_millis(300)).await;
    // `cancel` takes the handle with it; the answer is wanted all the same.
    let answer = std::mem::replace(&mut call.rx, oneshot::channel().1);
    call.cancel(Some("cancelled by the check".to_owned())).await?;
    match answer.await? {
        Err(ServiceError::Cancelled { .. }) => {}
        other => return Err(format!("the cancelled call ended with {other:?}").into()),
    }
    loop {
        let asked = connection.call("was_cancelled", json!({ "tag": tag }));
        if asked.await? == "true" {
            return Ok(());
        }
        time::sleep(Duration::from_millis(100)).await;
    }
}

pub(super) async fn restart(connection: &Connection) -> Result<(), Failure> {
    let before = connection.call("whoami", json!({})).await?;
    // No time-out of our own: the client has to be told that nobody will answer.
    if connection.call("die", json!({})).await.is_ok() {
        return Err("die was answered".into());
    }
    loop {
        let asked = time::timeout(ATTEMPT, connection.call("whoami", json!({}))).await;
        if let Ok(Ok(now)) = asked
            && now != before
        {
            return Ok(());
        }
        time::sleep(Duration::from_millis(100)).await;
    }
}
