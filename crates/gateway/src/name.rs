//! What the tools and prompts of many servers are called when they are offered
//! together: `<server>__<name>`.
//!
//! ```text
//!   files, read          files__read
//!   files, read.all      files__read_all_h1f0c9a2b     made legal
//!   my__files, read      my_files__read_h5d0e11c7      the server's part must end at the first `__`
//! ```
//!
//! The names that clients take are short and plain ([`MOST`] characters of
//! `a-z A-Z 0-9 _ -`). A name that had to be changed ends with a hash of what it
//! was, so that it depends on nothing but its own server and name: whatever
//! other servers come and go, it means the same.
//!
//! A file may put another word in place of the server's name, or none: then the
//! server's names stay as they are, and which of two servers has one is for the
//! catalog to say.

use std::fmt::Write as _;

/// Characters that every client takes.
pub const MOST: usize = 64;

/// What stands between server and name.
pub const BETWEEN: &str = "__";

/// Characters of the hash, with what leads it in.
const HASH: usize = "_h".len() + 8;

/// What `name` of `server` is offered as.
pub fn offered(server: &str, name: &str) -> String {
    let prefix = prefix(server);
    let plain: String = name.chars().map(legal).collect();
    let is_unchanged = prefix == server && plain == name && !name.is_empty();
    shortened(format!("{prefix}{BETWEEN}{plain}"), is_unchanged, server, name)
}

/// What `name` is offered as with nothing in front of it.
pub fn bare(name: &str) -> String {
    let plain: String = name.chars().map(legal).collect();
    let is_unchanged = plain == name && !name.is_empty();
    shortened(plain, is_unchanged, "", name)
}

/// The name as it is, or with a hash of what it was.
fn shortened(whole: String, is_unchanged: bool, server: &str, name: &str) -> String {
    if is_unchanged && whole.len() <= MOST && !is_hashed(&whole) {
        return whole;
    }
    // All of it is ASCII by now.
    let mut short = whole[..whole.len().min(MOST - HASH)].to_owned();
    let hash = hash(server, name);
    write!(short, "_h{hash:08x}").expect("a string takes everything");
    short
}

/// The server and the name that this was made of, if nothing had to be changed.
pub fn parts(offered: &str) -> Option<(&str, &str)> {
    let (server, name) = offered.split_once(BETWEEN)?;
    (self::offered(server, name) == offered).then_some((server, name))
}

/// Whether it looks like one that was changed.
fn is_hashed(whole: &str) -> bool {
    let hash = whole.rsplit_once("_h").map_or("", |(_, hash)| hash);
    hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The server's part: legal, without [`BETWEEN`], and not to be confused with it at the end.
pub fn prefix(server: &str) -> String {
    let mut plain = String::with_capacity(server.len());
    for character in server.chars().map(legal) {
        if !(character == '_' && plain.ends_with('_')) {
            plain.push(character);
        }
    }
    let plain = plain.trim_end_matches('_');
    // Half the room at most, so that something of the name is left.
    let end = plain.len().min(MOST / 2 - BETWEEN.len());
    let plain = plain[..end].trim_end_matches('_');
    if plain.is_empty() { "server".to_owned() } else { plain.to_owned() }
}

fn legal(character: char) -> char {
    if character.is_ascii_alphanumeric() || character == '-' { character } else { '_' }
}

/// FNV-1a, folded to 32 bits: the same on every machine and in every release.
fn hash(server: &str, name: &str) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in server.bytes().chain([0xff]).chain(name.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash >> 32) ^ (hash & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_names_are_joined_and_come_apart_again() {
        for (server, name) in
            [("files", "read"), ("a", "_x"), ("a-b", "c__d"), ("a_b", "c"), ("0", "__")]
        {
            let whole = offered(server, name);
            assert_eq!(whole, format!("{server}__{name}"));
            assert_eq!(parts(&whole), Some((server, name)));
        }
    }

    #[test]
    fn what_clients_would_refuse_is_changed_and_hashed() {
        let check = |server: &str, name: &str, begins: &str| {
            let whole = offered(server, name);
            assert!(whole.starts_with(begins) && whole.contains("_h"), "{whole}");
            assert_eq!(parts(&whole), None, "{whole}");
        };
        check("files", "read.all", "files__read_all_h");
        check("my files", "read", "my_files__read_h");
        check("a__b", "c", "a_b__c_h");
        check("a_", "c", "a__c_h");
        check("", "c", "server__c_h");
        check("a", "", "a___h");
        check("é", "ü", "server___");
        check("a", &"x".repeat(100), "a__xxx");
        assert_ne!(offered("a__b", "c"), offered("a", "b__c"));
        assert_ne!(offered("a", "b.c"), offered("a", "b/c"));
    }

    #[test]
    fn a_name_with_nothing_in_front_stays_as_it_is_where_clients_take_it() {
        for name in ["read", "a__b", "-", "_"] {
            assert_eq!(bare(name), name);
        }
        for name in ["", "a.b", "a/b", "x_h01234567"] {
            assert!(bare(name).contains("_h") && bare(name) != name, "{name}");
        }
        assert_ne!(bare("a.b"), bare("a/b"));
    }

    proptest! {
        #[test]
        fn every_name_is_legal_and_depends_on_itself_alone(server in ".{0,80}", name in ".{0,80}") {
            let whole = offered(&server, &name);
            for whole in [&whole, &bare(&name)] {
                prop_assert!(!whole.is_empty() && whole.len() <= MOST);
                let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                prop_assert!(whole.chars().all(is_legal));
            }
            prop_assert_eq!(&whole, &offered(&server, &name));
            if let Some(parts) = parts(&whole) {
                prop_assert_eq!(parts, (server.as_str(), name.as_str()));
            }
        }

        #[test]
        fn no_two_are_offered_as_one(pairs in proptest::collection::vec(("[a_.-]{0,6}", "[a_./-]{0,6}"), 1..60)) {
            let mut seen = HashMap::new();
            for pair in pairs {
                let before = seen.insert(offered(&pair.0, &pair.1), pair.clone());
                prop_assert!(before.is_none_or(|before| before == pair));
            }
        }
    }
}
