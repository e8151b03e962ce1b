//! What goes wrong while a call is parked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_net::access::{AuthDenial, Authenticate, Standing, Who};
use switchboard_net::backend::Backend;
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::server::{Context, Error, Server, Tool};
use switchboard_proto::client::Sharing;
use switchboard_proto::limits::Limits;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use switchboard_testkit::caller::Caller;
use switchboard_testkit::within;
use tokio::sync::mpsc;

use super::{able, bridge_to, host, host_site, text};
use crate::client::{Client, Way, call};
use crate::upstream::caller;

/// Says what came of a call when it is over, however it ends.
struct Gone(mpsc::UnboundedSender<()>);

impl Drop for Gone {
    fn drop(&mut self) {
        _ = self.0.send(());
    }
}

/// A legacy server whose tool asks and waits; each end of a call is told.
fn asking() -> (Arc<Server>, mpsc::UnboundedReceiver<()>) {
    let (told, ends) = mpsc::unbounded_channel();
    let tool = Tool::new("wait").run(move |_: Value, cx: Context| {
        let gone = Gone(told.clone());
        async move {
            let _gone = gone;
            let roots = cx.roots().await?;
            Ok::<_, Error>(format!("{}", roots.len()))
        }
    });
    let legacy: Vec<_> = Revision::ALL.into_iter().filter(|it| it.era() == Era::Legacy).collect();
    (Server::builder("far", "1").only(&legacy).tool(tool).build().unwrap(), ends)
}

/// Lets everybody in by the name that they say. Who holds this is somebody still there.
#[derive(Clone, Debug, Default)]
struct Names(Arc<Open>);

/// How many calls are open.
#[derive(Debug, Default)]
struct Open(AtomicUsize);

impl Authenticate for Names {
    fn authenticate(&self, headers: &HeaderMap) -> Result<Who, AuthDenial> {
        let name = headers.get("x-name").and_then(|name| name.to_str().ok());
        Ok(Who::with(name.unwrap_or_default(), Arc::<Open>::clone(&self.0)))
    }
}

impl Standing for Open {
    fn begin_call(&self, _: Instant) -> Result<(), Refusal> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn end_call(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), waits).await.unwrap_or_else(|_| panic!("{what}"));
}

/// A thousand calls in all, of five people over HTTP and of one client on a pipe.
///
/// wire: GW-46, GW-52
#[tokio::test(flavor = "multi_thread")]
async fn calls_whose_client_does_not_come_back_expire_and_nothing_is_left() {
    const PEOPLE: [&str; 5] = ["ann", "bob", "cid", "dee", "eve"];
    const OF_EACH: usize = 100;
    const OF_PIPE: usize = 500;
    let many = Limits { asks: 2 * OF_PIPE, ..Limits::default() };
    let limits = Arc::new(Limits { park: Duration::from_millis(500), ..many.clone() });
    let (server, mut ends) = asking();
    let options = SiteOptions::default().limits(many);
    let far = Site::new(server as Arc<dyn Backend>, options);
    let bridge = bridge_to(host_site(far.clone()).await, Arc::clone(&limits));
    let names = Names::default();
    let gate: Option<Arc<dyn Authenticate>> = Some(Arc::new(names.clone()));
    let options = SiteOptions::default().authenticator(gate).limits(Arc::clone(&limits));
    let near = Site::new(Arc::clone(&bridge) as Arc<dyn Backend>, options);
    let nobody = Arc::strong_count(&names.0);

    let client = Client::modern(Way::Direct(near.clone()));
    let mut message = call(1, "wait");
    message["params"] = able(json!({"name": "wait"}));
    let ask = async |name: &str, message: &Value| -> Value {
        let request = client.posting(message).header("x-name", name);
        let reply = client.send(request, message.to_string()).await;
        match reply.header("content-type") {
            Some("text/event-stream") => reply.messages().await.pop().expect("an answer"),
            _ => reply.json().await,
        }
    };
    let calls = PEOPLE.iter().flat_map(|name| (0..OF_EACH).map(move |_| name));
    let calls = join_all(calls.map(|name| ask(name, &message)));
    let mut pipe = Caller::new(Arc::clone(&bridge) as Arc<dyn Backend>, Sharing::Alone, limits);
    let by_stdin = async {
        let mut ids = Vec::new();
        for _ in 0..OF_PIPE {
            ids.push(pipe.ask("tools/call", able(json!({"name": "wait"}))).await);
        }
        let mut asked = Vec::new();
        for id in ids {
            asked.push(pipe.answer(id).await);
        }
        asked
    };
    let (of_people, of_pipe) = tokio::join!(calls, by_stdin);
    for asked in of_people.iter().chain(&of_pipe) {
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    }
    assert_eq!(far.sessions(), PEOPLE.len() + 1, "each has a session at the server");
    for _ in 0..PEOPLE.len() * OF_EACH + OF_PIPE {
        within(ends.recv()).await.expect("the server was told");
    }

    let mut late = able(json!({"name": "wait", "inputResponses": {}}));
    late["requestState"] = of_pipe[0]["result"]["requestState"].clone();
    assert_eq!(pipe.call("tools/call", late).await["error"]["code"], -32602);
    message["params"]["requestState"] = of_people[0]["result"]["requestState"].clone();
    assert_eq!(ask("ann", &message).await["error"]["code"], -32602);
    until("calls at the server", || bridge.calls() == 0).await;
    until("parked calls", || near.parked() == 0).await;
    until("turns of people", || names.0.0.load(Ordering::SeqCst) == 0).await;
    // The session of each at the server outlives its calls, and knows whom it is for.
    let sessions = nobody + PEOPLE.len();
    until("faces of people", || Arc::strong_count(&names.0) == sessions).await;
    pipe.leave().await;
    until("the connection of the pipe", || bridge.connections() == PEOPLE.len()).await;
    within(bridge.close()).await;
    assert_eq!((bridge.connections(), bridge.unsent()), (0, 0));
    until("sessions at the server", || far.sessions() == 0).await;
}

/// wire: GW-46
#[tokio::test]
async fn a_client_that_leaves_takes_its_parked_calls_with_it() {
    let (server, mut ends) = asking();
    let limits = Arc::new(Limits::default());
    let far = host(server as Arc<dyn Backend>, Arc::clone(&limits)).await;
    let bridge = bridge_to(far, limits);
    let mut client = caller(&bridge);
    let asked = client.call("tools/call", able(json!({"name": "wait"}))).await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    client.leave().await;
    within(ends.recv()).await.expect("the server was told");
    within(bridge.close()).await;
}

/// wire: GW-45
#[tokio::test]
async fn a_call_that_ends_while_its_client_is_away_is_answered_when_it_comes_back() {
    let (told, mut tell) = mpsc::unbounded_channel();
    let tool = Tool::new("hasty").run(move |_: Value, cx: Context| {
        let told = told.clone();
        async move {
            // It does not wait for the answer.
            _ = tokio::time::timeout(Duration::from_millis(50), cx.roots()).await;
            _ = told.send(());
            "done without it"
        }
    });
    let legacy: Vec<_> = Revision::ALL.into_iter().filter(|it| it.era() == Era::Legacy).collect();
    let server = Server::builder("far", "1").only(&legacy).tool(tool).build().unwrap();
    let limits = Arc::new(Limits::default());
    let far = host(server as Arc<dyn Backend>, Arc::clone(&limits)).await;
    let bridge = bridge_to(far, limits);
    let mut client = caller(&bridge);
    let asked = client.call("tools/call", able(json!({"name": "hasty"}))).await;
    within(tell.recv()).await.unwrap();
    let mut retry = able(json!({"name": "hasty", "inputResponses": {"q1": {"roots": []}}}));
    retry["requestState"] = asked["result"]["requestState"].clone();
    assert_eq!(text(&client.call("tools/call", retry).await), "done without it");
}

/// wire: GW-28, GW-46
#[tokio::test]
async fn a_server_that_cannot_be_reached_says_so_in_every_era() {
    let nowhere: http::Uri = "http://127.0.0.1:1/mcp".parse().unwrap();
    let bridge = bridge_to(nowhere, Arc::new(Limits::default()));
    let mut client = caller(&bridge);
    let modern = client.call("tools/list", able(json!({}))).await;
    assert_eq!(modern["error"]["code"], -32603, "{modern}");
    let id = client.begin_greeting().await;
    assert_eq!(client.answer(id).await["error"]["code"], -32603);
}
