//! The accounts of whoever looks, at servers where each user has one of their own.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::sign_in::{SignedInBy, Viewer};
use super::{ApiError, ApiResult, Console};
use crate::connect::UserConnector;
use crate::plan::ServerPlan;

impl Console {
    /// Each server where this viewer may have an account, and whether they have one.
    pub(super) async fn accounts(&self, viewer: &Viewer) -> ApiResult {
        let Some(connector) = self.gateway.fleet().connector() else {
            return Ok(json!({"rows": []}));
        };
        let mut rows = Vec::new();
        for plan in self.servers_with_accounts(viewer) {
            let is_connected = connector.accounts().is_connected(&plan, viewer.who.name()).await;
            let state = if is_connected { "connected" } else { "needed" };
            let scopes = plan.oauth.settings.scopes.clone();
            rows.push(json!({"server": plan.name, "state": state, "scopes": scopes}));
        }
        Ok(json!({"rows": rows}))
    }

    fn servers_with_accounts(&self, viewer: &Viewer) -> Vec<Arc<ServerPlan>> {
        let all = self.gateway.fleet().running_servers();
        let own = all.values().filter(|it| it.plan.wants_sign_in());
        let own = own.filter(|it| viewer.has_server(&it.plan.name));
        own.map(|it| Arc::clone(&it.plan)).collect()
    }

    /// Connects or disconnects an account of this viewer.
    pub(super) async fn change_account(
        &self,
        viewer: &Viewer,
        server: &str,
        action: &str,
    ) -> ApiResult {
        self.may_change_own()?;
        let unknown = || ApiError::not_found(format!("server {server:?} asks for no account"));
        let mut plans = self.servers_with_accounts(viewer).into_iter();
        let plan = plans.find(|plan| plan.name == server).ok_or_else(unknown)?;
        let connector: &Arc<UserConnector> =
            self.gateway.fleet().connector().ok_or_else(unknown)?;
        if viewer.by == SignedInBy::Link {
            let message = "an account belongs to a key; sign in with one";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "not_granted", message));
        }
        let failed = |why| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", why);
        let user = viewer.who.name();
        match action {
            "connect" => {
                let link = connector.link(&plan, user, None).map_err(failed)?;
                Ok(json!({"url": link.url}))
            }
            "disconnect" => {
                connector.disconnect(&plan, user).await.map_err(failed)?;
                tracing::info!(principal = user, server, "account disconnected in the console");
                let undo = format!("accounts/{server}/connect");
                let did = format!("disconnected your account at {server}");
                Ok(json!({"did": did, "undo": {"method": "POST", "path": undo}}))
            }
            _ => Err(unknown()),
        }
    }
}
