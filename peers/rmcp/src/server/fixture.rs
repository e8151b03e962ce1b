//! The fixture as rmcp sees it: one value for each session, stdio run or stateless request.

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rmcp::{
    ErrorData, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, GetPromptRequestParams, GetPromptResponse,
        GetPromptResult, Implementation, InitializeRequestParams, InitializeResult,
        ListPromptsResult, ListResourcesResult, ListToolsResult, LoggingLevel,
        PaginatedRequestParams, Prompt, PromptArgument, PromptMessage, ProtocolVersion,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
        ResourceContents, ResourceUpdatedNotificationParam, Role, ServerCapabilities, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
        UnsubscribeRequestParams,
    },
    service::{NotificationContext, Peer, RequestContext, RoleServer, SubscriptionContext},
};
use tokio::sync::broadcast;

use super::{
    shared::{Change, Shared, next_change},
    tools,
};

const WATCHED: &str = "peer://watched";
const STATIC: &str = "peer://static";

pub(crate) struct Fixture {
    pub(crate) shared: Arc<Shared>,
    level: Mutex<LoggingLevel>,
    watching: Arc<AtomicBool>,
    /// Taken up when a client asks, read once it has its answer, so that nothing falls between.
    changes: Mutex<Vec<broadcast::Receiver<Change>>>,
}

impl Fixture {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            level: Mutex::new(LoggingLevel::Info),
            watching: Arc::default(),
            changes: Mutex::default(),
        }
    }

    /// The level below which log notes are kept back; `None` sends none.
    pub(crate) fn log_level(&self, context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        if is_modern(context) {
            return context.meta.log_level();
        }
        Some(*self.level.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take_up_changes(&self) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.push(self.shared.changes());
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.pop().unwrap_or_else(|| self.shared.changes())
    }
}

pub(crate) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version() == Some(ProtocolVersion::V_2026_07_28)
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("rmcp-peer", "0.1.0"))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.shared.era.versions())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.take_up_changes();
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let watching = Arc::clone(&self.watching);
        tokio::spawn(forward(self.changes(), context.peer, watching));
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = request.level;
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        tools::page(self.shared.grown(), request.and_then(|page| page.cursor))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tools::call(self, request, context).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![
            Resource::new(WATCHED, "watched"),
            Resource::new(STATIC, "static"),
        ]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = match request.uri.as_str() {
            WATCHED => "watched",
            STATIC => "static",
            _ => return Err(ErrorData::resource_not_found("no such resource", None)),
        };
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, request.uri)]).into())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let name = PromptArgument::new("name").with_required(true);
        let greet = Prompt::new("greet", Some("Greets somebody"), Some(vec![name]));
        Ok(ListPromptsResult::with_all_items(vec![greet]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        match (request.name.as_str(), arguments.get("name")) {
            ("greet", Some(serde_json::Value::String(name))) => {
                let message = PromptMessage::new_text(Role::User, format!("Hello, {name}!"));
                Ok(GetPromptResult::new(vec![message]).into())
            }
            ("greet", _) => Err(ErrorData::invalid_params("name is required", None)),
            _ => Err(ErrorData::invalid_params("no such prompt", None)),
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if request.uri == WATCHED {
            self.watching.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if request.uri == WATCHED {
            self.watching.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.take_up_changes();
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = next_change(&mut changes) => change,
            };
            let Some(change) = change else { return Ok(()) };
            let sink = context.sink();
            // An error says that this listener did not ask for it, or that it is gone, which
            // the next turn sees.
            let _ = match change {
                Change::ToolsGrew => sink.notify_tool_list_changed().await,
                Change::WatchedTouched => sink.notify_resource_updated(WATCHED).await,
            };
        }
    }
}

/// Tells one legacy session of the changes until it ends.
async fn forward(
    mut changes: broadcast::Receiver<Change>,
    peer: Peer<RoleServer>,
    watching: Arc<AtomicBool>,
) {
    while let Some(change) = next_change(&mut changes).await {
        let sent = match change {
            Change::ToolsGrew => peer.notify_tool_list_changed().await,
            Change::WatchedTouched if watching.load(Ordering::Relaxed) => {
                let updated = ResourceUpdatedNotificationParam::new(WATCHED);
                peer.notify_resource_updated(updated).await
            }
            Change::WatchedTouched => Ok(()),
        };
        if sent.is_err() {
            return;
        }
    }
}
