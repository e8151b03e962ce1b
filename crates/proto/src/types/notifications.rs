//! What is said without an answer being wanted, and what a client asks to hear of.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JsonObject, Real, TaskState, object, read};
use crate::method;

/// Something that a server says of its own accord, by its method.
///
/// ```
/// use serde_json::json;
/// use switchboard_proto::types::ServerNotification;
///
/// let updated = ServerNotification::read("notifications/resources/updated", &json!({"uri": "a:b"}));
/// assert!(matches!(updated, ServerNotification::ResourceUpdated(note) if note.uri == "a:b"));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ServerNotification {
    /// The list of tools is another one.
    ToolsChanged(ListChangedNote),
    /// The list of prompts is another one.
    PromptsChanged(ListChangedNote),
    /// The list of resources, or of templates, is another one.
    ResourcesChanged(ListChangedNote),
    /// A resource has changed.
    ResourceUpdated(UpdatedNote),
    /// A log record.
    Log(LogNote),
    /// How far a call has got.
    Progress(ProgressNote),
    /// A question, or a listen, is taken back.
    Cancelled(CancelledNote),
    /// A listen begins (modern).
    Listened(ListenedNote),
    /// The person is done with a page (2025-11-25).
    Elicited(ElicitedNote),
    /// A task stands differently.
    Task(TaskState),
    /// A notification that this library does not know, or that lacks what its method has.
    Other {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Value,
    },
}

impl ServerNotification {
    /// The notification of this method with these parameters; `null` are none.
    pub fn read(name: &str, params: &Value) -> Self {
        let changed =
            || read::<Option<ListChangedNote>>(params).ok().map(Option::unwrap_or_default);
        let known = match name {
            _ if Some(name) == method::list_changed("tools") => changed().map(Self::ToolsChanged),
            _ if Some(name) == method::list_changed("prompts") => {
                changed().map(Self::PromptsChanged)
            }
            _ if Some(name) == method::list_changed("resources") => {
                changed().map(Self::ResourcesChanged)
            }
            method::UPDATED => read(params).map(Self::ResourceUpdated).ok(),
            method::LOG => read(params).map(Self::Log).ok(),
            method::PROGRESS => read(params).map(Self::Progress).ok(),
            method::CANCELLED => read(params).map(Self::Cancelled).ok(),
            method::ACKNOWLEDGED => read(params).map(Self::Listened).ok(),
            method::ELICITED => read(params).map(Self::Elicited).ok(),
            method::TASK_CHANGED | method::TASK_STATUS => read(params).map(Self::Task).ok(),
            _ => None,
        };
        known.unwrap_or_else(|| Self::Other { method: name.to_owned(), params: params.clone() })
    }
}

object! {
    /// A list is another one.
    pub struct ListChangedNote {
        optional {
            /// What is said about it; a modern server names the listen that it belongs to.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A resource has changed.
    pub struct UpdatedNote {
        /// The resource, or something beneath the one that is watched.
        pub uri: String,
        optional {
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A log record.
    pub struct LogNote {
        /// How grave it is.
        pub level: Level,
        /// What happened.
        pub data: Value,
        optional {
            /// What part of the server says it.
            pub logger: String,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// How far a call has got.
    pub struct ProgressNote {
        /// What the call was given for it: a string or an integer.
        pub progress_token: Value,
        /// Grows with each report.
        pub progress: Real,
        optional {
            /// What it grows to.
            pub total: Real,
            /// The same in words.
            pub message: String,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// Nobody wants an answer any more.
    pub struct CancelledNote {
        optional {
            /// The id of the request. Servers of 2025-11-25 may leave it out for tasks.
            pub request_id: Value,
            /// Why.
            pub reason: String,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// The person is done with a page.
    pub struct ElicitedNote {
        /// What the page was known by.
        pub elicitation_id: String,
        optional {
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A wish to hear of changes (modern).
    pub struct ListenParams {
        /// Of which.
        pub notifications: SubscriptionFilter,
        optional {
            /// What is said about the request.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A listen begins: which changes the server will tell of.
    pub struct ListenedNote {
        /// Those that it will.
        pub notifications: SubscriptionFilter,
        optional {
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// Which changes are meant.
    pub struct SubscriptionFilter {
        optional {
            /// Those of the list of tools.
            pub tools_list_changed: bool,
            /// Those of the list of prompts.
            pub prompts_list_changed: bool,
            /// Those of the list of resources.
            pub resources_list_changed: bool,
            /// Those of these resources.
            pub resource_subscriptions: Vec<String>,
            /// Those of these tasks.
            pub task_ids: Vec<String>,
        }
    }
}

object! {
    /// Which log records a client wants (legacy).
    pub struct SetLevelParams {
        /// The least grave of them.
        pub level: Level,
        optional {
            /// What is said about the request.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

/// The eight levels of syslog, least grave first.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are syslog's own")]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    /// As it stands on the wire.
    pub fn as_str(self) -> &'static str {
        method::LEVELS[self as usize]
    }

    /// The level of that name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
