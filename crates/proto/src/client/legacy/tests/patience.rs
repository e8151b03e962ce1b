//! How long a call may take while its client is asked something.

use super::*;

/// wire: CAN-4, UTL-6
#[test]
fn the_time_of_a_call_does_not_run_while_its_client_is_asked() {
    check(
        ready(Sharing::Alone),
        r#"open a1: 1 tools/call {}
           recv 2: "s" elicitation/create {}
           at 30s
           supply q1: 0 = {}
           at 89s
           at 90s
           open a2: 2 tools/call {}
           at 140s
           recv 3: "t" elicitation/create {}
           at 200s
           at 209s
           at 210s"#,
        r#"send 2: 2 tools/call {}
           a1: ask q1 "s" elicitation/create {}
           send 0: "s" = {}
           send 0: notifications/cancelled {"requestId":2}
           abort 2
           a1: finish - ! -32603 Request timeout after 90000ms
           send 3: 3 tools/call {}
           a2: ask q2 "t" elicitation/create {}
           send 0: notifications/cancelled {"requestId":3}
           abort 3
           a2: finish - ! -32603 Request timeout after 120000ms"#,
    );
}

/// wire: CAN-4, UTL-6
#[test]
fn it_runs_again_when_the_last_question_is_answered_or_taken_back() {
    check(
        ready(Sharing::Alone),
        r#"open a1: 1 tools/call {"_meta":{"progressToken":"t"}}
           recv 2: "s" elicitation/create {}
           recv 2: "u" elicitation/create {}
           at 20s
           recv: notifications/cancelled {"requestId":"s"}
           recv: notifications/progress {"progressToken":"t","progress":1}
           at 59s
           refuse q2
           at 118s
           at 119s"#,
        r#"send 2: 2 tools/call {"_meta":{"progressToken":"t"}}
           a1: ask q1 "s" elicitation/create {}
           a1: ask q2 "u" elicitation/create {}
           a1: recall q1 notifications/cancelled {"requestId":"s"}
           a1: note notifications/progress {"progressToken":"t","progress":1}
           send 0: "u" ! -32601 no client can answer this request: none is connected, or it lacks the capability
           send 0: notifications/cancelled {"requestId":2}
           abort 2
           a1: finish - ! -32603 Request timeout after 119000ms"#,
    );
}

/// wire: CAN-4, UTL-7
#[test]
fn a_question_that_may_be_about_several_calls_stops_the_time_of_each_that_was_there() {
    check(
        ready(Sharing::Alone),
        r"open a1: 1 tools/call {}
           open a2: 2 prompts/get {}
           open a3: 3 tools/list
           recv: 7 roots/list
           open a4: 4 tools/call {}
           at 60s
           supply q1: 0 = {}
           at 119s",
        r#"send 2: 2 tools/call {}
           send 3: 3 prompts/get {}
           send 4: 4 tools/list
           all: ask q1 7 roots/list
           send 5: 5 tools/call {}
           send 0: notifications/cancelled {"requestId":4}
           abort 4
           send 0: notifications/cancelled {"requestId":5}
           abort 5
           a3: finish - ! -32603 Request timeout after 60000ms
           a4: finish - ! -32603 Request timeout after 60000ms
           send 0: 7 = {}"#,
    );
}

/// wire: CAN-4
#[test]
fn a_question_of_a_task_stops_the_time_of_who_waits_for_it() {
    check(
        ready(Sharing::Alone),
        r#"open a1: 1 tasks/result {"taskId":"t"}
           open a2: 2 tasks/result {"taskId":"u"}
           recv: 7 elicitation/create {"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}
           at 60s
           supply q1: 0 = {}
           at 119s"#,
        r#"send 2: 2 tasks/result {"taskId":"t"}
           send 3: 3 tasks/result {"taskId":"u"}
           all: ask q1 7 elicitation/create {"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}
           send 0: notifications/cancelled {"requestId":3}
           abort 3
           a2: finish - ! -32603 Request timeout after 60000ms
           send 0: 7 = {}"#,
    );
}

/// Calls that were surely asked fail with their session; others go on.
///
/// wire: CAN-4, HTTP-22
#[test]
fn a_question_of_a_session_that_is_over_stops_no_time() {
    check(
        ready(Sharing::Alone),
        r#"open a1: 1 tools/call {}
           open a2: 2 prompts/get {}
           recv: "s" elicitation/create {}
           open a3: 3 tools/list
           at 10s
           over 4
           recv: 5 = {}
           recv: 4 = {}
           at 69s
           at 70s"#,
        r#"send 2: 2 tools/call {}
           send 3: 3 prompts/get {}
           all: ask q1 "s" elicitation/create {}
           send 4: 4 tools/list
           send 5: 5 initialize {"v":1}
           all: recall q1 notifications/cancelled {"requestId":0}
           send 0: notifications/initialized
           send 4: 4 tools/list
           a3: finish 4 = {}
           send 0: notifications/cancelled {"requestId":2}
           abort 2
           send 0: notifications/cancelled {"requestId":3}
           abort 3
           a1: finish - ! -32603 Request timeout after 70000ms
           a2: finish - ! -32603 Request timeout after 70000ms"#,
    );
}
