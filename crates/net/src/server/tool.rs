//! Tools: what is listed of them, how their arguments are checked, what they do, what they
//! answer with, and the content that results and prompts are made of.

use std::marker::PhantomData;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use switchboard_proto::exchange::HeaderParams;
use switchboard_proto::header::param::{self, Annotation};
use switchboard_proto::json;
use switchboard_proto::jsonrpc::Part;
use switchboard_proto::method::meta;
use switchboard_proto::project;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::types::{CallToolResult, ContentBlock};

use super::catalog::{self, BuildError, Code, ListedEntry, describe};
use super::context::Context;
use super::handler::{BoxedFuture, Error};
use super::schema::SchemaCheck;
#[cfg(feature = "schema")]
use super::schema::schema_of;
use super::server_tasks::TaskSupport;

/// A tool that is complete: it has a name, a schema, and something to do.
///
/// [`Tool::new`] begins one, the methods of [`ToolDraft`] describe it, and
/// [`ToolDraft::run`] completes it with an async function of the arguments and the
/// [`Context`]. What that may return is an [`IntoToolResult`].
///
/// ```
/// use switchboard_net::server::{Tool, ToolResult};
/// use serde_json::{Value, json};
///
/// let shout = Tool::new("shout")
///     .description("Says it louder")
///     .input_schema(&json!({
///         "type": "object",
///         "properties": {"text": {"type": "string"}},
///         "required": ["text"],
///     }))
///     .run(async |args: Value, _| match args["text"].as_str() {
///         Some("") => ToolResult::error("there is nothing to say"),
///         text => ToolResult::text(text.unwrap_or_default().to_uppercase()),
///     });
/// assert_eq!(shout.name(), "shout");
/// ```
#[derive(Debug)]
pub struct Tool {
    pub(super) listing: Arc<ListedEntry>,
    pub(super) draft: ToolDraft<()>,
    /// An error if the tool cannot be offered.
    checks: Result<ToolChecks, BuildError>,
    /// What it does; the result is not checked yet.
    pub(super) run: Code<Run>,
}

type Run = dyn Fn(Value, Context) -> BoxedFuture<Result<ToolResult, Error>> + Send + Sync;

/// What is made of the schemas once, to be used at every call.
#[derive(Debug)]
struct ToolChecks {
    input: SchemaCheck,
    annotations: Vec<Annotation>,
    output: Option<SchemaCheck>,
    /// Legacy clients know the output schema inside another.
    is_wrapped: bool,
}

/// A tool that lacks its function; `A` is what its arguments become.
#[derive(Debug)]
#[must_use]
pub struct ToolDraft<A> {
    name: String,
    members: Map<String, Value>,
    /// Schemas as their author wrote them.
    input: String,
    output: Option<String>,
    pub(super) support: TaskSupport,
    /// The tool itself says when it goes on as a task.
    pub(super) defers: bool,
    pub(super) examples: Vec<Value>,
    arguments: PhantomData<fn() -> A>,
}

impl Tool {
    /// Begins a tool without arguments.
    #[expect(clippy::new_ret_no_self, reason = "a tool is not one before it can do something")]
    pub fn new(name: impl Into<String>) -> ToolDraft<Value> {
        ToolDraft {
            name: name.into(),
            members: Map::new(),
            input: json!({"type": "object", "properties": {}}).to_string(),
            output: None,
            support: TaskSupport::default(),
            defers: false,
            examples: Vec::new(),
            arguments: PhantomData,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.listing.key
    }

    /// Whether the headers of a modern request repeat its arguments (HDR-11).
    pub(super) fn check_headers(
        &self,
        arguments: &Value,
        said: &HeaderParams,
    ) -> Result<(), Error> {
        let checks = self.checks.as_ref().ok().filter(|checks| !checks.annotations.is_empty());
        let (Some(checks), Some(said)) = (checks, said) else { return Ok(()) };
        let said: HeaderMap = said.iter().cloned().collect();
        param::check(&checks.annotations, Some(arguments), &said)
            .map_err(|mismatch| Refusal::HeaderMismatch { what: mismatch.to_string() }.into())
    }

    /// What is wrong with the arguments, if anything.
    pub(super) fn complaint(&self, arguments: &Value) -> Option<String> {
        self.checks.as_ref().ok()?.input.complaints(arguments)
    }

    /// Whether legacy clients know its output schema inside another.
    pub(super) fn is_wrapped(&self) -> bool {
        self.checks.as_ref().is_ok_and(|checks| checks.is_wrapped)
    }

    /// A result that is as the output schema says. One that is not is a fault of this server:
    /// the log says which, and the client gets an error instead of what it
    /// could not rely on. A failure of the tool promises nothing.
    pub(super) fn check_output(&self, result: ToolResult) -> Result<ToolResult, Error> {
        let output = self.checks.as_ref().ok().and_then(|checks| checks.output.as_ref());
        let Some(check) = output.filter(|_| !result.is_error && result.created.is_none()) else {
            return Ok(result);
        };
        let why = match &result.structured {
            None => Some("there is no structured content".to_owned()),
            // Without the values: a log is read by others than the client.
            Some(value) => check.masked_complaint(value),
        };
        let Some(why) = why else { return Ok(result) };
        let tool = self.name();
        tracing::error!(tool, "a result does not fit the tool's output schema: {why}");
        Err(Error::internal(format!(
            "tool {tool:?} made a result that does not fit its output schema"
        )))
    }
}

describe!(ToolDraft<A>);

impl<A> ToolDraft<A> {
    /// Hints about behaviour (`readOnlyHint`, `destructiveHint`, ...).
    pub fn annotations(self, hints: Value) -> Self {
        self.member("annotations", hints)
    }

    /// What kind of tool it is, in `_meta`.
    pub fn nature(self, nature: Nature) -> Self {
        let members = json!(nature);
        let members = members.as_object().into_iter().flatten();
        members.fold(self, |draft, (key, value)| draft.meta(key, value.clone()))
    }

    /// An example of arguments, for the manifest.
    pub fn example(mut self, description: &str, arguments: &Value) -> Self {
        self.examples.push(json!({"description": description, "arguments": arguments}));
        self
    }

    /// Whether a call may, or must, go on as a task.
    pub fn tasks(mut self, support: TaskSupport) -> Self {
        self.support = support;
        self
    }

    /// The same, but the tool begins as a call and says itself when it goes on
    /// as a task, with [`Context::defer`].
    pub fn defers(self, support: TaskSupport) -> Self {
        Self { defers: true, ..self.tasks(support) }
    }

    /// The arguments are a `T`: their schema is made from the type. What the schema says beyond
    /// the type, a range for example, is checked only with the feature `validate`.
    #[cfg(feature = "schema")]
    pub fn input<T: JsonSchema + DeserializeOwned>(self) -> ToolDraft<T> {
        self.with_input(schema_of::<T>())
    }

    /// The arguments are described by a schema of your own, of any keywords. They are checked
    /// only with the feature `validate`.
    pub fn input_schema(self, schema: &Value) -> ToolDraft<Value> {
        self.with_input(schema.to_string())
    }

    /// The same as text, which is listed byte for byte.
    pub fn input_schema_text(self, schema: &str) -> ToolDraft<Value> {
        self.with_input(schema.to_owned())
    }

    fn with_input<T>(self, input: String) -> ToolDraft<T> {
        let Self { name, members, output, support, defers, examples, .. } = self;
        let arguments = PhantomData;
        ToolDraft { name, members, input, output, support, defers, examples, arguments }
    }

    /// The structured content of results is a `T`. One that is not is an
    /// internal error and a line in the log, and is not sent.
    #[cfg(feature = "schema")]
    pub fn output<T: JsonSchema>(mut self) -> Self {
        self.output = Some(schema_of::<T>());
        self
    }

    /// The structured content of results is described by a schema of your own. It is checked
    /// only with the feature `validate`.
    pub fn output_schema(mut self, schema: &Value) -> Self {
        self.output = Some(schema.to_string());
        self
    }

    /// What the tool does. Arguments that do not fit the schema never get here, with the feature
    /// `validate`; without it, all arguments that serde can read as `A` do.
    ///
    /// An `async` closure will do as long as it borrows nothing it has captured;
    /// else clone what you need into an `async move` block.
    pub fn run<F, W, R>(self, function: F) -> Tool
    where
        A: DeserializeOwned,
        F: Fn(A, Context) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
        R: IntoToolResult,
    {
        let run = Box::new(move |arguments, cx| -> BoxedFuture<_> {
            let work = serde_json::from_value(arguments).map(|arguments| function(arguments, cx));
            Box::pin(async move {
                match work {
                    Ok(work) => work.await.into_tool_result(),
                    Err(error) => Ok(ToolResult::error(format!("invalid arguments: {error}"))),
                }
            })
        });
        let checks = self.checks();
        let flaw = checks.as_ref().err().cloned();
        // Schemas stand in the list as they were written.
        let mut text = format!("{{\"name\":{}", json!(self.name));
        for (name, value) in &self.members {
            text.extend([",", &json!(name).to_string(), ":", &value.to_string()]);
        }
        text.extend([",\"inputSchema\":", &self.input]);
        if let Some(output) = &self.output {
            text.extend([",\"outputSchema\":", output]);
        }
        let core_tasks = match self.support {
            TaskSupport::Forbidden => String::new(),
            support => format!(",\"execution\":{{\"taskSupport\":{}}}", json!(support)),
        };
        let listing = ListedEntry { key: self.name.clone(), text, core_tasks, flaw };
        let draft = self.with_input(String::new());
        Tool { listing: Arc::new(listing), draft, checks, run: Code(run) }
    }

    fn checks(&self) -> Result<ToolChecks, BuildError> {
        let parse = |text: &str| -> Result<Value, String> {
            serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))
        };
        let wrong = |why| BuildError::Schema { tool: self.name.clone(), why };
        let schema = parse(&self.input).map_err(wrong)?;
        if schema["type"] != "object" {
            return Err(wrong("the schema of arguments must have \"type\": \"object\"".to_owned()));
        }
        let input = SchemaCheck::new(&schema).map_err(wrong)?;
        let annotations = param::annotations(&schema).map_err(|error| wrong(error.to_string()))?;
        let output = self.output.as_ref().map(|text| SchemaCheck::new(&parse(text)?)).transpose();
        let output =
            output.map_err(|why| BuildError::OutputSchema { tool: self.name.clone(), why })?;
        let is_wrapped = self.output.as_ref().is_some_and(|it| project::wraps(it.as_bytes()));
        catalog::check_meta(&self.members)?;
        Ok(ToolChecks { input, annotations, output, is_wrapped })
    }
}

/// The result of a tool: content for models, structure for programs.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct ToolResult {
    pub(super) content: Vec<Content>,
    pub(super) structured: Option<Value>,
    pub(super) is_error: bool,
    pub(super) meta: Map<String, Value>,
    /// The call goes on as a task: this is what is said about it.
    pub(super) created: Option<Value>,
}

impl ToolResult {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().with(Content::text(text))
    }

    /// The tool failed, in words that help the model to do better (ERR-3).
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// A value for programs; for models its JSON, unless you add content of your own.
    ///
    /// A value that cannot be written as JSON makes a failure of the result.
    pub fn structured(value: impl Serialize) -> Self {
        Self::new().with_structured(value)
    }

    /// The same with one block more.
    pub fn with(mut self, content: impl Into<Content>) -> Self {
        self.content.push(content.into());
        self
    }

    /// The same with a value for programs.
    pub fn with_structured(self, value: impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => Self { structured: Some(value), ..self },
            Err(error) => Self::error(format!("the result is no JSON: {error}")),
        }
    }

    /// The same with a member of `_meta`.
    pub fn with_meta(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(key.to_owned(), value.into());
        self
    }

    /// Whether the tool failed.
    pub fn is_error(&self) -> bool {
        self.is_error
    }

    /// Whether the call goes on as a task, so that there is no more to see here.
    pub fn is_task(&self) -> bool {
        self.created.is_some()
    }

    /// What it says to models. If there is nothing, they get the JSON of the structured content.
    pub fn content(&self) -> &[Content] {
        &self.content
    }

    /// What it says to programs.
    pub fn structured_content(&self) -> Option<&Value> {
        self.structured.as_ref()
    }

    /// What is said about it.
    pub fn meta(&self) -> &Map<String, Value> {
        &self.meta
    }

    /// As it stands on the wire.
    pub(super) fn to_text(&self) -> Bytes {
        let mut text = Vec::new();
        if let Some(created) = &self.created {
            json::write(created, &mut text);
            return text.into();
        }
        text.extend_from_slice(b"{\"content\":[");
        match &self.structured {
            Some(value) if self.content.is_empty() => {
                Content::text(value.to_string()).write(&mut text);
            }
            _ => {
                for (number, content) in self.content.iter().enumerate() {
                    text.extend_from_slice(if number == 0 { b"" } else { b"," });
                    content.write(&mut text);
                }
            }
        }
        text.push(b']');
        if let Some(value) = &self.structured {
            text.extend_from_slice(b",\"structuredContent\":");
            json::write(value, &mut text);
        }
        if self.is_error {
            text.extend_from_slice(b",\"isError\":true");
        }
        if !self.meta.is_empty() {
            text.extend_from_slice(b",\"_meta\":");
            json::write_object(&self.meta, &mut text);
        }
        text.push(b'}');
        text.into()
    }
}

/// As it stands on the wire.
impl Serialize for ToolResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = Part::new(&self.to_text()).value();
        value.ok_or_else(|| S::Error::custom("the result is no JSON"))?.serialize(serializer)
    }
}

impl<T: Into<Content>> From<T> for ToolResult {
    fn from(content: T) -> Self {
        Self::new().with(content)
    }
}

impl From<Vec<Content>> for ToolResult {
    fn from(content: Vec<Content>) -> Self {
        Self { content, ..Self::default() }
    }
}

/// What a tool may return: a result, anything that becomes one, or an [`Error`].
pub trait IntoToolResult {
    /// The result, or why there is none.
    fn into_tool_result(self) -> Result<ToolResult, Error>;
}

impl<T: Into<ToolResult>> IntoToolResult for T {
    fn into_tool_result(self) -> Result<ToolResult, Error> {
        Ok(self.into())
    }
}

impl<T: Into<ToolResult>> IntoToolResult for Result<T, Error> {
    fn into_tool_result(self) -> Result<ToolResult, Error> {
        self.map(Into::into)
    }
}

/// A tool's result with `structuredContent.success`.
///
/// A failure of the business is a result; only a wrong call is an
/// [`Error`].
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct ToolOutcome(ToolResult);

impl ToolOutcome {
    /// It worked.
    pub fn success(summary: impl Into<String>) -> Self {
        Self(ToolResult { structured: Some(json!({"success": true})), ..ToolResult::text(summary) })
    }

    /// It did not; `code` begins with `E_`.
    pub fn failure(code: &str, message: impl Into<String>) -> Self {
        let code = if code.starts_with("E_") { code.to_owned() } else { format!("E_{code}") };
        let message = message.into();
        let error = json!({"success": false, "error": {"code": code, "message": message}});
        Self(ToolResult { structured: Some(error), ..ToolResult::error(message) })
    }

    /// The same with another member of the structured content. What says whether it
    /// worked, and why not, stays.
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        let is_fixed = member == "success" || self.0.is_error && member == "error";
        if let Some(structured) = self.0.structured.as_mut().filter(|_| !is_fixed) {
            structured[member] = value.into();
        }
        self
    }
}

impl From<ToolOutcome> for ToolResult {
    fn from(outcome: ToolOutcome) -> Self {
        outcome.0
    }
}

/// What kind of tool it is: listed in `_meta`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nature {
    /// Which layer of the product it belongs to: `core`, `advanced`, ...
    pub layer: &'static str,
    /// What it is about.
    pub category: &'static str,
    /// What it may do: `read`, `write`, `destructive`, ...
    pub safety: &'static str,
    /// Whether calling it again changes nothing.
    pub idempotent: bool,
    /// Whether it can show what it would do.
    pub supports_dry_run: bool,
}

impl Nature {
    /// Tools that tell about the server itself.
    pub(super) const DIAGNOSTIC: Self = Self {
        layer: "core",
        category: "diagnostics",
        safety: "read",
        idempotent: true,
        supports_dry_run: false,
    };
}

/// One block of a tool's result or of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
#[must_use]
pub struct Content {
    block: Block,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Block {
    /// Most are this, and are written as they are.
    Text(TextBlock),
    Any(Value),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "text")]
struct TextBlock {
    text: String,
}

impl Content {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { block: Block::Text(TextBlock { text: text.into() }) }
    }

    /// The words, if it is words. Its JSON tells what else it is.
    pub fn as_text(&self) -> Option<&str> {
        match &self.block {
            Block::Text(block) => Some(&block.text),
            Block::Any(block) if block["type"] == "text" => block["text"].as_str(),
            Block::Any(_) => None,
        }
    }

    fn any(block: Value) -> Self {
        Self { block: Block::Any(block) }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match &self.block {
            Block::Text(block) => {
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                json::write_string(&block.text, out);
                out.push(b'}');
            }
            Block::Any(block) => json::write(block, out),
        }
    }

    /// A picture.
    pub fn image(bytes: impl AsRef<[u8]>, mime: &str) -> Self {
        Self::encoded("image", bytes.as_ref(), mime)
    }

    /// A sound. Clients of the first revision do not know it.
    pub fn audio(bytes: impl AsRef<[u8]>, mime: &str) -> Self {
        Self::encoded("audio", bytes.as_ref(), mime)
    }

    fn encoded(kind: &str, bytes: &[u8], mime: &str) -> Self {
        Self::any(json!({"type": kind, "data": STANDARD.encode(bytes), "mimeType": mime}))
    }

    /// The contents of a resource, in place.
    pub fn resource(contents: &Contents) -> Self {
        Self::any(json!({"type": "resource", "resource": contents.item}))
    }

    /// A resource to read if need be.
    pub fn link(uri: &str, name: &str) -> Self {
        Self::any(json!({"type": "resource_link", "uri": uri, "name": name}))
    }

    /// The same with another member: `annotations`, `_meta`, `description`, ...
    pub fn with(self, member: &str, value: impl Into<Value>) -> Self {
        let mut block = json!(self);
        block[member] = value.into();
        Self::any(block)
    }

    /// A block as it stands on the wire.
    pub fn raw(block: Map<String, Value>) -> Self {
        Self::any(Value::Object(block))
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// A block that came from elsewhere: a client's model, or another server.
impl From<ContentBlock> for Content {
    fn from(block: ContentBlock) -> Self {
        match block {
            ContentBlock::Other(block) => Self::any(block),
            block => Self::any(json!(block)),
        }
    }
}

/// A result that came from another server. Members that no revision has are left out, and so
/// is what its `_meta` says about that server and its task.
impl From<CallToolResult> for ToolResult {
    fn from(result: CallToolResult) -> Self {
        let is_error = result.failed();
        let mut said = result.meta.unwrap_or_default();
        said.retain(|key, _| ![meta::SERVER, meta::RELATED_TASK].contains(&key.as_str()));
        Self {
            is_error,
            content: result.content.into_iter().map(Into::into).collect(),
            structured: result.structured_content,
            meta: said,
            created: None,
        }
    }
}

/// What is in a resource: text or bytes under a URI.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
#[must_use]
pub struct Contents {
    item: Value,
}

impl Contents {
    /// Text.
    pub fn text(uri: &str, mime: &str, text: impl Into<String>) -> Self {
        Self { item: json!({"uri": uri, "mimeType": mime, "text": text.into()}) }
    }

    /// Bytes.
    pub fn blob(uri: &str, mime: &str, bytes: impl AsRef<[u8]>) -> Self {
        let blob = STANDARD.encode(bytes);
        Self { item: json!({"uri": uri, "mimeType": mime, "blob": blob}) }
    }

    /// The same with another member, `_meta` for example.
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.item[member] = value.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_a_tool_worked_and_why_not_cannot_be_overwritten() {
        let failed = ToolOutcome::failure("X", "why").with("success", true).with("error", "none");
        let failed = ToolResult::from(failed.with("more", 1));
        let error = json!({"code": "E_X", "message": "why"});
        let expected = json!({"success": false, "error": error, "more": 1});
        assert_eq!(failed.structured, Some(expected));
        let worked = ToolResult::from(ToolOutcome::success("done").with("success", false));
        assert_eq!(worked.structured, Some(json!({"success": true})));
    }

    #[test]
    fn a_result_of_another_server_does_not_say_who_that_was() {
        let said = json!({
            "io.modelcontextprotocol/serverInfo": {"name": "other", "version": "1"},
            "io.modelcontextprotocol/related-task": {"taskId": "theirs"},
            "a/b": 1,
        });
        let result = CallToolResult::new([]).meta(said.as_object().unwrap().clone());
        assert_eq!(Value::Object(ToolResult::from(result).meta), json!({"a/b": 1}));
    }
}
