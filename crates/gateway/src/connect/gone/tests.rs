//! Accounts of users who are gone: when they are deleted, and which ones stay.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use switchboard_net::auth::SignInOptions;
use switchboard_net::auth::store::{MemoryStore, RecordStore as _};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::upstream::{Strategy, Target};
use switchboard_proto::auth::{Registration, Secret, TokenRecord, TokenSource};

use super::*;
use crate::account::Accounts;
use crate::authenticator::Authenticator;
use crate::config::{Config, Surroundings};
use crate::fleet::{Fleet, FleetOptions};
use crate::plan::Plan;
use crate::policy::Access;
use crate::token::IssuerRule;

const DAY: u64 = 24 * 60 * 60;

/// A gateway with one server that users have accounts at, and a clock.
struct LeavingUsers {
    store: MemoryStore,
    clock: Arc<AtomicU64>,
    authenticator: Arc<Authenticator>,
    connector: Arc<UserConnector>,
    fleet: Arc<Fleet>,
}

impl LeavingUsers {
    /// These accounts are there, and the configuration has all of these keys.
    async fn new(accounts: &[Account], keys: &[&str]) -> Self {
        let store = MemoryStore::new();
        for account in accounts {
            keep(&store, account, TokenSource::default()).await;
        }
        Self::with_store(store, one_server("mcp"), keys).await
    }

    /// The same with this store and these servers.
    async fn with_store(
        store: MemoryStore,
        servers: BTreeMap<String, ServerPlan>,
        keys: &[&str],
    ) -> Self {
        let fetch = Fetch::new(FetchOptions::default()).expect("no proxy");
        let person = Arc::new(Nobody);
        let kept = Accounts::new(Arc::new(store.clone()), person, SignInOptions::default(), None);
        let connector = UserConnector::new(kept.clone(), fetch.clone());
        let mut plan = Plan { servers, access: access(keys), ..Plan::default() };
        plan.assign_accounts();
        let reach = move |it: &ServerPlan| it.server(Vec::new(), fetch.clone(), Some(&kept));
        let fleet = Fleet::start(&plan, FleetOptions::default(), reach).expect("a fleet");
        let clock = Arc::new(AtomicU64::new(1_000_000));
        let now = Arc::clone(&clock);
        let now = Arc::new(move || now.load(Ordering::Relaxed));
        let authenticator = Authenticator::with(plan.access.clone(), 10, None, now);
        connector.serve(&fleet, &authenticator);
        let world = Self { store, clock, authenticator, connector, fleet };
        // The look at the start.
        world.settle().await;
        world
    }

    /// So many days go by, and the task looks.
    async fn let_days_pass(&self, days: u64) {
        self.clock.fetch_add(days * DAY, Ordering::Relaxed);
        tokio::time::advance(LOOK).await;
        self.settle().await;
    }

    /// Lets every task do what it can do at once: virtual time goes on when all wait.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// The configuration has these keys from here on.
    async fn replace(&self, keys: &[&str]) {
        self.authenticator.replace(access(keys));
        self.settle().await;
    }

    async fn users(&self) -> Vec<String> {
        let names = self.store.list(RecordKind::Tokens).await.expect("a list");
        let accounts = names.iter().filter_map(|name| Account::from_name(name));
        accounts.map(|it| it.principal.unwrap_or_else(|| "owner".to_owned())).collect()
    }

    async fn marks(&self) -> usize {
        self.store.list(RecordKind::Gone).await.expect("a list").len()
    }
}

/// A server at this path that users have accounts at.
fn one_server(path: &str) -> BTreeMap<String, ServerPlan> {
    let url = format!("http://127.0.0.1:9/{path}").parse().expect("a URL");
    let target = Target::Url { url, strategy: Strategy::HttpOnly, headers: HeaderMap::new() };
    let mut server = ServerPlan::new("it", target);
    server.oauth.is_wanted = Some(true);
    [("it".to_owned(), server)].into()
}

fn access(keys: &[&str]) -> Access {
    keys.iter().fold(Access::default(), |access, name| access.with_key(name, name.as_bytes()))
}

fn account(user: &str) -> Account {
    let principal = Some(user.to_owned());
    Account { server: "http://127.0.0.1:9/mcp".to_owned(), principal, ..Account::default() }
}

/// The page of this gateway.
const OURS: &str = "https://gw.example/oauth/callback";

/// Tokens of a sign-in that ended at this page.
fn came_back_to(page: &str) -> TokenSource {
    let redirect_uris = vec![page.to_owned()];
    let client = Registration { redirect_uris, ..Registration::default() };
    TokenSource { client, ..TokenSource::default() }
}

async fn keep(store: &MemoryStore, account: &Account, source: TokenSource) {
    let refresh_token = Some(Secret::new("r"));
    let record = TokenRecord { source, refresh_token, ..TokenRecord::default() };
    let mut lock = store.lock(&account.record(RecordKind::Tokens)).await.expect("a lock");
    lock.write(&serde_json::to_vec(&record).expect("a record")).await.expect("room");
}

#[tokio::test(start_paused = true)]
async fn the_account_of_a_gone_user_is_deleted_after_seven_days() {
    // wire: OU-9
    let world = LeavingUsers::new(&[account("ada"), account("bob")], &["ada", "bob"]).await;
    assert_eq!(world.marks().await, 0);
    world.replace(&["ada"]).await;
    assert_eq!((world.users().await.len(), world.marks().await), (2, 1), "bob is gone");
    world.let_days_pass(6).await;
    assert_eq!(world.users().await, ["ada", "bob"]);
    world.let_days_pass(1).await;
    assert_eq!(world.users().await, ["ada"]);
    assert_eq!(world.marks().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_user_who_is_back_within_seven_days_keeps_the_account() {
    // wire: OU-9
    let world = LeavingUsers::new(&[account("ada"), account("bob")], &["ada", "bob"]).await;
    world.replace(&["ada"]).await;
    world.let_days_pass(6).await;
    world.replace(&["ada", "bob"]).await;
    assert_eq!(world.marks().await, 0);
    // Gone again: the seven days begin again.
    world.replace(&["ada"]).await;
    world.let_days_pass(6).await;
    assert_eq!(world.users().await, ["ada", "bob"]);
    world.let_days_pass(1).await;
    assert_eq!(world.users().await, ["ada"]);
}

#[tokio::test(start_paused = true)]
async fn only_accounts_of_users_of_this_gateway_are_deleted() {
    // wire: OU-9
    let owner = Account { principal: None, ..account("") };
    let elsewhere = Account { server: "http://127.0.0.1:9/other".to_owned(), ..account("eve") };
    let second = Account { account: Some("work".to_owned()), ..account("fay") };
    let token = account("corp/ada");
    let accounts = [owner, elsewhere, second, token];
    let world = LeavingUsers::new(&accounts, &["bob"]).await;
    let issuer = "https://idp.example".to_owned();
    let rule = IssuerRule { name: "corp".to_owned(), issuer, ..IssuerRule::default() };
    world.authenticator.replace(access(&["bob"]).with_issuer(rule, None));
    world.let_days_pass(30).await;
    assert_eq!(world.users().await.len(), 4);
    assert_eq!(world.marks().await, 0, "the issuer is there");
    // Without the issuer its users are gone.
    world.replace(&["bob"]).await;
    world.let_days_pass(8).await;
    assert_eq!(world.users().await, ["owner", "fay", "eve"]);
}

#[tokio::test(start_paused = true)]
async fn accounts_at_a_server_that_is_gone_are_deleted_by_the_gateway_that_made_them() {
    // wire: OU-9
    let world = LeavingUsers::new(&[], &["ada"]).await;
    world.connector.set_base(Some("https://gw.example".to_owned()));
    let at = |server: &str, user: &str| Account {
        server: format!("http://127.0.0.1:9/{server}"),
        ..account(user)
    };
    let others = "https://b.example/oauth/callback";
    keep(&world.store, &at("mcp", "ada"), came_back_to(OURS)).await;
    keep(&world.store, &at("removed", "ada"), came_back_to(OURS)).await;
    keep(&world.store, &at("removed", "bob"), came_back_to(others)).await;
    world.connector.forget_gone().await.unwrap();
    assert_eq!(world.marks().await, 1);
    world.let_days_pass(6).await;
    assert_eq!(world.users().await.len(), 3);
    world.let_days_pass(1).await;
    let left = world.store.list(RecordKind::Tokens).await.unwrap();
    assert_eq!((left.len(), world.marks().await), (2, 0), "{left:?}");
    // The last server goes.
    world.fleet.change(&Plan::default()).unwrap();
    world.connector.set_base(Some("https://gw.example".to_owned()));
    world.settle().await;
    assert_eq!(world.marks().await, 1, "it is looked at once");
    world.let_days_pass(7).await;
    assert_eq!(world.users().await, ["bob"], "the user of another gateway");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_without_a_public_url_leaves_accounts_at_other_servers_alone() {
    // wire: OU-9
    let world = LeavingUsers::new(&[], &["ada"]).await;
    // So is every gateway found on its own machine.
    world.connector.set_base(Some("http://127.0.0.1:3001".to_owned()));
    let elsewhere = Account { server: "http://127.0.0.1:9/other".to_owned(), ..account("bob") };
    let source = came_back_to("http://127.0.0.1:3001/oauth/callback");
    keep(&world.store, &elsewhere, source).await;
    world.connector.forget_gone().await.unwrap();
    assert_eq!(world.marks().await, 0);
}

/// By https their pages have one address, as by http.
#[tokio::test(start_paused = true)]
async fn of_two_gateways_on_one_machine_neither_deletes_accounts_of_the_other() {
    // wire: OU-9
    for base in ["https://127.0.0.1:3001", "https://localhost:3001", "https://[::1]:3001"] {
        let first = LeavingUsers::new(&[], &["ada"]).await;
        let second =
            LeavingUsers::with_store(first.store.clone(), one_server("other"), &["bob"]).await;
        let page = || came_back_to(&format!("{base}{CALLBACK_PATH}"));
        let other = Account { server: "http://127.0.0.1:9/other".to_owned(), ..account("bob") };
        keep(&first.store, &account("ada"), page()).await;
        keep(&first.store, &other, page()).await;
        for gateway in [&first, &second] {
            gateway.connector.set_base(Some(base.to_owned()));
            gateway.settle().await;
        }
        for gateway in [&first, &second, &first, &second] {
            gateway.let_days_pass(8).await;
        }
        assert_eq!((first.users().await.len(), first.marks().await), (2, 0), "{base}");
    }
}

#[tokio::test(start_paused = true)]
async fn accounts_at_a_server_that_is_switched_off_stay() {
    // wire: OU-9
    let world = LeavingUsers::new(&[], &["ada"]).await;
    world.connector.set_base(Some("https://gw.example".to_owned()));
    keep(&world.store, &account("ada"), came_back_to(OURS)).await;
    for server in [
        r#"{"url": "http://127.0.0.1:9/mcp", "oauth": true, "enabled": false}"#,
        // With mistakes nobody knows where it is.
        r#"{"url": "http://127.0.0.1:9/mcp", "oauth": {"grant": "none"}, "enabled": false}"#,
        r#"{"url": "${NOWHERE}", "oauth": true, "enabled": false}"#,
        // Switched on, it would be refused: that grant gives users no accounts.
        r#"{"url": "http://127.0.0.1:9/mcp", "oauth": {"grant": "device"}, "enabled": false}"#,
    ] {
        let keys = r#"{"keys": {"ada": {"key": "0123456789abcdef"}}}"#;
        let text = format!(r#"{{"servers": {{"it": {server}}}, "switchboard": {keys}}}"#);
        let config = Config::parse(Path::new("m.json"), &text, &Surroundings::default());
        let (mut off, _) = Plan::build(&[config.expect("a file")]);
        off.assign_accounts();
        world.fleet.change(&off).unwrap();
        assert!(world.fleet.names().is_empty());
        world.let_days_pass(1).await;
        world.let_days_pass(8).await;
        assert_eq!((world.users().await.len(), world.marks().await), (1, 0), "{server}");
    }
    // Gone from the file, it is gone.
    world.fleet.change(&Plan::default()).unwrap();
    world.let_days_pass(1).await;
    assert_eq!(world.marks().await, 1);
}

#[tokio::test(start_paused = true)]
async fn accounts_are_looked_at_after_a_start_without_servers_that_have_any() {
    // wire: OU-9
    let world = LeavingUsers::with_store(MemoryStore::new(), BTreeMap::new(), &["ada"]).await;
    keep(&world.store, &account("ada"), came_back_to(OURS)).await;
    world.connector.set_base(Some("https://gw.example".to_owned()));
    world.settle().await;
    assert_eq!(world.marks().await, 1);
    world.let_days_pass(7).await;
    assert_eq!(world.users().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_account_that_cannot_be_revoked_is_deleted_all_the_same() {
    // wire: OU-9
    let world = LeavingUsers::new(&[], &["ada"]).await;
    // Nothing listens there.
    let revocation_endpoint = Some("http://127.0.0.1:9/revoke".to_owned());
    let nowhere = TokenSource { revocation_endpoint, ..TokenSource::default() };
    keep(&world.store, &account("bob"), nowhere).await;
    world.connector.forget_gone().await.unwrap();
    world.clock.fetch_add(7 * DAY, Ordering::Relaxed);
    world.connector.forget_gone().await.unwrap();
    assert_eq!(world.users().await, [""; 0]);
    world.connector.forget_gone().await.unwrap();
    assert_eq!(world.marks().await, 0);
}

#[tokio::test(start_paused = true)]
async fn one_look_deletes_a_bounded_number_of_accounts() {
    // wire: OU-9, OB-1
    let accounts: Vec<_> = (0..MOST_DELETED + 5).map(|it| account(&format!("u{it}"))).collect();
    let world = LeavingUsers::new(&accounts, &["ada"]).await;
    assert_eq!(world.marks().await, MOST_DELETED + 5);
    world.clock.fetch_add(7 * DAY, Ordering::Relaxed);
    world.connector.forget_gone().await.unwrap();
    assert_eq!(world.users().await.len(), 5);
    let watching = Arc::downgrade(&world.connector);
    world.connector.forget_gone().await.unwrap();
    assert_eq!(world.users().await, [""; 0]);
    drop(world);
    assert!(watching.upgrade().is_none(), "the task keeps nothing alive");
}
