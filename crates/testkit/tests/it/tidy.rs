//! The tidy rules hold.

use std::process::Command;

use switchboard_testkit::{count, source, tidy};

#[test]
fn every_file_keeps_the_rules() {
    let sources = source::read_all(&source::root()).unwrap();
    assert!(sources.iter().any(|source| source.path == "crates/proto/src/lib.rs"), "read nothing");
    let complaints = tidy::check(&sources);
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn the_core_depends_on_nothing_impure() {
    let args = ["tree", "-p", "switchboard-proto", "-e", "normal", "--prefix", "none", "--locked"];
    let cargo =
        Command::new(env!("CARGO")).args(args).current_dir(source::root()).output().unwrap();
    let tree = String::from_utf8(cargo.stdout).unwrap();
    assert!(
        tree.contains("serde_json"),
        "cargo tree said {}",
        String::from_utf8_lossy(&cargo.stderr)
    );
    assert_eq!(tidy::impure_dependencies(&tree), Vec::<String>::new());
}

/// Names that two types may have: a command that is run, and a command of ours.
const TWICE: [&str; 1] = ["Command"];

#[test]
fn a_type_has_a_name_of_its_own() {
    let sources = count::product(&source::root()).unwrap();
    let mut repeated = count::repeated_types(&sources, |_| true);
    repeated.retain(|(name, _)| !TWICE.contains(name));
    assert_eq!(repeated, []);
}

/// What a reader of ARCHITECTURE.md opens, at the most, to follow one message.
const FILES: [(&str, usize); 3] = [("a", 20), ("b", 35), ("c", 15)];

#[test]
fn ways_of_messages_stay_short_and_lead_through_files_that_are_there() {
    let root = source::root();
    let ways = count::ways(&std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap());
    for (letter, most) in FILES {
        let way = &ways[letter];
        assert!(way.files.len() <= most, "({letter}): {} files, {most} at most", way.files.len());
        for file in &way.files {
            let (krate, rest) = file.split_once('/').unwrap();
            assert!(
                root.join(format!("crates/{krate}/src/{rest}")).is_file(),
                "({letter}): {file}"
            );
        }
    }
}
