//! Each test is a transcript: what happened, and what must come of it.
//!
//! As for the other era, but `post 1 header=value …: …` has the headers of the
//! POST besides those that mirror the body (`-header` leaves one out), and `@`
//! in a message stands for the two members of a sound envelope.

use http::{HeaderName, HeaderValue};

use super::*;
use crate::jsonrpc::parse;
use crate::tests::{lines, message, show, show_text, wire};

mod park;

const ENVELOPE: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
const SUB: &str = r#""io.modelcontextprotocol/subscriptionId""#;

/// wire: MOD-2, META-1, META-2, MH-3, MH-16
#[test]
fn a_sound_request_passes_and_its_answer_is_plain() {
    check(
        Carrier::Http,
        r#"post 1: "a" tools/list {"_meta":{@}}
           finish 1: 0 = {"tools":[]}
           post 2: "a" tools/list {"_meta":{@}}
           finish 2: 0 ! -32602 bad cursor
           finish 2: 0 = {}"#,
        r#"up: open 1 "a" tools/list {"_meta":{@}}
           lane 1: answer 200 "a" = {"tools":[]}
           up: open 2 "a" tools/list {"_meta":{@}}
           lane 2: answer 200 "a" ! -32602 bad cursor"#,
    );
}

/// wire: META-1, META-7, NEG-1, NEG-10, MH-16
#[test]
fn a_broken_envelope_is_an_error_under_the_id_of_the_request() {
    check(
        Carrier::Http,
        r#"post 1: 1 tools/list {"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}
           post 2: 2 tools/list {"_meta":{"io.modelcontextprotocol/protocolVersion":7}}
           post 3: 3 tools/list {"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}}
           post 4: 4 tools/list
           post 5: 5 tools/list {"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{}}}
           post 6: 6 tools/list {"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}}}"#,
        r#"lane 1: answer 400 1 ! -32602 params._meta: io.modelcontextprotocol/clientCapabilities is missing
           lane 2: answer 400 2 ! -32602 params._meta: io.modelcontextprotocol/protocolVersion must be a string
           lane 3: answer 400 3 ! -32602 params._meta: io.modelcontextprotocol/clientCapabilities must be an object
           lane 4: answer 400 4 ! -32602 params._meta: io.modelcontextprotocol/protocolVersion is missing
           lane 5: answer 400 5 ! -32022 protocol version "2099-01-01" is not spoken here
           lane 6: answer 400 6 ! -32022 protocol version "2025-11-25" is not spoken here"#,
    );
}

/// wire: HDR-1, HDR-2, HDR-3, HDR-5, HDR-11, MH-14
#[test]
fn headers_must_say_what_the_body_says() {
    check(
        Carrier::Http,
        r#"post 1 -mcp-method: 1 tools/list {"_meta":{@}}
           post 2 mcp-method=Tools/list: 1 tools/list {"_meta":{@}}
           post 3 mcp-protocol-version=2025-11-25: 1 tools/list {"_meta":{@}}
           post 4 -mcp-name: 1 tools/call {"name":"t","_meta":{@}}
           post 5 mcp-name=u: 1 tools/call {"name":"t","_meta":{@}}
           post 6 mcp-name==?base64?dA==?=: 1 tools/call {"name":"t","_meta":{@}}
           post 7: 2 resources/read {"uri":"file:///ä","_meta":{@}}
           post 8: 3 tools/call {"_meta":{@}}"#,
        r#"lane 1: answer 400 1 ! -32020 header mcp-method is missing
           lane 2: answer 400 1 ! -32020 header mcp-method says "Tools/list", the body says "tools/list"
           lane 3: answer 400 1 ! -32020 header mcp-protocol-version says "2025-11-25", the body says "2026-07-28"
           lane 4: answer 400 1 ! -32020 header mcp-name is missing
           lane 5: answer 400 1 ! -32020 header mcp-name says "u", the body says "t"
           up: open 1 1 tools/call {"name":"t","_meta":{@}}
           up: open 2 2 resources/read {"uri":"file:///ä","_meta":{@}}
           lane 8: answer 400 3 ! -32602 params.name must be a string"#,
    );
}

/// wire: HDR-13
#[test]
fn repeated_arguments_are_handed_on_as_they_were_said() {
    let mut half = ModernServerHalf::new(Carrier::Http, &Limits::default());
    let request = expand(r#"1 tools/call {"name":"t","_meta":{@}}"#);
    let mut headers = mirrored(&message(&request));
    headers.append("mcp-param-region", "eu".parse().unwrap());
    headers.append("x-other", "no".parse().unwrap());
    half.handle_message(Lane(1), message(&request), Some(&headers));
    let Some(ClientEvent::Open { said, .. }) = half.poll_to_server() else { panic!("a call") };
    let said = said.unwrap();
    assert_eq!(said, [("mcp-param-region".parse().unwrap(), "eu".parse().unwrap())]);
    half.handle_message(Lane(2), message(&expand(r#"2 tools/list {"_meta":{@}}"#)), None);
    assert!(matches!(half.poll_to_server(), Some(ClientEvent::Open { said: None, .. })));
}

/// wire: MH-4, MH-5, HDR-4, MOD-1, CAN-1
#[test]
fn notifications_are_taken_and_answers_are_not() {
    check(
        Carrier::Http,
        r#"post 1 -mcp-method -mcp-protocol-version: notifications/x
           post 2: notifications/cancelled {"requestId":1}
           post 3: 1 = {}
           post 4: 1 ! -1 no"#,
        "lane 1: accepted
         up: note notifications/x
         lane 2: accepted
         lane 3: answer 400 - ! -32600 responses are not accepted here
         lane 4: answer 400 - ! -32600 responses are not accepted here",
    );
}

/// wire: MH-6, MH-8, PRG-1, LOG-1
#[test]
fn notes_make_a_stream_of_the_answer() {
    check(
        Carrier::Http,
        r#"post 1: 1 tools/call {"name":"t","_meta":{@}}
           post 2: 2 tools/call {"name":"t","_meta":{@}}
           note 2: notifications/progress {"progress":1}
           note 1: notifications/message {"level":"info"}
           note 2: notifications/progress {"progress":2}
           note: notifications/tools/list_changed
           finish 2: 0 ! -32601 no
           finish 1: 0 = {}
           note 1: notifications/progress {"progress":3}"#,
        r#"up: open 1 1 tools/call {"name":"t","_meta":{@}}
           up: open 2 2 tools/call {"name":"t","_meta":{@}}
           lane 2: begin
           lane 2: notifications/progress {"progress":1}
           lane 1: begin
           lane 1: notifications/message {"level":"info"}
           lane 2: notifications/progress {"progress":2}
           lane 2: 2 ! -32601 no
           lane 2: end
           lane 1: 1 = {}
           lane 1: end"#,
    );
}

/// wire: MH-13, MH-14
#[test]
fn codes_of_an_answer_decide_its_status_while_headers_are_unsent() {
    check(
        Carrier::Http,
        r#"post 1: 1 a {"_meta":{@}}
           finish 1: 0 ! -32601 no
           post 2: 1 a {"_meta":{@}}
           finish 2: 0 ! -32021 no
           post 3: 1 a {"_meta":{@}}
           finish 3: 0 ! -32603 no
           post 4: 1 a {"_meta":{@}}
           stream 4
           stream 4
           finish 4: 0 ! -32601 no"#,
        r#"up: open 1 1 a {"_meta":{@}}
           lane 1: answer 404 1 ! -32601 no
           up: open 2 1 a {"_meta":{@}}
           lane 2: answer 400 1 ! -32021 no
           up: open 3 1 a {"_meta":{@}}
           lane 3: answer 200 1 ! -32603 no
           up: open 4 1 a {"_meta":{@}}
           lane 4: begin
           lane 4: 1 ! -32601 no
           lane 4: end"#,
    );
}

/// wire: MH-9, CAN-1, CAN-3, SUB-7
#[test]
fn a_closed_lane_cancels_its_call_and_no_other() {
    check(
        Carrier::Http,
        r#"post 1: 1 a {"_meta":{@}}
           post 2: 2 a {"_meta":{@}}
           close 1
           close 1
           note 1: notifications/progress {}
           finish 1: 0 = {}
           finish 2: 0 = {}
           close 2"#,
        r#"up: open 1 1 a {"_meta":{@}}
           up: open 2 2 a {"_meta":{@}}
           up: drop 1
           lane 2: answer 200 2 = {}"#,
    );
}

/// wire: CAN-2, CAN-3, SUB-7, STD-4
#[test]
fn on_a_pipe_a_notice_cancels() {
    check(
        Carrier::Pipe,
        r#"line: 1 a {"_meta":{@}}
           line: "1" b {"_meta":{@}}
           line: notifications/cancelled {"requestId":"1","reason":"r"}
           line: notifications/cancelled {"requestId":"1"}
           line: notifications/cancelled {"requestId":[]}
           line: notifications/cancelled
           finish 2: 0 = {}
           finish 1: 0 = {}
           line: 3 c {"_meta":{@}}
           close 0"#,
        r#"up: open 1 1 a {"_meta":{@}}
           up: open 2 "1" b {"_meta":{@}}
           up: drop 2 notifications/cancelled {"requestId":"1","reason":"r"}
           lane 0: 1 = {}
           up: open 3 3 c {"_meta":{@}}
           up: drop 3"#,
    );
}

/// wire: SUB-2, SUB-3, SUB-4, SUB-6, SUB-8, GW-81
#[test]
fn a_listen_speaks_under_the_id_and_type_the_client_gave_it() {
    for (carrier, on) in [(Carrier::Http, ["post 1", "post 2"]), (Carrier::Pipe, ["line"; 2])] {
        let lane = |number: u64| if carrier == Carrier::Http { number } else { 0 };
        let begin = |number: u64| match carrier {
            Carrier::Http => format!("lane {number}: begin"),
            Carrier::Pipe => String::new(),
        };
        let end = if carrier == Carrier::Http { "lane 1: end" } else { "" };
        check(
            carrier,
            &format!(
                r#"{}: "s" subscriptions/listen {{"_meta":{{@}}}}
                   {}: 7 subscriptions/listen {{"_meta":{{@}}}}
                   note 1: notifications/subscriptions/acknowledged {{"_meta":{{{SUB}:31}}}}
                   note 2: notifications/subscriptions/acknowledged {{"_meta":{{{SUB}:32}}}}
                   note 2: notifications/tools/list_changed {{"_meta":{{{SUB}:32}}}}
                   finish 1: 0 = {{"resultType":"complete","_meta":{{{SUB}:31}}}}"#,
                on[0], on[1]
            ),
            &format!(
                r#"up: open 1 "s" subscriptions/listen {{"_meta":{{@}}}}
                   up: open 2 7 subscriptions/listen {{"_meta":{{@}}}}
                   {}
                   lane {}: notifications/subscriptions/acknowledged {{"_meta":{{{SUB}:"s"}}}}
                   {}
                   lane {}: notifications/subscriptions/acknowledged {{"_meta":{{{SUB}:7}}}}
                   lane {}: notifications/tools/list_changed {{"_meta":{{{SUB}:7}}}}
                   lane {}: "s" = {{"resultType":"complete","_meta":{{{SUB}:"s"}}}}
                   {end}"#,
                begin(1),
                lane(1),
                begin(2),
                lane(2),
                lane(2),
                lane(1)
            ),
        );
    }
}

/// wire: MSG-2
#[test]
fn an_id_in_use_and_a_call_too_many_are_refused() {
    check(
        Carrier::Pipe,
        r#"line: 1 a {"_meta":{@}}
           line: 1 b {"_meta":{@}}
           line: 2 b {"_meta":{@}}
           line: 3 c {"_meta":{@}}"#,
        r#"up: open 1 1 a {"_meta":{@}}
           lane 0: 1 ! -32600 id 1 is in use by a request that is still open
           up: open 2 2 b {"_meta":{@}}
           lane 0: 3 ! -32603 too many calls are open; wait for one to finish"#,
    );
}

fn expand(text: &str) -> String {
    text.replace('@', ENVELOPE)
}

/// The headers of a client that mirrors well.
fn mirrored(message: &Message) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let version = message.string(Member::MetaVersion).unwrap_or_default();
    let name = message.mirrored();
    Mirror { version: &version, method: message.method(), name: name.as_deref() }
        .write(&mut headers);
    headers
}

/// Plays `script` with room for two calls. The one place that knows the API.
#[track_caller]
fn check(carrier: Carrier, script: &str, expected: &str) {
    let mut half = ModernServerHalf::new(carrier, &Limits { calls: 2, ..Limits::default() });
    let mut seen = Vec::new();
    let script = expand(script);
    for step in lines(&script) {
        let (head, text) = step.split_once(": ").unwrap_or((step, ""));
        play(&mut half, &head.split(' ').collect::<Vec<_>>(), text);
        drain(&mut half, &mut seen);
    }
    assert_eq!(seen, lines(&expand(expected)).collect::<Vec<_>>());
}

#[track_caller]
fn play(half: &mut ModernServerHalf, words: &[&str], text: &str) {
    let number = |word: &str| -> u64 { word.parse().unwrap() };
    match *words {
        ["post", at, ref changes @ ..] => {
            let message = message(text);
            let mut headers = mirrored(&message);
            for change in changes {
                match change.split_once('=') {
                    Some((name, value)) => {
                        let name: HeaderName = name.parse().unwrap();
                        headers.insert(name, value.parse().unwrap());
                    }
                    None => _ = headers.remove(change.trim_start_matches('-')),
                }
            }
            half.handle_message(Lane(number(at)), message, Some(&headers));
        }
        ["line"] => match parse(wire(text)) {
            Ok(crate::jsonrpc::Incoming::One(message)) => {
                half.handle_message(Lane::MAIN, message, None);
            }
            Ok(_) => panic!("batches do not get here"),
            Err(refused) => half.handle_refused(Lane::MAIN, &refused),
        },
        ["close", at] => half.handle_closed(Lane(number(at))),
        ["stream", at] => half.begin_stream(Lane(number(at))),
        ["note"] => half.note(None, &message(text)),
        ["note", of] => half.note(Some(Exchange(number(of))), &message(text)),
        ["finish", of] => half.finish(Exchange(number(of)), &message(text)),
        ["end"] => half.end(),
        _ => panic!("no such step: {words:?}"),
    }
}

fn drain(half: &mut ModernServerHalf, seen: &mut Vec<String>) {
    while let Some((Lane(lane), frame)) = half.poll_transmit() {
        seen.push(match frame {
            Frame::Answer { status, text } => {
                format!("lane {lane}: answer {status} {}", show_text(&text))
            }
            Frame::Accepted => format!("lane {lane}: accepted"),
            Frame::Begin { prime: None } => format!("lane {lane}: begin"),
            Frame::Message { event: None, text } => format!("lane {lane}: {}", show_text(&text)),
            Frame::End => format!("lane {lane}: end"),
            Frame::Begin { .. } | Frame::Message { .. } => panic!("there are no event ids"),
        });
    }
    while let Some(up) = half.poll_to_server() {
        seen.push(match up {
            ClientEvent::Open { exchange, request, .. } => {
                format!("up: open {} {}", exchange.0, show(&request))
            }
            ClientEvent::Again { .. } | ClientEvent::Supply { .. } => panic!("nothing was asked"),
            ClientEvent::Note { message } => format!("up: note {}", show(&message)),
            ClientEvent::Drop { exchange, message } => {
                let words = message.map(|message| show(&message)).unwrap_or_default();
                format!("up: drop {} {words}", exchange.0).trim_end().to_owned()
            }
        });
    }
}

/// Two peers that report each other's reports would never stop.
///
/// wire: MOD-1, STD-4
#[test]
fn an_answer_on_a_pipe_is_ignored() {
    check(Carrier::Pipe, "line: 1 = {}\nline: - ! -32600 responses are not accepted here", "");
}

/// wire: SUB-11, MH-6
#[test]
fn progress_and_logs_never_appear_on_a_listen() {
    check(
        Carrier::Http,
        r#"post 1: 1 subscriptions/listen {"_meta":{@}}
           note 1: notifications/progress {}
           note 1: notifications/message {}"#,
        r#"up: open 1 1 subscriptions/listen {"_meta":{@}}"#,
    );
}

/// wire: SUB-8
#[test]
fn at_the_end_a_listen_gets_its_result_and_a_call_none() {
    check(
        Carrier::Http,
        &format!(
            r#"post 1: "s" subscriptions/listen {{"_meta":{{@}}}}
               note 1: notifications/subscriptions/acknowledged {{"_meta":{{{SUB}:31}}}}
               end
               finish 1: 0 = {{}}
               post 2: 2 a {{"_meta":{{@}}}}
               end"#
        ),
        &format!(
            r#"up: open 1 "s" subscriptions/listen {{"_meta":{{@}}}}
               lane 1: begin
               lane 1: notifications/subscriptions/acknowledged {{"_meta":{{{SUB}:"s"}}}}
               lane 1: "s" = {{"resultType":"complete","_meta":{{{SUB}:"s"}}}}
               lane 1: end
               up: open 2 2 a {{"_meta":{{@}}}}
               lane 2: end"#
        ),
    );
    check(
        Carrier::Pipe,
        r#"line: 4 subscriptions/listen {"_meta":{@}}
           line: 5 a {"_meta":{@}}
           end"#,
        &format!(
            r#"up: open 1 4 subscriptions/listen {{"_meta":{{@}}}}
               up: open 2 5 a {{"_meta":{{@}}}}
               lane 0: 4 = {{"resultType":"complete","_meta":{{{SUB}:4}}}}"#
        ),
    );
}
