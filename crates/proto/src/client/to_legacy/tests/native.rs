//! Legacy clients beside modern ones, on one connection to a legacy server.

use super::*;

/// wire: GW-81
#[test]
fn a_legacy_client_passes_by_and_is_answered_from_the_greeting_of_all() {
    check(
        Sharing::Shared,
        r#"open n1: "i" initialize {"protocolVersion":"2025-06-18","capabilities":{}}
           note: notifications/initialized
           open n2: 7 tools/call {"name":"t","_meta":{"progressToken":"p"}}
           look
           recv: notifications/progress {"progressToken":"switchboard-1","progress":1}
           recv: 3 = {"content":[],"x":1}
           recv: notifications/tools/list_changed"#,
        &format!(
            r#"n1: finish 1 = {WELCOME}
               send 3: 3 tools/call {{"name":"t","_meta":{{"progressToken":"T1"}}}}
               1 open, not needed
               n2: note notifications/progress {{"progressToken":"p","progress":1}}
               n2: finish 3 = {{"content":[],"x":1}}
               all: note notifications/tools/list_changed"#
        ),
    );
}

/// wire: GW-47
#[test]
fn a_question_goes_to_the_only_client_that_has_calls_of_whichever_era() {
    check(
        Sharing::Shared,
        r#"open n1: 7 tools/call {"name":"t"}
           recv: 9 roots/list
           supply 1: 0 = {"roots":[]}
           open n2: 8 tools/call {"name":"t"}
           recv: 10 roots/list
           drop n2
           open a1: 5 tools/call {"name":"t","_meta":{@}}
           recv: 11 roots/list
           gone n"#,
        r#"send 3: 3 tools/call {"name":"t"}
           n1: ask 1 9 roots/list
           send 0: 9 = {"roots":[]}
           send 4: 4 tools/call {"name":"t"}
           n1: ask 2 10 roots/list
           send 0: notifications/cancelled {"requestId":4}
           abort 4
           send 5: 5 tools/call {"name":"t"}
           send 0: 11 ! -32601 no client can answer this request: none is connected, or it lacks the capability
           send 0: notifications/cancelled {"requestId":3}
           abort 3
           send 0: 10 ! -32601 no client can answer this request: none is connected, or it lacks the capability"#,
    );
}
