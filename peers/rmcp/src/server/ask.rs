//! `ask`: a request to the client in the legacy era, `input_required` in the modern one.

use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, CreateMessageRequest, CreateMessageRequestParams,
        ElicitRequest, ElicitRequestParams, InputRequest, InputRequests, InputRequiredResult,
        ListRootsRequest, SamplingMessage, Tool, ToolChoice,
    },
    service::{RequestContext, RoleServer},
};
use serde_json::{Value, json};

use super::{
    fixture::is_modern,
    tools::{plain, unsent},
};

/// The only key of the questions and of their answers.
const KEY: &str = "answer";

pub(crate) async fn ask(
    kind: &str,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let answers = request.input_responses.as_ref();
    if let Some(answer) = answers.and_then(|answers| answers.get(KEY)) {
        return Ok(plain(answer.to_string()));
    }
    let question = question(kind)?;
    if is_modern(context) {
        let questions = InputRequests::from([(KEY.to_owned(), question)]);
        return Ok(InputRequiredResult::new(Some(questions), Some(kind.to_owned())).into());
    }
    Ok(plain(put(question, context).await?.to_string()))
}

fn question(kind: &str) -> Result<InputRequest, ErrorData> {
    match kind {
        "form" => Ok(InputRequest::Elicitation(ElicitRequest::new(form()?))),
        "sampling" => {
            let message = SamplingMessage::user_text("Say something");
            let params = CreateMessageRequestParams::new(vec![message], 100);
            Ok(InputRequest::CreateMessage(CreateMessageRequest::new(params)))
        }
        "url" => Ok(InputRequest::Elicitation(ElicitRequest::new(
            ElicitRequestParams::UrlElicitationParams {
                meta: None,
                message: "Please sign in.".to_owned(),
                url: "https://peer.test/sign-in?a=1&b=%20".to_owned(),
                elicitation_id: "visit-1".to_owned(),
            },
        ))),
        "tools" => {
            let message = SamplingMessage::user_text("How is the weather?");
            let schema =
                json!({ "type": "object", "properties": { "city": { "type": "string" } } });
            let schema = schema.as_object().cloned().unwrap_or_default();
            let mut params = CreateMessageRequestParams::new(vec![message], 100);
            params.tools = Some(vec![Tool::new("weather", "The weather", schema)]);
            params.tool_choice = Some(ToolChoice::required());
            Ok(InputRequest::CreateMessage(CreateMessageRequest::new(params)))
        }
        "roots" => Ok(InputRequest::ListRoots(ListRootsRequest::default())),
        _ => Err(ErrorData::invalid_params("unknown kind", None)),
    }
}

fn form() -> Result<ElicitRequestParams, ErrorData> {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string" } },
        "required": ["name"],
    });
    let requested_schema = serde_json::from_value(schema)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "What is your name?".to_owned(),
        requested_schema,
    })
}

/// Puts the question as a request of our own and returns its result.
async fn put(
    question: InputRequest,
    context: &RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    let peer = &context.peer;
    let answer = match question {
        InputRequest::Elicitation(form) => {
            peer.create_elicitation(form.params).await.map(serde_json::to_value)
        }
        InputRequest::CreateMessage(sampling) => {
            peer.create_message(sampling.params).await.map(serde_json::to_value)
        }
        _ => peer.list_roots().await.map(serde_json::to_value),
    };
    answer
        .map_err(|error| unsent(&error))?
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
