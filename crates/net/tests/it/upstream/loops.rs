//! What a server says of loops, and when it is believed.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::client::Client;
use switchboard_net::connection::ClientConnection;
use switchboard_net::upstream::{Ancestry, ClientIdentity, ServerTarget, Strategy};
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::Carrier;
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;
use switchboard_testkit::caller::{LEGACY, error_of};
use switchboard_testkit::http::{Hit, HttpServer};
use switchboard_testkit::within;

use super::{caller, fetch};

#[tokio::test]
async fn a_loop_is_believed_only_of_an_answer_that_names_the_id_of_the_server() {
    let mut http = HttpServer::start().await;
    let ancestry = Ancestry::gateway("a", "a.json", None);
    let server = ServerTarget::url(http.url("/mcp"), Strategy::HttpOnly, HeaderMap::new(), fetch());
    let server = server.named_by(&ancestry);
    let limits = Arc::new(Limits::default());
    let bridge = Bridge::new(server.clone(), Children::PerSession, limits);
    let mut caller = caller(&bridge);
    tokio::join!(caller.greet(), http.greet(Some("s1"), LEGACY));
    let mut id = String::new();
    // Clients choose what some servers repeat as the data of an error.
    for ids in [None, Some(json!("x")), Some(json!(["00000000000000ff", 1])), Some(json!([]))] {
        let mut data = json!({"switchboard": "loop"});
        if let Some(ids) = ids {
            data["ids"] = ids;
        }
        let number = caller.ask("tools/call", json!({"name": "t", "arguments": data})).await;
        let post = http.post("tools/call").await;
        // Its own id; what its gateway has in common with others is behind it.
        let told = post.header("switchboard-via").unwrap_or_default();
        told.split(',').next().unwrap_or_default().clone_into(&mut id);
        let error = json!({"code": -32602, "message": "bad", "data": data});
        refuse(post, &error).await;
        assert_eq!(caller.answer(number).await["error"], error);
        assert!(!server.leads_back(), "{data}");
    }
    let number = caller.ask("tools/call", json!({"name": "t"})).await;
    let post = http.post("tools/call").await;
    let data = json!({"switchboard": "loop", "ids": ["00000000000000ff", id]});
    let error = json!({"code": -32603, "message": "around", "data": data});
    refuse(post, &error).await;
    let text = error_of(&caller.answer(number).await);
    assert!(text.contains("leads back to this gateway"), "{text}");
    assert!(server.leads_back());
}

#[tokio::test]
async fn what_a_gateway_asks_for_a_single_user_tells_the_chain_too() {
    let mut http = HttpServer::start().await;
    let server = ServerTarget::url(http.url("/mcp"), Strategy::HttpOnly, HeaderMap::new(), fetch());
    let server = server.named_by(&Ancestry::gateway("a", "a.json", None));
    let bridge = Bridge::new(server, Children::PerUser, Arc::default());
    let (backend, limits) = (Arc::clone(&bridge), Limits::default());
    let user = ClientConnection::new(Era::Legacy, Carrier::Http, backend, &limits, Sharing::Shared);
    let server = ServerTarget::behind(&bridge, &Arc::new(ClientIdentity::of(&user, None)));
    let connecting = Client::connect(server);
    let (client, ()) = tokio::join!(within(connecting), http.greet(Some("s1"), LEGACY));
    let client = client.unwrap();
    let (listed, ()) = tokio::join!(within(client.tools()), async {
        let post = http.post("tools/list").await;
        let message = post.message();
        let told = message["params"]["_meta"]["switchboard/via"].as_str();
        assert_eq!(told, post.header("switchboard-via"), "{message}");
        let result = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}});
        post.json(200, &result).await;
    });
    assert!(listed.unwrap().is_empty());
}

async fn refuse(post: Hit, error: &Value) {
    let id = post.message()["id"].clone();
    post.json(200, &json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
}
