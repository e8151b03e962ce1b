//! The calls that are not over, and how a person cancels one (C-9).
//!
//! Nothing is written down for this: whoever looks asks the clients that are connected.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_net::call::{Call, CallDescription};
use switchboard_net::connection::ClientConnection;
use switchboard_net::http::site::ConnectedClient;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::{method, moment};

use super::sign_in::Viewer;
use super::{ApiError, ApiResult, Console, millis};
use crate::policy;
use crate::status::era_name;

/// Rows in one answer.
const MAX_ROWS: usize = 200;

/// A call that is not over, and whose it is.
struct ShownCall {
    client: Arc<ClientConnection>,
    call: Call,
    seen: CallDescription,
    transport: &'static str,
}

impl ShownCall {
    /// No number is given twice while the gateway runs.
    fn id(&self) -> String {
        format!("{}-{}", self.client.number(), self.call.exchange().0)
    }

    fn row(&self) -> Value {
        let Self { client, seen, transport, .. } = self;
        let intro = client.intro().map(|intro| &*intro.name).filter(|name| !name.is_empty());
        json!({
            "id": self.id(),
            "trace": format!("{:032x}", seen.trace),
            "at": moment::text(seen.at),
            "method": &*seen.method,
            "server": seen.server.as_deref(),
            "name": seen.offered.as_deref(),
            "ms": millis(seen.age),
            "principal": policy::who(client).as_deref(),
            "client": intro.or(seen.client.as_deref()),
            "transport": transport,
            "era": era_name(client.era()),
            "session": client.session(),
        })
    }
}

impl Console {
    /// The calls that are open, as far as somebody may know; the oldest first.
    fn shown_calls(&self, viewer: &Viewer) -> Vec<ShownCall> {
        let is_shown =
            |it: &ConnectedClient| viewer.is_whole() || viewer.is_own(it.client.principal());
        let clients = self.sites().into_iter().flat_map(|site| site.calling());
        let mut shown = Vec::new();
        for ConnectedClient { client, transport, .. } in clients.filter(is_shown) {
            for call in client.open_calls() {
                // A listen is open for as long as its client likes.
                let seen = call.describe().filter(|seen| &*seen.method != method::LISTEN);
                let client = Arc::clone(&client);
                shown.extend(seen.map(|seen| ShownCall { client, call, seen, transport }));
            }
        }
        shown.sort_by_key(|it| std::cmp::Reverse(it.seen.age));
        shown
    }

    /// Rows of the calls that are open.
    pub(super) fn open_calls(&self, viewer: &Viewer) -> Value {
        let shown = self.shown_calls(viewer);
        let rows: Vec<_> = shown.iter().take(MAX_ROWS).map(ShownCall::row).collect();
        json!({"count": shown.len(), "rows": rows})
    }

    /// Cancels a call: its client gets an error, and its server is told.
    pub(super) fn cancel_call(&self, viewer: &Viewer, id: &str) -> ApiResult {
        self.may_change_own()?;
        let shown = self.shown_calls(viewer);
        let over = || ApiError::not_found("this call is over");
        let found = shown.iter().find(|it| it.id() == id).ok_or_else(over)?;
        let why = Refusal::CancelledByOperator;
        let work = found.client.give_up_call(found.call.exchange(), &why).ok_or_else(over)?;
        work.detach();
        let CallDescription { method, offered, server, .. } = &found.seen;
        let (server, offered) = (server.as_deref(), offered.as_deref());
        let principal = viewer.who.name();
        tracing::info!(
            principal,
            server,
            method = &**method,
            offered,
            "call cancelled in the console"
        );
        let what = offered.unwrap_or(method);
        Ok(json!({"did": format!("cancelled the call of {what}"), "undo": null}))
    }
}
