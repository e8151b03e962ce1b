//! Prompts, resources, roots, and the completion of their arguments.

use std::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::member::write_other;
use super::{
    Annotations, CacheScope, ContentBlock, Icon, Items, JsonObject, ResourceContents, Role, object,
};

object! {
    /// A page of the list of prompts.
    pub struct ListPromptsResult {
        /// The prompts.
        pub prompts: Items<ListedPrompt>,
        optional {
            /// Where the next page begins; none on the last.
            pub next_cursor: String,
            /// How long it may be kept, in milliseconds (modern).
            pub ttl_ms: i64,
            /// Who may keep it (modern).
            pub cache_scope: CacheScope,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A prompt, as its server lists it.
    pub struct ListedPrompt {
        /// What it is got by.
        pub name: String,
        optional {
            /// A name for people.
            pub title: String,
            /// What it is for.
            pub description: String,
            /// What it takes.
            pub arguments: Vec<PromptArgument>,
            /// Pictures for it.
            pub icons: Vec<Icon>,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// An argument of a prompt; its value is a string.
    pub struct PromptArgument {
        /// Its name.
        pub name: String,
        optional {
            /// A name for people.
            pub title: String,
            /// What it is for.
            pub description: String,
            /// Whether it must be given.
            pub required: bool,
        }
    }
}

object! {
    /// A wish for a prompt.
    pub struct GetPromptParams {
        /// The name of the prompt.
        pub name: String,
        optional {
            /// Its arguments.
            pub arguments: BTreeMap<String, String>,
            /// Answers to what the server asked, by the keys of its questions (modern).
            pub input_responses: BTreeMap<String, Value>,
            /// What the server gave with its questions (modern).
            pub request_state: String,
            /// What is said about the request.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A filled-in prompt.
    pub struct GetPromptResult {
        /// What is to be said to a model.
        pub messages: Vec<PromptMessage>,
        optional {
            /// What it is for.
            pub description: String,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// One message of a prompt.
    pub struct PromptMessage {
        /// Who says it.
        pub role: Role,
        /// What is said.
        pub content: ContentBlock,
    }
}

object! {
    /// A page of the list of resources.
    pub struct ListResourcesResult {
        /// The resources.
        pub resources: Items<ListedResource>,
        optional {
            /// Where the next page begins; none on the last.
            pub next_cursor: String,
            /// How long it may be kept, in milliseconds (modern).
            pub ttl_ms: i64,
            /// Who may keep it (modern).
            pub cache_scope: CacheScope,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A resource, as its server lists it.
    pub struct ListedResource {
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
    /// A page of the list of templates.
    pub struct ListTemplatesResult {
        /// The templates.
        pub resource_templates: Items<ListedTemplate>,
        optional {
            /// Where the next page begins; none on the last.
            pub next_cursor: String,
            /// How long it may be kept, in milliseconds (modern).
            pub ttl_ms: i64,
            /// Who may keep it (modern).
            pub cache_scope: CacheScope,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A pattern of resources, as its server lists it.
    pub struct ListedTemplate {
        /// A URI with variables in braces (RFC 6570).
        pub uri_template: String,
        /// What it is called.
        pub name: String,
        optional {
            /// A name for people.
            pub title: String,
            /// What its resources are.
            pub description: String,
            /// The media type of them all.
            pub mime_type: String,
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
    /// A wish to read a resource; also to be told when it changes, or no more (legacy).
    pub struct ReadResourceParams {
        /// The resource.
        pub uri: String,
        optional {
            /// Answers to what the server asked, by the keys of its questions (modern).
            pub input_responses: BTreeMap<String, Value>,
            /// What the server gave with its questions (modern).
            pub request_state: String,
            /// What is said about the request.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A resource that was read.
    pub struct ReadResourceResult {
        /// What is in it, or in what lies beneath it.
        pub contents: Vec<ResourceContents>,
        optional {
            /// How long it may be kept, in milliseconds (modern).
            pub ttl_ms: i64,
            /// Who may keep it (modern).
            pub cache_scope: CacheScope,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// The question what an argument could be.
    pub struct CompleteParams {
        /// Whose argument it is.
        #[serde(rename = "ref")]
        pub of: CompletionReference,
        /// The argument.
        pub argument: CompletedArgument,
        optional {
            /// What is filled in already; from 2025-06-18 on.
            pub context: CompletionContext,
            /// What is said about the request.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

/// Whose argument is to be completed.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum CompletionReference {
    /// A prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// Its name.
        name: String,
        /// Members that are not named here.
        #[serde(flatten)]
        other: JsonObject,
    },
    /// A template of resources.
    #[serde(rename = "ref/resource")]
    Template {
        /// The template.
        uri: String,
        /// Members that are not named here.
        #[serde(flatten)]
        other: JsonObject,
    },
    /// Something that this library does not know.
    #[serde(untagged)]
    Other(Value),
}

impl Serialize for CompletionReference {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (kind, member, value, other) = match self {
            Self::Prompt { name, other } => ("ref/prompt", "name", name, other),
            Self::Template { uri, other } => ("ref/resource", "uri", uri, other),
            Self::Other(reference) => return reference.serialize(to),
        };
        let mut object = to.serialize_map(None)?;
        object.serialize_entry("type", kind)?;
        object.serialize_entry(member, value)?;
        write_other(&mut object, other, |name| name == "type" || name == member)?;
        object.end()
    }
}

impl CompletionReference {
    /// A prompt, by its name.
    pub fn prompt(name: impl Into<String>) -> Self {
        Self::Prompt { name: name.into(), other: JsonObject::new() }
    }

    /// A template, by its text.
    pub fn template(uri: impl Into<String>) -> Self {
        Self::Template { uri: uri.into(), other: JsonObject::new() }
    }
}

object! {
    /// An argument that is to be completed.
    pub struct CompletedArgument {
        /// Its name.
        pub name: String,
        /// What was typed so far.
        pub value: String,
    }
}

object! {
    /// What is known when an argument is completed.
    pub struct CompletionContext {
        optional {
            /// Arguments that are filled in already.
            pub arguments: BTreeMap<String, String>,
        }
    }
}

object! {
    /// What an argument could be.
    pub struct CompleteResult {
        /// The proposals.
        pub completion: CompletionValues,
        optional {
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// Proposals for an argument.
    pub struct CompletionValues {
        /// The first of them, at most 100.
        pub values: Vec<String>,
        optional {
            /// How many there are.
            pub total: i64,
            /// Whether there are more than these.
            pub has_more: bool,
        }
    }
}

object! {
    /// Where a client works.
    pub struct ListRootsResult {
        /// The folders, or whatever else it works in.
        pub roots: Items<Root>,
        optional {
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A place where a client works.
    pub struct Root {
        /// Its URI: `file:///project`.
        pub uri: String,
        optional {
            /// A name for people.
            pub name: String,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}
