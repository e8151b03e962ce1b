//! The page about the seeds keeps its promises.

use std::fs;

use switchboard_testkit::{seeds, source};

#[test]
fn every_row_points_to_something_that_is_there() {
    let root = source::root();
    let page = fs::read_to_string(root.join("docs/seeds.md")).unwrap();
    assert!(page.lines().filter(|line| line.starts_with("| 00")).count() > 200, "rows are gone");
    let complaints = seeds::check(&page, &source::read_all(&root).unwrap());
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
