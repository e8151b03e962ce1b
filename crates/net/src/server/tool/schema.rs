//! Schemas: as they are listed, and as arguments and results are checked against them.

use std::sync::Arc;

use jsonschema::Validator;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use switchboard_proto::project;

use super::result::ToolResult;
use crate::server::error::Error;

/// Complaints about one set of arguments. More would not help anybody.
const MOST_COMPLAINTS: usize = 8;

/// Bytes of one complaint, which may quote the value that it is about.
const LONGEST_COMPLAINT: usize = 512;

/// A schema as its author wrote it.
#[derive(Clone, Debug)]
pub(in crate::server) struct Schema {
    pub(in crate::server) text: String,
}

impl Schema {
    /// The schema of a type, JSON Schema 2020-12, self-contained.
    pub(in crate::server) fn of<T: JsonSchema>() -> Self {
        let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
        Self { text: schema.as_value().to_string() }
    }

    pub(in crate::server) fn value(&self) -> Result<Value, String> {
        serde_json::from_str(&self.text).map_err(|error| format!("no JSON: {error}"))
    }

    /// What arguments are checked with: they are always an object.
    pub(in crate::server) fn for_arguments(&self) -> Result<Validator, String> {
        if self.value()?["type"] != "object" {
            return Err("the schema of arguments must have \"type\": \"object\"".to_owned());
        }
        self.validator()
    }

    pub(in crate::server) fn validator(&self) -> Result<Validator, String> {
        jsonschema::validator_for(&self.value()?).map_err(|error| error.to_string())
    }
}

/// What a tool has promised of its results, if anything.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Promise {
    kept: Option<Arc<(String, Validator)>>,
    /// Legacy clients know the schema inside another.
    pub(in crate::server) is_wrapped: bool,
}

impl Promise {
    pub(in crate::server) fn of(tool: &str, output: Option<&Schema>) -> Result<Self, String> {
        let validator = output.map(Schema::validator).transpose()?;
        let kept = validator.map(|validator| Arc::new((tool.to_owned(), validator)));
        let is_wrapped = output.is_some_and(|schema| project::wraps(schema.text.as_bytes()));
        Ok(Self { kept, is_wrapped })
    }

    /// A result that is as promised. One that is not is a fault of this server:
    /// the log says which, and the client gets an error instead of what it
    /// could not rely on. A failure of the tool promises nothing.
    pub(in crate::server) fn check(&self, result: ToolResult) -> Result<ToolResult, Error> {
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
pub(in crate::server) fn complaints(validator: &Validator, arguments: &Value) -> Option<String> {
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
