//! A client: connects to a URL or a command, whatever era it speaks, lists its
//! tools, and calls one.

use std::error::Error;

use rmcp::{
    ClientHandler, ClientServiceExt, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, ClientConfig, ClientRequest, JsonObject,
        ProgressNotificationParam, ProtocolVersion, ServerResult,
    },
    service::{ClientLifecycleMode, NotificationContext, PeerRequestOptions},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use tokio::process::Command;

struct Caller;

impl ClientHandler for Caller {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::default()
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        println!("at {}", params.progress);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(target), Some(tool)) = (args.next(), args.next()) else {
        return Err("usage: call URL|COMMAND TOOL [ARGUMENTS]".into());
    };
    let arguments: JsonObject = serde_json::from_str(args.next().as_deref().unwrap_or("{}"))?;

    let mode = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    let mut client = if target.starts_with("http") {
        let transport = StreamableHttpClientTransport::from_uri(target);
        Caller.serve_with_lifecycle(transport, mode).await?
    } else {
        let mut words = target.split_whitespace();
        let mut command = Command::new(words.next().ok_or("no command")?);
        command.args(words);
        Caller.serve_with_lifecycle(TokioChildProcess::new(command)?, mode).await?
    };
    let server = client.peer_info().ok_or("no answer to the opening")?;
    println!("speaks {}", server.protocol_version);
    for tool in client.list_all_tools().await? {
        println!("has \"{}\"", tool.name);
    }
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let calling = client.send_cancellable_request(request, PeerRequestOptions::no_options());
    let ServerResult::CallToolResult(result) = calling.await?.await_response().await? else {
        return Err("the answer is no result of a tool".into());
    };
    println!("{}", serde_json::to_string(&result.content)?);
    client.close().await?;
    Ok(())
}
