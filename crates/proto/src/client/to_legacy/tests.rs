//! Modern clients of a legacy server.

use super::*;
use crate::client::ClientHalf;
use crate::client::tests::script::{self, Name};

mod ask;
mod listen;
mod native;
mod patience;
mod task;

const ENVELOPE: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{},"extensions":{}},"io.modelcontextprotocol/clientInfo":{"name":"c"}"#;

const HELLO: &str =
    r#"{"capabilities":{"roots":{}},"clientInfo":{"name":"c"},"protocolVersion":"2025-11-25"}"#;

const WELCOME: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s"}}"#;

/// What the server's results get.
const SIGNED: &str = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}"#;

/// A call `a0` greets the server; it is answered first.
#[track_caller]
fn check(sharing: Sharing, script: &str, expected: &str) {
    check_with(&Limits::default(), sharing, script, expected);
}

#[track_caller]
fn check_with(limits: &Limits, sharing: Sharing, script: &str, expected: &str) {
    let half = ToLegacy::<Name>::new(Carrier::Pipe, sharing, limits).asking_from(1);
    let half = ClientHalf::ToLegacy(Box::new(half));
    let script = format!(
        "open a0: 0 x/y {{\"_meta\":{{@}}}}\nrecv: 1 = {WELCOME}\nrecv: 2 = {{}}\n{script}"
    );
    let expected = format!(
        "send 1: 1 initialize {HELLO}\nsend 0: notifications/initialized\nsend 2: 2 x/y {{}}\n\
         a0: finish 2 = {{\"resultType\":\"complete\",{SIGNED}}}\n{expected}"
    )
    .replace("#S", SIGNED);
    script::check(half, ENVELOPE, &script, &expected);
}

/// wire: GW-40, GW-43, GW-44, GW-58, GW-73, TASK-9
#[test]
fn requests_lose_their_envelope_and_results_are_dressed() {
    check(
        Sharing::Alone,
        r#"open a1: "d" server/discover {"_meta":{@}}
           open a2: 5 tools/list {"cursor":"c","task":{},"_meta":{@,"k":1}}
           recv: 3 = {"tools":[{"name":"t","execution":{"taskSupport":"required"}}],"_meta":{"x":1}}
           open a3: 6 resources/read {"uri":"u","_meta":{@}}
           recv: 4 ! -32002 no such thing
           open a4: 7 tasks/get {"taskId":"t","_meta":{@}}
           open a5: 8 tools/call {"name":"t","requestState":"s","_meta":{@}}"#,
        r#"a1: finish 0 = {"resultType":"complete","ttlMs":0,"cacheScope":"private",#S,"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}},"logging":{},"resources":{"subscribe":true},"tools":{"listChanged":true}},"supportedVersions":["2026-07-28"]}
           send 3: 3 tools/list {"cursor":"c","_meta":{"k":1}}
           a2: finish 3 = {"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"},"x":1}}
           send 4: 4 resources/read {"uri":"u"}
           a3: finish 4 ! -32602 no such thing
           a4: finish - ! -32021 this call needs a client that can do more
           a5: finish - ! -32602 requestState is not, or no longer, valid; make the call again without it"#,
    );
}

/// wire: GW-71, GW-73
#[test]
fn a_result_passes_as_it_is_and_nothing_is_made_up() {
    check(
        Sharing::Alone,
        r#"open a1: 5 tools/call {"name":"t","_meta":{@,"traceparent":"00-1"}}
           recv: 3 = {"content":[{"type":"text","text":"{\"a\":1}"}],"x":1.0e2}
           open a2: 6 tools/call {"name":"t","_meta":{@}}
           recv: 4 = {"content":[],"structuredContent":{"a" : 1.50},"isError":false}"#,
        r#"send 3: 3 tools/call {"name":"t","_meta":{"traceparent":"00-1"}}
           a1: finish 3 = {"resultType":"complete",#S,"content":[{"type":"text","text":"{\"a\":1}"}],"x":1.0e2}
           send 4: 4 tools/call {"name":"t"}
           a2: finish 4 = {"resultType":"complete",#S,"content":[],"structuredContent":{"a" : 1.50},"isError":false}"#,
    );
}

/// wire: GW-46, GW-48, GW-52
#[test]
fn a_dropped_call_takes_its_questions_with_it() {
    check(
        Sharing::Shared,
        r#"open a1: 5 tools/call {"name":"t","_meta":{@}}
           recv 3: "q" roots/list
           drop a1
           supply 1: 0 = {"roots":[]}
           recv: 3 = {}
           open a2: 6 tools/call {"name":"t","_meta":{@}}
           recv 4: "r" sampling/createMessage
           refuse 2"#,
        r#"send 3: 3 tools/call {"name":"t"}
           a1: ask 1 "q" roots/list {}
           send 0: "q" ! -32601 no client can answer this request: none is connected, or it lacks the capability
           send 0: notifications/cancelled {"requestId":3}
           abort 3
           send 4: 4 tools/call {"name":"t"}
           a2: ask 2 "r" sampling/createMessage {}
           send 0: "r" ! -32601 no client can answer this request: none is connected, or it lacks the capability"#,
    );
}

/// wire: GW-49, UTL-8
#[test]
fn pages_to_visit_are_questions_and_then_the_call_is_made_again() {
    let visit = |id: u64| {
        format!(
            r#"recv: {{"jsonrpc":"2.0","id":{id},"error":{{"code":-32042,"message":"sign in","data":{{"elicitations":[{{"mode":"url","url":"u","elicitationId":"e"}}]}}}}}}"#
        )
    };
    let open =
        |name: &str| format!("open {name}: 5 tools/call {{\"name\":\"t\",\"_meta\":{{@}}}}\n");
    let script = [
        open("a1"),
        visit(3),
        "\nsupply 2147483649: 0 = {\"action\":\"accept\"}\nrecv: notifications/elicitation/complete {\"elicitationId\":\"e\"}\nrecv: 4 = {\"content\":[]}\n".to_owned(),
        open("a2"),
        visit(5),
        "\nsupply 2147483650: 0 = {\"action\":\"decline\"}\n".to_owned(),
        open("a3"),
        visit(6),
        "\nrefuse 2147483651".to_owned(),
    ];
    check(
        Sharing::Alone,
        &script.concat(),
        r#"send 3: 3 tools/call {"name":"t"}
           a1: ask 2147483649 0 elicitation/create {"mode":"url","url":"u"}
           send 4: 4 tools/call {"name":"t"}
           a1: finish 4 = {"resultType":"complete",#S,"content":[]}
           send 5: 5 tools/call {"name":"t"}
           a2: ask 2147483650 0 elicitation/create {"mode":"url","url":"u"}
           a2: finish - ! -32603 sign in
           send 6: 6 tools/call {"name":"t"}
           a3: ask 2147483651 0 elicitation/create {"mode":"url","url":"u"}
           a3: finish - ! -32021 this call needs a client that can do more"#,
    );
}

/// wire: GW-49
#[test]
fn a_call_that_wants_absurdly_many_pages_visited_has_failed() {
    let pages = vec![r#"{"url":"u"}"#; 65].join(",");
    let script = format!(
        r#"open a1: 5 tools/call {{"name":"t","_meta":{{@}}}}
           recv: {{"jsonrpc":"2.0","id":3,"error":{{"code":-32042,"message":"sign in","data":{{"elicitations":[{pages}]}}}}}}"#
    );
    check(
        Sharing::Alone,
        &script,
        "send 3: 3 tools/call {\"name\":\"t\"}\na1: finish 3 ! -32603 sign in",
    );
}

/// wire: GW-51, SUB-3, SUB-13
#[test]
fn listens_share_what_they_watch_and_are_told_what_is_honoured() {
    let sub = r#""_meta":{"io.modelcontextprotocol/subscriptionId":0}"#;
    check(
        Sharing::Shared,
        r#"open a1: 5 subscriptions/listen {"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["x:1","x:2"]},"_meta":{@}}
           recv: notifications/resources/updated {"uri":"x:1"}
           recv: 3 = {}
           recv: 4 ! -32602 no
           open b1: 5 subscriptions/listen {"notifications":{"resourceSubscriptions":["x:1"]},"_meta":{@}}
           recv: 5 = {}
           recv: notifications/resources/updated {"uri":"x:1/y"}
           recv: notifications/tools/list_changed
           recv: notifications/prompts/list_changed
           drop a1
           drop b1
           open c1: 5 subscriptions/listen {"notifications":{"promptsListChanged":true},"_meta":{@}}
           open c2: 5 subscriptions/listen {"_meta":{@}}"#,
        &format!(
            r#"send 3: 3 resources/subscribe {{"uri":"x:1"}}
               send 4: 4 resources/subscribe {{"uri":"x:2"}}
               a1: note notifications/subscriptions/acknowledged {{{sub},"notifications":{{"resourceSubscriptions":["x:1"],"toolsListChanged":true}}}}
               a1: note notifications/resources/updated {{{sub},"uri":"x:1"}}
               send 5: 5 resources/subscribe {{"uri":"x:1"}}
               b1: note notifications/subscriptions/acknowledged {{{sub},"notifications":{{"resourceSubscriptions":["x:1"]}}}}
               a1: note notifications/resources/updated {{{sub},"uri":"x:1/y"}}
               b1: note notifications/resources/updated {{{sub},"uri":"x:1/y"}}
               a1: note notifications/tools/list_changed {{{sub}}}
               send 6: 6 resources/unsubscribe {{"uri":"x:1"}}
               c1: note notifications/subscriptions/acknowledged {{{sub},"notifications":{{}}}}
               c1: finish 0 = {{"resultType":"complete",{sub}}}
               c2: finish - ! -32602 params.notifications must say what to listen for"#
        ),
    );
}

/// wire: GW-53, STD-6, SUB-10
#[test]
fn who_listens_brings_a_lost_server_back_and_hears_that_lists_may_have_changed() {
    let sub = r#""_meta":{"io.modelcontextprotocol/subscriptionId":0}"#;
    check(
        Sharing::Shared,
        &format!(
            r#"open a1: 5 subscriptions/listen {{"notifications":{{"toolsListChanged":true,"resourceSubscriptions":["x:1"]}},"_meta":{{@}}}}
               recv: 3 = {{}}
               open a2: 6 tools/call {{"name":"t","_meta":{{@}}}}
               lost
               wait 500
               wait 600
               recv: 5 = {WELCOME}"#
        ),
        &format!(
            r#"send 3: 3 resources/subscribe {{"uri":"x:1"}}
               a1: note notifications/subscriptions/acknowledged {{{sub},"notifications":{{"resourceSubscriptions":["x:1"],"toolsListChanged":true}}}}
               send 4: 4 tools/call {{"name":"t"}}
               a2: finish - ! -32603 Transport closed
               send 5: 5 initialize {HELLO}
               a1: note notifications/tools/list_changed {{{sub}}}
               send 0: notifications/initialized
               send 6: 6 resources/subscribe {{"uri":"x:1"}}"#
        ),
    );
}

/// That a server could not be asked is no refusal of it.
///
/// wire: GW-51, GW-53, SUB-5
#[test]
fn a_listen_is_not_said_to_hear_nothing_because_the_server_was_lost() {
    let sub = r#""_meta":{"io.modelcontextprotocol/subscriptionId":0}"#;
    check(
        Sharing::Shared,
        &format!(
            r#"open a1: 5 subscriptions/listen {{"notifications":{{"resourceSubscriptions":["x:1"]}},"_meta":{{@}}}}
               lost
               wait 1100
               recv: 4 = {WELCOME}
               open a2: 6 subscriptions/listen {{"notifications":{{"resourceSubscriptions":["x:2"]}},"_meta":{{@}}}}
               unanswered 6"#
        ),
        &format!(
            r#"send 3: 3 resources/subscribe {{"uri":"x:1"}}
               a1: note notifications/subscriptions/acknowledged {{{sub},"notifications":{{"resourceSubscriptions":["x:1"]}}}}
               send 4: 4 initialize {HELLO}
               send 0: notifications/initialized
               send 5: 5 resources/subscribe {{"uri":"x:1"}}
               send 6: 6 resources/subscribe {{"uri":"x:2"}}
               a2: finish - ! -32603 the stream broke
               send 7: 7 resources/unsubscribe {{"uri":"x:2"}}"#
        ),
    );
}

/// wire: GW-54, GW-55, GW-59
#[test]
fn logs_go_to_who_asked_and_a_tool_that_must_be_a_task_is_waited_for() {
    let log = |level: &str| format!("recv: notifications/message {{\"level\":\"{level}\"}}\n");
    let wants = r#""io.modelcontextprotocol/logLevel":"error""#;
    check(
        Sharing::Shared,
        &format!(
            r#"open a1: 5 tools/call {{"name":"t","_meta":{{@,{wants}}}}}
               recv: 3 = {{}}
               {}{}recv: 4 = {{"content":[]}}
               {}open a2: 6 tools/call {{"name":"j","_meta":{{@,"progressToken":"p"}}}}
               recv: 5 ! -32601 runs as a task only
               recv: 6 = {{"task":{{"taskId":"t1"}}}}
               recv: 7 = {{"content":[],"_meta":{{"io.modelcontextprotocol/related-task":{{"taskId":"t1"}}}}}}"#,
            log("error"),
            log("info"),
            log("error"),
        ),
        r#"send 3: 3 logging/setLevel {"level":"error"}
           send 4: 4 tools/call {"name":"t"}
           a1: note notifications/message {"level":"error"}
           a1: finish 4 = {"resultType":"complete",#S,"content":[]}
           send 5: 5 tools/call {"name":"j","_meta":{"progressToken":"T1"}}
           send 6: 6 tools/call {"task":{},"name":"j","_meta":{"progressToken":"T2"}}
           send 7: 7 tasks/result {"taskId":"t1"}
           a2: finish 7 = {"resultType":"complete",#S,"content":[]}"#,
    );
}

/// wire: LOG-1, GW-54
#[test]
fn logs_are_those_that_the_last_request_of_a_call_asks_for() {
    let call = |verb: &str, level: &str| {
        let level = match level {
            "" => String::new(),
            level => format!(r#","io.modelcontextprotocol/logLevel":"{level}""#),
        };
        format!("{verb}: 5 tools/call {{\"name\":\"t\",\"_meta\":{{@{level}}}}}\n")
    };
    let log = "recv: notifications/message {\"level\":\"info\"}\n";
    let script = [
        call("open a1", ""),
        log.to_owned(),
        call("again a1", "info"),
        log.to_owned(),
        call("again a1", "error"),
        log.to_owned(),
        call("again a1", "debug"),
        // Two that want records, and nothing says whose they are; then one.
        call("open a2", "debug"),
        "recv: 4 = {}\nrecv: 5 = {}\nrecv: 6 = {}\n".to_owned(),
        log.to_owned(),
        call("again a1", ""),
        log.to_owned(),
    ];
    check(
        Sharing::Shared,
        &script.concat(),
        r#"send 3: 3 tools/call {"name":"t"}
           send 4: 4 logging/setLevel {"level":"info"}
           a1: note notifications/message {"level":"info"}
           send 5: 5 logging/setLevel {"level":"error"}
           send 6: 6 logging/setLevel {"level":"debug"}
           send 7: 7 tools/call {"name":"t"}
           a2: note notifications/message {"level":"info"}"#,
    );
}

/// What the server can do is known from its greeting: before that it is told no level.
///
/// wire: GW-41, GW-54
#[test]
fn a_level_is_set_after_the_greeting_and_only_at_a_server_that_logs() {
    let wants = r#""io.modelcontextprotocol/logLevel":"error""#;
    let check = |welcome: &str, then: &str, expected: &str| {
        let half = ToLegacy::<Name>::new(Carrier::Pipe, Sharing::Alone, &Limits::default());
        let script = format!(
            "open a1: 5 tools/list {{\"_meta\":{{@,{wants}}}}}\nopen a2: 6 x/y {{\"_meta\":{{@}}}}\n\
             recv: 1 {welcome}\n{then}"
        );
        let expected = format!("send 1: 1 initialize {HELLO}\n{expected}");
        script::check(ClientHalf::ToLegacy(Box::new(half)), ENVELOPE, &script, &expected);
    };
    let welcome = |capabilities: &str| {
        format!(r#"= {{"protocolVersion":"2025-11-25","capabilities":{capabilities}}}"#)
    };
    check(
        &welcome(r#"{"tools":{}}"#),
        "",
        "send 0: notifications/initialized
         send 2: 2 x/y {}
         send 3: 3 tools/list {}",
    );
    check(
        &welcome(r#"{"logging":{}}"#),
        "recv: 3 = {}",
        r#"send 0: notifications/initialized
           send 2: 2 x/y {}
           send 3: 3 logging/setLevel {"level":"error"}
           send 4: 4 tools/list {}"#,
    );
    check(
        "! -32603 not today",
        "",
        "a1: finish 1 ! -32603 not today
         a2: finish 1 ! -32603 not today",
    );
}

/// wire: GW-54
#[test]
fn calls_that_come_and_go_before_the_greeting_cost_no_other_call_its_answer() {
    let limits = Limits { calls: 2, ..Limits::default() };
    let half = ToLegacy::<Name>::new(Carrier::Pipe, Sharing::Alone, &limits);
    let wants = r#""io.modelcontextprotocol/logLevel":"error""#;
    let call = |name: &str| format!("open {name}: 5 x/y {{\"_meta\":{{@,{wants}}}}}\n");
    let fickle: String = (1..20).map(|_| call("a1") + "drop a1\n").collect();
    let welcome = r#"{"protocolVersion":"2025-11-25","capabilities":{"logging":{}}}"#;
    let script = format!("{}{fickle}recv: 1 = {welcome}\nrecv: 2 = {{}}", call("b1"));
    let expected = format!(
        "send 1: 1 initialize {HELLO}
         send 0: notifications/initialized
         send 2: 2 logging/setLevel {{\"level\":\"error\"}}
         send 3: 3 x/y {{}}"
    );
    script::check(ClientHalf::ToLegacy(Box::new(half)), ENVELOPE, &script, &expected);
}

/// The TypeScript SDK says so in a failed result.
///
/// wire: GW-59
#[test]
fn a_tool_that_fails_because_it_must_be_a_task_is_found_in_the_list_of_tools() {
    check(
        Sharing::Shared,
        r#"open a1: 5 tools/call {"name":"must","_meta":{@}}
           recv: 3 = {"isError":true,"content":[]}
           recv: 4 = {"tools":[{"name":"must","execution":{"taskSupport":"required"}},{"name":"may","execution":{"taskSupport":"optional"}}]}
           recv: 5 = {"task":{"taskId":"t1"}}
           recv: 6 = {"content":[]}
           open a2: 6 tools/call {"name":"may","_meta":{@}}
           recv: 7 = {"isError":true,"content":[]}"#,
        r#"send 3: 3 tools/call {"name":"must"}
           send 4: 4 tools/list {}
           send 5: 5 tools/call {"task":{},"name":"must"}
           send 6: 6 tasks/result {"taskId":"t1"}
           a1: finish 6 = {"resultType":"complete",#S,"content":[]}
           send 7: 7 tools/call {"name":"may"}
           a2: finish 7 = {"resultType":"complete",#S,"isError":true,"content":[]}"#,
    );
}

/// wire: TASK-2, TASK-3, TASK-4, TASK-5
#[test]
fn a_task_of_a_legacy_server_is_a_task_of_the_extension() {
    let able = ENVELOPE
        .replace("\"extensions\":{}", "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}");
    let open = |name: &str, call: &str| {
        format!("open {name}: 5 {}\n", call.replace('^', &format!("\"_meta\":{{{able}}}")))
    };
    let related = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}"#;
    let script = [
        open("a1", r#"tools/call {"name":"j",^}"#),
        r#"recv: 3 = {"tools":[{"name":"x"}],"nextCursor":"c"}
           recv: 4 = {"tools":[{"name":"j","execution":{"taskSupport":"optional"}}]}
           recv: 5 = {"task":{"taskId":"t1","status":"working","ttl":9,"createdAt":"d"}}
        "#
        .to_owned(),
        format!("recv: \"q\" roots/list {{{related}}}\n"),
        open("a2", r#"tasks/get {"taskId":"t1",^}"#),
        "recv: 7 = {\"taskId\":\"t1\",\"status\":\"input_required\",\"ttl\":9}\n".to_owned(),
        open(
            "a3",
            r#"tasks/update {"taskId":"t1","inputResponses":{"q1":{"roots":[]},"zz":{}},^}"#,
        ),
        open("a4", r#"tasks/get {"taskId":"t1",^}"#),
        "recv: 8 = {\"taskId\":\"t1\",\"status\":\"failed\"}\n".to_owned(),
        format!("recv: 6 = {{\"content\":[],\"isError\":true,{related}}}\n"),
        open("a5", r#"tasks/cancel {"taskId":"t1",^}"#),
        "recv: 9 ! -32602 it is over\n".to_owned(),
        open("a6", r#"tasks/update {"taskId":"t2",^}"#),
    ];
    check(
        Sharing::Shared,
        &script.concat(),
        r#"send 3: 3 tools/list {}
           send 4: 4 tools/list {"cursor":"c"}
           send 5: 5 tools/call {"task":{},"name":"j"}
           a1: finish 5 = {#S,"createdAt":"d","resultType":"task","status":"working","taskId":"t1","ttlMs":9}
           send 6: 6 tasks/result {"taskId":"t1"}
           send 7: 7 tasks/get {"taskId":"t1"}
           a2: finish 0 = {"resultType":"complete",#S,"inputRequests":{"q1":{"method":"roots/list","params":{}}},"status":"input_required","taskId":"t1","ttlMs":9}
           a3: finish 0 = {"resultType":"complete",#S}
           send 0: "q" = {"roots":[]}
           send 8: 8 tasks/get {"taskId":"t1"}
           a4: finish 0 = {"resultType":"complete",#S,"result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}},"content":[],"isError":true,"resultType":"complete"},"status":"completed","taskId":"t1","ttlMs":null}
           send 9: 9 tasks/cancel {"taskId":"t1"}
           a5: finish 0 = {"resultType":"complete",#S}
           a6: finish - ! -32602 there is no such task"#,
    );
}

/// wire: TASK-7, TASK-8, SUB-2, SUB-3
#[test]
fn who_listens_to_a_task_is_told_with_what_it_asks_and_comes_to() {
    let able = ENVELOPE
        .replace("\"extensions\":{}", "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}");
    let open = |name: &str, call: &str| {
        format!("open {name}: 5 {}\n", call.replace('^', &format!("\"_meta\":{{{able}}}")))
    };
    let related = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}"#;
    let sub = r#""_meta":{"io.modelcontextprotocol/subscriptionId":0}"#;
    let script = [
        open("a1", r#"tools/call {"name":"j",^}"#),
        r#"recv: 3 = {"tools":[{"name":"j","execution":{"taskSupport":"optional"}}]}
           recv: 4 = {"task":{"taskId":"t1","status":"working","ttl":9}}
        "#
        .to_owned(),
        open("a2", r#"subscriptions/listen {"notifications":{"taskIds":["t1","t2"]},^}"#),
        // Another principal, by the first letter of its name.
        open("B1", r#"subscriptions/listen {"notifications":{"taskIds":["t1"]},^}"#),
        open("B2", r#"tasks/get {"taskId":"t1",^}"#),
        open("B3", r#"tasks/update {"taskId":"t1",^}"#),
        "recv: notifications/tasks/status {\"taskId\":\"t1\",\"status\":\"input_required\",\"ttl\":9}\n".to_owned(),
        format!("recv: \"q\" roots/list {{{related}}}\n"),
        "recv: notifications/tasks/status {\"taskId\":\"t1\",\"status\":\"working\",\"ttl\":9}\n".to_owned(),
        "recv: notifications/tasks/status {\"taskId\":\"t1\",\"status\":\"completed\",\"ttl\":9}\n".to_owned(),
        format!("recv: 5 = {{\"content\":[],{related}}}\n"),
    ];
    let told = |status: &str, more: &str| {
        format!(
            r#"a2: note notifications/tasks {{{sub},{more}"status":"{status}","taskId":"t1","ttlMs":9}}"#
        )
    };
    let asks =
        told("input_required", r#""inputRequests":{"q1":{"method":"roots/list","params":{}}},"#);
    let end = told(
        "completed",
        r#""result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}},"content":[],"resultType":"complete"},"#,
    );
    check(
        Sharing::Shared,
        &script.concat(),
        &format!(
            r#"send 3: 3 tools/list {{}}
               send 4: 4 tools/call {{"task":{{}},"name":"j"}}
               a1: finish 4 = {{#S,"resultType":"task","status":"working","taskId":"t1","ttlMs":9}}
               send 5: 5 tasks/result {{"taskId":"t1"}}
               a2: note notifications/subscriptions/acknowledged {{{sub},"notifications":{{"taskIds":["t1"]}}}}
               B1: note notifications/subscriptions/acknowledged {{{sub},"notifications":{{}}}}
               B1: finish 0 = {{"resultType":"complete",{sub}}}
               B2: finish - ! -32602 there is no such task
               B3: finish - ! -32602 there is no such task
               {asks}
               {asks}
               {end}
               send 0: "q" ! -32601 no client can answer this request: none is connected, or it lacks the capability"#
        ),
    );
}

/// wire: GW-40
#[test]
fn who_asks_what_a_server_is_has_a_call_open_until_it_was_greeted() {
    let half = ToLegacy::<Name>::new(Carrier::Pipe, Sharing::Alone, &Limits::default());
    let half = ClientHalf::ToLegacy(Box::new(half));
    let script = "open a1: 5 server/discover {\"_meta\":{@}}\nlook\nlost\nlook";
    let expected = format!(
        "send 1: 1 initialize {HELLO}\n1 open, not needed\na1: finish - ! -32603 Transport closed\n0 open, not needed"
    );
    script::check(half, ENVELOPE, script, &expected);
}

/// wire: GW-51
#[test]
fn a_listen_at_a_server_that_cannot_tell_is_not_honoured() {
    let sub = r#""_meta":{"io.modelcontextprotocol/subscriptionId":0}"#;
    let listen = r#"subscriptions/listen {"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:1"]},"_meta":{@}}"#;
    let whole = r#"{"resourceSubscriptions":["x:1"],"toolsListChanged":true}"#;
    for (seen, honours) in [("deaf", false), ("hears", true), ("wait 1000", true)] {
        let half = ToLegacy::<Name>::new(Carrier::Http, Sharing::Shared, &Limits::default());
        let half = ClientHalf::ToLegacy(Box::new(half));
        let rest = if honours { "recv 2: 2 = {}" } else { "" };
        let script = format!("open a1: 5 {listen}\nrecv 1: 1 = {WELCOME}\n{seen}\n{rest}");
        let (watch, honoured, end) = if honours {
            ("send 2: 2 resources/subscribe {\"uri\":\"x:1\"}\n", whole, String::new())
        } else {
            ("", "{}", format!("a1: finish 0 = {{\"resultType\":\"complete\",{sub}}}"))
        };
        let expected = format!(
            "send 1: 1 initialize {HELLO}\nsend 0: notifications/initialized\n{watch}a1: note notifications/subscriptions/acknowledged {{{sub},\"notifications\":{honoured}}}\n{end}"
        );
        script::check(half, ENVELOPE, &script, &expected);
    }
}

/// wire: GW-47, GW-59, TASK-5
#[test]
fn a_question_that_is_here_before_its_task_waits_for_it() {
    let able = ENVELOPE
        .replace("\"extensions\":{}", "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}");
    let call = |name: &str, tool: &str, envelope: &str| {
        format!("open {name}: 5 tools/call {{\"name\":\"{tool}\",\"_meta\":{{{envelope}}}}}\n")
    };
    let asks = |id: &str, task: &str| {
        format!(
            "recv: \"{id}\" roots/list {{\"_meta\":{{\"io.modelcontextprotocol/related-task\":{{\"taskId\":\"{task}\"}}}}}}\n"
        )
    };
    let script = [
        call("a1", "j", &able),
        "recv: 3 = {\"tools\":[{\"name\":\"j\",\"execution\":{\"taskSupport\":\"optional\"}}]}\n"
            .to_owned(),
        asks("q", "t1"),
        asks("r", "t9"),
        "recv: 4 = {\"task\":{\"taskId\":\"t1\",\"status\":\"working\"}}\n".to_owned(),
        format!(
            "open a2: 6 tasks/update {{\"taskId\":\"t1\",\"inputResponses\":{{\"q1\":{{\"roots\":[]}}}},\"_meta\":{{{able}}}}}\n"
        ),
        "wait 5000\n".to_owned(),
        // Two clients that know no tasks; the tool makes one all the same.
        call("b1", "x", ENVELOPE),
        call("c1", "k", ENVELOPE),
        "recv: 7 ! -32601 runs as a task only\n".to_owned(),
        asks("s", "t2"),
        "recv: 8 = {\"task\":{\"taskId\":\"t2\"}}\n".to_owned(),
        asks("u", "t2"),
    ];
    check(
        Sharing::Shared,
        &script.concat(),
        r#"send 3: 3 tools/list {}
           send 4: 4 tools/call {"task":{},"name":"j"}
           a1: finish 4 = {#S,"resultType":"task","status":"working","taskId":"t1","ttlMs":null}
           send 5: 5 tasks/result {"taskId":"t1"}
           a2: finish 0 = {"resultType":"complete",#S}
           send 0: "q" = {"roots":[]}
           send 0: "r" ! -32601 no client can answer this request: none is connected, or it lacks the capability
           send 6: 6 tools/call {"name":"x"}
           send 7: 7 tools/call {"name":"k"}
           send 8: 8 tools/call {"task":{},"name":"k"}
           c1: ask 3 "s" roots/list {}
           send 9: 9 tasks/result {"taskId":"t2"}
           c1: ask 4 "u" roots/list {}"#,
    );
}
