//! What clients hear while a person signs in to their server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::client::Client;
use switchboard_net::upstream::{
    Credential, CredentialRefusal, CredentialUser, Fetching, IdentityDigest, NoCredential,
    PersonAsked, ServerTarget, Strategy,
};
use switchboard_proto::auth::AuthError;
use switchboard_proto::limits::Limits;
use switchboard_testkit::caller::LEGACY;
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::within;
use tokio::sync::{mpsc, watch};

use crate::upstream::{caller, enveloped, fetch};

/// A person who is asked after each 401, and does what the test says.
struct Slow {
    asked: watch::Sender<Option<Arc<str>>>,
    says: tokio::sync::Mutex<mpsc::Receiver<bool>>,
    defers: bool,
    /// Whether they want to be asked, although they said no.
    is_anew: AtomicBool,
}

impl Slow {
    fn new(defers: bool) -> (Arc<Self>, mpsc::Sender<bool>) {
        let (tell, says) = mpsc::channel(4);
        let asked = watch::Sender::default();
        (Arc::new(Self { asked, says: says.into(), defers, is_anew: AtomicBool::new(false) }), tell)
    }

    /// Waits until they are asked.
    async fn until_asked(&self) {
        let mut asked = self.asked.subscribe();
        within(asked.wait_for(Option::is_some)).await.unwrap();
    }
}

impl Credential for Slow {
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
            let mut headers = HeaderMap::new();
            if refusal.is_some() {
                self.asked.send_replace(Some("Open http://as/page".into()));
                let is_yes = self.says.lock().await.recv().await;
                self.asked.send_replace(None);
                if is_yes != Some(true) {
                    let error = "access_denied".to_owned();
                    return Err(AuthError::Refused { error, description: None }.into());
                }
                headers.insert("authorization", HeaderValue::from_static("Bearer t"));
            }
            Ok::<_, NoCredential>(Some(headers.into()))
        })
    }

    fn person_asked(&self) -> Option<PersonAsked> {
        Some(self.asked.subscribe())
    }

    fn ask_anew(&self) {
        self.is_anew.store(true, Ordering::SeqCst);
    }

    fn defers(&self) -> bool {
        self.defers
    }
}

fn target(server: &HttpServer, person: &Arc<Slow>) -> ServerTarget {
    let person = Arc::clone(person);
    ServerTarget::url(server.url("/mcp"), Strategy::HttpOnly, HeaderMap::new(), fetch())
        .showing(person)
}

/// So much time passes, in which nothing comes from outside.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    tokio::time::resume();
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

// wire: OC-48
#[tokio::test]
async fn a_client_is_welcomed_before_its_host_gives_up_and_told_when_the_tools_are_there() {
    let mut server = HttpServer::start().await;
    let (person, tell) = Slow::new(true);
    let target = target(&server, &person);
    let bridge = Bridge::new(target, Children::PerSession, Arc::new(Limits::default()));
    let mut caller = caller(&bridge);
    let id = caller.begin_greeting().await;
    server.post("initialize").await.answer(401, &[], "").await;
    person.until_asked().await;
    pass(24).await;
    let early = tokio::time::timeout(Duration::ZERO, caller.answer(id)).await;
    assert!(early.is_err(), "{early:?}");
    pass(2).await;
    let welcome = caller.answer(id).await;
    assert_eq!(welcome["result"]["protocolVersion"], LEGACY);
    for capability in ["tools", "prompts", "resources", "logging", "completions"] {
        assert!(welcome["result"]["capabilities"][capability].is_object(), "{welcome}");
    }
    caller.note("notifications/initialized", json!({})).await;
    let tools = caller.call("tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"][0]["name"], "sign_in");
    assert_eq!(caller.call("prompts/list", json!({})).await["result"], json!({"prompts": []}));
    assert_eq!(caller.call("ping", json!({})).await["result"], json!({}));
    let level = caller.call("logging/setLevel", json!({"level": "error"})).await;
    assert_eq!(level["result"], json!({}));
    let told = caller.call("tools/call", json!({"name": "sign_in"})).await;
    assert!(text(&told).contains("http://as/page"), "{told}");
    assert_eq!(told["result"]["isError"], false);
    let other = caller.call("tools/call", json!({"name": "other"})).await;
    assert_eq!(other["result"]["isError"], true);
    assert!(caller.call("prompts/get", json!({"name": "p"})).await["error"].is_object());

    // They say no; then they are asked again by the tool, and say yes.
    tell.send(false).await.unwrap();
    person.asked.subscribe().wait_for(Option::is_none).await.unwrap();
    assert!(!person.is_anew.load(Ordering::SeqCst));
    let again = caller.ask("tools/call", json!({"name": "sign_in"})).await;
    server.post("initialize").await.answer(401, &[], "").await;
    assert!(person.is_anew.load(Ordering::SeqCst));
    assert!(text(&caller.answer(again).await).contains("http://as/page"));
    tell.send(true).await.unwrap();
    let hello = server.post("initialize").await;
    assert_eq!(hello.header("authorization"), Some("Bearer t"));
    hello.welcome(Some("s1"), LEGACY).await;
    server.post("notifications/initialized").await.answer(202, &[], "").await;
    server.get().await.answer(405, &[], "").await;
    server.post("logging/setLevel").await.result(json!({})).await;
    for list in ["tools", "prompts", "resources"] {
        caller.told(&format!("notifications/{list}/list_changed")).await;
    }
    let done = caller.call("tools/call", json!({"name": "sign_in"})).await;
    assert!(text(&done).contains("signed in"), "{done}");
    // From here on all is the server's, a tool of the same name too.
    for (method, params) in
        [("tools/list", json!({})), ("tools/call", json!({"name": "sign_in", "arguments": {}}))]
    {
        let id = caller.ask(method, params).await;
        let hit = server.post(method).await;
        assert_eq!(hit.header("mcp-session-id"), Some("s1"));
        hit.result(json!({"from": "server"})).await;
        assert_eq!(caller.answer(id).await["result"]["from"], "server");
    }
    caller.leave().await;
}

#[tokio::test]
async fn a_client_whose_person_is_quick_hears_nothing_of_it() {
    let mut server = HttpServer::start().await;
    let (person, tell) = Slow::new(true);
    let bridge = Bridge::new(target(&server, &person), Children::PerSession, Arc::default());
    let mut caller = caller(&bridge);
    let id = caller.begin_greeting().await;
    server.post("initialize").await.answer(401, &[], "").await;
    tell.send(true).await.unwrap();
    server.post("initialize").await.welcome(Some("s1"), LEGACY).await;
    let welcome = caller.answer(id).await;
    assert_eq!(welcome["result"]["serverInfo"]["name"], "scripted");
    caller.leave().await;
    // Nor does one whose server is slow, and where nobody is asked.
    let mut caller = crate::upstream::caller(&bridge);
    let id = caller.begin_greeting().await;
    let hello = server.post("initialize").await;
    pass(100).await;
    hello.welcome(Some("s2"), LEGACY).await;
    assert_eq!(caller.answer(id).await["result"]["serverInfo"]["name"], "scripted");
}

// wire: OC-13, AUTH-20, NEG-6
#[tokio::test]
async fn an_era_probe_waits_for_a_person_and_is_made_again() {
    let mut server = HttpServer::start().await;
    let (person, tell) = Slow::new(false);
    let bridge = Bridge::new(target(&server, &person), Children::PerSession, Arc::default());
    let mut caller = caller(&bridge);
    let id = caller.ask("tools/list", enveloped(json!({}))).await;
    let probe = server.post("server/discover").await;
    pass(29).await;
    probe.answer(401, &[], "").await;
    person.until_asked().await;
    for _ in 0..5 {
        pass(100).await;
    }
    tell.send(true).await.unwrap();
    let probe = server.post("server/discover").await;
    assert_eq!(probe.header("authorization"), Some("Bearer t"));
    // It has all its time, for it is another.
    pass(29).await;
    let versions = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                          "serverInfo": {"name": "m", "version": "1"}, "resultType": "complete"});
    probe.result(versions).await;
    server.post("tools/list").await.result(json!({"tools": [], "resultType": "complete"})).await;
    assert!(caller.answer(id).await["result"].is_object());

    // So has that of the library's client.
    let (person, tell) = Slow::new(false);
    let connecting = Client::connect(target(&server, &person));
    let connecting = tokio::spawn(connecting);
    server.post("server/discover").await.answer(401, &[], "").await;
    person.until_asked().await;
    pass(100).await;
    tell.send(false).await.unwrap();
    let error = within(connecting).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("access_denied"), "{error}");
}

// wire: OC-48, OC-51
#[tokio::test]
async fn what_is_sent_waits_for_a_person_and_calls_whose_token_is_good_do_not() {
    let mut server = HttpServer::start().await;
    let (person, tell) = Slow::new(false);
    let bridge = Bridge::new(target(&server, &person), Children::PerSession, Arc::default());
    let mut caller = caller(&bridge);
    tokio::join!(caller.greet(), server.greet(Some("s1"), LEGACY));
    // A message that nobody waits for is not lost.
    let changed = "notifications/roots/list_changed";
    caller.note(changed, json!({})).await;
    server.post(changed).await.answer(401, &[], "").await;
    person.until_asked().await;
    pass(100).await;
    tell.send(true).await.unwrap();
    let again = server.post(changed).await;
    assert_eq!(again.header("authorization"), Some("Bearer t"));
    again.answer(202, &[], "").await;

    // One call wants more scope, and another one has enough.
    let first = caller.ask("tools/call", json!({"name": "t"})).await;
    server.post("tools/call").await.answer(403, &[], "").await;
    person.until_asked().await;
    let second = caller.ask("prompts/list", json!({})).await;
    server.post("prompts/list").await.result(json!({"prompts": []})).await;
    assert!(caller.answer(second).await["result"].is_object());
    tell.send(true).await.unwrap();
    server.post("tools/call").await.result(json!({"content": []})).await;
    assert!(caller.answer(first).await["result"].is_object());
    caller.leave().await;
}
