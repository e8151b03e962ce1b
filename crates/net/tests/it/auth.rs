//! Signing in, with a small authorization server in front of which everybody says yes.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::{Form, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use switchboard_net::auth::person::SignInPerson;
use switchboard_net::auth::store::{
    MemoryStore, Pending, Plaintext, RecordId, RecordKind, RecordLock, RecordStore,
};
use switchboard_net::auth::{Account, Authorizer, LoginMode, OauthCredential, SignInOptions};
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::client::{Client, ClientOptions};
use switchboard_net::http::fetch::{Fetch, FetchOptions, Reach};
use switchboard_net::upstream::{
    Credential, CredentialRefusal, CredentialUser, ServerTarget, Strategy,
};
use switchboard_proto::auth::{
    AuthError, GrantType, IdentityProvider, OauthSettings, Secret, TokenRecord,
};
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;
use switchboard_testkit::caller::LEGACY;
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::within;
use tokio::net::TcpListener;

use crate::upstream::{caller, enveloped};

mod attacks;

/// For a client with these headers.
fn nobody(headers: &HeaderMap) -> CredentialUser<'_> {
    CredentialUser { headers, principal: "" }
}

type Pairs = HashMap<String, String>;

const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const METADATA: &str = "/.well-known/oauth-authorization-server";

/// An authorization server and a resource, at one address.
struct AuthWorld {
    url: String,
    registrations: AtomicUsize,
    pages: AtomicUsize,
    tokens: AtomicUsize,
    refreshes: AtomicUsize,
    /// What the token endpoint says in place of tokens.
    trouble: Mutex<Option<(u16, Value)>>,
    /// The same for any path, whatever it is asked.
    troubles: Mutex<HashMap<&'static str, (u16, Value)>>,
    /// What happens before a token request is answered.
    meanwhile: Mutex<Option<Box<dyn Fn() + Send>>>,
    /// Tokens are bound to keys.
    is_bound: AtomicBool,
    /// Seconds that a token is good for.
    life: AtomicUsize,
    /// The person says no.
    denies: AtomicBool,
    /// What the protected server was asked for, and whether a token was shown.
    asked: Mutex<Vec<(String, bool)>>,
    /// What its clients said last that they can do.
    declared: Mutex<Value>,
}

#[expect(clippy::unused_async, reason = "handlers of axum are asynchronous")]
impl AuthWorld {
    async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let zero = || AtomicUsize::new(0);
        let world = Arc::new(Self {
            url,
            registrations: zero(),
            pages: zero(),
            tokens: zero(),
            refreshes: zero(),
            trouble: Mutex::default(),
            troubles: Mutex::default(),
            meanwhile: Mutex::default(),
            is_bound: AtomicBool::new(false),
            life: AtomicUsize::new(3600),
            denies: AtomicBool::new(false),
            asked: Mutex::default(),
            declared: Mutex::default(),
        });
        let app = Router::new()
            .route(RESOURCE, get(Self::resource))
            .route(METADATA, get(Self::metadata))
            .route("/register", post(Self::register))
            .route("/authorize", get(Self::authorize))
            .route("/token", post(Self::token))
            .route("/revoke", post(async || StatusCode::OK))
            .route("/mcp", post(Self::serve))
            .layer(from_fn_with_state(Arc::clone(&world), Self::interrupt))
            .with_state(Arc::clone(&world));
        tokio::spawn(async move { axum::serve(listener, app).await });
        world
    }

    async fn interrupt(State(it): State<Arc<Self>>, request: Request, next: Next) -> Response {
        let trouble = it.troubles.lock().unwrap().get(request.uri().path()).cloned();
        match trouble {
            Some((status, body)) => {
                let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
                (StatusCode::from_u16(status).unwrap(), body).into_response()
            }
            None => next.run(request).await,
        }
    }

    async fn resource(State(it): State<Arc<Self>>) -> Json<Value> {
        let resource = format!("{}/mcp", it.url);
        Json(json!({"resource": resource, "authorization_servers": [it.url]}))
    }

    async fn metadata(State(it): State<Arc<Self>>) -> Json<Value> {
        let at = |path: &str| format!("{}{path}", it.url);
        Json(json!({
            "issuer": it.url,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "registration_endpoint": at("/register"),
            "revocation_endpoint": at("/revoke"),
            "code_challenge_methods_supported": ["S256"],
            "dpop_signing_alg_values_supported": ["ES256"],
        }))
    }

    async fn register(State(it): State<Arc<Self>>, Json(about): Json<Value>) -> Response {
        it.registrations.fetch_add(1, Ordering::SeqCst);
        let id = json!({"client_id": "c", "redirect_uris": about["redirect_uris"]});
        (StatusCode::CREATED, Json(id)).into_response()
    }

    async fn authorize(State(it): State<Arc<Self>>, Query(asked): Query<Pairs>) -> Redirect {
        it.pages.fetch_add(1, Ordering::SeqCst);
        let (back, state) = (&asked["redirect_uri"], &asked["state"]);
        let answer =
            if it.denies.load(Ordering::SeqCst) { "error=access_denied" } else { "code=yes" };
        Redirect::to(&format!("{back}?{answer}&state={state}"))
    }

    async fn token(State(it): State<Arc<Self>>, Form(asked): Form<Pairs>) -> Response {
        if asked["grant_type"] == "refresh_token" {
            it.refreshes.fetch_add(1, Ordering::SeqCst);
        }
        if let Some(meanwhile) = &*it.meanwhile.lock().unwrap() {
            meanwhile();
        }
        if let Some((status, body)) = it.trouble.lock().unwrap().clone() {
            let status = StatusCode::from_u16(status).unwrap();
            return (status, Json(body)).into_response();
        }
        let number = it.tokens.fetch_add(1, Ordering::SeqCst) + 1;
        let life = it.life.load(Ordering::SeqCst);
        let kind = if it.is_bound.load(Ordering::SeqCst) { "DPoP" } else { "Bearer" };
        // It says {"exp":4102444800}, which is in the year 2100.
        let id_token = "x.eyJleHAiOjQxMDI0NDQ4MDB9.y";
        Json(json!({"access_token": format!("a{number}"), "refresh_token": format!("r{number}"),
                    "id_token": id_token,
                    "token_type": kind, "expires_in": life}))
        .into_response()
    }

    /// The protected server, which is modern. Without a token it does not say so.
    async fn serve(
        State(it): State<Arc<Self>>,
        headers: HeaderMap,
        Json(message): Json<Value>,
    ) -> Response {
        let is_shown = headers.contains_key("authorization");
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        it.asked.lock().unwrap().push((method, is_shown));
        let envelope = &message["params"]["_meta"];
        *it.declared.lock().unwrap() =
            envelope["io.modelcontextprotocol/clientCapabilities"].clone();
        if !is_shown {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        let name = json!({"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}});
        let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                            "capabilities": {}, "_meta": name, "ttlMs": 0, "cacheScope": "private"});
        Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
    }

    fn authorizer(&self, store: &Arc<dyn RecordStore>, mode: LoginMode) -> Authorizer {
        let account = Account { server: format!("{}/mcp", self.url), ..Account::default() };
        let options = SignInOptions { mode, ..SignInOptions::default() };
        let settings = OauthSettings::default();
        Authorizer::new(account, settings, Arc::clone(store), fetch(), Arc::new(Yes), options)
    }

    /// A client that is known by itself, with an account of its own.
    fn machine(&self, store: &Arc<dyn RecordStore>, id: &str) -> Authorizer {
        let settings = OauthSettings {
            grant: GrantType::ClientCredentials,
            client_id: Some(id.to_owned()),
            client_secret: Some(Secret::new("s")),
            ..OauthSettings::default()
        };
        let account = Account { server: format!("{}/mcp", self.url), ..Account::default() };
        let account = account.signing_in_by(&settings);
        let options = SignInOptions::default();
        Authorizer::new(account, settings, Arc::clone(store), fetch(), Arc::new(Yes), options)
    }

    fn counts(&self) -> [usize; 3] {
        [&self.registrations, &self.pages, &self.tokens].map(|it| it.load(Ordering::SeqCst))
    }
}

fn fetch() -> Fetch {
    Fetch::new(FetchOptions::default()).unwrap()
}

fn memory() -> Arc<dyn RecordStore> {
    Arc::new(MemoryStore::new())
}

/// Opens each page, and goes where it leads.
#[derive(Debug)]
struct Yes;

impl SignInPerson for Yes {
    fn show_page(&self, _server: &str, url: &str) {
        let url = url.to_owned();
        tokio::spawn(async move {
            let get = |url: &str| {
                let mut request = http::Request::new(bytes::Bytes::new());
                *request.uri_mut() = url.parse().unwrap();
                request
            };
            let page = fetch().send_once(get(&url)).await.unwrap();
            let back = page.headers()["location"].to_str().unwrap().to_owned();
            fetch().send_once(get(&back)).await.unwrap();
        });
    }

    fn show_device(&self, _server: &str, _url: &str, _complete: Option<&str>, _code: &str) {}

    fn show_waiting(&self, _server: &str, _url: Option<&str>) {}

    fn pasted<'p>(&'p self) -> Pin<Box<dyn Future<Output = String> + Send + 'p>> {
        Box::pin(std::future::pending())
    }
}

fn credential(world: &AuthWorld, store: &Arc<dyn RecordStore>) -> OauthCredential {
    OauthCredential::new(world.authorizer(store, LoginMode::Wait), HeaderMap::new())
}

/// A 401 to a request without a token.
fn refusal() -> CredentialRefusal {
    CredentialRefusal {
        url: http::Uri::from_static("http://127.0.0.1/mcp"),
        status: StatusCode::UNAUTHORIZED,
        answer: HeaderMap::new(),
        shown: Arc::default(),
        attempt: 0,
        is_new_login: false,
        is_background: false,
    }
}

// wire: OC-38, OC-44
#[tokio::test]
async fn many_who_need_the_same_account_sign_in_once() {
    let world = AuthWorld::start().await;
    let store = memory();
    // Each authorizer is another process, as far as the store can tell.
    let signing_in = (0..10).map(|_| {
        let credential =
            OauthCredential::new(world.authorizer(&store, LoginMode::Wait), HeaderMap::new());
        tokio::spawn(async move {
            let found =
                credential.headers(nobody(&HeaderMap::new()), Some(&refusal())).await.unwrap();
            found.unwrap().headers["authorization"].clone()
        })
    });
    for done in signing_in.collect::<Vec<_>>() {
        let shown = within(done).await.unwrap();
        assert_eq!(shown, "Bearer a1");
        assert!(shown.is_sensitive());
    }
    assert_eq!(world.counts(), [1, 1, 1]);
    // What is kept is shown without a refusal.
    let credential =
        OauthCredential::new(world.authorizer(&store, LoginMode::Never), HeaderMap::new());
    let found = within(credential.headers(nobody(&HeaderMap::new()), None)).await.unwrap().unwrap();
    assert_eq!(found.headers["authorization"], "Bearer a1");
    assert!(found.until.is_some());
}

// wire: OC-44, OC-46, OT-6, OA-8, OA-10, AUTH-19
#[tokio::test]
async fn tokens_are_renewed_once_for_all_and_kept_while_they_cannot_be() {
    let world = AuthWorld::start().await;
    let store = memory();
    let authorizer = world.authorizer(&store, LoginMode::Wait);
    let first = within(authorizer.sign_in(None)).await.unwrap();
    let renewing = (0..10).map(|_| {
        let (authorizer, first) = (world.authorizer(&store, LoginMode::Never), first.clone());
        tokio::spawn(async move { authorizer.renew(&first).await.unwrap().unwrap() })
    });
    for renewed in renewing.collect::<Vec<_>>() {
        assert_eq!(within(renewed).await.unwrap().access_token.reveal(), "a2");
    }
    assert_eq!(world.refreshes.load(Ordering::SeqCst), 1);

    // Trouble that may pass throws nothing away, and what is still good is used.
    let second = authorizer.tokens().await.unwrap().unwrap();
    for trouble in [
        (500, json!({})),
        (429, json!({})),
        (200, json!("html")),
        (503, json!({"error": "invalid_grant"})),
    ] {
        *world.trouble.lock().unwrap() = Some(trouble);
        let authorizer = world.authorizer(&store, LoginMode::Wait);
        let before = world.refreshes.load(Ordering::SeqCst);
        for _ in 0..3 {
            let kept = within(authorizer.renew(&second)).await.unwrap().unwrap();
            assert_eq!(kept, second);
        }
        // One try, and then a pause.
        assert_eq!(world.refreshes.load(Ordering::SeqCst), before + 1);
        assert_eq!(authorizer.tokens().await.unwrap().unwrap(), second);
    }
    // A refresh token that is over goes, and nothing else does.
    *world.trouble.lock().unwrap() = Some((400, json!({"error": "invalid_grant"})));
    assert_eq!(within(authorizer.renew(&second)).await.unwrap().unwrap(), second);
    let left = authorizer.tokens().await.unwrap().unwrap();
    assert_eq!((left.refresh_token, left.access_token.reveal()), (None, "a2"));
    *world.trouble.lock().unwrap() = None;
    // There is nothing to renew it with: somebody has to sign in when it is over.
    world.life.store(0, Ordering::SeqCst);
    within(authorizer.sign_in(None)).await.unwrap();
    *world.trouble.lock().unwrap() = Some((400, json!({"error": "invalid_grant"})));
    assert_eq!(within(authorizer.current()).await.unwrap(), None);
}

// wire: OC-1, OC-38, OC-47
#[tokio::test]
async fn a_person_who_says_no_is_not_asked_again_and_nobody_for_what_nobody_waits_for() {
    let world = AuthWorld::start().await;
    let (store, client) = (memory(), HeaderMap::new());
    let background = CredentialRefusal { is_background: true, ..refusal() };
    let found =
        within(credential(&world, &store).headers(nobody(&client), Some(&background))).await;
    assert!(found.unwrap().is_none());
    assert_eq!(world.counts(), [0, 0, 0]);

    world.denies.store(true, Ordering::SeqCst);
    // Another process asks no more than this one does.
    for credential in [credential(&world, &store), credential(&world, &store)] {
        for _ in 0..3 {
            let error =
                within(credential.headers(nobody(&client), Some(&refusal()))).await.unwrap_err();
            assert!(error.to_string().contains("access_denied"), "{error}");
        }
    }
    assert_eq!(world.counts(), [1, 1, 0]);
    // Who asks for it by hand is asked.
    world.denies.store(false, Ordering::SeqCst);
    within(world.authorizer(&store, LoginMode::Wait).sign_in(None)).await.unwrap();
    assert_eq!(world.counts(), [1, 2, 1]);

    // A server that refuses what somebody signed in for just now refuses for good.
    let shown = HeaderMap::from_iter([(
        http::header::AUTHORIZATION,
        http::HeaderValue::from_static("Bearer a1"),
    )]);
    let again =
        CredentialRefusal { shown: Arc::new(shown), attempt: 1, is_new_login: true, ..refusal() };
    let found = within(credential(&world, &store).headers(nobody(&client), Some(&again))).await;
    assert!(found.unwrap().is_none());
    assert_eq!(world.counts(), [1, 2, 1]);
}

// wire: OC-49
#[tokio::test]
async fn where_nobody_may_be_asked_it_says_what_to_do_and_signing_out_forgets() {
    let world = AuthWorld::start().await;
    let store = memory();
    let never = world.authorizer(&store, LoginMode::Never);
    let error = within(never.sign_in(None)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("run `switchboard login {}/mcp`", world.url));
    assert!(matches!(error, AuthError::NoPerson(_)));
    assert_eq!(world.counts(), [0, 0, 0]);

    let authorizer = world.authorizer(&store, LoginMode::Wait);
    within(authorizer.sign_in(None)).await.unwrap();
    assert!(within(authorizer.sign_out()).await.unwrap());
    assert_eq!(authorizer.tokens().await.unwrap(), None);
    assert!(!within(authorizer.sign_out()).await.unwrap());
    // Whoever cannot be told, it is forgotten here.
    within(authorizer.sign_in(None)).await.unwrap();
    world.troubles.lock().unwrap().insert("/revoke", (503, json!({})));
    let error = within(authorizer.sign_out()).await.unwrap_err().to_string();
    assert!(error.starts_with("forgotten here; the authorization server could not"), "{error}");
    assert_eq!(authorizer.tokens().await.unwrap(), None);
}

// wire: OC-45
#[tokio::test]
async fn a_renewal_that_fails_for_a_while_is_the_error_and_opens_no_page() {
    let world = AuthWorld::start().await;
    let (store, client) = (memory(), HeaderMap::new());
    world.life.store(0, Ordering::SeqCst);
    within(world.authorizer(&store, LoginMode::Wait).sign_in(None)).await.unwrap();
    *world.trouble.lock().unwrap() = Some((503, json!({})));
    let credential = credential(&world, &store);
    let bare = within(credential.headers(nobody(&client), None)).await.unwrap().unwrap();
    assert!(bare.headers.is_empty());
    let error = within(credential.headers(nobody(&client), Some(&refusal()))).await.unwrap_err();
    assert!(error.to_string().contains("503"), "{error}");
    assert_eq!(world.counts(), [1, 1, 1], "nobody is asked");

    // Who was lacking is not any more once somebody has signed in elsewhere.
    let never = world.authorizer(&store, LoginMode::Never);
    within(never.sign_in(None)).await.unwrap_err();
    assert!(never.lacks_person());
    *world.trouble.lock().unwrap() = None;
    let credential = OauthCredential::new(never.clone(), HeaderMap::new());
    let found = within(credential.headers(nobody(&client), None)).await.unwrap().unwrap();
    assert_eq!(found.headers["authorization"], "Bearer a2");
    assert!(!never.lacks_person());
}

// wire: OT-6, OC-43
#[tokio::test]
async fn a_person_and_each_client_have_tokens_of_their_own_at_one_server() {
    let world = AuthWorld::start().await;
    let store = memory();
    let person = world.authorizer(&store, LoginMode::Wait);
    within(person.sign_in(None)).await.unwrap();
    let client = |id: &str| world.machine(&store, id);
    for (id, token) in [("one", "a2"), ("two", "a3")] {
        assert_eq!(within(client(id).current()).await.unwrap(), None);
        within(client(id).sign_in(None)).await.unwrap();
        let kept = within(client(id).current()).await.unwrap().unwrap();
        assert_eq!(kept.access_token.reveal(), token);
    }
    let kept = within(person.current()).await.unwrap().unwrap();
    assert_eq!(kept.access_token.reveal(), "a1");
    let mut names = store.list(RecordKind::Tokens).await.unwrap();
    names.sort_unstable();
    let accounts: Vec<_> = names.iter().filter_map(|name| Account::from_name(name)).collect();
    let grants: Vec<_> = accounts.iter().map(|account| account.grant.as_deref()).collect();
    assert_eq!(grants, [None, Some("client-credentials one"), Some("client-credentials two")]);
    assert_eq!(accounts[2].record(RecordKind::Tokens).name, names[2]);
}

// wire: OC-48
#[tokio::test]
async fn who_wants_to_sign_in_is_asked_again_and_trouble_that_passes_is_forgotten() {
    let world = AuthWorld::start().await;
    let (store, client) = (memory(), HeaderMap::new());
    let credential = credential(&world, &store);
    let refusal = refusal();
    let ask = || within(credential.headers(nobody(&client), Some(&refusal)));
    *world.trouble.lock().unwrap() = Some((503, json!({})));
    ask().await.unwrap_err();
    *world.trouble.lock().unwrap() = None;
    world.denies.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        let error = ask().await.unwrap_err();
        assert!(error.to_string().contains("access_denied"), "{error}");
    }
    assert_eq!(world.counts(), [1, 2, 0], "after the trouble they are asked, and say no once");
    credential.ask_anew();
    ask().await.unwrap_err();
    assert_eq!(world.counts(), [1, 3, 0], "they want to, and say no again");
    world.denies.store(false, Ordering::SeqCst);
    credential.ask_anew();
    assert!(ask().await.unwrap().is_some());
    assert_eq!(world.counts(), [1, 4, 1]);
}

// wire: OT-7
#[tokio::test]
async fn nobody_waits_for_a_sign_in_whose_code_is_spent() {
    let world = AuthWorld::start().await;
    let store = memory();
    let account = Account { server: format!("{}/mcp", world.url), ..Account::default() };
    let pending = account.record(RecordKind::Pending);
    // What another process would find if this one were killed now.
    let found = Arc::new(Mutex::new(Vec::new()));
    let (seen, kept) = (Arc::clone(&found), Arc::clone(&store));
    *world.meanwhile.lock().unwrap() = Some(Box::new(move || {
        let left = kept.read(&pending).now_or_never().unwrap().unwrap();
        seen.lock().unwrap().push(left.is_some());
    }));
    within(world.authorizer(&store, LoginMode::Wait).sign_in(None)).await.unwrap();
    assert_eq!(*found.lock().unwrap(), [false]);
}

// wire: OX-2
#[tokio::test]
async fn one_sign_in_at_the_identity_provider_is_for_all_servers() {
    let world = AuthWorld::start().await;
    let store = memory();
    let at = |path: &str, mode| {
        let (issuer, client_id) = (world.url.clone(), "desk".to_owned());
        let provider = IdentityProvider::SignIn { issuer, client_id, client_secret: None };
        let grant = GrantType::Enterprise(provider);
        let client_id = Some("at-as".to_owned());
        let settings = OauthSettings { grant, client_id, ..OauthSettings::default() };
        let account = Account { server: format!("{}{path}", world.url), ..Account::default() };
        let options = SignInOptions { mode, ..SignInOptions::default() };
        Authorizer::new(account, settings, Arc::clone(&store), fetch(), Arc::new(Yes), options)
    };
    let never = at("/mcp", LoginMode::Never);
    let error = within(never.sign_in(None)).await.unwrap_err().to_string();
    assert_eq!(error, format!("run `switchboard login {}/mcp`", world.url));
    assert!(never.lacks_person());

    // A code, an exchange, and an assertion; then only the latter two.
    let first = within(at("/mcp", LoginMode::Wait).sign_in(None)).await.unwrap();
    assert_eq!(first.access_token.reveal(), "a3");
    let second = within(at("/other", LoginMode::Wait).sign_in(None)).await.unwrap();
    assert_eq!(second.access_token.reveal(), "a5");
    assert_eq!(world.counts(), [0, 1, 5], "one page, and nobody registers");
    // Where nobody may be asked, nobody has to be.
    let third = within(at("/third", LoginMode::Never).sign_in(None)).await.unwrap();
    assert_eq!((third.access_token.reveal(), world.counts()[1]), ("a7", 1));
    // Who asks for it by hand signs in at the provider, too.
    within(at("/mcp", LoginMode::Wait).sign_in_by_hand(None)).await.unwrap();
    assert_eq!(world.counts()[1], 2);

    // What it gave is refused: if that is old somebody signs in there once more, else not.
    *world.trouble.lock().unwrap() = Some((400, json!({"error": "invalid_grant"})));
    within(at("/mcp", LoginMode::Wait).sign_in(None)).await.unwrap_err();
    assert_eq!(world.counts()[1], 2);
    let account = Account { server: world.url.clone(), ..Account::default() };
    let known = account.tokens(&*store).await.unwrap().unwrap();
    let old = TokenRecord { issued_at: 0, ..known };
    let mut lock = store.lock(&account.record(RecordKind::Tokens)).await.unwrap();
    lock.write(&Plaintext::new(serde_json::to_vec(&old).unwrap())).await.unwrap();
    drop(lock);
    let error = within(at("/mcp", LoginMode::Never).sign_in(None)).await.unwrap_err();
    assert!(matches!(error, AuthError::NoPerson(_)), "{error}");
    within(at("/mcp", LoginMode::Wait).sign_in(None)).await.unwrap_err();
    assert_eq!(world.counts()[1], 3);
}

// wire: OB-3, OA-6, AUTH-4
#[tokio::test]
async fn addresses_inside_are_not_connected_to_by_any_name() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let careful = fetch().within(Reach::public()).unwrap();
    for host in [
        "127.0.0.1",
        "localhost",
        "127.1",
        "0x7f000001",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "[::1]",
    ] {
        let mut request = http::Request::new(bytes::Bytes::new());
        *request.uri_mut() = format!("http://{host}:{port}/").parse().unwrap();
        assert!(within(careful.send_once(request)).await.is_err(), "{host}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}

// wire: OC-1, OC-13, OC-42, OC-48, AUTH-1, AUTH-20
#[tokio::test]
async fn a_refused_question_of_the_era_is_asked_again_after_the_sign_in() {
    let world = AuthWorld::start().await;
    let url = format!("{}/mcp", world.url).parse().unwrap();
    let server = ServerTarget::url(url, Strategy::HttpOnly, HeaderMap::new(), fetch());
    let server = server.showing(Arc::new(credential(&world, &memory())));
    let client = within(Client::connect(server, ClientOptions::default())).await.unwrap();
    assert_eq!(client.era(), Era::Modern);
    assert_eq!(world.counts(), [1, 1, 1]);
    let asked = world.asked.lock().unwrap().clone();
    let discover = |is_shown| ("server/discover".to_owned(), is_shown);
    assert_eq!(asked, [discover(false), discover(true)], "nobody takes it for a legacy server");
}

// wire: OX-7
#[tokio::test]
async fn a_server_is_told_of_the_extension_that_its_tokens_are_got_by() {
    const MACHINES: &str = "io.modelcontextprotocol/oauth-client-credentials";
    let world = AuthWorld::start().await;
    let to = |url, credential: OauthCredential| {
        let server = ServerTarget::url(url, Strategy::HttpOnly, HeaderMap::new(), fetch());
        server.showing(Arc::new(credential))
    };
    let machine = || OauthCredential::new(world.machine(&memory(), "m"), HeaderMap::new());
    let url = || format!("{}/mcp", world.url).parse::<http::Uri>().unwrap();
    // The library.
    within(Client::connect(to(url(), machine()), ClientOptions::default())).await.unwrap();
    assert_eq!(world.declared.lock().unwrap()["extensions"], json!({MACHINES: {}}));
    let person = credential(&world, &memory());
    within(Client::connect(to(url(), person), ClientOptions::default())).await.unwrap();
    assert_eq!(world.declared.lock().unwrap().get("extensions"), None);
    // A bridge keeps what its client declares, in each request of the modern era.
    let bridge = |server| Bridge::new(server, Children::PerSession, Arc::new(Limits::default()));
    let modern = bridge(to(url(), machine()).speaking(Era::Modern));
    let mut client = caller(&modern);
    let mut params = enveloped(json!({}));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"roots": {}, "extensions": {"a/b": {"c": 1}}});
    within(client.call("tools/list", params)).await;
    let both = json!({"roots": {}, "extensions": {MACHINES: {}, "a/b": {"c": 1}}});
    assert_eq!(*world.declared.lock().unwrap(), both);
    // In the greeting of the legacy era.
    let mut old = HttpServer::start().await;
    let legacy = bridge(to(old.url("/mcp"), machine()).speaking(Era::Legacy));
    let mut client = caller(&legacy);
    client
        .ask("initialize", json!({"protocolVersion": LEGACY, "capabilities": {"roots": {}}}))
        .await;
    let greeting = old.post("initialize").await.message();
    let declared = json!({"roots": {}, "extensions": {MACHINES: {}}});
    assert_eq!(greeting["params"]["capabilities"], declared);
}
