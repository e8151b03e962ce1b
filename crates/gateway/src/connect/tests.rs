//! Links, and the pages that they lead to: whose they are, how long and how often they work.

use bytes::Bytes;
use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, Method, Response};
use serde_json::json;
use switchboard_net::auth::callback::CallbackPage;
use switchboard_net::auth::store::MemoryStore;
use switchboard_net::auth::{SignInOptions, SystemTools};
use switchboard_net::http::fetch::FetchOptions;
use switchboard_net::http::page::PageVisit;
use switchboard_net::upstream::{Strategy, Target};
use switchboard_proto::auth::{GrantType, OauthSettings, Tools as _};
use switchboard_testkit::issuer::Issuer;

use super::visitor::{MOST_WRONG_KEYS, idp_settings};
use super::*;
use crate::facade::{self, rotate_keys};
use crate::policy::Access;
use crate::token::{FacadeRule, IssuerRule, TokenAccess};

const ADA: &str = "key-of-ada-0123456789abcdef";
const BOB: &str = "key-of-bob-0123456789abcdef";

/// A connector with two users, and a server that cannot be reached.
struct Desk {
    connector: Arc<UserConnector>,
    server: Arc<ServerPlan>,
}

impl Desk {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::new());
        let options = SignInOptions::default();
        let nobody = Arc::new(switchboard_net::auth::person::Nobody);
        let accounts = Accounts::new(store, nobody, options, None);
        let fetch = Fetch::new(FetchOptions::default()).expect("no proxy");
        let connector = UserConnector::new(accounts, fetch);
        connector.set_base(Some("https://gw.example".to_owned()));
        let access = Access::default().with_key("ada", ADA.as_bytes());
        let access = access.with_key("bob", BOB.as_bytes());
        _ = connector.authenticator.set(Authenticator::new(access, 10));
        Self { connector, server: server("it") }
    }

    fn link(&self, user: &str) -> String {
        let link = self.connector.link(&self.server, user, None).expect("a link");
        assert_eq!(link.url, format!("https://gw.example/connect/{}", link.id));
        assert_eq!(link.id.len(), 32, "128 bits");
        link.id
    }

    async fn get(&self, id: &str, cookie: Option<&str>) -> Response<Bytes> {
        self.visit(Method::GET, id, cookie, String::new()).await
    }

    async fn visit(
        &self,
        method: Method,
        id: &str,
        cookie: Option<&str>,
        body: String,
    ) -> Response<Bytes> {
        let mut headers = HeaderMap::new();
        if let Some(cookie) = cookie {
            headers.insert(COOKIE, cookie.parse().expect("a cookie"));
        }
        let path = format!("/connect/{id}");
        let (query, body) = (String::new(), Bytes::from(body));
        let visit = PageVisit { method, path, query, headers, address: None, body };
        self.connector.visit_link(visit).await
    }

    /// Opens a link as a browser does, and sends this key.
    async fn send_key(&self, id: &str, key: &str) -> Response<Bytes> {
        let page = self.get(id, None).await;
        if !page.headers().contains_key(SET_COOKIE) {
            return page;
        }
        let (cookie, token) = (cookie_in(&page), token_in(&page));
        self.visit(Method::POST, id, Some(&cookie), format!("token={token}&key={key}")).await
    }

    /// Somebody comes back from an authorization server.
    async fn come_back(&self, cookie: Option<&str>, query: &str) -> Response<Bytes> {
        let cookie = cookie.map(|cookie| (COOKIE, cookie.parse().expect("a cookie")));
        let (headers, body) = (HeaderMap::from_iter(cookie), Bytes::new());
        let (method, path, query) = (Method::GET, "/oauth/callback".to_owned(), query.to_owned());
        let visit = PageVisit { method, path, query, headers, address: None, body };
        self.connector.visit_callback(visit).await
    }

    fn flows(&self) -> Vec<(String, String)> {
        let state = lock(&self.connector.state);
        state.flows.iter().map(|it| (it.server.clone(), it.principal.clone())).collect()
    }
}

fn server(name: &str) -> Arc<ServerPlan> {
    // Nothing listens there.
    let url = "http://127.0.0.1:9/mcp".parse().expect("a URL");
    let target = Target::Url { url, strategy: Strategy::HttpOnly, headers: HeaderMap::new() };
    Arc::new(ServerPlan::new(name, target))
}

fn text(page: &Response<Bytes>) -> String {
    String::from_utf8(page.body().to_vec()).expect("text")
}

fn cookie_in(page: &Response<Bytes>) -> String {
    let cookie = page.headers()[SET_COOKIE].to_str().expect("text");
    cookie.split(';').next().expect("a pair").to_owned()
}

fn token_in(page: &Response<Bytes>) -> String {
    let text = text(page);
    let at = text.find("name=\"token\" value=\"").expect("a form") + 20;
    text[at..at + 64].to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_link_is_for_its_user_alone_and_once() {
    // wire: OU-2, OU-3, OA-22
    let desk = Desk::new();
    let id = desk.link("ada");
    let page = desk.get(&id, None).await;
    assert_eq!(page.status(), 200);
    let cookie = page.headers()[SET_COOKIE].to_str().unwrap();
    assert!(cookie.starts_with("__Host-switchboard-connect=") && cookie.contains("Secure"));
    assert!(!text(&page).contains("ada"), "the link does not tell whose it is");
    let stolen = desk.send_key(&id, BOB).await;
    assert_eq!(stolen.status(), 403, "another user");
    assert_eq!(desk.send_key(&id, "nobody's key").await.status(), 403);
    assert_eq!(desk.flows(), []);
    // The server cannot be reached, so the sign-in ends there. The link is used up all the same.
    let begun = desk.send_key(&id, ADA).await;
    assert_eq!(begun.status(), 502, "{}", text(&begun));
    assert_eq!(desk.flows(), [], "it takes no place any more");
    assert_eq!(desk.send_key(&id, ADA).await.status(), 404, "a second time");
}

#[tokio::test(start_paused = true)]
async fn a_link_is_over_after_ten_minutes_and_with_its_key() {
    // wire: OU-2, OA-22
    let desk = Desk::new();
    let (id, other) = (desk.link("ada"), desk.link("bob"));
    tokio::time::advance(Duration::from_secs(599)).await;
    assert_eq!(desk.get(&id, None).await.status(), 200);
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(desk.send_key(&id, ADA).await.status(), 404, "after 11 minutes");
    assert_eq!(desk.get(&other, None).await.status(), 404);
    let id = desk.link("ada");
    let access = Access::default().with_key("bob", BOB.as_bytes());
    desk.connector.authenticator.get().unwrap().replace(access);
    assert_eq!(desk.send_key(&id, ADA).await.status(), 403, "the key is gone");
    assert_eq!(desk.flows(), []);
}

#[tokio::test(start_paused = true)]
async fn a_form_counts_in_the_browser_that_got_it() {
    // wire: OU-3, OU-4
    let desk = Desk::new();
    let id = desk.link("ada");
    let page = desk.get(&id, None).await;
    let body = format!("token={}&key={ADA}", token_in(&page));
    let other = "__Host-switchboard-connect=00112233445566778899aabbccddeeff";
    for cookie in [None, Some(other)] {
        let answer = desk.visit(Method::POST, &id, cookie, body.clone()).await;
        assert_eq!(answer.status(), 400, "posted from elsewhere");
    }
    assert_eq!(desk.flows(), []);
    let back = desk.come_back(None, "code=x&state=y").await;
    assert_eq!(back.status(), 400, "a browser that did not begin");
}

#[tokio::test(start_paused = true)]
async fn a_sign_in_ends_in_the_browser_that_began_it() {
    // wire: OU-4, OA-22
    let desk = Desk::new();
    let (own, other) = ("a".repeat(32), "b".repeat(32));
    let (_page, callback) = CallbackPage::new("https://gw.example/oauth/callback");
    let (_end, ended) = watch::channel(None);
    lock(&desk.connector.state).replace_flow(ConnectFlow {
        server: "it".to_owned(),
        principal: "ada".to_owned(),
        browser: own.clone(),
        desk: callback,
        began: Instant::now(),
        id: "0".repeat(32),
        ended,
        _task: OwnedTask::spawn(async {}),
    });
    let come_back = async |browser: &str| {
        let cookie = format!("__Host-switchboard-connect={browser}");
        let waiting = desk.come_back(Some(&cookie), "code=x&state=y");
        tokio::time::timeout(Duration::from_secs(1), waiting).await
    };
    assert_eq!(come_back(&other).await.expect("it is not handed in").status(), 400);
    assert!(come_back(&own).await.is_err(), "the sign-in has it, and has not answered");
}

#[tokio::test]
async fn a_user_with_a_token_comes_back_from_the_issuer_in_the_same_browser() {
    // wire: OU-3, OU-4, OA-22
    let issuer = Issuer::start().await;
    let desk = Desk::new();
    let (name, client_id) = ("corp".to_owned(), Some("gw".to_owned()));
    let rule = IssuerRule { name, issuer: issuer.url.clone(), client_id, ..IssuerRule::default() };
    let tokens = TokenAccess { issuers: vec![rule], ..TokenAccess::default() };
    let access = Access { tokens: Some(Arc::new(tokens)), ..Access::default() };
    desk.connector.authenticator.get().unwrap().replace(access);
    for (subject, status) in [("bob", 403), ("ada", 502)] {
        let id = desk.link("corp/ada");
        let page = desk.get(&id, None).await;
        let (cookie, body) = (cookie_in(&page), format!("token={}", token_in(&page)));
        let sent = text(&desk.visit(Method::POST, &id, Some(&cookie), body).await);
        let url = sent.split("<a href=\"").nth(1).unwrap_or_else(|| panic!("{sent}"));
        let query = url.split('"').next().unwrap().replace("&amp;", "&");
        let mut fields = form_fields(query.split_once('?').unwrap().1.as_bytes());
        let id_token = issuer.id_token(subject, "gw", &json!({"nonce": fields.remove("nonce")}));
        let given = json!({"access_token": "a", "token_type": "Bearer", "id_token": id_token});
        issuer.give("c1", given);
        let query = format!("code=c1&state={}", fields.remove("state").unwrap());
        let other = format!("__Host-switchboard-connect={}", "b".repeat(32));
        assert_eq!(desk.come_back(Some(&other), &query).await.status(), 400, "another browser");
        // The server cannot be reached, so that whoever is the user gets no further.
        let back = desk.come_back(Some(&cookie), &query).await;
        assert_eq!(back.status(), status, "{subject}: {}", text(&back));
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_takes_five_wrong_keys() {
    // wire: OU-3
    let desk = Desk::new();
    let id = desk.link("ada");
    for _ in 1..MOST_WRONG_KEYS {
        assert_eq!(desk.send_key(&id, BOB).await.status(), 403);
    }
    assert_eq!(desk.send_key(&id, BOB).await.status(), 404, "the last one");
    assert_eq!(desk.send_key(&id, ADA).await.status(), 404);
    let mut refused = 0;
    for _ in 0..100 {
        let id = desk.link("ada");
        let status = desk.send_key(&id, BOB).await.status();
        refused += usize::from(status == 429);
        if refused > 0 {
            break;
        }
    }
    assert_eq!(refused, 1, "all links together");
    tokio::time::advance(Duration::from_mins(1)).await;
    let id = desk.link("ada");
    assert_eq!(desk.send_key(&id, ADA).await.status(), 502, "a minute later");
}

#[tokio::test(start_paused = true)]
async fn pending_links_are_bounded() {
    // wire: OB-1, OU-2
    let desk = Desk::new();
    let first = desk.link("ada");
    assert_eq!(desk.link("ada"), first, "the same one while it is new");
    let servers: Vec<_> = (0..MOST_OF_ONE).map(|number| server(&format!("s{number}"))).collect();
    for server in &servers {
        tokio::time::advance(Duration::from_secs(1)).await;
        desk.connector.link(server, "ada", None).unwrap();
    }
    assert_eq!(lock(&desk.connector.state).links.len(), MOST_OF_ONE);
    assert_eq!(desk.get(&first, None).await.status(), 404, "the oldest went");
    for number in 0..MOST_PENDING {
        let made = desk.connector.link(&desk.server, &format!("u{number}"), None);
        assert_eq!(made.is_ok(), number < MOST_PENDING - MOST_OF_ONE, "{number}");
    }
    tokio::time::advance(LINK_LIFE).await;
    assert!(desk.connector.link(&desk.server, "late", None).is_ok());
    assert!(desk.connector.link(&desk.server, "", None).is_err(), "without a key");
}

#[tokio::test]
async fn the_gateway_describes_itself_where_it_has_https() {
    // wire: OC-21, OC-22, AUTH-10
    let desk = Desk::new();
    let read = async |method: Method, path: &str| {
        let (path, query, headers) = (path.to_owned(), String::new(), HeaderMap::new());
        let visit = PageVisit { method, path, query, headers, address: None, body: Bytes::new() };
        desk.connector.visit_document(&visit).await
    };
    let get = async |path: &str| read(Method::GET, path).await;
    let said = async |path: &str| {
        let page = get(path).await;
        assert_eq!(page.headers()["content-type"], "application/json");
        serde_json::from_slice::<serde_json::Value>(page.body()).unwrap()
    };
    assert_eq!(get(DOCUMENT_PATH).await.status(), 404, "nobody signs in anywhere");
    let signed_by = desk.connector.described(&desk.server).await.unwrap().oauth.settings;
    let meant = json!({
        "client_id": "https://gw.example/oauth/public-client.json",
        "client_name": "Switchboard",
        "redirect_uris": ["https://gw.example/oauth/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "token_endpoint_auth_methods_supported": ["none"],
    });
    assert_eq!(said(PUBLIC_DOCUMENT_PATH).await, meant);
    let keyed = said(DOCUMENT_PATH).await;
    assert_eq!(keyed["client_id"], "https://gw.example/oauth/client.json");
    assert_eq!(keyed["redirect_uris"], meant["redirect_uris"]);
    assert_eq!(keyed["token_endpoint_auth_method"], "private_key_jwt");
    let key = keyed["jwks"]["keys"][0].as_object().unwrap();
    assert_eq!((&key["kty"], &key["crv"]), (&json!("EC"), &json!("P-256")));
    assert!(!key.contains_key("d"), "the public part alone");
    let own = SystemTools.public_key(&signed_by.private_key.unwrap()).unwrap().0;
    assert_eq!(keyed["jwks"]["keys"], json!([own]), "the one that sign-ins use");
    let restarted = facade::client_key(&*desk.connector.accounts.store).await.unwrap();
    assert_eq!(SystemTools.public_key(&restarted).unwrap().0, own, "it is kept");
    rotate_keys(&*desk.connector.accounts.store).await.unwrap();
    let restarted = facade::client_key(&*desk.connector.accounts.store).await.unwrap();
    assert_eq!(SystemTools.public_key(&restarted).unwrap().0, own, "none that tokens have");
    assert_eq!(read(Method::POST, DOCUMENT_PATH).await.status(), 404);
    assert_eq!(get("/oauth/client.json/other").await.status(), 404);
    for path in [DOCUMENT_PATH, PUBLIC_DOCUMENT_PATH] {
        assert!(desk.connector.pages().iter().any(|(it, _)| it == path));
    }
    desk.connector.set_base(Some("http://127.0.0.1:3001".to_owned()));
    assert_eq!(get(DOCUMENT_PATH).await.status(), 404, "no https");
    desk.connector.set_base(None);
    assert_eq!(get(DOCUMENT_PATH).await.status(), 404, "no URL");
}

#[tokio::test]
async fn users_sign_in_by_the_document_unless_the_file_says_otherwise() {
    // wire: OC-20, OC-21
    let desk = Desk::new();
    let url = async |change: fn(&mut OauthSettings)| {
        let mut server = ServerPlan::clone(&desk.server);
        change(&mut server.oauth.settings);
        desk.connector.described(&server).await.unwrap().oauth.settings.client_metadata_url
    };
    assert_eq!(url(|_| ()).await.as_deref(), Some("https://gw.example/oauth/client.json"));
    let other = url(|it| it.client_metadata_url = Some("https://me.example/c".to_owned())).await;
    assert_eq!(other.as_deref(), Some("https://me.example/c"));
    assert_eq!(url(|it| it.client_id = Some("gw".to_owned())).await, None);
    assert_eq!(url(|it| it.grant = GrantType::Device).await, None, "the document names it not");
    desk.connector.set_base(Some("http://127.0.0.1:3001".to_owned()));
    assert_eq!(url(|_| ()).await, None, "no document without https");
}

#[test]
fn the_facade_lends_its_client_id_to_its_own_issuer() {
    // wire: OU-3
    let (name, issuer) = ("corp".to_owned(), "https://idp.example".to_owned());
    let plain = IssuerRule { name, issuer, ..IssuerRule::default() };
    let facade = |issuer: &str| {
        let (client_id, client_secret) = ("facade".to_owned(), Some("its secret".to_owned()));
        let rule = FacadeRule { issuer: issuer.to_owned(), client_id, ..FacadeRule::default() };
        let facade = Some(FacadeRule { client_secret, ..rule });
        TokenAccess { facade, ..TokenAccess::default() }
    };
    let client = |rule: &IssuerRule, tokens: &TokenAccess| {
        let settings = idp_settings(rule, Some(tokens))?;
        let secret = settings.client_secret.map(|it| it.reveal().to_owned());
        Some((settings.client_id?, secret))
    };
    let lent = Some(("facade".to_owned(), Some("its secret".to_owned())));
    assert_eq!(client(&plain, &facade("corp")), lent);
    assert_eq!(client(&plain, &facade("other")), None, "before another issuer");
    assert_eq!(client(&plain, &TokenAccess::default()), None, "no facade");
    let own = IssuerRule { client_id: Some("own".to_owned()), ..plain };
    let named = Some(("own".to_owned(), None));
    assert_eq!(client(&own, &facade("corp")), named, "no secret of another client");
}

#[tokio::test(start_paused = true)]
async fn the_page_says_what_came_of_the_sign_in() {
    // wire: OU-4
    let page = async |end| {
        let (_tell, ended) = watch::channel(end);
        text(&pages::page_of_end(ended).await)
    };
    assert!(page(Some(Ok(()))).await.contains("You are signed in"));
    let refused = page(Some(Err("<no>".to_owned()))).await;
    assert!(refused.contains("You are not signed in") && refused.contains("&lt;no&gt;"));
    assert!(page(None).await.contains("takes long"));
}
