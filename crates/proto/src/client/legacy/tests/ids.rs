//! The ids that a server sees: those of its only client, or ours.

use super::*;

/// wire: GW-80, MSG-2, DIV-17
#[test]
fn numbers_of_the_only_client_pass_as_they_are() {
    check(
        fresh(Sharing::Alone),
        r#"open a0=: 0 initialize {"v":1}
           recv 1: 0 = {"capabilities":{}}
           open a1=: 7.0 x/y
           open a2=: "7" x/y
           open a3=: 123456789012345678901234567890 x/y
           open a4=: 8 x/y
           recv: 1000000003 = {"n":2}
           recv 4: 1000000004 = {"n":3}
           recv: 2 = {"n":"of no call"}
           recv 5: 8 = {"n":4}
           recv 2: 7.0 = {"n":1}
           recv 2: 7 = {"n":"again"}"#,
        r#"send 1: 0 initialize {"v":1}
           a0=: finish 0 = {"capabilities":{}}
           send 2: 7 x/y
           send 3: 1000000003 x/y
           send 4: 1000000004 x/y
           send 5: 8 x/y
           a2=: finish 1000000003 = {"n":2}
           a3=: finish 1000000004 = {"n":3}
           a4=: finish 8 = {"n":4}
           a1=: finish 7 = {"n":1}"#,
    );
}

/// wire: MSG-2
#[test]
fn an_id_passes_once() {
    check(
        ready(Sharing::Alone),
        r#"open a1=: 7 x/y
           open a2=: 7 x/y
           recv: 1000000003 = {"n":2}
           recv: 7 = {"n":1}
           recv: 7 = {"n":"again"}
           open a3=: 7 x/y"#,
        r#"send 2: 7 x/y
           send 3: 1000000003 x/y
           a2=: finish 1000000003 = {"n":2}
           a1=: finish 7 = {"n":1}
           send 4: 1000000004 x/y"#,
    );
}

/// The greeting of this server was ours, and had the number 1.
///
/// wire: MSG-2
#[test]
fn an_id_that_looks_like_ours_does_not_pass() {
    check(
        ready(Sharing::Alone),
        r#"open a1=: 1 x/y
           open a2=: 1000000004 x/y
           open a3: 5 x/y
           open a4=: 2 x/y
           recv: 3 = {"n":"of no call"}
           recv: 2 = {"n":4}
           recv: 1000000004 = {"n":3}
           recv: 1000000003 = {"n":2}
           recv: 1000000002 = {"n":1}"#,
        r#"send 2: 1000000002 x/y
           send 3: 1000000003 x/y
           send 4: 1000000004 x/y
           send 5: 2 x/y
           a4=: finish 2 = {"n":4}
           a3: finish 1000000004 = {"n":3}
           a2=: finish 1000000003 = {"n":2}
           a1=: finish 1000000002 = {"n":1}"#,
    );
}

/// wire: UTL-1, MSG-2
#[test]
fn a_cancel_names_the_id_that_the_server_knows() {
    check(
        ready(Sharing::Alone),
        r#"open a1=: 7 tools/call
           open a2=: 7 tools/call
           open a3=!: 8 tools/call
           drop a2=: notifications/cancelled {"requestId":7,"reason":"r"}
           drop a1=
           recv 2: 7 = {"n":"late"}
           drop a3=!: notifications/cancelled {"requestId":8}
           open a4=: 8 tools/call
           recv: 8 = {"n":"late"}
           recv: 1000000005 = {"n":4}"#,
        r#"send 2: 7 tools/call
           send 3: 1000000003 tools/call
           send 4: 8 tools/call
           send 0: notifications/cancelled {"requestId":1000000003,"reason":"r"}
           abort 3
           send 0: notifications/cancelled {"requestId":7}
           abort 2
           send 0: notifications/cancelled {"requestId":8}
           send 5: 1000000005 tools/call
           a3=!: finish 8 = {"n":"late"}
           a4=: finish 1000000005 = {"n":4}"#,
    );
}

/// wire: HTTP-22, MSG-2
#[test]
fn a_call_is_sent_to_another_session_under_the_same_id() {
    check(
        ready(Sharing::Alone),
        r#"open a1=: 7 x/y
           over 2
           recv 3: 1000000003 = {"capabilities":{}}
           recv 2: 7 = {}"#,
        r#"send 2: 7 x/y
           send 3: 1000000003 initialize {"v":1}
           send 0: notifications/initialized
           send 2: 7 x/y
           a1=: finish 7 = {}"#,
    );
}

/// wire: STD-9, GW-81
#[test]
fn ids_of_clients_that_share_a_session_are_rewritten() {
    check(
        ready(Sharing::Shared),
        r#"open a1=: 7 x/y
           open b1=: 7 x/y
           recv: 3 = {"n":"b"}
           recv: 7 = {"n":"of no call"}
           recv: 2 = {"n":"a"}"#,
        r#"send 2: 2 x/y
           send 3: 3 x/y
           b1=: finish 3 = {"n":"b"}
           a1=: finish 2 = {"n":"a"}"#,
    );
}
