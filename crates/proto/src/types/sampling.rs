//! Sampling: a server asks the client's model.

use serde::{Deserialize, Serialize};

use super::{ContentBlock, JsonObject, ListedTool, Real, Role, TaskWish, object};

object! {
    /// A question to the client's model.
    ///
    /// ```
    /// use switchboard_proto::types::{SampleParams, SamplingMessage};
    ///
    /// let question = SamplingMessage::user("What is the capital of France?");
    /// let params = SampleParams::new([question], 50).system_prompt("One word.").temperature(0.2);
    /// assert_eq!(params.max_tokens, 50);
    /// ```
    pub struct SampleParams {
        /// The conversation so far.
        pub messages: Vec<SamplingMessage>,
        /// How much the model may say.
        pub max_tokens: i64,
        optional {
            /// Which model would do.
            pub model_preferences: ModelPreferences,
            /// What the model is told first.
            pub system_prompt: String,
            /// Whether the client adds what its servers have said (deprecated).
            pub include_context: IncludeContext,
            /// How freely the model may speak.
            pub temperature: Real,
            /// Words at which the model is to stop.
            pub stop_sequences: Vec<String>,
            /// For the provider of the model, in its own words.
            pub metadata: JsonObject,
            /// Tools that the model may call; from 2025-11-25 on.
            pub tools: Vec<ListedTool>,
            /// Whether the model must call them.
            pub tool_choice: ToolChoice,
            /// It is to go on as a task; in 2025-11-25 alone.
            pub task: TaskWish,
            /// What is said about the request.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// One message of a conversation with a model.
    pub struct SamplingMessage {
        /// Who says it.
        pub role: Role,
        /// What is said.
        pub content: SampleContent,
        optional {
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

impl SamplingMessage {
    /// The person says this.
    pub fn user(content: impl Into<SampleContent>) -> Self {
        Self::new(Role::User, content)
    }

    /// The model says this.
    pub fn assistant(content: impl Into<SampleContent>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

/// What a message of a model is made of: one block, or from 2025-11-25 on several.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum SampleContent {
    /// A list of blocks.
    Many(Vec<ContentBlock>),
    /// A single block.
    One(Box<ContentBlock>),
}

impl SampleContent {
    /// The blocks, however many there are.
    pub fn blocks(&self) -> &[ContentBlock] {
        match self {
            Self::Many(blocks) => blocks,
            Self::One(block) => std::slice::from_ref(&**block),
        }
    }

    /// The words of all blocks that are words, a line each.
    pub fn text(&self) -> String {
        let words: Vec<_> = self.blocks().iter().filter_map(ContentBlock::as_text).collect();
        words.join("\n")
    }
}

impl<T: Into<ContentBlock>> From<T> for SampleContent {
    fn from(block: T) -> Self {
        Self::One(Box::new(block.into()))
    }
}

impl From<Vec<ContentBlock>> for SampleContent {
    fn from(blocks: Vec<ContentBlock>) -> Self {
        Self::Many(blocks)
    }
}

object! {
    /// What the client's model answered.
    ///
    /// ```
    /// use switchboard_proto::types::{Role, SampleResult, StopReason};
    ///
    /// let answer = SampleResult::new(Role::Assistant, "Paris", "some-model-1");
    /// let answer = answer.stop_reason(StopReason::EndTurn);
    /// assert_eq!(answer.content.text(), "Paris");
    /// ```
    pub struct SampleResult {
        /// Who says it: the model.
        pub role: Role,
        /// What it says.
        pub content: SampleContent,
        /// Which model it is.
        pub model: String,
        optional {
            /// Why it stopped there.
            pub stop_reason: StopReason,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

/// Why a model stopped.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum StopReason {
    /// It was done.
    EndTurn,
    /// It came to a word at which it was to stop.
    StopSequence,
    /// It had said as much as it might.
    MaxTokens,
    /// It wants a tool to be called.
    ToolUse,
    /// A reason that this library does not know.
    #[serde(untagged)]
    Other(String),
}

/// Whether a client adds what its servers have said.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum IncludeContext {
    /// Nothing.
    None,
    /// What this server has said.
    ThisServer,
    /// What all servers have said.
    AllServers,
    /// A word that this library does not know.
    #[serde(untagged)]
    Other(String),
}

object! {
    /// Which model would do. The client decides.
    pub struct ModelPreferences {
        optional {
            /// Names, or parts of names, the best first.
            pub hints: Vec<ModelHint>,
            /// How much the cost matters, from 0 to 1.
            pub cost_priority: Real,
            /// How much the speed matters, from 0 to 1.
            pub speed_priority: Real,
            /// How much the ability matters, from 0 to 1.
            pub intelligence_priority: Real,
        }
    }
}

object! {
    /// A model that would do.
    pub struct ModelHint {
        optional {
            /// A part of its name.
            pub name: String,
        }
    }
}

object! {
    /// Whether a model must call tools.
    pub struct ToolChoice {
        optional {
            /// `auto`, `required` or `none`.
            pub mode: String,
        }
    }
}
