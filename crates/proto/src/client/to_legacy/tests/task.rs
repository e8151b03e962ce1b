//! Tasks of a legacy server that break, end, grow old or are too many.

use super::*;

/// `^` stands for the envelope of a client that knows tasks, `%` for what names the task `t1`.
#[track_caller]
fn check_tasks(limits: &Limits, script: &str, expected: &str) {
    let able = ENVELOPE
        .replace("\"extensions\":{}", "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}");
    let script = script
        .replace('^', &format!("\"_meta\":{{{able}}}"))
        .replace('%', r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}"#);
    check_with(limits, Sharing::Shared, &script, expected);
}

/// The call `a1` is the task `t1`; the server has been asked what it comes to, by call 5.
const BEGUN: &str = r#"
    open a1: 5 tools/call {"name":"j",^}
    recv: 3 = {"tools":[{"name":"j","execution":{"taskSupport":"optional"}}]}
    recv: 4 = {"task":{"taskId":"t1","status":"working","ttl":TTL}}
"#;

const CREATED: &str = r#"
    send 3: 3 tools/list {}
    send 4: 4 tools/call {"task":{},"name":"j"}
    a1: finish 4 = {#S,"resultType":"task","status":"working","taskId":"t1","ttlMs":TTL}
    send 5: 5 tasks/result {"taskId":"t1"}
"#;

#[track_caller]
fn check_begun(limits: &Limits, ttl: &str, script: &str, expected: &str) {
    let script = format!("{}{script}", BEGUN.replace("TTL", ttl));
    let expected = format!("{}{expected}", CREATED.replace("TTL", ttl));
    check_tasks(limits, &script, &expected);
}

/// wire: TASK-3, TASK-4, GW-59
#[test]
fn an_end_that_breaks_on_the_way_is_asked_for_again() {
    check_begun(
        &Limits::default(),
        "null",
        r#"unanswered 5
           open a2: 5 tasks/get {"taskId":"t1",^}
           recv: 6 = {"taskId":"t1","status":"working"}
           unanswered 7
           open a3: 5 tasks/get {"taskId":"t1",^}
           recv: 8 = {"taskId":"t1","status":"completed"}
           open a4: 5 tasks/get {"taskId":"t1",^}
           recv: 10 = {"taskId":"t1","status":"completed"}
           unanswered 9
           open a5: 5 tasks/get {"taskId":"t1",^}
           recv: 11 = {"taskId":"t1","status":"completed"}
           recv: 12 = {"content":[],%}"#,
        r#"send 6: 6 tasks/get {"taskId":"t1"}
           a2: finish 0 = {"resultType":"complete",#S,"status":"working","taskId":"t1","ttlMs":null}
           send 7: 7 tasks/result {"taskId":"t1"}
           send 8: 8 tasks/get {"taskId":"t1"}
           send 9: 9 tasks/result {"taskId":"t1"}
           send 10: 10 tasks/get {"taskId":"t1"}
           a3: finish - ! -32603 the stream broke
           a4: finish - ! -32603 the stream broke
           send 11: 11 tasks/get {"taskId":"t1"}
           send 12: 12 tasks/result {"taskId":"t1"}
           a5: finish 0 = {"resultType":"complete",#S,"result":{#S,"content":[],"resultType":"complete"},"status":"completed","taskId":"t1","ttlMs":null}"#,
    );
}

/// wire: TASK-4, GW-59
#[test]
fn what_a_task_asks_is_shown_whatever_its_server_calls_it() {
    check_begun(
        &Limits::default(),
        "null",
        r#"recv: "q" roots/list {%}
           open a2: 5 tasks/get {"taskId":"t1",^}
           recv: 6 = {"taskId":"t1","status":"working"}
           open a3: 5 tasks/update {"taskId":"t1","inputResponses":{"q1":{"roots":[]}},^}
           open a4: 5 tasks/get {"taskId":"t1",^}
           recv: 7 = {"taskId":"t1","status":"working"}"#,
        r#"send 6: 6 tasks/get {"taskId":"t1"}
           a2: finish 0 = {"resultType":"complete",#S,"inputRequests":{"q1":{"method":"roots/list","params":{}}},"status":"input_required","taskId":"t1","ttlMs":null}
           a3: finish 0 = {"resultType":"complete",#S}
           send 0: "q" = {"roots":[]}
           send 7: 7 tasks/get {"taskId":"t1"}
           a4: finish 0 = {"resultType":"complete",#S,"status":"working","taskId":"t1","ttlMs":null}"#,
    );
}

/// wire: TASK-3, TASK-4
#[test]
fn an_error_that_the_server_answers_is_the_end_and_is_kept() {
    check_begun(
        &Limits::default(),
        "null",
        r#"recv: 5 ! -32000 it burned
           open a2: 5 tasks/get {"taskId":"t1",^}
           recv: 6 = {"taskId":"t1","status":"failed"}"#,
        r#"send 6: 6 tasks/get {"taskId":"t1"}
           a2: finish 0 = {"resultType":"complete",#S,"error":{"code":-32000,"message":"it burned"},"status":"failed","taskId":"t1","ttlMs":null}"#,
    );
}

/// wire: TASK-3
#[test]
fn an_answer_that_is_no_result_is_an_end_all_the_same() {
    check_begun(
        &Limits::default(),
        "null",
        r#"recv: 5 = []
           open a2: 5 tasks/get {"taskId":"t1",^}
           recv: 6 = {"taskId":"t1","status":"completed"}"#,
        r#"send 6: 6 tasks/get {"taskId":"t1"}
           a2: finish 0 = {"resultType":"complete",#S,"error":{"code":-32603,"message":"the result is no JSON object"},"status":"failed","taskId":"t1","ttlMs":null}"#,
    );
}

/// wire: TASK-5
#[test]
fn an_answer_that_comes_after_the_end_wakes_nothing() {
    check_begun(
        &Limits::default(),
        "null",
        r#"open a2: 5 tasks/cancel {"taskId":"t1",^}
           recv: 6 = {"taskId":"t1","status":"cancelled"}
           open a3: 5 tasks/update {"taskId":"t1","inputResponses":{"q1":{}},^}
           look"#,
        r#"send 6: 6 tasks/cancel {"taskId":"t1"}
           a2: finish 0 = {"resultType":"complete",#S}
           a3: finish 0 = {"resultType":"complete",#S}
           0 open, not needed"#,
    );
}

/// wire: TASK-4
#[test]
fn who_waits_for_an_end_has_a_call_open_and_may_give_it_up() {
    check_begun(
        &Limits::default(),
        "null",
        r#"open a2: 5 tasks/get {"taskId":"t1",^}
           recv: 6 = {"taskId":"t1","status":"completed"}
           look
           drop a2
           look
           recv: 5 = {"content":[],%}
           # One that is not remembered is asked for on its own.
           open a3: 5 tasks/get {"taskId":"t9",^}
           recv: 7 = {"taskId":"t9","status":"completed"}
           look
           drop a3"#,
        r#"send 6: 6 tasks/get {"taskId":"t1"}
           1 open, needed
           0 open, needed
           send 7: 7 tasks/get {"taskId":"t9"}
           send 8: 8 tasks/result {"taskId":"t9"}
           1 open, needed
           send 0: notifications/cancelled {"requestId":8}
           abort 8"#,
    );
}

/// wire: GW-41
#[test]
fn a_task_needs_its_session_until_its_client_has_seen_its_end() {
    check_begun(
        &Limits::default(),
        "null",
        r#"look
           recv: 5 = {"content":[],%}
           look
           open a2: 5 tasks/get {"taskId":"t1",^}
           recv: 6 = {"taskId":"t1","status":"completed"}
           look"#,
        r#"0 open, needed
           0 open, needed
           send 6: 6 tasks/get {"taskId":"t1"}
           a2: finish 0 = {"resultType":"complete",#S,"result":{#S,"content":[],"resultType":"complete"},"status":"completed","taskId":"t1","ttlMs":null}
           0 open, not needed"#,
    );
    // Nobody asks any more.
    let limits = Limits { total: Duration::from_secs(5), ..Limits::default() };
    check_begun(
        &limits,
        "null",
        "wait 4999\nlook\nwait 1\nlook",
        r#"0 open, needed
           send 0: notifications/cancelled {"requestId":5}
           abort 5
           0 open, not needed"#,
    );
    check_begun(
        &Limits::default(),
        "null",
        r#"open a2: 5 tasks/cancel {"taskId":"t1",^}
           recv: 6 = {"taskId":"t1","status":"cancelled"}
           look"#,
        r#"send 6: 6 tasks/cancel {"taskId":"t1"}
           a2: finish 0 = {"resultType":"complete",#S}
           0 open, not needed"#,
    );
}

/// wire: TASK-2
#[test]
fn a_task_is_forgotten_when_its_time_is_over() {
    check_begun(
        &Limits::default(),
        "9",
        r#"recv: "q" roots/list {%}
           wait 8
           look
           wait 1
           look
           open a2: 5 tasks/get {"taskId":"t1",^}
           recv: 6 ! -32602 there is none"#,
        r#"0 open, needed
           send 0: "q" ! -32601 no client can answer this request: none is connected, or it lacks the capability
           send 0: notifications/cancelled {"requestId":5}
           abort 5
           0 open, not needed
           send 6: 6 tasks/get {"taskId":"t1"}
           a2: finish 6 ! -32602 there is none"#,
    );
}

#[test]
fn who_waits_for_a_task_that_makes_room_for_another_is_told() {
    let limits = Limits { tasks: 1, ..Limits::default() };
    check_begun(
        &limits,
        "null",
        r#"open a2: 5 tasks/get {"taskId":"t1",^}
           recv: 6 = {"taskId":"t1","status":"completed"}
           open a3: 5 tools/call {"name":"j",^}
           recv: 7 = {"task":{"taskId":"t2","status":"working"}}"#,
        r#"send 6: 6 tasks/get {"taskId":"t1"}
           send 7: 7 tools/call {"task":{},"name":"j"}
           a3: finish 7 = {#S,"resultType":"task","status":"working","taskId":"t2","ttlMs":null}
           a2: finish - ! -32602 the task is not remembered any more
           send 0: notifications/cancelled {"requestId":5}
           abort 5
           send 8: 8 tasks/result {"taskId":"t2"}"#,
    );
}

/// wire: MRTR-4, GW-48
#[test]
fn a_task_asks_nothing_that_its_client_did_not_declare() {
    check_begun(
        &Limits::default(),
        "null",
        r#"recv: "q" sampling/createMessage {"messages":[],%}
           open a2: 5 tasks/get {"taskId":"t1",^}
           recv: 6 = {"taskId":"t1","status":"working"}"#,
        r#"send 0: "q" ! -32601 no client can answer this request: none is connected, or it lacks the capability
           send 6: 6 tasks/get {"taskId":"t1"}
           a2: finish 0 = {"resultType":"complete",#S,"status":"working","taskId":"t1","ttlMs":null}"#,
    );
}

/// wire: GW-52, GW-59
#[test]
fn a_task_that_its_client_knows_nothing_of_is_cancelled_with_its_call() {
    check_tasks(
        &Limits::default(),
        r#"open a1: 5 tools/call {"name":"j","_meta":{@}}
           recv: 3 ! -32601 runs as a task only
           recv: 4 = {"task":{"taskId":"t1"}}
           drop a1
           recv: 6 = {"taskId":"t1","status":"cancelled"}"#,
        r#"send 3: 3 tools/call {"name":"j"}
           send 4: 4 tools/call {"task":{},"name":"j"}
           send 5: 5 tasks/result {"taskId":"t1"}
           send 0: notifications/cancelled {"requestId":5}
           abort 5
           send 6: 6 tasks/cancel {"taskId":"t1"}"#,
    );
}

/// wire: GW-27, GW-59
#[test]
fn where_none_is_remembered_none_is_offered_and_calls_are_waited_for() {
    let limits = Limits { tasks: 0, ..Limits::default() };
    check_tasks(
        &limits,
        r#"open a1: 5 server/discover {^}
           open a2: 5 tools/call {"name":"j",^}
           recv: 3 ! -32601 runs as a task only
           recv: 4 = {"task":{"taskId":"t1"}}
           recv: 5 = {"content":[],%}
           open a3: 5 tasks/get {"taskId":"t1",^}"#,
        r#"a1: finish 0 = {"resultType":"complete","ttlMs":0,"cacheScope":"private",#S,"capabilities":{"logging":{},"resources":{"subscribe":true},"tools":{"listChanged":true}},"supportedVersions":["2026-07-28"]}
           send 3: 3 tools/call {"name":"j"}
           send 4: 4 tools/call {"task":{},"name":"j"}
           send 5: 5 tasks/result {"taskId":"t1"}
           a2: finish 5 = {"resultType":"complete",#S,"content":[]}
           a3: finish - ! -32601 Method not found: tasks/get"#,
    );
}

/// Whoever stands between has seen the first request, and would not know a task
/// that only the second takes for one.
///
/// wire: EXT-1, TASK-2, GW-49, GW-59
#[test]
fn a_call_becomes_a_task_only_if_all_its_requests_know_tasks() {
    let able = ENVELOPE
        .replace("\"extensions\":{}", "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}");
    let may = r#"{"tools":[{"name":"j","execution":{"taskSupport":"optional"}}]}"#;
    for (first, second, task) in
        [(&*able, &*able, true), (&*able, ENVELOPE, false), (ENVELOPE, &*able, false)]
    {
        let call = |verb: &str, envelope: &str| {
            format!("{verb} a2: 5 tools/call {{\"name\":\"j\",\"_meta\":{{{envelope}}}}}")
        };
        let went = |envelope: &str, task: bool| match (envelope == able, task) {
            (true, true) => r#"{"task":{},"name":"j"}"#,
            _ => r#"{"name":"j"}"#,
        };
        let page = r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"url":"u"}]}}}"#;
        // The first call is for the list of tools.
        let script = format!(
            "open a1: 5 tools/call {{\"name\":\"o\",\"_meta\":{{{able}}}}}\nrecv: 3 = {may}\nrecv: 4 = {{}}\n{}\nrecv: {page}\n{}\nsupply 2147483649: 0 = {{\"action\":\"accept\"}}",
            call("open", first),
            call("again", second)
        );
        let expected = format!(
            "send 3: 3 tools/list {{}}\nsend 4: 4 tools/call {{\"name\":\"o\"}}\na1: finish 4 = {{\"resultType\":\"complete\",#S}}\nsend 5: 5 tools/call {}\na2: ask 2147483649 0 elicitation/create {{\"mode\":\"url\",\"url\":\"u\"}}\nsend 6: 6 tools/call {}",
            went(first, true),
            went(second, task)
        );
        check(Sharing::Shared, &script, &expected);
    }
}
