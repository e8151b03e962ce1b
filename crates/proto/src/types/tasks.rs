//! Tasks: calls that go on after they were answered. 2025-11-25 has them in its core,
//! 2026-07-28 as the extension `io.modelcontextprotocol/tasks`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{InputRequest, Items, JsonObject, object};

object! {
    /// A wish for a task, in the parameters of a call (2025-11-25).
    pub struct TaskWish {
        optional {
            /// How long it is to be remembered, in milliseconds.
            pub ttl: i64,
        }
    }
}

object! {
    /// Which task is meant.
    pub struct TaskParams {
        /// Its id.
        pub task_id: String,
        optional {
            /// What is said about the request.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// Answers to what a task asks (modern).
    pub struct UpdateTaskParams {
        /// Its id.
        pub task_id: String,
        /// The answers, by the keys of the questions.
        pub input_responses: BTreeMap<String, Value>,
        optional {
            /// What is said about the request.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// How a task stands.
    ///
    /// It is the result of `tasks/get`. A modern server answers a call with it that goes on as
    /// a task, and has questions, result and error of the task in it.
    pub struct TaskState {
        /// What the task is known by.
        pub task_id: String,
        /// How it stands.
        pub status: TaskStatus,
        optional {
            /// The same in words.
            pub status_message: String,
            /// When it began, as ISO 8601 has it.
            pub created_at: String,
            /// When it changed last.
            pub last_updated_at: String,
            /// How long it is remembered (2025-11-25).
            pub ttl: TaskLifetime,
            /// The same (modern).
            pub ttl_ms: TaskLifetime,
            /// How long to wait between two looks, in milliseconds (2025-11-25).
            pub poll_interval: i64,
            /// The same (modern).
            pub poll_interval_ms: i64,
            /// What it asks, by keys (modern).
            pub input_requests: BTreeMap<String, InputRequest>,
            /// What came of the call (modern).
            pub result: Value,
            /// Why nothing came of it (modern).
            pub error: JsonObject,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

/// How long a task is remembered, from its beginning.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum TaskLifetime {
    /// So many milliseconds.
    Millis(i64),
    /// As long as the server likes; `null` on the wire.
    Unlimited,
}

/// How a task stands.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// It goes on.
    Working,
    /// It waits for answers.
    InputRequired,
    /// It has a result.
    Completed,
    /// It has an error.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// A status that this library does not know.
    #[serde(untagged)]
    Other(String),
}

object! {
    /// A call goes on as a task (2025-11-25). In the modern era this is a [`TaskState`].
    pub struct CreateTaskResult {
        /// The task.
        pub task: TaskState,
        optional {
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A page of the list of tasks (2025-11-25).
    pub struct ListTasksResult {
        /// The tasks.
        pub tasks: Items<TaskState>,
        optional {
            /// Where the next page begins; none on the last.
            pub next_cursor: String,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}
