//! A trial run of a server that is in a text, and not kept yet (C-11).
//!
//! The server is started or connected as the gateway would do it, says what it has, and ends.
//! Nothing is written, and no client hears of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::{Value, json};
use switchboard_net::client::{CallError, Client, ConnectError};
use switchboard_net::http::page::PageVisit;
use switchboard_proto::failure::Failure;
use tokio::time::timeout;

use super::sign_in::Viewer;
use super::{ApiError, ApiResult, Console, millis};
use crate::plan::{Plan, PlanSecret, ServerPlan};
use crate::status::era_name;
use crate::stderr_logs::StderrLogs;

/// Trials at once.
pub(super) const MAX_TRIALS: usize = 2;
/// How long a server may take beyond its own time to start.
const PATIENCE: Duration = Duration::from_secs(30);
/// Tools that are shown.
const MAX_TOOLS: usize = 200;
/// Characters of a description that are shown.
const MAX_ABOUT: usize = 300;
/// Lines of stderr that are shown.
const MAX_LINES: usize = 50;

/// What a server says of itself.
struct TriedServer {
    client: Client,
    /// Tools, prompts and resources.
    lists: [Vec<Value>; 3],
}

impl TriedServer {
    async fn meet(client: Client) -> Result<Self, CallError> {
        // A server without a list is no worse for it.
        let list = |found: Result<Vec<Value>, CallError>| match found {
            Err(CallError::Unsupported { .. }) => Ok(Vec::new()),
            found => found,
        };
        let tools = list(client.tools().await)?;
        let prompts = list(client.prompts().await)?;
        let resources = list(client.resources().await)?;
        Ok(Self { client, lists: [tools, prompts, resources] })
    }

    fn told(&self) -> Value {
        let Self { client, lists: [tools, prompts, resources] } = self;
        let cut = |text: &Value| {
            text.as_str().map(|text| text.chars().take(MAX_ABOUT).collect::<String>())
        };
        let tool = |it: &Value| {
            let title = cut(&it["title"]).or_else(|| cut(&it["annotations"]["title"]));
            json!({"name": it["name"], "title": title, "description": cut(&it["description"])})
        };
        json!({
            "outcome": "ok",
            "era": era_name(client.era()),
            "revision": client.revision(),
            "info": client.server(),
            "count": tools.len(),
            "tools": tools.iter().take(MAX_TOOLS).map(tool).collect::<Vec<_>>(),
            "prompts": prompts.len(),
            "resources": resources.len(),
        })
    }
}

impl Console {
    /// Starts or connects a server of a text, and says what it has.
    pub(super) async fn try_server(&self, viewer: Viewer, visit: &PageVisit) -> ApiResult {
        let (body, who) = (visit.body.clone(), viewer.clone());
        let plan = self.with_disk(move |console| console.server_to_try(&who, &body)).await?;
        let busy = |_| {
            let message = "other servers are tried at this time";
            ApiError::new(StatusCode::CONFLICT, "busy", message)
        };
        let _permit = self.trials.try_acquire().map_err(busy)?;
        let heard = Arc::<StderrLogs>::default();
        let servers = [(plan.name.clone(), plan.clone())].into();
        let secrets = PlanSecret::collect(&[&Plan { servers, ..Plan::default() }]);
        heard.hide(secrets.clone());
        let begun = Instant::now();
        let tried = timeout(plan.start + PATIENCE, self.meet(&plan, &heard)).await;
        let waited = begun.elapsed();
        let tried = tried.unwrap_or(Err(Failure::Timeout { waited }));
        let outcome = if tried.is_ok() { "ok" } else { "failed" };
        let (principal, server) = (viewer.who.name(), &*plan.name);
        tracing::info!(principal, server, outcome, "server tried in the console");
        let mut told = match &tried {
            Ok(tried) => tried.told(),
            Err(why) => json!({
                "outcome": outcome,
                "error": PlanSecret::veil(&why.summary(), &secrets),
                "errorKind": why.kind(),
                "hint": self.veiled(&PlanSecret::veil(&why.to_string(), &secrets)),
                "needsSignIn": why.is_sign_in(),
            }),
        };
        if let Ok(tried) = &tried {
            tried.client.close().await;
        }
        let lines = heard.after(&plan.name, 0).lines;
        let last = lines.iter().skip(lines.len().saturating_sub(MAX_LINES));
        told["stderr"] = last.map(|line| &*line.text).collect();
        told["server"] = server.into();
        told["ms"] = millis(waited).into();
        Ok(told)
    }

    async fn meet(
        &self,
        plan: &ServerPlan,
        heard: &Arc<StderrLogs>,
    ) -> Result<TriedServer, Failure> {
        let (server, options) = self.gateway.fleet().to_try(plan);
        let server = server.heard_by(heard.listener(&plan.name.as_str().into()));
        let client = options.connect(server).await?;
        Ok(TriedServer::meet(client).await.map_err(ConnectError::Failed)?)
    }
}
