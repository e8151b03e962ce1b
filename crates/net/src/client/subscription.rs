//! Hearing of changes, in either era, over as many connections as it takes.
//!
//! A modern server is asked for a stream of changes and asked again when the
//! stream breaks (SUB-10); a legacy one says them anyway, but for resources
//! that must be subscribed to. What may have changed meanwhile is said to have.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_proto::backoff::Reconnect;
use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::{Id, Kind, Message};
use switchboard_proto::method;
use switchboard_proto::revision::Era;
use switchboard_proto::server::legacy::covers;
use tokio::sync::mpsc;

use super::connection::{ListenerEvent, OpenCall, PendingCall, ServerConnection, TimeLimit};
use super::options::Notification;
use super::{CallError, CallOptions, Client};
use crate::drive::now;

/// Notifications that wait for a listener that does not read.
const WAITING: usize = 256;

/// Attempts in a row to listen again.
const ATTEMPTS: u32 = 5;

/// What to hear of.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ListenFilter {
    /// Changes of the list of tools.
    pub tools: bool,
    /// Changes of the list of prompts.
    pub prompts: bool,
    /// Changes of the list of resources.
    pub resources: bool,
    /// Changes of these resources.
    pub uris: Vec<String>,
}

impl ListenFilter {
    /// wire: SUB-1
    fn params(&self) -> Value {
        let mut wanted = json!({});
        for list in self.lists() {
            wanted[format!("{list}ListChanged")] = true.into();
        }
        if !self.uris.is_empty() {
            wanted["resourceSubscriptions"] = json!(self.uris);
        }
        json!({ "notifications": wanted })
    }

    /// The names of the lists to hear of.
    fn lists(&self) -> impl Iterator<Item = &'static str> {
        let lists =
            [("tools", self.tools), ("prompts", self.prompts), ("resources", self.resources)];
        lists.into_iter().filter_map(|(list, wanted)| wanted.then_some(list))
    }

    /// A legacy server tells everybody on the connection what any of them watches.
    fn wants(&self, note: &Notification) -> bool {
        let changed = note.params["uri"].as_str().unwrap_or_default();
        note.method == method::UPDATED && self.uris.iter().any(|uri| covers(uri, changed))
            || self.lists().any(|list| method::list_changed(list) == Some(&note.method))
    }
}

/// A listen that is under way; over when dropped.
pub struct Listening {
    client: Client,
    filter: ListenFilter,
    heard: mpsc::Receiver<ListenerEvent>,
    honoured: Value,
    reconnect: Reconnect,
    /// What may have changed while nobody listened.
    missed: Vec<Notification>,
    via: ListenVia,
}

/// What a listen hears by.
enum ListenVia {
    /// A call of the modern era, which is not answered until it ends.
    Call(OpenCall),
    /// The session of the legacy era, in which the server tells changes anyway.
    Session(WatchedResources),
}

/// What a listen watches at a legacy server, among others of the same client.
struct WatchedResources {
    connection: Arc<ServerConnection>,
    uris: Vec<String>,
}

impl WatchedResources {
    /// What nobody else watches.
    fn end(&mut self) -> Vec<String> {
        let mut uris = std::mem::take(&mut self.uris);
        uris.retain(|uri| self.connection.inbox.unwatch(uri));
        uris
    }
}

impl Drop for WatchedResources {
    fn drop(&mut self) {
        self.end();
    }
}

impl Client {
    /// Listens for changes.
    ///
    /// wire: SUB-1, SUB-3, SUB-14
    pub async fn listen(&self, filter: ListenFilter) -> Result<Listening, CallError> {
        let (sender, heard) = mpsc::channel(WAITING);
        let (via, honoured) = match self.era() {
            Era::Modern => self.open_listen(&filter, sender).await?,
            Era::Legacy => {
                // What was not agreed on is not asked for (LIF-3).
                if !filter.uris.is_empty() && self.capabilities()["resources"]["subscribe"] != true
                {
                    return Err(CallError::unsupported("watching of resources"));
                }
                let connection = Arc::clone(&self.core.connection);
                connection.inbox.listen(sender);
                let mut watched = WatchedResources { connection, uris: Vec::new() };
                for uri in &filter.uris {
                    watched.connection.inbox.watch(uri);
                    watched.uris.push(uri.clone());
                    self.request(method::SUBSCRIBE, json!({ "uri": uri })).await?;
                }
                (ListenVia::Session(watched), filter.params()["notifications"].take())
            }
        };
        let reconnect = Reconnect::new(ATTEMPTS);
        let client = self.clone();
        Ok(Listening { client, filter, heard, honoured, reconnect, missed: Vec::new(), via })
    }

    async fn open_listen(
        &self,
        filter: &ListenFilter,
        notes: mpsc::Sender<ListenerEvent>,
    ) -> Result<(ListenVia, Value), CallError> {
        let params = super::call::to_params(&filter.params())?;
        let request = Message::request(&Id::from(0), method::LISTEN, Some(&params));
        let request = self.core.enveloped(&request, &CallOptions::default(), None);
        let open = OpenCall::new(&self.core.connection, PendingCall::new(None, Some(notes)));
        open.to_server(&request).detach();
        let quiet = self.core.options().timeout;
        match open.pending.begun(TimeLimit { quiet, until: now() + quiet }).await {
            Some(Ok(honoured)) => Ok((ListenVia::Call(open), honoured)),
            Some(Err(Outcome::Failed(why))) => Err(why.into()),
            Some(Err(Outcome::Answered(answer))) if answer.kind() == Kind::Error => {
                Err(CallError::from_answer(&answer))
            }
            // Nothing of it is honoured, and some servers say so by ending it (SUB-12).
            Some(Err(_)) => Ok((ListenVia::Call(open), json!({}))),
            None => Err(CallError::timeout(quiet)),
        }
    }
}

impl Listening {
    /// What the server agreed to tell.
    pub fn honoured(&self) -> &Value {
        &self.honoured
    }

    /// The next change; none when the server has ended it or is gone for good.
    pub async fn next(&mut self) -> Option<Notification> {
        loop {
            if let Some(missed) = self.missed.pop() {
                return Some(missed);
            }
            match self.heard.recv().await {
                Some(ListenerEvent::Note(note)) if self.filter.wants(&note) => {
                    self.reconnect.handle_success();
                    return Some(note);
                }
                Some(ListenerEvent::Note(_)) => {}
                // A legacy server is greeted again by any call, and what was subscribed
                // to renewed; the half says which lists may have changed.
                Some(ListenerEvent::Lost) => loop {
                    self.pause().await?;
                    if self.client.ping().await.is_ok() {
                        break;
                    }
                },
                None => self.listen_again().await?,
            }
        }
    }

    /// wire: SUB-8, SUB-10
    async fn listen_again(&mut self) -> Option<()> {
        let ListenVia::Call(open) = &self.via else { return None };
        // An end that the server gave is one; so is one of ours.
        if open.pending.ending().is_none_or(|ending| ending.answer().is_some()) {
            return None;
        }
        loop {
            self.pause().await?;
            let (sender, heard) = mpsc::channel(WAITING);
            let Ok((via, honoured)) = self.client.open_listen(&self.filter, sender).await else {
                continue;
            };
            (self.via, self.honoured, self.heard) = (via, honoured, heard);
            let lists = self.filter.lists().filter_map(method::list_changed);
            self.missed = lists.map(|of| note(of, Value::Null)).collect();
            let uris = self.filter.uris.iter();
            self.missed.extend(uris.map(|uri| note(method::UPDATED, json!({ "uri": uri }))));
            let inbox = &self.client.core.connection.inbox;
            for note in &self.missed {
                inbox.handle_change(&note.method, || note.params.clone());
            }
            return Some(());
        }
    }

    /// Waits before another attempt; none if there is to be no more.
    async fn pause(&mut self) -> Option<()> {
        if self.client.core.connection.is_stopped() {
            return None;
        }
        let at = self.reconnect.handle_break(now(), Duration::ZERO)?;
        tokio::time::sleep_until(at.into()).await;
        Some(())
    }

    /// Stops listening. Dropping does the same, but a legacy server is told
    /// about resources only here, and only of those that nobody else watches.
    pub async fn close(mut self) {
        if let ListenVia::Session(watched) = &mut self.via {
            for uri in watched.end() {
                // A server that is gone has forgotten it anyway.
                _ = self.client.request(method::UNSUBSCRIBE, json!({ "uri": uri })).await;
            }
        }
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("filter", &self.filter).finish_non_exhaustive()
    }
}

fn note(method: &str, params: Value) -> Notification {
    Notification { method: method.to_owned(), params }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: SUB-13
    #[test]
    fn a_listen_hears_of_what_it_watches_and_not_of_what_others_do() {
        let filter = ListenFilter { uris: vec!["file:///a".to_owned()], ..ListenFilter::default() };
        let wants = |uri: &str| filter.wants(&note(method::UPDATED, json!({ "uri": uri })));
        assert!(wants("file:///a") && wants("file:///a/b"));
        assert!(!wants("file:///b") && !wants("file:///ab"));
        assert!(!ListenFilter::default().wants(&note(method::UPDATED, json!({}))));
    }
}
