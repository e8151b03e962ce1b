//! Users without an account: how their clients are asked, how long a call waits, and what is
//! listed meanwhile. The server is never reached, for nobody has signed in.

use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use switchboard_net::access::Who;
use switchboard_net::auth::SignInOptions;
use switchboard_net::auth::person::Nobody;
use switchboard_net::auth::store::{MemoryStore, Plaintext, RecordKind, RecordStore as _};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::upstream::{Strategy, Target};
use switchboard_proto::auth::{Secret, TokenRecord};
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Carrier, Exchange};
use switchboard_proto::limits::Limits;
use tokio::time::Instant;

use super::*;
use crate::account::{Accounts, account_of};
use crate::authenticator::Authenticator;
use crate::config::AccountOwner;
use crate::fleet::{Fleet, FleetOptions};
use crate::gateway::Place;
use crate::plan::Plan;
use crate::policy::{Access, Grant};
use crate::view::Views;

/// A gateway with two users and one server, which each of them has to sign in to.
struct UserWorld {
    store: MemoryStore,
    fleet: Arc<Fleet>,
    authenticator: Arc<Authenticator>,
    connector: Arc<UserConnector>,
    all: Arc<Views>,
    one: Arc<Views>,
}

/// Two users, and one server that each has to sign in to, by this one of their accounts.
fn plan_with(account: Option<&str>) -> Plan {
    let url = "http://127.0.0.1:9/mcp".parse().expect("a URL");
    let target = Target::Url { url, strategy: Strategy::HttpOnly, headers: HeaderMap::new() };
    let mut server = ServerPlan::new("it", target);
    server.oauth.is_wanted = Some(true);
    server.oauth.account_name = account.map(ToOwned::to_owned);
    server.tools.only = Some(vec!["whoami".to_owned()]);
    let access = Access::default().with_key("ada", b"ada").with_key("bob", b"bob");
    let servers = [("it".to_owned(), server)].into();
    let mut plan = Plan { servers, access, ..Plan::default() };
    plan.assign_accounts();
    assert_eq!(plan.servers["it"].oauth.owner, AccountOwner::EachUser);
    plan
}

impl UserWorld {
    fn new() -> Self {
        let plan = plan_with(None);
        let store = MemoryStore::new();
        let options = SignInOptions::default().mode(switchboard_net::auth::LoginMode::Never);
        let accounts = Accounts::new(Arc::new(store.clone()), Arc::new(Nobody), options, None);
        let fetch = Fetch::new(FetchOptions::default()).expect("no proxy");
        let connector = UserConnector::new(accounts.clone(), fetch.clone());
        connector.set_base(Some("https://gw.example".to_owned()));
        let options =
            FleetOptions { connector: Some(Arc::clone(&connector)), ..FleetOptions::default() };
        let reach = move |it: &ServerPlan| it.server(Vec::new(), fetch.clone(), Some(&accounts));
        let fleet = Fleet::start(&plan, options, reach).expect("a fleet");
        let authenticator = Authenticator::new(plan.access.clone(), 10);
        connector.serve(&fleet, &authenticator);
        let only = Some(Arc::from("it"));
        let all = Views::new(&fleet, fleet.names(), None, &authenticator);
        let one = Views::new(&fleet, fleet.names(), only, &authenticator);
        Self { store, fleet, authenticator, connector, all, one }
    }

    fn plan(&self) -> Arc<ServerPlan> {
        Arc::clone(&self.fleet.running("it").expect("it is there").plan)
    }

    /// All servers, as clients reach them.
    fn site(&self) -> Site {
        let authenticator = Some(self.authenticator.gate(Some(Place::All)));
        let all: Arc<Views> = Arc::clone(&self.all);
        Site::new(all, SiteOptions::default().authenticator(authenticator))
    }

    /// Somebody has signed in elsewhere.
    async fn sign_in(&self, user: &str) {
        let plan = self.plan();
        let account = account_of(&plan.target, &plan.oauth, Some(user)).expect("an account");
        let record =
            TokenRecord { refresh_token: Some(Secret::new("r")), ..TokenRecord::default() };
        let id = account.record(RecordKind::Tokens);
        let mut lock = self.store.lock(&id).await.expect("a lock");
        let content = serde_json::to_vec(&record).expect("a record");
        lock.write(&Plaintext::new(content)).await.expect("room");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_user_for_25_s() {
    // wire: OU-5
    let world = UserWorld::new();
    let plan = world.plan();
    let began = Instant::now();
    assert!(!world.connector.connected(&plan, "ada", PATIENCE).await);
    assert_eq!(began.elapsed(), Duration::from_secs(25));
    world.sign_in("ada").await;
    assert!(world.connector.connected(&plan, "ada", PATIENCE).await);
    assert!(!world.connector.accounts().is_connected(&plan, "bob").await, "each their own");
    assert_eq!(began.elapsed(), Duration::from_secs(25), "at once");
}

#[tokio::test]
async fn connections_to_a_server_with_accounts_are_their_users() {
    // wire: OU-1, OU-6
    let world = UserWorld::new();
    let plan = world.plan();
    assert!(plan.is_personal() && plan.knows_people());
    let running = world.fleet.running("it").unwrap();
    assert!(!running.bridge.is_common());
    // Our own connection is for nobody, and says so without a request.
    let mut state = world.fleet.roster.state("it").unwrap();
    let state = state.wait_for(|it| it.reason.is_some()).await.unwrap().clone();
    assert!(state.reason.as_ref().unwrap().is_sign_in(), "{state}");
    assert!(world.fleet.is_open_to_people("it", &state));
    drop((world.all, world.one));
}

#[test]
fn a_gateway_without_users_shows_the_account_of_its_owner() {
    // wire: OU-1
    let url = "http://127.0.0.1:9/mcp".parse().unwrap();
    let target = Target::Url { url, strategy: Strategy::HttpOnly, headers: HeaderMap::new() };
    let owner = |has_users: bool, said: Option<bool>, account| {
        let mut server = ServerPlan::new("it", target.clone());
        (server.oauth.is_wanted, server.oauth.account) = (said, account);
        let access = Access::default();
        let access = if has_users { access.with_key("ada", b"ada") } else { access };
        let servers = [("it".to_owned(), server)].into();
        let mut plan = Plan { servers, access, ..Plan::default() };
        plan.assign_accounts();
        plan.servers["it"].oauth.owner
    };
    let shared = Some(crate::config::AccountScope::Shared);
    assert_eq!(owner(false, Some(true), None), AccountOwner::Operator);
    assert_eq!(owner(false, None, None), AccountOwner::Operator);
    assert_eq!(owner(true, Some(true), None), AccountOwner::EachUser);
    assert_eq!(owner(true, Some(true), shared), AccountOwner::Operator);
    assert_eq!(owner(true, None, None), AccountOwner::Unsaid, "never silently the owner's");
    assert_eq!(Who::default().name(), "");
}

/// Ada's modern client, which opens pages for its user. It calls the tool that signs in.
async fn call_sign_in(site: &Site, more: Value) -> Value {
    let mut params = json!({
        "name": "it__sign_in",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
        },
    });
    let more = more.as_object().expect("members").clone();
    params.as_object_mut().expect("members").extend(more);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("authorization", "Bearer ada")
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "it__sign_in");
    let request = request.body(Full::new(Bytes::from(call.to_string()))).expect("a request");
    let answer = site.route(request).await.collect().await.expect("an answer").to_bytes();
    // An answer that takes long is the last event of a stream.
    let text = String::from_utf8_lossy(&answer);
    let line = text.lines().rfind(|line| line.contains("\"jsonrpc\"")).expect("an answer");
    serde_json::from_str(line.trim_start_matches("data:")).expect("JSON")
}

/// The page of a question, and how a client answers that its user opens it.
fn question(answer: &Value) -> (Value, Value) {
    let asked = answer["result"]["inputRequests"].as_object().expect("a question");
    let (key, request) = asked.iter().next().expect("one");
    let again = json!({
        "requestState": answer["result"]["requestState"],
        "inputResponses": {key: {"action": "accept"}},
    });
    (request["params"]["url"].clone(), again)
}

#[tokio::test(start_paused = true)]
async fn a_reload_while_a_call_waits_leads_to_what_the_server_is_now() {
    // wire: OU-5
    let world = UserWorld::new();
    let site = world.site();
    let (page, again) = question(&call_sign_in(&site, json!({})).await);
    // Meanwhile the server wants another account.
    let waiting = call_sign_in(&site, again);
    let reloading = async {
        tokio::time::sleep(PATIENCE / 2).await;
        world.fleet.change(&plan_with(Some("other"))).expect("a plan");
    };
    let (answer, ()) = tokio::join!(waiting, reloading);
    let (other, again) = question(&answer);
    assert_ne!(other, page, "a link to the account of now");
    world.sign_in("ada").await;
    let began = Instant::now();
    let answer = call_sign_in(&site, again).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(began.elapsed() < PATIENCE, "it asks for the account of now");
    // Meanwhile the server goes.
    let world = UserWorld::new();
    let site = world.site();
    let (_, again) = question(&call_sign_in(&site, json!({})).await);
    world.fleet.change(&Plan::default()).expect("a plan");
    let answer = call_sign_in(&site, again).await;
    assert!(answer["result"]["isError"] == true || answer.get("error").is_some(), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_client_is_asked_again_after_25_s_until_its_user_is_done() {
    // wire: OU-5
    let world = UserWorld::new();
    let site = world.site();
    // Questions that come at about the same time are asked together.
    let moment = Duration::from_millis(100);
    let began = Instant::now();
    let (page, again) = question(&call_sign_in(&site, json!({})).await);
    assert!(page.as_str().unwrap().starts_with("https://gw.example/connect/"), "{page}");
    assert!(began.elapsed() < moment, "at once");
    let began = Instant::now();
    let (same, again) = question(&call_sign_in(&site, again).await);
    let waited = began.elapsed();
    assert!(waited >= PATIENCE && waited < PATIENCE + moment, "{waited:?}");
    assert_eq!(same, page, "the link that the user has open");
    world.sign_in("ada").await;
    let began = Instant::now();
    let answer = call_sign_in(&site, again).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(began.elapsed() < moment, "at once");
}

#[tokio::test]
async fn a_call_goes_the_way_of_any_other_after_the_sign_in() {
    // wire: OU-5
    let world = UserWorld::new();
    world.sign_in("").await;
    let backend: Arc<Views> = Arc::clone(&world.all);
    let limits = Limits::default();
    let client =
        ClientConnection::new(Era::Modern, Carrier::Http, backend, &limits, Sharing::Alone);
    let front = world.all.make_front(&Grant::default(), None);
    let running = world.fleet.running("it").unwrap();
    let call = Call::new(Arc::<ClientConnection>::clone(&client), Exchange(1));
    // A state that nobody has sealed is not sent on.
    let params = br#"{"name":"whoami","requestState":"no seal"}"#;
    let message = Message::request(&1.into(), method::CALL_TOOL, Some(params));
    let request = FrontRequest { client, call: call.clone(), message, header_params: None };
    let recovery = front.recovery(&request, &running, AnswerChange::NewTask).unwrap();
    recovery.go_on(call.clone()).await;
    assert_eq!(call.server().as_deref(), Some("it"), "its answer is changed for the client");
    assert!(call.is_over(), "it was refused");
}

#[tokio::test]
async fn a_link_to_what_a_server_was_before_is_dropped() {
    // wire: OU-2
    let world = UserWorld::new();
    let plan = world.plan();
    let old = world.connector.link(&plan, "ada", None).unwrap();
    assert_eq!(world.connector.link(&plan, "ada", None).unwrap().id, old.id);
    let mut moved = ServerPlan::clone(&plan);
    moved.oauth.account_name = Some("other".to_owned());
    let new = world.connector.link(&Arc::new(moved), "bob", None).unwrap();
    let again = world.connector.link(&plan, "ada", None).unwrap();
    assert!(again.id != old.id && again.id != new.id);
}
