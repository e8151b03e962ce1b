//! Streams that break and are taken up again.

use super::*;

/// wire: HTTP-9, HTTP-10, HTTP-11, HTTP-17, HTTP-18
#[test]
fn a_primed_stream_breaks_and_is_resumed_with_the_answer() {
    check(
        ready(Carrier::Http, V2025_11),
        r#"post 2: 1 tools/call {}
           stream 2
           close 2
           get 3 after 2-0
           note 2: notifications/progress {"progress":1}
           finish 2: 0 = {"ok":true}"#,
        r#"up: open 2 1 tools/call {}
           lane 2: begin 2-0 retry 1000
           lane 3: begin
           lane 3: event 2-1 notifications/progress {"progress":1}
           lane 3: event 2-2 1 = {"ok":true}
           lane 3: end"#,
    );
}

/// wire: HTTP-10, HTTP-11, HTTP-18
#[test]
fn a_server_hangs_up_and_its_client_comes_back_for_the_answer() {
    let expected = r#"up: open 2 1 tools/call {}
           lane 2: begin 2-0 retry 1000
           lane 2: end
           lane 3: begin
           lane 3: event 2-1 1 = {"ok":true}
           lane 3: end"#;
    check(
        ready(Carrier::Http, V2025_11),
        r#"post 2: 1 tools/call {}
           hang up 2
           hang up 2
           get 3 after 2-0
           finish 2: 0 = {"ok":true}"#,
        expected,
    );
    check(
        ready(Carrier::Http, V2025_11),
        r#"post 2: 1 tools/call {}
           hang up 2
           finish 2: 0 = {"ok":true}
           get 3 after 2-0"#,
        expected,
    );
}

/// wire: HTTP-11, HTTP-18
#[test]
fn a_call_that_was_taken_up_again_can_be_let_go_again() {
    check(
        ready(Carrier::Http, V2025_11),
        r#"post 2: 1 tools/call {}
           let go 2
           let go 2
           get 3 after 2-0
           let go 2
           let go 3
           get 4
           let go 4
           get 5 after 2-0
           finish 2: 0 = {"ok":true}"#,
        r#"up: open 2 1 tools/call {}
           lane 2: begin 2-0 retry 1000
           lane 2: end
           lane 3: begin
           lane 3: end
           lane 4: begin 0-0 retry 1000
           lane 5: begin
           lane 5: event 2-1 1 = {"ok":true}
           lane 5: end"#,
    );
}

/// Older clients would not come back, and a pipe is all there is.
/// wire: HTTP-10
#[test]
fn nobody_hangs_up_on_a_client_that_was_not_told_how_to_come_back() {
    check(
        ready(Carrier::Http, "2025-06-18"),
        r#"post 2: 1 tools/call {}
           hang up 2
           finish 2: 0 = {"ok":true}"#,
        r#"up: open 2 1 tools/call {}
           lane 2: answer 200 1 = {"ok":true}"#,
    );
    check(
        ready(Carrier::Pipe, V2025_11),
        r#"line: 1 tools/call {}
           hang up 2
           finish 2: 0 = {"ok":true}"#,
        r#"up: open 2 1 tools/call {}
           lane 0: 1 = {"ok":true}"#,
    );
}

/// wire: HTTP-18
#[test]
fn a_lane_whose_break_went_unnoticed_is_ended_when_its_stream_is_resumed() {
    check(
        ready(Carrier::Http, V2025_11),
        r#"post 2: 1 tools/call {}
           note 2: notifications/progress {"progress":1}
           get 3 after 2-1
           close 2
           finish 2: 0 = {}"#,
        r#"up: open 2 1 tools/call {}
           lane 2: begin 2-0 retry 1000
           lane 2: event 2-1 notifications/progress {"progress":1}
           lane 3: begin
           lane 2: end
           lane 3: event 2-2 1 = {}
           lane 3: end"#,
    );
}

/// wire: HTTP-14, HTTP-16
#[test]
fn of_two_listeners_the_newest_is_spoken_to() {
    check(
        ready(Carrier::Http, V2025_06),
        r"get 3
           get 4
           note: notifications/tools/list_changed
           close 4
           note: notifications/prompts/list_changed
           close 3
           note: notifications/resources/list_changed
           get 5",
        "lane 3: begin
         lane 4: begin
         lane 4: event 0-1 notifications/tools/list_changed
         lane 3: event 0-2 notifications/prompts/list_changed
         lane 5: begin
         lane 5: event 0-3 notifications/resources/list_changed",
    );
}

/// wire: HTTP-18
#[test]
fn a_resumed_listener_hears_what_nobody_heard_once() {
    check(
        ready(Carrier::Http, V2025_11),
        r"get 3
           note: a
           close 3
           note: b
           get 4 after 0-1
           close 4
           get 5
           note: c",
        "lane 3: begin 0-0 retry 1000
         lane 3: event 0-1 a
         lane 4: begin
         lane 4: event 0-2 b
         lane 5: begin 0-2 retry 1000
         lane 5: event 0-3 c",
    );
}

#[test]
fn history_keeps_the_answer_when_notes_no_longer_fit() {
    let half = with_limits(Carrier::Http, V2025_11, |limits| limits.history = 120);
    check(
        half,
        r#"post 2: 1 tools/call {}
           note 2: notifications/progress {"progress":1}
           note 2: notifications/progress {"progress":2}
           close 2
           finish 2: 0 = {"text":"0123456789"}
           get 3 after 2-0
           get 4 after 2-2"#,
        r#"up: open 2 1 tools/call {}
           lane 2: begin 2-0 retry 1000
           lane 2: event 2-1 notifications/progress {"progress":1}
           lane 2: event 2-2 notifications/progress {"progress":2}
           lane 3: begin
           lane 3: event 2-3 1 = {"text":"0123456789"}
           lane 3: end
           lane 4: begin
           lane 4: event 2-3 1 = {"text":"0123456789"}
           lane 4: end"#,
    );
}

/// wire: HTTP-9, HTTP-16, HTTP-18
#[test]
fn a_stream_that_breaks_in_the_middle_goes_on_where_it_broke() {
    for revision in [V2025_03, V2025_06, V2025_11] {
        let begin = if revision == V2025_11 { "begin 2-0 retry 1000" } else { "begin" };
        check(
            ready(Carrier::Http, revision),
            r#"post 2: 1 tools/call {}
               note 2: notifications/progress {"progress":1}
               note 2: notifications/progress {"progress":2}
               close 2
               note 2: notifications/progress {"progress":3}
               ask 2 q1: 5 roots/list
               finish 2: 0 = {}
               get 3 after 2-1
               get 4 after 2-5
               post 5: 1 = {"roots":[]}"#,
            &format!(
                r#"up: open 2 1 tools/call {{}}
               lane 2: {begin}
               lane 2: event 2-1 notifications/progress {{"progress":1}}
               lane 2: event 2-2 notifications/progress {{"progress":2}}
               lane 3: begin
               lane 3: event 2-2 notifications/progress {{"progress":2}}
               lane 3: event 2-3 notifications/progress {{"progress":3}}
               lane 3: event 2-4 1 roots/list
               lane 3: event 2-5 1 = {{}}
               lane 3: end
               lane 4: begin
               lane 4: end
               lane 5: accepted
               up: supply q1 1 = {{"roots":[]}}"#
            ),
        );
    }
}

/// wire: HTTP-9
#[test]
fn a_quiet_post_that_breaks_loses_its_answer_and_nothing_else() {
    check(
        ready(Carrier::Http, V2025_11),
        r"post 2: 1 tools/call {}
           close 2
           ask 2 q1: 5 roots/list
           finish 2: 0 = {}
           get 3",
        "up: open 2 1 tools/call {}
         lane 3: begin 0-0 retry 1000
         lane 3: event 0-1 1 roots/list",
    );
}

/// wire: HTTP-10, HTTP-18
#[test]
fn the_priming_event_of_a_listener_lies_before_what_it_is_about_to_hear() {
    check(
        ready(Carrier::Http, V2025_11),
        r"get 3
           note: a
           close 3
           note: b
           note: c
           get 4
           close 4
           get 5 after 0-1
           close 5
           get 6",
        "lane 3: begin 0-0 retry 1000
         lane 3: event 0-1 a
         lane 4: begin 0-1 retry 1000
         lane 4: event 0-2 b
         lane 4: event 0-3 c
         lane 5: begin
         lane 5: event 0-2 b
         lane 5: event 0-3 c
         lane 6: begin 0-3 retry 1000",
    );
}

#[test]
fn listeners_beyond_the_limit_are_refused_but_a_stream_is_always_resumed() {
    let half = with_limits(Carrier::Http, V2025_11, |limits| limits.streams = 1);
    check(
        half,
        r"post 2: 1 tools/call {}
           stream 2
           get 3
           get 4
           close 2
           get 5 after 2-0
           close 3
           get 6",
        "up: open 2 1 tools/call {}
         lane 2: begin 2-0 retry 1000
         lane 3: begin 0-0 retry 1000
         refused 429: too many streams are open on this session; close one first
         lane 5: begin
         lane 6: begin 0-0 retry 1000",
    );
}

/// wire: HTTP-18, HTTP-19
#[test]
fn unknown_foreign_and_future_events_are_refused() {
    check(
        ready(Carrier::Http, V2025_11),
        r#"post 2: 1 tools/call {}
           post 3: 2 tools/call {}
           note 2: notifications/progress {"progress":1}
           get 4 after 2-2
           get 5 after 8-0
           get 6 after nonsense
           get 7 after 0-1
           get 8 after 3-0"#,
        r#"up: open 2 1 tools/call {}
           up: open 3 2 tools/call {}
           lane 2: begin 2-0 retry 1000
           lane 2: event 2-1 notifications/progress {"progress":1}
           refused 400: events after "2-2" are no longer known; initialize a new session
           refused 400: events after "8-0" are no longer known; initialize a new session
           refused 400: events after "nonsense" are no longer known; initialize a new session
           refused 400: events after "0-1" are no longer known; initialize a new session
           refused 400: events after "3-0" are no longer known; initialize a new session"#,
    );
}

#[test]
fn what_nobody_hears_is_bounded_in_bytes() {
    let mut half = with_limits(Carrier::Http, V2025_11, |limits| limits.history = 1000);
    let note = message(&format!("n {{\"text\":\"{}\"}}", "x".repeat(300)));
    for _ in 0..1000 {
        half.note(None, &note);
    }
    half.handle_listen(Lane(9), None).unwrap();
    let heard: usize = std::iter::from_fn(|| half.poll_transmit())
        .map(|(_, frame)| if let Frame::Message { text, .. } = frame { text.len() } else { 0 })
        .sum();
    assert!((300..=1000).contains(&heard), "{heard}");
}
