//! Legacy clients of a modern server.

use super::*;
use crate::client::ClientHalf;
use crate::client::tests::script::{self, Name};

mod patience;
mod shape;

/// What the client of these transcripts is turned into on each request.
const ENVELOPE: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{},"sampling":{}},"io.modelcontextprotocol/clientInfo":{"name":"c"}"#;

/// What we ask on our own account.
const OURS: &str = concat!(
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"switchboard","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}}"#
);

/// The handshake of client `a`, with a server that offers `capabilities`.
fn greeting(version: &str, capabilities: &str) -> String {
    format!(
        r#"open a0: 0 initialize {{"protocolVersion":"{version}","capabilities":{{"elicitation":{{}},"roots":{{"listChanged":true}},"sampling":{{}},"tasks":{{}}}},"clientInfo":{{"name":"c"}}}}
           recv 1: 1 = {{"supportedVersions":["2026-07-28"],"capabilities":{capabilities},"resultType":"complete"}}
           note: notifications/initialized
        "#
    )
}

#[track_caller]
fn check(version: &str, capabilities: &str, script: &str, expected: &str) {
    check_offering(version, [capabilities, capabilities], script, expected);
}

/// The same with a server that says of itself the first, of which its client is told the second.
#[track_caller]
fn check_offering(version: &str, [capabilities, offered]: [&str; 2], script: &str, expected: &str) {
    let half = ToModern::<Name>::new(Carrier::Http, Sharing::Alone, &Limits::default());
    let half = ClientHalf::ToModern(Box::new(half));
    let script = format!("{}{script}", greeting(version, capabilities));
    let version = if version == "2031-01-01" { "2025-11-25" } else { version };
    let server = serde_json::json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")});
    let expected = format!(
        r#"send 1: 1 server/discover {{{OURS}}}
           a0: finish 0 = {{"capabilities":{offered},"protocolVersion":"{version}","serverInfo":{server}}}
           {expected}"#
    )
    .replace("#OURS", OURS);
    script::check(half, ENVELOPE, &script, &expected);
}

/// wire: GW-10, GW-11, GW-12, GW-21, GW-24, GW-27, NEG-11
#[test]
fn a_handshake_is_answered_from_what_the_server_says_of_itself() {
    check(
        "2031-01-01",
        r#"{"tools":{}}"#,
        r#"open a1: 5 tools/list
           open a2: 6 ping
           open a3: 7 tools/call {"name":"t","task":{"ttl":5},"_meta":{"k":1}}
           open a4: 8 tasks/list
           open a5: 9 logging/setLevel {"level":"info"}
           note: notifications/roots/list_changed
           note: x/own
           recv 2: 2 = {"tools":[],"ttlMs":5,"resultType":"complete"}"#,
        r#"send 2: 2 tools/list {"_meta":{@}}
           a2: finish 0 = {}
           send 3: 3 tools/call {"name":"t","_meta":{@,"k":1}}
           a4: finish - ! -32601 Method not found: tasks/list
           a5: finish - ! -32601 Method not found: logging/setLevel
           send 0: x/own
           a1: finish 2 = {"tools":[]}"#,
    );
}

/// wire: GW-14, GW-18, MRTR-5, MRTR-11
#[test]
fn each_round_is_a_new_call_with_the_answers_of_that_round_alone() {
    check(
        "2025-06-18",
        "{}",
        r#"open a1: 5 tools/call {"name":"t"}
           recv 2: 2 = {"resultType":"input_required","inputRequests":{"k \"1":{"method":"roots/list"},"e":{"method":"elicitation/create","params":{"message":"m"}}},"requestState":"a\/b"}
           supply 2: 9 = {"action":"accept"}
           supply 1: 8 = {"roots":[]}
           recv 3: 3 = {"resultType":"input_required","inputRequests":{"e":{"method":"elicitation/create"}}}
           supply 3: 7 ! -32000 broken
           recv 4: 4 = {"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}
           drop a1
           supply 4: 6 = {"roots":[]}"#,
        r#"send 2: 2 tools/call {"_meta":{@},"name":"t"}
           a1: ask 1 "k \"1" roots/list {}
           a1: ask 2 "e" elicitation/create {"message":"m"}
           send 3: 3 tools/call {"_meta":{@},"inputResponses":{"e":{"action":"accept"},"k \"1":{"roots":[]}},"requestState":"a\/b","name":"t"}
           a1: ask 3 "e" elicitation/create {}
           send 4: 4 tools/call {"_meta":{@},"inputResponses":{"e":{"action":"cancel"}},"name":"t"}
           a1: ask 4 "r" roots/list {}
           a1: recall 4"#,
    );
}

/// wire: GW-15, GW-16, GW-29, MRTR-10
#[test]
fn what_a_client_cannot_be_asked_fails_its_call() {
    check(
        "2025-03-26",
        "{}",
        r#"open a1: 5 tools/call {"name":"t"}
           recv 2: 2 = {"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"},"e":{"method":"elicitation/create"}}}
           open a2: 6 prompts/get {"name":"p"}
           recv 3: 3 = {"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"},"s":{"method":"sampling/createMessage"}}}
           supply 1: 9 ! -1 no
           open a3: 7 tools/call {"name":"t"}
           recv 4: 4 ! -32021 needs elicitation
           open a4: 8 tools/call {"name":"t"}
           recv 5: 5 = {"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}
           refuse 3
           open a5: 9 tools/list
           recv 6: 6 = {"resultType":"hologram"}"#,
        r#"send 2: 2 tools/call {"_meta":{^},"name":"t"}
           a1: finish 0 = {"content":[{"text":"the server needs roots/list, elicitation/create, which this client cannot answer","type":"text"}],"isError":true}
           send 3: 3 prompts/get {"_meta":{^},"name":"p"}
           a2: ask 1 "r" roots/list {}
           a2: ask 2 "s" sampling/createMessage {}
           a2: recall 2
           a2: finish - ! -32603 the client did not answer roots/list: no
           send 4: 4 tools/call {"_meta":{^},"name":"t"}
           a3: finish 0 = {"content":[{"text":"needs elicitation","type":"text"}],"isError":true}
           send 5: 5 tools/call {"_meta":{^},"name":"t"}
           a4: ask 3 "r" roots/list {}
           a4: finish 0 = {"content":[{"text":"the client did not answer roots/list: no client can answer this request: none is connected, or it lacks the capability","type":"text"}],"isError":true}
           send 6: 6 tools/list {"_meta":{^}}
           a5: finish - ! -32603 the server answered with an unknown resultType, "hologram""#
            .replace('^', &ENVELOPE.replace("\"elicitation\":{},", ""))
            .as_str(),
    );
}

/// wire: GW-17, GW-19, MRTR-6
#[test]
fn a_server_that_wants_to_be_asked_again_is_and_progress_only_grows() {
    let round = r#"= {"resultType":"input_required","requestState":"s"}"#;
    let progress = |lane: u64, at: f64| {
        format!("recv {lane}: notifications/progress {{\"progressToken\":7,\"progress\":{at}}}\n")
    };
    let script = [
        "open a1: 5 tools/call {\"name\":\"t\",\"_meta\":{\"progressToken\":7}}\n".to_owned(),
        progress(2, 2.0),
        format!("recv 2: 2 {round}\nwait 100\nwait 200\n"),
        progress(3, 1.0),
        progress(3, 2.5),
        "recv 3: 3 = {\"content\":[]}".to_owned(),
    ]
    .concat();
    check(
        "2025-11-25",
        "{}",
        &script,
        r#"send 2: 2 tools/call {"name":"t","_meta":{@,"progressToken":7}}
           a1: note notifications/progress {"progressToken":7,"progress":2}
           send 3: 3 tools/call {"requestState":"s","name":"t","_meta":{@,"progressToken":7}}
           a1: note notifications/progress {"progressToken":7,"progress":2.5}
           a1: finish 3 = {"content":[]}"#,
    );
    let endless = (2..=12).map(|lane| format!("recv {lane}: {lane} {round}\nwait 300\n"));
    let script =
        format!("open a1: 5 tools/call {{\"name\":\"t\"}}\n{}", endless.collect::<String>());
    let again = (3..=12).map(|lane| {
        format!("send {lane}: {lane} tools/call {{\"_meta\":{{@}},\"requestState\":\"s\",\"name\":\"t\"}}\n")
    });
    let expected = format!(
        "send 2: 2 tools/call {{\"_meta\":{{@}},\"name\":\"t\"}}\n{}{}",
        again.collect::<String>(),
        r#"a1: finish 0 = {"content":[{"text":"the server has asked too often","type":"text"}],"isError":true}"#
    );
    check("2025-11-25", "{}", &script, &expected);
}

/// wire: GW-22, GW-23, SUB-10
#[test]
fn one_listen_hears_everything_and_a_gap_is_told_once() {
    let sub = r#""_meta":{"io.modelcontextprotocol/subscriptionId":"#;
    let tools = r#""toolsListChanged":true"#;
    check(
        "2025-11-25",
        r#"{"tools":{"listChanged":true}}"#,
        &format!(
            r#"recv 2: notifications/subscriptions/acknowledged {{"notifications":{{{tools}}},{sub}2}}}}
               open a1: 5 resources/subscribe {{"uri":"x:1"}}
               open a2: 6 resources/subscribe {{"uri":"x:2"}}
               recv 4: notifications/subscriptions/acknowledged {{"notifications":{{{tools},"resourceSubscriptions":["x:1"]}},{sub}4}}}}
               recv 4: notifications/resources/updated {{"uri":"x:1",{sub}4}}}}
               recv 4: notifications/tools/list_changed {{{sub}4}}}}
               wait 1000
               recv 4: 4 = {{"resultType":"complete"}}
               wait 500
               wait 600
               recv 5: notifications/subscriptions/acknowledged {{"notifications":{{{tools},"resourceSubscriptions":["x:1"]}},{sub}5}}}}
               recv 5: notifications/tools/list_changed {{{sub}5}}}}
               gone a"#
        ),
        &format!(
            r#"send 2: 2 subscriptions/listen {{#OURS,"notifications":{{{tools}}}}}
               send 3: 3 subscriptions/listen {{#OURS,"notifications":{{"resourceSubscriptions":["x:1"],{tools}}}}}
               abort 3
               send 4: 4 subscriptions/listen {{#OURS,"notifications":{{"resourceSubscriptions":["x:1","x:2"],{tools}}}}}
               a1: finish 0 = {{}}
               a2: finish - ! -32603 the server does not watch x:2
               all: note notifications/resources/updated {{"uri":"x:1"}}
               all: note notifications/tools/list_changed
               abort 2
               send 5: 5 subscriptions/listen {{#OURS,"notifications":{{"resourceSubscriptions":["x:1"],{tools}}}}}
               all: note notifications/tools/list_changed
               all: note notifications/tools/list_changed
               send 6: 6 subscriptions/listen {{#OURS,"notifications":{{{tools}}}}}"#
        ),
    );
}

/// Over HTTP each listen has a connection of its own, and the new one may be faster.
///
/// wire: GW-22, GW-23
#[test]
fn what_is_on_its_way_when_another_resource_is_watched_is_told_once() {
    let sub = r#""_meta":{"io.modelcontextprotocol/subscriptionId":"#;
    let ack = |id: u32, uris: &str| {
        format!(
            r#"recv {id}: notifications/subscriptions/acknowledged {{"notifications":{{"resourceSubscriptions":[{uris}]}},{sub}{id}}}}}"#
        )
    };
    let updated = |id: u32, uri: &str| {
        format!(r#"recv {id}: notifications/resources/updated {{"uri":"{uri}",{sub}{id}}}}}"#)
    };
    let script = [
        r#"open a1: 5 resources/subscribe {"uri":"x:1"}"#.to_owned(),
        ack(2, r#""x:1""#),
        r#"open a2: 6 resources/subscribe {"uri":"x:2"}"#.to_owned(),
        ack(3, r#""x:1","x:2""#),
        // The second of two, by the connection that did not exist yet at the first.
        updated(3, "x:1"),
        updated(2, "x:1"),
        updated(2, "x:1"),
        updated(3, "x:2"),
        "wait 1000".to_owned(),
        updated(3, "x:1"),
    ];
    check(
        "2025-11-25",
        "{}",
        &script.join("\n"),
        r#"send 2: 2 subscriptions/listen {#OURS,"notifications":{"resourceSubscriptions":["x:1"]}}
           a1: finish 0 = {}
           send 3: 3 subscriptions/listen {#OURS,"notifications":{"resourceSubscriptions":["x:1","x:2"]}}
           a2: finish 0 = {}
           all: note notifications/resources/updated {"uri":"x:1"}
           all: note notifications/resources/updated {"uri":"x:1"}
           all: note notifications/resources/updated {"uri":"x:2"}
           abort 2
           all: note notifications/resources/updated {"uri":"x:1"}"#,
    );
}

/// wire: GW-22, SUB-10
#[test]
fn a_server_that_was_away_for_long_is_listened_to_when_it_answers_a_call() {
    let listen = r#"subscriptions/listen {#OURS,"notifications":{"toolsListChanged":true}}"#;
    let attempts = |each: &dyn Fn(u32) -> String| (2..23).map(each).collect::<Vec<_>>().join("\n");
    let script = attempts(&|id| format!("unanswered {id}\nwait 60000"))
        + r#"
           wait 600000
           open a1: 5 tools/list
           unanswered 23
           open a2: 6 tools/list
           recv 24: 24 = {"resultType":"complete","tools":[]}
           recv 25: notifications/subscriptions/acknowledged {"notifications":{"toolsListChanged":true}}"#;
    let after = format!(
        r#"
           send 23: 23 tools/list {{"_meta":{{@}}}}
           a1: finish - ! -32603 the stream broke
           send 24: 24 tools/list {{"_meta":{{@}}}}
           a2: finish 24 = {{"tools":[]}}
           send 25: 25 {listen}
           all: note notifications/tools/list_changed"#
    );
    let expected = attempts(&|id| format!("send {id}: {id} {listen}")) + &after;
    check("2025-11-25", r#"{"tools":{"listChanged":true}}"#, &script, &expected);
}

/// wire: GW-22
#[test]
fn what_a_server_does_not_watch_is_refused_each_time() {
    let ack = |id: u64| {
        let sub = r#""_meta":{"io.modelcontextprotocol/subscriptionId":"#;
        format!(r#"notifications/subscriptions/acknowledged {{"notifications":{{}},{sub}{id}}}}}"#)
    };
    let listen =
        r#"subscriptions/listen {#OURS,"notifications":{"resourceSubscriptions":["x:1"]}}"#;
    check(
        "2025-11-25",
        "{}",
        &format!(
            r#"open a1: 5 resources/subscribe {{"uri":"x:1"}}
               recv 2: {}
               open a2: 6 resources/subscribe {{"uri":"x:1"}}
               recv 3: {}
               wait 1000"#,
            ack(2),
            ack(3)
        ),
        &format!(
            r"send 2: 2 {listen}
               a1: finish - ! -32603 the server does not watch x:1
               send 3: 3 {listen}
               a2: finish - ! -32603 the server does not watch x:1
               abort 2"
        ),
    );
}

/// wire: GW-22, GW-28, STD-10
#[test]
fn what_is_open_when_the_link_is_lost_fails_once() {
    check(
        "2025-11-25",
        "{}",
        r#"open a1: 5 tools/call {"name":"t"}
           recv 2: 2 = {"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}
           open a2: 6 tools/list
           open a3: 7 resources/subscribe {"uri":"x:1"}
           lost
           supply 1: 9 = {"roots":[]}"#,
        r#"send 2: 2 tools/call {"_meta":{@},"name":"t"}
           a1: ask 1 "r" roots/list {}
           send 3: 3 tools/list {"_meta":{@}}
           send 4: 4 subscriptions/listen {#OURS,"notifications":{"resourceSubscriptions":["x:1"]}}
           a2: finish - ! -32603 Transport closed
           a3: finish - ! -32603 Transport closed
           a1: recall 1
           a1: finish - ! -32603 Transport closed"#,
    );
}

/// What a server says that has tasks, and what its clients of 2025-11-25 are told.
const TASKS: [&str; 2] = [
    r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
    r#"{"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}}"#,
];

/// An envelope that says that a task will do.
fn taking_tasks(text: &str) -> String {
    let more = r#""elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}},"#;
    let text = text.replace('$', &ENVELOPE.replace("\"elicitation\":{},", more));
    // Who listens for tasks says that it knows them.
    let ours =
        OURS.replace("ies\":{}", "ies\":{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}");
    let listen = ",\"notifications\":{\"taskIds\"";
    text.replace(&format!("#OURS{listen}"), &format!("{ours}{listen}"))
}

/// wire: EXT-1, GW-27, TASK-2, TASK-3, TASK-7, UTL-9
#[test]
fn a_legacy_client_has_its_task_at_a_modern_server() {
    let sub = r#""_meta":{"io.modelcontextprotocol/subscriptionId":3}"#;
    let related = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}"#;
    let state = |status: &str, more: &str| {
        format!(
            r#"{{"taskId":"x","status":"{status}","createdAt":"c","lastUpdatedAt":"u","ttlMs":9,"pollIntervalMs":100{more}}}"#
        )
    };
    let shown = |status: &str| {
        format!(
            r#"{{"createdAt":"c","lastUpdatedAt":"u","pollInterval":100,"status":"{status}","taskId":"x","ttl":9}}"#
        )
    };
    let created = state("working", r#","resultType":"task""#);
    let asks = state(
        "input_required",
        r#","inputRequests":{"k":{"method":"roots/list"},"e":{"method":"elicitation/create","params":{"message":"m"}}}"#,
    );
    let note = format!(r#"{{"taskId":"x","status":"working","ttlMs":9,{sub}}}"#);
    let failed = state("completed", r#","result":{"content":[],"isError":true}"#);
    let script = format!(
        r#"open a1: 5 tools/list
           recv 2: 2 = {{"tools":[{{"name":"t"}},{{"name":"u","execution":{{}}}}]}}
           open a2: 6 tools/call {{"name":"t","task":{{"ttl":9}}}}
           recv 3: 3 = {created}
           recv 4: notifications/subscriptions/acknowledged {{"notifications":{{"taskIds":["x"]}},{sub4}}}
           open a3: 7 tasks/get {{"taskId":"x"}}
           recv 5: 5 = {asks}
           open b1: 7 initialize {{"protocolVersion":"2025-11-25","capabilities":{{}}}}
           open b2: 7 tasks/get {{"taskId":"x"}}
           open a4: 8 tasks/result {{"taskId":"x"}}
           recv 6: 6 = {asks}
           supply 1: 0 = {{"roots":[]}}
           recv 7: 7 = {{"resultType":"complete"}}
           wait 0
           supply 2: 0 ! -1 broken
           recv 8: 8 = {asks}
           recv 4: notifications/tasks {note4}
           recv 9: 9 = {{"resultType":"complete"}}
           recv 10: 10 = {failed}
           open a5: 9 tasks/list
           open a6: 10 tasks/cancel {{"taskId":"x"}}
           recv 11: 11 = {{"resultType":"complete"}}
           recv 12: 12 = {failed}"#,
        sub4 = sub.replace('3', "4"),
        note4 = note.replace(":3}", ":4}"),
    );
    let expected = format!(
        r#"send 2: 2 tools/list {{"_meta":{{@}}}}
           a1: finish 2 = {{"tools":[{{"execution":{{"taskSupport":"optional"}},"name":"t"}},{{"name":"u","execution":{{}}}}]}}
           send 3: 3 tools/call {{"_meta":{{$}},"name":"t"}}
           a2: finish 0 = {{"task":{working}}}
           send 4: 4 subscriptions/listen {{#OURS,"notifications":{{"taskIds":["x"]}}}}
           send 5: 5 tasks/get {{"_meta":{{$}},"taskId":"x"}}
           a3: finish 0 = {asking}
           b1: finish 0 = {{"capabilities":{offered},"protocolVersion":"2025-11-25","serverInfo":{server}}}
           b2: finish - ! -32602 Task not found: x
           send 6: 6 tasks/get {{"_meta":{{$}},"taskId":"x"}}
           a4: ask 1 "k" roots/list {{{related}}}
           a4: ask 2 "e" elicitation/create {{{related},"message":"m"}}
           send 7: 7 tasks/update {{"_meta":{{$}},"inputResponses":{{"k":{{"roots":[]}}}},"taskId":"x"}}
           send 8: 8 tasks/get {{"_meta":{{$}},"taskId":"x"}}
           send 9: 9 tasks/update {{"_meta":{{$}},"inputResponses":{{"e":{{"action":"cancel"}}}},"taskId":"x"}}
           all: note notifications/tasks/status {{"status":"working","taskId":"x","ttl":9}}
           send 10: 10 tasks/get {{"_meta":{{$}},"taskId":"x"}}
           a4: finish 0 = {{{related},"content":[],"isError":true}}
           a5: finish 0 = {{"tasks":[{over}]}}
           send 11: 11 tasks/cancel {{"_meta":{{$}},"taskId":"x"}}
           send 12: 12 tasks/get {{"_meta":{{$}},"taskId":"x"}}
           a6: finish - ! -32602 the task is over"#,
        working = shown("working"),
        asking = shown("input_required"),
        over = shown("failed"),
        offered = TASKS[1],
        server = serde_json::json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")}),
    );
    check_offering("2025-11-25", TASKS, &script, &taking_tasks(&expected));
}

/// wire: GW-27, GW-29, TASK-1
#[test]
fn what_is_over_at_once_is_a_task_and_what_must_be_one_is_waited_for() {
    let needs = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32021,"message":"task only","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}"#;
    let done = r#"{"createdAt":"1970-01-01T00:00:00.000Z","lastUpdatedAt":"1970-01-01T00:00:00.000Z","status":"completed","taskId":"switchboard-1","ttl":9}"#;
    let related = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"switchboard-1"}}"#;
    let script = format!(
        r#"open a1: 5 tools/call {{"name":"t","task":{{"ttl":9}}}}
           recv 2: 2 = {{"resultType":"complete","content":[]}}
           open a2: 6 tasks/get {{"taskId":"switchboard-1"}}
           open a3: 7 tasks/result {{"taskId":"switchboard-1"}}
           open a4: 8 tasks/cancel {{"taskId":"switchboard-1"}}
           open a5: 9 tools/call {{"name":"u"}}
           recv 3: {needs}
           recv 4: 4 = {{"resultType":"task","taskId":"y","status":"working"}}
           wait 499
           wait 1
           recv 5: 5 = {{"resultType":"complete","taskId":"y","status":"completed","result":{{"resultType":"complete","content":[]}}}}
           open a6: 9 tools/call {{"name":"u"}}
           recv 6: {again}
           recv 7: 7 = {{"resultType":"task","taskId":"z","status":"working"}}
           drop a6"#,
        again = needs.replace(":3,", ":6,"),
    );
    let expected = format!(
        r#"send 2: 2 tools/call {{"_meta":{{$}},"name":"t"}}
           a1: finish 0 = {{"task":{done}}}
           a2: finish 0 = {done}
           a3: finish 0 = {{{related},"content":[]}}
           a4: finish - ! -32602 the task is over
           send 3: 3 tools/call {{"_meta":{{@}},"name":"u"}}
           send 4: 4 tools/call {{"_meta":{{$}},"name":"u"}}
           send 5: 5 tasks/get {{"_meta":{{$}},"taskId":"y"}}
           a5: finish 0 = {{"content":[]}}
           send 6: 6 tools/call {{"_meta":{{@}},"name":"u"}}
           send 7: 7 tools/call {{"_meta":{{$}},"name":"u"}}
           send 8: 8 tasks/cancel {{"_meta":{{$}},"taskId":"z"}}"#,
    );
    let expected = taking_tasks(&expected).replace("\"switchboard-1", "\"T1");
    check_offering("2025-11-25", TASKS, &script, &expected);
}

/// wire: GW-27, TASK-2, UTL-9
#[test]
fn a_task_is_forgotten_when_its_time_is_over_and_needs_the_connection_until_then() {
    let script = r#"open a1: 5 tools/call {"name":"t","task":{"ttl":900}}
           recv 2: 2 = {"resultType":"complete","content":[]}
           look
           open a2: 5 tools/call {"name":"t","task":{}}
           recv 3: 3 = {"taskId":"x","status":"working","ttlMs":2000,"resultType":"task"}
           wait 899
           open a3: 6 tasks/list
           wait 1
           open a4: 7 tasks/list
           look
           wait 1100
           look
           open a5: 8 tasks/get {"taskId":"x"}"#;
    let done = r#"{"createdAt":"1970-01-01T00:00:00.000Z","lastUpdatedAt":"1970-01-01T00:00:00.000Z","status":"completed","taskId":"T1","ttl":900}"#;
    let goes_on = r#"{"status":"working","taskId":"x","ttl":2000}"#;
    let expected = format!(
        r#"send 2: 2 tools/call {{"_meta":{{$}},"name":"t"}}
           a1: finish 0 = {{"task":{done}}}
           0 open, not needed
           send 3: 3 tools/call {{"_meta":{{$}},"name":"t"}}
           a2: finish 0 = {{"task":{goes_on}}}
           send 4: 4 subscriptions/listen {{#OURS,"notifications":{{"taskIds":["x"]}}}}
           a3: finish 0 = {{"tasks":[{done},{goes_on}]}}
           a4: finish 0 = {{"tasks":[{goes_on}]}}
           0 open, needed
           0 open, not needed
           a5: finish - ! -32602 Task not found: x"#
    );
    check_offering("2025-11-25", TASKS, script, &taking_tasks(&expected));
}

/// wire: GW-20, GW-81, LOG-1
#[test]
fn a_record_on_a_shared_pipe_goes_to_the_one_call_that_wants_any() {
    let half = ToModern::<Name>::new(Carrier::Pipe, Sharing::Shared, &Limits::default());
    let half = ClientHalf::ToModern(Box::new(half));
    let capabilities = r#"{"logging":{},"tools":{"listChanged":true}}"#;
    let script = format!(
        r#"{}recv: notifications/subscriptions/acknowledged {{"notifications":{{"toolsListChanged":true}},"_meta":{{"io.modelcontextprotocol/subscriptionId":2}}}}
           open b0: 0 initialize {{"protocolVersion":"2025-11-25","capabilities":{{}}}}
           open a1: 5 logging/setLevel {{"level":"info"}}
           open b1: 5 tools/call {{"name":"t"}}
           open a2: 6 tools/call {{"name":"t"}}
           recv: notifications/message {{"level":"info","data":1}}
           open a3: 7 tools/call {{"name":"t"}}
           recv: notifications/message {{"level":"info","data":2}}"#,
        greeting("2025-11-25", capabilities)
    );
    let (before, wanted) = (r#""io.modelcontextprotocol/clientInfo":{"name":"c"}"#, "info");
    let wants = ENVELOPE
        .replace(before, &format!(r#"{before},"io.modelcontextprotocol/logLevel":"{wanted}""#));
    let server = serde_json::json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")});
    let welcome = format!(
        r#"{{"capabilities":{capabilities},"protocolVersion":"2025-11-25","serverInfo":{server}}}"#
    );
    let bare = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
    let expected = format!(
        r#"send 1: 1 server/discover {{{OURS}}}
           a0: finish 0 = {welcome}
           send 2: 2 subscriptions/listen {{{OURS},"notifications":{{"toolsListChanged":true}}}}
           b0: finish 0 = {welcome}
           a1: finish 0 = {{}}
           send 3: 3 tools/call {{"_meta":{{{bare}}},"name":"t"}}
           send 4: 4 tools/call {{"_meta":{{{wants}}},"name":"t"}}
           a2: note notifications/message {{"level":"info","data":1}}
           send 5: 5 tools/call {{"_meta":{{{wants}}},"name":"t"}}"#
    );
    script::check(half, "no envelope", &script, &expected);
}
