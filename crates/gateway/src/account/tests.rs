//! Whose token a server is shown, beside what, and when there is none.

use http::HeaderValue;
use switchboard_net::auth::LoginMode;
use switchboard_net::auth::store::{MemoryStore, Plaintext};
use switchboard_net::http::fetch::FetchOptions;
use switchboard_net::upstream::Strategy;
use switchboard_proto::auth::TokenRecord;

use super::*;

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
        let options = SignInOptions { mode: LoginMode::Never, ..SignInOptions::default() };
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
