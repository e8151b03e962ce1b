//! Questions to the client.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_net::server::{
    Builder, CacheHints, Contents, Context, Elicited, Error, Resource, Server, Tool, VisitPage,
};

use super::{Client, serve, text};

fn asking() -> Builder {
    let name = Tool::new("name").run(async |_: Value, cx: Context| {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        Ok::<_, Error>(match cx.elicit("Name?", schema).await? {
            Elicited::Accept(content) => format!("Hello, {}!", content["name"].as_str().unwrap()),
            Elicited::Decline => "declined".to_owned(),
            Elicited::Cancel => "cancelled".to_owned(),
        })
    });
    let page = Tool::new("page").run(async |_: Value, cx: Context| {
        Ok::<_, Error>(format!("{:?}", cx.elicit_url("Sign in", "https://a.test/x").await?))
    });
    let model = Tool::new("model").run(async |_: Value, cx: Context| {
        let answer = cx.sample(json!({"messages": [], "maxTokens": 5})).await?;
        Ok::<_, Error>(answer["content"]["text"].as_str().unwrap_or_default().to_owned())
    });
    let both = Tool::new("both").run(async |_: Value, cx: Context| {
        let sample = json!({"messages": [], "maxTokens": 5});
        let (roots, sampled) = tokio::join!(cx.roots(), cx.sample(sample));
        Ok::<_, Error>(format!("{} {}", roots?.len(), sampled?["model"]))
    });
    Server::builder("asks", "0").tool(name).tool(page).tool(model).tool(both)
}

async fn able() -> Client {
    let mut client = serve(asking());
    let capabilities = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
    client.greet("2025-11-25", capabilities).await;
    client
}

/// wire: UTL-7, MRTR-13
#[tokio::test]
async fn a_legacy_client_is_asked_by_requests() {
    let mut client = able().await;
    for (answer, expected) in [
        (json!({"action": "accept", "content": {"name": "Ann"}}), "Hello, Ann!"),
        (json!({"action": "decline"}), "declined"),
        (json!({"action": "cancel"}), "cancelled"),
    ] {
        let id = client.request("tools/call", json!({"name": "name"})).await;
        let question = client.hear().await;
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["message"], "Name?");
        client.say(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
        assert_eq!(text(&client.answer(id).await), expected);
    }
    let id = client.request("tools/call", json!({"name": "page"})).await;
    let question = client.hear().await;
    assert_eq!(question["params"]["mode"], "url");
    assert!(question["params"]["elicitationId"].is_string());
    client
        .say(json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}))
        .await;
    assert_eq!(text(&client.answer(id).await), "Decline");
}

#[tokio::test]
async fn questions_of_one_call_are_asked_side_by_side() {
    let mut client = able().await;
    let id = client.request("tools/call", json!({"name": "both"})).await;
    let questions = [client.hear().await, client.hear().await];
    let methods = questions.each_ref().map(|question| question["method"].as_str().unwrap());
    assert_eq!(methods, ["roots/list", "sampling/createMessage"]);
    // In the other order.
    let model = json!({"model": "m", "content": {"type": "text", "text": "x"}});
    client.say(json!({"jsonrpc": "2.0", "id": questions[1]["id"], "result": model})).await;
    let roots = json!({"roots": [{"uri": "file:///a"}]});
    client.say(json!({"jsonrpc": "2.0", "id": questions[0]["id"], "result": roots})).await;
    assert_eq!(text(&client.answer(id).await), "1 \"m\"");
}

#[tokio::test]
async fn a_refusal_of_the_client_fails_the_call() {
    let mut client = able().await;
    let id = client.request("tools/call", json!({"name": "model"})).await;
    let question = client.hear().await;
    let refusal = json!({"code": -1, "message": "User rejected sampling request"});
    client.say(json!({"jsonrpc": "2.0", "id": question["id"], "error": refusal})).await;
    assert_eq!(client.answer(id).await["error"], refusal);
}

/// wire: MRTR-2, MRTR-3, MRTR-5, MRTR-9, MOD-7
#[tokio::test]
async fn a_modern_client_is_asked_by_another_round() {
    let mut client = serve(asking());
    client.capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let call = json!({"name": "name"});
    let asked = client.modern("tools/call", call.clone()).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "asks");
    let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["params"]["message"], "Name?");
    let mut retry = call;
    retry["requestState"] = asked["requestState"].clone();
    let answer = json!({"action": "accept", "content": {"name": "Ann"}});
    retry["inputResponses"] = json!({key: answer});
    let answer = client.modern("tools/call", retry).await;
    assert_eq!(text(&answer), "Hello, Ann!");
    assert_eq!(answer["result"]["resultType"], "complete");

    let both = client.modern("tools/call", json!({"name": "both"})).await["result"].clone();
    let questions = both["inputRequests"].as_object().unwrap();
    assert_eq!(questions.len(), 2, "{both}");
    let answers = questions.iter().map(|(key, question)| {
        let roots = question["method"] == "roots/list";
        (key.clone(), if roots { json!({"roots": []}) } else { json!({"model": "m"}) })
    });
    let answers: serde_json::Map<_, _> = answers.collect();
    let retry = json!({
        "name": "both", "requestState": both["requestState"], "inputResponses": answers
    });
    assert_eq!(text(&client.modern("tools/call", retry).await), "0 \"m\"");
}

/// Whatever a server asks under a fixed name can be answered before it asks.
/// wire: MRTR-5, MRTR-9
#[tokio::test]
async fn a_modern_client_may_bring_answers_with_its_first_request() {
    let named = Tool::new("named").run(async |_: Value, cx: Context| {
        let first = cx.ask_as("first", "elicitation/create", json!({"message": "1?"})).await?;
        let second = cx.ask_as("second", "elicitation/create", json!({"message": "2?"})).await?;
        Ok::<_, Error>(format!("{} {}", first["content"], second["content"]))
    });
    let mut client = serve(Server::builder("s", "0").tool(named));
    client.capabilities = json!({"elicitation": {}});
    let answer = |content: u8| json!({"action": "accept", "content": content});
    let call = |answers: Value| json!({"name": "named", "inputResponses": answers});

    let all = json!({"first": answer(1), "second": answer(2), "other": answer(3)});
    assert_eq!(text(&client.modern("tools/call", call(all.clone())).await), "1 2");
    for (answers, asked) in [
        (json!({"first": answer(1)}), "second"),
        (json!({"first": null, "second": answer(2)}), "first"),
        (json!({"other": answer(3)}), "first"),
    ] {
        let round = client.modern("tools/call", call(answers)).await["result"].clone();
        assert_eq!(round["resultType"], "input_required", "{round}");
        assert!(round["inputRequests"][asked].is_object(), "{round}");
    }
    // Answers that belong to a state are worth nothing without it.
    let mut foreign = call(all);
    foreign["requestState"] = "of some other server".into();
    let round = client.modern("tools/call", foreign).await["result"].clone();
    assert_eq!(round["resultType"], "input_required", "{round}");
}

/// wire: META-3, META-5, MRTR-4
#[tokio::test]
async fn nobody_is_asked_for_what_they_did_not_declare() {
    let mut client = serve(asking());
    client.greet("2025-11-25", json!({"elicitation": {}})).await;
    let refused = client.call("tools/call", json!({"name": "model"})).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("sampling"), "{refused}");
    let refused = client.call("tools/call", json!({"name": "page"})).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("elicitation"), "{refused}");

    for (tool, required) in [
        ("name", json!({"elicitation": {"form": {}}})),
        ("page", json!({"elicitation": {"url": {}}})),
        ("model", json!({"sampling": {}})),
    ] {
        let refused = client.modern("tools/call", json!({"name": tool})).await;
        assert_eq!(refused["error"]["code"], -32021, "{tool}");
        assert_eq!(refused["error"]["data"]["requiredCapabilities"], required);
    }
    assert!(client.heard.is_empty(), "{:?}", client.heard);
}

/// wire: UTL-1
#[tokio::test]
async fn a_question_of_a_cancelled_call_is_taken_back() {
    let mut client = able().await;
    let id = client.request("tools/call", json!({"name": "name"})).await;
    let question = client.hear().await;
    let cancel = json!({"requestId": id});
    client
        .say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}))
        .await;
    let taken_back = client.hear().await;
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
}

#[tokio::test]
async fn a_call_knows_who_made_it() {
    let who = Tool::new("who").run(async |_: Value, cx: Context| {
        let name = cx.client_info().map_or(Value::Null, |info| info["name"].clone());
        format!("{name} {:?} {} {}", cx.era(), cx.revision(), cx.client_capabilities())
    });
    let mut client = serve(Server::builder("s", "0").tool(who));
    client.greet("2025-03-26", json!({"roots": {}})).await;
    let call = json!({"name": "who"});
    let answer = client.call("tools/call", call.clone()).await;
    assert_eq!(text(&answer), r#""tester" Legacy 2025-03-26 {"roots":{}}"#);
    let answer = client.modern("tools/call", call).await;
    // wire: MOD-2, META-2
    assert_eq!(text(&answer), "null Modern 2026-07-28 {}");
}

/// wire: MRTR-12
#[tokio::test]
async fn what_came_of_an_answer_is_not_to_be_kept() {
    let cache = CacheHints { ttl_ms: 60_000, public: true };
    let read = async |uri: String, cx: Context| {
        let who = cx.ask_as("who", "roots/list", json!({})).await?["roots"].to_string();
        Ok(vec![Contents::text(&uri, "text/plain", who)])
    };
    let asks = Resource::new("a://asks", "asks").cache(cache).read(read);
    let plain = Resource::text("a://plain", "plain", "text/plain", "");
    let mut client = serve(Server::builder("s", "0").cache(cache).resource(asks).resource(plain));
    client.capabilities = json!({"roots": {}});
    let asked = client.modern("resources/read", json!({"uri": "a://asks"})).await["result"].clone();
    assert!(asked.get("ttlMs").is_none(), "{asked}");
    let answers = json!({"who": {"roots": []}});
    for (uri, more, kept) in [
        ("a://asks", json!({"requestState": asked["requestState"]}), false),
        ("a://asks", json!({}), false),
        ("a://plain", json!({}), false),
        ("a://plain", json!(null), true),
    ] {
        let mut params = json!({"uri": uri});
        if let Some(more) = more.as_object() {
            params["inputResponses"] = answers.clone();
            params.as_object_mut().unwrap().extend(more.clone());
        }
        let read = client.modern("resources/read", params).await["result"].clone();
        let expected = if kept { json!([60_000, "public"]) } else { json!([0, "private"]) };
        assert_eq!(json!([read["ttlMs"], read["cacheScope"]]), expected, "{uri} {more}");
    }
    let mut old = Client::of(Arc::clone(&client.server));
    old.greet("2025-11-25", json!({"roots": {}})).await;
    let id = old.request("resources/read", json!({"uri": "a://asks"})).await;
    let question = old.hear().await;
    old.say(json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})).await;
    assert!(old.answer(id).await["result"].get("ttlMs").is_none());
}

/// wire: UTL-8, MRTR-13
#[tokio::test]
async fn a_legacy_client_learns_when_a_page_is_done() {
    let visit = Tool::new("visit").run(async |args: Value, cx: Context| {
        let page = VisitPage::new("Sign in", "https://a.test/x")?;
        if args["first"] == true {
            return Err(Error::visit_first(&[page]));
        }
        let said = cx.visit(&page).await?;
        cx.visited(&page);
        Ok::<_, Error>(format!("{said:?}"))
    });
    let server = Server::builder("s", "0").tool(visit).build().unwrap();
    let mut client = Client::of(Arc::clone(&server));
    client.greet("2025-11-25", json!({"elicitation": {"url": {}}})).await;
    let id = client.request("tools/call", json!({"name": "visit"})).await;
    let question = client.hear().await;
    client
        .say(json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}))
        .await;
    client.answer(id).await;
    let done = client.heard_of("notifications/elicitation/complete")[0].clone();
    assert_eq!(done["params"]["elicitationId"], question["params"]["elicitationId"]);

    let call = json!({"name": "visit", "arguments": {"first": true}});
    let error = client.call("tools/call", call).await["error"].clone();
    assert_eq!(error["code"], -32042);
    let page = &error["data"]["elicitations"][0];
    assert_eq!((&page["mode"], &page["url"]), (&json!("url"), &json!("https://a.test/x")));
    assert!(page["elicitationId"].is_string());
}

/// wire: UTL-7, MRTR-14
#[tokio::test]
async fn an_answer_that_does_not_fit_the_form_is_none() {
    let mut client = able().await;
    for content in [json!({"name": 7}), json!([]), json!(null)] {
        let id = client.request("tools/call", json!({"name": "name"})).await;
        let question = client.hear().await;
        let answer = json!({"action": "accept", "content": content});
        client.say(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
        let error = client.answer(id).await["error"].clone();
        assert_eq!(error["code"], -32602, "{content}");
        let why = error["message"].as_str().unwrap();
        assert!(why.starts_with("the answer does not fit the form: "), "{why}");
    }
}

/// wire: MRTR-14
#[tokio::test]
async fn a_form_that_nobody_can_show_is_not_asked() {
    let deep = Tool::new("deep").run(async |_: Value, cx: Context| {
        let inner = json!({"type": "object", "properties": {}});
        let form = json!({"type": "object", "properties": {"x": inner}});
        cx.elicit("?", form).await.map(|_| "asked")
    });
    let mut client = serve(Server::builder("s", "0").tool(deep));
    client.greet("2025-11-25", json!({"elicitation": {}})).await;
    let answer = client.call("tools/call", json!({"name": "deep"})).await;
    assert_eq!(answer["error"]["code"], -32603);
    assert!(answer["error"]["message"].as_str().unwrap().contains("\"x\""), "{answer}");
    assert!(client.heard.is_empty(), "{:?}", client.heard);
}
