//! Pieces of content: what tools, prompts and resources are made of.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value, json};

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
