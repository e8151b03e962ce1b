//! A proxy: a server at a URL or behind a command, as a server on stdin and stdout. Lists,
//! calls, prompts, resources and completions pass. Progress, questions, subscriptions, logs
//! and changes of lists do not: each would be a method more on both sides.

use std::error::Error;

use rmcp::{
    ClientServiceExt, ErrorData, RoleClient, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, ClientConfig, CompleteRequestParams,
        CompleteResult, GetPromptRequestParams, GetPromptResponse, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
    },
    service::{ClientLifecycleMode, Peer, RequestContext, ServiceError},
    transport::{StreamableHttpClientTransport, TokioChildProcess, stdio},
};
use tokio::process::Command;

struct Proxy {
    server: Peer<RoleClient>,
}

fn failed(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        other => ErrorData::internal_error(other.to_string(), None),
    }
}

impl ServerHandler for Proxy {
    fn get_info(&self) -> ServerConfig {
        let server = self.server.peer_info();
        ServerConfig::new(server.map(|it| it.capabilities.clone()).unwrap_or_default())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.server.complete(request).await.map_err(failed)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.server.get_prompt_once(request).await.map_err(failed)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.server.list_prompts(request).await.map_err(failed)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.server.list_resources(request).await.map_err(failed)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.server.list_resource_templates(request).await.map_err(failed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.server.read_resource_once(request).await.map_err(failed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.server.call_tool_once(request).await.map_err(failed)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.server.list_tools(request).await.map_err(failed)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let first = words.next().ok_or("usage: proxy URL|COMMAND...")?;
    let mode = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    let client = ClientConfig::default();
    let mut client = if first.starts_with("http") {
        let transport = StreamableHttpClientTransport::from_uri(first);
        client.serve_with_lifecycle(transport, mode).await?
    } else {
        let mut command = Command::new(first);
        command.args(words);
        client.serve_with_lifecycle(TokioChildProcess::new(command)?, mode).await?
    };
    let proxy = Proxy { server: client.peer().clone() };
    proxy.serve(stdio()).await?.waiting().await?;
    client.close().await?;
    Ok(())
}
