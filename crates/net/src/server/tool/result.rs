//! What a tool answers with.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::server::content::Content;
use crate::server::error::Error;

/// The result of a tool: content for models, structure for programs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResult {
    pub(in crate::server) content: Vec<Content>,
    pub(in crate::server) structured: Option<Value>,
    pub(in crate::server) is_error: bool,
    pub(in crate::server) meta: Map<String, Value>,
    /// The call goes on as a task: this is what is said about it.
    created: Option<Box<Value>>,
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
    #[must_use]
    pub fn with(mut self, content: impl Into<Content>) -> Self {
        self.content.push(content.into());
        self
    }

    /// The same with a value for programs.
    #[must_use]
    pub fn with_structured(mut self, value: impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => self.structured = Some(value),
            Err(error) => return Self::error(format!("the result is no JSON: {error}")),
        }
        self
    }

    /// The same with a member of `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(key.to_owned(), value.into());
        self
    }

    /// Whether the tool failed.
    pub fn is_error(&self) -> bool {
        self.is_error
    }

    /// Whether the result comes later, by a task.
    pub(in crate::server) fn is_task(&self) -> bool {
        self.created.is_some()
    }

    pub(in crate::server) fn created(task: Value) -> Self {
        Self { created: Some(Box::new(task)), ..Self::default() }
    }

    pub(in crate::server) fn to_bytes(&self) -> Bytes {
        self.to_json().to_string().into()
    }

    pub(in crate::server) fn to_json(&self) -> Value {
        if let Some(created) = &self.created {
            return Value::clone(created);
        }
        let mut result = Map::new();
        let mut content = json!(self.content);
        if let (Some(value), true) = (&self.structured, self.content.is_empty()) {
            content = json!([Content::text(value.to_string())]);
        }
        result.insert("content".to_owned(), content);
        if let Some(value) = &self.structured {
            result.insert("structuredContent".to_owned(), value.clone());
        }
        if self.is_error {
            result.insert("isError".to_owned(), true.into());
        }
        if !self.meta.is_empty() {
            result.insert("_meta".to_owned(), self.meta.clone().into());
        }
        Value::Object(result)
    }
}

impl From<&str> for ToolResult {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for ToolResult {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<Content> for ToolResult {
    fn from(content: Content) -> Self {
        Self::new().with(content)
    }
}

impl From<Vec<Content>> for ToolResult {
    fn from(content: Vec<Content>) -> Self {
        Self { content, ..Self::default() }
    }
}

/// What a tool may return: a result, anything that becomes one, or an [`Error`].
pub trait Answer {
    /// The result, or why there is none.
    fn into_answer(self) -> Result<ToolResult, Error>;
}

impl<T: Into<ToolResult>> Answer for Result<T, Error> {
    fn into_answer(self) -> Result<ToolResult, Error> {
        self.map(Into::into)
    }
}

macro_rules! answers {
    ($($kind:ty),*) => {$(
        impl Answer for $kind {
            fn into_answer(self) -> Result<ToolResult, Error> {
                Ok(self.into())
            }
        }
    )*};
}

answers!(ToolResult, &str, String, Content, Vec<Content>, crate::server::tool_outcome::ToolOutcome);
