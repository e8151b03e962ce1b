//! What people do in the console: restart, stop and start a server, end a session.
//!
//! Each is for those from whom nothing is kept, but for the end of one's own session. Each is
//! logged, with whoever did it.

use http::StatusCode;
use serde_json::{Value, json};
use switchboard_net::http::site::ConnectedClient;

use super::sign_in::Viewer;
use super::{ApiError, ApiResult, Console};
use crate::config::ConsoleMode;

impl Console {
    /// What somebody may do with a server that runs, or was stopped.
    pub(super) fn actions(&self, viewer: &Viewer, is_stopped: bool) -> Vec<&'static str> {
        if self.may_change(viewer).is_err() {
            return Vec::new();
        }
        if is_stopped {
            return vec!["start"];
        }
        let mut actions = vec!["restart", "stop"];
        actions.extend(self.doctor.get().map(|_| "doctor"));
        actions
    }

    /// Whether people may change what is their own.
    pub(super) fn may_change_own(&self) -> ApiResult<()> {
        if self.mode() == ConsoleMode::Write {
            return Ok(());
        }
        let message = "the configuration says \"console\": \"read\"";
        Err(ApiError::new(StatusCode::FORBIDDEN, "read_only", message))
    }

    /// Whether somebody may change what concerns everybody.
    pub(super) fn may_change(&self, viewer: &Viewer) -> ApiResult<()> {
        self.may_change_own()?;
        if viewer.is_whole() { Ok(()) } else { Err(ApiError::not_granted()) }
    }

    /// Restarts, stops or starts a server.
    pub(super) fn act(&self, viewer: &Viewer, name: &str, action: &str) -> ApiResult {
        if !viewer.has_server(name) {
            return Err(no_server(name));
        }
        self.may_change(viewer)?;
        let done = match action {
            "restart" => self.gateway.restart(name),
            "stop" => self.gateway.switch(name, false),
            "start" => self.gateway.switch(name, true),
            _ => return Err(ApiError::not_found(format!("a server has no {action:?}"))),
        };
        let failed =
            |why| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", format!("{why}"));
        if !done.map_err(failed)? {
            let is_there = self.gateway.fleet().running(name).is_some();
            let runs = || ApiError::not_found(format!("server {name:?} runs already"));
            return Err(if is_there { runs() } else { no_server(name) });
        }
        tracing::info!(principal = viewer.who.name(), server = name, action, "done in the console");
        let (sessions, _) = self.open_sessions(viewer);
        let undo =
            |action: &str| json!({"method": "POST", "path": format!("servers/{name}/{action}")});
        Ok(match action {
            "restart" => json!({
                "did": format!("{name} is started anew; sessions that go on: {sessions}"),
                "undo": null,
            }),
            "stop" => json!({
                "did": format!("{name} is stopped, until it is started or the file changes"),
                "undo": undo("start"),
            }),
            _ => json!({"did": format!("{name} is started"), "undo": undo("stop")}),
        })
    }

    /// Ends a session by the beginning of its id.
    pub(super) fn end_session(&self, viewer: &Viewer, id: &str) -> ApiResult {
        self.may_change_own()?;
        let seen = self.connected(viewer);
        let is_meant =
            |it: &&ConnectedClient| it.client.session() == Some(id) && it.client.phase().is_some();
        let mut meant = seen.iter().filter(is_meant);
        let unknown = || ApiError::not_found(format!("there is no session {id:?}"));
        let one = meant.next().ok_or_else(unknown)?;
        if meant.next().is_some() {
            let message = "two sessions have ids that begin like this; wait until one is over";
            return Err(ApiError::new(StatusCode::CONFLICT, "busy", message));
        }
        for site in self.sites() {
            site.end_client(one.client.number());
        }
        tracing::info!(principal = viewer.who.name(), session = id, "session ended in the console");
        Ok(json!({"did": format!("ended the session {id}"), "undo": null}))
    }

    /// Rows of servers that people have stopped.
    pub(super) fn stopped_rows(&self, viewer: &Viewer) -> Vec<Value> {
        let stopped = self.gateway.stopped();
        let own = stopped.iter().filter(|name| viewer.has_server(name));
        own.map(|name| json!({"name": name, "state": "stopped"})).collect()
    }

    /// A server that people have stopped.
    pub(super) fn stopped_server(&self, viewer: &Viewer, name: &str) -> Option<Value> {
        let is_there = viewer.has_server(name) && self.gateway.stopped().contains(name);
        let actions = self.actions(viewer, true);
        is_there.then(|| json!({"name": name, "state": "stopped", "actions": actions}))
    }
}

/// The same words for what is not there and what is not granted.
fn no_server(name: &str) -> ApiError {
    ApiError::not_found(format!("server {name:?} is not there, or is stopped"))
}
