//! A client that lets a person answer the server's questions, on the terminal and in both eras.

use std::error::Error;

use rmcp::{
    ClientHandler, ClientServiceExt, ErrorData, RoleClient,
    model::{
        CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
        ElicitationAction, ElicitationCapability, FormElicitationCapability, Implementation,
        JsonObject, ProtocolVersion,
    },
    service::{ClientLifecycleMode, RequestContext},
    transport::StreamableHttpClientTransport,
};

struct Person;

/// Shows a form, and reads a line for each of its fields.
fn fill_in(form: &ElicitRequestParams) -> Result<ElicitResult, std::io::Error> {
    let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = form else {
        return Ok(ElicitResult::new(ElicitationAction::Decline));
    };
    println!("{message}");
    let mut content = JsonObject::new();
    for name in requested_schema.properties.keys() {
        println!("{name}:");
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line)? == 0 {
            return Ok(ElicitResult::new(ElicitationAction::Cancel));
        }
        content.insert(name.clone(), line.trim().into());
    }
    Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content.into()))
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let form = FormElicitationCapability::default();
        let capabilities = ClientCapabilities::builder()
            .enable_elicitation_with(ElicitationCapability::new().with_form(form))
            .build();
        ClientConfig::new(capabilities, Implementation::new("answer", env!("CARGO_PKG_VERSION")))
    }

    async fn create_elicitation(
        &self,
        form: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let failed = |error: &dyn Error| ErrorData::internal_error(error.to_string(), None);
        let filled_in = tokio::task::spawn_blocking(move || fill_in(&form)).await;
        filled_in.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(tool)) = (args.next(), args.next()) else {
        return Err("usage: answer URL TOOL".into());
    };
    let mode = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    let transport = StreamableHttpClientTransport::from_uri(url);
    let mut client = Person.serve_with_lifecycle(transport, mode).await?;
    let result = client.call_tool(CallToolRequestParams::new(tool)).await?;
    println!("{}", serde_json::to_string(&result.content)?);
    client.close().await?;
    Ok(())
}
