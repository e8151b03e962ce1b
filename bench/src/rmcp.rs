//! The least server and the least proxy that can be written with the official Rust SDK.

use std::sync::Arc;

use axum::serve::ListenerExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{Peer, RequestContext, RoleClient, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{
    StreamableHttpClientTransport, StreamableHttpServerConfig, StreamableHttpService,
    TokioChildProcess,
};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::Failure;

struct Proxy {
    upstream: Peer<RoleClient>,
}

impl ServerHandler for Proxy {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("rmcp-proxy", "1"))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.upstream.list_tools(request).await.map_err(lost)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.upstream.call_tool(request).await.map(Into::into).map_err(lost)
    }
}

fn lost(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("rmcp-server", "1"))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.as_mut().and_then(|arguments| arguments.remove("text"));
        let Some(Value::String(text)) = text else {
            return Err(ErrorData::invalid_params("no text", None));
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// Serves the echo: with sessions and events, which is the default of the SDK, or with `json`
/// without sessions, each answer as JSON.
pub async fn serve_echo(json: bool) -> Result<(), Failure> {
    let config = StreamableHttpServerConfig::default();
    serve(|| Echo, config.with_legacy_session_mode(!json).with_json_response(json)).await
}

/// Serves the server at `url`, or of `command`.
pub async fn serve_proxy(url: Option<String>, command: Vec<String>) -> Result<(), Failure> {
    let running = match (url, command.split_first()) {
        (Some(url), _) => ().serve(StreamableHttpClientTransport::from_uri(url)).await?,
        (None, Some((program, arguments))) => {
            let mut child = Command::new(program);
            child.args(arguments);
            ().serve(TokioChildProcess::new(child)?).await?
        }
        (None, None) => return Err("a URL or a command is needed".into()),
    };
    let upstream = running.peer().clone();
    let proxy = move || Proxy { upstream: upstream.clone() };
    serve(proxy, StreamableHttpServerConfig::default()).await
}

/// Serves on a free port of 127.0.0.1, with `TCP_NODELAY`: the examples of the SDK do without,
/// and then each answer waits 40 ms for the client's acknowledgement.
async fn serve<H: ServerHandler>(
    handler: impl Fn() -> H + Send + Sync + 'static,
    config: StreamableHttpServerConfig,
) -> Result<(), Failure> {
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(handler()), sessions, config);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    eprintln!("listening http://{}/mcp", listener.local_addr()?);
    let listener = listener.tap_io(move |socket| _ = socket.set_nodelay(true));
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await?;
    Ok(())
}
