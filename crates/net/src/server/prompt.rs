//! Prompts: messages that a person picks by name.

use std::collections::BTreeMap;
use std::future::Future;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use switchboard_proto::jsonrpc::Member;

use super::catalog::{CatalogEntry, Code, Listing, describe};
use super::context::Context;
use super::handler::{BoxedFuture, Error, Request};
use super::tool_result::Content;

/// Arguments of a prompt, by name. They are always strings.
pub type PromptArguments = BTreeMap<String, String>;

type Fill =
    dyn Fn(PromptArguments, Context) -> BoxedFuture<Result<PromptResult, Error>> + Send + Sync;

/// A prompt that is complete.
#[derive(Debug)]
pub struct Prompt {
    listing: Listing,
    required: Vec<String>,
    fill: Code<Fill>,
}

/// A prompt that lacks its function.
#[derive(Debug)]
pub struct PromptDraft {
    members: Map<String, Value>,
    arguments: Vec<Value>,
}

impl Prompt {
    /// Begins a prompt.
    #[expect(clippy::new_ret_no_self, reason = "a prompt is not one before it can be filled in")]
    pub fn new(name: impl Into<String>) -> PromptDraft {
        PromptDraft { members: Map::new(), arguments: Vec::new() }.member("name", name.into())
    }

    /// Fills it in for a call.
    pub(super) async fn get(&self, call: &Request, cx: Context) -> Result<Bytes, Error> {
        let arguments = read_arguments(call)?;
        let missing = self.required.iter().find(|name| !arguments.contains_key(*name));
        if let Some(name) = missing {
            return Err(Error::invalid_params(format!("argument {name:?} is missing")));
        }
        (self.fill.0)(arguments, cx).await.map(|result| json!(result).to_string().into())
    }
}

/// The arguments of a call, which are strings all (ERR-3).
fn read_arguments(call: &Request) -> Result<PromptArguments, Error> {
    let Some(arguments) = call.message.part(Member::Arguments) else {
        return Ok(PromptArguments::new());
    };
    let arguments: Map<String, Value> = arguments
        .read()
        .map_err(|_| Error::invalid_params("params.arguments must be an object"))?;
    let strings = arguments.into_iter().map(|(name, value)| match value {
        Value::String(value) => Ok((name, value)),
        _ => Err(Error::invalid_params(format!("argument {name:?} must be a string"))),
    });
    strings.collect()
}

describe!(PromptDraft);

impl PromptDraft {
    /// An argument it takes.
    #[must_use]
    pub fn argument(mut self, name: &str, description: &str, required: bool) -> Self {
        let entry = json!({"name": name, "description": description, "required": required});
        self.arguments.push(entry);
        self
    }

    /// How it is filled in. Required arguments are there.
    pub fn run<F, W>(mut self, function: F) -> Prompt
    where
        F: Fn(PromptArguments, Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<PromptResult, Error>> + Send + 'static,
    {
        let required = self.arguments.iter().filter(|argument| argument["required"] == true);
        let required = required.filter_map(|argument| argument["name"].as_str());
        let required = required.map(str::to_owned).collect();
        let name = self.members["name"].as_str().unwrap_or_default().to_owned();
        if !self.arguments.is_empty() {
            self.members.insert("arguments".to_owned(), self.arguments.into());
        }
        let fill: Box<Fill> = Box::new(move |arguments, cx| Box::pin(function(arguments, cx)));
        Prompt { listing: Listing::new(name, self.members), required, fill: Code(fill) }
    }
}

/// A filled-in prompt.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PromptResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    messages: Vec<Value>,
}

impl PromptResult {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with a description.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// The same with something the user says.
    #[must_use]
    pub fn user(self, content: impl Into<Content>) -> Self {
        self.message("user", &content.into())
    }

    /// The same with something the model says.
    #[must_use]
    pub fn assistant(self, content: impl Into<Content>) -> Self {
        self.message("assistant", &content.into())
    }

    fn message(mut self, role: &str, content: &Content) -> Self {
        self.messages.push(json!({"role": role, "content": content}));
        self
    }
}

impl CatalogEntry for Prompt {
    fn listing(&self) -> &Listing {
        &self.listing
    }
}
