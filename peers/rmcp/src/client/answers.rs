//! What the client says when the server asks, and the notes that reach it outside of a listen.

use rmcp::{
    ClientHandler, ErrorData,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
        FormElicitationCapability, Implementation, ListRootsResult,
        LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
        ResourceUpdatedNotificationParam, Root, SamplingMessage, UrlElicitationCapability,
    },
    service::{NotificationContext, RequestContext, RoleClient},
};
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// Notes a check may leave unread before it misses some.
const NOTES_KEPT: usize = 1024;

#[derive(Clone, Debug)]
pub(crate) enum Note {
    Progress(ProgressNotificationParam),
    Log(LoggingMessageNotificationParam),
    Updated(String),
    ToolsChanged,
}

#[derive(Clone)]
pub(crate) struct Answers {
    notes: broadcast::Sender<Note>,
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self { notes: broadcast::channel(NOTES_KEPT).0 }
    }

    /// Every note from now on.
    pub(crate) fn notes(&self) -> broadcast::Receiver<Note> {
        self.notes.subscribe()
    }

    fn note(&self, note: Note) {
        // An error means that no check waits for notes just now.
        let _ = self.notes.send(note);
    }
}

/// The person behind the form; not plain ASCII, so that a bridge that mangles text shows.
pub(crate) fn form_answer() -> Value {
    json!({ "action": "accept", "content": { "name": "Ada Ünï 🦀" } })
}

impl ClientHandler for Answers {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder()
            .enable_elicitation_with(
                ElicitationCapability::new()
                    .with_form(FormElicitationCapability::default())
                    .with_url(UrlElicitationCapability::default()),
            )
            .enable_roots()
            .enable_sampling()
            .enable_sampling_tools()
            .build();
        ClientConfig::new(capabilities, Implementation::new("rmcp-peer", "0.1.0"))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if let ElicitRequestParams::UrlElicitationParams { url, .. } = request {
            let known = url == "https://peer.test/sign-in?a=1&b=%20";
            let action = if known { ElicitationAction::Accept } else { ElicitationAction::Decline };
            return Ok(ElicitResult::new(action));
        }
        let content = form_answer()["content"].take();
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let tool = params.tools.as_ref().and_then(|tools| tools.first());
        if tool.is_some_and(|tool| tool.name == "weather") {
            let input = json!({ "city": "Ulm" }).as_object().cloned().unwrap_or_default();
            let message = SamplingMessage::assistant_tool_use("use-1", "weather", input);
            return Ok(CreateMessageResult::new(message, "peer-model".to_owned())
                .with_stop_reason("toolUse"));
        }
        let asked = params.messages.first().and_then(|message| {
            let content = message.content.first()?;
            content.as_text().map(|text| text.text.clone())
        });
        let asked = asked.ok_or_else(|| ErrorData::invalid_params("no text message", None))?;
        let message = SamplingMessage::assistant_text(format!("sampled: {asked}"));
        Ok(CreateMessageResult::new(message, "peer-model".to_owned()))
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let root = Root::new("file:///peer/root").with_name("peer root");
        Ok(ListRootsResult::new(vec![root]))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.note(Note::Progress(params));
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.note(Note::Log(params));
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.note(Note::Updated(params.uri));
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.note(Note::ToolsChanged);
    }
}
