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
mod clients;
mod consent;
mod renewals;
mod tokens;

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
