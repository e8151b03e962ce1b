//! Authorization servers, and those who speak for them, that mean harm or are in trouble.

use std::time::Duration;

use switchboard_net::auth::ReachPolicy;
use switchboard_proto::auth::{Challenge, TokenRecord};
use switchboard_testkit::http::HttpServer;

use super::*;

/// An account at a server that does what the test says.
fn account_at(server: &HttpServer) -> Authorizer {
    let url = server.url("/mcp").to_string();
    let account = Account { server: url, ..Account::default() };
    let (settings, options) = (OauthSettings::default(), SignInOptions::default());
    Authorizer::new(account, settings, memory(), fetch(), Arc::new(Yes), options)
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

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

// wire: OA-7, OB-1
#[tokio::test]
async fn a_document_without_end_is_not_read_to_its_end() {
    let mut server = HttpServer::start().await;
    let authorizer = account_at(&server);
    let signing_in = tokio::spawn(async move { authorizer.sign_in(None).await });
    let mut answer = server.get().await.begin(200, &JSON).await;
    answer.write("{\"resource\":\"").await;
    for _ in 0..32 {
        answer.write(&"x".repeat(32 << 10)).await;
    }
    let error = within(signing_in).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("longer than 65536 bytes"), "{error}");
    answer.gone().await;
}

// wire: OA-7, OA-8, OB-1
#[tokio::test]
async fn a_document_that_comes_slowly_is_not_waited_for() {
    let mut server = HttpServer::start().await;
    let authorizer = account_at(&server);
    let signing_in = tokio::spawn(async move { authorizer.sign_in(None).await });
    let mut answer = server.get().await.begin(200, &JSON).await;
    for _ in 0..11 {
        answer.write(" ").await;
        pass(1).await;
    }
    let error = within(signing_in).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("no answer within 10 s"), "{error}");
    assert!(error.is_temporary());
    answer.gone().await;

    // Many that are nearly too slow are together no slower than one discovery may be.
    let authorizer = account_at(&server);
    let signing_in = tokio::spawn(async move { authorizer.sign_in(None).await });
    let issuers: Vec<_> = (0..8).map(|at| server.url(&format!("/as{at}")).to_string()).collect();
    let resource = server.url("/mcp").to_string();
    let prm = json!({"resource": resource, "authorization_servers": issuers});
    server.get().await.json(200, &prm).await;
    for _ in 0..4 {
        let slow = server.get().await;
        pass(9).await;
        slow.answer(404, &[], "").await;
    }
    let error = within(signing_in).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("reading took more than 30 s"), "{error}");
    assert_eq!(server.waiting(|_| true), 0);
}

// wire: OA-7, OB-1, OB-2
#[tokio::test]
async fn deep_packed_and_crowded_documents_cost_little() {
    let mut server = HttpServer::start().await;
    let resource = server.url("/mcp").to_string();
    // Deep, and packed: neither is understood, and neither is unpacked.
    let deep = format!("{{\"resource\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let packed = "\u{1f}\u{8b}\u{8}".repeat(1_000);
    for (body, coding) in [(deep.as_str(), "identity"), (&packed, "gzip")] {
        let authorizer = account_at(&server);
        let signing_in = tokio::spawn(async move { authorizer.sign_in(None).await });
        let headers = [("content-type", "application/json"), ("content-encoding", coding)];
        // The metadata of the resource at two places, and that of the authorization server.
        for _ in 0..3 {
            let hit = server.get().await;
            assert_eq!(hit.header("accept-encoding"), None);
            hit.answer(200, &headers, body).await;
        }
        server.take(|hit| hit.path == "/register").await.answer(404, &[], "").await;
        assert_eq!(within(signing_in).await.unwrap().unwrap_err(), AuthError::NoOauth);
    }
    // More authorization servers than are tried, and more than are read.
    for (count, tried) in [(1_000, 8), (10_000, 0)] {
        let authorizer = account_at(&server);
        let mut signing_in = tokio::spawn(async move { authorizer.sign_in(None).await });
        let issuers: Vec<_> =
            (0..count).map(|at| server.url(&format!("/{at}")).to_string()).collect();
        let prm = json!({"resource": resource, "authorization_servers": issuers});
        server.get().await.json(200, &prm).await;
        // Each may have its metadata at three places.
        for _ in 0..tried * 3 {
            server.get().await.answer(404, &[], "").await;
        }
        within(&mut signing_in).await.unwrap().unwrap_err();
        assert_eq!(server.waiting(|_| true), 0);
    }
}

// wire: OA-6, OB-2, OB-3
#[tokio::test]
async fn metadata_that_redirects_into_a_network_is_not_followed() {
    let mut outside = HttpServer::start().await;
    let mut inside = HttpServer::start().await;
    let port = inside.url("/").port_u16().unwrap();
    for target in ["localhost", "[::ffff:127.0.0.1]", "127.1", "0x7f000001"] {
        // The server is elsewhere, and what speaks for it is an exception that we made.
        let account = Account { server: "http://192.0.2.1/mcp".to_owned(), ..Account::default() };
        let reach = ReachPolicy { is_strict: true, allowed: vec!["127.0.0.1".to_owned()] };
        let options = SignInOptions::default().reach(reach);
        let settings = OauthSettings::default();
        let authorizer =
            Authorizer::new(account, settings, memory(), fetch(), Arc::new(Yes), options);
        let prm = outside.url("/prm").to_string();
        let challenge = Challenge { resource_metadata: Some(prm), ..Challenge::default() };
        let signing_in = tokio::spawn(async move { authorizer.sign_in(Some(challenge)).await });
        let location = format!("http://{target}:{port}/prm");
        outside.get().await.answer(302, &[("location", &location)], "").await;
        let error = within(signing_in).await.unwrap().unwrap_err();
        assert!(matches!(error, AuthError::Unreachable { .. }), "{target}: {error}");
    }
    assert_eq!(inside.waiting(|_| true), 0);
}

// wire: OA-8, OC-45
#[tokio::test]
async fn an_authorization_server_in_trouble_costs_nothing_that_is_kept() {
    let world = AuthWorld::start().await;
    let store = memory();
    let before = within(world.authorizer(&store, LoginMode::Wait).sign_in(None)).await.unwrap();
    let html = Value::String("<html>".to_owned());
    let troubles = [(500, json!({})), (429, json!({"error": "slow_down"})), (200, html)];
    for path in [RESOURCE, METADATA, "/token"] {
        for trouble in &troubles {
            // One page for all that a server does not know is no trouble.
            if path == RESOURCE && trouble.0 == 200 {
                continue;
            }
            world.troubles.lock().unwrap().insert(path, trouble.clone());
            let authorizer = world.authorizer(&store, LoginMode::Wait);
            let error = within(authorizer.sign_in(None)).await.unwrap_err();
            let told = error.to_string();
            assert!(error.is_temporary(), "{path} {trouble:?}: {told}");
            assert!(told.contains(&world.url), "{path} {trouble:?}: {told}");
            assert_eq!(authorizer.tokens().await.unwrap().as_ref(), Some(&before), "{path}");
            world.troubles.lock().unwrap().clear();
        }
    }
    // The registration was used all the time; one that fails leaves none.
    assert_eq!(world.registrations.load(Ordering::SeqCst), 1);
    for trouble in troubles {
        world.troubles.lock().unwrap().insert("/register", trouble.clone());
        let fresh = memory();
        let error = within(world.authorizer(&fresh, LoginMode::Wait).sign_in(None)).await;
        let told = error.unwrap_err().to_string();
        assert!(told.contains("refused to register"), "{told}");
        assert!(fresh.list(RecordKind::Registration).await.unwrap().is_empty());
        world.troubles.lock().unwrap().clear();
    }
}

/// A store that another process changes whatever locks there are.
#[derive(Clone, Debug, Default)]
struct Unguarded(Arc<Mutex<HashMap<RecordId, Vec<u8>>>>);

#[derive(Debug)]
struct UnguardedLock(Unguarded, RecordId);

impl Unguarded {
    fn get(&self, record: &RecordId) -> Option<Plaintext> {
        self.0.lock().unwrap().get(record).cloned().map(Plaintext::new)
    }
}

impl RecordStore for Unguarded {
    fn read<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Option<Plaintext>> {
        Box::pin(async move { Ok(self.get(record)) })
    }

    fn lock<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Box<dyn RecordLock>> {
        Box::pin(async move { Ok(Box::new(UnguardedLock(self.clone(), record.clone())) as _) })
    }

    fn try_lock<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Option<Box<dyn RecordLock>>> {
        Box::pin(async move { self.lock(record).await.map(Some) })
    }

    fn list(&self, _kind: RecordKind) -> Pending<'_, Vec<String>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

impl RecordLock for UnguardedLock {
    fn read(&self) -> Pending<'_, Option<Plaintext>> {
        Box::pin(async { Ok(self.0.get(&self.1)) })
    }

    fn write<'s>(&'s mut self, content: &'s [u8]) -> Pending<'s, ()> {
        self.0.0.lock().unwrap().insert(self.1.clone(), content.to_vec());
        Box::pin(async { Ok(()) })
    }

    fn remove(&mut self) -> Pending<'_, ()> {
        self.0.0.lock().unwrap().remove(&self.1);
        Box::pin(async { Ok(()) })
    }
}

// wire: OC-45, OT-6
#[tokio::test]
async fn tokens_that_another_process_got_meanwhile_are_used_after_invalid_grant() {
    let world = AuthWorld::start().await;
    let unguarded = Unguarded::default();
    let store: Arc<dyn RecordStore> = Arc::new(unguarded.clone());
    let authorizer = world.authorizer(&store, LoginMode::Wait);
    let first = within(authorizer.sign_in(None)).await.unwrap();
    // While ours is on its way, another process has renewed: ours is used up.
    let theirs = TokenRecord { access_token: Secret::new("theirs"), ..first.clone() };
    let account = Account { server: format!("{}/mcp", world.url), ..Account::default() };
    let id = account.record(RecordKind::Tokens);
    let content = serde_json::to_vec(&theirs).unwrap();
    *world.meanwhile.lock().unwrap() = Some(Box::new(move || {
        unguarded.0.lock().unwrap().insert(id.clone(), content.clone());
    }));
    *world.trouble.lock().unwrap() = Some((400, json!({"error": "invalid_grant"})));
    let renewed = within(authorizer.renew(&first)).await.unwrap().unwrap();
    assert_eq!(renewed.access_token.reveal(), "theirs");
    let kept = authorizer.tokens().await.unwrap().unwrap();
    assert_eq!(kept.refresh_token, first.refresh_token, "it is not ours to drop");
}

// wire: OX-5
#[tokio::test]
async fn a_proof_is_made_with_the_key_of_the_token_and_the_nonce_of_the_place() {
    let world = AuthWorld::start().await;
    world.is_bound.store(true, Ordering::SeqCst);
    let store = memory();
    let settings = OauthSettings { dpop: true, ..OauthSettings::default() };
    let account = Account { server: format!("{}/mcp", world.url), ..Account::default() };
    let options = SignInOptions::default();
    let authorizer =
        Authorizer::new(account, settings, Arc::clone(&store), fetch(), Arc::new(Yes), options);
    let credential = OauthCredential::new(authorizer.clone(), HeaderMap::new());
    within(authorizer.sign_in(None)).await.unwrap();
    let client = HeaderMap::new();
    let first = within(credential.headers(nobody(&client), None)).await.unwrap().unwrap().headers;
    assert_eq!(first["authorization"], "DPoP a1");
    let proof = |headers: &HeaderMap, url: &'static str| {
        let mut request = http::Request::new(bytes::Bytes::new());
        (*request.headers_mut(), *request.uri_mut()) = (headers.clone(), url.parse().unwrap());
        credential.sign(nobody(&client), &mut request);
        let proof = request.headers().get("dpop")?.to_str().unwrap().to_owned();
        let part = |at| {
            use base64::Engine as _;
            let part = proof.split('.').nth(at).unwrap();
            let part = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap();
            serde_json::from_slice::<Value>(&part).unwrap()
        };
        Some((part(0)["jwk"]["x"].clone(), part(1)["ath"].clone(), part(1)["nonce"].clone()))
    };
    let (key, hash, _) = proof(&first, "https://a/mcp").unwrap();
    // Somebody signs in again, with another key. The first connection has not noticed.
    within(authorizer.sign_in(None)).await.unwrap();
    let second = within(credential.headers(nobody(&client), None)).await.unwrap().unwrap().headers;
    assert_eq!(second["authorization"], "DPoP a2");
    let (other_key, other_hash, _) = proof(&second, "https://a/mcp").unwrap();
    assert!(key != other_key && hash != other_hash);
    let (again, hash_again, _) = proof(&first, "https://a/mcp").unwrap();
    assert_eq!((again, hash_again), (key, hash), "it goes with the token that is shown");

    let answer = HeaderMap::from_iter([(
        http::HeaderName::from_static("dpop-nonce"),
        http::HeaderValue::from_static("n1"),
    )]);
    let url = http::Uri::from_static("https://a/mcp");
    let wants_nonce =
        CredentialRefusal { url, answer, shown: Arc::new(second.clone()), ..refusal() };
    within(credential.headers(nobody(&client), Some(&wants_nonce))).await.unwrap();
    assert_eq!(proof(&second, "https://a/other").unwrap().2, "n1");
    assert_eq!(proof(&second, "https://b/mcp").unwrap().2, Value::Null);
    // A token that is bound to no key of ours goes without a proof.
    let bare = HeaderMap::from_iter([(
        http::header::AUTHORIZATION,
        http::HeaderValue::from_static("Bearer other"),
    )]);
    assert!(proof(&bare, "https://a/mcp").is_none());
}
