//! Each test is a transcript: what happened, and what must come of it.
//!
//! As for the other era; `send 2 [k=v …]` shows the headers besides the version,
//! and `@` stands for the two members of a sound envelope. A call such as `a1=` has an
//! id that its client chose.

use std::time::Duration;

use super::*;
use crate::exchange::ServerEvent;
use crate::failure::{Failure, Words};
use crate::tests::{lines, message, show};

const ENVELOPE: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
const SUB: &str = r#""io.modelcontextprotocol/subscriptionId""#;
const HTTP: (Carrier, Sharing) = (Carrier::Http, Sharing::Alone);
const PIPE: (Carrier, Sharing) = (Carrier::Pipe, Sharing::Alone);
const SHARED: (Carrier, Sharing) = (Carrier::Pipe, Sharing::Shared);
const SHARED_HTTP: (Carrier, Sharing) = (Carrier::Http, Sharing::Shared);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Name(String);

impl Ticket for Name {
    fn owner(&self) -> u64 {
        self.0.bytes().next().unwrap().into()
    }

    fn has_own_id(&self) -> bool {
        self.0.ends_with('=')
    }
}

/// wire: HDR-1, HDR-2, HDR-3, HDR-4, GW-80, MSG-2
#[test]
fn over_http_headers_mirror_the_body_and_envelopes_pass() {
    check(
        HTTP,
        r#"open a1: "x" tools/call {"name":"t","_meta":{@,"k":1}}
           open a2: 9 resources/read {"uri":"file:///ä","_meta":{@}}
           open a3: 8 tools/list {"_meta":{@}}
           note: notifications/x
           recv 2: 2 = {"contents":[]}
           recv 1: 1 ! -32602 no"#,
        r#"send 1 [mcp-method=tools/call mcp-name=t]: 1 tools/call {"name":"t","_meta":{@,"k":1}}
           send 2 [mcp-method=resources/read mcp-name==?base64?ZmlsZTovLy/DpA==?=]: 2 resources/read {"uri":"file:///ä","_meta":{@}}
           send 3 [mcp-method=tools/list]: 3 tools/list {"_meta":{@}}
           send 0 [mcp-method=notifications/x]: notifications/x
           a2: finish 2 = {"contents":[]}
           a1: finish 1 ! -32602 no"#,
    );
}

/// Each request has a response of its own, so that equal ids do not meet.
///
/// wire: GW-80, MSG-2, STD-9
#[test]
fn over_http_numbers_of_clients_pass_as_they_are() {
    check(
        SHARED_HTTP,
        r#"open a1=: 7 tools/list {}
           open b1=: 7 tools/list {}
           open b2=: "7" tools/list {}
           open b3=: 123456789012345678901234567890 tools/list {}
           open c1: 7 tools/list {}
           recv 4: 4 = {"n":4}
           recv 2: 7 = {"n":2}
           recv 3: 3 = {"n":3}
           recv 1: 7.0 = {"n":1}
           recv 5: 5 = {"n":5}"#,
        r#"send 1 [mcp-method=tools/list]: 7 tools/list {}
           send 2 [mcp-method=tools/list]: 7 tools/list {}
           send 3 [mcp-method=tools/list]: 3 tools/list {}
           send 4 [mcp-method=tools/list]: 4 tools/list {}
           send 5 [mcp-method=tools/list]: 5 tools/list {}
           b3=: finish 4 = {"n":4}
           b1=: finish 7 = {"n":2}
           b2=: finish 3 = {"n":3}
           a1=: finish 7 = {"n":1}
           c1: finish 5 = {"n":5}"#,
    );
    // On a pipe nothing but the id tells whose an answer is.
    check(
        SHARED,
        r#"open a1=: 7 tools/list {}
           open b1=: 7 tools/list {}
           recv: 2 = {}
           drop a1=: notifications/cancelled {"requestId":7}"#,
        r#"send 1: 1 tools/list {}
           send 2: 2 tools/list {}
           b1=: finish 2 = {}
           send 0: notifications/cancelled {"requestId":1}"#,
    );
}

/// An answer by the response of one call is nothing to another, even under its id.
///
/// wire: MSG-2, CAN-1
#[test]
fn over_http_an_answer_is_that_of_its_lane_or_of_no_call() {
    check(
        SHARED_HTTP,
        r#"open a1=: 2 tools/list {}
           open b1=: 2 tools/list {}
           open c1=: 3 tools/list {}
           recv 1: 1 = {}
           recv 1: 3 = {}
           recv: 2 = {}
           drop b1=
           recv 2: 2 = {"n":"late"}
           recv 1: 2 = {"n":1}
           recv 3: 3 = {"n":3}"#,
        r#"send 1 [mcp-method=tools/list]: 2 tools/list {}
           send 2 [mcp-method=tools/list]: 2 tools/list {}
           send 3 [mcp-method=tools/list]: 3 tools/list {}
           abort 2
           a1=: finish 2 = {"n":1}
           c1=: finish 3 = {"n":3}"#,
    );
}

/// A listen's id is named by other messages, which may come by any lane.
///
/// wire: SUB-4
#[test]
fn a_listen_has_an_id_of_ours_over_http() {
    check(
        HTTP,
        &format!(
            r#"open a1=: 7 tools/list {{}}
           open a2=: 1 subscriptions/listen {{}}
           recv 2: notifications/tools/list_changed {{"_meta":{{{SUB}:2}}}}"#
        ),
        &format!(
            r#"send 1 [mcp-method=tools/list]: 7 tools/list {{}}
           send 2 [mcp-method=subscriptions/listen]: 2 subscriptions/listen {{}}
           a2=: note notifications/tools/list_changed {{"_meta":{{{SUB}:2}}}}"#
        ),
    );
}

/// wire: MOD-1, STD-4
#[test]
fn a_server_that_asks_gets_no_answer() {
    check(PIPE, "recv: 1 ping\nrecv: 2 roots/list", "");
}

/// wire: CAN-1, CAN-2, CAN-3, MH-9, GW-80, GW-81
#[test]
fn a_dropped_call_is_aborted_or_cancelled_by_notice() {
    let script = r#"open a1: "x" tools/call {"name":"t"}
           open a2: "y" tools/call {"name":"t"}
           drop a1: notifications/cancelled {"requestId":"x","reason":"r"}
           drop a2
           drop a2
           recv 1: 1 = {}"#;
    check(
        HTTP,
        script,
        r#"send 1 [mcp-method=tools/call mcp-name=t]: 1 tools/call {"name":"t"}
           send 2 [mcp-method=tools/call mcp-name=t]: 2 tools/call {"name":"t"}
           abort 1
           abort 2"#,
    );
    check(
        PIPE,
        script,
        r#"send 1: 1 tools/call {"name":"t"}
           send 2: 2 tools/call {"name":"t"}
           send 0: notifications/cancelled {"requestId":1,"reason":"r"}
           send 0: notifications/cancelled {"requestId":2}"#,
    );
}

/// wire: CAN-4, PRG-1
#[test]
fn a_call_that_takes_too_long_is_cancelled() {
    check(
        HTTP,
        r#"open a1: 1 x {"_meta":{"progressToken":7}}
           at 50s
           recv 1: notifications/progress {"progressToken":7}
           at 60s
           at 110s"#,
        r#"send 1 [mcp-method=x]: 1 x {"_meta":{"progressToken":7}}
           a1: note notifications/progress {"progressToken":7}
           abort 1
           a1: finish - ! -32603 Request timeout after 110000ms"#,
    );
}

/// wire: SUB-14, CAN-4
#[test]
fn a_listen_is_waited_for_until_it_is_acknowledged_and_then_for_ever() {
    check(
        PIPE,
        &format!(
            r#"open a1: 1 subscriptions/listen {{}}
               open a2: 2 subscriptions/listen {{}}
               recv: notifications/subscriptions/acknowledged {{"_meta":{{{SUB}:1}}}}
               at 60s
               at 36000s
               recv: notifications/tools/list_changed {{"_meta":{{{SUB}:1}}}}"#
        ),
        &format!(
            r#"send 1: 1 subscriptions/listen {{}}
               send 2: 2 subscriptions/listen {{}}
               a1: note notifications/subscriptions/acknowledged {{"_meta":{{{SUB}:1}}}}
               send 0: notifications/cancelled {{"requestId":2}}
               a2: finish - ! -32603 Request timeout after 60000ms
               a1: note notifications/tools/list_changed {{"_meta":{{{SUB}:1}}}}"#
        ),
    );
}

/// wire: SUB-4, SUB-6, SUB-7, SUB-8, SUB-9, GW-81
#[test]
fn subscriptions_are_told_apart_and_end_by_result_or_notice() {
    check(
        SHARED,
        &format!(
            r#"open a1: "s" subscriptions/listen {{}}
               open b1: "s" subscriptions/listen {{}}
               open b2: 1 tools/call {{"name":"t"}}
               recv: notifications/resources/updated {{"uri":"x","_meta":{{{SUB}:2}}}}
               recv: notifications/resources/updated {{"uri":"x","_meta":{{{SUB}:"2"}}}}
               recv: notifications/resources/updated {{"uri":"x","_meta":{{{SUB}:77}}}}
               recv: notifications/tools/list_changed
               recv: 1 = {{"resultType":"complete","_meta":{{{SUB}:1}}}}
               recv: notifications/cancelled {{"requestId":2,"_meta":{{{SUB}:2}}}}
               recv: notifications/cancelled {{"requestId":3}}
               recv: 3 = {{}}"#
        ),
        &format!(
            r#"send 1: 1 subscriptions/listen {{}}
               send 2: 2 subscriptions/listen {{}}
               send 3: 3 tools/call {{"name":"t"}}
               b1: note notifications/resources/updated {{"uri":"x","_meta":{{{SUB}:2}}}}
               a1: finish 1 = {{"resultType":"complete","_meta":{{{SUB}:1}}}}
               b1: finish 2 = {{"resultType":"complete","_meta":{{{SUB}:2}}}}
               b2: finish 3 = {{}}"#
        ),
    );
}

/// wire: LOG-1, PRG-1, MH-6
#[test]
fn what_cannot_be_told_whose_it_is_goes_to_nobody() {
    check(
        SHARED,
        r#"open a1: 1 tools/call {"name":"t"}
           recv: notifications/message {"of":"a1"}
           open b1: 1 tools/list {}
           recv: notifications/message {"of":"a1 or b1"}
           recv: notifications/progress {"progressToken":1}"#,
        r#"send 1: 1 tools/call {"name":"t"}
           a1: note notifications/message {"of":"a1"}
           send 2: 2 tools/list {}"#,
    );
}

/// wire: STD-9, GW-81
#[test]
fn tokens_are_rewritten_and_restored_also_when_a_call_is_sent_again() {
    let annotated =
        r#"{"name":"t","inputSchema":{"properties":{"r":{"type":"string","x-mcp-header":"R"}}}}"#;
    check(
        (Carrier::Http, Sharing::Shared),
        &format!(
            r#"open a1: 1 tools/call {{"name":"t","arguments":{{"r":"eu"}},"_meta":{{"progressToken":5}}}}
               recv 1: notifications/progress {{"progressToken":"switchboard-1"}}
               recv 1: 1 ! -32020 where is the header
               recv 2: 2 = {{"tools":[{annotated}]}}
               recv 3: notifications/progress {{"progressToken":"switchboard-3"}}"#
        ),
        r#"send 1 [mcp-method=tools/call mcp-name=t]: 1 tools/call {"name":"t","arguments":{"r":"eu"},"_meta":{"progressToken":"switchboard-1"}}
           a1: note notifications/progress {"progressToken":5}
           send 2 [mcp-method=tools/list]: 2 tools/list {"_meta":{"progressToken":"switchboard-2"}}
           send 3 [mcp-method=tools/call mcp-name=t mcp-param-r=eu]: 3 tools/call {"name":"t","arguments":{"r":"eu"},"_meta":{"progressToken":"switchboard-3"}}
           a1: note notifications/progress {"progressToken":5}"#,
    );
}

/// wire: HDR-8, HDR-11, HDR-12, HDR-13
#[test]
fn a_call_that_lacked_a_header_is_sent_once_more_and_never_twice() {
    let list = r#"2 = {"tools":[{"name":"t","inputSchema":{"properties":{"r":{"type":"string","x-mcp-header":"R"}}}}]}"#;
    let script = format!(
        r#"open a1: 1 tools/call {{"name":"t","arguments":{{"r":"eu"}}}}
           recv 1: 1 ! -32020 no
           recv 2: {list}
           recv 3: 3 ! -32020 still no
           open a2: 2 tools/call {{"name":"t","arguments":{{"r":"us"}}}}"#
    );
    check(
        HTTP,
        &script,
        r#"send 1 [mcp-method=tools/call mcp-name=t]: 1 tools/call {"name":"t","arguments":{"r":"eu"}}
           send 2 [mcp-method=tools/list]: 2 tools/list {"_meta":{}}
           send 3 [mcp-method=tools/call mcp-name=t mcp-param-r=eu]: 3 tools/call {"name":"t","arguments":{"r":"eu"}}
           a1: finish 3 ! -32020 still no
           send 4 [mcp-method=tools/call mcp-name=t mcp-param-r=us]: 4 tools/call {"name":"t","arguments":{"r":"us"}}"#,
    );
}

/// wire: HDR-12
#[test]
fn a_lesson_goes_on_to_the_page_that_has_the_tool() {
    let tool =
        r#"{"name":"t","inputSchema":{"properties":{"r":{"type":"string","x-mcp-header":"R"}}}}"#;
    let script = format!(
        r#"open a1: 1 tools/call {{"name":"t","arguments":{{"r":"eu"}}}}
           recv 1: 1 ! -32020 no
           recv 2: 2 = {{"tools":[{{"name":"a"}}],"nextCursor":"p2"}}
           recv 3: 3 = {{"tools":[{tool}],"nextCursor":"p3"}}
           recv 4: 4 = {{}}"#
    );
    check(
        HTTP,
        &script,
        r#"send 1 [mcp-method=tools/call mcp-name=t]: 1 tools/call {"name":"t","arguments":{"r":"eu"}}
           send 2 [mcp-method=tools/list]: 2 tools/list {"_meta":{}}
           send 3 [mcp-method=tools/list]: 3 tools/list {"_meta":{},"cursor":"p2"}
           send 4 [mcp-method=tools/call mcp-name=t mcp-param-r=eu]: 4 tools/call {"name":"t","arguments":{"r":"eu"}}
           a1: finish 4 = {}"#,
    );
}

/// wire: HDR-12
#[test]
fn a_lesson_that_fails_gives_the_answer_it_was_about() {
    check(
        HTTP,
        r#"open a1: 1 tools/call {"name":"t"}
           recv 1: 1 ! -32020 no
           recv 2: 2 ! -32603 broken
           open a2: 1 tools/list {}
           recv 3: 3 ! -32020 no"#,
        r#"send 1 [mcp-method=tools/call mcp-name=t]: 1 tools/call {"name":"t"}
           send 2 [mcp-method=tools/list]: 2 tools/list {"_meta":{}}
           a1: finish 1 ! -32020 no
           send 3 [mcp-method=tools/list]: 3 tools/list {}
           a2: finish 3 ! -32020 no"#,
    );
}

/// wire: CAN-1, HDR-12
#[test]
fn a_call_that_was_sent_again_can_still_be_dropped() {
    for (more, abort, drop) in [("", 2, "drop a1"), ("recv 2: 2 = {\"tools\":[]}", 3, "drop a1")] {
        let again = if more.is_empty() {
            ""
        } else {
            r#"send 3 [mcp-method=tools/call mcp-name=t]: 3 tools/call {"name":"t"}"#
        };
        check(
            HTTP,
            &format!(
                "open a1: 1 tools/call {{\"name\":\"t\"}}
                 recv 1: 1 ! -32020 no
                 {more}
                 {drop}
                 recv 3: 3 = {{}}"
            ),
            &format!(
                "send 1 [mcp-method=tools/call mcp-name=t]: 1 tools/call {{\"name\":\"t\"}}
                 send 2 [mcp-method=tools/list]: 2 tools/list {{\"_meta\":{{}}}}
                 {again}
                 abort {abort}"
            ),
        );
    }
}

/// wire: HDR-8
#[test]
fn tools_that_must_not_be_offered_are_taken_out_and_the_rest_stays_as_it_was() {
    let good = r#"{"z":1.0e400,"name":"good","a":12345678901234567890123}"#;
    let bad = r#"{"name":"bad","inputSchema":{"x-mcp-header":"R"}}"#;
    let list = format!(r#"{{"tools":[ {good} , {bad}],"nextCursor":"c"}}"#);
    let answer = format!("recv 1: 1 = {list}");
    let left = format!(r#"a1: finish 1 = {{"tools":[{good}],"nextCursor":"c"}}"#);
    check(
        HTTP,
        &format!("open a1: 1 tools/list {{}}\n{answer}"),
        &format!("send 1 [mcp-method=tools/list]: 1 tools/list {{}}\n{left}"),
    );
    check(
        PIPE,
        &format!("open a1: 1 tools/list {{}}\n{answer}"),
        &format!("send 1: 1 tools/list {{}}\na1: finish 1 = {list}"),
    );
}

/// wire: HDR-11, HDR-13
#[test]
fn headers_that_a_client_said_are_checked_where_the_tool_is_known_else_passed_on() {
    let now = start();
    let mut half = ModernClientHalf::new(Carrier::Http, Sharing::Alone, &limits());
    let said = Some(vec![("mcp-param-r".parse().unwrap(), "us".parse().unwrap())]);
    let call = message(r#"1 tools/call {"name":"t","arguments":{"r":"eu"}}"#);
    half.open(Name("a1".into()), &call, &said, now);
    half.open(Name("a2".into()), &message("2 tools/list {}"), &None, now);
    let list = r#"2 = {"tools":[{"name":"t","inputSchema":{"properties":{"r":{"type":"string","x-mcp-header":"R"}}}}]}"#;
    half.handle_message(Lane(2), &message(list), now);
    half.open(Name("a3".into()), &call, &said, now);
    let mut seen = Vec::new();
    drain(&mut half, &mut seen);
    assert!(
        seen[0].starts_with("send 1 [mcp-method=tools/call mcp-name=t mcp-param-r=us]"),
        "{seen:?}"
    );
    let refused = seen.last().unwrap();
    assert!(
        refused.starts_with("a3: finish - ! -32020 header mcp-param-r says \"us\""),
        "{refused}"
    );
}

/// wire: STD-10, MH-8, GW-80
#[test]
fn what_is_lost_fails_and_is_not_sent_again() {
    check(
        HTTP,
        r#"open a1: 1 tools/call {"name":"t"}
           open a2: 2 subscriptions/listen {}
           unanswered 1
           lost
           recv 2: 2 = {}
           forget a"#,
        r#"send 1 [mcp-method=tools/call mcp-name=t]: 1 tools/call {"name":"t"}
           send 2 [mcp-method=subscriptions/listen]: 2 subscriptions/listen {}
           a1: finish - ! -32603 gone
           a2: finish - ! -32603 Transport closed"#,
    );
}

/// wire: STD-10
#[test]
fn a_client_that_is_gone_takes_its_calls_with_it() {
    check(
        SHARED,
        "open a1: 1 x
         open b1: 1 x
         forget a
         recv: 1 = {}
         recv: 2 = {}",
        r#"send 1: 1 x
           send 2: 2 x
           send 0: notifications/cancelled {"requestId":1}
           b1: finish 2 = {}"#,
    );
}

fn limits() -> Limits {
    Limits { quiet: Duration::from_mins(1), total: Duration::from_mins(2), ..Limits::default() }
}

#[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
fn start() -> Instant {
    Instant::now()
}

/// Plays `script`. The one place that knows the API.
#[track_caller]
fn check((carrier, sharing): (Carrier, Sharing), script: &str, expected: &str) {
    let mut half = ModernClientHalf::new(carrier, sharing, &limits());
    let start = start();
    let mut now = start;
    let mut seen = Vec::new();
    let script = script.replace('@', ENVELOPE);
    for step in lines(&script) {
        let (head, text) = step.split_once(": ").unwrap_or((step, ""));
        let number = |word: &str| -> u64 { word.parse().unwrap() };
        match *head.split(' ').collect::<Vec<_>>() {
            ["open", name] => half.open(Name(name.to_owned()), &message(text), &None, now),
            ["drop", name] => {
                let words = (!text.is_empty()).then(|| message(text));
                half.drop_call(&Name(name.to_owned()), words.as_ref(), now);
            }
            ["forget", name] => half.forget_owner(Name(name.to_owned()).owner(), now),
            ["note"] => half.note(message(text), now),
            ["recv"] => half.handle_message(Lane::MAIN, &message(text), now),
            ["recv", at] => half.handle_message(Lane(number(at)), &message(text), now),
            ["unanswered", at] => {
                let text = "gone".to_owned();
                half.handle_unanswered(Lane(number(at)), &Failure::translation(text));
            }
            ["lost"] => half.handle_lost(&Failure::CLOSED, now),
            ["at", time] => {
                now = start + Duration::from_secs(number(time.trim_end_matches('s')));
                half.handle_timeout(now);
            }
            _ => panic!("no such step: {step}"),
        }
        drain(&mut half, &mut seen);
    }
    let expected = expected.replace('@', ENVELOPE);
    assert_eq!(seen, lines(&expected).collect::<Vec<_>>());
}

fn drain(half: &mut ModernClientHalf<Name>, seen: &mut Vec<String>) {
    while let Some(transmit) = half.out.pop_front() {
        seen.push(match transmit {
            Transmit::Send { lane, message, headers } => {
                let headers = headers.iter().filter(|(name, _)| name != "mcp-protocol-version");
                let headers: Vec<_> = headers
                    .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
                    .collect();
                let headers = if headers.is_empty() {
                    String::new()
                } else {
                    format!(" [{}]", headers.join(" "))
                };
                format!("send {}{headers}: {}", lane.0, show(&message))
            }
            Transmit::Abort { lane } => format!("abort {}", lane.0),
        });
    }
    while let Some(down) = half.to_client.0.pop_front() {
        seen.push(match down {
            ServerEvent::Note { to: To::Call(name), message } => {
                format!("{}: note {}", name.0, show(&message))
            }
            ServerEvent::Finish { to, outcome } => {
                format!("{}: finish {}", to.0, show(&outcome.into_message(Words::Full)))
            }
            other => panic!("not in this era: {other:?}"),
        });
    }
}
