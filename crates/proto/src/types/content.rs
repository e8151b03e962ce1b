//! Content: the blocks that results, prompts and messages of models are made of.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::member::write_typed;
use super::{Annotations, Icon, JsonObject, Unfit, object};

/// One block of content.
///
/// Tool results and prompts have the first five kinds. Messages of models have text, pictures,
/// sound, and the last two.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentBlock {
    /// Words.
    Text(TextContent),
    /// A picture.
    Image(ImageContent),
    /// A sound; from 2025-03-26 on.
    Audio(AudioContent),
    /// A resource to read if need be; from 2025-06-18 on.
    ResourceLink(ResourceLink),
    /// The contents of a resource, in place.
    Resource(EmbeddedResource),
    /// A model wants a tool to be called; from 2025-11-25 on.
    ToolUse(ToolUseContent),
    /// What came of such a call.
    ToolResult(ToolResultContent),
    /// A kind that this library does not know, or a block that lacks what its kind has.
    #[serde(untagged)]
    Other(Value),
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(block) => write_typed(to, "text", block),
            Self::Image(block) => write_typed(to, "image", block),
            Self::Audio(block) => write_typed(to, "audio", block),
            Self::ResourceLink(block) => write_typed(to, "resource_link", block),
            Self::Resource(block) => write_typed(to, "resource", block),
            Self::ToolUse(block) => write_typed(to, "tool_use", block),
            Self::ToolResult(block) => write_typed(to, "tool_result", block),
            Self::Other(block) => block.serialize(to),
        }
    }
}

impl ContentBlock {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// A picture.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::new(STANDARD.encode(bytes), mime_type))
    }

    /// A sound.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Audio(AudioContent::new(STANDARD.encode(bytes), mime_type))
    }

    /// The words, if it is words.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }
}

impl From<&str> for ContentBlock {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for ContentBlock {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

object! {
    /// Words.
    pub struct TextContent {
        /// The words.
        pub text: String,
        optional {
            /// What a client may make of it.
            pub annotations: Annotations,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A picture.
    pub struct ImageContent {
        /// Its bytes, in Base64; [`bytes`](Self::bytes) decodes them.
        pub data: String,
        /// Its media type.
        pub mime_type: String,
        optional {
            /// What a client may make of it.
            pub annotations: Annotations,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

impl ImageContent {
    /// Its bytes.
    pub fn bytes(&self) -> Result<Vec<u8>, Unfit> {
        decode::<Self>(&self.data)
    }
}

object! {
    /// A sound.
    pub struct AudioContent {
        /// Its bytes, in Base64; [`bytes`](Self::bytes) decodes them.
        pub data: String,
        /// Its media type.
        pub mime_type: String,
        optional {
            /// What a client may make of it.
            pub annotations: Annotations,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

impl AudioContent {
    /// Its bytes.
    pub fn bytes(&self) -> Result<Vec<u8>, Unfit> {
        decode::<Self>(&self.data)
    }
}

fn decode<T>(text: &str) -> Result<Vec<u8>, Unfit> {
    STANDARD.decode(text).map_err(|why| Unfit::new::<T>(&text.into(), why))
}

object! {
    /// A resource to read if need be.
    pub struct ResourceLink {
        /// What it is read by.
        pub uri: String,
        /// What it is called.
        pub name: String,
        optional {
            /// A name for people.
            pub title: String,
            /// What it is.
            pub description: String,
            /// Its media type.
            pub mime_type: String,
            /// Its size in bytes.
            pub size: i64,
            /// Pictures for it.
            pub icons: Vec<Icon>,
            /// What a client may make of it.
            pub annotations: Annotations,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// The contents of a resource, in place.
    pub struct EmbeddedResource {
        /// The contents.
        pub resource: ResourceContents,
        optional {
            /// What a client may make of it.
            pub annotations: Annotations,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

/// What is in a resource.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ResourceContents {
    /// Text.
    Text(TextResource),
    /// Bytes.
    Blob(BlobResource),
    /// Something that this library does not know.
    Other(Value),
}

object! {
    /// A resource that is text.
    pub struct TextResource {
        /// What it was read by, or something beneath that.
        pub uri: String,
        /// The text.
        pub text: String,
        optional {
            /// Its media type.
            pub mime_type: String,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A resource that is bytes.
    pub struct BlobResource {
        /// What it was read by, or something beneath that.
        pub uri: String,
        /// The bytes, in Base64; [`bytes`](Self::bytes) decodes them.
        pub blob: String,
        optional {
            /// Its media type.
            pub mime_type: String,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

impl BlobResource {
    /// Its bytes.
    pub fn bytes(&self) -> Result<Vec<u8>, Unfit> {
        decode::<Self>(&self.blob)
    }
}

object! {
    /// A model wants a tool to be called.
    pub struct ToolUseContent {
        /// What the result refers to.
        pub id: String,
        /// The name of the tool.
        pub name: String,
        /// The arguments.
        pub input: JsonObject,
        optional {
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// What came of a call that a model wanted.
    pub struct ToolResultContent {
        /// The [`id`](ToolUseContent::id) of the call.
        pub tool_use_id: String,
        /// What it gave.
        pub content: Vec<ContentBlock>,
        optional {
            /// The same for programs.
            pub structured_content: Value,
            /// Whether it failed.
            pub is_error: bool,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}
