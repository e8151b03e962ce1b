//! Checks of what a server says during a call: progress and log notes.

use std::time::Duration;

use rmcp::model::{LoggingLevel, RequestMetaObject, ServerResult, SetLevelRequestParams};
use serde_json::{Value, json};
use tokio::{sync::broadcast::Receiver, time};

use super::same;
use crate::{
    client::{
        answers::Note,
        connection::{Connection, only_text},
    },
    era::{Era, Failure},
};

/// How long notes that must not come are waited for.
const SILENCE: Duration = Duration::from_millis(500);

pub(super) async fn progress(connection: &Connection) -> Result<(), Failure> {
    let mut notes = connection.notes();
    let no_meta = RequestMetaObject::new();
    let call = connection.start("progress", json!({ "steps": 5 }), no_meta).await?;
    let token = call.progress_token.clone();
    let ServerResult::CallToolResult(result) = call.await_response().await? else {
        return Err("progress did not end with a result of a call".into());
    };
    // Only what is here by now came before the result.
    let mut seen = Vec::new();
    while let Ok(note) = notes.try_recv() {
        if let Note::Progress(progress) = note
            && progress.progress_token == token
        {
            seen.push((progress.progress, progress.total));
        }
    }
    let expected: Vec<_> = (1..=5).map(|n| (f64::from(n), Some(5.0))).collect();
    same(&seen, &expected)?;
    same(&only_text(&result)?.as_str(), &"done 5")
}

pub(super) async fn log(connection: &Connection) -> Result<(), Failure> {
    if connection.era == Era::Legacy {
        let level = SetLevelRequestParams::new(LoggingLevel::Info);
        connection.peer().set_level(level).await?;
    }
    let mut notes = connection.notes();
    write(connection, "warning").await?;
    for n in 1..=3 {
        let (level, data) = next(&mut notes).await?;
        same(&level, &LoggingLevel::Warning)?;
        same(&data, &json!(format!("log {n}")))?;
    }
    write(connection, "debug").await?;
    match time::timeout(SILENCE, next(&mut notes)).await {
        Err(_) => Ok(()),
        Ok(note) => Err(format!("a note below the level came: {:?}", note?).into()),
    }
}

async fn write(connection: &Connection, level: &str) -> Result<(), Failure> {
    let mut meta = RequestMetaObject::new();
    if connection.era == Era::Modern {
        meta.set_log_level(LoggingLevel::Info);
    }
    let call = connection.start("log", json!({ "level": level }), meta).await?;
    let ServerResult::CallToolResult(result) = call.await_response().await? else {
        return Err("log did not end with a result of a call".into());
    };
    same(&only_text(&result)?.as_str(), &"logged")
}

/// The next log note of the fixture's logger.
async fn next(notes: &mut Receiver<Note>) -> Result<(LoggingLevel, Value), Failure> {
    loop {
        if let Note::Log(log) = notes.recv().await?
            && log.logger.as_deref() == Some("peer")
        {
            return Ok((log.level, log.data));
        }
    }
}
