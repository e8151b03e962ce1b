//! Which call a question is put to, where nothing says it.

use super::*;

/// wire: GW-45, GW-47, GW-50, GW-56
#[test]
fn a_question_goes_to_a_call_that_it_may_be_about() {
    check(
        Sharing::Shared,
        r#"recv: "p" ping
           recv: "q0" roots/list
           open a1: 5 tools/list {"_meta":{@}}
           recv: "q1" roots/list
           open a2: 6 tools/call {"name":"t","_meta":{@}}
           recv: "q2" roots/list {"_meta":{"progressToken":1}}
           recv: "q3" elicitation/create {"mode":"url","url":"u","elicitationId":"e"}
           supply 3: 0 = {"roots":[]}
           recv: notifications/cancelled {"requestId":"q3"}"#,
        r#"send 0: "p" = {}
           send 0: "q0" ! -32601 no client can answer this request: none is connected, or it lacks the capability
           send 3: 3 tools/list {}
           send 0: "q1" ! -32601 no client can answer this request: none is connected, or it lacks the capability
           send 4: 4 tools/call {"name":"t"}
           a2: ask 3 "q2" roots/list {}
           a2: ask 4 "q3" elicitation/create {"mode":"url","url":"u"}
           send 0: "q2" = {"roots":[]}
           a2: recall 4"#,
    );
}

/// Over HTTP each request comes by itself: that they are one client's is seen by
/// what they say of it.
///
/// wire: GW-47
#[test]
fn among_calls_of_one_client_the_oldest_not_asked_is_asked_else_the_last() {
    for sharing in [Sharing::Alone, Sharing::Shared] {
        check(
            sharing,
            r#"open a1: 5 tools/call {"name":"t","_meta":{@}}
               open b1: 5 tools/call {"name":"t","_meta":{@}}
               open c1: 5 tools/call {"name":"t","_meta":{@}}
               recv: "q1" roots/list
               recv: "q2" roots/list
               supply 1: 0 = {"roots":[]}
               recv: "q3" roots/list
               recv: "q4" roots/list
               recv: "q5" roots/list"#,
            r#"send 3: 3 tools/call {"name":"t"}
               send 4: 4 tools/call {"name":"t"}
               send 5: 5 tools/call {"name":"t"}
               a1: ask 1 "q1" roots/list {}
               b1: ask 2 "q2" roots/list {}
               send 0: "q1" = {"roots":[]}
               a1: ask 3 "q3" roots/list {}
               c1: ask 4 "q4" roots/list {}
               c1: ask 5 "q5" roots/list {}"#,
        );
    }
}

/// One call has room for few questions, and a client has many calls.
///
/// wire: GW-45, GW-47
#[test]
fn questions_of_many_calls_do_not_pile_onto_one() {
    let all = |line: &dyn Fn(u64) -> String| (1..=100).map(line).collect::<String>();
    let open = all(&|at| format!("open a{at}: 5 tools/call {{\"name\":\"t\",\"_meta\":{{@}}}}\n"));
    let asks = all(&|at| format!("recv: \"q{at}\" roots/list\n"));
    let opened = all(&|at| format!("send {0}: {0} tools/call {{\"name\":\"t\"}}\n", at + 2));
    let asked = all(&|at| format!("a{at}: ask {at} \"q{at}\" roots/list {{}}\n"));
    check(Sharing::Alone, &(open + &asks), &(opened + &asked));
}

/// Also not while the other's call is being asked already: it may ask twice.
///
/// wire: GW-47
#[test]
fn nobody_is_shown_what_another_client_is_asked() {
    let other = ENVELOPE.replace("\"name\":\"c\"", "\"name\":\"d\"");
    let weaker = ENVELOPE.replace("\"roots\":{},", "");
    // Another person, another client of the same person, and one that can do less.
    for (call, envelope) in [("B1", ENVELOPE), ("b1", &other), ("b1", &weaker)] {
        check(
            Sharing::Shared,
            &format!(
                r#"open a1: 5 tools/call {{"name":"t","_meta":{{@}}}}
                   recv: "q1" roots/list
                   open {call}: 5 tools/call {{"name":"t","_meta":{{{envelope}}}}}
                   recv: "q2" roots/list
                   recv: 4 = {{"content":[]}}
                   recv: "q3" roots/list"#
            ),
            &format!(
                r#"send 3: 3 tools/call {{"name":"t"}}
                   a1: ask 1 "q1" roots/list {{}}
                   send 4: 4 tools/call {{"name":"t"}}
                   send 0: "q2" ! -32601 no client can answer this request: none is connected, or it lacks the capability
                   {call}: finish 4 = {{"resultType":"complete",#S,"content":[]}}
                   a1: ask 3 "q3" roots/list {{}}"#
            ),
        );
    }
}

/// wire: GW-47, GW-49
#[test]
fn a_call_that_waits_for_a_page_to_be_visited_is_not_asked_by_the_server() {
    check(
        Sharing::Shared,
        r#"open a1: 5 tools/call {"name":"t","_meta":{@}}
           recv: {"jsonrpc":"2.0","id":3,"error":{"code":-32042,"message":"sign in","data":{"elicitations":[{"url":"u"}]}}}
           open a2: 5 tools/call {"name":"u","_meta":{@}}
           open a3: 5 tools/call {"name":"u","_meta":{@}}
           recv: "q1" roots/list
           recv: "q2" roots/list
           recv: "q3" roots/list"#,
        r#"send 3: 3 tools/call {"name":"t"}
           a1: ask 2147483649 0 elicitation/create {"mode":"url","url":"u"}
           send 4: 4 tools/call {"name":"u"}
           send 5: 5 tools/call {"name":"u"}
           a2: ask 1 "q1" roots/list {}
           a3: ask 2 "q2" roots/list {}
           a2: ask 3 "q3" roots/list {}"#,
    );
}

/// wire: GW-45, GW-47
#[test]
fn a_wrong_guess_is_mended_when_its_call_is_over() {
    check(
        Sharing::Alone,
        r#"open a1: 5 tools/call {"name":"t","_meta":{@}}
           open a2: 6 tools/call {"name":"u","_meta":{@}}
           recv: "q" roots/list
           recv: 3 = {"content":[]}
           supply 1: 0 = {"roots":[]}"#,
        r#"send 3: 3 tools/call {"name":"t"}
           send 4: 4 tools/call {"name":"u"}
           a1: ask 1 "q" roots/list {}
           a1: recall 1
           a2: ask 1 "q" roots/list {}
           a1: finish 3 = {"resultType":"complete",#S,"content":[]}
           send 0: "q" = {"roots":[]}"#,
    );
}

/// wire: GW-47
#[test]
fn a_wrong_guess_is_not_mended_with_another_client() {
    let other = ENVELOPE.replace("\"name\":\"c\"", "\"name\":\"d\"");
    check(
        Sharing::Shared,
        &format!(
            r#"open a1: 5 tools/call {{"name":"t","_meta":{{@}}}}
               open a2: 6 tools/call {{"name":"u","_meta":{{@}}}}
               recv: "q" roots/list
               recv: 4 = {{"content":[]}}
               open b1: 5 tools/call {{"name":"t","_meta":{{{other}}}}}
               recv: 3 = {{"content":[]}}"#
        ),
        r#"send 3: 3 tools/call {"name":"t"}
           send 4: 4 tools/call {"name":"u"}
           a1: ask 1 "q" roots/list {}
           a2: finish 4 = {"resultType":"complete",#S,"content":[]}
           send 5: 5 tools/call {"name":"t"}
           a1: finish 3 = {"resultType":"complete",#S,"content":[]}
           send 0: "q" ! -32601 no client can answer this request: none is connected, or it lacks the capability"#,
    );
}

/// A server that never answers what was cancelled is believed after a while.
///
/// wire: GW-47
#[test]
fn what_a_server_asks_about_a_dropped_call_is_not_put_to_another_person() {
    check(
        Sharing::Shared,
        r#"open a1: 5 tools/call {"name":"t","_meta":{@}}
           open B1: 5 tools/call {"name":"t","_meta":{@}}
           drop a1
           recv: "q" roots/list
           wait 6000
           recv: "r" roots/list"#,
        r#"send 3: 3 tools/call {"name":"t"}
           send 4: 4 tools/call {"name":"t"}
           send 0: notifications/cancelled {"requestId":3}
           abort 3
           send 0: "q" ! -32601 no client can answer this request: none is connected, or it lacks the capability
           B1: ask 1 "r" roots/list {}"#,
    );
}

/// wire: GW-45, GW-47
#[test]
fn questions_of_a_call_stay_together_though_another_has_waited_longer() {
    check(
        Sharing::Shared,
        r#"open a1: 5 tools/call {"name":"t","_meta":{@}}
           recv: "p" roots/list
           open a2: 5 tools/call {"name":"t","_meta":{@}}
           recv: "q" roots/list
           recv: "r" roots/list"#,
        r#"send 3: 3 tools/call {"name":"t"}
           a1: ask 1 "p" roots/list {}
           send 4: 4 tools/call {"name":"t"}
           a2: ask 2 "q" roots/list {}
           a2: ask 3 "r" roots/list {}"#,
    );
}
