//! The table of tested rules is current.

use std::env;
use std::fs;

use switchboard_testkit::{source, wire};

#[test]
fn every_citation_names_a_rule() {
    let (rules, citations) = read();
    let unknown = wire::unknown(&rules, &citations);
    assert!(unknown.is_empty(), "\n{}\n", unknown.join("\n"));
}

#[test]
fn the_coverage_table_is_current() {
    let (rules, citations) = read();
    let path = source::root().join("docs/wire-coverage.md");
    let page = wire::render(&rules, &citations);
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let is_current = fs::read_to_string(&path).is_ok_and(|text| text == page);
    assert!(
        is_current,
        "docs/wire-coverage.md is out of date: UPDATE=1 cargo test -p switchboard-testkit wire"
    );
}

fn read() -> (Vec<wire::Rule>, Vec<wire::Citation>) {
    let root = source::root();
    let rules =
        fs::read_to_string(root.join("docs/wire-rules.txt")).expect("the rules are checked in");
    let sources = source::read_all(&root).expect("the repository can be read");
    (wire::parse_rules(&rules).expect("the rules can be read"), wire::collect(&sources))
}
