//! A client's key in our own file: written, and taken out again. Comments stay.

use std::path::Path;

use super::text_edit::{EditError, EntryPath, entry_in, with_entry, without_entry};
use super::tree::{Node, Value};

/// The members that lead to the keys.
const KEYS: [&str; 2] = ["switchboard", "keys"];

fn words<'w>(words: impl IntoIterator<Item = &'w str>) -> Node {
    let word = |word: &str| Node::new(Value::Text(word.to_owned()));
    Node::new(Value::List(words.into_iter().map(word).collect()))
}

fn path(name: &str) -> EntryPath<'_> {
    EntryPath { section: &KEYS, is_list: false, name }
}

/// Whether the file has a key of this name.
pub(crate) fn has_key(file: &Path, text: &str, name: &str) -> Result<bool, EditError> {
    Ok(entry_in(file, text, &path(name))?.is_some())
}

/// The hashes of a name, as the file has them. A key in another member is not among them.
pub(crate) fn hashes_of(file: &Path, text: &str, name: &str) -> Result<Vec<String>, EditError> {
    let entry = entry_in(file, text, &path(name))?;
    let hashes = match entry.as_ref().and_then(|entry| entry.get("hash")) {
        Some(Node { value: Value::List(items), .. }) => {
            items.iter().filter_map(Node::text).collect()
        }
        Some(one) => one.text().into_iter().collect(),
        None => Vec::new(),
    };
    Ok(hashes.into_iter().map(ToOwned::to_owned).collect())
}

/// The text with these hashes for a name that is there. Its grants stay.
pub(crate) fn with_hashes(
    file: &Path,
    text: &str,
    name: &str,
    hashes: &[String],
) -> Result<String, EditError> {
    let [first, second] = KEYS;
    let at = EntryPath { section: &[first, second, name], is_list: false, name: "hash" };
    with_entry(file, text, &at, &words(hashes.iter().map(String::as_str)))
}

/// The text with a new name, its key, and members that say what it may use.
pub(crate) fn with_key(
    file: &Path,
    text: &str,
    (name, hash): (&str, &str),
    grants: &[(&str, Vec<&str>)],
) -> Result<String, EditError> {
    let hash = ("hash", Node::new(Value::Text(hash.to_owned())));
    let grants = grants.iter().map(|(member, names)| (*member, words(names.iter().copied())));
    with_entry(file, text, &path(name), &Node::object([hash].into_iter().chain(grants)))
}

/// The text without the name and its keys.
pub(crate) fn without_key(file: &Path, text: &str, name: &str) -> Result<String, EditError> {
    without_entry(file, text, &path(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_put_into_a_text_whose_comments_and_grants_stay() {
        // C-12
        let (file, text) = (Path::new("a.json"), "{\n  // mine\n  \"mcpServers\": {}\n}\n");
        let with = with_key(file, text, ("ada", "h1"), &[("servers", vec!["a"])]).unwrap();
        assert!(with.contains("// mine") && has_key(file, &with, "ada").unwrap(), "{with}");
        let more = with_hashes(file, &with, "ada", &["h1".into(), "h2".into()]).unwrap();
        assert_eq!(hashes_of(file, &with, "ada").unwrap(), ["h1"]);
        assert_eq!(hashes_of(file, &more, "ada").unwrap(), ["h1", "h2"]);
        assert!(more.contains("h2") && more.contains("servers"), "{more}");
        let without = without_key(file, &more, "ada").unwrap();
        assert!(without.contains("// mine") && !has_key(file, &without, "ada").unwrap());
        assert!(with_key(file, "[]", ("ada", "h1"), &[]).is_err());
    }
}
