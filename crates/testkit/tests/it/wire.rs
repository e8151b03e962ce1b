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

#[test]
fn the_tests_of_attacks_are_there_and_cite_their_rows() {
    let (_, citations) = read();
    let page = fs::read_to_string(source::root().join("docs/oauth-attacks.md")).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| OA-")).collect();
    assert!(rows.len() >= 24, "{} rows", rows.len());
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [id, _, _, tests] = cells[..] else { panic!("not four cells: {row}") };
        assert!(tests.contains('`'), "{id} names no test");
        for test in tests.split('`').skip(1).step_by(2) {
            let is_cited =
                citations.iter().any(|it| it.id == id && it.test.as_deref() == Some(test));
            assert!(is_cited, "no test {test} cites {id}");
        }
    }
}

fn read() -> (Vec<wire::Rule>, Vec<wire::Citation>) {
    let root = source::root();
    let rules =
        fs::read_to_string(root.join("docs/wire-rules.txt")).expect("the rules are checked in");
    let sources = source::read_all(&root).expect("the repository can be read");
    (wire::parse_rules(&rules).expect("the rules can be read"), wire::collect(&sources))
}
