//! Members of payloads.

use super::*;

fn request(params: &str) -> Message {
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"params":{params},"method":"m"}}"#);
    parse_one(text.into()).unwrap()
}

#[test]
fn members_are_found_however_their_key_is_spelled_and_only_in_their_place() {
    let message = request(
        r#"{"n\u0061me" : "x\ny","arguments":{"uri":"u","_meta":{"traceparent":1}},"_meta":{ "progressToken":[1], "io.modelcontextprotocol/related-task":{"taskId":"t"}},"ref":{"name":"r"}}"#,
    );
    assert_eq!(message.string(Member::Name).unwrap(), "x\ny");
    assert_eq!(message.get(Member::MetaProgressToken), Some(&b"[1]"[..]));
    assert_eq!(message.string(Member::RelatedTaskId).unwrap(), "t");
    assert_eq!(message.string(Member::RefName).unwrap(), "r");
    for none in [Member::Uri, Member::TraceParent, Member::TaskId] {
        assert_eq!(message.get(none), None, "{none:?}");
    }
    assert_eq!(message.ambiguous(), None);
}

#[test]
fn the_last_of_equal_members_counts_with_all_that_is_in_it() {
    let message = request(r#"{"_meta":{"traceparent":1},"name":1,"_meta":{},"name":2}"#);
    assert_eq!(message.get(Member::Name), Some(&b"2"[..]));
    assert_eq!(message.get(Member::TraceParent), None);
    assert_eq!(request("[{\"name\":1}]").get(Member::Name), None);
}

#[test]
fn an_answer_may_have_params_that_mean_nothing() {
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"params":{"taskId":1},"result":{"taskId":2}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"taskId":2},"params":{"taskId":1}}"#,
    ] {
        assert_eq!(parse_one(text.into()).unwrap().get(Member::TaskId), Some(&b"2"[..]));
    }
}

#[test]
fn members_that_readers_may_confuse_are_found_wherever_they_decide_something() {
    for clear in [
        "{}",
        "[]",
        r#"{"name":"a","names":1,"arguments":{"Name":1,"name":2,"name":3}}"#,
        r#"{"ref":{"type":"x","name":"y","Names":0},"x":1,"x":2,"n":1}"#,
        r#"{"t\u0061skId":"x"}"#,
    ] {
        assert_eq!(request(clear).ambiguous(), None, "{clear}");
    }
    for (text, member) in [
        (r#"{"name":"a","name":"b"}"#, Member::Name),
        (r#"{"name":"a","n\u0061me":"b"}"#, Member::Name),
        (r#"{"name":"a","Name":"b"}"#, Member::Name),
        (r#"{"NAME":"b"}"#, Member::Name),
        (r#"{"name":"a","\u004eame":"b"}"#, Member::Name),
        (r#"{"ref":{"type":"x","Type":"y"}}"#, Member::RefType),
        (r#"{"ref":{"type":"x"},"Ref":{}}"#, Member::Ref),
        ("{\"taskId\":1,\"ta\u{17f}\u{212a}Id\":2}", Member::TaskId),
        ("{\"task\u{131}d\":2}", Member::TaskId),
    ] {
        assert_eq!(request(text).ambiguous(), Some(member), "{text}");
    }
}
