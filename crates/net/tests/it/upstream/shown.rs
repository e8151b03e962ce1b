//! Headers that are found out when a connection is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::json;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::upstream::{
    Credential, CredentialRefusal, CredentialUser, Fetching, IdentityDigest, NoCredential,
    ServerTarget, Strategy,
};
use switchboard_proto::limits::Limits;
use switchboard_testkit::caller::{Caller, LEGACY, error_of};
use switchboard_testkit::http::HttpServer;

use super::{caller, fetch};

/// Says another word each time it is asked, until it has none left.
struct Words {
    asked: AtomicUsize,
    most: usize,
}

impl Words {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { asked: AtomicUsize::new(0), most })
    }
}

impl Credential for Words {
    fn passes(&self) -> &[HeaderName] {
        &[]
    }

    fn digest(&self, _: CredentialUser<'_>, _: &mut IdentityDigest) {}

    fn headers<'c>(
        &'c self,
        _user: CredentialUser<'c>,
        refusal: Option<&'c CredentialRefusal>,
    ) -> Fetching<'c> {
        Box::pin(async move {
            if refusal.is_some_and(|it| it.attempt > 0 || it.status != StatusCode::UNAUTHORIZED) {
                return Ok(None);
            }
            let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
            if number > self.most {
                return Err(NoCredential::Unavailable("no words in /secret/place".to_owned()));
            }
            let mut headers = HeaderMap::new();
            headers.insert("x-word", number.to_string().parse().expect("a number"));
            // The protocol's own are not for it to set.
            headers.insert("mcp-session-id", "mine".parse().expect("a word"));
            Ok(Some(headers.into()))
        })
    }
}

fn before(server: &HttpServer, words: &Arc<Words>, strategy: Strategy) -> (Arc<Bridge>, Caller) {
    let words = Arc::clone(words);
    let server = ServerTarget::url(server.url("/mcp"), strategy, HeaderMap::new(), fetch());
    let server = server.showing(words);
    let bridge = Bridge::new(server, Children::PerSession, Arc::new(Limits::default()));
    (Arc::clone(&bridge), caller(&bridge))
}

/// wire: HDR-15
#[tokio::test]
async fn what_was_no_good_is_asked_for_again_once_and_the_call_sent_again() {
    let mut server = HttpServer::start().await;
    let words = Words::new(9);
    let (_bridge, mut caller) = before(&server, &words, Strategy::HttpOnly);
    tokio::join!(caller.greet(), server.greet(Some("s1"), LEGACY));
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    let first = server.post("tools/call").await;
    assert_eq!((first.header("x-word"), first.header("mcp-session-id")), (Some("1"), Some("s1")));
    first.answer(401, &[], "").await;
    let second = server.post("tools/call").await;
    assert_eq!((second.header("x-word"), second.header("mcp-session-id")), (Some("2"), Some("s1")));
    second.result(json!({"k": 1})).await;
    assert_eq!(caller.answer(id).await["result"], json!({"k": 1}));
    // What was good stays, and what is never good is told.
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    server.post("tools/call").await.answer(401, &[], "").await;
    let second = server.post("tools/call").await;
    assert_eq!(second.header("x-word"), Some("3"));
    second.answer(401, &[], "").await;
    assert!(error_of(&caller.answer(id).await).contains("401"));
    assert_eq!(server.waiting(|_| true), 0);
    assert_eq!(words.asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn calls_that_are_refused_together_ask_once() {
    let mut server = HttpServer::start().await;
    let words = Words::new(9);
    let (_bridge, mut caller) = before(&server, &words, Strategy::HttpOnly);
    tokio::join!(caller.greet(), server.greet(Some("s1"), LEGACY));
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(caller.ask("tools/call", json!({"name": "t"})).await);
    }
    let mut refused = Vec::new();
    for _ in 0..3 {
        refused.push(server.post("tools/call").await);
    }
    for hit in refused {
        hit.answer(401, &[], "").await;
    }
    for _ in 0..3 {
        let again = server.post("tools/call").await;
        assert_eq!(again.header("x-word"), Some("2"));
        again.result(json!({})).await;
    }
    for id in ids {
        assert!(caller.answer(id).await.get("result").is_some());
    }
}

#[tokio::test]
async fn a_call_without_credentials_is_not_sent_and_does_not_tell_why() {
    let mut server = HttpServer::start().await;
    let words = Words::new(0);
    let (_bridge, mut caller) = before(&server, &words, Strategy::HttpOnly);
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let failed = caller.call("initialize", params).await;
    let failed = error_of(&failed);
    assert!(failed.contains("credentials") && !failed.contains("secret"), "{failed}");
    assert_eq!(server.waiting(|_| true), 0);
}

#[tokio::test]
async fn a_stream_that_is_not_let_in_is_opened_with_others() {
    let mut server = HttpServer::start().await;
    let words = Words::new(9);
    let (_bridge, mut caller) = before(&server, &words, Strategy::SseOnly);
    let greeting = caller.ask("initialize", json!({"protocolVersion": LEGACY})).await;
    let first = server.get().await;
    assert_eq!(first.header("x-word"), Some("1"));
    first.answer(401, &[], "").await;
    let second = server.get().await;
    assert_eq!(second.header("x-word"), Some("2"));
    let mut stream = second.stream().await;
    stream.write("event: endpoint\ndata: /message\n\n").await;
    let posted = server.post("initialize").await;
    assert_eq!(posted.header("x-word"), Some("2"));
    let id = posted.message()["id"].clone();
    posted.answer(202, &[], "").await;
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": LEGACY}});
    stream.write(&format!("event: message\ndata: {answer}\n\n")).await;
    assert_eq!(caller.answer(greeting).await["result"]["protocolVersion"], LEGACY);
}
