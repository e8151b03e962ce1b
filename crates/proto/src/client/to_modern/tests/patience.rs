//! How long a call may take while its client is asked something.

use super::*;

/// Each round is a call of its own at the server, and in between there is none.
///
/// wire: GW-14, CAN-4
#[test]
fn the_time_of_a_call_does_not_run_while_its_client_is_asked() {
    let limits = Limits { quiet: Duration::from_secs(3), ..Limits::default() };
    let half = ToModern::<Name>::new(Carrier::Http, Sharing::Alone, &limits);
    let asks = r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}"#;
    let script = format!(
        r#"{}open a1: 5 tools/call {{"name":"t"}}
           wait 2000
           recv 2: 2 = {asks}
           wait 5000
           supply 1: 0 = {{"roots":[]}}
           wait 2000
           recv 3: 3 = {asks}
           wait 5000
           supply 2: 0 = {{"roots":[]}}
           wait 3000"#,
        greeting("2025-11-25", "{}")
    );
    let again = |at: u64| {
        format!(
            r#"send {at}: {at} tools/call {{"_meta":{{@}},"inputResponses":{{"r":{{"roots":[]}}}},"name":"t"}}"#
        )
    };
    let server = serde_json::json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")});
    let expected = format!(
        r#"send 1: 1 server/discover {{{OURS}}}
           a0: finish 0 = {{"capabilities":{{}},"protocolVersion":"2025-11-25","serverInfo":{server}}}
           send 2: 2 tools/call {{"_meta":{{@}},"name":"t"}}
           a1: ask 1 "r" roots/list {{}}
           {}
           a1: ask 2 "r" roots/list {{}}
           {}
           a1: finish - ! -32603 Request timeout after 3000ms
           abort 4"#,
        again(3),
        again(4)
    );
    script::check(ClientHalf::ToModern(Box::new(half)), ENVELOPE, &script, &expected);
}
