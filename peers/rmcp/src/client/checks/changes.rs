//! Checks of subscriptions: sessions that are told in the legacy era, listens in the modern one.

use rmcp::{
    model::{ServerNotification, SubscribeRequestParams, SubscriptionFilter},
    service::Subscription,
};
use serde_json::json;
use tokio::sync::broadcast::Receiver;

use super::{lists::tools, same};
use crate::{
    client::{answers::Note, connection::Connection},
    era::{Era, Failure},
};

const WATCHED: &str = "peer://watched";

pub(super) async fn subscribe(connection: &Connection) -> Result<(), Failure> {
    let peer = connection.peer();
    let touched = connection.call("touch", json!({}));
    if connection.era == Era::Modern {
        let filter = SubscriptionFilter::builder().resource_subscription(WATCHED);
        let mut listen = peer.listen(filter.build()).await?;
        touched.await?;
        let uri = heard(&mut listen, |notification| match notification {
            ServerNotification::ResourceUpdatedNotification(updated) => Some(updated.params.uri),
            _ => None,
        });
        same(&uri.await?.as_str(), &WATCHED)?;
        return Ok(listen.cancel().await?);
    }
    let mut notes = connection.notes();
    peer.subscribe(SubscribeRequestParams::new(WATCHED)).await?;
    touched.await?;
    noted(&mut notes, |note| matches!(note, Note::Updated(uri) if uri == WATCHED)).await
}

pub(super) async fn list_changed(connection: &Connection) -> Result<(), Failure> {
    let grow = connection.call("grow", json!({}));
    let name = if connection.era == Era::Modern {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let mut listen = connection.peer().listen(filter).await?;
        let name = grow.await?;
        heard(&mut listen, |notification| {
            matches!(notification, ServerNotification::ToolListChangedNotification(_)).then_some(())
        })
        .await?;
        listen.cancel().await?;
        name
    } else {
        let mut notes = connection.notes();
        let name = grow.await?;
        noted(&mut notes, |note| matches!(note, Note::ToolsChanged)).await?;
        name
    };
    let (names, _) = tools(connection).await?;
    if names.contains(&name) {
        return Ok(());
    }
    Err(format!("{name} is not listed").into())
}

/// Waits for a note on a listen and returns what `wanted` took from it.
async fn heard<T>(
    listen: &mut Subscription,
    wanted: impl Fn(ServerNotification) -> Option<T>,
) -> Result<T, Failure> {
    while let Some(notification) = listen.next().await? {
        if let Some(found) = wanted(notification) {
            return Ok(found);
        }
    }
    Err(format!("the listen ended early: {:?}", listen.end()).into())
}

async fn noted(notes: &mut Receiver<Note>, wanted: impl Fn(&Note) -> bool) -> Result<(), Failure> {
    while !wanted(&notes.recv().await?) {}
    Ok(())
}
