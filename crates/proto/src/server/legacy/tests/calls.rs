//! The handshake, calls, cancelling, batches, limits.

use super::*;

/// wire: LIF-1, LIF-2, UTL-3
#[test]
fn the_handshake_passes_and_is_watched() {
    for carrier in [Carrier::Pipe, Carrier::Http] {
        let mut half = fresh(carrier);
        let mut phases = vec![half.phase()];
        for step in [
            "post 1: \"a\" initialize {\"protocolVersion\":\"2025-06-18\"}",
            "finish 1: 0 = {\"protocolVersion\":\"2025-06-18\"}",
            "post 2: notifications/initialized",
            "end",
        ] {
            let (head, text) = step.split_once(": ").unwrap_or((step, ""));
            play(&mut half, &head.split(' ').collect::<Vec<_>>(), text).unwrap();
            phases.push(half.phase());
        }
        let want =
            [Phase::Fresh, Phase::Greeting, Phase::AwaitingInitialized, Phase::Ready, Phase::Ended];
        assert_eq!(phases, want);
        assert_eq!(half.revision(), Revision::V2025_06_18);
    }
}

/// wire: LIF-1, LIF-2, UTL-3
#[test]
fn before_initialize_only_pings_are_served() {
    check(
        fresh(Carrier::Pipe),
        r#"line: 1 tools/list
           line: "p" ping
           line: notifications/roots/list_changed
           line: initialize {}
           line: 2 initialize {}
           line: 3 tools/list"#,
        r#"lane 0: 1 ! -32600 initialize first
           lane 0: "p" = {}
           up: open 1 2 initialize {}
           up: open 2 3 tools/list"#,
    );
}

/// wire: LIF-2, HTTP-3, HTTP-4, HTTP-5
#[test]
fn early_requests_pass_because_posts_have_no_order() {
    check(
        fresh(Carrier::Http),
        r#"post 1: 1 initialize {}
           finish 1: 9 = {"protocolVersion":"2025-11-25"}
           post 2: 2 tools/list
           post 3: notifications/initialized
           post 4: notifications/initialized
           finish 2: 9 = {"tools":[]}"#,
        r#"up: open 1 1 initialize {}
           lane 1: answer 200 1 = {"protocolVersion":"2025-11-25"}
           up: open 2 2 tools/list
           lane 3: accepted
           up: note notifications/initialized
           lane 4: accepted
           lane 2: answer 200 2 = {"tools":[]}"#,
    );
}

/// A script that writes its lines without reading is served all the same.
///
/// wire: LIF-2
#[test]
fn a_confirmation_that_comes_early_counts_once() {
    let mut half = fresh(Carrier::Pipe);
    let mut seen = Vec::new();
    for (head, text) in [
        ("line", "1 initialize {}"),
        ("line", "notifications/initialized"),
        ("line", "notifications/initialized"),
        ("finish 1", "9 = {\"protocolVersion\":\"2025-11-25\"}"),
    ] {
        play(&mut half, &head.split(' ').collect::<Vec<_>>(), text).unwrap();
        seen.extend(std::iter::from_fn(|| half.poll_to_server()).map(|up| up.name()));
    }
    assert_eq!(seen, ["open", "note"]);
    assert_eq!(half.phase(), Phase::Ready);
}

/// wire: HTTP-25
#[test]
fn a_second_initialize_is_refused_unless_the_first_failed() {
    check(
        fresh(Carrier::Http),
        r#"post 1: 1 initialize {}
           post 2: 2 initialize {}
           finish 1: 9 ! -32602 no
           post 3: 3 initialize {}
           finish 2: 9 = {"protocolVersion":"2025-11-25"}
           post 4: 4 initialize {}"#,
        r#"up: open 1 1 initialize {}
           lane 2: answer 400 2 ! -32600 this session is initialized already
           lane 1: answer 200 1 ! -32602 no
           up: open 2 3 initialize {}
           lane 3: answer 200 3 = {"protocolVersion":"2025-11-25"}
           lane 4: answer 400 4 ! -32600 this session is initialized already"#,
    );
}

/// wire: MSG-2, MSG-3, DIV-17
#[test]
fn ids_of_every_type_come_back_as_they_were() {
    check(
        ready(Carrier::Pipe, V2025_11),
        r#"line: 1 a
           line: "1" b
           line: -7 c
           line: 123456789012345678901234567890 d
           line: {"jsonrpc":"2.0","id":2.0,"method":"e"}
           line: {"jsonrpc":"2.0","id":null,"method":"f"}
           line: {"jsonrpc":"2.0","id":1.5,"method":"g"}
           line: 1 again
           finish 5: 0 = "d"
           finish 4: 0 = "c"
           finish 3: 0 = "b"
           finish 2: 0 = "a"
           finish 6: 0 = "e"
           finish 6: 0 = "twice""#,
        r#"up: open 2 1 a
           up: open 3 "1" b
           up: open 4 -7 c
           up: open 5 123456789012345678901234567890 d
           up: open 6 2 e
           lane 0: - ! -32600 not a JSON-RPC 2.0 message: id must be a string or an integer
           lane 0: - ! -32600 not a JSON-RPC 2.0 message: id must be a string or an integer
           lane 0: 1 ! -32600 id 1 is in use by a request that is still open
           lane 0: 123456789012345678901234567890 = "d"
           lane 0: -7 = "c"
           lane 0: "1" = "b"
           lane 0: 1 = "a"
           lane 0: 2 = "e""#,
    );
}

/// wire: UTL-1, HTTP-9
#[test]
fn a_cancelled_call_ends_without_an_answer() {
    for revision in LEGACY {
        check(
            ready(Carrier::Http, revision),
            r#"post 2: "x" tools/call {}
               post 3: notifications/cancelled {"requestId":"x","reason":"enough"}
               finish 2: 0 = {}
               post 4: notifications/cancelled {"requestId":"x"}
               post 5: notifications/cancelled {"requestId":{}}
               post 6: "x" tools/call {}"#,
            r#"up: open 2 "x" tools/call {}
               lane 3: accepted
               up: drop 2 notifications/cancelled {"requestId":"x","reason":"enough"}
               lane 2: end
               lane 4: accepted
               lane 5: accepted
               up: open 3 "x" tools/call {}"#,
        );
    }
}

/// wire: UTL-1, HTTP-9
#[test]
fn a_cancelled_call_that_the_server_answers_all_the_same_is_answered() {
    for revision in LEGACY {
        check(
            ready(Carrier::Http, revision),
            r#"post 2: "x" tools/call {}
               post 3: notifications/cancelled {"requestId":"x","reason":"answer me"}
               finish 2: 0 = {}
               finish 2: 0 = {}
               post 4: "x" tools/call {}
               post 5: notifications/cancelled {"requestId":"x","reason":"answer me"}
               unanswered 3
               finish 3: 0 = {}"#,
            r#"up: open 2 "x" tools/call {}
               lane 3: accepted
               up: drop 2 notifications/cancelled {"requestId":"x","reason":"answer me"}
               lane 2: answer 200 "x" = {}
               up: open 3 "x" tools/call {}
               lane 5: accepted
               up: drop 3 notifications/cancelled {"requestId":"x","reason":"answer me"}
               lane 4: end"#,
        );
    }
}

/// wire: UTL-1, MSG-5
#[test]
fn a_late_answer_is_not_taken_for_that_of_a_later_call_with_the_same_id() {
    check(
        ready(Carrier::Pipe, V2025_11),
        r#"line: 1 tools/call {}
           line: notifications/cancelled {"requestId":1,"reason":"answer me"}
           line: 1 tools/call {}
           finish 2: 0 = "first"
           finish 3: 0 = "second""#,
        r#"up: open 2 1 tools/call {}
           up: drop 2 notifications/cancelled {"requestId":1,"reason":"answer me"}
           up: open 3 1 tools/call {}
           lane 0: 1 = "second""#,
    );
}

#[test]
fn cancelled_calls_count_no_more_and_as_many_are_remembered_as_may_be_open() {
    check(
        with_limits(Carrier::Http, V2025_11, |limits| limits.calls = 1),
        r#"post 2: 1 a
           post 3: notifications/cancelled {"requestId":1,"reason":"answer me"}
           post 4: 2 a
           post 5: notifications/cancelled {"requestId":2,"reason":"answer me"}
           finish 2: 0 = {}
           finish 3: 0 = {}"#,
        r#"up: open 2 1 a
           lane 3: accepted
           up: drop 2 notifications/cancelled {"requestId":1,"reason":"answer me"}
           up: open 3 2 a
           lane 5: accepted
           up: drop 3 notifications/cancelled {"requestId":2,"reason":"answer me"}
           lane 2: end
           lane 4: answer 200 2 = {}"#,
    );
}

/// wire: UTL-1
#[test]
fn initialize_cannot_be_cancelled() {
    check(
        fresh(Carrier::Pipe),
        r#"line: 1 initialize {}
           line: notifications/cancelled {"requestId":1}
           finish 1: 0 = {"protocolVersion":"2024-11-05"}"#,
        r#"up: open 1 1 initialize {}
           lane 0: 1 = {"protocolVersion":"2024-11-05"}"#,
    );
}

/// wire: UTL-1, CAN-3
#[test]
fn an_id_is_told_by_its_type_when_cancelling() {
    check(
        ready(Carrier::Pipe, V2025_06),
        r#"line: 1 a
           line: "1" b
           line: notifications/cancelled {"requestId":"1"}
           finish 3: 0 = "late"
           finish 2: 0 = "a""#,
        r#"up: open 2 1 a
           up: open 3 "1" b
           up: drop 3 notifications/cancelled {"requestId":"1"}
           lane 0: 1 = "a""#,
    );
}

/// wire: MSG-8, HTTP-3, HTTP-6
#[test]
fn a_batch_is_answered_one_by_one_on_one_stream() {
    check(
        ready(Carrier::Http, V2025_03),
        r#"post 2: [{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":2,"method":"b"},7]
           finish 3: 0 = "b"
           finish 2: 0 = "a"
           post 3: [{"jsonrpc":"2.0","method":"n"}]
           post 4: [{"jsonrpc":"2.0","id":3,"method":"c"}]
           finish 4: 0 = "c""#,
        r#"lane 2: begin
           lane 2: event 2-1 - ! -32600 not a JSON-RPC 2.0 message: it is no object
           up: open 2 1 a
           up: note n
           up: open 3 2 b
           lane 2: event 2-2 2 = "b"
           lane 2: event 2-3 1 = "a"
           lane 2: end
           lane 3: accepted
           up: note n
           up: open 4 3 c
           lane 4: answer 200 3 = "c""#,
    );
}

/// wire: MSG-8, MSG-9, HTTP-25
#[test]
fn batches_belong_to_one_revision_and_never_hold_initialize() {
    let two = r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]"#;
    for revision in [V2024, V2025_06, V2025_11] {
        check(
            ready(Carrier::Http, revision),
            &format!("post 2: {two}"),
            "lane 2: answer 200 - ! -32600 batches are not part of this protocol revision; send one message at a time",
        );
    }
    check(
        fresh(Carrier::Http),
        r#"post 1: [{"jsonrpc":"2.0","id":1,"method":"initialize"}]
           post 2: []"#,
        "lane 1: answer 400 - ! -32600 batch refused: initialize must come alone
         lane 2: answer 400 - ! -32600 batch refused: it is empty",
    );
}

/// wire: MSG-8, UTL-1
#[test]
fn a_batch_ends_when_the_rest_of_it_is_cancelled() {
    check(
        ready(Carrier::Http, V2025_03),
        r#"post 2: [{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]
           post 3: notifications/cancelled {"requestId":1}
           finish 3: 0 = "b""#,
        r#"lane 2: begin
           up: open 2 1 a
           up: open 3 2 b
           lane 3: accepted
           up: drop 2 notifications/cancelled {"requestId":1}
           lane 2: event 2-1 2 = "b"
           lane 2: end"#,
    );
}

#[test]
fn calls_beyond_the_limit_are_refused_and_not_queued() {
    let half = with_limits(Carrier::Http, V2025_06, |limits| limits.calls = 2);
    check(
        half,
        r"post 2: 1 a
           post 3: 2 b
           post 4: 3 c
           finish 2: 0 = {}
           post 5: 3 c",
        "up: open 2 1 a
         up: open 3 2 b
         lane 4: answer 429 3 ! -32603 too many calls are open; wait for one to finish
         lane 2: answer 200 1 = {}
         up: open 4 3 c",
    );
}

/// wire: MSG-1, MSG-5
#[test]
fn what_is_no_message_is_answered_with_what_is_known_of_it() {
    check(
        ready(Carrier::Http, V2025_06),
        r#"post 2: {"jsonrpc":"2.0","id":5,"method":7}
           post 3: {"jsonrpc":"2.0","id":5
           post 4: {"id":"k","method":"a"}"#,
        r#"lane 2: answer 400 5 ! -32600 not a JSON-RPC 2.0 message: method must be a string
           lane 3: answer 400 5 ! -32700 not JSON, from byte 23
           lane 4: answer 400 "k" ! -32600 not a JSON-RPC 2.0 message: jsonrpc is missing"#,
    );
}

/// wire: HTTP-4, HTTP-22
#[test]
fn an_ended_session_takes_nothing_any_more() {
    check(
        ready(Carrier::Http, V2025_11),
        r"post 2: 1 tools/call {}
           get 3
           end
           finish 2: 0 = {}
           post 4: 2 tools/list
           post 5: notifications/roots/list_changed
           post 6: 1 = {}
           get 7
           get 8 after 0-0",
        "up: open 2 1 tools/call {}
         lane 3: begin 0-0 retry 1000
         lane 2: answer 404 1 ! -32001 Session not found
         lane 3: end
         lane 4: answer 404 2 ! -32001 Session not found
         lane 5: answer 404 - ! -32001 Session not found
         lane 6: answer 404 - ! -32001 Session not found
         refused 404: Session not found
         refused 404: Session not found",
    );
}
