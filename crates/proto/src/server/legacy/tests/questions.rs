//! Notes and questions: on which stream they go, and how their answers come back.

use super::*;

/// wire: HTTP-6, HTTP-7, UTL-2
#[test]
fn what_belongs_to_a_call_goes_on_its_stream() {
    check(
        ready(Carrier::Http, V2025_06),
        r#"get 9
           post 2: 1 tools/call {}
           post 3: 2 tools/call {}
           note 3: notifications/progress {"progressToken":"b"}
           note 2: notifications/progress {"progressToken":"a"}
           finish 2: 0 = {}
           finish 3: 0 ! -32603 no
           note: notifications/tools/list_changed"#,
        r#"lane 9: begin
           up: open 2 1 tools/call {}
           up: open 3 2 tools/call {}
           lane 3: begin
           lane 3: event 3-1 notifications/progress {"progressToken":"b"}
           lane 2: begin
           lane 2: event 2-1 notifications/progress {"progressToken":"a"}
           lane 2: event 2-2 1 = {}
           lane 2: end
           lane 3: event 3-2 2 ! -32603 no
           lane 3: end
           lane 9: event 0-1 notifications/tools/list_changed"#,
    );
}

/// wire: HTTP-7, UTL-7
#[test]
fn each_question_finds_its_call_and_each_answer_its_question() {
    check(
        ready(Carrier::Http, V2025_11),
        r#"post 2: 1 tools/call {}
           post 3: 2 tools/call {}
           ask 3 q7: "s-1" elicitation/create {"mode":"form"}
           ask 2 q8: "s-2" sampling/createMessage {"x":1}
           ask 2 q9: "s-3" roots/list
           post 4: 2 = {"role":"assistant"}
           post 5: 3 ! -32601 no roots
           post 6: 1 = {"action":"decline"}
           post 7: 1 = {"action":"accept"}
           post 8: "1" = {}
           post 9: - ! -32600 what"#,
        r#"up: open 2 1 tools/call {}
           up: open 3 2 tools/call {}
           lane 3: begin 3-0 retry 1000
           lane 3: event 3-1 1 elicitation/create {"mode":"form"}
           lane 2: begin 2-0 retry 1000
           lane 2: event 2-1 2 sampling/createMessage {"x":1}
           lane 2: event 2-2 3 roots/list
           lane 4: accepted
           up: supply q8 2 = {"role":"assistant"}
           lane 5: accepted
           up: supply q9 3 ! -32601 no roots
           lane 6: accepted
           up: supply q7 1 = {"action":"decline"}
           lane 7: accepted
           lane 8: accepted
           lane 9: accepted"#,
    );
}

#[test]
fn a_client_is_asked_for_nothing_but_what_it_declared() {
    let mut half = fresh(Carrier::Pipe);
    let hello = r#"0 initialize {"capabilities":{"roots":{},"sampling":null}}"#;
    arrive(&mut half, Lane::MAIN, hello);
    half.finish(Exchange(1), &message(r#"0 = {"protocolVersion":"2025-11-25"}"#));
    let mut asks = |method: &str| half.ask(None, Ask(1), &message(&format!("5 {method} {{}}")));
    assert!(!asks("sampling/createMessage") && !asks("elicitation/create"));
    assert!(asks("roots/list"));
    assert!(asks("x/unknown"), "what is not known passes");
}

/// wire: HTTP-14, HTTP-16
#[test]
fn a_question_about_no_call_goes_to_a_listener_else_to_the_newest_call() {
    check(
        ready(Carrier::Http, V2025_06),
        r"post 2: 1 tools/call {}
           post 3: 2 tools/call {}
           ask q1: 5 roots/list
           get 9
           ask q2: 6 roots/list",
        "up: open 2 1 tools/call {}
         up: open 3 2 tools/call {}
         lane 3: begin
         lane 3: event 3-1 1 roots/list
         lane 9: begin
         lane 9: event 0-1 2 roots/list",
    );
}

/// wire: UTL-1
#[test]
fn a_recalled_question_is_cancelled_under_the_id_the_client_knows() {
    check(
        ready(Carrier::Pipe, V2025_11),
        r#"line: 1 tools/call {}
           ask 2 q7: "srv" elicitation/create {}
           recall q7: notifications/cancelled {"reason":"r","requestId":"srv"}
           recall q7: notifications/cancelled {"requestId":"srv"}
           line: 1 = {"action":"accept"}
           ask q8: "srv2" roots/list
           recall q8: notifications/cancelled"#,
        r#"up: open 2 1 tools/call {}
           lane 0: 1 elicitation/create {}
           lane 0: notifications/cancelled {"reason":"r","requestId":1}
           lane 0: 2 roots/list
           lane 0: notifications/cancelled {"requestId":2}"#,
    );
}

#[test]
fn questions_beyond_the_limit_and_after_the_end_find_nobody() {
    let mut half = with_limits(Carrier::Pipe, V2025_06, |limits| limits.asks = 2);
    let question = message("1 roots/list");
    assert!(half.ask(None, Ask(1), &question));
    assert!(half.ask(None, Ask(2), &question));
    assert!(!half.ask(None, Ask(3), &question));
    half.handle_incoming(Lane::MAIN, parse(wire("1 = {}")).unwrap());
    assert!(half.ask(None, Ask(4), &question));
    half.handle_incoming(Lane::MAIN, parse(wire("2 = {}")).unwrap());
    half.end();
    assert!(!half.ask(None, Ask(5), &question));
}

#[test]
fn a_lone_client_hears_every_update() {
    check(
        ready(Carrier::Pipe, V2025_06),
        r#"note: notifications/resources/updated {"uri":"file:///a"}"#,
        r#"lane 0: notifications/resources/updated {"uri":"file:///a"}"#,
    );
}

/// A server may put a question to rest after the call it came with: `roots/list`
/// on a pipe cannot be told from a question about the call that happens to run.
///
/// wire: UTL-7, MSG-3
#[test]
fn a_question_outlives_the_call_it_was_asked_on() {
    check(
        ready(Carrier::Pipe, V2025_11),
        r#"line: 1 tools/call {}
           ask 2 q7: "srv" roots/list
           finish 2: 0 = {}
           line: 1 = {"roots":[]}
           line: 2 tools/call {}
           ask 3 q8: "srv" roots/list
           line: notifications/cancelled {"requestId":2}
           line: 2 = {"roots":[]}"#,
        r#"up: open 2 1 tools/call {}
           lane 0: 1 roots/list
           lane 0: 1 = {}
           up: supply q7 1 = {"roots":[]}
           up: open 3 2 tools/call {}
           lane 0: 2 roots/list
           up: drop 3 notifications/cancelled {"requestId":2}
           up: supply q8 2 = {"roots":[]}"#,
    );
}

/// wire: UTL-2, PRG-1
#[test]
fn progress_of_a_call_that_is_over_is_not_said() {
    check(
        ready(Carrier::Http, V2025_11),
        r#"get 9
           post 2: 1 tools/call {}
           post 3: notifications/cancelled {"requestId":1}
           note 2: notifications/progress {"progressToken":1}
           note 2: notifications/tools/list_changed"#,
        r#"lane 9: begin 0-0 retry 1000
           up: open 2 1 tools/call {}
           lane 3: accepted
           up: drop 2 notifications/cancelled {"requestId":1}
           lane 2: end
           lane 9: event 0-1 notifications/tools/list_changed"#,
    );
}

/// wire: SUB-13
#[test]
fn where_clients_share_a_server_only_the_watcher_hears_of_an_update() {
    let half = greeted(fresh(Carrier::Pipe).sharing(), V2025_06);
    check(
        half,
        r#"note: notifications/resources/updated {"uri":"file:///a"}
           line: 1 resources/subscribe {"uri":"file:///a"}
           note: notifications/resources/updated {"uri":"file:///a"}
           note: notifications/resources/updated {"uri":"file:///a/b"}
           note: notifications/resources/updated {"uri":"file:///a?q"}
           note: notifications/resources/updated {"uri":"file:///abc"}
           note: notifications/resources/updated {"uri":"file:///"}
           note: notifications/resources/updated {}
           line: 2 resources/unsubscribe {"uri":"file:///a"}
           note: notifications/resources/updated {"uri":"file:///a"}
           note: notifications/tools/list_changed"#,
        r#"up: open 2 1 resources/subscribe {"uri":"file:///a"}
           lane 0: notifications/resources/updated {"uri":"file:///a"}
           lane 0: notifications/resources/updated {"uri":"file:///a/b"}
           lane 0: notifications/resources/updated {"uri":"file:///a?q"}
           up: open 3 2 resources/unsubscribe {"uri":"file:///a"}
           lane 0: notifications/tools/list_changed"#,
    );
}

/// wire: SUB-13
#[test]
fn where_clients_share_a_server_who_was_refused_does_not_hear_what_others_watch() {
    for (end, then) in [
        ("finish 2: 0 ! -32002 no", "lane 0: 1 ! -32002 no\n"),
        (
            "line: notifications/cancelled {\"requestId\":1}",
            "up: drop 2 notifications/cancelled {\"requestId\":1}\n",
        ),
    ] {
        let script = format!(
            r#"line: 1 resources/subscribe {{"uri":"x:1"}}
               {end}
               note: notifications/resources/updated {{"uri":"x:1"}}
               line: 2 resources/subscribe {{"uri":"x:1"}}
               line: 3 resources/subscribe {{"uri":"x:1"}}
               finish 4: 0 = {{}}
               finish 3: 0 ! -1 it is already
               note: notifications/resources/updated {{"uri":"x:1"}}"#
        );
        let expected = format!(
            r#"up: open 2 1 resources/subscribe {{"uri":"x:1"}}
               {then}
               up: open 3 2 resources/subscribe {{"uri":"x:1"}}
               up: open 4 3 resources/subscribe {{"uri":"x:1"}}
               lane 0: 3 = {{}}
               lane 0: 2 ! -1 it is already
               lane 0: notifications/resources/updated {{"uri":"x:1"}}"#
        );
        check(greeted(fresh(Carrier::Pipe).sharing(), V2025_06), &script, &expected);
    }
}

#[test]
fn watching_is_bounded() {
    let mut half = greeted(fresh(Carrier::Pipe).sharing(), V2025_06);
    let most = 4096;
    for number in 0..=most {
        let request = format!("{number} resources/subscribe {{\"uri\":\"x:{number}\"}}");
        half.handle_incoming(Lane::MAIN, parse(wire(&request)).unwrap());
        half.finish(Exchange(number as u64 + 2), &message("0 = {}"));
    }
    let refused = std::iter::from_fn(|| half.poll_transmit()).last().unwrap();
    let Frame::Message { text, .. } = refused.1 else { panic!("a pipe has only messages") };
    assert!(
        show_text(&text)
            .ends_with("! -32603 too many resources are watched; stop watching one first")
    );
    assert_eq!(half.watched.uris().count(), most);
}
