//! A process for each user, whose lists are those of its user.

use serde_json::{Value, json};
use switchboard_net::client::{Client, ListenFilter};
use switchboard_proto::revision::Era;
use switchboard_testkit::script::gone;

use crate::served::{ADA, BOB, ERAS, PATIENCE, Served, key, names, personal, pid, rude_with, text};

fn servers() -> Value {
    json!({
        "all": rude_with(&[], &json!({"process": "shared"})),
        "own": personal(&json!({"process": "per-user"})),
    })
}

async fn gateway() -> Served {
    let keys = json!({"ada": key(ADA, json!({})), "bob": key(BOB, json!({}))});
    Served::start(&servers(), &json!({"keys": keys, "diagnostics": true})).await
}

const OURS: [&str; 2] = ["get_tool_manifest", "get_trace_by_id"];

/// Lists until there are these tools of the one server and those of the other.
async fn until_listed(client: &Client, own: &[&str]) {
    let own: Vec<_> = own.iter().map(|name| format!("own__{name}")).collect();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let expected = [&["all__echo"], &own[..], &OURS[..]].concat();
    let listed = async { while names(&client.tools().await.unwrap()) != expected {} };
    let listed = tokio::time::timeout(PATIENCE, listed).await;
    assert!(listed.is_ok(), "never {expected:?}");
}

async fn sign_in(client: &Client, room: &str) {
    client.call_tool("own__sign_in", json!({"room": room})).await.unwrap();
}

async fn both(gateway: &Served, era: Era) -> [Client; 2] {
    [gateway.client_as(ADA, "/mcp", era).await, gateway.client_as(BOB, "/mcp", era).await]
}

#[tokio::test]
async fn the_process_of_a_user_ends_with_their_last_key() {
    for era in ERAS {
        let gateway = gateway().await;
        let [ada, bob] = both(&gateway, era).await;
        let (adas, bobs) = (pid(&ada, "own__pid").await, pid(&bob, "own__pid").await);
        let keys = json!({"bob": key(BOB, json!({}))});
        gateway.rewrite(&servers(), &json!({"keys": keys, "diagnostics": true}));
        gone(adas).await;
        assert_eq!(pid(&bob, "own__pid").await, bobs, "{era:?}: others go on");
    }
}

#[tokio::test]
async fn each_user_sees_what_their_own_process_shows_and_hears_when_that_changes() {
    let gateway = gateway().await;
    for era in ERAS {
        let [ada, bob] = both(&gateway, era).await;
        until_listed(&ada, &["pid", "sign_in"]).await;
        until_listed(&bob, &["pid", "sign_in"]).await;
        let filter =
            ListenFilter { tools: true, prompts: true, resources: true, ..ListenFilter::default() };
        let mut listening = ada.listen(filter).await.unwrap();
        let room = format!("{era:?}").to_lowercase();
        sign_in(&ada, &room).await;
        let heard = listening.next().await.unwrap().method;
        assert!(heard.ends_with("/list_changed"), "{heard}");
        until_listed(&ada, &["pid", "sign_in", &format!("room_{room}")]).await;
        let entered = ada.call_tool(&format!("own__room_{room}"), json!({})).await.unwrap();
        assert_eq!(entered["isError"], false, "{era:?}: {entered}");
        let entered = bob.call_tool(&format!("own__room_{room}"), json!({})).await.unwrap();
        assert_eq!(text(&entered), "no such room", "{era:?}");
        until_listed(&bob, &["pid", "sign_in"]).await;
        // Whoever comes later on behalf of the same user finds the same.
        let again = gateway.client_as(ADA, "/mcp", era).await;
        until_listed(&again, &["pid", "sign_in", &format!("room_{room}")]).await;
    }
}

#[tokio::test]
async fn everything_of_a_user_is_found_where_it_is_theirs() {
    let gateway = gateway().await;
    for era in ERAS {
        let [ada, bob] = both(&gateway, era).await;
        sign_in(&ada, "attic").await;
        until_listed(&ada, &["pid", "sign_in", "room_attic"]).await;
        let prompts = async {
            while names(&ada.prompts().await.unwrap()) != ["own__prompt_attic"] {}
            while ada.resources().await.unwrap().len() != 1 {}
        };
        tokio::time::timeout(PATIENCE, prompts).await.unwrap();
        let of = json!({"type": "ref/prompt", "name": "own__prompt_attic"});
        let found = ada.complete(of, "a", "", serde_json::Map::new()).await.unwrap();
        assert_eq!(found["completion"]["values"], json!(["prompt_attic"]), "{era:?}");
        let read = ada.read("room://attic").await.unwrap();
        assert_eq!(read["contents"][0]["text"], "inside room://attic", "{era:?}");
        let manifest = ada.call_tool("get_tool_manifest", json!({})).await.unwrap();
        assert!(manifest.to_string().contains("own__room_attic"), "{manifest}");
        let manifest = bob.call_tool("get_tool_manifest", json!({})).await.unwrap();
        assert!(!manifest.to_string().contains("room_attic"), "{manifest}");
        assert_eq!(bob.prompts().await.unwrap(), Vec::<Value>::new(), "{era:?}");
        assert_eq!(bob.resources().await.unwrap(), Vec::<Value>::new(), "{era:?}");
        let told = ada.welcome()["instructions"].as_str().unwrap_or_default();
        assert!(told.contains("Sign in first."), "{era:?}: {told}");
    }
}

#[tokio::test]
async fn lists_are_read_by_the_process_that_a_users_calls_go_to() {
    let gateway = gateway().await;
    let [ada, bob] = both(&gateway, Era::Legacy).await;
    for client in [&ada, &bob] {
        until_listed(client, &["pid", "sign_in"]).await;
        client.call_tool("own__pid", json!({})).await.unwrap();
    }
    let server = gateway.server("own");
    assert_eq!(server["children"], 3, "ours, ada's and bob's: {server}");
    assert_eq!(server["people"], 2, "{server}");
}
