//! Calls, questions and notes of one client.

use super::*;

/// wire: MSG-2, MSG-3, CAN-3
#[test]
fn answers_find_their_call_in_any_order_and_once() {
    check(
        ready(Sharing::Alone),
        r#"open a1: "x" tools/call {"name":"t"}
           open a2: "x" tools/list
           recv: 3 = {"tools":[]}
           recv: 2 ! -32602 no
           recv: 2 = {}
           recv: "3" = {}
           recv: - ! -32600 what"#,
        r#"send 2: 2 tools/call {"name":"t"}
           send 3: 3 tools/list
           a2: finish 3 = {"tools":[]}
           a1: finish 2 ! -32602 no"#,
    );
}

/// wire: UTL-1, CAN-2, CAN-3
#[test]
fn a_dropped_call_is_cancelled_in_the_words_of_its_client() {
    check(
        ready(Sharing::Alone),
        r#"open a1: "x" tools/call {}
           open a2: "y" tools/call {}
           drop a1: notifications/cancelled {"reason":"r","requestId":"x"}
           drop a2
           drop a1
           recv: 2 = {}
           recv: notifications/progress {"progressToken":"none"}"#,
        r#"send 2: 2 tools/call {}
           send 3: 3 tools/call {}
           send 0: notifications/cancelled {"reason":"r","requestId":2}
           abort 2
           send 0: notifications/cancelled {"requestId":3}
           abort 3
           all: note notifications/progress {"progressToken":"none"}"#,
    );
}

/// A server that minds no case would read the id of somebody else's call in them.
#[test]
fn words_that_may_name_another_call_are_not_passed_on() {
    check(
        ready(Sharing::Shared),
        r#"open a1: "x" tools/call {}
           open b1: "y" tools/call {}
           drop a1: notifications/cancelled {"requestId":"x","RequestId":3,"reason":"r"}
           drop b1: notifications/cancelled {"requestId":2,"requestId":"y"}"#,
        r#"send 2: 2 tools/call {}
           send 3: 3 tools/call {}
           send 0: notifications/cancelled {"requestId":2}
           abort 2
           send 0: notifications/cancelled {"requestId":3}
           abort 3"#,
    );
}

/// wire: UTL-1, HTTP-9
#[test]
fn what_a_server_says_to_a_cancelled_call_is_passed_on() {
    check(
        ready(Sharing::Alone),
        r#"open a1!: 1 tools/call {}
           open a2!: 2 tools/call {}
           open a3!: 3 tools/call {}
           open a4!: 4 tools/call {}
           open a5!: 5 tools/call {}
           drop a1!: notifications/cancelled {"requestId":1}
           drop a2!: notifications/cancelled {"requestId":2}
           drop a3!: notifications/cancelled {"requestId":3}
           drop a4!: notifications/cancelled {"requestId":4}
           drop a5!
           recv: 2 = {}
           recv: 2 = {}
           recv: 3 ! 0 cancelled
           unanswered 4
           recv: 4 = {}
           at 4s
           at 5s
           recv: 5 = {}
           recv: 6 = {}"#,
        r#"send 2: 2 tools/call {}
           send 3: 3 tools/call {}
           send 4: 4 tools/call {}
           send 5: 5 tools/call {}
           send 6: 6 tools/call {}
           send 0: notifications/cancelled {"requestId":2}
           send 0: notifications/cancelled {"requestId":3}
           send 0: notifications/cancelled {"requestId":4}
           send 0: notifications/cancelled {"requestId":5}
           send 0: notifications/cancelled {"requestId":6}
           abort 6
           a1!: finish 2 = {}
           a2!: finish 3 ! 0 cancelled
           a3!: unanswered
           abort 5
           a4!: unanswered"#,
    );
}

#[test]
fn a_cancelled_call_ends_with_its_link_and_with_its_client() {
    check(
        ready(Sharing::Alone),
        r#"open a1!: 1 tools/call {}
           open b1!: 1 tools/call {}
           drop a1!: notifications/cancelled {"requestId":1}
           drop b1!: notifications/cancelled {"requestId":1}
           forget b
           recv: 3 = {}
           lost"#,
        r#"send 2: 2 tools/call {}
           send 3: 3 tools/call {}
           send 0: notifications/cancelled {"requestId":2}
           send 0: notifications/cancelled {"requestId":3}
           abort 3
           a1!: unanswered"#,
    );
}

/// wire: CAN-4, UTL-6
#[test]
fn a_call_that_takes_too_long_is_cancelled_and_progress_buys_time() {
    check(
        ready(Sharing::Alone),
        r#"open a1: 1 tools/call {"_meta":{"progressToken":"t"}}
           open a2: 2 tools/call {}
           at 50s
           recv: notifications/progress {"progressToken":"t","progress":1}
           at 60s
           at 110s"#,
        r#"send 2: 2 tools/call {"_meta":{"progressToken":"t"}}
           send 3: 3 tools/call {}
           a1: note notifications/progress {"progressToken":"t","progress":1}
           send 0: notifications/cancelled {"requestId":3}
           abort 3
           a2: finish - ! -32603 Request timeout after 60000ms
           send 0: notifications/cancelled {"requestId":2}
           abort 2
           a1: finish - ! -32603 Request timeout after 110000ms"#,
    );
}

/// wire: UTL-2, PRG-1
#[test]
fn a_token_is_the_same_however_it_is_spelled() {
    check(
        ready(Sharing::Alone),
        r#"open a1: 1 tools/call {"_meta":{"progressToken":"caf\u00e9"}}
           recv: notifications/progress {"progressToken":"café"}"#,
        r#"send 2: 2 tools/call {"_meta":{"progressToken":"caf\u00e9"}}
           a1: note notifications/progress {"progressToken":"café"}"#,
    );
}

/// A task goes on reporting under the token of the call that began it.
///
/// wire: UTL-2
#[test]
fn progress_after_the_answer_still_reaches_a_lone_client() {
    check(
        ready(Sharing::Alone),
        r#"open a1: 1 tools/call {"task":{},"_meta":{"progressToken":7}}
           recv: 2 = {"task":{}}
           recv: notifications/progress {"progressToken":7}"#,
        r#"send 2: 2 tools/call {"task":{},"_meta":{"progressToken":7}}
           a1: finish 2 = {"task":{}}
           all: note notifications/progress {"progressToken":7}"#,
    );
}

/// wire: UTL-3, UTL-7, HTTP-7
#[test]
fn questions_go_to_the_call_of_their_lane_and_pings_to_nobody() {
    check(
        ready(Sharing::Alone),
        r#"open a1: 1 tools/call {}
           open a2: 2 tools/call {}
           recv 3: "s" elicitation/create {}
           recv 2: 5 sampling/createMessage {}
           recv: 6 ping
           supply q2: 1 = {"role":"assistant"}
           supply q1: 1 ! -1 refused by the user
           supply q1: 1 = {}"#,
        r#"send 2: 2 tools/call {}
           send 3: 3 tools/call {}
           a2: ask q1 "s" elicitation/create {}
           a1: ask q2 5 sampling/createMessage {}
           send 0: 6 = {}
           send 0: 5 = {"role":"assistant"}
           send 0: "s" ! -1 refused by the user"#,
    );
}

/// wire: UTL-7, LOG-1
#[test]
fn on_a_pipe_the_sole_call_that_may_be_asked_about_is_meant() {
    check(
        ready(Sharing::Alone),
        r#"recv: 5 roots/list
           open a1: 1 tools/list
           open a2: 2 tools/call {}
           recv: 6 roots/list
           recv: notifications/message {"level":"info"}
           supply q1: 0 = {}
           open a3: 3 prompts/get {}
           recv: 7 roots/list
           recv: notifications/message {"level":"info"}"#,
        r#"all: ask q1 5 roots/list
           send 2: 2 tools/list
           send 3: 3 tools/call {}
           a2: ask q2 6 roots/list
           a2: note notifications/message {"level":"info"}
           send 0: 5 = {}
           send 4: 4 prompts/get {}
           all: ask q3 7 roots/list
           all: note notifications/message {"level":"info"}"#,
    );
}

/// wire: UTL-1
#[test]
fn a_server_may_take_its_question_back() {
    check(
        ready(Sharing::Alone),
        r#"open a1: 1 tools/call {}
           recv 2: "s" elicitation/create {}
           recv: notifications/cancelled {"requestId":"t"}
           recv: notifications/cancelled {"requestId":"s","reason":"r"}
           supply q1: 0 = {}"#,
        r#"send 2: 2 tools/call {}
           a1: ask q1 "s" elicitation/create {}
           a1: recall q1 notifications/cancelled {"requestId":"s","reason":"r"}"#,
    );
}

/// Replayed events must not make the user answer twice.
///
/// wire: MSG-2, HTTP-18
#[test]
fn a_question_that_is_repeated_is_asked_once() {
    check(
        ready(Sharing::Alone),
        r#"open a1: 1 tools/call {}
           recv 2: "s" elicitation/create {}
           recv 2: "s" elicitation/create {}
           open a2: 2 tools/call {}
           recv 3: "s" roots/list
           supply q1: 0 = {"action":"accept"}
           recv 2: "s" elicitation/create {}
           recv 3: "s" roots/list
           recv 2: "t" elicitation/create {}"#,
        r#"send 2: 2 tools/call {}
           a1: ask q1 "s" elicitation/create {}
           send 3: 3 tools/call {}
           a2: ask q2 "s" roots/list
           send 0: "s" = {"action":"accept"}
           a1: ask q3 "t" elicitation/create {}"#,
    );
}

/// wire: UTL-7
#[test]
fn questions_nobody_answered_make_room_once_their_call_is_over() {
    check(
        ready(Sharing::Alone),
        r"open a1: 1 tools/call {}
           recv 2: 1 roots/list
           recv 2: 2 roots/list
           recv 2: 3 roots/list
           recv 2: 2 = {}
           recv: 4 roots/list
           supply q2: 0 = {}",
        r#"send 2: 2 tools/call {}
           a1: ask q1 1 roots/list
           a1: ask q2 2 roots/list
           send 0: 3 ! -32601 no client can answer this request: none is connected, or it lacks the capability
           a1: finish 2 = {}
           send 0: 1 ! -32601 no client can answer this request: none is connected, or it lacks the capability
           a1: recall q1 notifications/cancelled {"requestId":0}
           all: ask q3 4 roots/list
           send 0: 2 = {}"#,
    );
}

/// wire: GW-47
#[test]
fn what_a_server_asks_about_a_dropped_call_is_not_put_to_another_client() {
    check(
        ready(Sharing::Shared),
        r#"open a1: 1 tools/call {}
           open b1: 1 tools/call {}
           drop a1
           recv: "q" roots/list
           recv: 2 = {}
           recv: "r" roots/list"#,
        r#"send 2: 2 tools/call {}
           send 3: 3 tools/call {}
           send 0: notifications/cancelled {"requestId":2}
           abort 2
           send 0: "q" ! -32601 no client can answer this request: none is connected, or it lacks the capability
           b1: ask q1 "r" roots/list"#,
    );
}

#[test]
fn calls_beyond_the_limit_are_refused() {
    let mut half = ready(Sharing::Alone);
    for number in 0..16 {
        half.open(Name(format!("a{number}")), &message("1 x"), start());
    }
    assert_eq!((half.ledger.open.len(), half.to_client.0.len()), (16, 0));
    half.open(Name("a99".into()), &message("1 x"), start());
    assert_eq!((half.ledger.open.len(), half.to_client.0.len()), (16, 1));
}

/// wire: STD-10
#[test]
fn a_lane_that_ends_without_an_answer_fails_its_call_and_no_other() {
    check(
        ready(Sharing::Alone),
        r"open a1: 1 tools/call {}
           open a2: 2 tools/call {}
           unanswered 2
           unanswered 2
           recv 3: 3 = {}",
        r"send 2: 2 tools/call {}
           send 3: 3 tools/call {}
           a1: finish - ! -32603 gone
           a2: finish 3 = {}",
    );
}
