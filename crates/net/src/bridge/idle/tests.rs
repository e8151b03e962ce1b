//! Who makes room for whom.

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Carrier, Exchange};
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::revision::Era;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::*;
use crate::access::Who;
use crate::backend::Backend as _;
use crate::bridge::{Children, PassedOn};
use crate::call::{Call, ReplySink};
use crate::connection::ClientConnection;
use crate::stdio::child::Command;
use crate::upstream::{
    AnswerWaiter, Credential, CredentialRefusal, CredentialUser, Eras, FetchedHeaders, Fetching,
    IdentityDigest, ServerTarget, TokenInjection,
};

/// A server that is never reached, and one face for whom it is in use.
struct Crowd {
    bridge: Arc<Bridge>,
    client: Arc<dyn ReplySink>,
}

impl Crowd {
    fn new(places: usize) -> Self {
        let server = ServerTarget::command(Command::new("true"), Vec::new());
        let bridge = Bridge::new(server, Children::Shared, Arc::default());
        bridge.set_places(places);
        let client = client(&bridge, &Who::default());
        Self { bridge, client }
    }

    /// A client comes, with a header that is passed on.
    fn come(&self, name: &str, tenant: usize) -> Result<Arc<Upstream>, Failure> {
        self.come_as(&Who::new(name), tenant)
    }

    fn come_as(&self, who: &Who, tenant: usize) -> Result<Arc<Upstream>, Failure> {
        let (client, request) = (client(&self.bridge, who), Message::request(&1.into(), "x", None));
        let tenant = HeaderValue::from(tenant);
        let passed = HeaderMap::from_iter([(HeaderName::from_static("x-tenant"), tenant)]);
        let passed = PassedOn { headers: &passed, has_account: false };
        let key = Children::Shared.choose_key(&client, Exchange(0), &request, Era::Legacy, passed);
        let eras = Eras { clients: Era::Legacy, server: Era::Legacy };
        let state = lock(&self.bridge.state);
        if let Some(upstream) = state.connections.get(&key) {
            upstream.touch();
            return Ok(Arc::clone(upstream));
        }
        self.bridge.make_upstream(state, &client, key, eras, &request)
    }

    fn is_there(&self, upstream: &Arc<Upstream>) -> bool {
        lock(&self.bridge.state).connections.values().any(|it| Arc::ptr_eq(it, upstream))
    }
}

fn client(bridge: &Arc<Bridge>, who: &Who) -> Arc<ClientConnection> {
    let backend: Arc<Bridge> = Arc::clone(bridge);
    let client = ClientConnection::new(
        Era::Legacy,
        Carrier::Http,
        backend,
        &Limits::default(),
        Sharing::Shared,
    );
    client.speak_for(who);
    client
}

#[tokio::test]
async fn what_one_principal_passes_on_costs_no_other_a_place() {
    let crowd = Crowd::new(8);
    let bobs = crowd.come("bob", 0).unwrap();
    let adas: Vec<_> = (0..20).map(|tenant| crowd.come("ada", tenant).unwrap()).collect();
    assert!(crowd.is_there(&bobs));
    let left = adas.iter().filter(|it| crowd.is_there(it)).count();
    assert_eq!(left, 2, "a quarter of all");
    assert!(crowd.is_there(&adas[19]) && crowd.is_there(&adas[18]), "her last");
    assert!(Arc::ptr_eq(&bobs, &crowd.come("bob", 0).unwrap()));
}

/// Nobody has looked at the tokens of those who have no name.
#[tokio::test]
async fn who_shows_another_token_is_another_user_of_the_same_principal() {
    let crowd = Crowd::new(8);
    let bobs = crowd.come("bob", 0).unwrap();
    let come = |token: usize| crowd.come_as(&Who::default().marked(format!("\0{token}")), 0);
    let all: Vec<_> = (0..20).map(|token| come(token).unwrap()).collect();
    assert!(all.windows(2).all(|two| !Arc::ptr_eq(&two[0], &two[1])));
    assert_eq!(all.iter().filter(|it| crowd.is_there(it)).count(), 2, "a quarter of all");
    assert!(crowd.is_there(&bobs));
}

#[tokio::test]
async fn whoever_uses_most_is_refused_before_others_have_no_place() {
    let crowd = Crowd::new(8);
    let come = |name: &str, tenant| {
        let upstream = crowd.come(name, tenant)?;
        upstream.attach(&crowd.client);
        Ok(upstream)
    };
    let adas: Result<Vec<_>, Failure> = (0..6).map(|tenant| come("ada", tenant)).collect();
    let adas = adas.unwrap();
    assert_eq!(come("ada", 6).err(), Some(Refusal::TooManySessions.into()));
    let _bobs = [come("bob", 0).unwrap(), come("bob", 1).unwrap()];
    assert_eq!(come("bob", 2).err(), Some(Refusal::TooManySessions.into()), "all are in use");
    assert!(adas.iter().all(|it| crowd.is_there(it)));
}

#[tokio::test]
async fn where_all_places_are_taken_whoever_has_most_gives_one() {
    let crowd = Crowd::new(8);
    let names = ["ada", "bob", "eve", "kim"];
    let all: Vec<_> =
        names.iter().flat_map(|name| [crowd.come(name, 0), crowd.come(name, 1)]).collect();
    let all: Vec<_> = all.into_iter().map(Result::unwrap).collect();
    let rays = crowd.come("ray", 0).unwrap();
    let gone: Vec<_> = (0..8).filter(|&it| !crowd.is_there(&all[it])).collect();
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert_eq!(gone[0] % 2, 0, "the older of the two");
    assert!(crowd.is_there(&rays));
    // Who has as many as anybody makes room for itself.
    crowd.come("ray", 1).unwrap();
    crowd.come("ray", 2).unwrap();
    assert!(!crowd.is_there(&rays));
}

#[tokio::test]
async fn users_with_accounts_share_no_connection() {
    // wire: OU-1
    for children in [Children::Shared, Children::PerUser, Children::PerSession, Children::Pool(2)] {
        let server = ServerTarget::command(Command::new("true"), Vec::new());
        let server = server.injecting(
            Arc::new(OneToken(Mutex::new("a"), None)),
            TokenInjection::Env("TOKEN".to_owned()),
        );
        let bridge = Bridge::new(server, children, Arc::default());
        assert!(!bridge.is_common(), "{children:?}");
        bridge.fill_pool();
        assert!(lock(&bridge.state).pool.is_empty(), "nothing is started ahead: {children:?}");
        let request = Message::request(&1.into(), "x", None);
        let come = |name: &str| {
            let client = client(&bridge, &Who::new(name));
            let key = bridge.choose_key(&client, Exchange(0), &request);
            let eras = Eras { clients: Era::Legacy, server: Era::Legacy };
            let state = lock(&bridge.state);
            assert!(!state.connections.contains_key(&key), "{children:?}");
            bridge.make_upstream(state, &client, key, eras, &request).unwrap()
        };
        let (ada, bob) = (come("ada"), come("bob"));
        assert!(!ada.server().is_for_same_user(bob.server()), "{children:?}");
        bridge.evict_user("ada");
        assert_eq!(lock(&bridge.state).connections.len(), 1, "{children:?}");
        bridge.close().await;
    }
}

/// Everybody has this token, until then.
struct OneToken(Mutex<&'static str>, Option<Instant>);

impl Credential for OneToken {
    fn passes(&self) -> &[HeaderName] {
        &[]
    }

    fn has_accounts(&self) -> bool {
        true
    }

    fn digest(&self, _: CredentialUser<'_>, _: &mut IdentityDigest) {}

    fn headers<'c>(
        &'c self,
        _: CredentialUser<'c>,
        _: Option<&'c CredentialRefusal>,
    ) -> Fetching<'c> {
        let token = HeaderValue::from_str(&format!("Bearer {}", lock(&self.0)));
        let headers = HeaderMap::from_iter([(AUTHORIZATION, token.expect("a word"))]);
        let found = FetchedHeaders { until: self.1, ..headers.into() };
        Box::pin(std::future::ready(Ok(Some(found))))
    }
}

/// Says which token it was given; does not answer what is slow.
const TELLS_TOKEN: &str = r#"exec sed -u -e '/slow/d' -e '/listen/d' -e \
    's/.*"id":\([0-9]*\).*/{"jsonrpc":"2.0","id":\1,"result":{"token":"'$TOKEN'"}}/'"#;

/// A process that tells the token of ada, and her client.
struct TokenProcess {
    bridge: Arc<Bridge>,
    credential: Arc<OneToken>,
    ada: Arc<ClientConnection>,
}

impl TokenProcess {
    /// Its token is good until then.
    fn new(until: Option<Instant>) -> Self {
        let credential = Arc::new(OneToken(Mutex::new("one"), until));
        let command = Command::new("sh").args(["-c", TELLS_TOKEN]);
        let path = std::env::vars_os().filter(|(name, _)| name == "PATH").collect();
        let shown: Arc<OneToken> = Arc::clone(&credential);
        let server = ServerTarget::command(command, path)
            .injecting(shown, TokenInjection::Env("TOKEN".to_owned()))
            .speaking(Era::Modern);
        let bridge = Bridge::new(server, Children::PerUser, Arc::default());
        let (backend, limits): (Arc<Bridge>, _) = (Arc::clone(&bridge), Limits::default());
        let ada =
            ClientConnection::new(Era::Modern, Carrier::Http, backend, &limits, Sharing::Alone);
        ada.speak_for(&Who::new("ada"));
        Self { bridge, credential, ada }
    }

    fn open(&self, exchange: u64, method: &str) -> (Call, oneshot::Receiver<Outcome>) {
        let (waiter, answer) = AnswerWaiter::standing_in_for(&self.ada);
        let call = Call::new(waiter, Exchange(exchange));
        let params = br#"{"notifications":{"toolsListChanged":true}}"#;
        let request = Message::request(&1.into(), method, Some(params));
        self.bridge.open(&self.ada, &call, request, None).detach();
        (call, answer)
    }

    /// What the process says of its token.
    async fn token(&self, exchange: u64) -> Bytes {
        match self.open(exchange, "x").1.await {
            Ok(Outcome::Answered(answer)) => answer.text().clone(),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_process_whose_token_is_over_ends_though_a_client_listens() {
    // wire: OU-13
    let process = TokenProcess::new(Some(Instant::now()));
    let (_listen, heard) = process.open(1, method::LISTEN);
    let ended = tokio::time::timeout(Duration::from_secs(30), heard).await;
    assert!(ended.is_ok(), "the process ends, and the client listens again");
    *lock(&process.credential.0) = "two";
    let token = process.token(2).await;
    assert!(token.windows(5).any(|it| it == b"\"two\""), "{token:?}");
    process.bridge.close().await;
}

#[tokio::test]
async fn a_user_with_another_account_uses_no_process_of_the_old_one() {
    // wire: OU-9, OU-13
    let process = TokenProcess::new(None);
    let (bridge, credential) = (&process.bridge, &process.credential);
    let open = |exchange: u64, method: &str| process.open(exchange, method);
    let token = async |exchange| process.token(exchange).await;
    let has = |text: Bytes, token: &[u8]| text.windows(token.len()).any(|it| it == token);
    let (listen, _) = open(1, method::LISTEN);
    assert!(has(token(2).await, b"\"one\""));
    assert!(!listen.is_over());
    *lock(&credential.0) = "two";
    bridge.evict_user("ada");
    assert!(has(token(3).await, b"\"two\""), "whoever listens does not keep it");
    let (slow, _) = open(4, "slow");
    *lock(&credential.0) = "three";
    bridge.evict_user("ada");
    assert!(has(token(5).await, b"\"three\""));
    assert!(!slow.is_over(), "it is answered by the process that it was made to");
    bridge.close().await;
    assert!(slow.is_over());
}
