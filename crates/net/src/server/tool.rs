//! Tools: what is listed of them, how their arguments are checked, what they do.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use http::HeaderMap;
use jsonschema::Validator;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use switchboard_proto::exchange::HeaderParams;
use switchboard_proto::header::param::{self, Annotation};
use switchboard_proto::project;
use switchboard_proto::refusal::Refusal;

use super::catalog::{self, BuildError, CatalogEntry, describe};
use super::context::Context;
use super::handler::{BoxedFuture, Error};
use super::server_tasks::TaskSupport;
use super::tool_result::{IntoToolResult, Nature, ToolResult};

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
pub struct Tool {
    name: String,
    /// Its entry in a list, up to the closing brace.
    listing: String,
    pub(super) support: TaskSupport,
    /// The tool itself says when it goes on as a task.
    pub(super) defers: bool,
    pub(super) examples: Vec<Value>,
    ready: Result<Ready, BuildError>,
    run: Box<Run>,
}

type Run = dyn Fn(Value, Context) -> BoxedFuture<Result<ToolResult, Error>> + Send + Sync;

/// What is made of the schema once, to be used at every call.
struct Ready {
    validator: Validator,
    annotations: Vec<Annotation>,
    output_check: OutputCheck,
}

/// A tool that lacks its function; `A` is what its arguments become.
pub struct ToolDraft<A> {
    name: String,
    members: Map<String, Value>,
    input: Schema,
    output: Option<Schema>,
    support: TaskSupport,
    defers: bool,
    examples: Vec<Value>,
    arguments: PhantomData<fn() -> A>,
}

impl Tool {
    /// Begins a tool without arguments.
    #[expect(clippy::new_ret_no_self, reason = "a tool is not one before it can do something")]
    pub fn new(name: impl Into<String>) -> ToolDraft<Value> {
        ToolDraft {
            name: name.into(),
            members: Map::new(),
            input: Schema { text: json!({"type": "object", "properties": {}}).to_string() },
            output: None,
            support: TaskSupport::default(),
            defers: false,
            examples: Vec::new(),
            arguments: PhantomData,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the headers of a modern request repeat its arguments (HDR-11).
    pub(super) fn check_headers(
        &self,
        arguments: &Value,
        said: &HeaderParams,
    ) -> Result<(), Error> {
        let (Ok(ready), Some(said)) = (&self.ready, said) else { return Ok(()) };
        if ready.annotations.is_empty() {
            return Ok(());
        }
        let said: HeaderMap = said.iter().cloned().collect();
        param::check(&ready.annotations, Some(arguments), &said)
            .map_err(|mismatch| Refusal::HeaderMismatch { what: mismatch.to_string() }.into())
    }

    /// What is wrong with the arguments, if anything.
    pub(super) fn complaint(&self, arguments: &Value) -> Option<String> {
        complaints(&self.ready.as_ref().ok()?.validator, arguments)
    }

    /// Whether legacy clients know its output schema inside another.
    pub(super) fn is_wrapped(&self) -> bool {
        self.ready.as_ref().is_ok_and(|ready| ready.output_check.is_wrapped)
    }

    /// Runs it; what comes of it is as the output schema says, or an error.
    pub(super) async fn run(&self, arguments: Value, cx: Context) -> Result<ToolResult, Error> {
        let output_check =
            self.ready.as_ref().map(|ready| ready.output_check.clone()).unwrap_or_default();
        let result = (self.run)(arguments, cx.with_output_check(output_check.clone())).await?;
        output_check.check(result)
    }
}

describe!(ToolDraft<A>);

impl<A> ToolDraft<A> {
    /// Hints about behaviour (`readOnlyHint`, `destructiveHint`, ...).
    #[must_use]
    pub fn annotations(self, hints: Value) -> Self {
        self.member("annotations", hints)
    }

    /// What kind of tool it is, in `_meta`.
    #[must_use]
    pub fn nature(self, nature: Nature) -> Self {
        nature.members().into_iter().fold(self, |draft, (key, value)| draft.meta(key, value))
    }

    /// An example of arguments, for the manifest.
    #[must_use]
    pub fn example(mut self, description: &str, arguments: &Value) -> Self {
        self.examples.push(json!({"description": description, "arguments": arguments}));
        self
    }

    /// Whether a call may, or must, go on as a task.
    #[must_use]
    pub fn tasks(mut self, support: TaskSupport) -> Self {
        self.support = support;
        self
    }

    /// The same, but the tool begins as a call and says itself when it goes on
    /// as a task, with [`Context::defer`].
    #[must_use]
    pub fn defers(self, support: TaskSupport) -> Self {
        Self { defers: true, ..self.tasks(support) }
    }

    /// The arguments are a `T`: their schema is made from the type.
    #[must_use]
    pub fn input<T: JsonSchema + DeserializeOwned>(self) -> ToolDraft<T> {
        self.with_input(Schema::of::<T>())
    }

    /// The arguments are described by a schema of your own, of any keywords.
    #[must_use]
    pub fn input_schema(self, schema: &Value) -> ToolDraft<Value> {
        self.with_input(Schema { text: schema.to_string() })
    }

    /// The same as text, which is listed byte for byte.
    #[must_use]
    pub fn input_schema_text(self, schema: &str) -> ToolDraft<Value> {
        self.with_input(Schema { text: schema.to_owned() })
    }

    fn with_input<T>(self, input: Schema) -> ToolDraft<T> {
        let Self { name, members, output, support, defers, examples, .. } = self;
        let arguments = PhantomData;
        ToolDraft { name, members, input, output, support, defers, examples, arguments }
    }

    /// The structured content of results is a `T`. One that is not is an
    /// internal error and a line in the log, and is not sent.
    #[must_use]
    pub fn output<T: JsonSchema>(mut self) -> Self {
        self.output = Some(Schema::of::<T>());
        self
    }

    /// The structured content of results is described by a schema of your own.
    #[must_use]
    pub fn output_schema(mut self, schema: &Value) -> Self {
        self.output = Some(Schema { text: schema.to_string() });
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
        let ready = self.ready();
        let run = move |arguments, cx| -> BoxedFuture<Result<ToolResult, Error>> {
            match serde_json::from_value::<A>(arguments) {
                Ok(arguments) => {
                    let work = function(arguments, cx);
                    Box::pin(async move { work.await.into_tool_result() })
                }
                Err(error) => {
                    let failed = ToolResult::error(format!("invalid arguments: {error}"));
                    Box::pin(std::future::ready(Ok(failed)))
                }
            }
        };
        let listing = self.listing();
        let Self { name, support, defers, examples, .. } = self;
        Tool { name, listing, support, defers, examples, ready, run: Box::new(run) }
    }

    fn ready(&self) -> Result<Ready, BuildError> {
        let input = |why| BuildError::Schema { tool: self.name.clone(), why };
        let output = |why| BuildError::OutputSchema { tool: self.name.clone(), why };
        let validator = self.input.for_arguments().map_err(input)?;
        let annotations = param::annotations(&self.input.value().map_err(input)?);
        let annotations = annotations.map_err(|error| input(error.to_string()))?;
        let output_check = OutputCheck::of(&self.name, self.output.as_ref()).map_err(output)?;
        if let Some(flaw) = catalog::meta_flaw(&self.members) {
            return Err(flaw);
        }
        Ok(Ready { validator, annotations, output_check })
    }

    /// The entry in a list: schemas stand there as they were written.
    fn listing(&self) -> String {
        let mut text = format!("{{\"name\":{}", Value::from(self.name.as_str()));
        for (name, value) in &self.members {
            text.extend([",", &Value::from(name.as_str()).to_string(), ":", &value.to_string()]);
        }
        text.push_str(",\"inputSchema\":");
        text.push_str(&self.input.text);
        if let Some(output) = &self.output {
            text.push_str(",\"outputSchema\":");
            text.push_str(&output.text);
        }
        text
    }
}

impl CatalogEntry for Tool {
    fn key(&self) -> &str {
        &self.name
    }

    fn flaw(&self) -> Option<BuildError> {
        self.ready.as_ref().err().cloned()
    }

    fn list(&self, core_tasks: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(self.listing.as_bytes());
        if core_tasks && self.support != TaskSupport::Forbidden {
            let support = self.support.as_str();
            out.extend_from_slice(
                format!(",\"execution\":{{\"taskSupport\":\"{support}\"}}").as_bytes(),
            );
        }
        out.push(b'}');
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<A> fmt::Debug for ToolDraft<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolDraft").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Complaints about one set of arguments. More would not help anybody.
const MOST_COMPLAINTS: usize = 8;

/// Bytes of one complaint, which may quote the value that it is about.
const LONGEST_COMPLAINT: usize = 512;

/// A schema as its author wrote it.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    pub(super) text: String,
}

impl Schema {
    /// The schema of a type, JSON Schema 2020-12, self-contained.
    pub(super) fn of<T: JsonSchema>() -> Self {
        let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
        Self { text: schema.as_value().to_string() }
    }

    pub(super) fn value(&self) -> Result<Value, String> {
        serde_json::from_str(&self.text).map_err(|error| format!("no JSON: {error}"))
    }

    /// What arguments are checked with: they are always an object.
    pub(super) fn for_arguments(&self) -> Result<Validator, String> {
        if self.value()?["type"] != "object" {
            return Err("the schema of arguments must have \"type\": \"object\"".to_owned());
        }
        self.validator()
    }

    pub(super) fn validator(&self) -> Result<Validator, String> {
        jsonschema::validator_for(&self.value()?).map_err(|error| error.to_string())
    }
}

/// What a tool has promised of its results, if anything.
#[derive(Clone, Debug, Default)]
pub(super) struct OutputCheck {
    kept: Option<Arc<(String, Validator)>>,
    /// Legacy clients know the schema inside another.
    pub(super) is_wrapped: bool,
}

impl OutputCheck {
    pub(super) fn of(tool: &str, output: Option<&Schema>) -> Result<Self, String> {
        let validator = output.map(Schema::validator).transpose()?;
        let kept = validator.map(|validator| Arc::new((tool.to_owned(), validator)));
        let is_wrapped = output.is_some_and(|schema| project::wraps(schema.text.as_bytes()));
        Ok(Self { kept, is_wrapped })
    }

    /// A result that is as promised. One that is not is a fault of this server:
    /// the log says which, and the client gets an error instead of what it
    /// could not rely on. A failure of the tool promises nothing.
    pub(super) fn check(&self, result: ToolResult) -> Result<ToolResult, Error> {
        let Some((tool, validator)) = self.kept.as_deref() else { return Ok(result) };
        if result.is_error() || result.is_task() {
            return Ok(result);
        }
        let why = match &result.structured {
            None => Some("there is no structured content".to_owned()),
            // Without the values: a log is read by others than the client.
            Some(value) => validator.iter_errors(value).next().map(|error| {
                format!("structuredContent{}: {}", error.instance_path(), error.masked())
            }),
        };
        let Some(why) = why else { return Ok(result) };
        tracing::error!(tool, "a result does not fit the tool's output schema: {why}");
        Err(Error::internal(format!(
            "tool {tool:?} made a result that does not fit its output schema"
        )))
    }
}

/// Which members are wrong, and why; none if all are right.
pub(super) fn complaints(validator: &Validator, arguments: &Value) -> Option<String> {
    let mut errors = validator.iter_errors(arguments).take(MOST_COMPLAINTS).map(|error| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
        let mut complaint = format!("{place}{error}");
        if complaint.len() > LONGEST_COMPLAINT {
            complaint.truncate(complaint.floor_char_boundary(LONGEST_COMPLAINT));
            complaint.push_str("...");
        }
        complaint
    });
    let first = errors.next()?;
    Some(errors.fold(first, |all, next| format!("{all}; {next}")))
}
