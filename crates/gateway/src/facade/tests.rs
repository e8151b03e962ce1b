//! The facade with an identity provider on real sockets: clients, people, codes and tokens, and
//! those who want what is not theirs.

use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use switchboard_net::auth::store::MemoryStore;
use switchboard_net::http::fetch::FetchOptions;
use switchboard_proto::auth::{form, query_pairs};
use switchboard_testkit::issuer::Issuer;

use super::*;
use crate::issuer::{TokenCheck, TokenDenial, system_clock};
use crate::policy::{Access, Grant};
use crate::token::{IssuerRule, ScopeRule};

mod bounds;
mod renewals;

const BASE: &str = "https://gw.example";
const REDIRECT: &str = "https://app.example/cb";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// A facade, the provider behind it, and its clock.
struct Bed {
    issuer: Issuer,
    store: MemoryStore,
    clock: Arc<AtomicU64>,
    facade: Arc<Facade>,
}

fn access(issuer: &Issuer, rule: FacadeRule) -> Access {
    let corp = IssuerRule {
        name: "corp".to_owned(),
        issuer: issuer.url.clone(),
        claims: [("groups".to_owned(), [("dev".to_owned(), Grant::default())].into())].into(),
        ..IssuerRule::default()
    };
    let tokens = TokenAccess {
        issuers: vec![corp],
        scopes: [("mcp:read".to_owned(), ScopeRule::default())].into(),
        public_url: Some(BASE.to_owned()),
        facade: Some(rule),
        ..TokenAccess::default()
    };
    Access { tokens: Some(Arc::new(tokens)), ..Access::default() }
}

fn rule() -> FacadeRule {
    let client_secret = Some("s3cret".to_owned());
    let (issuer, client_id) = ("corp".to_owned(), "gw".to_owned());
    FacadeRule { issuer, client_id, client_secret, ..FacadeRule::default() }
}

impl Bed {
    async fn start() -> Self {
        Self::with(rule()).await
    }

    async fn with(rule: FacadeRule) -> Self {
        let issuer = Issuer::start().await;
        let clock = Arc::new(AtomicU64::new(system_clock()()));
        let store = MemoryStore::new();
        let facade = open(&issuer, rule, Arc::new(store.clone()), &clock).await;
        Self { issuer, store, clock, facade }
    }

    /// The same state with another process.
    async fn restart(&mut self) {
        self.restart_with(rule()).await;
    }

    /// The same with another configuration.
    async fn restart_with(&mut self, rule: FacadeRule) {
        let store = Arc::new(self.store.clone());
        self.facade = open(&self.issuer, rule, store, &self.clock).await;
    }

    fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    fn wait(&self, seconds: u64) {
        self.clock.fetch_add(seconds, Ordering::SeqCst);
    }

    async fn visit(&self, method: Method, target: &str, cookie: &str, body: &str) -> Reply {
        self.visit_from("same-origin", method, target, cookie, body).await
    }

    /// The same from a page of `site`, as browsers say it.
    async fn visit_from(
        &self,
        site: &'static str,
        method: Method,
        target: &str,
        cookie: &str,
        body: &str,
    ) -> Reply {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = HeaderMap::new();
        headers.insert("sec-fetch-site", HeaderValue::from_static(site));
        if !cookie.is_empty() {
            headers.insert("cookie", cookie.parse().unwrap());
        }
        let (path, query) = (path.to_owned(), query.to_owned());
        let body = Bytes::from(body.to_owned());
        let address = Some([127, 0, 0, 1].into());
        let response =
            self.facade.answer(PageVisit { method, path, query, headers, address, body }).await;
        let (parts, body) = response.into_parts();
        Reply { parts, text: String::from_utf8(body.into()).unwrap() }
    }

    async fn get(&self, target: &str, cookie: &str) -> Reply {
        self.visit(Method::GET, target, cookie, "").await
    }

    async fn post(&self, path: &str, pairs: &[(&str, &str)]) -> Reply {
        self.visit(Method::POST, path, "", &form(pairs.iter().copied())).await
    }

    async fn register(&self, about: Value) -> Reply {
        self.visit(Method::POST, "/oauth/register", "", &about.to_string()).await
    }

    async fn client(&self) -> String {
        let about = json!({"client_name": "<App>", "redirect_uris": [REDIRECT]});
        let made = self.register(about).await;
        assert_eq!(made.status(), 201, "{}", made.text);
        made.json()["client_id"].as_str().unwrap().to_owned()
    }

    /// A person allows a client, and is sent to the provider: their cookie, and its page.
    async fn allow(&self, client: &str, more: &[(&str, &str)]) -> (String, String) {
        let page = self.get(&asking(client, more), "").await;
        assert_eq!(page.status(), 200, "{}", page.text);
        let cookie = page.cookie();
        let sent = self.answer_form(&page, &cookie, "allow").await;
        (cookie, sent.leads_to())
    }

    async fn answer_form(&self, page: &Reply, cookie: &str, decision: &str) -> Reply {
        let (request, proof) = (page.hidden("request"), page.hidden("proof"));
        let pairs = [("request", &*request), ("proof", &*proof), ("decision", decision)];
        self.visit(Method::POST, "/oauth/consent", cookie, &form(pairs)).await
    }

    /// Has the provider say who comes back to us, and lets them.
    async fn come_back(&self, cookie: &str, page: &str) -> Reply {
        let (state, nonce) = (parameter(page, "state"), parameter(page, "nonce"));
        let claims = json!({"nonce": nonce, "groups": ["dev", "other"]});
        let id_token = self.issuer.id_token("ada", "gw", &claims);
        let tokens = json!({
            "access_token": "a", "token_type": "Bearer", "id_token": id_token, "refresh_token": "idp1",
        });
        self.issuer.give("c1", tokens);
        self.get(&format!("/oauth/signed-in?code=c1&state={state}"), cookie).await
    }

    /// A code of a client that a person has allowed.
    async fn code(&self, client: &str) -> String {
        let (cookie, page) = self.allow(client, &[]).await;
        let back = self.come_back(&cookie, &page).await;
        let url = back.header("location").to_owned();
        assert!(url.starts_with(REDIRECT), "{} {}", back.status(), back.text);
        assert_eq!(parameter(&url, "iss"), BASE);
        assert_eq!(parameter(&url, "state"), "s t");
        parameter(&url, "code")
    }

    async fn redeem(&self, client: &str, code: &str, verifier: &str) -> Reply {
        let pairs = [
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", code),
            ("code_verifier", verifier),
            ("redirect_uri", REDIRECT),
        ];
        self.post("/oauth/token", &pairs).await
    }

    async fn refresh(&self, client: &str, token: &str) -> Reply {
        let pairs =
            [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)];
        self.post("/oauth/token", &pairs).await
    }

    fn check(&self, token: &str) -> Result<crate::token::TokenFacts, TokenDenial> {
        match self.facade.authenticator.issuers().check(token, crate::issuer::hash_token(token)) {
            TokenCheck::Now(checked) => checked.map(|known| known.facts.clone()),
            TokenCheck::Later(_) => panic!("our own keys are known"),
        }
    }
}

async fn open(
    issuer: &Issuer,
    rule: FacadeRule,
    store: Arc<dyn RecordStore>,
    clock: &Arc<AtomicU64>,
) -> Arc<Facade> {
    let told = Arc::clone(clock);
    let clock: crate::issuer::Clock = Arc::new(move || told.load(Ordering::SeqCst));
    let authenticator = Authenticator::with(access(issuer, rule), 10, None, clock);
    let fetch = Fetch::new(FetchOptions::default()).unwrap();
    Facade::start(&authenticator, store, fetch).await.unwrap()
}

struct Reply {
    parts: http::response::Parts,
    text: String,
}

impl Reply {
    fn status(&self) -> u16 {
        self.parts.status.as_u16()
    }

    fn header(&self, name: &str) -> &str {
        self.parts.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    fn error(&self) -> (u16, String) {
        (self.status(), self.json()["error"].as_str().unwrap_or_default().to_owned())
    }

    fn cookie(&self) -> String {
        self.header("set-cookie").split(';').next().unwrap_or_default().to_owned()
    }

    fn hidden(&self, name: &str) -> String {
        let from = self.text.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap();
        from.split('"').next().unwrap().replace("&amp;", "&")
    }

    /// Where a page sends people that answers a form.
    fn leads_to(&self) -> String {
        let link = self.text.split("<a href=\"").nth(1).unwrap_or_else(|| panic!("{}", self.text));
        link.split('"').next().unwrap().replace("&amp;", "&")
    }
}

fn parameter(url: &str, name: &str) -> String {
    let pairs = query_pairs(url.split_once('?').unwrap_or_default().1);
    pairs.into_iter().find(|(found, _)| found == name).map(|(_, value)| value).unwrap_or_default()
}

fn asking(client: &str, more: &[(&str, &str)]) -> String {
    let usual = [
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("state", "s t"),
        ("resource", "https://gw.example/mcp"),
        ("scope", "mcp:read unknown"),
    ];
    let is_changed = |name: &str| more.iter().any(|(other, _)| *other == name);
    let usual = usual.into_iter().filter(|(name, _)| !is_changed(name));
    let said = more.iter().copied().filter(|(_, value)| !value.is_empty());
    format!("/oauth/authorize?{}", form(usual.chain(said)))
}

// wire: OS-1
#[tokio::test]
async fn the_facade_says_what_it_is() {
    let bed = Bed::start().await;
    for path in ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"] {
        let found = bed.get(path, "").await;
        let metadata = found.json();
        assert_eq!(metadata["issuer"], BASE);
        assert_eq!(metadata["registration_endpoint"], "https://gw.example/oauth/register");
        assert_eq!(metadata["code_challenge_methods_supported"], json!(["S256"]));
        assert_eq!(metadata["authorization_response_iss_parameter_supported"], true);
        assert_eq!(metadata["client_id_metadata_document_supported"], true);
        assert_eq!(found.header("access-control-allow-origin"), "*");
        assert_eq!(bed.get(&format!("{path}/other"), "").await.status(), 404);
    }
    let keys = bed.get("/oauth/jwks.json", "").await.json();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
    assert!(keys["keys"][0].get("d").is_none());
    let closed = Bed::with(FacadeRule { registration: false, ..rule() }).await;
    let metadata = closed.get("/.well-known/oauth-authorization-server", "").await.json();
    assert!(metadata.get("registration_endpoint").is_none());
    assert_eq!(closed.register(json!({"redirect_uris": [REDIRECT]})).await.status(), 403);
}

// wire: OS-2, OS-4, OS-6, OS-7, OS-8, OS-11
#[tokio::test]
async fn a_person_allows_a_client_which_gets_a_token_of_ours() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let code = bed.code(&client).await;
    let given = bed.redeem(&client, &code, VERIFIER).await;
    assert_eq!(
        (given.status(), given.header("cache-control")),
        (200, "no-store"),
        "{}",
        given.text
    );
    let tokens = given.json();
    assert_eq!((&tokens["token_type"], &tokens["expires_in"]), (&json!("Bearer"), &json!(600)));
    assert_eq!(tokens["scope"], "mcp:read");
    let facts = bed.check(tokens["access_token"].as_str().unwrap()).unwrap();
    assert_eq!((&*facts.issuer, &*facts.subject), ("corp", "ada"));
    assert_eq!(facts.audiences, ["https://gw.example/mcp"]);
    assert_eq!(facts.claims, [("groups".to_owned(), "dev".to_owned())]);
    let again = bed.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(again.status(), 200, "{}", again.text);
    assert_ne!(again.json()["refresh_token"], tokens["refresh_token"]);
    assert!(bed.check(again.json()["access_token"].as_str().unwrap()).is_ok());
    // Nothing of the provider's leaves us.
    assert!(!given.text.contains("idp1") && !again.text.contains("idp1"));
}

// wire: OS-4, OA-18
#[tokio::test]
async fn the_page_tells_who_asks_and_no_name_becomes_markup() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let page = bed.get(&asking(&client, &[]), "").await;
    for text in [
        "&lt;App&gt;",
        "app.example",
        "chose its name itself",
        "mcp:read",
        "https://gw.example/mcp",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    assert!(!page.text.contains("<App>") && !page.text.contains("<script"));
    assert!(page.header("content-security-policy").contains("frame-ancestors 'none'"));
    assert!(page.header("set-cookie").starts_with("__Host-switchboard="));
    for part in ["Secure", "HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(page.header("set-cookie").contains(part), "{part}");
    }
    let about = json!({"client_name": "Desk", "redirect_uris": ["http://127.0.0.1:1/cb"]});
    let desk = bed.register(about).await.json()["client_id"].as_str().unwrap().to_owned();
    let page = bed.get(&asking(&desk, &[("redirect_uri", "http://127.0.0.1:9/cb")]), "").await;
    assert!(page.text.contains("Any program there can claim this"), "{}", page.text);
}

// wire: OS-4, OS-5, OA-18, AUTH-34
#[tokio::test]
async fn nobody_is_sent_on_without_saying_yes_in_this_browser() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let page = bed.get(&asking(&client, &[]), "").await;
    let cookie = page.cookie();
    // Posted from elsewhere: no cookie, another one, another request, another proof.
    let other = bed.get(&asking(&client, &[]), "").await;
    let changed = bed.get(&asking(&client, &[("scope", "")]), &cookie).await;
    let (request, proof) = (page.hidden("request"), page.hidden("proof"));
    let bare = bed.answer_form(&page, "", "allow").await;
    let foreign = bed.answer_form(&page, &other.cookie(), "allow").await;
    let mixed =
        [("request", &*changed.hidden("request")), ("proof", &proof), ("decision", "allow")];
    let mixed = bed.visit(Method::POST, "/oauth/consent", &cookie, &form(mixed)).await;
    let none = [("request", &*request), ("decision", "allow")];
    let none = bed.visit(Method::POST, "/oauth/consent", &cookie, &form(none)).await;
    let whole = form([("request", &*request), ("proof", &proof), ("decision", "allow")]);
    let framed =
        bed.visit_from("cross-site", Method::POST, "/oauth/consent", &cookie, &whole).await;
    for refused in [&bare, &foreign, &mixed, &none, &framed] {
        assert_eq!(refused.status(), 400, "{}", refused.text);
        assert!(!refused.text.contains("/authorize?"), "{}", refused.text);
    }
    // Back in another browser, or with another state, and then a second time.
    let (cookie, page) = bed.allow(&client, &[]).await;
    for (cookie, page) in [("", &*page), (&*other.cookie(), &page), (&cookie, "?state=x&nonce=y")] {
        let back = bed.come_back(cookie, page).await;
        assert_eq!((back.status(), back.header("location")), (400, ""));
    }
    assert_eq!(bed.come_back(&cookie, &page).await.status(), 303);
    assert_eq!(bed.come_back(&cookie, &page).await.status(), 400, "it is used once");
    let (cookie, page) = bed.allow(&client, &[]).await;
    bed.wait(601);
    assert_eq!(bed.come_back(&cookie, &page).await.status(), 400, "it is over");
}

// wire: OS-11
#[tokio::test]
async fn a_person_who_says_no_is_heard_by_the_client() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let page = bed.get(&asking(&client, &[]), "").await;
    let url = bed.answer_form(&page, &page.cookie(), "deny").await.leads_to();
    assert!(url.starts_with(REDIRECT));
    for (name, value) in [("error", "access_denied"), ("state", "s t"), ("iss", BASE)] {
        assert_eq!(parameter(&url, name), value);
    }
    let (cookie, page) = bed.allow(&client, &[]).await;
    let state = parameter(&page, "state");
    let back =
        bed.get(&format!("/oauth/signed-in?error=access_denied&state={state}"), &cookie).await;
    assert_eq!(parameter(back.header("location"), "error"), "access_denied");
}

// wire: OS-2, OS-3, OS-7, OS-11, OA-19
#[tokio::test]
async fn a_bad_client_or_redirect_gets_a_page_and_other_faults_are_told() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    for more in [
        [("client_id", "sbc_0")],
        [("client_id", "")],
        [("redirect_uri", "https://app.example/cb2")],
        [("redirect_uri", "https://app.example@evil.example/cb")],
        [("redirect_uri", "https://evil.example/")],
        [("redirect_uri", "")],
    ] {
        let page = bed.get(&asking(&client, &more), "").await;
        assert_eq!((page.status(), page.header("location")), (400, ""), "{more:?}");
        assert!(!page.text.contains("evil"), "nothing is repeated");
    }
    for (more, error) in [
        ([("response_type", "token")], "unsupported_response_type"),
        ([("code_challenge", "")], "invalid_request"),
        ([("code_challenge_method", "plain")], "invalid_request"),
        ([("code_challenge_method", "")], "invalid_request"),
        ([("resource", "https://other.example/mcp")], "invalid_target"),
        ([("resource", "https://gw.example.evil/mcp")], "invalid_target"),
        ([("request", "x")], "request_not_supported"),
    ] {
        let told = bed.get(&asking(&client, &more), "").await;
        // Anybody may have registered it: the person decides whether they go there.
        assert_eq!((told.status(), told.header("location")), (400, ""), "{more:?}");
        assert!(!told.text.contains("http-equiv"), "{}", told.text);
        let url = told.leads_to();
        assert!(url.starts_with(REDIRECT), "{more:?} {}", told.text);
        assert_eq!(parameter(&url, "error"), error, "{more:?}");
        assert_eq!((parameter(&url, "iss"), parameter(&url, "state")), (BASE.into(), "s t".into()));
    }
    // The host of one with a document is proven, and it is told at once.
    let id = "https://app.example/c";
    let about = json!({"client_id": id, "redirect_uris": [REDIRECT]});
    let proven = client::read_document(id, about.as_object().unwrap(), bed.now(), &rule()).unwrap();
    bed.facade.state.keep_document(&proven, bed.now() + 60, bed.now());
    let twice = format!("{}&scope=a", asking(id, &[]));
    assert_eq!(parameter(bed.get(&twice, "").await.header("location"), "error"), "invalid_request");
}

// wire: OS-2, OA-20
#[tokio::test]
async fn a_code_that_is_used_twice_or_by_others_ends_what_it_gave() {
    let bed = Bed::start().await;
    let (client, other) = (bed.client().await, bed.client().await);
    let code = bed.code(&client).await;
    let tokens = bed.redeem(&client, &code, VERIFIER).await.json();
    let token = tokens["access_token"].as_str().unwrap();
    assert!(bed.check(token).is_ok());
    let twice = bed.redeem(&client, &code, VERIFIER).await;
    assert_eq!(twice.error(), (400, "invalid_grant".to_owned()));
    assert!(bed.check(token).is_err(), "its access token is over, too");
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(bed.refresh(&client, refresh).await.error().1, "invalid_grant");
    for (client_id, verifier) in [(&other, VERIFIER), (&client, "wrong")] {
        let code = bed.code(&client).await;
        assert_eq!(bed.redeem(client_id, &code, verifier).await.error().1, "invalid_grant");
        assert_eq!(bed.redeem(&client, &code, VERIFIER).await.error().1, "invalid_grant");
    }
    let code = bed.code(&client).await;
    bed.wait(61);
    assert_eq!(bed.redeem(&client, &code, VERIFIER).await.error().1, "invalid_grant");
    assert_eq!(bed.redeem("sbc_0", &code, VERIFIER).await.error(), (401, "invalid_client".into()));
}

// wire: OS-8, OA-20
#[tokio::test]
async fn a_refresh_token_may_be_repeated_at_once_and_never_later() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let code = bed.code(&client).await;
    let first = bed.redeem(&client, &code, VERIFIER).await.json();
    let old = first["refresh_token"].as_str().unwrap();
    let second = bed.refresh(&client, old).await;
    bed.wait(30);
    assert_eq!(bed.refresh(&client, old).await.text, second.text, "the same answer again");
    bed.wait(1);
    assert_eq!(bed.refresh(&client, old).await.error().1, "invalid_grant");
    let newest = second.json()["refresh_token"].as_str().unwrap().to_owned();
    assert_eq!(
        bed.refresh(&client, &newest).await.error().1,
        "invalid_grant",
        "the family is over"
    );
    assert!(bed.check(second.json()["access_token"].as_str().unwrap()).is_err());
}

// wire: OS-8
#[tokio::test]
async fn a_grant_ends_with_its_person_at_the_provider() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let code = bed.code(&client).await;
    let tokens = bed.redeem(&client, &code, VERIFIER).await.json();
    bed.wait(301);
    bed.issuer.give(
        "idp1",
        json!({"access_token": "b", "token_type": "Bearer", "refresh_token": "idp2"}),
    );
    let renewed = bed.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(renewed.status(), 200, "{}", renewed.text);
    bed.wait(301);
    // It cannot be reached: the person is taken to be there still.
    bed.issuer.set_down(true);
    let refresh = renewed.json()["refresh_token"].as_str().unwrap().to_owned();
    let renewed = bed.refresh(&client, &refresh).await;
    assert_eq!(renewed.status(), 200, "{}", renewed.text);
    bed.issuer.set_down(false);
    let refresh = renewed.json()["refresh_token"].as_str().unwrap().to_owned();
    let ended = bed.refresh(&client, &refresh).await;
    assert_eq!(ended.error(), (400, "invalid_grant".to_owned()), "the provider refuses idp2");
    assert!(bed.check(renewed.json()["access_token"].as_str().unwrap()).is_err());
}

// wire: OS-13, OS-14
#[tokio::test]
async fn clients_keys_and_refresh_tokens_survive_a_restart() {
    let mut bed = Bed::start().await;
    let client = bed.client().await;
    let code = bed.code(&client).await;
    let tokens = bed.redeem(&client, &code, VERIFIER).await.json();
    let token = tokens["access_token"].as_str().unwrap();
    let unused = bed.code(&client).await;
    bed.restart().await;
    assert!(bed.check(token).is_ok());
    assert_eq!(bed.redeem(&client, &unused, VERIFIER).await.status(), 200, "codes, too");
    let renewed = bed.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(renewed.status(), 200, "{}", renewed.text);
    // Another key: tokens of the one before count.
    rotate_keys(&bed.store).await.unwrap();
    bed.facade.read_keys().await.unwrap();
    assert!(bed.check(token).is_ok());
    let keys = bed.get("/oauth/jwks.json", "").await.json();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 2);
    rotate_keys(&bed.store).await.unwrap();
    bed.facade.read_keys().await.unwrap();
    assert!(bed.check(token).is_err(), "and no longer");
}

// wire: OS-9
#[tokio::test]
async fn registrations_are_bounded_and_unused_ones_are_forgotten() {
    let bed = Bed::start().await;
    let about = json!({"redirect_uris": [REDIRECT]});
    let first = bed.client().await;
    for _ in 1..20 {
        assert_eq!(bed.register(about.clone()).await.status(), 201);
    }
    assert_eq!(bed.register(about.clone()).await.status(), 429);
    bed.wait(60);
    assert_eq!(bed.register(about).await.status(), 201);
    bed.wait(30 * 86_400 + 1);
    bed.facade.state.sweep(bed.clock.load(Ordering::SeqCst)).await.unwrap();
    assert_eq!(bed.redeem(&first, "c", VERIFIER).await.error(), (401, "invalid_client".into()));
}

// wire: OS-10, OA-21
#[tokio::test]
async fn metadata_documents_are_read_carefully() {
    let bed = Bed::start().await;
    // Addresses inside are not asked, however they are written.
    let inside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    inside.set_nonblocking(true).unwrap();
    let port = inside.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost", "0x7f000001", "127.1", "[::ffff:127.0.0.1]"] {
        let page = bed.get(&asking(&format!("https://{host}:{port}/c"), &[]), "").await;
        assert_eq!(page.status(), 400, "{host}");
    }
    let connected = inside.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(connected, Err(std::io::ErrorKind::WouldBlock), "nobody connects");
    // One that leads elsewhere, is too long, or fails is none.
    let id = "https://app.example/c";
    let right = json!({"client_id": id, "redirect_uris": [REDIRECT]});
    let mut server = switchboard_testkit::http::HttpServer::start().await;
    let url = server.url("/c").to_string();
    let long = json!({"client_id": id, "redirect_uris": [REDIRECT], "x": "x".repeat(5 << 10)});
    for (status, about, is_used) in
        [(302, &right, false), (404, &right, false), (200, &long, false), (200, &right, true)]
    {
        let current = bed.facade.current().unwrap();
        let reading = bed.facade.read_document(&current, &bed.facade.fetch, id, &url);
        let answering = async {
            let hit = server.take(|_| true).await;
            hit.json(status, about).await;
        };
        let (found, ()) = tokio::join!(reading, answering);
        assert_eq!(found.is_some(), is_used, "{status}");
    }
    // It is kept for some minutes, and then read again.
    assert_eq!(bed.get(&asking(id, &[]), "").await.status(), 200);
    bed.wait(301);
    let current = bed.facade.current().unwrap();
    assert!(bed.facade.state.document(id, current.now).is_none());
}

// wire: OS-7
#[tokio::test]
async fn tokens_of_others_are_none_of_ours() {
    let bed = Bed::start().await;
    let claims = json!({
        "iss": BASE, "sub": "ada", "aud": "https://gw.example/mcp", "exp": 9_999_999_999_u64,
    });
    let forged = bed.issuer.sign(&claims);
    assert!(bed.check(&forged).is_err(), "signed by the provider in our name");
    let keys = bed.facade.keys();
    let kid = &keys.published[0]["kid"];
    let untyped = keys.signer.sign(json!({"kid": kid, "typ": "JWT"}), &claims).unwrap();
    assert!(bed.check(&untyped).is_err(), "only access tokens");
}

// wire: OS-15, OX-3
#[tokio::test]
async fn what_the_provider_says_of_a_person_gets_a_token_once() {
    let bed = Bed::start().await;
    let signer = switchboard_net::auth::jws::Signer::generate_es256().unwrap();
    let about = json!({
        "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "private_key_jwt",
        "jwks": {"keys": [signer.public_jwk()]},
    });
    let client = bed.register(about).await.json()["client_id"].as_str().unwrap().to_owned();
    let now = bed.clock.load(Ordering::SeqCst);
    let show = |id: &str| {
        let claims = json!({
            "iss": client, "sub": client, "aud": BASE, "jti": id, "iat": now, "exp": now + 60,
        });
        Some(signer.sign(json!({"typ": "JWT"}), &claims).unwrap())
    };
    let jag = |id: &str, audience: &str| {
        let more = json!({
            "client_id": client, "resource": "https://gw.example/mcp", "jti": id, "iat": now,
            "exp": now + 60, "scope": "mcp:read other", "groups": ["dev"],
        });
        bed.issuer.sign_as("oauth-id-jag+jwt", &bed.issuer.claims("ada", audience, &more))
    };
    let ask = async |client: &str, assertion: &str, shown: Option<String>| {
        let shown = shown.unwrap_or_default();
        let mut pairs = vec![
            ("grant_type", assertion::JWT_BEARER),
            ("client_id", client),
            ("assertion", assertion),
        ];
        if !shown.is_empty() {
            pairs.push(("client_assertion_type", assertion::CLIENT_ASSERTION));
            pairs.push(("client_assertion", &shown));
        }
        bed.post("/oauth/token", &pairs).await
    };
    let given = ask(&client, &jag("1", BASE), show("a")).await;
    assert_eq!(given.status(), 200, "{}", given.text);
    assert!(given.json().get("refresh_token").is_none());
    let facts = bed.check(given.json()["access_token"].as_str().unwrap()).unwrap();
    assert_eq!((&*facts.issuer, &*facts.subject), ("corp", "ada"));
    assert_eq!(facts.scopes, ["mcp:read"]);
    assert_eq!(facts.claims, [("groups".to_owned(), "dev".to_owned())]);
    let public = bed.client().await;
    let stranger = Issuer::start().await;
    let claims = bed.issuer.claims("ada", BASE, &json!({"client_id": client}));
    let forged = stranger.sign_as("oauth-id-jag+jwt", &claims);
    for (client, assertion, shown, error) in [
        (&client, jag("1", BASE), show("b"), "invalid_grant"),
        (&client, jag("2", "https://other.example"), show("c"), "invalid_grant"),
        (&client, jag("3", BASE), show("a"), "invalid_client"),
        (&client, jag("4", BASE), None, "invalid_client"),
        (&public, jag("5", BASE), None, "unauthorized_client"),
        (&client, forged, show("d"), "invalid_grant"),
    ] {
        assert_eq!(ask(client, &assertion, shown).await.error().1, error);
    }
}

// wire: OS-8
#[tokio::test]
async fn revoking_ends_a_grant_of_the_client_alone() {
    let bed = Bed::start().await;
    let (client, other) = (bed.client().await, bed.client().await);
    let code = bed.code(&client).await;
    let tokens = bed.redeem(&client, &code, VERIFIER).await.json();
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let revoke = async |client: &str| {
        bed.post("/oauth/revoke", &[("client_id", client), ("token", refresh)]).await.status()
    };
    assert_eq!(revoke(&other).await, 200);
    assert!(bed.check(tokens["access_token"].as_str().unwrap()).is_ok());
    assert_eq!(revoke(&client).await, 200);
    assert!(bed.check(tokens["access_token"].as_str().unwrap()).is_err());
    assert_eq!(bed.refresh(&client, refresh).await.error().1, "invalid_grant");
}
