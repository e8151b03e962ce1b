//! Structure in the shape that the schema of its tool promises (GW-70).

use super::*;

const TOOLS: &str = r#"{"tools":[{"name":"any","outputSchema":{"anyOf":[]}},{"name":"is","outputSchema":{"type":"object"}},{"name":"none"}]}"#;

const SHOWN: &str = r#"{"tools":[{"name":"any","outputSchema":{"properties":{"result":{"anyOf":[]}},"required":["result"],"type":"object"}},{"name":"is","outputSchema":{"type":"object"}},{"name":"none"}]}"#;

/// A result with this structure, as it comes and as it goes.
fn result(structure: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"t"}}],"structuredContent":{structure}}}"#)
}

/// wire: GW-70
#[test]
fn what_is_listed_in_a_wrap_is_answered_in_one() {
    let (bare, wrapped) = (result(r#"{"a":1}"#), result(r#"{"result":{"a":1}}"#));
    check(
        "2025-11-25",
        "{}",
        &format!(
            r#"open a1: 5 tools/list
               recv 2: 2 = {TOOLS}
               open a2: 5 tools/call {{"name":"any"}}
               recv 3: 3 = {bare}
               open a3: 5 tools/call {{"name":"is"}}
               recv 4: 4 = {bare}
               open a4: 5 tools/call {{"name":"none"}}
               recv 5: 5 = {bare}"#
        ),
        &format!(
            r#"send 2: 2 tools/list {{"_meta":{{@}}}}
               a1: finish 2 = {SHOWN}
               send 3: 3 tools/call {{"_meta":{{@}},"name":"any"}}
               a2: finish 3 = {wrapped}
               send 4: 4 tools/call {{"_meta":{{@}},"name":"is"}}
               a3: finish 4 = {bare}
               send 5: 5 tools/call {{"_meta":{{@}},"name":"none"}}
               a4: finish 5 = {bare}"#
        ),
    );
}

/// wire: GW-70
#[test]
fn a_tool_that_was_listed_elsewhere_is_looked_up_once() {
    let (bare, wrapped) = (result(r#"{"a":1}"#), result(r#"{"result":{"a":1}}"#));
    let (list, listed) = (result("[1]"), result(r#"{"result":[1]}"#));
    let changes = r#"{"tools":{"listChanged":true}}"#;
    let sub = r#""_meta":{"io.modelcontextprotocol/subscriptionId":2}"#;
    check(
        "2025-11-25",
        changes,
        &format!(
            r#"recv 2: notifications/subscriptions/acknowledged {{"notifications":{{"toolsListChanged":true}},{sub}}}
               # Here it makes no difference.
               open a1: 5 tools/call {{"name":"any"}}
               recv 3: 3 = {list}
               open a2: 5 tools/call {{"name":"any"}}
               recv 4: 4 = {bare}
               open a3: 5 tools/call {{"name":"other"}}
               recv 6: 6 = {bare}
               open a4: 5 tools/call {{"name":"other"}}
               recv 7: 7 = {bare}
               drop a4
               recv 5: 5 = {{"tools":[],"nextCursor":"c"}}
               recv 8: 8 = {TOOLS}
               open a5: 5 tools/call {{"name":"another"}}
               recv 9: 9 = {bare}
               recv 2: notifications/tools/list_changed {{{sub}}}
               open a6: 5 tools/call {{"name":"any"}}
               recv 10: 10 = {bare}
               recv 11: 11 ! -32000 not now
               open a7: 5 tools/call {{"name":"any"}}
               recv 12: 12 = {bare}
               look
               wait 5000"#
        ),
        &format!(
            r#"send 2: 2 subscriptions/listen {{#OURS,"notifications":{{"toolsListChanged":true}}}}
               send 3: 3 tools/call {{"_meta":{{@}},"name":"any"}}
               a1: finish 3 = {listed}
               send 4: 4 tools/call {{"_meta":{{@}},"name":"any"}}
               send 5: 5 tools/list {{"_meta":{{@}}}}
               send 6: 6 tools/call {{"_meta":{{@}},"name":"other"}}
               send 7: 7 tools/call {{"_meta":{{@}},"name":"other"}}
               send 8: 8 tools/list {{"_meta":{{@}},"cursor":"c"}}
               a2: finish 4 = {wrapped}
               a3: finish 6 = {bare}
               send 9: 9 tools/call {{"_meta":{{@}},"name":"another"}}
               a5: finish 9 = {bare}
               all: note notifications/tools/list_changed
               send 10: 10 tools/call {{"_meta":{{@}},"name":"any"}}
               send 11: 11 tools/list {{"_meta":{{@}}}}
               a6: finish 10 = {bare}
               send 12: 12 tools/call {{"_meta":{{@}},"name":"any"}}
               send 13: 13 tools/list {{"_meta":{{@}}}}
               1 open, not needed
               a7: finish 12 = {bare}"#
        ),
    );
    // Who cannot read structure need not know its shape.
    let text = r#"{"content":[{"type":"text","text":"t"}]}"#;
    check(
        "2025-03-26",
        "{}",
        &format!("open a1: 5 tools/call {{\"name\":\"any\"}}\nrecv 2: 2 = {bare}"),
        &format!(
            "send 2: 2 tools/call {{\"_meta\":{{{}}},\"name\":\"any\"}}\na1: finish 2 = {text}",
            ENVELOPE.replace("\"elicitation\":{},", "")
        ),
    );
}

/// wire: GW-70
#[test]
fn tools_that_change_while_they_are_looked_up_are_looked_up_anew() {
    let (bare, wrapped) = (result(r#"{"a":1}"#), result(r#"{"result":{"a":1}}"#));
    let sub = r#""_meta":{"io.modelcontextprotocol/subscriptionId":2}"#;
    let first = TOOLS.replace("}]}", "}],\"nextCursor\":\"c\"}");
    check(
        "2025-11-25",
        r#"{"tools":{"listChanged":true}}"#,
        &format!(
            r#"recv 2: notifications/subscriptions/acknowledged {{"notifications":{{"toolsListChanged":true}},{sub}}}
               open a1: 5 tools/call {{"name":"any"}}
               recv 3: 3 = {bare}
               recv 4: 4 = {first}
               recv 2: notifications/tools/list_changed {{{sub}}}
               recv 5: 5 = {{"tools":[]}}
               recv 6: 6 = {first}
               recv 7: 7 = {{"tools":[]}}"#
        ),
        &format!(
            r#"send 2: 2 subscriptions/listen {{#OURS,"notifications":{{"toolsListChanged":true}}}}
               send 3: 3 tools/call {{"_meta":{{@}},"name":"any"}}
               send 4: 4 tools/list {{"_meta":{{@}}}}
               send 5: 5 tools/list {{"_meta":{{@}},"cursor":"c"}}
               all: note notifications/tools/list_changed
               send 6: 6 tools/list {{"_meta":{{@}}}}
               send 7: 7 tools/list {{"_meta":{{@}},"cursor":"c"}}
               a1: finish 3 = {wrapped}"#
        ),
    );
}

/// wire: GW-27, GW-70
#[test]
fn a_task_comes_to_the_shape_of_its_tool() {
    let bare = result(r#"{"a":1}"#);
    let related = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}"#;
    let script = format!(
        r#"open a1: 5 tools/call {{"name":"any","task":{{}}}}
           recv 2: 2 = {{"taskId":"x","status":"working","resultType":"task"}}
           open a2: 5 tasks/result {{"taskId":"x"}}
           recv 4: 4 = {{"taskId":"x","status":"completed","result":{bare}}}
           recv 5: 5 = {TOOLS}"#
    );
    let expected = format!(
        r#"send 2: 2 tools/call {{"_meta":{{$}},"name":"any"}}
           a1: finish 0 = {{"task":{{"status":"working","taskId":"x","ttl":null}}}}
           send 3: 3 subscriptions/listen {{#OURS,"notifications":{{"taskIds":["x"]}}}}
           send 4: 4 tasks/get {{"_meta":{{$}},"taskId":"x"}}
           send 5: 5 tools/list {{"_meta":{{@}}}}
           a2: finish 0 = {{{related},"content":[{{"type":"text","text":"t"}}],"structuredContent":{{"result":{{"a":1}}}}}}"#
    );
    check_offering("2025-11-25", TASKS, &script, &taking_tasks(&expected));
}
