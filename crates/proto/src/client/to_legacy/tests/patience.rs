//! How long a call may take while its client is asked something.

use std::time::Duration;

use super::*;

fn limits() -> Limits {
    let (quiet, total) = (Duration::from_mins(1), Duration::from_mins(10));
    Limits { quiet, total, ..Limits::default() }
}

/// wire: GW-45, GW-47, CAN-4
#[test]
fn the_time_of_a_call_does_not_run_while_its_client_is_asked_and_that_of_others_does() {
    check_with(
        &limits(),
        Sharing::Alone,
        r#"open a1: 5 tools/call {"name":"t","_meta":{@}}
           open b1: 5 tools/call {"name":"t","_meta":{@}}
           recv: "q" roots/list
           wait 60000
           wait 60000
           supply 1: 0 = {"roots":[]}
           wait 59000
           wait 1000"#,
        r#"send 3: 3 tools/call {"name":"t"}
           send 4: 4 tools/call {"name":"t"}
           a1: ask 1 "q" roots/list {}
           b1: finish - ! -32603 Request timeout after 60000ms
           send 0: notifications/cancelled {"requestId":4}
           abort 4
           send 0: "q" = {"roots":[]}
           a1: finish - ! -32603 Request timeout after 180000ms
           send 0: notifications/cancelled {"requestId":3}
           abort 3"#,
    );
}

/// wire: GW-46, GW-47, CAN-4
#[test]
fn a_question_that_turns_out_to_be_about_another_call_stops_the_time_of_that_one() {
    check_with(
        &limits(),
        Sharing::Alone,
        r#"open a1: 5 tools/call {"name":"t","_meta":{@}}
           open b1: 5 tools/call {"name":"t","_meta":{@}}
           recv: "q" roots/list
           recv: 3 = {"content":[]}
           wait 60000
           supply 1: 0 = {"roots":[]}
           recv: 4 = {"content":[]}"#,
        r#"send 3: 3 tools/call {"name":"t"}
           send 4: 4 tools/call {"name":"t"}
           a1: ask 1 "q" roots/list {}
           a1: recall 1
           b1: ask 1 "q" roots/list {}
           a1: finish 3 = {"resultType":"complete",#S,"content":[]}
           send 0: "q" = {"roots":[]}
           b1: finish 4 = {"resultType":"complete",#S,"content":[]}"#,
    );
}

/// wire: TASK-5, CAN-4
#[test]
fn what_a_task_comes_to_is_waited_for_while_its_client_is_asked() {
    let able = ENVELOPE
        .replace("\"extensions\":{}", "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}");
    let script = r#"open a1: 5 tools/call {"name":"j","_meta":{^}}
        recv: 3 = {"tools":[{"name":"j","execution":{"taskSupport":"optional"}}]}
        recv: "q" roots/list {"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}
        recv: 4 = {"task":{"taskId":"t1","status":"working"}}
        wait 60000
        wait 60000
        open a2: 6 tasks/update {"taskId":"t1","inputResponses":{"q1":{"roots":[]}},"_meta":{^}}
        wait 59000
        wait 1000"#;
    check_with(
        &limits(),
        Sharing::Alone,
        &script.replace('^', &able),
        r#"send 3: 3 tools/list {}
           send 4: 4 tools/call {"task":{},"name":"j"}
           a1: finish 4 = {#S,"resultType":"task","status":"working","taskId":"t1","ttlMs":null}
           send 5: 5 tasks/result {"taskId":"t1"}
           a2: finish 0 = {"resultType":"complete",#S}
           send 0: "q" = {"roots":[]}
           send 0: notifications/cancelled {"requestId":5}
           abort 5"#,
    );
}
