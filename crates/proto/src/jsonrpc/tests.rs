//! Each case is a text, and what it is taken for.

use super::*;

mod member;

/// wire: MSG-1, MSG-2, MSG-3, MSG-4, MSG-5
#[test]
fn messages_are_told_apart_by_their_members() {
    check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "Request 1 ping");
    check(r#"{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}"#, r#"Request "1" ping {}"#);
    check(r#"{"method":"ping","id":1.0,"jsonrpc":"2.0"}"#, "Request 1 ping");
    check(
        r#"{"jsonrpc":"2.0","id":123456789012345678901,"method":"m"}"#,
        "Request 123456789012345678901 m",
    );
    check(r#"{"jsonrpc":"2.0","id":-9,"method":"m\u002fn"}"#, "Request -9 m/n");
    check(r#"{"jsonrpc":"2.0","method":"n","params":[1]}"#, "Notification - n [1]");
    check(r#"{"jsonrpc":"2.0","method":"n","params":null}"#, "Notification - n");
    check(r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "Result 1  null");
    check(r#"{"jsonrpc":"2.0","id":1,"result":{ "a":1 }}"#, r#"Result 1  { "a":1 }"#);
    check(
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#,
        r#"Error -  {"code":1,"message":""}"#,
    );
    check(r#"{"jsonrpc":"2.0","error":{}}"#, "Error -  {}");
    check(r#"{"jsonrpc":"2.0","id":1,"error":{},"params":3}"#, "Error 1  {}");
    check(r#"{"jsonrpc":"2.0","\u0069d":4,"method":"m"}"#, "Request 4 m");
}

/// wire: MSG-1, MSG-2, MSG-5
#[test]
fn what_is_no_message_is_refused_under_its_id() {
    let refused = |why: &str| format!("refused not a JSON-RPC 2.0 message: {why}");
    check("{}", &refused("jsonrpc is missing"));
    check(r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, &refused("jsonrpc must be \"2.0\", once"));
    check(
        r#"{"jsonrpc":"2.0","id":1}"#,
        &format!("1 {}", refused("neither method, result nor error")),
    );
    check(
        r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
        &refused("id must be a string or an integer"),
    );
    check(
        r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#,
        &refused("id must be a string or an integer"),
    );
    check(
        r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#,
        &refused("id must be a string or an integer"),
    );
    check(
        r#"{"jsonrpc":"2.0","id":7,"method":7}"#,
        &format!("7 {}", refused("method must be a string")),
    );
    check(
        r#"{"jsonrpc":"2.0","id":7,"method":"m","params":"x"}"#,
        &format!("7 {}", refused("params must be an object")),
    );
    check(r#"{"jsonrpc":"2.0","result":1}"#, &refused("a result needs an id"));
    check(
        r#"{"jsonrpc":"2.0","id":1,"error":5}"#,
        &format!("1 {}", refused("error must be an object")),
    );
    let conflict = format!("1 {}", refused("more than one of method, result and error"));
    check(r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#, &conflict);
    check(r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#, &conflict);
    let twice = refused("a member of the envelope occurs twice");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}"#, &format!("1 {twice}"));
    check(r#"{"jsonrpc":"2.0","method":"m","params":{},"p\u0061rams":{}}"#, &twice);
    check(r#"{"jsonrpc":"2.0","method":"m","#, "refused not JSON, from byte 30");
    check("5", &refused("it is no object"));
    check("\"text\" ", &refused("it is no object"));
    check("5x", "refused not JSON, from byte 0");
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}"#, "[".repeat(500));
    assert!(matches!(parse_one(deep.into()).unwrap_err().why, Refusal::TooDeep { .. }));
    let bytes = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}");
    assert_eq!(parse(bytes).unwrap_err().why, Refusal::NotUtf8 { at: 34 });
}

/// Some servers do not mind case: they would take a twin for the member itself.
#[test]
fn a_member_of_the_envelope_in_other_letters_is_refused() {
    for twin in
        ["Method", "METHOD", "\\u004dethod", "ID", "Id", "Params", "param\u{17f}", "JsonRpc"]
    {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","{twin}":"tools/call","params":{{}}}}"#
        );
        let why = "not a JSON-RPC 2.0 message: a member of the envelope is not in lower case";
        check(&text, &format!("1 refused {why}"));
    }
    check(
        r#"{"jsonrpc":"2.0","id":1,"result":{},"reſult":{}}"#,
        "1 refused not a JSON-RPC 2.0 message: a member of the envelope is not in lower case",
    );
    check(r#"{"jsonrpc":"2.0","id":1,"method":"m","methods":1,"e":2}"#, "Request 1 m");
}

/// wire: MSG-8
#[test]
fn batches_are_read_element_by_element() {
    let text = r#"[{"jsonrpc":"2.0","id":1,"method":"a"}, 5, {"jsonrpc":"2.0","method":"b"}]"#;
    let Ok(Incoming::Batch(elements)) = parse(text.into()) else { panic!("no batch") };
    let methods: Vec<_> = elements.iter().map(|e| e.as_ref().map(Message::method)).collect();
    assert!(matches!(methods[..], [Ok("a"), Err(_), Ok("b")]), "{methods:?}");
    assert_eq!(parse("[]".into()).unwrap_err().why, Refusal::BadBatch { why: "it is empty" });
    let many = format!("[{}1]", "1,".repeat(100));
    assert_eq!(
        parse(many.into()).unwrap_err().why,
        Refusal::BadBatch { why: "more than 100 messages" }
    );
    assert!(parse_one(text.into()).is_err(), "an array is not one message");
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let seen = match parse_one(Bytes::copy_from_slice(text.as_bytes())) {
        Ok(message) => {
            let id = message.id().map_or("-".to_owned(), ToString::to_string);
            let payload =
                String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
            format!("{:?} {id} {} {payload}", message.kind(), message.method())
                .trim_end()
                .to_owned()
        }
        Err(InvalidMessage { id, why }) => {
            id.map_or(String::new(), |id| format!("{id} ")) + &format!("refused {why}")
        }
    };
    assert_eq!(seen, expected, "{text}");
}

/// `"\ud800"` is JSON by its grammar, but no text: two such ids would be one.
///
/// wire: MSG-2, MSG-3
#[test]
fn half_a_character_is_neither_an_id_nor_a_method() {
    for text in [
        r#"{"jsonrpc":"2.0","id":"\ud800","method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"\udfff"}"#,
    ] {
        let refused = parse_one(Bytes::from_static(text.as_bytes())).unwrap_err();
        assert_eq!(refused.why.rpc_code(), -32600, "{text}");
    }
    assert!(Id::parse(b"\"").is_err());
}

/// wire: DIV-17
#[test]
fn an_id_with_decimals_is_written_without_them() {
    let text = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"a":7.0}}}}"#);
    for (id, spelled) in [("7.0", "7"), ("7", "7"), (r#""7.0""#, r#""7.0""#)] {
        let message = parse_one(text(id).into()).unwrap();
        let again = message.with_id(&message.id().unwrap().clone());
        assert_eq!(again.text(), text(spelled).as_bytes());
        assert_eq!(again.with_id(again.id().unwrap()).text(), text(spelled).as_bytes());
    }
}
