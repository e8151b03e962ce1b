//! Questions to the client as types: [`Context::typed`], and forms made from types.

use std::error::Error as _;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use switchboard_proto::method;
use switchboard_proto::types::{
    ClientCapabilities, Implementation, Items, Root, SampleParams, SampleResult, Unfit, read, whole,
};

use super::context::{Context, Elicited, form_complaint};
use super::handler::Error;

/// The questions of a [`Context`], with types in place of JSON.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use serde_json::Value;
/// use switchboard_net::server::{Context, Elicited, Error, Tool};
/// use switchboard_net::types::{SampleParams, SamplingMessage};
///
/// /// The form. Its comments are what the person reads.
/// #[derive(Deserialize, JsonSchema)]
/// struct Booking {
///     /// How many people will come.
///     people: u8,
///     table: Table,
/// }
///
/// #[derive(Debug, Deserialize, JsonSchema)]
/// enum Table {
///     Window,
///     Garden,
/// }
///
/// let book = Tool::new("book").run(async |_: Value, cx: Context| {
///     let booking = match cx.typed().elicit::<Booking>("When will you come?").await? {
///         Elicited::Accept(booking) => booking,
///         Elicited::Decline | Elicited::Cancel => return Ok("as you like".to_owned()),
///     };
///     let question = format!("Welcome {} people at {:?}.", booking.people, booking.table);
///     let request = SampleParams::new([SamplingMessage::user(question)], 100);
///     Ok::<_, Error>(cx.typed().sample(request).await?.content.text())
/// });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TypedContext<'a> {
    cx: &'a Context,
}

impl Context {
    /// The same questions with types in place of JSON.
    pub fn typed(&self) -> TypedContext<'_> {
        TypedContext { cx: self }
    }
}

impl TypedContext<'_> {
    /// Asks a person to fill in a form that is made from a type.
    ///
    /// A form has fields of words, numbers, yes or no, and choices from enums without members;
    /// `Option` makes a field optional. An answer that is no `T` is an error; what the form says
    /// beyond the type is checked only with the feature `validate`. A type that has anything else is an internal error, and
    /// nobody is asked; [`form_schema`] tells beforehand.
    pub async fn elicit<T>(self, message: &str) -> Result<Elicited<T>, Error>
    where
        T: DeserializeOwned + JsonSchema,
    {
        let schema =
            form_schema::<T>().map_err(|why| Error::internal(why.to_string()).with_source(why))?;
        Ok(match self.cx.elicit(message, schema.clone()).await? {
            Elicited::Accept(content) => {
                Elicited::Accept(read(&integers(content, &schema)).map_err(|unfit| {
                    // The client knows its answer, and not what our type is called.
                    let why = unfit.source().map(ToString::to_string).unwrap_or_default();
                    let what = format!("the answer does not fit the form: {why}");
                    Error::invalid_params(what).with_source(unfit)
                })?)
            }
            Elicited::Decline => Elicited::Decline,
            Elicited::Cancel => Elicited::Cancel,
        })
    }

    /// Asks the client's model.
    pub async fn sample(self, request: SampleParams) -> Result<SampleResult, Error> {
        let params = serde_json::to_value(request)
            .map_err(|why| Error::internal("the question is no JSON").with_source(why))?;
        let answer = self.cx.sample(params).await?;
        read(&answer).map_err(|why| unreadable(method::SAMPLE, why))
    }

    /// Asks where the client works.
    pub async fn roots(self) -> Result<Items<Root>, Error> {
        Ok(Items::read(self.cx.roots().await?))
    }

    /// Who the client says it is; none if it does not say, or not in the words of the protocol.
    /// Never to be trusted (MOD-7).
    pub fn client(self) -> Option<Implementation> {
        read(&self.cx.client_info()?).ok()
    }

    /// What the client can do, as it declared it; nothing if it did so in other words.
    pub fn capabilities(self) -> ClientCapabilities {
        read(&self.cx.client_capabilities()).unwrap_or_default()
    }
}

/// The answer to a form, with `4` for an integer that the client wrote as `4.0`.
fn integers(mut content: Value, form: &Value) -> Value {
    for (name, field) in form["properties"].as_object().into_iter().flatten() {
        let value = content.get_mut(name).filter(|_| field["type"] == "integer");
        if let Some(value) = value
            && let Some(integer) = whole(value)
        {
            *value = integer.into();
        }
    }
    content
}

fn unreadable(method: &str, why: Unfit) -> Error {
    Error::internal(format!("the client's answer to {method} cannot be used")).with_source(why)
}

/// A type that forms cannot be made from.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no form can be made from {name}: {why}")]
pub struct FormError {
    /// The name of the type.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

/// The schema of a form that is made from a type, or why there is none: for a test of yours
/// that every form of your server can be shown.
///
/// ```
/// use schemars::JsonSchema;
/// use serde_json::json;
/// use switchboard_net::server::form_schema;
///
/// #[derive(JsonSchema)]
/// struct Name {
///     first: String,
///     last: Option<String>,
/// }
/// assert_eq!(form_schema::<Name>().unwrap(), json!({
///     "type": "object",
///     "properties": {"first": {"type": "string"}, "last": {"type": "string"}},
///     "required": ["first"],
/// }));
///
/// #[derive(JsonSchema)]
/// struct Couple {
///     one: Name,
/// }
/// let why = form_schema::<Couple>().unwrap_err().to_string();
/// assert!(why.starts_with("no form can be made from Couple: property \"one\""), "{why}");
/// ```
///
/// The fields of a flattened struct are fields of the form. A flattened enum or map has no
/// fixed fields, so there is no form for it.
///
/// wire: MRTR-14
pub fn form_schema<T: JsonSchema>() -> Result<Value, FormError> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let unfit = |why: String| FormError { name: T::schema_name().into_owned(), why };
    let not_fixed = |keyword: &&str| schema.get(keyword).is_some_and(|it| *it != false);
    if let Some(keyword) = NOT_FIXED.iter().copied().find(not_fixed) {
        let why =
            "every answer to a form has the same fields: use a struct, and flatten structs only";
        return Err(unfit(format!("its schema has {keyword:?}; {why}")));
    }
    let mut form = json!({"type": schema["type"], "properties": {}});
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let field =
            field(property).map_err(|why| unfit(format!("property {name:?} of a form {why}")))?;
        form["properties"][name] = field;
    }
    if let Some(required) = schema["required"].as_array().filter(|names| !names.is_empty()) {
        form["required"] = json!(required);
    }
    form_complaint(&form).map_or(Ok(form), |why| Err(unfit(why)))
}

/// Keywords of an object whose fields depend on the answer.
const NOT_FIXED: [&str; 6] = [
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "patternProperties",
    "unevaluatedProperties",
];

/// What every field may have.
const EVERY_FIELD: &[&str] = &["default", "description", "title", "type"];

/// Keywords that say nothing about what may be filled in, or no more than the type of the
/// answer does.
const NO_RULES: &[&str] = &["deprecated", "examples", "readOnly", "uniqueItems", "writeOnly"];

/// A property of a schema as a field of a form.
fn field(property: &Value) -> Result<Value, String> {
    let mut field = present(property);
    if let Some(options) = titled(&Value::Object(field.clone())) {
        field.insert("type".to_owned(), "string".into());
        field.insert("oneOf".to_owned(), options);
    }
    let own: &[&str] = match field.get("type").and_then(Value::as_str) {
        Some("string") => &["enum", "format", "maxLength", "minLength", "oneOf"],
        Some("integer" | "number") => {
            // The width of a number is no format of words, but a range.
            let format = field.remove("format");
            let range = match format.as_ref().and_then(Value::as_str) {
                Some("int32") => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
                Some("uint32") => Some((0, i64::from(u32::MAX))),
                // Schemas of narrower ones have their range; wider ones exceed what clients count.
                _ => None,
            };
            if let Some((minimum, maximum)) = range {
                field.entry("minimum").or_insert(minimum.into());
                field.entry("maximum").or_insert(maximum.into());
            }
            &["maximum", "minimum"]
        }
        Some("array") => {
            let items = field.get("items").cloned().unwrap_or_default();
            let items = match titled(&items) {
                Some(options) => json!({ "anyOf": options }),
                None => json!({"type": "string", "enum": items.get("enum")}),
            };
            field.insert("items".to_owned(), items);
            &["items", "maxItems", "minItems"]
        }
        _ => &[],
    };
    field.retain(|keyword, _| !NO_RULES.contains(&keyword.as_str()));
    let known = |keyword: &&String| {
        EVERY_FIELD.contains(&keyword.as_str()) || own.contains(&keyword.as_str())
    };
    match field.keys().find(|keyword| !known(keyword)) {
        // What is no field at all has a better complaint.
        Some(keyword) if !own.is_empty() => Err(format!("has {keyword:?}, which no form has")),
        _ => Ok(field.into()),
    }
}

/// A property without the `null` that an `Option` allows: left out is what it means.
fn present(property: &Value) -> Map<String, Value> {
    let mut all = property.as_object().cloned().unwrap_or_default();
    let either = all.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let either: Vec<_> = either.filter(|one| one["type"] != "null").map(present).collect();
    if let Ok([some]) = <[_; 1]>::try_from(either) {
        all.remove("anyOf");
        for (keyword, value) in some {
            all.entry(keyword).or_insert(value);
        }
    }
    if let Some(Value::Array(types)) = all.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            all.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(values)) = all.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if all.get("default").is_some_and(Value::is_null) {
        all.remove("default");
    }
    all
}

/// The options of a choice whose variants have comments, which people see. None if a variant
/// has more to it than its name.
fn titled(schema: &Value) -> Option<Value> {
    let mut options = Vec::new();
    for variant in schema.get("oneOf")?.as_array()? {
        let title = variant["title"].as_str().or(variant["description"].as_str());
        match (variant["const"].as_str(), variant["enum"].as_array()) {
            (Some(value), _) => {
                options.push(json!({"const": value, "title": title.unwrap_or(value)}));
            }
            (None, Some(values)) => {
                options.extend(values.iter().map(|it| json!({"const": it, "title": it})));
            }
            (None, None) => return None,
        }
    }
    Some(options.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Where to sit.
    #[derive(JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Seat {
        /// At the window
        Window,
        Aisle,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Meal {
        Fish,
        Rice,
    }

    #[derive(Default, JsonSchema)]
    #[serde(default)]
    struct Wishes {
        /// How many bags.
        bags: u8,
        weight: Option<f64>,
        #[schemars(length(min = 1, max = 9))]
        name: String,
        seat: Option<Seat>,
        meal: Option<Meal>,
        meals: Vec<Meal>,
        seats: Vec<Seat>,
        quiet: bool,
    }

    /// wire: MRTR-14
    #[test]
    fn a_form_is_made_from_a_type() {
        let seats = json!([{"const": "aisle", "title": "aisle"}, {"const": "window", "title": "At the window"}]);
        let form = form_schema::<Wishes>().unwrap();
        let fields = &form["properties"];
        let bags = json!({"type": "integer", "description": "How many bags.", "minimum": 0, "maximum": 255, "default": 0});
        assert_eq!(fields["bags"], bags);
        assert_eq!(fields["weight"], json!({"type": "number"}));
        assert_eq!(
            fields["name"],
            json!({"type": "string", "minLength": 1, "maxLength": 9, "default": ""})
        );
        assert_eq!(fields["meal"], json!({"type": "string", "enum": ["Fish", "Rice"]}));
        let meals = json!({"type": "array", "items": {"type": "string", "enum": ["Fish", "Rice"]}});
        assert_eq!(fields["meals"], meals);
        assert_eq!(fields["quiet"], json!({"type": "boolean", "default": false}));
        let sorted = |options: &Value| {
            let mut options = options.as_array().unwrap().clone();
            options.sort_by_key(|option| option["const"].to_string());
            Value::from(options)
        };
        assert_eq!(fields["seat"]["type"], "string");
        assert_eq!(sorted(&fields["seat"]["oneOf"]), seats);
        assert_eq!(sorted(&fields["seats"]["items"]["anyOf"]), seats);
        assert_eq!(form.get("required"), None);
        // It is what the protocol's own types know.
        let known: switchboard_proto::types::FormSchema = read(&form).unwrap();
        let is_known = |field| !matches!(field, &switchboard_proto::types::FormField::Other(_));
        assert!(known.properties.values().all(is_known), "{known:?}");
    }

    #[test]
    fn the_width_of_an_integer_bounds_it() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Widths {
            signed: i32,
            unsigned: Option<u32>,
            #[schemars(range(min = 1, max = 9))]
            ranged: u32,
            wide: i64,
        }
        let form = form_schema::<Widths>().unwrap();
        let expected = json!({
            "signed": {"type": "integer", "minimum": -2_147_483_648, "maximum": 2_147_483_647},
            "unsigned": {"type": "integer", "minimum": 0, "maximum": 4_294_967_295_u32},
            "ranged": {"type": "integer", "minimum": 1, "maximum": 9},
            "wide": {"type": "integer"},
        });
        assert_eq!(form["properties"], expected);
    }

    #[test]
    fn a_flattened_struct_is_part_of_the_form_and_one_of_several_is_refused() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Customer<T> {
            name: String,
            #[serde(flatten)]
            rest: T,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Delivery {
            city: String,
        }
        #[derive(JsonSchema)]
        #[serde(tag = "by")]
        #[expect(dead_code, reason = "only its schema is looked at")]
        enum Payment {
            Card { number: String },
            Cash,
        }
        let fields = json!({"name": {"type": "string"}, "city": {"type": "string"}});
        for (form, required) in [
            (form_schema::<Customer<Delivery>>(), json!(["name", "city"])),
            (form_schema::<Customer<Option<Delivery>>>(), json!(["name"])),
        ] {
            let expected = json!({"type": "object", "properties": fields, "required": required});
            assert_eq!(form.unwrap(), expected);
        }
        for (form, keyword) in [
            (form_schema::<Payment>(), "oneOf"),
            (form_schema::<Customer<Payment>>(), "oneOf"),
            (form_schema::<Customer<BTreeMap<String, String>>>(), "additionalProperties"),
        ] {
            let why = form.unwrap_err().to_string();
            assert!(why.contains(&format!("{keyword:?}")), "{why}");
        }
    }

    /// wire: MRTR-14
    #[test]
    fn a_type_that_no_form_has_is_refused_by_the_name_of_its_field() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Nested {
            inner: Wishes,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Words {
            words: Vec<String>,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Patterned {
            #[schemars(regex(pattern = "^a"))]
            code: String,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        enum Mixed {
            Nothing,
            Some(u8),
        }
        #[derive(JsonSchema)]
        #[serde(untagged)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        enum Either {
            Word(String),
            Count(u8),
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Odd<T> {
            odd: T,
        }
        let why = |made: Result<Value, FormError>| made.unwrap_err().why;
        assert!(why(form_schema::<Nested>()).contains("\"inner\""));
        assert!(why(form_schema::<Words>()).contains("no choice from a list"));
        assert!(why(form_schema::<Patterned>()).contains("\"pattern\", which no form has"));
        for odd in [form_schema::<Odd<Mixed>>(), form_schema::<Odd<Option<Either>>>()] {
            let why = why(odd);
            assert!(why.contains("\"odd\" of a form is neither"), "{why}");
        }
        assert!(why(form_schema::<Meal>()).contains("\"type\": \"object\""));
        assert!(why(form_schema::<String>()).contains("\"type\": \"object\""));
    }
}
