//! Requests that come back with answers: each speaks for itself.

use serde_json::{Value, json};
use switchboard_net::server::{Context, Error, Level, Server, Tool};

use super::{Client, serve, text};

/// Asks twice, and says on the way what it makes of the client.
fn steps() -> Client {
    let steps = Tool::new("steps").run(async |_: Value, cx: Context| {
        for (step, method) in [(1.0, "roots/list"), (2.0, "sampling/createMessage")] {
            cx.log(Level::Debug, None, step);
            cx.progress(step, None, None);
            cx.ask(method, json!({})).await?;
        }
        cx.log(Level::Debug, None, 3.0);
        cx.progress(3.0, None, None);
        Ok::<_, Error>(cx.client_capabilities().to_string())
    });
    serve(Server::builder("s", "0").tool(steps))
}

/// Makes the call, or goes on with it; `meta` is what this request says of itself.
async fn call(client: &mut Client, capabilities: Value, meta: Value, asked: &Value) -> Value {
    client.capabilities = capabilities;
    let mut params = json!({"name": "steps", "_meta": meta});
    if let Some(questions) = asked["result"]["inputRequests"].as_object() {
        let answers = questions.keys().map(|key| (key.clone(), json!({"roots": []})));
        params["inputResponses"] = answers.collect::<serde_json::Map<_, _>>().into();
        params["requestState"] = asked["result"]["requestState"].clone();
    }
    client.modern("tools/call", params).await
}

fn told(client: &Client, method: &str, member: &str) -> Vec<Value> {
    client.heard_of(method).iter().map(|note| note["params"][member].clone()).collect()
}

/// wire: META-3, MRTR-4, LOG-1, PRG-1
#[tokio::test]
async fn a_client_that_is_back_is_asked_and_told_by_what_it_says_then() {
    let mut client = steps();
    let asked = call(&mut client, json!({"roots": {}}), json!({}), &Value::Null).await;
    let more = json!({"io.modelcontextprotocol/logLevel": "debug", "progressToken": "p"});
    let asked = call(&mut client, json!({"sampling": {}}), more, &asked).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    assert_eq!(told(&client, "notifications/message", "data"), [2.0]);
    let done = call(&mut client, json!({}), json!({}), &asked).await;
    assert_eq!(text(&done), "{}");
    assert_eq!(told(&client, "notifications/message", "data"), [2.0]);
    assert_eq!(told(&client, "notifications/progress", "progress"), [2]);
}

/// wire: META-3, MRTR-4
#[tokio::test]
async fn a_client_that_cannot_answer_any_more_learns_what_it_lacks() {
    let mut client = steps();
    let all = json!({"roots": {}, "sampling": {}});
    let asked = call(&mut client, all.clone(), json!({}), &Value::Null).await;
    let lacks = call(&mut client, json!({}), json!({}), &asked).await;
    assert_eq!(lacks["error"]["code"], -32021, "{lacks}");
    assert_eq!(lacks["error"]["data"]["requiredCapabilities"], json!({"sampling": {}}));

    // The same for what it was asked before, and does not answer.
    let mut asked = call(&mut client, all, json!({}), &Value::Null).await;
    asked["result"]["inputRequests"] = json!({});
    let lacks = call(&mut client, json!({}), json!({}), &asked).await;
    assert_eq!(lacks["error"]["code"], -32021, "{lacks}");
    assert_eq!(lacks["error"]["data"]["requiredCapabilities"], json!({"roots": {}}));
}
