//! Each rule catches what it is for, and lets pass what it is not for.

use super::*;

const PROTO: &str = "crates/proto/src/a.rs";
const NET: &str = "crates/net/src/a.rs";

#[test]
fn long_files_are_caught() {
    assert_eq!(count(shape::file_fits_its_budget, PROTO, &"a();\n".repeat(800)), 0);
    assert_eq!(count(shape::file_fits_its_budget, PROTO, &"a();\n".repeat(801)), 1);
    let with_tests =
        format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", "a();\n".repeat(600), "b();\n".repeat(300));
    assert_eq!(count(shape::file_fits_its_budget, PROTO, &with_tests), 0);
    assert_eq!(
        count(shape::file_fits_its_budget, "crates/a/tests/it/b.rs", &"a();\n".repeat(1001)),
        1
    );
    let oauth = "crates/proto/src/auth/flow.rs";
    assert_eq!(count(shape::file_fits_its_budget, oauth, &"a();\n".repeat(400)), 0);
    assert_eq!(count(shape::file_fits_its_budget, oauth, &"a();\n".repeat(401)), 1);
}

#[test]
fn long_functions_are_caught() {
    let function = |lines| format!("fn a() {{\n{}\n// Why.\n}}\n", "b();\n".repeat(lines));
    assert_eq!(count(shape::functions_fit_their_budget, PROTO, &function(78)), 0);
    assert_eq!(count(shape::functions_fit_their_budget, PROTO, &function(79)), 1);
}

#[test]
fn mod_rs_is_caught() {
    assert_eq!(count(shape::no_mod_rs, "crates/net/src/http/mod.rs", "//! A.\n"), 1);
    assert_eq!(count(shape::no_mod_rs, "crates/net/src/http.rs", "//! A.\n"), 0);
}

#[test]
fn a_module_without_a_header_is_caught() {
    assert_eq!(count(shape::module_has_a_header, PROTO, "use a;\n//! Late.\n"), 1);
    assert_eq!(count(shape::module_has_a_header, PROTO, ""), 1);
    assert_eq!(count(shape::module_has_a_header, PROTO, "#![no_main]\n//! A.\n"), 0);
    assert_eq!(count(shape::module_has_a_header, "test.sh", "#!/bin/bash\n"), 0);
}

#[test]
fn unfinished_work_is_caught() {
    let comment = concat!("// TO", "DO: later\n");
    let call = concat!("fn a() { todo", "!() }\n");
    assert_eq!(count(words::no_unfinished_work, PROTO, comment), 1);
    assert_eq!(count(words::no_unfinished_work, PROTO, call), 1);
    assert_eq!(count(words::no_unfinished_work, "peers/run.mjs", comment), 1);
    assert_eq!(count(words::no_unfinished_work, PROTO, concat!("struct TO", "DOS;\n")), 0);
}

#[test]
fn ignored_tests_are_caught() {
    assert_eq!(
        count(words::no_ignored_tests, PROTO, "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n"),
        1
    );
    assert_eq!(count(words::no_ignored_tests, PROTO, "#[cfg_attr(unix, ignore)]\nfn a() {}\n"), 1);
    assert_eq!(count(words::no_ignored_tests, PROTO, "fn ignore() {}\n"), 0);
}

#[test]
fn type_names_that_say_nothing_are_caught() {
    let caught = |text| count(words::no_empty_type_names, NET, text);
    assert_eq!(caught("pub struct SessionManager {\n"), 1);
    assert_eq!(caught("pub(crate) enum ServerInfo {\n"), 1);
    assert_eq!(caught("trait StringUtil {\n"), 1);
    assert_eq!(caught("type Data = u8;\n"), 1);
    assert_eq!(caught("pub trait Handler {\n"), 0);
    assert_eq!(caught("struct Database;\nstruct Baseline;\n"), 0);
    assert_eq!(caught("    type Data = Bytes;\n"), 0);
    assert_eq!(caught("// struct SessionManager\n"), 0);
}

#[test]
fn machine_paths_are_caught() {
    for path in
        [concat!("see /wo", "rk/x"), concat!("\"/ro", "ot/.cargo\""), concat!("/ho", "me/me/x")]
    {
        assert_eq!(count(words::no_machine_paths, "README.md", path), 1, "{path}");
    }
    for text in
        [concat!("https://a.example/wo", "rk/x"), concat!("file:///ho", "me/user/x"), "/homework/x"]
    {
        assert_eq!(count(words::no_machine_paths, "README.md", text), 0, "{text}");
    }
}

#[test]
fn revisions_by_date_are_caught() {
    let caught = |path, text| count(place::dates_live_in_revision, path, text);
    assert_eq!(caught(NET, "if version == \"2025-06-18\" {}\n"), 1);
    assert_eq!(caught(NET, "let a = r#\"{\"protocolVersion\":\"2025-06-18\"}\"#;\n"), 1);
    assert_eq!(caught("crates/cli/src/a.rs", "let a = \"{\\\"v\\\":\\\"2025-06-18\\\"}\";\n"), 1);
    assert_eq!(caught("crates/proto/src/revision.rs", "const A: &str = \"2025-06-18\";\n"), 0);
    assert_eq!(
        caught(NET, "// Since \"2025-06-18\".\nlet a = \"spoken since 2025-06-18 or so\";\n"),
        0
    );
    assert_eq!(
        caught(NET, "#[cfg(test)]\nmod tests {\n    const A: &str = \"2025-06-18\";\n}\n"),
        0
    );
}

#[test]
fn error_codes_are_caught() {
    let caught = |path, text| count(place::error_codes_live_in_refusal, path, text);
    assert_eq!(caught(NET, "let a = -32600;\n"), 1);
    assert_eq!(caught(NET, "let a = -32_600;\n"), 1);
    assert_eq!(caught(NET, "let a = r#\"{\"code\":-32001}\"#;\n"), 1);
    assert_eq!(caught("crates/proto/src/refusal.rs", "let a = -32600;\n"), 0);
    assert_eq!(caught(NET, "let a = -32; // -32600\n"), 0);
}

#[test]
fn a_new_reader_of_json_is_caught() {
    let caught = |path, text| count(place::few_read_json, path, text);
    for text in [
        "let a = patch::get(text, &[\"a\"]);\n",
        "let a = Walker::new(text);\n",
        "let a: Value = serde_json::from_slice(text)?;\n",
    ] {
        assert_eq!(caught(NET, text), 1, "{text}");
        assert_eq!(caught("crates/proto/src/patch.rs", text), 0, "{text}");
        assert_eq!(caught("crates/net/tests/it/a.rs", text), 0, "{text}");
    }
    assert_eq!(caught(NET, "dispatch::go(); a.copy_from_slice(b); // patch::get\n"), 0);
    assert_eq!(caught("crates/proto/src/patch.rs", "fn a() {}\n"), 1, "it reads none any more");
}

#[test]
fn a_new_loop_is_caught() {
    let text = "tokio::select! {\n}\n";
    assert_eq!(count(place::select_lives_in_the_loops, NET, text), 1);
    assert_eq!(count(place::select_lives_in_the_loops, "crates/net/src/drive.rs", text), 0);
    assert_eq!(count(place::select_lives_in_the_loops, "crates/net/tests/it/a.rs", text), 0);
}

#[test]
fn code_for_one_kind_of_system_is_found() {
    let rule = place::systems_differ_in_the_platform_module;
    for text in [
        "use std::os::fd::OwnedFd;",
        "#[cfg(unix)]\nfn a() {}",
        "let a = rustix::process::getpid();",
    ] {
        assert_eq!(count(rule, NET, text), 1, "{text}");
        assert_eq!(count(rule, "crates/net/src/platform.rs", text), 0, "{text}");
        assert_eq!(count(rule, "crates/net/tests/it/a.rs", text), 0, "{text}");
    }
    assert_eq!(count(rule, NET, "#[cfg(test)]\nmod tests;"), 0);
}

#[test]
fn printing_reading_the_environment_and_exiting_are_caught() {
    let caught = |path, text| count(place::only_the_binary_touches_the_process, path, text);
    for text in
        ["println!(\"a\");\n", "use std::env;\n", "std::process::exit(1);\n", "env::var(\"A\");\n"]
    {
        assert_eq!(caught(NET, text), 1, "{text}");
        assert_eq!(caught("crates/cli/src/a.rs", text), 0, "{text}");
    }
    assert_eq!(caught(NET, "env!(\"CARGO_PKG_VERSION\");\n"), 0);
    assert_eq!(caught(NET, "std::env::split_paths(path);\n"), 0);
}

#[test]
fn a_runtime_below_the_core_is_caught() {
    let tree = "switchboard-proto v0.1.0\nserde v1.0.0\ntokio v1.54.0\n";
    assert_eq!(impure_dependencies(tree), ["tokio"]);
    assert!(impure_dependencies("switchboard-proto v0.1.0\nhttp v1.5.0\n").is_empty());
}

#[test]
fn a_complaint_names_the_place() {
    let source = Source::new(NET, "//! A.\nlet a = -32600;\n");
    let complaints = check(&[source]);
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].starts_with("crates/net/src/a.rs:2: "), "{complaints:?}");
}

fn count(rule: Rule, path: &str, text: &str) -> usize {
    rule(&Source::new(path, text)).len()
}
