//! Several clients on one server.

use super::*;

/// wire: STD-9, PRG-1
#[test]
fn tokens_are_rewritten_and_come_back_with_their_type() {
    check(
        ready(Sharing::Shared),
        r#"open a1: 1 tools/call {"_meta":{"progressToken":1,"k":"v"}}
           open b1: 1 tools/call {"_meta":{"progressToken":"1"}}
           recv: notifications/progress {"progressToken":"switchboard-2","progress":1}
           recv: notifications/progress {"progressToken":"switchboard-1","progress":2}
           recv: 2 = {}
           recv: notifications/progress {"progressToken":"switchboard-1","progress":3}
           recv: notifications/progress {"progressToken":1}"#,
        r#"send 2: 2 tools/call {"_meta":{"progressToken":"switchboard-1","k":"v"}}
           send 3: 3 tools/call {"_meta":{"progressToken":"switchboard-2"}}
           b1: note notifications/progress {"progressToken":"1","progress":1}
           a1: note notifications/progress {"progressToken":1,"progress":2}
           a1: finish 2 = {}"#,
    );
}

/// wire: STD-9, LIF-1
#[test]
fn the_greeting_is_shared() {
    check(
        fresh(Sharing::Shared),
        r#"open a0: 0 initialize {"v":1}
           open b0: 0 initialize {"v":2}
           recv: 1 = {"w":1}
           note: notifications/initialized
           open c0: 0 initialize {"v":3}
           note: notifications/initialized
           lost
           open d0: 0 initialize {"v":4}
           open d1: 0 tools/list"#,
        r#"send 1: 1 initialize {"v":1}
           b0: finish 1 = {"w":1}
           a0: finish 1 = {"w":1}
           send 0: notifications/initialized
           c0: finish 1 = {"w":1}
           d0: finish 1 = {"w":1}
           send 2: 2 initialize {"v":1}"#,
    );
}

/// wire: UTL-1, STD-10
#[test]
fn a_greeting_goes_on_when_the_client_that_began_it_is_gone() {
    check(
        fresh(Sharing::Shared),
        r#"open a0: 0 initialize {"v":1}
           open b0: 0 initialize {"v":2}
           open c0: 0 initialize {"v":2}
           forget a
           forget c
           recv: 1 = {"w":1}
           note: notifications/initialized
           open b1: 1 tools/list"#,
        r#"send 1: 1 initialize {"v":1}
           send 0: notifications/initialized
           b0: finish 1 = {"w":1}
           send 2: 2 tools/list"#,
    );
}

#[test]
fn a_greeting_during_a_revival_is_answered_with_it() {
    let hello = message(r#"0 initialize {"ours":true}"#);
    check(
        fresh(Sharing::Shared).greeted_with(hello),
        r#"open a1: 1 tools/list
           open b0: 0 initialize {}
           recv: 1 = {"w":1}"#,
        r#"send 1: 1 initialize {"ours":true}
           send 0: notifications/initialized
           send 2: 2 tools/list
           b0: finish 1 = {"w":1}"#,
    );
}

/// wire: STD-9, GW-81
#[test]
fn watches_are_counted() {
    check(
        ready(Sharing::Shared),
        r#"open a1: 1 resources/subscribe {"uri":"x:1"}
           open b1: 1 resources/subscribe {"uri":"x:1"}
           open a2: 2 resources/unsubscribe {"uri":"x:1"}
           open b2: 2 resources/unsubscribe {"uri":"x:1"}
           open a3: 3 resources/subscribe {"uri":"x:2"}
           recv: notifications/resources/updated {"uri":"x:2"}
           recv: 5 = {}
           forget a"#,
        r#"send 2: 2 resources/subscribe {"uri":"x:1"}
           send 3: 3 resources/subscribe {"uri":"x:1"}
           a2: finish 0 = {}
           send 4: 4 resources/unsubscribe {"uri":"x:1"}
           send 5: 5 resources/subscribe {"uri":"x:2"}
           all: note notifications/resources/updated {"uri":"x:2"}
           a3: finish 5 = {}
           send 0: notifications/cancelled {"requestId":2}
           abort 2
           send 6: 6 resources/unsubscribe {"uri":"x:2"}"#,
    );
}

/// wire: STD-9, HTTP-16
#[test]
fn what_cannot_be_told_whose_it_is_goes_to_nobody() {
    check(
        ready(Sharing::Shared),
        r#"recv: 5 roots/list
           recv: notifications/message {"level":"info"}
           open a1: 1 tools/call {}
           recv: notifications/message {"of":"a"}
           recv: 6 roots/list
           open b1: 1 tools/call {}
           recv: 7 roots/list
           recv: notifications/message {"level":"info"}
           recv: notifications/elicitation/complete {"elicitationId":"e"}
           recv: notifications/tasks/status {"taskId":"secret"}
           recv: notifications/tools/list_changed
           recv 3: notifications/tasks/status {"taskId":"b"}
           recv: 3 = {}
           open b2: 2 tools/list
           recv: notifications/message {"of":"a or b"}"#,
        r#"send 0: 5 ! -32601 no client can answer this request: none is connected, or it lacks the capability
           send 2: 2 tools/call {}
           a1: note notifications/message {"of":"a"}
           a1: ask q1 6 roots/list
           send 3: 3 tools/call {}
           send 0: 7 ! -32601 no client can answer this request: none is connected, or it lacks the capability
           all: note notifications/tools/list_changed
           b1: note notifications/tasks/status {"taskId":"b"}
           b1: finish 3 = {}
           send 4: 4 tools/list"#,
    );
}

/// wire: GW-47
#[test]
fn what_the_stream_of_a_dropped_call_asks_is_not_asked_on_another() {
    for sharing in [Sharing::Alone, Sharing::Shared] {
        check(
            ready(sharing),
            r"open a1: 1 tools/call {}
               open b1: 1 tools/call {}
               forget a
               recv 2: 5 roots/list",
            r#"send 2: 2 tools/call {}
               send 3: 3 tools/call {}
               send 0: notifications/cancelled {"requestId":2}
               abort 2
               send 0: 5 ! -32601 no client can answer this request: none is connected, or it lacks the capability"#,
        );
    }
}

/// wire: GW-47
#[test]
fn one_client_of_several_is_asked_on_its_calls_in_turn_while_the_others_have_none() {
    check(
        ready(Sharing::Shared),
        r"open a1: 1 tools/call {}
           open a2: 2 tools/call {}
           open b1: 1 tools/list
           recv: 5 roots/list
           recv: 6 roots/list
           supply q1: 0 = {}
           recv: 7 roots/list
           supply q2: 0 = {}
           open b2: 2 tools/call {}
           recv: 8 roots/list",
        r"send 2: 2 tools/call {}
           send 3: 3 tools/call {}
           send 4: 4 tools/list
           a1: ask q1 5 roots/list
           a2: ask q2 6 roots/list
           send 0: 5 = {}
           a1: ask q3 7 roots/list
           send 0: 6 = {}
           send 5: 5 tools/call {}
           send 0: 8 ! -32601 no client can answer this request: none is connected, or it lacks the capability",
    );
}

/// wire: STD-10
#[test]
fn a_client_that_is_gone_takes_its_calls_and_questions_with_it() {
    check(
        ready(Sharing::Shared),
        r"open a1: 1 tools/call {}
           recv: 5 roots/list
           open b1: 1 tools/call {}
           forget a
           recv: 2 = {}
           recv: 3 = {}
           supply q1: 0 = {}",
        r#"send 2: 2 tools/call {}
           a1: ask q1 5 roots/list
           send 3: 3 tools/call {}
           send 0: notifications/cancelled {"requestId":2}
           abort 2
           send 0: 5 ! -32601 no client can answer this request: none is connected, or it lacks the capability
           b1: finish 3 = {}"#,
    );
}
