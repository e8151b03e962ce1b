//! A server with a typed tool, a prompt and a resource, on stdin and stdout.

use std::error::Error;

use rmcp::{
    ErrorData, Json, Peer, RoleServer, ServerHandler, ServiceExt,
    handler::server::{
        router::{prompt::PromptRouter, tool::ToolRouter},
        wrapper::Parameters,
    },
    model::{
        Implementation, ListResourcesResult, PaginatedRequestParams, ProgressNotificationParam,
        PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
        RequestMetaObject, Resource, ResourceContents, Role, ServerCapabilities, ServerConfig,
    },
    prompt, prompt_handler, prompt_router,
    service::RequestContext,
    tool, tool_handler, tool_router,
    transport::stdio,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the tool takes. The comments end up in its schema.
#[derive(Deserialize, JsonSchema)]
struct Count {
    /// Where to count.
    text: String,
    /// What to count; letters if left out.
    what: Option<What>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum What {
    Letters,
    Words,
    Lines,
}

/// What the tool gives.
#[derive(JsonSchema, Serialize)]
struct Counted {
    count: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Shorten {
    /// the text
    text: String,
}

#[derive(Clone)]
struct Counter {
    tool_router: ToolRouter<Self>,
    prompt_router: PromptRouter<Self>,
}

#[tool_router]
impl Counter {
    fn new() -> Self {
        Self { tool_router: Self::tool_router(), prompt_router: Self::prompt_router() }
    }

    #[tool(description = "Counts letters, words or lines")]
    async fn count(
        &self,
        Parameters(args): Parameters<Count>,
        meta: RequestMetaObject,
        client: Peer<RoleServer>,
    ) -> Json<Counted> {
        if let Some(token) = meta.get_progress_token() {
            let note = ProgressNotificationParam::new(token, 0.0).with_total(1.0);
            // A client that does not hear of it gets its answer all the same.
            let _ = client.notify_progress(note.with_message("counting")).await;
        }
        let count = match args.what.unwrap_or(What::Letters) {
            What::Letters => args.text.chars().filter(|c| c.is_alphabetic()).count(),
            What::Words => args.text.split_whitespace().count(),
            What::Lines => args.text.lines().count(),
        };
        Json(Counted { count })
    }
}

#[prompt_router]
impl Counter {
    #[prompt(description = "Asks for a shorter version of a text")]
    async fn shorten(&self, Parameters(args): Parameters<Shorten>) -> Vec<PromptMessage> {
        let words = format!("Say it in half the words: {}", args.text);
        vec![PromptMessage::new_text(Role::User, words)]
    }
}

#[tool_handler(router = self.tool_router)]
#[prompt_handler(router = self.prompt_router)]
impl ServerHandler for Counter {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_prompts()
            .enable_resources()
            .enable_tools()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("counter", env!("CARGO_PKG_VERSION")))
            .with_instructions("Counts things in texts.")
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let about = Resource::new("counter://about", "about").with_mime_type("text/plain");
        Ok(ListResourcesResult::with_all_items(vec![about]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != "counter://about" {
            return Err(ErrorData::resource_not_found("no such resource", None));
        }
        let contents = ResourceContents::text("It counts.", request.uri);
        Ok(ReadResourceResult::new(vec![contents.with_mime_type("text/plain")]).into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    Counter::new().serve(stdio()).await?.waiting().await?;
    Ok(())
}
