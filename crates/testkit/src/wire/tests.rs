//! What counts as a citation, and what becomes of it.

use super::*;

const PATH: &str = "crates/proto/tests/it/a.rs";

#[test]
fn a_comment_on_a_test_and_one_inside_both_count() {
    let text = "/// Splits.\n/// wire: SSE-1, SSE-2\n#[test]\nfn above() {}\n\n#[test]\nfn inside() {\n    // wire: STD-1\n}\n";
    assert_eq!(cited(PATH, text), ["SSE-1 above", "SSE-2 above", "STD-1 inside"]);
}

#[test]
fn a_comment_on_nothing_speaks_for_the_file() {
    assert_eq!(cited(PATH, "//! All of it. (wire: SSE-1)\n\nuse a;\n\nfn b() {}\n"), ["SSE-1"]);
}

#[test]
fn only_the_list_of_ids_counts() {
    let text = "fn a() {\n    // wire: SSE-1, and not UTF-8 or SSE-2.\n    // What goes over the wire: bytes.\n}\n";
    assert_eq!(cited(PATH, text), ["SSE-1 a"]);
}

#[test]
fn a_citation_in_a_string_is_none() {
    assert_eq!(cited(PATH, "fn a() {\n    let b = \"// wire: SSE-1\";\n}\n"), [""; 0]);
}

#[test]
fn product_code_cites_nothing() {
    let text = "// wire: SSE-1\nfn a() {}\n#[cfg(test)]\nmod tests {\n    // wire: SSE-2\n    fn b() {}\n}\n";
    assert_eq!(cited("crates/proto/src/a.rs", text), ["SSE-2 b"]);
}

#[test]
fn scripts_and_transcripts_cite_too() {
    let script = "// wire: STD-1\ntest('first one', () => {\n});\n\n// wire: STD-2\ntest('second one', () => {\n  // wire: STD-3\n});\n";
    assert_eq!(
        cited("peers/a.mjs", script),
        ["STD-1 first one", "STD-2 second one", "STD-3 second one"]
    );
    assert_eq!(cited("peers/a.py", "def b():\n    # wire: STD-1\n    pass\n"), ["STD-1 b"]);
    assert_eq!(cited("crates/proto/tests/transcripts/x/a.txt", "# wire: LIF-1\n> {}\n"), ["LIF-1"]);
}

#[test]
fn an_unknown_rule_is_named_with_its_place() {
    let rules = parse_rules("SSE-1 | must | a\n").unwrap();
    let citations = citations(&Source::new(PATH, "fn a() {\n    // wire: SSE-1, SSE-99\n}\n"));
    assert_eq!(
        unknown(&rules, &citations),
        ["crates/proto/tests/it/a.rs:2: no rule is called \"SSE-99\""]
    );
}

#[test]
fn a_bad_line_in_the_list_of_rules_is_an_error() {
    assert!(parse_rules("SSE-1 | must\n").is_err());
    assert!(parse_rules("SSE-1 | perhaps | a\n").is_err());
    assert!(parse_rules("SSE-1 | must | a\nSSE-1 | must | b\n").is_err());
}

#[test]
fn the_table_counts_and_names_the_tests() {
    let rules = parse_rules("## Streams\nSSE-1 | must | one\nSSE-2 | ours | two\n").unwrap();
    let text = "fn a() {
// wire: SSE-1
}
";
    let text = ["a", "b", "c", "d", "e"].map(|name| text.replace('a', name)).concat();
    let page = render(&rules, &citations(&Source::new(PATH, &text)));
    assert!(page.contains("1 of 2 rules"), "{page}");
    assert!(page.contains("## Streams (1 of 2)"), "{page}");
    assert!(
        page.contains("| SSE-1 | must | one | `a` in `crates/proto/tests/it/a.rs`; "),
        "{page}"
    );
    assert!(page.contains("; and 2 more |"), "{page}");
    assert!(page.contains("| SSE-2 | ours | two |  |"), "{page}");
}

fn cited(path: &str, text: &str) -> Vec<String> {
    let found = citations(&Source::new(path, text)).into_iter();
    found
        .map(|c| format!("{} {}", c.id, c.test.unwrap_or_default()).trim_end().to_owned())
        .collect()
}
