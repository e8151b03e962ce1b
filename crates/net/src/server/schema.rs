//! JSON Schema: made from types, and checks of values. Without the feature `validate` each value
//! passes, and only serde says whether it is an argument.

#[cfg(feature = "validate")]
use jsonschema::Validator;
#[cfg(feature = "schema")]
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// Complaints about one value. More would not help anybody.
#[cfg(feature = "validate")]
const MOST_COMPLAINTS: usize = 8;

/// Bytes of one complaint, which may quote the value that it is about.
#[cfg(feature = "validate")]
const LONGEST_COMPLAINT: usize = 512;

/// A schema, ready to check values.
#[derive(Debug)]
pub(super) struct SchemaCheck {
    #[cfg(feature = "validate")]
    validator: Validator,
}

/// The schema of a type, JSON Schema 2020-12, self-contained.
#[cfg(feature = "schema")]
pub(super) fn schema_of<T: JsonSchema>() -> String {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    schema.as_value().to_string()
}

#[cfg(feature = "validate")]
impl SchemaCheck {
    /// Makes it ready, or says what is wrong with it.
    pub(super) fn new(schema: &Value) -> Result<Self, String> {
        let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
        Ok(Self { validator })
    }

    /// Which members are wrong, and why; none if all are right.
    pub(super) fn complaints(&self, value: &Value) -> Option<String> {
        let mut errors = self.validator.iter_errors(value).take(MOST_COMPLAINTS).map(|error| {
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

    /// The first thing that is wrong with structured content, without its values.
    pub(super) fn masked_complaint(&self, value: &Value) -> Option<String> {
        let error = self.validator.iter_errors(value).next()?;
        Some(format!("structuredContent{}: {}", error.instance_path(), error.masked()))
    }
}

#[cfg(not(feature = "validate"))]
#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "stands in for the checks")]
impl SchemaCheck {
    pub(super) fn new(_: &Value) -> Result<Self, String> {
        Ok(Self {})
    }

    pub(super) fn complaints(&self, _: &Value) -> Option<String> {
        None
    }

    pub(super) fn masked_complaint(&self, _: &Value) -> Option<String> {
        None
    }
}
