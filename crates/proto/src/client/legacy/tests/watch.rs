//! What is watched, and what only was to be.

use super::*;

/// What `script` leaves watched, by what is renewed at a server that was lost.
#[track_caller]
fn renewed(script: &str) -> Vec<String> {
    let mut half = ready(Sharing::Shared);
    let start = start();
    let mut stage = Stage { start, now: start };
    let script = format!("{script}\nlost\nopen z1: 9 tools/list");
    for step in lines(&script) {
        let (head, text) = step.split_once(": ").unwrap_or((step, ""));
        stage.play(&mut half, &head.split(' ').collect::<Vec<_>>(), text);
    }
    let greeting = half.greeting;
    let welcome = Message::result(&Id::from(greeting.0), b"{}");
    half.handle_message(greeting, &welcome, stage.now);
    let mut seen = Vec::new();
    drain(&mut half, &mut seen);
    let needed = half.is_needed(stage.now);
    let renewed = seen.iter().filter(|line| line.contains("resources/subscribe"));
    let renewed: Vec<_> = renewed.map(|line| line.rsplit(' ').next().unwrap().into()).collect();
    assert_eq!(needed, !renewed.is_empty());
    renewed
}

/// wire: STD-6
#[test]
fn what_a_server_does_not_take_on_is_neither_watched_nor_renewed() {
    let open = r#"open a1: 1 resources/subscribe {"uri":"x:1"}"#;
    assert_eq!(renewed(&format!("{open}\nrecv: 2 = {{}}")), [r#"{"uri":"x:1"}"#]);
    for end in ["recv: 2 ! -32002 no such thing", "unanswered 2", "drop a1", "at 60s", "forget a"] {
        assert_eq!(renewed(&format!("{open}\n{end}")), [""; 0], "{end}");
    }
    assert_eq!(renewed(open), [""; 0], "the link was lost before it was answered");
}

/// wire: STD-6
#[test]
fn what_waits_for_a_greeting_that_fails_is_not_watched() {
    let script = r#"lost
        open a1: 1 resources/subscribe {"uri":"x:1"}
        recv: 2 ! -32603 not today"#;
    assert_eq!(renewed(script), [""; 0]);
}

/// wire: STD-6, STD-9
#[test]
fn a_refusal_is_of_one_call_and_not_of_what_was_granted_to_another() {
    let twice = r#"open a1: 1 resources/subscribe {"uri":"x:1"}
        open a2: 2 resources/subscribe {"uri":"x:1"}"#;
    for answers in ["recv: 2 = {}\nrecv: 3 ! -1 it is already", "recv: 2 ! -1 no\nrecv: 3 = {}"] {
        assert_eq!(renewed(&format!("{twice}\n{answers}")), [r#"{"uri":"x:1"}"#], "{answers}");
    }
    let anew = r#"open a1: 1 resources/subscribe {"uri":"x:1"}
        open a2: 2 resources/unsubscribe {"uri":"x:1"}
        open a3: 3 resources/subscribe {"uri":"x:1"}
        recv: 2 ! -1 no
        recv: 4 = {}"#;
    assert_eq!(renewed(anew), [r#"{"uri":"x:1"}"#]);
    let of_two = r#"open a1: 1 resources/subscribe {"uri":"x:1"}
        open b1: 1 resources/subscribe {"uri":"x:1"}
        recv: 2 = {}
        recv: 3 ! -1 no
        forget b"#;
    assert_eq!(renewed(of_two), [r#"{"uri":"x:1"}"#]);
}

/// wire: STD-9
#[test]
fn who_was_refused_is_not_counted() {
    check(
        ready(Sharing::Shared),
        r#"open a1: 1 resources/subscribe {"uri":"x:1"}
           recv: 2 ! -32002 no such thing
           open b1: 1 resources/subscribe {"uri":"x:1"}
           recv: 3 = {}
           open b2: 2 resources/unsubscribe {"uri":"x:1"}"#,
        r#"send 2: 2 resources/subscribe {"uri":"x:1"}
           a1: finish 2 ! -32002 no such thing
           send 3: 3 resources/subscribe {"uri":"x:1"}
           b1: finish 3 = {}
           send 4: 4 resources/unsubscribe {"uri":"x:1"}"#,
    );
}

/// wire: STD-9, STD-10
#[test]
fn a_client_that_is_gone_leaves_nothing_watched_that_it_had_only_asked_for() {
    check(
        ready(Sharing::Shared),
        r#"open a1: 1 resources/subscribe {"uri":"x:1"}
           forget a"#,
        r#"send 2: 2 resources/subscribe {"uri":"x:1"}
           send 0: notifications/cancelled {"requestId":2}
           abort 2
           send 3: 3 resources/unsubscribe {"uri":"x:1"}"#,
    );
}

/// wire: STD-9
#[test]
fn more_than_can_be_counted_is_refused_and_what_is_counted_stays_right() {
    let mut half = ready(Sharing::Shared);
    let now = start();
    let subscribe = |uri: usize| message(&format!("1 resources/subscribe {{\"uri\":\"x:{uri}\"}}"));
    for uri in 0..4096 {
        half.open(Name("a1".into()), &subscribe(uri), now);
        let id = half.ledger.only().unwrap();
        half.handle_message(id, &Message::result(&Id::from(id.0), b"{}"), now);
    }
    drain(&mut half, &mut Vec::new());
    check(
        half,
        r#"open a1: 1 resources/subscribe {"uri":"y:1"}
           open b1: 1 resources/subscribe {"uri":"x:7"}
           recv: 4098 = {}
           open a2: 2 resources/unsubscribe {"uri":"x:7"}
           open b2: 2 resources/unsubscribe {"uri":"x:7"}
           open a3: 3 resources/subscribe {"uri":"y:1"}"#,
        r#"a1: finish - ! -32603 too many resources are watched; stop watching one first
           send 4098: 4098 resources/subscribe {"uri":"x:7"}
           b1: finish 4098 = {}
           a2: finish 0 = {}
           send 4099: 4099 resources/unsubscribe {"uri":"x:7"}
           send 4100: 4100 resources/subscribe {"uri":"y:1"}"#,
    );
}
