//! A gate before a site: who has what open, on every transport.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use switchboard_net::access::{AuthDenial, Authenticate, Standing, Who};
use switchboard_net::http::site::SiteOptions;
use switchboard_proto::refusal::Refusal;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::{NEVER, Set, start};
use crate::client::{Client, LEGACY, Reply, Way, call, enveloped, initialize, initialized};
use switchboard_testkit::within;

/// Lets everybody in who says a name, with at most two calls and two sessions each.
#[derive(Debug, Default)]
pub(super) struct Names {
    seen: Mutex<Vec<(String, Arc<Counts>)>>,
    is_closed: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    calls: AtomicUsize,
    sessions: AtomicUsize,
    /// What lets them in is gone, just after they came in.
    is_gone: AtomicBool,
}

impl Counts {
    pub(super) fn open(&self) -> (usize, usize) {
        (self.calls.load(Ordering::SeqCst), self.sessions.load(Ordering::SeqCst))
    }
}

fn take(count: &AtomicUsize, full: Refusal) -> Result<(), Refusal> {
    let one_more = |open| (open < 2).then_some(open + 1);
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).map(drop).map_err(|_| full)
}

impl Standing for Counts {
    fn begin_call(&self, _: Instant) -> Result<(), Refusal> {
        take(&self.calls, Refusal::TooOften { wait: Duration::from_secs(7) })
    }

    fn end_call(&self) {
        self.calls.fetch_sub(1, Ordering::SeqCst);
    }

    fn begin_session(&self) -> Result<(), Refusal> {
        take(&self.sessions, Refusal::TooManySessions)
    }

    fn end_session(&self) {
        self.sessions.fetch_sub(1, Ordering::SeqCst);
    }

    fn is_current(&self) -> bool {
        !self.is_gone.load(Ordering::SeqCst)
    }
}

impl Names {
    pub(super) fn of(&self, name: &str) -> Arc<Counts> {
        let mut seen = self.seen.lock().unwrap();
        if let Some((_, counts)) = seen.iter().find(|(known, _)| known == name) {
            return Arc::clone(counts);
        }
        let counts = Arc::new(Counts::default());
        seen.push((name.to_owned(), Arc::clone(&counts)));
        counts
    }
}

impl Authenticate for Names {
    fn authenticate(&self, headers: &HeaderMap) -> Result<Who, AuthDenial> {
        let name = headers.get("x-name").and_then(|value| value.to_str().ok());
        let unknown = || AuthDenial::unknown(HeaderValue::from_static("Bearer"), "say your name");
        let name = name.ok_or_else(unknown)?;
        Ok(Who::with(name, self.of(name)))
    }

    fn keeps(&self, who: &Who) -> bool {
        who.name() != "bob" || !self.is_closed.load(Ordering::SeqCst)
    }
}

async fn gated() -> (Set, Arc<Names>) {
    let names = Arc::new(Names::default());
    let gate: Option<Arc<dyn Authenticate>> = Some(Arc::clone(&names) as _);
    let ws_path = "/ws".to_owned();
    let options = SiteOptions::default().authenticator(gate).ws_path(ws_path).keep_alive(NEVER);
    (start(options).await, names)
}

pub(super) async fn post(client: &Client, name: &str, message: &Value) -> Reply {
    let request = client.posting(message).header("x-name", name);
    client.send(request, message.to_string()).await
}

pub(super) async fn greeted(set: &mut Set, name: &str) -> Client {
    let mut client = Client::new(set.way.clone());
    let welcome = post(&client, name, &initialize(LEGACY)).await;
    client.session = welcome.header("mcp-session-id").map(ToOwned::to_owned);
    client.version = Some(LEGACY);
    assert_eq!(post(&client, name, &initialized()).await.status, 202);
    set.stage.noted().await;
    client
}

#[tokio::test]
async fn a_call_has_its_turn_until_it_is_answered_even_if_its_client_hung_up() {
    let (mut set, names) = gated().await;
    let client = greeted(&mut set, "ann").await;
    let counts = names.of("ann");
    let gone = {
        let (client, message) = (client.clone(), call(1, "slow"));
        tokio::spawn(async move { post(&client, "ann", &message).await.status })
    };
    let slow = set.stage.call().await;
    gone.abort();
    _ = gone.await;
    assert_eq!(counts.open(), (1, 1), "the server still works for it");
    let other = {
        let (client, message) = (client.clone(), call(2, "other"));
        tokio::spawn(async move { post(&client, "ann", &message).await.status })
    };
    let second = set.stage.call().await;
    let refused = post(&client, "ann", &call(3, "third")).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, Some("7")));
    assert_eq!(refused.json().await["id"], 3);
    slow.finish(&json!({}));
    assert_eq!(counts.open().0, 1, "answered, whoever reads it");
    second.finish(&json!({}));
    assert_eq!(within(other).await.unwrap(), 200);
    assert_eq!(counts.open(), (0, 1));
    set.stopped().await;
    assert_eq!(counts.open(), (0, 0));
}

#[tokio::test]
async fn a_modern_request_that_nobody_waits_for_gives_its_turn_back() {
    let (mut set, names) = gated().await;
    let client = Client::modern(set.way.clone());
    let message = enveloped(call(1, "slow"));
    let gone = {
        let client = client.clone();
        tokio::spawn(async move { post(&client, "ann", &message).await.status })
    };
    set.stage.call().await;
    assert_eq!(names.of("ann").open(), (1, 0));
    gone.abort();
    set.stage.dropped().await;
    let counts = names.of("ann");
    within(async {
        while counts.open() != (0, 0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    set.stopped().await;
}

#[tokio::test]
async fn a_socket_counts_as_a_session_and_its_calls_as_calls() {
    let (mut set, names) = gated().await;
    let Way::Socket(address) = set.way.clone() else { panic!("no port") };
    let open = async |name: &'static str| {
        let mut request = format!("ws://{address}/ws").into_client_request().unwrap();
        request.headers_mut().insert("x-name", HeaderValue::from_static(name));
        let stream = TcpStream::connect(address).await.unwrap();
        within(tokio_tungstenite::client_async(request, stream)).await.map(|(socket, _)| socket)
    };
    let (mut socket, second) = (open("bob").await.unwrap(), open("bob").await.unwrap());
    assert!(open("bob").await.is_err(), "two are open");
    for message in [initialize(LEGACY), initialized(), call(1, "a"), call(2, "b"), call(3, "c")] {
        within(socket.send(Message::text(message.to_string()))).await.unwrap();
    }
    set.stage.noted().await;
    let (_first, _second) = (set.stage.call().await, set.stage.call().await);
    let mut told = Vec::new();
    while told.len() < 2 {
        let next = within(socket.next()).await.unwrap().unwrap();
        told.push(serde_json::from_str::<Value>(next.to_text().unwrap()).unwrap());
    }
    let refused = told.iter().find(|message| message["id"] == 3).unwrap();
    assert!(refused["error"]["message"].as_str().unwrap().contains("too many"), "{refused}");
    assert_eq!(names.of("bob").open(), (2, 2));
    names.is_closed.store(true, Ordering::SeqCst);
    set.site.recheck();
    within(async { while let Some(Ok(_)) = socket.next().await {} }).await;
    drop((socket, second));
    within(set.site.sockets_closed()).await;
    assert_eq!(names.of("bob").open(), (0, 0));
    set.stopped().await;
}

#[tokio::test]
async fn who_is_not_kept_has_to_leave_and_the_others_stay() {
    let (mut set, names) = gated().await;
    let (ann, bob) = (greeted(&mut set, "ann").await, greeted(&mut set, "bob").await);
    assert_eq!(post(&bob, "ann", &call(1, "x")).await.status, 404, "it is bob's");
    names.is_closed.store(true, Ordering::SeqCst);
    set.site.recheck();
    assert_eq!(set.site.sessions(), 1);
    assert_eq!(post(&bob, "bob", &call(1, "x")).await.status, 401, "his key opens nothing");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(post(&ann, "ann", &ping).await.status, 200);
    assert_eq!(names.of("bob").open(), (0, 0));
    set.stopped().await;
}

/// Between the gate and the end of a body a key may be removed.
#[tokio::test]
async fn what_begins_while_its_key_is_removed_calls_nothing() {
    let (mut set, names) = gated().await;
    names.of("bob").is_gone.store(true, Ordering::SeqCst);
    let client = Client::modern(set.way.clone());
    let answer = post(&client, "bob", &enveloped(call(1, "slow"))).await;
    let answer = answer.json().await;
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("key"), "{answer}");
    assert!(set.stage.is_silent(), "the call is not made");
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let listen =
        json!({"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": wanted});
    let listened = post(&client, "bob", &enveloped(listen)).await;
    within(listened.text()).await;
    let Way::Socket(address) = set.way.clone() else { panic!("no port") };
    let mut request = format!("ws://{address}/ws").into_client_request().unwrap();
    request.headers_mut().insert("x-name", HeaderValue::from_static("bob"));
    let stream = TcpStream::connect(address).await.unwrap();
    assert!(within(tokio_tungstenite::client_async(request, stream)).await.is_err());
    assert_eq!(names.of("bob").open(), (0, 0));
    set.stopped().await;
}
