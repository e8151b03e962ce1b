//! What messages say, as Rust types: the parameters and results of every method of every
//! revision.
//!
//! ```
//! use serde_json::json;
//! use switchboard_proto::types::{self, CallToolResult, ContentBlock};
//!
//! let raw = json!({
//!     "content": [{"type": "text", "text": "5"}, {"type": "hologram", "depth": 3}],
//!     "x-cost": 7,
//! });
//! let result: CallToolResult = types::read(&raw)?;
//! assert_eq!(result.text(), "5");
//! // What this library does not know is kept, and written again as it was.
//! assert!(matches!(&result.content[1], ContentBlock::Other(_)));
//! assert_eq!(result.other["x-cost"], 7);
//! assert_eq!(json!(result), raw);
//! # Ok::<_, types::Unfit>(())
//! ```
//!
//! One type serves all revisions: a member that some revision does not have is an `Option`.
//! These rules hold for all of them:
//!
//! - Unknown members are in `other`, and so are optional members that do not fit their type.
//!   One that is set afterwards takes the place of what is there.
//! - An item of a list that does not fit hides no other: [`Items`] keeps it as it came.
//!   Unknown words of a list (a role, a status) and unknown kinds of content are variants
//!   called `Other`. So is a block that lacks what its kind has.
//! - Whatever is read is written again as it was, with two exceptions: an optional member that
//!   is `null` counts as absent, and an integer that was written as `4.0` becomes `4`.
//! - `new` takes what a type must have. A method of the same name sets each optional member.
//!
//! | method | parameters | result |
//! |---|---|---|
//! | `initialize` | [`InitializeParams`] | [`InitializeResult`] |
//! | `server/discover` | | [`DiscoverResult`] |
//! | `tools/list` | [`ListParams`] | [`ListToolsResult`] |
//! | `tools/call` | [`CallToolParams`] | [`CallToolResult`], [`CreateTaskResult`], [`InputRequiredResult`] |
//! | `prompts/list` | [`ListParams`] | [`ListPromptsResult`] |
//! | `prompts/get` | [`GetPromptParams`] | [`GetPromptResult`], [`InputRequiredResult`] |
//! | `resources/list` | [`ListParams`] | [`ListResourcesResult`] |
//! | `resources/templates/list` | [`ListParams`] | [`ListTemplatesResult`] |
//! | `resources/read` | [`ReadResourceParams`] | [`ReadResourceResult`], [`InputRequiredResult`] |
//! | `resources/subscribe`, `resources/unsubscribe` | [`ReadResourceParams`] | |
//! | `completion/complete` | [`CompleteParams`] | [`CompleteResult`] |
//! | `logging/setLevel` | [`SetLevelParams`] | |
//! | `subscriptions/listen` | [`ListenParams`] | |
//! | `sampling/createMessage` | [`SampleParams`] | [`SampleResult`] |
//! | `elicitation/create` | [`ElicitParams`] | [`ElicitResult`] |
//! | `roots/list` | | [`ListRootsResult`] |
//! | `tasks/get`, `tasks/cancel`, `tasks/result` | [`TaskParams`] | [`TaskState`]; that of the call |
//! | `tasks/update` | [`UpdateTaskParams`] | |
//! | `tasks/list` | [`ListParams`] | [`ListTasksResult`] |
//! | `notifications/...` | [`ServerNotification`] has them all | |

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

mod content;
mod elicitation;
mod handshake;
mod items;
mod lists;
mod member;
mod notifications;
mod sampling;
mod tasks;
mod tools;

pub use content::{
    AudioContent, BlobResource, ContentBlock, EmbeddedResource, ImageContent, ResourceContents,
    ResourceLink, TextContent, TextResource, ToolResultContent, ToolUseContent,
};
pub use elicitation::{
    BooleanField, ChoiceField, ChoiceItems, ElicitAction, ElicitForm, ElicitParams, ElicitResult,
    ElicitUrl, FormField, FormOption, FormSchema, NumberField, StringField,
};
pub use handshake::{
    ClientCapabilities, DiscoverResult, ElicitationCapability, Implementation, InitializeParams,
    InitializeResult, InputRequest, InputRequiredResult, ListCapability, ResourcesCapability,
    SamplingCapability, ServerCapabilities, TasksCapability,
};
pub use items::Items;
pub use lists::{
    CompleteParams, CompleteResult, CompletedArgument, CompletionContext, CompletionReference,
    CompletionValues, GetPromptParams, GetPromptResult, ListPromptsResult, ListResourcesResult,
    ListRootsResult, ListTemplatesResult, ListedPrompt, ListedResource, ListedTemplate,
    PromptArgument, PromptMessage, ReadResourceParams, ReadResourceResult, Root,
};
pub use member::whole;
pub use notifications::{
    CancelledNote, ElicitedNote, Level, ListChangedNote, ListenParams, ListenedNote, LogNote,
    ProgressNote, ServerNotification, SetLevelParams, SubscriptionFilter, UpdatedNote,
};
pub use sampling::{
    IncludeContext, ModelHint, ModelPreferences, SampleContent, SampleParams, SampleResult,
    SamplingMessage, StopReason, ToolChoice,
};
pub use tasks::{
    CreateTaskResult, ListTasksResult, TaskLifetime, TaskParams, TaskState, TaskStatus, TaskWish,
    UpdateTaskParams,
};
pub use tools::{
    CallToolParams, CallToolResult, ListParams, ListToolsResult, ListedTool, ToolAnnotations,
    ToolExecution, ToolTasks,
};

/// Members of an object, by name.
pub type JsonObject = serde_json::Map<String, Value>;

/// Declares the type of a JSON object: its members, those that may be missing under
/// `optional`, and `other` for those that nobody has foreseen. Makes `new`, which takes what
/// must be there and sets the optional members that have a value here, and a method for each
/// optional member that sets it.
macro_rules! object {
    (
        $(#[doc = $about:literal])*
        pub struct $name:ident { optional { $($members:tt)* } }
    ) => {
        object! { @declare $(#[doc = $about])* pub struct $name {} optional { $($members)* } }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
    (
        $(#[doc = $about:literal])*
        pub struct $name:ident {
            $(
                $(#[doc = $must_about:literal])*
                $(#[serde($($must_serde:tt)*)])?
                pub $must:ident: $must_type:ty,
            )+
            $(optional { $($members:tt)* })?
        }
    ) => {
        object! {
            @declare
            $(#[doc = $about])*
            pub struct $name {
                $($(#[doc = $must_about])* $(#[serde($($must_serde)*)])? pub $must: $must_type,)+
            }
            optional { $($($members)*)? }
        }
    };
    (
        @declare
        $(#[doc = $about:literal])*
        pub struct $name:ident {
            $(
                $(#[doc = $must_about:literal])*
                $(#[serde($($must_serde:tt)*)])?
                pub $must:ident: $must_type:ty,
            )*
        }
        optional {
            $(
                $(#[doc = $may_about:literal])*
                $(#[serde(rename = $may_name:literal)])?
                pub $may:ident: $may_type:ty $(= $initial:literal)?,
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[doc = $must_about])* pub $must: $must_type,)*
            $($(#[doc = $may_about])* pub $may: Option<$may_type>,)*
            /// Members that are not named here, and those that do not fit. One whose field is
            /// set is not written.
            pub other: $crate::types::JsonObject,
        }

        impl $crate::types::member::WriteMembers for $name {
            fn write<M>(&self, to: &mut M, tag: Option<&str>) -> Result<(), M::Error>
            where
                M: serde::ser::SerializeMap,
            {
                $(to.serialize_entry(object!(@wire $must $($($must_serde)*)?), &self.$must)?;)*
                $(if let Some(value) = &self.$may {
                    to.serialize_entry(object!(@name $may $($may_name)?), value)?;
                })*
                $crate::types::member::write_other(to, &self.other, |name| {
                    Some(name) == tag
                        $(|| name == object!(@wire $must $($($must_serde)*)?))*
                        $(|| self.$may.is_some() && name == object!(@name $may $($may_name)?))*
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::types::member::write_object(to, None, self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let mut other = $crate::types::JsonObject::deserialize(from)?;
                Ok(Self {
                    $($must: object!(@take other $must $($($must_serde)*)?)?,)*
                    $($may: $crate::types::member::take_optional(
                        &mut other,
                        object!(@name $may $($may_name)?),
                    ),)*
                    other,
                })
            }
        }

        impl $name {
            /// One with all that it must have.
            pub fn new($($must: impl Into<$must_type>),*) -> Self {
                Self {
                    $($must: $must.into(),)*
                    $($may: object!(@initial $($initial)?),)*
                    other: $crate::types::JsonObject::new(),
                }
            }

            $(
                $(#[doc = $may_about])*
                #[must_use]
                pub fn $may(mut self, value: impl Into<$may_type>) -> Self {
                    self.$may = Some(value.into());
                    self
                }
            )*
        }
    };
    (@take $from:ident $member:ident default) => {
        $crate::types::member::take_or_default(&mut $from, object!(@name $member))
    };
    (@take $from:ident $member:ident $(rename = $name:literal)?) => {
        $crate::types::member::take_required(&mut $from, object!(@name $member $($name)?))
    };
    (@wire $member:ident default) => { object!(@name $member) };
    (@wire $member:ident $(rename = $name:literal)?) => { object!(@name $member $($name)?) };
    (@name $member:ident) => { $crate::types::member::camel_case(stringify!($member)).as_str() };
    (@name $member:ident $name:literal) => { $name };
    (@initial) => { None };
    (@initial $initial:literal) => { Some($initial.into()) };
}

use object;

/// Reads JSON as one of these types, or as one of yours.
///
/// ```
/// use serde_json::json;
/// use switchboard_proto::types::{self, ListedTool};
///
/// let tool: ListedTool = types::read(&json!({"name": "add", "inputSchema": {}})).unwrap();
/// assert_eq!(tool.name, "add");
/// let unfit = types::read::<ListedTool>(&json!({"name": 5})).unwrap_err();
/// assert_eq!(unfit.to_string(), r#"{"name":5} is no ListedTool"#);
/// let why = std::error::Error::source(&unfit).unwrap();
/// assert!(why.to_string().starts_with("invalid type: integer `5`, expected a string"));
/// ```
pub fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Unfit> {
    T::deserialize(value).map_err(|why| Unfit::new::<T>(value, why))
}

/// JSON that is not what its type says; the source says what is wrong with it.
#[derive(Clone, Debug)]
pub struct Unfit {
    /// The JSON, or the beginning of it.
    pub found: String,
    /// The name of the type.
    pub wanted: &'static str,
    why: Arc<dyn Error + Send + Sync>,
}

/// Bytes of JSON that an error shows.
const SHOWN: usize = 200;

impl Unfit {
    /// `found` is no `T`, and this is why.
    pub fn new<T>(found: &Value, why: impl Error + Send + Sync + 'static) -> Self {
        let mut found = found.to_string();
        if found.len() > SHOWN {
            found.truncate(found.floor_char_boundary(SHOWN));
            found.push_str("...");
        }
        Self { found, wanted: short_name::<T>(), why: Arc::new(why) }
    }
}

/// The name of a type without the modules it is in.
fn short_name<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    let outer = name.split('<').next().unwrap_or(name);
    outer.rfind("::").map_or(name, |end| &name[end + 2..])
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no {}", self.found, self.wanted)
    }
}

impl Error for Unfit {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.why)
    }
}

impl PartialEq for Unfit {
    fn eq(&self, other: &Self) -> bool {
        let said = |it: &Self| (it.found.clone(), it.wanted, it.why.to_string());
        said(self) == said(other)
    }
}

impl Eq for Unfit {}

/// A number, kept as it was written: `1` stays `1`, and `1.0` stays `1.0`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Real(Number);

impl Real {
    /// Its value.
    pub fn get(&self) -> f64 {
        self.0.as_f64().unwrap_or_default()
    }
}

/// What is no number for JSON (infinite, or none at all) becomes zero.
impl From<f64> for Real {
    fn from(value: f64) -> Self {
        Self(Number::from_f64(value).unwrap_or_else(|| 0.into()))
    }
}

impl From<i32> for Real {
    fn from(value: i32) -> Self {
        Self(value.into())
    }
}

/// Who speaks.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A role that this library does not know.
    #[serde(untagged)]
    Other(String),
}

object! {
    /// What a client may make of something: whom it is for, how much it matters.
    pub struct Annotations {
        optional {
            /// Whom it is for.
            pub audience: Vec<Role>,
            /// How much it matters, from 0 to 1.
            pub priority: Real,
            /// When it changed last, as ISO 8601 has it.
            pub last_modified: String,
        }
    }
}

object! {
    /// A picture to show beside a name.
    pub struct Icon {
        /// Its URL: `https:` or `data:`.
        pub src: String,
        optional {
            /// Its media type.
            pub mime_type: String,
            /// The sizes that it is made for: `48x48`, `any`.
            pub sizes: Vec<String>,
            /// The background that it is made for: `light` or `dark`.
            pub theme: String,
        }
    }
}

/// Who may keep a result.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CacheScope {
    /// Anybody.
    Public,
    /// The client that asked, for the person that it asked for.
    Private,
    /// A scope that this library does not know.
    #[serde(untagged)]
    Other(String),
}

#[cfg(test)]
mod tests;
