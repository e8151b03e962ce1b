//! Greeting a server, losing it, greeting it again.

use super::*;

/// wire: LIF-1, LIF-2
#[test]
fn calls_wait_for_the_greeting_in_order() {
    check(
        fresh(Sharing::Alone),
        r"open a0: 0 initialize {}
           open a1: 1 tools/list
           note: notifications/x
           open a2: 2 tools/call {}
           drop a2
           recv: 1 = {}
           note: notifications/initialized
           note: notifications/initialized",
        r"send 1: 1 initialize {}
           send 2: 2 tools/list
           send 0: notifications/x
           a0: finish 1 = {}
           send 0: notifications/initialized",
    );
}

/// wire: LIF-1, LIF-4
#[test]
fn a_refused_greeting_fails_what_waited_for_it() {
    check(
        fresh(Sharing::Alone),
        r#"open a0: 0 initialize {"v":1}
           open a1: 1 tools/list
           recv: 1 ! -32602 no
           open a2: 0 initialize {"v":2}
           recv: 3 = {}"#,
        r#"send 1: 1 initialize {"v":1}
           a1: finish 1 ! -32602 no
           a0: finish 1 ! -32602 no
           send 3: 3 initialize {"v":2}
           a2: finish 3 = {}"#,
    );
}

/// wire: STD-6, STD-10, GW-82
#[test]
fn a_lost_server_fails_every_call_and_is_greeted_again_for_the_next() {
    check(
        ready(Sharing::Alone),
        r#"open a1: 1 resources/subscribe {"uri":"x:1"}
           recv: 2 = {}
           open a2: 2 logging/setLevel {"level":"info"}
           recv: 3 = {}
           open a3: 3 tools/call {}
           recv: 9 roots/list
           lost
           recv: 4 = {"late":true}
           note: notifications/roots/list_changed
           open a4: 4 tools/call {"again":false}
           open a5: 5 tools/list
           recv: 5 = {"capabilities":{"tools":{"listChanged":true}}}
           recv: 8 = {}
           recv: 9 = {}
           recv: 6 = {"ok":true}"#,
        r#"send 2: 2 resources/subscribe {"uri":"x:1"}
           a1: finish 2 = {}
           send 3: 3 logging/setLevel {"level":"info"}
           a2: finish 3 = {}
           send 4: 4 tools/call {}
           a3: ask q1 9 roots/list
           a3: finish - ! -32603 Transport closed
           a3: recall q1 notifications/cancelled {"requestId":0}
           send 5: 5 initialize {"v":1}
           send 0: notifications/initialized
           send 8: 8 resources/subscribe {"uri":"x:1"}
           send 9: 9 logging/setLevel {"level":"info"}
           send 6: 6 tools/call {"again":false}
           send 7: 7 tools/list
           all: note notifications/tools/list_changed
           a4: finish 6 = {"ok":true}"#,
    );
}

/// wire: HTTP-22, GW-82
#[test]
fn a_call_that_a_lost_session_refused_is_sent_once_more_and_never_twice() {
    check(
        ready(Sharing::Alone),
        r"open a1: 1 tools/call {}
           over 2
           recv 3: 3 = {}
           over 2
           over 99",
        r#"send 2: 2 tools/call {}
           send 3: 3 initialize {"v":1}
           send 0: notifications/initialized
           send 2: 2 tools/call {}
           a1: finish - ! -32001 Session not found"#,
    );
}

/// wire: HTTP-22
#[test]
fn a_late_refusal_by_the_old_session_does_not_end_the_new_one() {
    check(
        ready(Sharing::Alone),
        r"open a1: 1 tools/call {}
           open a2: 2 tools/call {}
           over 2
           recv 4: 4 = {}
           over 3
           recv 3: 3 = {}",
        r#"send 2: 2 tools/call {}
           send 3: 3 tools/call {}
           send 4: 4 initialize {"v":1}
           send 0: notifications/initialized
           send 2: 2 tools/call {}
           send 3: 3 tools/call {}
           a2: finish 3 = {}"#,
    );
}

/// wire: HTTP-22, UTL-7
#[test]
fn questions_of_a_session_that_is_over_are_recalled_and_their_calls_fail() {
    check(
        ready(Sharing::Alone),
        r"open a1: 1 tools/call {}
           recv 2: 5 roots/list
           open a2: 2 tools/call {}
           open a3: 3 tools/call {}
           over 3
           supply q1: 0 = {}
           recv 4: 4 = {}",
        r#"send 2: 2 tools/call {}
           a1: ask q1 5 roots/list
           send 3: 3 tools/call {}
           send 4: 4 tools/call {}
           send 5: 5 initialize {"v":1}
           abort 2
           a1: recall q1 notifications/cancelled {"requestId":0}
           a1: finish - ! -32603 the server has forgotten the session in which it asked something; make the call again
           a3: finish 4 = {}"#,
    );
}

/// wire: HTTP-22
#[test]
fn the_call_that_the_session_refused_is_sent_again_whatever_was_asked() {
    check(
        ready(Sharing::Alone),
        r"open a1: 1 tools/call {}
           recv: 5 roots/list
           over 2
           recv 3: 3 = {}",
        r#"send 2: 2 tools/call {}
           a1: ask q1 5 roots/list
           send 3: 3 initialize {"v":1}
           a1: recall q1 notifications/cancelled {"requestId":0}
           send 0: notifications/initialized
           send 2: 2 tools/call {}"#,
    );
}

/// wire: HTTP-22
#[test]
fn a_session_may_be_renewed_without_a_call_and_once_at_a_time() {
    let capable = r#"= {"capabilities":{"tools":{"listChanged":true}}}"#;
    check(
        ready(Sharing::Alone),
        &format!(
            r#"open a1: 1 resources/subscribe {{"uri":"a://1"}}
               recv 2: 2 = {{}}
               over
               over
               unanswered 3
               over
               recv 4: 4 {capable}"#
        ),
        r#"send 2: 2 resources/subscribe {"uri":"a://1"}
           a1: finish 2 = {}
           send 3: 3 initialize {"v":1}
           send 4: 4 initialize {"v":1}
           send 0: notifications/initialized
           send 5: 5 resources/subscribe {"uri":"a://1"}
           all: note notifications/tools/list_changed"#,
    );
    check(fresh(Sharing::Alone), "over", "");
}

/// wire: GW-51
#[test]
fn what_was_not_heard_for_a_while_may_have_changed() {
    check(ready(Sharing::Alone), "gap", "all: note notifications/tools/list_changed");
    check(fresh(Sharing::Alone), "gap", "");
}

/// wire: GW-46
#[test]
fn a_call_fails_whose_answer_is_not_taken() {
    check(
        ready(Sharing::Alone),
        r"open a1: 1 tools/call {}
           recv 2: 5 roots/list
           open a2: 2 tools/call {}
           recv 3: 5 roots/list
           supply q1: 0 = {}
           unsupplied: 5 = {}
           unsupplied: 5 = {}
           unsupplied: 6 = {}
           recv 3: 3 = {}",
        r#"send 2: 2 tools/call {}
           a1: ask q1 5 roots/list
           send 3: 3 tools/call {}
           a2: ask q2 5 roots/list
           send 0: 5 = {}
           send 0: notifications/cancelled {"requestId":2}
           abort 2
           a1: finish - ! -32603 the server did not take the answer to what it asked; make the call again
           a2: finish 3 = {}"#,
    );
}

/// wire: HTTP-22
#[test]
fn a_greeting_is_not_repeated_when_the_session_is_over() {
    check(
        fresh(Sharing::Alone),
        r"open a0: 0 initialize {}
           over 1",
        r"send 1: 1 initialize {}
           a0: finish - ! -32001 Session not found",
    );
}

/// wire: GW-82
#[test]
fn a_revival_that_fails_fails_what_waited_and_the_next_call_tries_again() {
    check(
        ready(Sharing::Alone),
        r"lost
           open a1: 1 tools/call {}
           recv: 2 ! -32603 not now
           open a2: 2 tools/call {}
           unanswered 4
           open a3: 3 tools/list",
        r#"send 2: 2 initialize {"v":1}
           a1: finish 2 ! -32603 not now
           send 4: 4 initialize {"v":1}
           a2: finish - ! -32603 gone
           send 6: 6 initialize {"v":1}"#,
    );
}

/// wire: UTL-1
#[test]
fn a_greeting_is_never_cancelled_even_when_it_takes_too_long() {
    check(
        fresh(Sharing::Alone),
        r"open a0: 0 initialize {}
           at 30s
           open a1: 1 tools/list
           at 60s
           recv: 1 = {}",
        r"send 1: 1 initialize {}
           a0: finish - ! -32603 Request timeout after 60000ms
           a1: finish - ! -32603 Request timeout after 60000ms",
    );
}

/// wire: CAN-4
#[test]
fn a_call_that_waited_in_vain_is_not_sent_afterwards() {
    check(
        ready(Sharing::Alone),
        r"lost
           open a1: 1 tools/call {}
           at 30s
           open a2: 2 tools/call {}
           at 59s
           drop a2
           at 60s
           open a3: 3 tools/list
           recv: 5 = {}",
        r#"send 2: 2 initialize {"v":1}
           a1: finish - ! -32603 Request timeout after 60000ms
           send 5: 5 initialize {"v":1}
           send 0: notifications/initialized
           send 6: 6 tools/list"#,
    );
}

#[test]
fn notes_that_wait_for_a_greeting_are_bounded() {
    let mut half = fresh(Sharing::Alone);
    half.open(Name("a0".into()), &message("0 initialize {}"), start());
    for _ in 0..10_000 {
        half.note(message("notifications/x"), start());
    }
    assert!(half.held.len() <= 32, "{}", half.held.len());
}

/// The tasks of a session are forgotten with it.
///
/// wire: HTTP-22
#[test]
fn no_task_of_a_session_that_is_over_is_waited_for() {
    let (mut half, now) = (ready(Sharing::Alone), start());
    half.open(Name("a1".into()), &message("1 tools/call {}"), now);
    let begun = r#"2 = {"task":{"taskId":"t","status":"working"}}"#;
    half.handle_message(Lane(2), &message(begun), now);
    assert!(half.is_needed(now));
    half.open(Name("a2".into()), &message("2 tools/list"), now);
    half.handle_session_over(Lane(3), now);
    assert!(!half.is_needed(now));
}
