//! What a listen leaves behind at a server, however it ends: nothing.

use super::*;
use crate::client::Transmit;
use crate::exchange::Lane;

const SUB: &str = r#""_meta":{"io.modelcontextprotocol/subscriptionId":0}"#;

fn listen(name: &str, uris: &[&str]) -> String {
    let uris = serde_json::json!(uris);
    format!(
        "open {name}: 5 subscriptions/listen {{\"notifications\":{{\"resourceSubscriptions\":{uris}}},\"_meta\":{{@}}}}\n"
    )
}

fn acknowledged(name: &str, honoured: &str) -> String {
    format!(
        "{name}: note notifications/subscriptions/acknowledged {{{SUB},\"notifications\":{honoured}}}\n"
    )
}

fn over(name: &str) -> String {
    format!("{name}: finish 0 = {{\"resultType\":\"complete\",{SUB}}}\n")
}

/// wire: GW-51, GW-53
#[test]
fn what_a_server_refused_to_watch_needs_no_session_and_is_not_renewed() {
    let script = [
        listen("a1", &["x:1", "x:2"]),
        "recv: 3 ! -32002 no\nrecv: 4 ! -32002 no\nlook\nlost\n".to_owned(),
        format!("open a2: 6 x/y {{\"_meta\":{{@}}}}\nrecv: 5 = {WELCOME}\n"),
    ];
    let expected = [
        "send 3: 3 resources/subscribe {\"uri\":\"x:1\"}\nsend 4: 4 resources/subscribe {\"uri\":\"x:2\"}\n".to_owned(),
        acknowledged("a1", "{}"),
        over("a1"),
        format!("0 open, not needed\nsend 5: 5 initialize {HELLO}\n"),
        "send 0: notifications/initialized\nsend 6: 6 x/y {}".to_owned(),
    ];
    check(Sharing::Shared, &script.concat(), &expected.concat());
}

/// wire: GW-51, GW-52
#[test]
fn a_resource_that_was_refused_once_is_unsubscribed_by_the_last_who_watches_it() {
    let script = [
        listen("a1", &["x:1"]),
        "recv: 3 ! -32002 no\n".to_owned(),
        listen("b1", &["x:1"]),
        "recv: 4 = {}\nlook\ndrop b1\nlook".to_owned(),
    ];
    let expected = [
        "send 3: 3 resources/subscribe {\"uri\":\"x:1\"}\n".to_owned(),
        acknowledged("a1", "{}"),
        over("a1"),
        "send 4: 4 resources/subscribe {\"uri\":\"x:1\"}\n".to_owned(),
        acknowledged("b1", "{\"resourceSubscriptions\":[\"x:1\"]}"),
        "1 open, needed\nsend 5: 5 resources/unsubscribe {\"uri\":\"x:1\"}\n".to_owned(),
        "0 open, not needed".to_owned(),
    ];
    check(Sharing::Shared, &script.concat(), &expected.concat());
}

/// wire: GW-53
#[test]
fn listens_at_a_server_that_does_not_come_back_leave_nothing_watched() {
    let script = [
        listen("a1", &["x:1"]),
        "recv: 3 = {}\n".to_owned(),
        "lost\nwait 60000\n".repeat(21),
        "look\n".to_owned(),
        format!("open a2: 6 x/y {{\"_meta\":{{@}}}}\nrecv: 24 = {WELCOME}"),
    ];
    let greetings = (4..24).map(|at| format!("send {at}: {at} initialize {HELLO}\n"));
    let greetings = greetings.collect::<Vec<_>>().concat();
    let expected = [
        "send 3: 3 resources/subscribe {\"uri\":\"x:1\"}\n".to_owned(),
        acknowledged("a1", "{\"resourceSubscriptions\":[\"x:1\"]}"),
        greetings,
        over("a1"),
        format!("0 open, not needed\nsend 24: 24 initialize {HELLO}\n"),
        "send 0: notifications/initialized\nsend 25: 25 x/y {}".to_owned(),
    ];
    check(Sharing::Shared, &script.concat(), &expected.concat());
}

/// wire: GW-52, STD-6
#[test]
fn a_listen_that_ends_while_the_server_is_gone_does_not_bring_it_back() {
    let script =
        [listen("a1", &["x:1"]), "recv: 3 = {}\nlost\ndrop a1\nlook\nwait 60000".to_owned()];
    let expected = [
        "send 3: 3 resources/subscribe {\"uri\":\"x:1\"}\n".to_owned(),
        acknowledged("a1", "{\"resourceSubscriptions\":[\"x:1\"]}"),
        "0 open, not needed".to_owned(),
    ];
    check(Sharing::Shared, &script.concat(), &expected.concat());
}

/// wire: GW-52
#[test]
fn a_listen_that_ends_before_it_is_acknowledged_unsubscribes_what_it_asked_for_and_nothing_else() {
    let script = [listen("a1", &["x:1"]), "drop a1\nrecv: 3 = {}\nlook".to_owned()];
    let expected = r#"send 3: 3 resources/subscribe {"uri":"x:1"}
        send 0: notifications/cancelled {"requestId":3}
        abort 3
        send 4: 4 resources/unsubscribe {"uri":"x:1"}
        0 open, not needed"#;
    check(Sharing::Shared, &script.concat(), expected);
    let half = ToLegacy::<Name>::new(Carrier::Pipe, Sharing::Shared, &Limits::default());
    let script = format!("{}drop a1\nlook\nrecv: 1 = {WELCOME}", listen("a1", &["x:1"]));
    let expected = format!(
        "send 1: 1 initialize {HELLO}\n0 open, not needed\nsend 0: notifications/initialized"
    );
    script::check(ClientHalf::ToLegacy(Box::new(half)), ENVELOPE, &script, &expected);
}

/// wire: GW-51, SUB-5
#[test]
fn a_listen_that_fails_unsubscribes_what_nobody_else_watches() {
    let script = [
        listen("a1", &["x:1"]),
        "recv: 3 = {}\n".to_owned(),
        listen("b1", &["x:1", "x:2", "x:3"]),
        "recv: 5 = {}\nunanswered 4\nlook\ndrop a1\nlook".to_owned(),
    ];
    let subscribe =
        |at: u64, uri: &str| format!("send {at}: {at} resources/subscribe {{\"uri\":\"{uri}\"}}\n");
    let unsubscribe = |at: u64, uri: &str| {
        format!("send {at}: {at} resources/unsubscribe {{\"uri\":\"{uri}\"}}\n")
    };
    let expected = [
        subscribe(3, "x:1"),
        acknowledged("a1", "{\"resourceSubscriptions\":[\"x:1\"]}"),
        subscribe(4, "x:1"),
        subscribe(5, "x:2"),
        subscribe(6, "x:3"),
        "b1: finish - ! -32603 the stream broke\n".to_owned(),
        "send 0: notifications/cancelled {\"requestId\":6}\nabort 6\n".to_owned(),
        unsubscribe(7, "x:2"),
        unsubscribe(8, "x:3"),
        "1 open, needed\n".to_owned(),
        unsubscribe(9, "x:1"),
        "0 open, not needed".to_owned(),
    ];
    check(Sharing::Shared, &script.concat(), &expected.concat());
}

/// wire: GW-51, STD-9
#[test]
fn a_listen_for_more_than_one_connection_watches_is_refused_and_asks_for_nothing() {
    let many: Vec<String> = (0..1024).map(|uri| format!("{uri:04}")).collect();
    let many = |prefix: &str| many.iter().map(|uri| format!("{prefix}:{uri}")).collect::<Vec<_>>();
    let limits = Limits { calls: 4096, ..Limits::default() };
    let half = ToLegacy::<Name>::new(Carrier::Pipe, Sharing::Shared, &limits);
    let mut half = ClientHalf::ToLegacy(Box::new(half));
    #[expect(clippy::disallowed_methods, reason = "any start will do")]
    let now = Instant::now();
    let mut open = |name: &str, uris: &[String]| {
        let notifications = serde_json::json!({"resourceSubscriptions": uris});
        let text = format!(
            "5 subscriptions/listen {{\"notifications\":{notifications},\"_meta\":{{{ENVELOPE}}}}}"
        );
        half.open(Name(name.to_owned()), &crate::tests::message(&text), &None, now);
        let mut sent = 0;
        while let Some(Transmit::Send { message, .. }) = half.poll_transmit() {
            let answer = if message.method() == method::INITIALIZE { WELCOME } else { "{}" };
            sent += usize::from(message.method() == method::SUBSCRIBE);
            if let Some(id) = message.id() {
                half.handle_message(Lane::MAIN, &Message::result(id, answer.as_bytes()), now);
            }
        }
        let finished = std::iter::from_fn(|| half.poll_to_client());
        let finished = finished.filter(|down| matches!(down, ServerEvent::Finish { .. })).count();
        (sent, finished)
    };
    for prefix in ["a", "b", "c", "d"] {
        assert_eq!(open(prefix, &many(prefix)), (1024, 0));
    }
    assert_eq!(open("e", &["a:0000".to_owned(), "e:0000".to_owned()]), (0, 1), "one too many");
    assert_eq!(open("f", &["a:0000".to_owned()]), (1, 0), "no more than before");
}
