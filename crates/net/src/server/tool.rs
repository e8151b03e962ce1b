//! Tools: what is listed of them, how their arguments are checked, what they do, what they
//! answer with, and the content that results and prompts are made of.

use std::marker::PhantomData;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use jsonschema::Validator;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use switchboard_proto::exchange::HeaderParams;
use switchboard_proto::header::param::{self, Annotation};
use switchboard_proto::project;
use switchboard_proto::refusal::Refusal;

use super::catalog::{self, BuildError, Code, ListedEntry, describe};
use super::context::Context;
use super::handler::{BoxedFuture, Error, RawResult};
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
    input: Validator,
    annotations: Vec<Annotation>,
    output: Option<Validator>,
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
        complaints(&self.checks.as_ref().ok()?.input, arguments)
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
        let Some(validator) = output.filter(|_| !result.is_error && result.created.is_none())
        else {
            return Ok(result);
        };
        let why = match &result.structured {
            None => Some("there is no structured content".to_owned()),
            // Without the values: a log is read by others than the client.
            Some(value) => validator.iter_errors(value).next().map(|error| {
                format!("structuredContent{}: {}", error.instance_path(), error.masked())
            }),
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

    /// The arguments are a `T`: their schema is made from the type.
    pub fn input<T: JsonSchema + DeserializeOwned>(self) -> ToolDraft<T> {
        self.with_input(schema_of::<T>())
    }

    /// The arguments are described by a schema of your own, of any keywords.
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
    pub fn output<T: JsonSchema>(mut self) -> Self {
        self.output = Some(schema_of::<T>());
        self
    }

    /// The structured content of results is described by a schema of your own.
    pub fn output_schema(mut self, schema: &Value) -> Self {
        self.output = Some(schema.to_string());
        self
    }

    /// What the tool does. Arguments that do not fit the schema never get here.
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
        let compile =
            |schema: &Value| jsonschema::validator_for(schema).map_err(|error| error.to_string());
        let wrong = |why| BuildError::Schema { tool: self.name.clone(), why };
        let schema = parse(&self.input).map_err(wrong)?;
        if schema["type"] != "object" {
            return Err(wrong("the schema of arguments must have \"type\": \"object\"".to_owned()));
        }
        let input = compile(&schema).map_err(wrong)?;
        let annotations = param::annotations(&schema).map_err(|error| wrong(error.to_string()))?;
        let output = self.output.as_ref().map(|text| compile(&parse(text)?)).transpose();
        let output =
            output.map_err(|why| BuildError::OutputSchema { tool: self.name.clone(), why })?;
        let is_wrapped = self.output.as_ref().is_some_and(|it| project::wraps(it.as_bytes()));
        catalog::check_meta(&self.members)?;
        Ok(ToolChecks { input, annotations, output, is_wrapped })
    }
}

/// Complaints about one set of arguments. More would not help anybody.
const MOST_COMPLAINTS: usize = 8;

/// Bytes of one complaint, which may quote the value that it is about.
const LONGEST_COMPLAINT: usize = 512;

/// The schema of a type, JSON Schema 2020-12, self-contained.
fn schema_of<T: JsonSchema>() -> String {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    schema.as_value().to_string()
}

/// Which members are wrong, and why; none if all are right.
pub(super) fn complaints(validator: &Validator, arguments: &Value) -> Option<String> {
    let mut errors = validator.iter_errors(arguments).take(MOST_COMPLAINTS).map(|error| {
        let mut complaint = match error.instance_path().as_str() {
            "" => error.to_string(),
            place => format!("{place}: {error}"),
        };
        if complaint.len() > LONGEST_COMPLAINT {
            complaint.truncate(complaint.floor_char_boundary(LONGEST_COMPLAINT));
            complaint.push_str("...");
        }
        complaint
    });
    let first = errors.next()?;
    Some(errors.fold(first, |all, next| format!("{all}; {next}")))
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

    /// As it stands on the wire.
    pub(super) fn to_text(&self) -> RawResult {
        let text = serde_json::to_vec(self);
        text.map(Into::into).map_err(|error| Error::internal(error.to_string()))
    }
}

/// As it stands on the wire.
impl Serialize for ToolResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(created) = &self.created {
            return created.serialize(serializer);
        }
        let mut members = serializer.serialize_map(None)?;
        match &self.structured {
            Some(value) if self.content.is_empty() => {
                members.serialize_entry("content", &[Content::text(value.to_string())])?;
            }
            _ => members.serialize_entry("content", &self.content)?,
        }
        if let Some(value) = &self.structured {
            members.serialize_entry("structuredContent", value)?;
        }
        if self.is_error {
            members.serialize_entry("isError", &true)?;
        }
        if !self.meta.is_empty() {
            members.serialize_entry("_meta", &self.meta)?;
        }
        members.end()
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

    fn any(block: Value) -> Self {
        Self { block: Block::Any(block) }
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
}
