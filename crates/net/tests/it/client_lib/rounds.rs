//! Questions of a server, answered in both eras.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::client::{CallError, ClientOptions, Declined};
use switchboard_testkit::http::{Hit, HttpServer};
use switchboard_testkit::within;
use tokio::sync::Barrier;

use super::{connected, legacy, modern};
use crate::upstream::journal;

fn asking(questions: &Value, state: Option<&str>) -> String {
    let state = state.map(|state| format!(",\"requestState\":{state}")).unwrap_or_default();
    format!("{{\"resultType\":\"input_required\",\"inputRequests\":{questions}{state}}}")
}

async fn answer(hit: Hit, result: &str) {
    let id = &hit.message()["id"];
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
    hit.answer(200, &[("content-type", "application/json")], &body).await;
}

const DONE: &str = r#"{"resultType":"complete","content":[]}"#;

/// wire: MRTR-5, MRTR-11, HDR-3
#[tokio::test]
async fn all_questions_of_a_round_are_answered_at_once_and_the_state_comes_back_as_it_was() {
    let mut server = HttpServer::start().await;
    // Both are being asked at the same time, or neither gets on.
    let both = Arc::new(Barrier::new(2));
    let other = Arc::clone(&both);
    let options = ClientOptions::default()
        .on_elicitation(move |params| {
            let both = Arc::clone(&both);
            async move {
                both.wait().await;
                Ok(json!({"action": "accept", "content": {"said": params["message"]}}))
            }
        })
        .on_roots(move |_| {
            let other = Arc::clone(&other);
            async move {
                other.wait().await;
                Ok(json!({"roots": [{"uri": "file:///a"}]}))
            }
        });
    let client = modern(&mut server, options).await;
    let state = r#""st\u0061te \/ \"é\"""#;
    let (called, ()) = tokio::join!(client.call_tool("x", json!({"k": 1})), async {
        let first = server.post("tools/call").await;
        let before = first.message();
        let questions = json!({
            "a": {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": {}}},
            "b": {"method": "roots/list"},
        });
        answer(first, &asking(&questions, Some(state))).await;
        let second = server.post("tools/call").await;
        let after = second.message();
        assert_ne!(before["id"], after["id"]);
        assert_eq!(before["params"]["arguments"], after["params"]["arguments"]);
        assert_eq!(second.header("mcp-name"), Some("x"));
        let answers = json!({
            "a": {"action": "accept", "content": {"said": "m"}},
            "b": {"roots": [{"uri": "file:///a"}]},
        });
        assert_eq!(after["params"]["inputResponses"], answers);
        let text = std::str::from_utf8(&second.body).unwrap();
        assert!(text.contains(&format!("\"requestState\":{state}")), "{text}");
        // A round without questions, and without the answers of the last one.
        answer(second, r#"{"resultType":"input_required","requestState":"two"}"#).await;
        let third = server.post("tools/call").await;
        assert_eq!(third.message()["params"]["requestState"], "two");
        assert_eq!(third.message()["params"].get("inputResponses"), None);
        answer(third, DONE).await;
    });
    called.unwrap();
}

/// wire: MRTR-11
#[tokio::test]
async fn a_server_may_not_ask_for_ever() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, ClientOptions::default()).await;
    let call = tokio::spawn(async move { client.call_tool("x", json!({})).await });
    for _ in 0..=10 {
        let hit = server.post("tools/call").await;
        answer(hit, r#"{"resultType":"input_required","requestState":"s"}"#).await;
    }
    assert_eq!(within(call).await.unwrap(), Err(CallError::TooManyRounds { rounds: 10 }));
    assert_eq!(server.waiting(|_| true), 0);
}

/// wire: MRTR-10
#[tokio::test]
async fn a_question_that_is_not_answered_ends_the_call() {
    let mut server = HttpServer::start().await;
    let options =
        ClientOptions::default().on_sampling(|_| async { Err(Declined("not today".to_owned())) });
    let client = modern(&mut server, options).await;
    for (method, why) in [
        ("sampling/createMessage", "not today"),
        ("elicitation/create", "nobody here answers that"),
    ] {
        let (called, ()) = tokio::join!(client.call_tool("x", json!({})), async {
            let questions = json!({"a": {"method": method, "params": {}}});
            let hit = server.post("tools/call").await;
            answer(hit, &asking(&questions, None)).await;
        });
        let expected = CallError::Unanswered { method: method.to_owned(), why: why.to_owned() };
        assert_eq!(called, Err(expected));
    }
    assert_eq!(server.waiting(|_| true), 0, "it is not tried again");
}

/// wire: MRTR-1, MRTR-2, MOD-6
#[tokio::test]
async fn results_that_make_no_sense_are_refused() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, ClientOptions::default()).await;
    for (method, result) in [
        ("tools/list", r#"{"resultType":"input_required","requestState":"s"}"#),
        ("tools/call", r#"{"resultType":"input_required"}"#),
        ("tools/call", r#"{"resultType":"surprise"}"#),
        ("tools/call", r#"{"resultType":"input_required","inputRequests":["a"]}"#),
    ] {
        let (called, ()) = tokio::join!(client.request(method, json!({"name": "x"})), async {
            let hit = server.post(method).await;
            answer(hit, result).await;
        });
        assert!(matches!(called, Err(CallError::Unusable { .. })), "{result}: {called:?}");
    }
}

/// wire: MRTR-2
#[tokio::test]
async fn answers_of_any_shape_are_survived() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, ClientOptions::default()).await;
    for result in ["[]", "[1]", "7", "\"x\"", "null"] {
        let (listed, ()) = tokio::join!(client.tools(), async {
            let hit = server.post("tools/list").await;
            answer(hit, result).await;
        });
        assert_eq!(listed, Ok(Vec::new()), "{result}");
    }
    let (called, ()) = tokio::join!(client.call_tool("x", json!({})), async {
        let hit = server.post("tools/call").await;
        let questions = r#"{"a":["method"]}"#;
        answer(hit, &format!(r#"{{"resultType":"input_required","inputRequests":{questions}}}"#))
            .await;
    });
    assert!(matches!(called, Err(CallError::Unanswered { .. })), "{called:?}");
}

/// wire: UTL-7
#[tokio::test]
async fn a_legacy_server_gets_its_answers_as_responses() {
    let journal = journal();
    let options = ClientOptions::default().on_elicitation(|params| async move {
        match params["message"].as_str() {
            Some("no") => Err(Declined("no".to_owned())),
            message => Ok(json!({"action": "accept", "content": {"said": message}})),
        }
    });
    let client = connected(&journal, options).await;
    let called = client.call_tool("work", json!({"ask": true, "tag": "m"})).await.unwrap();
    assert_eq!(called["structuredContent"]["got"]["content"]["said"], "m");
    let called = client.call_tool("work", json!({"ask": true, "tag": "no"})).await.unwrap();
    assert_eq!(called["structuredContent"]["got"], json!({"code": -1, "message": "no"}));
    within(client.close()).await;
}

/// wire: UTL-7
#[tokio::test]
async fn a_question_that_nobody_answers_is_refused() {
    let journal = journal();
    let client = connected(&journal, ClientOptions::default()).await;
    let called = client.call_tool("work", json!({"ask": true, "tag": "m"})).await.unwrap();
    assert_eq!(called["structuredContent"]["got"]["code"], -32601);
    within(client.close()).await;
    let second = crate::upstream::journal();
    let options = ClientOptions::default().on_url_elicitation(|_| async { Ok(json!({})) });
    let client = connected(&second, options).await;
    let called = client.call_tool("work", json!({"ask": true, "tag": "m"})).await.unwrap();
    assert_eq!(called["structuredContent"]["got"]["code"], -32602);
    within(client.close()).await;
}

#[tokio::test(start_paused = true)]
async fn a_user_who_thinks_does_not_make_the_call_late() {
    let mut server = HttpServer::start().await;
    let options = ClientOptions::default()
        .on_elicitation(|_| async {
            tokio::time::sleep(Duration::from_millis(2500)).await;
            Ok(json!({"action": "cancel"}))
        })
        .timeout(Duration::from_millis(1500));
    let client = legacy(&mut server, options).await;
    let (called, ()) = tokio::join!(client.call_tool("x", json!({})), async {
        let hit = server.post("tools/call").await;
        let id = hit.message()["id"].clone();
        let mut stream = hit.stream().await;
        let (method, params) = ("elicitation/create", json!({"message": "m"}));
        stream.event(&json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})).await;
        let supplied = server.supplied().await;
        assert_eq!(supplied.message()["result"]["action"], "cancel");
        supplied.answer(202, &[], "").await;
        stream.event(&json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}})).await;
    });
    called.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_being_thought_of_ends_with_the_client() {
    let journal = journal();
    let (asked, mut asking) = tokio::sync::mpsc::channel(1);
    let options = ClientOptions::default().on_elicitation(move |_| {
        let (asked, thinking) = (asked.clone(), tokio::sync::oneshot::channel::<()>());
        async move {
            asked.send(thinking.1).await.unwrap();
            let _thinking = thinking.0;
            std::future::pending::<Result<Value, Declined>>().await
        }
    });
    let client = connected(&journal, options).await;
    let calling = client.call_tool("work", json!({"ask": true, "tag": "m"}));
    let closing = async {
        let thinking = within(asking.recv()).await.unwrap();
        within(client.close()).await;
        assert!(within(thinking).await.is_err(), "nobody answers, and nobody tries to");
    };
    let (called, ()) = tokio::join!(calling, closing);
    assert!(called.is_err(), "{called:?}");
}
