//! What names are offered as.

use std::collections::HashMap;

use proptest::prelude::*;

use super::super::*;

#[test]
fn plain_names_are_joined_and_come_apart_again() {
    for (server, name) in
        [("files", "read"), ("a", "_x"), ("a-b", "c__d"), ("a_b", "c"), ("0", "__")]
    {
        let whole = offered_name(server, name);
        assert_eq!(whole, format!("{server}__{name}"));
        assert_eq!(split_name(&whole), Some((server, name)));
    }
}

#[test]
fn what_clients_would_refuse_is_changed_and_hashed() {
    let check = |server: &str, name: &str, begins: &str| {
        let whole = offered_name(server, name);
        assert!(whole.starts_with(begins) && whole.contains("_h"), "{whole}");
        assert_eq!(split_name(&whole), None, "{whole}");
    };
    check("files", "read.all", "files__read_all_h");
    check("my files", "read", "my_files__read_h");
    check("a__b", "c", "a_b__c_h");
    check("a_", "c", "a__c_h");
    check("", "c", "server__c_h");
    check("a", "", "a___h");
    check("é", "ü", "server___");
    check("a", &"x".repeat(100), "a__xxx");
    assert_ne!(offered_name("a__b", "c"), offered_name("a", "b__c"));
    assert_ne!(offered_name("a", "b.c"), offered_name("a", "b/c"));
}

#[test]
fn a_name_with_nothing_in_front_stays_as_it_is_where_clients_take_it() {
    for name in ["read", "a__b", "-", "_"] {
        assert_eq!(bare_name(name), name);
    }
    for name in ["", "a.b", "a/b", "x_h01234567"] {
        assert!(bare_name(name).contains("_h") && bare_name(name) != name, "{name}");
    }
    assert_ne!(bare_name("a.b"), bare_name("a/b"));
}

proptest! {
    #[test]
    fn every_name_is_legal_and_depends_on_itself_alone(server in ".{0,80}", name in ".{0,80}") {
        let whole = offered_name(&server, &name);
        for whole in [&whole, &bare_name(&name)] {
            prop_assert!(!whole.is_empty() && whole.len() <= MAX_OFFERED);
            let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            prop_assert!(whole.chars().all(is_legal));
        }
        prop_assert_eq!(&whole, &offered_name(&server, &name));
        if let Some(parts) = split_name(&whole) {
            prop_assert_eq!(parts, (server.as_str(), name.as_str()));
        }
    }

    #[test]
    fn no_two_are_offered_as_one(pairs in proptest::collection::vec(("[a_.-]{0,6}", "[a_./-]{0,6}"), 1..60)) {
        let mut seen = HashMap::new();
        for pair in pairs {
            let before = seen.insert(offered_name(&pair.0, &pair.1), pair.clone());
            prop_assert!(before.is_none_or(|before| before == pair));
        }
    }
}
