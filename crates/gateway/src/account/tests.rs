//! Whose token a server is shown, beside what, and when there is none.

use http::HeaderValue;
use serde_json::json;
use switchboard_net::auth::LoginMode;
use switchboard_net::auth::store::{MemoryStore, Plaintext};
use switchboard_net::http::fetch::FetchOptions;
use switchboard_net::upstream::Strategy;
use switchboard_proto::auth::{GrantType, Secret, TokenRecord};
use switchboard_testkit::issuer::Issuer;

use super::*;
use crate::authenticator::SubjectToken;

/// Some accounts at one server.
struct Wallet {
    store: MemoryStore,
    accounts: Accounts,
    server: ServerPlan,
}

impl Wallet {
    fn new(owner: AccountOwner, headers: &[(&'static str, &'static str)]) -> Self {
        let url = "http://127.0.0.1:9/mcp".parse().expect("a URL");
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let headers = headers.collect();
        let target = Target::Url { url, strategy: Strategy::HttpOnly, headers };
        let mut server = ServerPlan::new("it", target);
        (server.oauth.owner, server.oauth.is_wanted) = (owner, Some(true));
        if owner == AccountOwner::Unsaid {
            server.oauth.is_wanted = None;
        }
        let store = MemoryStore::new();
        let options = SignInOptions::default().mode(LoginMode::Never);
        let accounts = Accounts::new(Arc::new(store.clone()), Arc::new(Nobody), options, None);
        Self { store, accounts, server }
    }

    fn credential(&self) -> Arc<dyn Credential> {
        let fetch = Fetch::new(FetchOptions::default()).expect("no proxy");
        self.accounts.credential(&self.server, None, fetch).expect("a credential")
    }

    /// Keeps this token for a user, or takes it away.
    async fn keep(&self, user: Option<&str>, token: Option<&str>) {
        let account = account_of(&self.server.target, &self.server.oauth, user).expect("one");
        let mut lock = self.store.lock(&account.record(RecordKind::Tokens)).await.expect("a lock");
        let Some(token) = token else { return lock.remove().await.expect("it goes") };
        let record = TokenRecord { access_token: Secret::new(token), ..TokenRecord::default() };
        let content = serde_json::to_vec(&record).expect("a record");
        lock.write(&Plaintext::new(content)).await.expect("room");
    }
}

async fn shown(
    credential: &Arc<dyn Credential>,
    principal: &str,
    refusal: Option<&CredentialRefusal>,
) -> Result<String, String> {
    let headers = HeaderMap::new();
    let user = CredentialUser { headers: &headers, principal };
    let found = credential.headers(user, refusal).await.map_err(|error| error.to_string())?;
    let found = found.ok_or("nothing else")?;
    let values = found.headers.get_all(AUTHORIZATION).iter();
    Ok(values.map(|it| it.to_str().expect("text")).collect::<Vec<_>>().join(","))
}

fn refused(status: StatusCode, challenge: &'static str, shown: &str) -> CredentialRefusal {
    let answer = [(WWW_AUTHENTICATE, HeaderValue::from_static(challenge))].into_iter().collect();
    let shown = [(AUTHORIZATION, shown.parse().expect("a header"))].into_iter().collect();
    let (attempt, is_new_login, is_background) = (0, false, false);
    let shown = Arc::new(shown);
    let url = http::Uri::default();
    CredentialRefusal { status, url, answer, shown, attempt, is_new_login, is_background }
}

#[tokio::test]
async fn each_user_is_shown_by_their_own_token_and_nobody_by_another() {
    // wire: OU-1, OU-9
    let wallet = Wallet::new(AccountOwner::EachUser, &[]);
    let credential = wallet.credential();
    assert!(credential.has_accounts());
    wallet.keep(None, Some("the owner's")).await;
    let ask = async |user: &str| shown(&credential, user, None).await;
    assert!(ask("ada").await.unwrap_err().contains("ada has not"), "not the owner's token");
    wallet.keep(Some("ada"), Some("a")).await;
    wallet.keep(Some("bob"), Some("b")).await;
    assert_eq!(ask("ada").await.unwrap(), "Bearer a");
    assert_eq!(ask("bob").await.unwrap(), "Bearer b");
    assert!(ask("").await.unwrap_err().contains("without a key"), "our own connection");
    wallet.keep(Some("ada"), None).await;
    assert!(ask("ada").await.is_err(), "the next request after a disconnect");
    assert_eq!(ask("bob").await.unwrap(), "Bearer b");
}

#[tokio::test]
async fn a_server_is_told_of_the_extension_that_its_tokens_are_got_by() {
    // wire: OX-7
    let extension = |owner, grant| {
        let mut wallet = Wallet::new(owner, &[]);
        wallet.server.oauth.settings.grant = grant;
        wallet.credential().extension()
    };
    let machines = Some("io.modelcontextprotocol/oauth-client-credentials");
    assert_eq!(extension(AccountOwner::Operator, GrantType::ClientCredentials), machines);
    assert_eq!(extension(AccountOwner::Operator, GrantType::Code), None);
    assert_eq!(extension(AccountOwner::EachUser, GrantType::Code), None);
}

#[tokio::test]
async fn an_account_is_shown_after_all_other_headers() {
    // wire: OU-8
    let own = [("authorization", "Bearer own"), ("x-tenant", "t")];
    let wallet = Wallet::new(AccountOwner::EachUser, &own);
    wallet.keep(Some("ada"), Some("a")).await;
    assert_eq!(shown(&wallet.credential(), "ada", None).await.unwrap(), "Bearer a");
    // A header of its own, and nothing said about OAuth: no sign-in at all.
    let wallet = Wallet::new(AccountOwner::Unsaid, &own);
    let fetch = Fetch::new(FetchOptions::default()).unwrap();
    assert!(wallet.accounts.credential(&wallet.server, None, fetch).is_none());
}

#[tokio::test]
async fn what_a_server_asked_for_is_remembered_for_the_sign_in() {
    // wire: OU-7
    let wallet = Wallet::new(AccountOwner::EachUser, &[]);
    let credential = wallet.credential();
    wallet.keep(Some("ada"), Some("a")).await;
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    let refusal = refused(StatusCode::FORBIDDEN, challenge, "Bearer a");
    let why = shown(&credential, "ada", Some(&refusal)).await.unwrap_err();
    assert!(why.contains("ada has not"), "{why}");
    let kept = wallet.accounts.challenge(&wallet.server, "ada").unwrap();
    assert_eq!(kept.scopes(), ["write"]);
    assert!(!wallet.accounts.is_connected(&wallet.server, "ada").await, "until they have it");
    // Somebody has signed in meanwhile: the new token is shown, whatever the status was.
    wallet.keep(Some("ada"), Some("wider")).await;
    assert_eq!(shown(&credential, "ada", Some(&refusal)).await.unwrap(), "Bearer wider");
    assert!(wallet.accounts.is_connected(&wallet.server, "ada").await, "the other was refused");
    assert!(wallet.accounts.challenge(&wallet.server, "ada").is_none());
    let refusal = refused(StatusCode::UNAUTHORIZED, "Bearer", "Bearer wider");
    assert!(shown(&credential, "ada", Some(&refusal)).await.unwrap_err().contains("ada has not"));
    assert!(!wallet.accounts.is_connected(&wallet.server, "ada").await, "whatever it asked for");
    let mut moved = wallet.server.clone();
    moved.oauth.account_name = Some("other".to_owned());
    assert_ne!(key(&moved, "ada"), key(&wallet.server, "ada"), "a reload begins anew");
    // The oldest goes, not the newest.
    for user in 0..=MOST_REFUSED {
        let (token, at) = (Secret::new("x"), Instant::now());
        let refused = RefusedToken { token, challenge: None, at };
        wallet.accounts.keep_refused(&wallet.server, &user.to_string(), refused);
    }
    let all = lock(&wallet.accounts.refused);
    assert_eq!(all.len(), MOST_REFUSED);
    assert!(!all.contains_key(&key(&wallet.server, "ada").unwrap()));
    assert!(all.contains_key(&key(&wallet.server, &MOST_REFUSED.to_string()).unwrap()));
}

#[tokio::test]
async fn a_server_of_which_nothing_is_said_gets_no_token_and_a_plain_refusal() {
    // wire: OU-1
    let wallet = Wallet::new(AccountOwner::Unsaid, &[]);
    let credential = wallet.credential();
    wallet.keep(None, Some("the owner's")).await;
    assert_eq!(shown(&credential, "ada", None).await.unwrap(), "");
    let challenge = "Bearer resource_metadata=\"http://127.0.0.1:9/x\"";
    let refusal = refused(StatusCode::UNAUTHORIZED, challenge, "Bearer x");
    let why = shown(&credential, "ada", Some(&refusal)).await.unwrap_err();
    assert!(why.contains("\"oauth\": true") && why.contains("\"account\": \"shared\""), "{why}");
}

/// The access tokens of users, by name.
type Subjects = Arc<Mutex<HashMap<String, SubjectToken>>>;

/// A server that is shown what the tokens of users are exchanged for at this issuer.
fn exchanging(issuer: &Issuer) -> (Arc<dyn Credential>, Subjects) {
    let mut wallet = Wallet::new(AccountOwner::Exchanged, &[]);
    let settings = &mut wallet.server.oauth.settings;
    settings.grant = GrantType::Exchange { subject: None };
    settings.issuer = Some(issuer.url.clone());
    settings.client_id = Some("gw".to_owned());
    settings.client_secret = Some(Secret::new("s3cret"));
    let subjects = Subjects::default();
    let found = Arc::clone(&subjects);
    wallet.accounts.subjects.set(move |name| lock(&found).get(name).cloned());
    (wallet.credential(), subjects)
}

fn come_with(subjects: &Subjects, name: &str, token: &str, issuer: &str) {
    let identity = Some(format!("{name}\0{issuer}").into());
    let token = SubjectToken { token: Secret::new(token), expires: unix_time() + 900, identity };
    lock(subjects).insert(name.to_owned(), token);
}

fn lasting(token: &str, expires_in: u64) -> serde_json::Value {
    json!({"access_token": token, "token_type": "Bearer", "expires_in": expires_in})
}

#[tokio::test]
async fn a_users_token_is_exchanged_once_and_never_shown() {
    // wire: OX-6, OR-17
    let issuer = Issuer::start().await;
    let (credential, subjects) = exchanging(&issuer);
    assert!(credential.has_accounts());
    come_with(&subjects, "corp/ada", "t-ada", "i");
    come_with(&subjects, "corp/bob", "t-bob", "i");
    issuer.give("t-ada", lasting("u-ada", 3600));
    issuer.give("t-bob", lasting("u-bob", 3600));
    let ask = async |user: &str| shown(&credential, user, None).await;
    assert_eq!(ask("corp/ada").await.unwrap(), "Bearer u-ada");
    let reads = issuer.metadata_reads();
    assert_eq!(ask("corp/bob").await.unwrap(), "Bearer u-bob");
    assert_eq!(issuer.metadata_reads(), reads, "the metadata is known");
    issuer.give("t-ada", lasting("u-ada-2", 3600));
    assert_eq!(ask("corp/ada").await.unwrap(), "Bearer u-ada", "it is kept");

    let refusal = refused(StatusCode::FORBIDDEN, "Bearer", "Bearer u-ada");
    assert_eq!(shown(&credential, "corp/ada", Some(&refusal)).await.unwrap_err(), "nothing else");
    let mut refusal = refused(StatusCode::UNAUTHORIZED, "Bearer", "Bearer u-ada");
    let other = shown(&credential, "corp/ada", Some(&refusal)).await;
    assert_eq!(other.unwrap(), "Bearer u-ada-2", "the server has forgotten the token");
    refusal = refused(StatusCode::UNAUTHORIZED, "Bearer", "Bearer u-ada-2");
    refusal.attempt = 1;
    assert_eq!(shown(&credential, "corp/ada", Some(&refusal)).await.unwrap_err(), "nothing else");

    // Users with keys, and our own connection, have nothing to exchange.
    let why = ask("kim").await.unwrap_err();
    assert!(why.contains("kim has none") && why.contains("not with a key"), "{why}");
    assert!(ask("").await.unwrap_err().contains("this client has none"));
    // The issuer of that name is another one by now, and so is its user.
    come_with(&subjects, "corp/ada", "t-other", "j");
    issuer.give("t-other", lasting("u-other", 3600));
    assert_eq!(ask("corp/ada").await.unwrap(), "Bearer u-other");
    lock(&subjects).remove("corp/ada");
    assert!(ask("corp/ada").await.unwrap_err().contains("none that is valid"), "it is over");
    assert_eq!(ask("corp/bob").await.unwrap(), "Bearer u-bob");
}

#[tokio::test]
async fn an_exchange_that_is_refused_says_what_to_do_and_is_tried_again_later() {
    // wire: OX-6
    let issuer = Issuer::start().await;
    let (credential, subjects) = exchanging(&issuer);
    come_with(&subjects, "corp/ada", "t-ada", "i");
    let ask = async || shown(&credential, "corp/ada", None).await;
    let why = ask().await.unwrap_err();
    assert!(why.contains("invalid_grant") && why.contains("allow the client \"gw\""), "{why}");
    assert!(!why.contains("t-ada"), "{why}");
    issuer.give("t-ada", lasting("u-1", 0));
    assert_eq!(ask().await.unwrap_err(), why, "the issuer is not asked at each request");
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(10)).await;
    tokio::time::resume();
    assert_eq!(ask().await.unwrap(), "Bearer u-1");
    issuer.give("t-ada", json!({"access_token": "u-2", "token_type": "Bearer"}));
    assert_eq!(ask().await.unwrap(), "Bearer u-2", "the first was over at once");
    let headers = HeaderMap::new();
    let user = CredentialUser { headers: &headers, principal: "corp/ada" };
    let found = credential.headers(user, None).await.unwrap().unwrap();
    assert!(found.until.is_some(), "one without an end ends with the token that it is for");
}

#[test]
fn what_is_at_hand_of_users_is_bounded() {
    let users = UserTable::default();
    for number in 0..=MOST_USERS {
        users.find(&number.to_string(), || Some(number)).unwrap();
    }
    assert_eq!(lock(&users.0).len(), MOST_USERS);
    let last = users.find(&MOST_USERS.to_string(), || None);
    assert_eq!(last.as_deref(), Some(&MOST_USERS));
}
