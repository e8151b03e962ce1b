//! What a tool answers with, and the content that results and prompts are made of.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::handler::Error;

/// The result of a tool: content for models, structure for programs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResult {
    pub(super) content: Vec<Content>,
    pub(super) structured: Option<Value>,
    pub(super) is_error: bool,
    pub(super) meta: Map<String, Value>,
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
    pub(super) fn is_task(&self) -> bool {
        self.created.is_some()
    }

    pub(super) fn created(task: Value) -> Self {
        Self { created: Some(Box::new(task)), ..Self::default() }
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        self.to_json().to_string().into()
    }

    pub(super) fn to_json(&self) -> Value {
        if let Some(created) = &self.created {
            return Value::clone(created);
        }
        let mut result = json!({"content": self.content});
        if let Some(value) = &self.structured {
            result["structuredContent"] = value.clone();
            if self.content.is_empty() {
                result["content"] = json!([Content::text(value.to_string())]);
            }
        }
        if self.is_error {
            result["isError"] = true.into();
        }
        if !self.meta.is_empty() {
            result["_meta"] = json!(self.meta);
        }
        result
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
pub struct ToolOutcome {
    summary: String,
    members: Map<String, Value>,
    failure: Option<String>,
}

impl ToolOutcome {
    /// It worked.
    pub fn success(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), members: Map::new(), failure: None }
    }

    /// It did not; `code` begins with `E_`.
    pub fn failure(code: &str, message: impl Into<String>) -> Self {
        let code = if code.starts_with("E_") { code.to_owned() } else { format!("E_{code}") };
        Self { summary: message.into(), members: Map::new(), failure: Some(code) }
    }

    /// The same with another member of the structured content.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.members.insert(member.to_owned(), value.into());
        self
    }
}

impl From<ToolOutcome> for ToolResult {
    fn from(outcome: ToolOutcome) -> Self {
        let mut members = outcome.members;
        members.insert("success".to_owned(), outcome.failure.is_none().into());
        if let Some(code) = &outcome.failure {
            let error = json!({"code": code, "message": outcome.summary});
            members.insert("error".to_owned(), error);
        }
        let mut result = Self::text(outcome.summary).with_structured(members);
        result.is_error = outcome.failure.is_some();
        result
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
pub struct Content {
    block: Value,
}

impl Content {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { block: json!({"type": "text", "text": text.into()}) }
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
        Self { block: json!({"type": kind, "data": STANDARD.encode(bytes), "mimeType": mime}) }
    }

    /// The contents of a resource, in place.
    pub fn resource(contents: &Contents) -> Self {
        Self { block: json!({"type": "resource", "resource": contents.item}) }
    }

    /// A resource to read if need be.
    pub fn link(uri: &str, name: &str) -> Self {
        Self { block: json!({"type": "resource_link", "uri": uri, "name": name}) }
    }

    /// The same with another member: `annotations`, `_meta`, `description`, ...
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.block[member] = value.into();
        self
    }

    /// A block as it stands on the wire.
    pub fn raw(block: Map<String, Value>) -> Self {
        Self { block: Value::Object(block) }
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
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.item[member] = value.into();
        self
    }
}
