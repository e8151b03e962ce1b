//! What the doctor says of good servers and of bad ones.

use serde_json::Value;

use crate::process::{Run, Switchboard, run};

const ILL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/ill.py");
const DEMO: &str = env!("CARGO_BIN_EXE_switchboard");

pub(crate) fn report(run: &Run) -> Value {
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|error| panic!("{error}: {:?} {:?}", run.stdout, run.stderr))
}

/// The findings: how bad, and which.
pub(crate) fn findings(report: &Value) -> Vec<String> {
    let list = report["findings"].as_array().expect("findings");
    let text = |finding: &Value, member: &str| finding[member].as_str().unwrap_or("").to_owned();
    for finding in list {
        assert!(
            !text(finding, "what").is_empty() && !text(finding, "remedy").is_empty(),
            "{finding}"
        );
    }
    list.iter().map(|one| format!("{} {}", text(one, "severity"), text(one, "id"))).collect()
}

/// What is found in a server with that fault, and nothing else.
#[track_caller]
fn ill(fault: &str, expected: &[&str]) -> Value {
    let run = run(&["doctor", "--json", "--timeout", "2", "--", "python3", ILL, fault], &[]);
    let report = report(&run);
    assert_eq!(findings(&report), expected, "{fault}: {}", report["findings"]);
    let is_healthy = !expected.iter().any(|one| one.starts_with("error"));
    assert_eq!(run.code, Some(i32::from(!is_healthy)), "{fault}");
    assert_eq!(report["healthy"], is_healthy, "{fault}");
    report
}

#[track_caller]
fn says(report: &Value, text: &str) {
    let shown = report["findings"].to_string();
    assert!(shown.contains(text), "no {text:?} in {shown}");
}

#[test]
fn a_good_server_on_stdio_has_nothing_wrong_with_it() {
    ill("none", &[]);
    ill("modern", &[]);
    for more in [
        &[][..],
        &["--era", "legacy"],
        &["--era", "modern"],
        &["--revision", "2024-11-05"],
        &["--revision", "2025-03-26"],
        &["--revision", "2025-06-18"],
    ] {
        let args = [&["doctor", "--json", "--", DEMO, "demo"][..], more].concat();
        let run = run(&args, &[]);
        assert_eq!(findings(&report(&run)), [""; 0], "{more:?}");
        assert_eq!(run.code, Some(0), "{more:?}");
    }
}

#[test]
fn a_good_server_over_http_has_nothing_wrong_with_it() {
    for more in [&[][..], &["--era", "legacy"], &["--era", "modern"], &["--revision", "2025-03-26"]]
    {
        let mut demo = Switchboard::start(&[&["demo", "--http"][..], more].concat());
        let port = demo.port();
        let run = run(&["doctor", "--json", &format!("http://127.0.0.1:{port}/mcp")], &[]);
        let report = report(&run);
        assert_eq!(findings(&report), [""; 0], "{more:?}: {}", report["findings"]);
        assert_eq!(report["transport"], "Streamable HTTP", "{more:?}");
    }
}

#[test]
fn a_good_server_of_the_older_transport_has_nothing_wrong_with_it() {
    let mut demo = Switchboard::start(&["demo", "--http", "--revision", "2024-11-05"]);
    let url = format!("http://127.0.0.1:{}/sse", demo.port());
    for more in [&[][..], &["--transport", "sse-only"], &["--transport", "sse-first"]] {
        let run = run(&[&["doctor", "--json", &url][..], more].concat(), &[]);
        let report = report(&run);
        assert_eq!(findings(&report), [""; 0], "{more:?}: {}", report["findings"]);
        assert_eq!(report["transport"], "HTTP+SSE", "{more:?}");
        assert_eq!(report["protocolVersion"], "2024-11-05", "{more:?}");
    }
}

#[test]
fn a_command_that_does_not_come_up_says_why() {
    let absent = run(&["doctor", "--json", "--", "no-such-program-here"], &[]);
    assert_eq!(findings(&report(&absent)), ["error command.start"]);
    says(&ill("exits", &["error command.exits"]), "KEY is not set");
    ill("silent", &["error greeting.silence"]);
    says(&ill("dies", &["error command.dies"]), "out of tools");
}

/// wire: STD-2, STD-5, NEG-7
#[test]
fn bad_manners_on_stdio_are_found() {
    says(&ill("banner", &["error stdio.garbage"]), "Starting server...");
    ill("hates-the-question", &["warning stdio.probe"]);
    ill("stays", &["warning stdio.outstays"]);
}

/// wire: LIF-1, NEG-11
#[test]
fn a_bad_greeting_is_found() {
    says(&ill("refuses", &["error greeting.refused"]), "bad version");
    ill("no-version", &["error greeting.no-version"]);
    ill("strange-version", &["error greeting.version"]);
    says(&ill("modern-greeting", &["error greeting.version"]), "NEG-11");
    let found = ["error greeting.capabilities", "error list.unannounced"];
    ill("no-capabilities", &found);
    ill("nameless", &["warning greeting.server"]);
}

/// wire: DISC-2, MOD-6, CACHE-1, NEG-1
#[test]
fn a_bad_modern_server_is_found() {
    ill("modern-no-result-type", &["warning discover.result-type"]);
    ill("modern-nameless", &["warning greeting.server"]);
    ill("modern-no-cache", &["error list.cache"]);
    says(&ill("modern-strange", &["error greeting.versions"]), "2031-01-01");
}

/// wire: MSG-1, MSG-3, MSG-5, UTL-3
#[test]
fn answers_of_the_wrong_shape_are_found() {
    says(&ill("ids-are-text", &["error message.id"]), "had the id");
    ill("no-jsonrpc", &["error message.version"]);
    ill("both", &["error message.both"]);
    ill("bare-error", &["error message.error", "note message.unknown-method"]);
    ill("answers-twice", &["error message.unasked"]);
    says(&ill("asks", &["warning message.asks"]), "roots/list");
    ill("knows-everything", &["error message.unknown-method"]);
    ill("no-ping", &["error message.ping"]);
}

/// wire: LIF-3, PAG-1
#[test]
fn lists_that_lie_are_found() {
    says(&ill("announces-too-much", &["error list.error"]), "prompts/list");
    ill("announces-too-little", &["error list.unannounced"]);
    ill("no-templates", &["note list.templates"]);
    ill("same-cursor", &["error list.cursor", "error list.duplicate"]);
    ill(
        "no-end",
        &[
            "error list.cursor",
            "error list.duplicate",
            "error list.duplicate",
            "error list.duplicate",
        ],
    );
    ill("no-list", &["error list.shape"]);
}

/// wire: HDR-7
#[test]
fn tools_that_clients_cannot_use_are_found() {
    ill("duplicate", &["error list.duplicate"]);
    ill("long-name", &["warning tool.name-long"]);
    ill("odd-name", &["warning tool.name-characters"]);
    ill("no-name", &["error tool.name"]);
    ill("no-schema", &["error tool.schema"]);
    ill("schema-of-text", &["error tool.schema"]);
    ill("broken-schema", &["error tool.schema"]);
    ill("bad-annotation", &["error tool.header"]);
    ill("no-description", &["note tool.description"]);
}

#[test]
fn the_report_is_for_people_unless_json_is_asked_for() {
    let run = run(&["doctor", "--", "python3", ILL, "banner"], &[]);
    assert_eq!(run.code, Some(1));
    for text in
        ["transport stdio", "protocol  2025-11-25 (legacy)", "has       1 tool\n", "[STD-2]"]
    {
        assert!(run.stdout.contains(text), "no {text:?} in {}", run.stdout);
    }
    assert!(run.stdout.ends_with("not healthy: 1 error"), "{}", run.stdout);
    assert!(run.stdout.contains("\nSTEP"), "{}", run.stdout);
}

#[test]
fn wrong_usage_is_told_as_by_the_other_commands() {
    let run = run(&["doctor"], &[]);
    assert_eq!(run.code, Some(2));
    let line: Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!(line["error"]["kind"], "usage");
}
