//! Tasks that are shown and remembered, within bounds.

use super::*;
use crate::tests::message;

#[test]
fn what_a_server_says_of_a_task_is_kept_within_bounds() {
    let long = "é".repeat(1 << 20);
    let task = json!({"taskId": "t", "status": "working", "statusMessage": long, "ttl": [long]});
    for shown in [task_as_extension(&task, "working"), task_as_core(&task)] {
        assert!(shown.to_string().len() < 5000);
        assert_eq!((&shown["taskId"], &shown["status"]), (&json!("t"), &json!("working")));
    }
    assert_eq!(new_task_id(&task), Ok("t"));
    assert!(new_task_id(&json!({"taskId": "x".repeat(MAX_ID + 1)})).is_err());
}

fn running() -> Running {
    let total = Duration::from_secs(100);
    Running::new(&Limits { tasks: 2, total, ..Limits::default() })
}

#[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
fn start() -> Instant {
    Instant::now()
}

fn see(running: &mut Running, request: &str, answer: &str, now: Instant) {
    running.see(&message(request), &message(answer), now);
}

/// wire: TASK-2, TASK-4
#[test]
fn a_task_of_the_extension_goes_on_until_its_end_is_told() {
    let (mut running, now) = (running(), start());
    see(&mut running, "1 tools/call {}", r#"1 = {"resultType":"complete","taskId":"no"}"#, now);
    assert!(!running.holds(now));
    see(&mut running, "1 tools/call {}", r#"1 = {"resultType":"task","taskId":"a"}"#, now);
    let get = r#"2 tasks/get {"taskId":"a"}"#;
    see(&mut running, get, r#"2 = {"taskId":"a","status":"working"}"#, now);
    assert!(running.holds(now));
    see(&mut running, get, r#"2 = {"taskId":"a","status":"completed","result":{}}"#, now);
    assert!(!running.holds(now));
}

#[test]
fn a_task_of_the_core_goes_on_until_its_result_is_fetched() {
    let (mut running, now) = (running(), start());
    let begun = r#"1 = {"task":{"taskId":"a","status":"working","ttl":5000}}"#;
    see(&mut running, "1 tools/call {}", begun, now);
    let cancel = r#"2 tasks/cancel {"taskId":"a"}"#;
    see(&mut running, cancel, "2 ! -32602 it is over", now);
    let get = r#"3 tasks/get {"taskId":"a"}"#;
    see(&mut running, get, r#"3 = {"taskId":"a","status":"completed","ttl":9000}"#, now);
    assert!(running.holds(now + Duration::from_secs(8)));
    assert!(!running.holds(now + Duration::from_secs(9)), "its server has forgotten it");
    see(&mut running, r#"4 tasks/result {"taskId":"a"}"#, r#"4 = {"content":[]}"#, now);
    assert!(!running.holds(now));
}

#[test]
fn a_task_that_is_cancelled_or_unknown_is_over() {
    let (mut running, now) = (running(), start());
    for end in [
        (r#"2 tasks/cancel {"taskId":"a"}"#, "2 = {}"),
        (r#"2 tasks/get {"taskId":"a"}"#, r#"2 = {"status":"cancelled"}"#),
        (r#"2 tasks/get {"taskId":"a"}"#, "2 ! -32602 no such task"),
    ] {
        see(&mut running, "1 tools/call {}", r#"1 = {"resultType":"task","taskId":"a"}"#, now);
        assert!(running.holds(now));
        see(&mut running, end.0, end.1, now);
        assert!(!running.holds(now), "{end:?}");
    }
}

#[test]
fn no_more_are_remembered_than_there_is_room_for_and_none_for_ever() {
    let (mut running, now) = (running(), start());
    for id in 0..3 {
        let begun = format!(r#"1 = {{"task":{{"taskId":"{id}"}}}}"#);
        see(&mut running, "1 tools/call {}", &begun, now);
    }
    assert_eq!(running.tasks.len(), 2);
    let later = now + Duration::from_secs(100);
    assert!(!running.holds(later));
    see(&mut running, "1 tools/call {}", r#"1 = {"task":{"taskId":"b"}}"#, later);
    assert!(running.holds(later));
}
