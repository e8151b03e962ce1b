//! Elicitation: a server asks the person at the client, by a form or by a page to visit.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::member::write_typed;
use super::{JsonObject, Real, TaskWish, Unfit, object, read};

/// A question to a person. Its `mode` says which; one without is a form.
///
/// ```
/// use serde_json::json;
/// use switchboard_proto::types::{self, ElicitParams};
///
/// let page = json!({"mode": "url", "message": "Sign in", "url": "https://a.test"});
/// assert!(matches!(types::read(&page)?, ElicitParams::Url(page) if page.message == "Sign in"));
/// let dance = json!({"mode": "dance", "message": "Dance"});
/// assert!(matches!(types::read(&dance)?, ElicitParams::Other(_)));
/// # Ok::<_, types::Unfit>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ElicitParams {
    /// A form to fill in.
    Form(ElicitForm),
    /// A page to visit; from 2025-11-25 on.
    Url(ElicitUrl),
    /// A question of a mode that this library does not know.
    Other(Value),
}

impl<'de> Deserialize<'de> for ElicitParams {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let params = Value::deserialize(from)?;
        let mode = params.get("mode").filter(|mode| !mode.is_null());
        let read = match mode.map(Value::as_str) {
            None | Some(Some("form")) => ElicitForm::deserialize(&params).map(Self::Form),
            Some(Some("url")) => ElicitUrl::deserialize(&params).map(Self::Url),
            Some(_) => return Ok(Self::Other(params)),
        };
        read.map_err(D::Error::custom)
    }
}

object! {
    /// A form to fill in.
    pub struct ElicitForm {
        /// What the person is told.
        pub message: String,
        /// The form.
        pub requested_schema: FormSchema,
        optional {
            /// `form`, or nothing.
            pub mode: String,
            /// It is to go on as a task; in 2025-11-25 alone.
            pub task: TaskWish,
            /// What is said about the request.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A page to visit.
    pub struct ElicitUrl {
        /// What the person is told.
        pub message: String,
        /// The page.
        pub url: String,
        optional {
            /// `url`.
            pub mode: String = "url",
            /// What the page is known by (2025-11-25).
            pub elicitation_id: String,
            /// It is to go on as a task; in 2025-11-25 alone.
            pub task: TaskWish,
            /// What is said about the request.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

object! {
    /// A form: an object of flat fields.
    pub struct FormSchema {
        /// Always `object`.
        #[serde(rename = "type")]
        pub kind: String,
        /// The fields, by their names.
        pub properties: BTreeMap<String, FormField>,
        optional {
            /// The names of the fields that must be filled in.
            pub required: Vec<String>,
            /// The dialect of the schema.
            #[serde(rename = "$schema")]
            pub schema: String,
        }
    }
}

impl FormSchema {
    /// Whether a field must be filled in.
    pub fn requires(&self, name: &str) -> bool {
        self.required.iter().flatten().any(|required| required == name)
    }
}

/// A field of a form.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum FormField {
    /// Words, or one of several options.
    String(StringField),
    /// A number.
    Number(NumberField),
    /// A whole number.
    Integer(NumberField),
    /// Yes or no.
    Boolean(BooleanField),
    /// Several of several options.
    Array(ChoiceField),
    /// A kind that this library does not know.
    #[serde(untagged)]
    Other(Value),
}

impl Serialize for FormField {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::String(field) => write_typed(to, "string", field),
            Self::Number(field) => write_typed(to, "number", field),
            Self::Integer(field) => write_typed(to, "integer", field),
            Self::Boolean(field) => write_typed(to, "boolean", field),
            Self::Array(field) => write_typed(to, "array", field),
            Self::Other(field) => field.serialize(to),
        }
    }
}

impl FormField {
    /// The options that there are to choose from; none if the field is no choice.
    pub fn options(&self) -> Vec<FormOption> {
        match self {
            Self::String(field) => field.options(),
            Self::Array(field) => field.items.options(),
            _ => Vec::new(),
        }
    }
}

object! {
    /// A field of words; one of several options, if it has `enum` or `oneOf`.
    pub struct StringField {
        optional {
            /// A name for people.
            pub title: String,
            /// What is to be filled in.
            pub description: String,
            /// How many characters there must be.
            pub min_length: i64,
            /// How many characters there may be.
            pub max_length: i64,
            /// `email`, `uri`, `date` or `date-time`.
            pub format: String,
            /// What stands there at first.
            #[serde(rename = "default")]
            pub initial: String,
            /// The options.
            #[serde(rename = "enum")]
            pub values: Vec<String>,
            /// What people see of each of them (2025-06-18).
            pub enum_names: Vec<String>,
            /// The options with what people see of them; from 2025-11-25 on.
            pub one_of: Vec<FormOption>,
        }
    }
}

impl StringField {
    /// The options that there are to choose from; none if any words will do.
    pub fn options(&self) -> Vec<FormOption> {
        if let Some(options) = &self.one_of {
            return options.clone();
        }
        let mut names = self.enum_names.iter().flatten();
        let values = self.values.iter().flatten();
        values.map(|value| FormOption::new(value, names.next().unwrap_or(value))).collect()
    }
}

object! {
    /// A field of a number.
    pub struct NumberField {
        optional {
            /// A name for people.
            pub title: String,
            /// What is to be filled in.
            pub description: String,
            /// The least that it may be.
            pub minimum: Real,
            /// The most that it may be.
            pub maximum: Real,
            /// What stands there at first.
            #[serde(rename = "default")]
            pub initial: Real,
        }
    }
}

object! {
    /// A field of yes or no.
    pub struct BooleanField {
        optional {
            /// A name for people.
            pub title: String,
            /// What is to be filled in.
            pub description: String,
            /// What stands there at first.
            #[serde(rename = "default")]
            pub initial: bool,
        }
    }
}

object! {
    /// A field of several of several options; from 2025-11-25 on.
    pub struct ChoiceField {
        /// The options.
        pub items: ChoiceItems,
        optional {
            /// A name for people.
            pub title: String,
            /// What is to be filled in.
            pub description: String,
            /// How many must be chosen.
            pub min_items: i64,
            /// How many may be chosen.
            pub max_items: i64,
            /// What is chosen at first.
            #[serde(rename = "default")]
            pub initial: Vec<String>,
        }
    }
}

object! {
    /// The options of a [`ChoiceField`].
    pub struct ChoiceItems {
        optional {
            /// `string`, beside `enum`.
            #[serde(rename = "type")]
            pub kind: String,
            /// The options.
            #[serde(rename = "enum")]
            pub values: Vec<String>,
            /// The options with what people see of them.
            pub any_of: Vec<FormOption>,
        }
    }
}

impl ChoiceItems {
    fn options(&self) -> Vec<FormOption> {
        if let Some(options) = &self.any_of {
            return options.clone();
        }
        self.values.iter().flatten().map(|value| FormOption::new(value, value)).collect()
    }
}

object! {
    /// One option of a choice.
    pub struct FormOption {
        /// What is answered.
        #[serde(rename = "const")]
        pub value: String,
        /// What people see.
        pub title: String,
    }
}

object! {
    /// What a person made of a question.
    ///
    /// ```
    /// use serde_json::json;
    /// use switchboard_proto::types::{ElicitAction, ElicitResult};
    ///
    /// let answer = ElicitResult::accept(json!({"name": "Ada"}))?;
    /// assert_eq!(answer.action, ElicitAction::Accept);
    /// assert_eq!(answer.content.unwrap()["name"], "Ada");
    /// assert_eq!(ElicitResult::decline().content, None);
    /// # Ok::<_, switchboard_proto::types::Unfit>(())
    /// ```
    pub struct ElicitResult {
        /// What they did.
        pub action: ElicitAction,
        optional {
            /// What they filled in.
            pub content: JsonObject,
            /// What is said about it.
            #[serde(rename = "_meta")]
            pub meta: JsonObject,
        }
    }
}

impl ElicitResult {
    /// They filled in the form like this. Whatever is no object is no answer to a form.
    pub fn accept(content: impl Serialize) -> Result<Self, Unfit> {
        let unfit = |why| Unfit::new::<JsonObject>(&Value::Null, why);
        let content: JsonObject = read(&serde_json::to_value(content).map_err(unfit)?)?;
        Ok(Self::new(ElicitAction::Accept).content(content))
    }

    /// They agree to visit the page, which takes no content.
    pub fn accept_page() -> Self {
        Self::new(ElicitAction::Accept)
    }

    /// They said no.
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// They dismissed the question.
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

/// What a person did with a question.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElicitAction {
    /// They answered it.
    Accept,
    /// They said no.
    Decline,
    /// They dismissed it.
    Cancel,
    /// A word that this library does not know.
    #[serde(untagged)]
    Other(String),
}
