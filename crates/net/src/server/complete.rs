//! Completion: what an argument of a prompt or a template could be.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::catalog::Catalog;
use super::context::Context;
use super::error::Error;
use super::handler::{Job, Request};

/// Values in one answer; the specification allows no more.
const MOST: usize = 100;

/// What is to be completed.
#[derive(Clone, Debug, PartialEq)]
pub struct Completing {
    /// Whose argument it is.
    pub of: Subject,
    /// The argument.
    pub argument: String,
    /// What was typed so far.
    pub value: String,
    /// Arguments that are settled.
    pub settled: BTreeMap<String, String>,
}

/// Whose argument is to be completed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Subject {
    /// A prompt, by its name.
    Prompt(String),
    /// A resource template, by its text.
    Template(String),
}

pub(super) type Completion =
    dyn Fn(Completing, Context) -> Job<Result<Vec<String>, Error>> + Send + Sync;

impl Completing {
    pub(super) fn read(call: &Request) -> Result<Self, Error> {
        let params = call.value()?;
        let text = |path: &str| {
            let text = params.pointer(path).and_then(Value::as_str).map(str::to_owned);
            text.ok_or_else(|| Error::invalid_params(format!("params{path} must be a string")))
        };
        let of = match params["ref"]["type"].as_str() {
            Some("ref/prompt") => Subject::Prompt(text("/ref/name")?),
            Some("ref/resource") => Subject::Template(text("/ref/uri")?),
            _ => return Err(Error::invalid_params("params/ref/type is none we know")),
        };
        let settled = params["context"]["arguments"].clone();
        let settled = serde_json::from_value(settled).unwrap_or_default();
        Ok(Self { of, argument: text("/argument/name")?, value: text("/argument/value")?, settled })
    }
}

impl Subject {
    /// What is on no shelf of ours has no arguments either; where there is no
    /// shelf, a raw handler may have such things.
    pub(super) fn check(&self, catalog: &Catalog) -> Result<(), Error> {
        let (is_known, what) = match self {
            Self::Prompt(name) => {
                let prompts = &catalog.prompts;
                (!prompts.offered || prompts.get(name).is_some(), format!("prompt: {name}"))
            }
            Self::Template(uri) => {
                let (templates, resources) = (&catalog.templates, &catalog.resources);
                let is_listed = templates.get(uri).is_some() || resources.get(uri).is_some();
                let fits = || templates.iter().any(|template| template.matches(uri).is_some());
                (!templates.offered || is_listed || fits(), format!("template: {uri}"))
            }
        };
        if is_known { Ok(()) } else { Err(Error::invalid_params(format!("Unknown {what}"))) }
    }
}

pub(super) fn to_bytes(mut values: Vec<String>) -> Bytes {
    let total = values.len();
    values.truncate(MOST);
    let more = total > values.len();
    json!({"completion": {"values": values, "total": total, "hasMore": more}}).to_string().into()
}
