//! Who is there and what they can do: `initialize`, `server/discover`, capabilities; and what
//! a modern server asks in place of a result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CacheScope, Icon, JsonObject, object};

object! {
    /// The first words of a legacy client.
    pub struct InitializeParams {
        /// The revision that it would like to speak.
        pub protocol_version: String,
        /// What it can do.
        pub capabilities: ClientCapabilities,
        /// Who it is.
        pub client_info: Implementation,
        optional {
            /// What is said about the request.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// The first words of a legacy server.
    pub struct InitializeResult {
        /// The revision that both will speak.
        pub protocol_version: String,
        /// What it can do.
        pub capabilities: ServerCapabilities,
        /// Who it is.
        pub server_info: Implementation,
        optional {
            /// How to use it, for models.
            pub instructions: String,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// What a modern server says of itself.
    pub struct DiscoverResult {
        /// The revisions that it speaks.
        pub supported_versions: Vec<String>,
        /// What it can do.
        pub capabilities: ServerCapabilities,
        optional {
            /// How to use it, for models.
            pub instructions: String,
            /// How long this may be kept, in milliseconds.
            pub ttl_ms: i64,
            /// Who may keep it.
            pub cache_scope: CacheScope,
            /// What is said about it; who the server is, among others.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// Who a client or a server is, as it says of itself; never to be trusted.
    pub struct Implementation {
        /// Its name.
        pub name: String,
        /// Its version.
        pub version: String,
        optional {
            /// A name for people.
            pub title: String,
            /// What it is.
            pub description: String,
            /// Pictures for it.
            pub icons: Vec<Icon>,
            /// Where there is more about it.
            pub website_url: String,
        }
    }
}

object! {
    /// What a client can do.
    pub struct ClientCapabilities {
        optional {
            /// It says where it works.
            pub roots: ListCapability,
            /// It asks its model for the server.
            pub sampling: SamplingCapability,
            /// It asks its person for the server.
            pub elicitation: ElicitationCapability,
            /// It does what it is asked as tasks (2025-11-25).
            pub tasks: TasksCapability,
            /// Extensions, by their ids, with their settings (modern).
            pub extensions: JsonObject,
            /// What no revision has.
            pub experimental: JsonObject,
        }
    }
}

object! {
    /// What a server can do.
    pub struct ServerCapabilities {
        optional {
            /// It has tools.
            pub tools: ListCapability,
            /// It has prompts.
            pub prompts: ListCapability,
            /// It has resources.
            pub resources: ResourcesCapability,
            /// It completes arguments.
            pub completions: JsonObject,
            /// It sends log records.
            pub logging: JsonObject,
            /// It does calls as tasks (2025-11-25).
            pub tasks: TasksCapability,
            /// Extensions, by their ids, with their settings (modern).
            pub extensions: JsonObject,
            /// What no revision has.
            pub experimental: JsonObject,
        }
    }
}

object! {
    /// There is a list.
    pub struct ListCapability {
        optional {
            /// It is told when the list changes.
            pub list_changed: bool,
        }
    }
}

object! {
    /// There are resources.
    pub struct ResourcesCapability {
        optional {
            /// It is told when a resource changes.
            pub subscribe: bool,
            /// It is told when the list changes.
            pub list_changed: bool,
        }
    }
}

object! {
    /// There is a model to ask.
    pub struct SamplingCapability {
        optional {
            /// What servers have said can be added (deprecated).
            pub context: JsonObject,
            /// The model can be given tools.
            pub tools: JsonObject,
        }
    }
}

object! {
    /// There is a person to ask. One without members means forms.
    pub struct ElicitationCapability {
        optional {
            /// They fill in forms.
            pub form: JsonObject,
            /// They visit pages.
            pub url: JsonObject,
        }
    }
}

object! {
    /// There are tasks (2025-11-25).
    pub struct TasksCapability {
        optional {
            /// They can be listed.
            pub list: JsonObject,
            /// They can be cancelled.
            pub cancel: JsonObject,
            /// Which requests may be tasks.
            pub requests: JsonObject,
        }
    }
}

object! {
    /// A modern server needs input before it can answer. The client of this library answers
    /// the questions and calls again, so that nobody else sees this.
    pub struct InputRequiredResult {
        optional {
            /// `input_required`.
            pub result_type: String = "input_required",
            /// What it asks, by keys.
            pub input_requests: BTreeMap<String, InputRequest>,
            /// What is to be given back with the answers.
            pub request_state: String,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A question of a modern server: a request without an id.
    pub struct InputRequest {
        /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
        pub method: String,
        optional {
            /// Those of the method: [`super::ElicitParams`], [`super::SampleParams`], or none.
            pub params: Value,
        }
    }
}
