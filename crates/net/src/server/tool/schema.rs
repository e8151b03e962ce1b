//! Schemas: as they are listed, and as arguments are checked against them.

use jsonschema::Validator;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Complaints about one set of arguments. More would not help anybody.
const MOST_COMPLAINTS: usize = 8;

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

    pub(in crate::server) fn validator(&self) -> Result<Validator, String> {
        let value = self.value()?;
        if value["type"] != "object" {
            return Err("the schema of arguments must have \"type\": \"object\"".to_owned());
        }
        jsonschema::validator_for(&value).map_err(|error| error.to_string())
    }
}

/// Which members are wrong, and why; none if all are right.
pub(in crate::server) fn complaints(validator: &Validator, arguments: &Value) -> Option<String> {
    let mut errors = validator.iter_errors(arguments).take(MOST_COMPLAINTS).map(|error| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "arguments".to_owned() } else { place };
        format!("{place}: {error}")
    });
    let first = errors.next()?;
    Some(errors.fold(first, |all, next| format!("{all}; {next}")))
}
