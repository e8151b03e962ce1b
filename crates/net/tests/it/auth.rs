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
use switchboard_net::client::Client;
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
mod renewal;
mod servers;

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
    /// Where people come back to.
    port: u16,
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
            port: switchboard_testkit::own_port(),
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
        let options = SignInOptions::default().mode(mode).callback_port(self.port);
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
