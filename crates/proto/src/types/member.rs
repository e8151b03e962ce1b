//! Members of a JSON object, one by one: how the types are read and written.

use serde::Serializer;
use serde::de::{DeserializeOwned, Error};
use serde::ser::SerializeMap;
use serde_json::Value;

use super::JsonObject;

/// Takes a member that must be there out of an object.
pub(super) fn take_required<T, E>(from: &mut JsonObject, name: &str) -> Result<T, E>
where
    T: DeserializeOwned,
    E: Error,
{
    let value = from.remove(name);
    let value = value.ok_or_else(|| E::custom(format_args!("missing field `{name}`")))?;
    read_member(&value).map_err(E::custom)
}

/// The same for one that has a meaning if it is missing.
pub(super) fn take_or_default<T, E>(from: &mut JsonObject, name: &str) -> Result<T, E>
where
    T: DeserializeOwned + Default,
    E: Error,
{
    if from.contains_key(name) { take_required(from, name) } else { Ok(T::default()) }
}

/// Takes an optional member out. One that does not fit stays where it is: a picture of the
/// wrong size must not hide a tool. `null` counts as absent, unless the type knows it.
pub(super) fn take_optional<T: DeserializeOwned>(from: &mut JsonObject, name: &str) -> Option<T> {
    let value = from.get(name)?;
    let read = read_member(value).ok();
    if read.is_some() || value.is_null() {
        from.remove(name);
    }
    read
}

fn read_member<T: DeserializeOwned>(value: &Value) -> serde_json::Result<T> {
    T::deserialize(value).or_else(|why| {
        let integer = whole(value).filter(|_| value.is_f64());
        integer.and_then(|it| T::deserialize(Value::from(it)).ok()).ok_or(why)
    })
}

/// A type that is written as the members of an object.
pub(super) trait WriteMembers {
    /// Writes the members that it has, each once; `tag` is written already.
    fn write<M: SerializeMap>(&self, to: &mut M, tag: Option<&str>) -> Result<(), M::Error>;
}

/// Writes an object. `tag` is the member that says what kind it is, where the type does not.
pub(super) fn write_object<S: Serializer>(
    to: S,
    tag: Option<(&str, &str)>,
    members: &impl WriteMembers,
) -> Result<S::Ok, S::Error> {
    let mut object = to.serialize_map(None)?;
    if let Some((tag, kind)) = tag {
        object.serialize_entry(tag, kind)?;
    }
    members.write(&mut object, tag.map(|(tag, _)| tag))?;
    object.end()
}

/// Writes an object of this `type`.
pub(super) fn write_typed<S: Serializer>(
    to: S,
    kind: &str,
    members: &impl WriteMembers,
) -> Result<S::Ok, S::Error> {
    write_object(to, Some(("type", kind)), members)
}

/// Writes the members that nobody has foreseen, except those that are written already.
pub(super) fn write_other<M: SerializeMap>(
    to: &mut M,
    other: &JsonObject,
    is_written: impl Fn(&str) -> bool,
) -> Result<(), M::Error> {
    for (name, value) in other.iter().filter(|(name, _)| !is_written(name)) {
        to.serialize_entry(name, value)?;
    }
    Ok(())
}

/// The integer that a number is: `4.0` is one too, as in JSON Schema.
///
/// ```
/// use serde_json::json;
/// use switchboard_proto::types::whole;
///
/// assert_eq!(whole(&json!(4.0)), Some(4));
/// assert_eq!(whole(&json!(4.5)), None);
/// ```
pub fn whole(value: &Value) -> Option<i64> {
    // Beyond this, neighbouring integers are the same float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    value.as_i64().or_else(|| {
        let float = value.as_f64()?;
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within 53 bits")]
        (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
    })
}

/// The name of a member on the wire: `mimeType` for `mime_type`.
pub(super) fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (initial, rest) = word.split_at(word.len().min(1));
        camel.push_str(&initial.to_ascii_uppercase());
        camel.push_str(rest);
    }
    camel
}
