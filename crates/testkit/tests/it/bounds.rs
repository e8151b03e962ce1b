//! The table of bounds says what the code says.

use std::fs;

use switchboard_testkit::{bounds, source};

#[test]
fn every_bound_of_the_process_is_in_the_table() {
    let root = source::root();
    let page = fs::read_to_string(root.join("docs/reliability.md")).unwrap();
    let complaints = bounds::check(&page, &source::read_all(&root).unwrap());
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
