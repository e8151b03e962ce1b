//! The tidy rules hold.

use std::process::Command;

use switchboard_testkit::{source, tidy};

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
