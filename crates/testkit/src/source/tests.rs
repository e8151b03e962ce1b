//! What the lexer takes for code, and what for test code.

use super::*;

#[test]
fn comments_and_strings_are_not_code() {
    let source = Source::new("a.rs", "let a = \"b // c\"; // d \"e\"\n/* f /* g */ h */ let i;\n");
    assert_eq!(source.lines[0].code.split_whitespace().collect::<String>(), "leta=;");
    assert_eq!(source.lines[0].literals.trim(), "\"b // c\"");
    assert_eq!(source.lines[1].code.trim(), "let i;");
}

#[test]
fn raw_strings_end_at_their_hashes_and_keep_their_lines() {
    let source = Source::new("a.rs", "let a = r#\"x \" {\ny\"#;\nlet r#type = b\"z\\\"\";\n");
    assert_eq!(source.lines[0].literals.trim(), "r#\"x \" {");
    assert_eq!(source.lines[1].code.trim(), ";");
    assert!(source.lines[2].code.contains("r#type"), "{source:?}");
    assert!(source.lines[2].literals.contains("z\\\""), "{source:?}");
}

#[test]
fn a_lifetime_is_code_and_a_character_is_not() {
    let source = Source::new(
        "a.rs",
        "fn a<'b>(c: &'b str) -> char { if c == '{' { '\\'' } else { '\"' } }\n",
    );
    assert!(source.lines[0].code.contains("<'b>(c: &'b str)"), "{source:?}");
    assert_eq!(source.functions(), [Function { name: "a".into(), first: 1, last: 1 }]);
}

#[test]
fn columns_survive_letters_of_several_bytes() {
    let source = Source::new("a.rs", "/* ä */ fn b() {}\nlet c = \"世\"; fn d() {\n}\n");
    let names: Vec<_> = source.functions().into_iter().map(|f| (f.name, f.first, f.last)).collect();
    assert_eq!(names, [("b".to_owned(), 1, 1), ("d".to_owned(), 2, 3)]);
}

#[test]
fn a_function_ends_at_its_own_brace() {
    let text = "trait T {\n    fn without_body(&self);\n}\nfn outer(x: [u8; 2]) {\n    fn inner() {\n    }\n}\n";
    let found: Vec<_> = Source::new("a.rs", text)
        .functions()
        .into_iter()
        .map(|f| (f.name, f.first, f.last))
        .collect();
    assert_eq!(found, [("outer".to_owned(), 4, 7), ("inner".to_owned(), 5, 6)]);
}

#[test]
fn lines_under_cfg_test_are_test_lines() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nmod d;\nfn e() {}\n";
    let marks: Vec<bool> =
        Source::new("crates/x/src/a.rs", text).lines.iter().map(|line| line.is_test).collect();
    assert_eq!(marks, [false, true, true, true, true, false, true, false, false]);
}

#[test]
fn test_folders_hold_only_tests() {
    for path in ["crates/x/tests/it/main.rs", "crates/x/src/y/tests.rs", "fuzz/fuzz_targets/a.rs"] {
        assert!(!Source::new(path, "fn a() {}\n").is_product(), "{path}");
        assert!(Source::new(path, "fn a() {}\n").lines[0].is_test, "{path}");
    }
    assert!(Source::new("crates/x/src/y.rs", "").is_product());
    assert!(!Source::new("crates/x/examples/y.rs", "").is_product());
}
