//! Reads and replaces single members inside raw JSON.
//!
//! For the few places where a transport must look into `params` or `result`.
//! A path names members from the outside in. The text has been walked before,
//! so what does not fit (not an object, no such member) is simply not there.

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::json::Walker;
use crate::jsonrpc::{ItemAction, as_string, quoted, splice};

/// The text of the value at `path`, if it is there.
pub fn get<'a>(text: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
    find(text, path).map(|place| &text[place])
}

/// The string at `path`, if it is there and is one.
pub fn string<'a>(text: &'a [u8], path: &[&str]) -> Option<Cow<'a, str>> {
    as_string(get(text, path)?)
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
    let comma: &[u8] = if is_empty { b"" } else { b"," };
    let member = [quoted(name).as_bytes(), b":", value, comma].concat();
    Some(splice(text, object.start + 1..object.start + 1, &member))
}

/// `text` without the members `names` of the object at `path`; none if it has none of them.
pub fn without(text: &[u8], path: &[&str], names: &[&str]) -> Option<Bytes> {
    let object = find(text, path)?;
    let inner = &text[object.clone()];
    let (mut kept, mut taken): (Vec<&[u8]>, bool) = (Vec::new(), false);
    let walked = Walker::new(inner).members(|member| {
        if names.iter().any(|name| member.key.is(name)) {
            taken = true;
        } else {
            kept.push(&inner[member.start..member.value.end]);
        }
    });
    walked.ok()?;
    let rest = || [b"{", kept.join(&b","[..]).as_slice(), b"}"].concat();
    taken.then(|| splice(text, object, &rest()))
}

/// `text` with each element of the array at `path` as `judge` wants it; none if there
/// is no such array, or nothing is to change. What is between the elements stays as it
/// was written, unless one of them goes.
pub fn each<A: Into<ItemAction>>(
    text: &[u8],
    path: &[&str],
    mut judge: impl FnMut(&[u8]) -> A,
) -> Option<Bytes> {
    let array = if path.is_empty() { 0..text.len() } else { find(text, path)? };
    let inner = &text[array.clone()];
    let mut judged = Vec::new();
    Walker::new(inner).elements(|at| judged.push((judge(&inner[at.clone()]).into(), at))).ok()?;
    if judged.iter().all(|(fate, _)| matches!(fate, ItemAction::Keep)) {
        return None;
    }
    // Commas of what is gone cannot stay where they are.
    let is_whole = !judged.iter().any(|(fate, _)| matches!(fate, ItemAction::Drop));
    let (mut out, mut copied) = (BytesMut::with_capacity(text.len()), 0);
    out.extend_from_slice(&text[..array.start]);
    for (fate, at) in &judged {
        let element = match fate {
            ItemAction::Keep => &inner[at.clone()],
            ItemAction::Replace(other) => other,
            ItemAction::Drop => continue,
        };
        let before = if out.len() == array.start { b"[" } else { &b","[..] };
        out.extend_from_slice(if is_whole { &inner[copied..at.start] } else { before });
        out.extend_from_slice(element);
        copied = at.end;
    }
    let end = if out.len() == array.start { b"[]" } else { &b"]"[..] };
    out.extend_from_slice(if is_whole { &inner[copied..] } else { end });
    out.extend_from_slice(&text[array.end..]);
    Some(out.freeze())
}

/// Where the value at `path` is. The last of several equal members counts, as
/// in every SDK's parser.
fn find(text: &[u8], path: &[&str]) -> Option<Range<usize>> {
    let Some((name, rest)) = path.split_first() else {
        return Walker::new(text).whole().ok();
    };
    let mut found = None;
    let walked = Walker::new(text).members(|member| {
        if member.key.is(name) {
            found = Some(member.value);
        }
    });
    let outer = walked.ok().and(found)?;
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
    fn members_are_taken_away_and_the_rest_stays_as_it_is() {
        assert_eq!(
            without(TEXT, &["a"], &["b", "z"]).unwrap(),
            &br#"{ "a" : {"t\u006fken":"x\ny"}, "c":{ } }"#[..]
        );
        assert_eq!(
            without(TEXT, &["a"], &["b", "token"]).unwrap(),
            &br#"{ "a" : {}, "c":{ } }"#[..]
        );
        assert_eq!(without(TEXT, &["a"], &["z"]), None);
        assert_eq!(without(TEXT, &["z"], &["a"]), None);
    }

    #[test]
    fn elements_are_changed_where_they_stand() {
        let one = |element: &[u8]| (element == b"2").then(|| Bytes::from_static(b"[3]"));
        assert_eq!(
            each(TEXT, &["a", "b"], one).unwrap(),
            &br#"{ "a" : {"b":[1,[3]], "t\u006fken":"x\ny"}, "c":{ } }"#[..]
        );
        assert_eq!(each(TEXT, &["a", "b"], |_| ItemAction::Keep), None);
        assert_eq!(each(TEXT, &["c"], one), None);
    }

    #[test]
    fn the_last_of_equal_members_counts() {
        assert_eq!(get(br#"{"a":1,"a":2}"#, &["a"]), Some(&b"2"[..]));
    }
}
