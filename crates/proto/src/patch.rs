//! Reads and replaces single members inside raw JSON.
//!
//! For the few places where a transport must look into `params` or `result`.
//! A path names members from the outside in. The text has been walked before,
//! so what does not fit (not an object, no such member) is simply not there.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use crate::json::{Fault, Walker, unescape};
use crate::jsonrpc::splice;

/// The text of the value at `path`, if it is there.
pub fn get<'a>(text: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
    find(text, path).map(|place| &text[place])
}

/// The string at `path`, if it is there and is one.
pub fn string<'a>(text: &'a [u8], path: &[&str]) -> Option<Cow<'a, str>> {
    as_string(get(text, path)?)
}

/// The string that this JSON text is, if it is one.
pub fn as_string(text: &[u8]) -> Option<Cow<'_, str>> {
    let body = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(unescape(body))
}

/// `text` with the value at `path` replaced, if there is one.
pub fn replace(text: &[u8], path: &[&str], value: &[u8]) -> Option<Bytes> {
    find(text, path).map(|place| splice(text, place, value))
}

/// `text` with `value` as the member `name` of the object at `path`: replaced
/// where it stands, else put in front. None if there is no such object.
pub fn put(text: &[u8], path: &[&str], name: &str, value: &[u8]) -> Option<Bytes> {
    let object = find(text, path)?;
    let inner = &text[object.clone()];
    if let Some(place) = find(inner, &[name]) {
        let place = object.start + place.start..object.start + place.end;
        return Some(splice(text, place, value));
    }
    let rest = inner.strip_prefix(b"{")?;
    let is_empty = rest.trim_ascii_start() == b"}";
    let mut member = serde_json::Value::from(name).to_string().into_bytes();
    member.push(b':');
    member.extend_from_slice(value);
    if !is_empty {
        member.push(b',');
    }
    Some(splice(text, object.start + 1..object.start + 1, &member))
}

/// Where the value at `path` is. The last of several equal members counts, as
/// in every SDK's parser.
fn find(text: &[u8], path: &[&str]) -> Option<Range<usize>> {
    let Some((name, rest)) = path.split_first() else {
        return Walker::new(text).whole().ok();
    };
    let mut found = None;
    Walker::new(text)
        .members(|member| {
            if member.is(name) {
                found = Some(member.value);
            }
            Ok::<_, Fault>(())
        })
        .ok()?;
    let outer = found?;
    if rest.is_empty() {
        return Some(outer);
    }
    let inner = find(&text[outer.clone()], rest)?;
    Some(outer.start + inner.start..outer.start + inner.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = br#"{ "a" : {"b":[1,2], "t\u006fken":"x\ny"}, "c":{ } }"#;

    #[test]
    fn members_are_found_however_their_key_is_spelled() {
        assert_eq!(get(TEXT, &["a", "b"]), Some(&b"[1,2]"[..]));
        assert_eq!(string(TEXT, &["a", "token"]).unwrap(), "x\ny");
        assert_eq!(get(TEXT, &["a", "b", "c"]), None);
        assert_eq!(get(TEXT, &["z"]), None);
    }

    /// wire: MSG-7
    #[test]
    fn nothing_else_changes() {
        let changed = replace(TEXT, &["a", "b"], b"7").unwrap();
        assert_eq!(changed, &br#"{ "a" : {"b":7, "t\u006fken":"x\ny"}, "c":{ } }"#[..]);
        assert_eq!(replace(TEXT, &["q"], b"7"), None);
    }

    #[test]
    fn a_missing_member_is_put_in_front() {
        let put_in = |path: &[&str], name| put(TEXT, path, name, b"7").unwrap();
        assert_eq!(
            put_in(&["c"], "n"),
            &br#"{ "a" : {"b":[1,2], "t\u006fken":"x\ny"}, "c":{"n":7 } }"#[..]
        );
        assert_eq!(
            put_in(&["a"], "n"),
            &br#"{ "a" : {"n":7,"b":[1,2], "t\u006fken":"x\ny"}, "c":{ } }"#[..]
        );
        assert_eq!(put_in(&["a"], "b"), &br#"{ "a" : {"b":7, "t\u006fken":"x\ny"}, "c":{ } }"#[..]);
        assert_eq!(put(TEXT, &["a", "b"], "n", b"7"), None);
    }

    #[test]
    fn the_last_of_equal_members_counts() {
        assert_eq!(get(br#"{"a":1,"a":2}"#, &["a"]), Some(&b"2"[..]));
    }
}
