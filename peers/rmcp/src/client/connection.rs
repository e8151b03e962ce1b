//! One connection in the era asked for, and the calls that the checks share.

use std::time::Duration;

use rmcp::{
    ClientServiceExt,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, JsonObject,
        ProtocolVersion, RequestMetaObject,
    },
    service::{
        ClientLifecycleMode, Peer, PeerRequestOptions, RequestHandle, RoleClient, RunningService,
    },
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::Value;
use tokio::{process::Command, sync::broadcast};

use super::{
    Options,
    answers::{Answers, Note},
};
use crate::era::{Era, Failure, NO_SSE, Transport};

/// How long a server on stdio may take to end after its input did.
const CLOSING_TIME: Duration = Duration::from_secs(5);

pub(crate) struct Connection {
    service: RunningService<RoleClient, Answers>,
    pub(crate) era: Era,
}

impl Connection {
    pub(crate) async fn open(options: &Options) -> Result<Self, Failure> {
        let mode = match options.era {
            Era::Legacy => ClientLifecycleMode::Initialize,
            Era::Modern => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
            Era::Both => return Err("a client speaks one era: legacy or modern".into()),
        };
        let answers = Answers::new();
        let service = match options.transport {
            Transport::Stdio => {
                let (program, arguments) =
                    options.command.split_first().ok_or("stdio needs a command after --")?;
                let mut command = Command::new(program);
                command.args(arguments);
                let child = TokioChildProcess::new(command)?;
                answers.serve_with_lifecycle(child, mode).await?
            }
            Transport::Http => {
                let url = options.url.clone().ok_or("http needs --url")?;
                let http = StreamableHttpClientTransport::from_uri(url);
                answers.serve_with_lifecycle(http, mode).await?
            }
            Transport::Sse => return Err(NO_SSE.into()),
        };
        let connection = Self { service, era: options.era };
        connection.check_era()?;
        Ok(connection)
    }

    fn check_era(&self) -> Result<(), Failure> {
        let server = self.peer().peer_info().ok_or("no answer to the opening")?;
        let version = &server.protocol_version;
        if self.era.versions().contains(version) {
            return Ok(());
        }
        Err(format!("the server chose {version}, which is of the other era").into())
    }

    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Notes from now on, save those that belong to a listen.
    pub(crate) fn notes(&self) -> broadcast::Receiver<Note> {
        self.service.service().notes()
    }

    /// Calls a tool, answers its questions, and returns the one text of the result.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<String, Failure> {
        let result = self.service.call_tool(params(tool, arguments)).await?;
        only_text(&result)
    }

    /// Starts a call and leaves it to the caller to wait for it or to cancel it.
    pub(crate) async fn start(
        &self,
        tool: &str,
        arguments: Value,
        meta: RequestMetaObject,
    ) -> Result<RequestHandle<RoleClient>, Failure> {
        let call = CallToolRequest::new(params(tool, arguments));
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let request = ClientRequest::CallToolRequest(call);
        Ok(self.peer().send_cancellable_request(request, options).await?)
    }

    pub(crate) async fn close(mut self) {
        // The checks are done; a server that will not end is killed by the transport.
        let _ = self.service.close_with_timeout(CLOSING_TIME).await;
    }
}

pub(crate) fn params(tool: &str, arguments: Value) -> CallToolRequestParams {
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        _ => JsonObject::new(),
    };
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}

/// The text of a result that is one text item and no error.
pub(crate) fn only_text(result: &CallToolResult) -> Result<String, Failure> {
    if result.is_error == Some(true) {
        return Err(format!("the tool failed: {:?}", result.content).into());
    }
    match result.content.as_slice() {
        [only] => match only.as_text() {
            Some(text) => Ok(text.text.clone()),
            None => Err("the result is not text".into()),
        },
        items => Err(format!("the result has {} items, not one", items.len()).into()),
    }
}
