//! Checks of what arrives besides answers: progress, log records, changes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard_net::client::{CallOptions, ListenFilter, Notification};
use switchboard_proto::method::{self, meta};
use switchboard_proto::revision::Era;
use tokio::sync::broadcast::Receiver;
use tokio::time::{sleep, timeout};

use super::checks::same;
use super::{Connection, lists, only_text};
use crate::Failure;

/// How long a note may take that has been sent already.
const ARRIVAL: Duration = Duration::from_secs(5);
/// How long a note that must not come is waited for.
const QUIET: Duration = Duration::from_millis(200);

pub(super) async fn progress(connection: &Connection) -> Result<(), Failure> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearing = Arc::clone(&heard);
    let options = CallOptions::default().on_progress(move |progress| {
        let mut heard = hearing.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push((progress.progress, progress.total));
    });
    let call = connection.client.call_tool_with("progress", json!({"steps": 5}), options);
    same(&only_text(&call.await?)?, &"done 5".to_owned())?;
    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    same(&*heard, &[1.0, 2.0, 3.0, 4.0, 5.0].map(|step| (step, Some(5.0))).to_vec())
}

pub(super) async fn log(connection: &Connection) -> Result<(), Failure> {
    let mut notes = connection.notes();
    let mut wanted = Map::new();
    match connection.client.era() {
        Era::Legacy => {
            connection.client.request("logging/setLevel", json!({"level": "info"})).await?;
        }
        Era::Modern => _ = wanted.insert(meta::LOG_LEVEL.to_owned(), "info".into()),
    }
    for level in ["warning", "debug"] {
        let options = CallOptions::default().meta(wanted.clone());
        let call = connection.client.call_tool_with("log", json!({ "level": level }), options);
        same(&only_text(&call.await?)?, &"logged".to_owned())?;
    }
    sleep(QUIET).await;
    let mut records = Vec::new();
    while let Ok(Notification { method, params }) = notes.try_recv() {
        if method == method::LOG {
            records.push(json!([params["level"], params["logger"], params["data"]]));
        }
    }
    let expected = [1, 2, 3].map(|n| json!(["warning", "peer", format!("log {n}")]));
    same(&records, &expected.to_vec())
}

pub(super) async fn subscribe(connection: &Connection) -> Result<(), Failure> {
    let mut notes = connection.notes();
    let uris = vec!["peer://watched".to_owned()];
    let mut listening =
        connection.client.listen(ListenFilter { uris, ..ListenFilter::default() }).await?;
    same(&connection.call("touch", json!({})).await?, &"touched".to_owned())?;
    let note = timeout(ARRIVAL, listening.next()).await?.ok_or("the listen ended")?;
    same(&note.method.as_str(), &method::UPDATED)?;
    same(&note.params["uri"], &json!("peer://watched"))?;
    told(&mut notes, method::UPDATED).await?;
    listening.close().await;
    Ok(())
}

pub(super) async fn list_changed(connection: &Connection) -> Result<(), Failure> {
    let mut notes = connection.notes();
    let filter = ListenFilter { tools: true, ..ListenFilter::default() };
    let mut listening = connection.client.listen(filter).await?;
    let name = connection.call("grow", json!({})).await?;
    let note = timeout(ARRIVAL, listening.next()).await?.ok_or("the listen ended")?;
    let changed = method::list_changed("tools").unwrap_or_default();
    same(&note.method.as_str(), &changed)?;
    told(&mut notes, changed).await?;
    same(&lists::tools(connection).await?.contains(&name), &true)?;
    same(&connection.call(&name, Value::Null).await?, &name)?;
    listening.close().await;
    Ok(())
}

/// Waits until the callback for notifications has seen this one too.
async fn told(notes: &mut Receiver<Notification>, method: &str) -> Result<(), Failure> {
    while timeout(ARRIVAL, notes.recv()).await??.method != method {}
    Ok(())
}
