//! Filters and templates, and which URIs come of them.

use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::Target;
use switchboard_proto::jsonrpc::parse_one;

use super::*;

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn plan(resources: NameFilter) -> ServerPlan {
    let target = Target::Command(Command::new("true"));
    ServerPlan { resources, ..ServerPlan::new("s", target) }
}

/// The URIs of these that are seen by somebody from whom a filter keeps others.
fn seen<'u>(filter: NameFilter, uris: &[&'u str]) -> Vec<&'u str> {
    let known = |kind| match kind {
        ListKind::Templates => {
            Some(list(&["db://{table}", "file:///{path}", "file:///open/{name}"]))
        }
        ListKind::Resources => Some(list(&["db://listed", "note://a", "Odd://%2e/../B"])),
        _ => None,
    };
    let (plan, grant) = (plan(filter), Grant::default());
    let visibility = Visibility { plan: &plan, grant: &grant };
    let is_seen = |uri: &&str| visibility.reaches(ListKind::Resources, uri, known) == Some(true);
    uris.iter().copied().filter(is_seen).collect()
}

fn never(patterns: &[&str]) -> NameFilter {
    NameFilter { never: list(patterns), only: None }
}

fn only(patterns: &[&str]) -> NameFilter {
    NameFilter { only: Some(list(patterns)), never: Vec::new() }
}

#[test]
fn a_uri_of_a_hidden_template_is_hidden_unless_another_fits_that_is_not() {
    let uris = ["db://users", "db://listed", "file:///a", "file:///open/a", "note://a", "x://y"];
    assert_eq!(seen(NameFilter::default(), &uris), uris);
    assert_eq!(
        seen(never(&["db://{table}"]), &uris),
        ["db://listed", "file:///a", "file:///open/a", "note://a", "x://y"],
        "what a list shows is not hidden by a template"
    );
    assert_eq!(
        seen(never(&["file:///{path}"]), &uris),
        ["db://users", "db://listed", "file:///open/a", "note://a", "x://y"]
    );
    assert_eq!(
        seen(never(&["db://*", "file:///open/*"]), &uris),
        ["file:///a", "note://a", "x://y"]
    );
    assert_eq!(seen(never(&["note://a"]), &uris).len(), 5);
    assert_eq!(seen(only(&["note://a"]), &uris), ["note://a"]);
    assert_eq!(
        seen(only(&["db://{table}", "x://*"]), &uris),
        ["db://users", "db://listed", "x://y"]
    );
    let both = NameFilter { only: Some(list(&["db://*"])), never: list(&["db://u*"]) };
    assert_eq!(seen(both, &uris), ["db://listed"]);
}

#[test]
fn no_other_spelling_leads_to_what_is_hidden() {
    let uris = [
        "db://users",
        "DB://users",
        " db://users",
        "db://users\n",
        "db://x/../users",
        "db://x/%2e%2e/users",
        "db://%75sers",
        "db://Users",
    ];
    assert_eq!(seen(NameFilter::default(), &uris), uris);
    assert_eq!(seen(never(&["db://users"]), &uris), [""; 0]);
    assert_eq!(seen(never(&["db://{table}"]), &uris), [""; 0]);
    assert_eq!(seen(never(&["db://%75SERS"]), &uris), [""; 0]);
    assert_eq!(seen(only(&["db://users", "note://*"]), &uris), ["db://users"]);
    let out = ["file:///open/../a", "file:///open/%2E./a", "file:///open/b", "FILE:///open/b"];
    assert_eq!(seen(only(&["file:///open/*"]), &out), ["file:///open/b"]);
    assert_eq!(seen(only(&["file:///open/{name}"]), &out), ["file:///open/b"]);
}

#[test]
fn other_filters_leave_odd_spellings_of_a_list_and_plain_ones_of_people_alone() {
    let uris = ["Odd://%2e/../B", "note://Inbox/ä", "x:y", "file:///a b", "Odd://b"];
    assert_eq!(seen(never(&["db://*"]), &uris), uris[..4]);
    assert_eq!(seen(never(&["Odd://*"]), &uris), uris[1..4]);
    assert_eq!(seen(only(&["Odd://*", "x:*"]), &uris), [uris[0], "x:y"]);
}

#[test]
fn what_lists_decide_is_not_decided_before_they_are_known() {
    let filter = NameFilter { only: Some(list(&["a://*", "b://{x}"])), never: list(&["a://b"]) };
    let (plan, grant) = (plan(filter), Grant::default());
    let reaches =
        |uri| Visibility { plan: &plan, grant: &grant }.reaches(ListKind::Resources, uri, |_| None);
    assert_eq!(reaches("a://b"), Some(false));
    assert_eq!(reaches("a://c"), Some(true));
    assert_eq!((reaches("b://c"), reaches("d://e")), (None, None));
}

#[test]
fn case_counts_and_what_is_completed_counts_as_what_it_is_of() {
    let (mut plan, grant) = (plan(never(&["db://{table}"])), Grant::default());
    plan.prompts = never(&["Secret*"]);
    plan.tools = never(&["Drop"]);
    let visibility = Visibility { plan: &plan, grant: &grant };
    let known = |_| Some(list(&["db://{table}", "db://{schema}"]));
    let reaches = |kind, own| visibility.reaches(kind, own, known) == Some(true);
    assert!(!reaches(ListKind::Tools, "Drop") && reaches(ListKind::Tools, "drop"));
    assert!(!reaches(ListKind::Prompts, "Secrets") && reaches(ListKind::Prompts, "secrets"));
    assert!(
        !reaches(ListKind::Templates, "db://{table}")
            && reaches(ListKind::Templates, "db://{schema}")
    );
}

fn message(method: &str, params: &str) -> Message {
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    parse_one(text.into()).unwrap()
}

#[test]
fn a_request_is_doubtful_where_its_server_may_read_another_name_than_we_do() {
    for params in [
        r#"{"name":"a","Name":"b"}"#,
        r#"{"name":"a","name":"b"}"#,
        r#"{"uri":"a","URI":"b"}"#,
        r#"{"taskId":"a","taskid":"b"}"#,
        r#"{"ref":{"type":"ref/prompt","name":"a","Name":"b"}}"#,
        r#"{"name":"a","Task":{}}"#,
        r#"{"name":"a","_meta":{"progressToken":1,"ProgressToken":2}}"#,
        r#"["a"]"#,
        r#"{"name":["a"]}"#,
        r#"{"name":{"a":1}}"#,
        "{}",
    ] {
        assert!(doubt(&message("tools/call", params)).is_some(), "{params}");
    }
    for (method, params) in [
        ("prompts/get", r#"{"name":["a"]}"#),
        ("resources/read", r#"{"uri":["a"]}"#),
        ("resources/subscribe", r#"{"uri":1}"#),
        ("completion/complete", r#"{"ref":{"name":"a"}}"#),
        ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":["a"]}}"#),
        ("completion/complete", r#"{"ref":["a"]}"#),
        ("subscriptions/listen", r#"{"notifications":{"resourceSubscriptions":["a",1]}}"#),
        ("subscriptions/listen", r#"{"notifications":{"resourceSubscriptions":"a"}}"#),
        ("subscriptions/listen", r#"{"notifications":[{"resourceSubscriptions":["a"]}]}"#),
    ] {
        assert!(doubt(&message(method, params)).is_some(), "{method} {params}");
    }
    for (method, params) in [
        ("resources/read", r#"{"uri":"a"}"#),
        ("completion/complete", r#"{"ref":{"type":"ref/resource","uri":"a"}}"#),
        ("subscriptions/listen", r#"{"notifications":{"resourceSubscriptions":["a"]}}"#),
        ("subscriptions/listen", r#"{"notifications":{"toolsListChanged":true}}"#),
    ] {
        assert_eq!(doubt(&message(method, params)), None, "{method} {params}");
    }
    let plain = r#"{"name":"a","arguments":{"Name":1,"name":2,"NAME":3},"_meta":{"x":1,"X":2}}"#;
    assert_eq!(doubt(&message("tools/call", plain)), None);
    assert_eq!(doubt(&message("x/y", r#"{"a":1,"A":2}"#)), None);
}

#[test]
fn what_is_left_of_a_list_stays_as_it_was_written() {
    let (mut plan, grant) = (plan(NameFilter::default()), Grant::default());
    plan.tools = never(&["b*"]);
    let visibility = Visibility { plan: &plan, grant: &grant };
    let answer = |result: &str| {
        parse_one(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#).into()).unwrap()
    };
    let whole = answer(r#"{"tools":[ {"name":"a", "x":1.0e0},{"name":"bee"}],"nextCursor":"c"}"#);
    let left = visibility.without_hidden(ListKind::Tools, &whole);
    assert_eq!(left.payload().unwrap(), br#"{"tools":[{"name":"a", "x":1.0e0}],"nextCursor":"c"}"#);
    let none = answer(r#"{"tools":[{"name":"a"}]}"#);
    assert_eq!(visibility.without_hidden(ListKind::Tools, &none).text(), none.text());
}
