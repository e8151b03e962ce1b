//! Tools: how they are listed, called, and answer.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CacheScope, ContentBlock, Icon, Items, JsonObject, TaskWish, Unfit, object, read};

object! {
    /// The parameters of every list.
    pub struct ListParams {
        optional {
            /// Where the page begins; [`ListToolsResult::next_cursor`] and its like have it.
            pub cursor: String,
            /// What is said about the request.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A page of the list of tools.
    pub struct ListToolsResult {
        /// The tools.
        pub tools: Items<ListedTool>,
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
    /// A tool, as its server lists it.
    pub struct ListedTool {
        /// What it is called by.
        pub name: String,
        /// The JSON Schema of its arguments.
        pub input_schema: JsonObject,
        optional {
            /// A name for people.
            pub title: String,
            /// What it does; models read this.
            pub description: String,
            /// The JSON Schema of its structured content; from 2025-06-18 on.
            pub output_schema: JsonObject,
            /// How it behaves, as its server says.
            pub annotations: ToolAnnotations,
            /// Pictures for it.
            pub icons: Vec<Icon>,
            /// How it is run; in 2025-11-25 alone.
            pub execution: ToolExecution,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

impl ListedTool {
    /// The name to show to people.
    pub fn label(&self) -> &str {
        let annotated = self.annotations.as_ref().and_then(|hints| hints.title.as_deref());
        self.title.as_deref().or(annotated).unwrap_or(&self.name)
    }
}

object! {
    /// How a tool behaves, as its server says; never to be trusted more than the server.
    pub struct ToolAnnotations {
        optional {
            /// A name for people.
            pub title: String,
            /// It changes nothing.
            pub read_only_hint: bool,
            /// What it changes may be lost.
            pub destructive_hint: bool,
            /// Calling it again with the same arguments changes nothing more.
            pub idempotent_hint: bool,
            /// It reaches things outside the server.
            pub open_world_hint: bool,
        }
    }
}

object! {
    /// How a tool is run.
    pub struct ToolExecution {
        optional {
            /// Whether a call may go on as a task.
            pub task_support: ToolTasks,
        }
    }
}

/// Whether calls of a tool may go on as tasks.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ToolTasks {
    /// Never.
    Forbidden,
    /// If the client wants it.
    Optional,
    /// Always.
    Required,
    /// A word that this library does not know.
    #[serde(untagged)]
    Other(String),
}

object! {
    /// A call of a tool.
    pub struct CallToolParams {
        /// The name of the tool.
        pub name: String,
        optional {
            /// The arguments.
            pub arguments: JsonObject,
            /// It is to go on as a task; in 2025-11-25 alone.
            pub task: TaskWish,
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
    /// What a tool answered.
    pub struct CallToolResult {
        /// For models. A result without it reads as one with nothing in it.
        #[serde(default)]
        pub content: Vec<ContentBlock>,
        optional {
            /// For programs: an object from 2025-06-18 on, anything from 2026-07-28 on.
            pub structured_content: Value,
            /// Whether the tool failed; [`failed`](Self::failed) tells.
            pub is_error: bool,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

impl CallToolResult {
    /// Whether the tool failed. Its content says why.
    pub fn failed(&self) -> bool {
        self.is_error == Some(true)
    }

    /// The words of all blocks that are words, a line each.
    pub fn text(&self) -> String {
        let words: Vec<_> = self.content.iter().filter_map(ContentBlock::as_text).collect();
        words.join("\n")
    }

    /// What it says to programs, as a type of yours: the structured content or, from a server
    /// that gives none, the JSON in its only block of text.
    ///
    /// ```
    /// use serde_json::json;
    /// use switchboard_proto::types::{self, CallToolResult};
    ///
    /// let old = json!({"content": [{"type": "text", "text": "[1, 2]"}]});
    /// let numbers: Vec<u8> = types::read::<CallToolResult>(&old)?.structured()?;
    /// assert_eq!(numbers, [1, 2]);
    /// # Ok::<_, types::Unfit>(())
    /// ```
    pub fn structured<T: DeserializeOwned>(&self) -> Result<T, Unfit> {
        if let Some(value) = &self.structured_content {
            return read(value);
        }
        let [ContentBlock::Text(block)] = &self.content[..] else {
            let found = serde_json::to_value(&self.content).unwrap_or_default();
            return Err(Unfit::new::<T>(&found, NotStructured));
        };
        let text = || Value::from(block.text.as_str());
        let value: Value =
            block.text.parse().map_err(|why: serde_json::Error| Unfit::new::<T>(&text(), why))?;
        read(&value)
    }
}

/// A result says nothing to programs.
#[derive(Debug, thiserror::Error)]
#[error("there is neither structured content nor a single block of text")]
struct NotStructured;
