//! Clients over HTTP, while what they may see changes.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::json;
use switchboard_net::client::{Client, ClientOptions, ListenFilter};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::http::listen::{self, ListenOptions};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{ServerTarget, Strategy, Target};
use switchboard_testkit::within;
use tokio::net::TcpListener;

use super::*;
use crate::fleet::FleetOptions;
use crate::plan::{Plan, ServerPlan};
use crate::policy::{Access, KeyHash, Principal};
use front::SERVER;

pub(crate) mod front;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Two servers, each with the tool `t`.
fn fleet() -> Arc<Fleet> {
    let command = Command::new("sh").args(&["-c".to_owned(), SERVER.to_owned()]);
    let target = || Target::Command(command.clone());
    let servers = ["a", "b"].map(|name| (name.to_owned(), ServerPlan::new(name, target())));
    let plan = Plan { servers: servers.into(), ..Plan::default() };
    let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
    let environment: Vec<_> = path.into_iter().collect();
    let server = move |_: &ServerPlan| ServerTarget::command(command.clone(), environment.clone());
    Fleet::start(&plan, FleetOptions::default(), server).unwrap()
}

/// `ada` and `bob` may use these servers, each by a key of the same name.
fn access(ada: Option<&[&str]>, bob: &[&str]) -> Access {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut principals = Vec::new();
    for (name, servers) in [("ada", ada), ("bob", Some(bob))] {
        let Some(servers) = servers else { continue };
        let keys = vec![KeyHash::compute(name.as_bytes())];
        let mut principal = Principal { name: name.to_owned(), keys, ..Principal::default() };
        principal.grant.servers = Some(list(servers));
        principals.push(Arc::new(principal));
    }
    Access { principals, anonymous: None, tokens: None }
}

struct Place {
    fleet: Arc<Fleet>,
    authenticator: Arc<Authenticator>,
    address: std::net::SocketAddr,
    _hearing: Hearing,
}

async fn open(access: Access) -> Place {
    let fleet = fleet();
    let authenticator = Authenticator::new(access, 100);
    let views = Views::new(&fleet, fleet.names(), None, &authenticator);
    let gate = Some(authenticator.gate(Some(crate::gateway::Place::All)));
    let site = Site::new(views, SiteOptions::default().authenticator(gate));
    let again = site.clone();
    let hearing = authenticator.on_replace(move || again.recheck());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(listen::serve(listener, site, ListenOptions::default(), std::future::pending()));
    within(fleet.roster.ready()).await;
    Place { fleet, authenticator, address, _hearing: hearing }
}

impl Place {
    async fn client(&self, key: &str, era: Era) -> Client {
        let headers =
            HeaderMap::from_iter([(AUTHORIZATION, format!("Bearer {key}").parse().unwrap())]);
        let url = format!("http://{}/mcp", self.address).parse().unwrap();
        let fetch = Fetch::new(FetchOptions::default()).unwrap();
        let server = ServerTarget::url(url, Strategy::HttpOnly, headers, fetch);
        let options = ClientOptions::default().era(era);
        within(options.connect(server)).await.unwrap()
    }
}

/// The tools that a client sees, and what comes of calling each there may be.
async fn seen(client: &Client) -> String {
    let tools = within(client.tools()).await.unwrap();
    let mut seen: Vec<_> =
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    for tool in ["a__t", "b__t"] {
        let failed = within(client.call_tool(tool, json!({}))).await.unwrap_err().to_string();
        // The servers answer every call with an error of their own.
        seen.push(if failed.contains("Unknown tool") { "-" } else { "+" }.to_owned());
    }
    seen.join(" ")
}

#[tokio::test]
async fn who_may_see_something_else_sees_it_in_the_session_that_is_open() {
    let place = open(access(Some(&["a"]), &["b"])).await;
    for era in ERAS {
        place.authenticator.replace(access(Some(&["a"]), &["b"]));
        let ada = place.client("ada", era).await;
        let bob = place.client("bob", era).await;
        assert_eq!((seen(&ada).await, seen(&bob).await), ("a__t + -".into(), "b__t - +".into()));
        let filter = ListenFilter { tools: true, ..ListenFilter::default() };
        let mut listening = within(ada.listen(filter)).await.unwrap();
        place.authenticator.replace(access(Some(&["a", "b"]), &["b"]));
        if era == Era::Legacy {
            let heard = within(listening.next()).await.unwrap();
            assert_eq!(heard.method, "notifications/tools/list_changed");
        }
        assert_eq!(seen(&ada).await, "a__t b__t + +", "{era:?}");
        place.authenticator.replace(access(Some(&["b"]), &["b"]));
        assert_eq!((seen(&ada).await, seen(&bob).await), ("b__t - +".into(), "b__t - +".into()));
    }
    place.fleet.close().await;
}

#[tokio::test]
async fn a_key_that_is_taken_away_works_no_more_and_others_go_on() {
    for era in ERAS {
        let place = open(access(Some(&["a"]), &["b"])).await;
        let (ada, bob) = (place.client("ada", era).await, place.client("bob", era).await);
        assert_eq!((seen(&ada).await, seen(&bob).await), ("a__t + -".into(), "b__t - +".into()));
        let filter = ListenFilter { tools: true, ..ListenFilter::default() };
        let _listening = within(ada.listen(filter)).await.unwrap();
        assert!(place.authenticator.sessions() > 0, "{era:?}");
        place.authenticator.replace(access(None, &["b"]));
        let left = usize::from(era == Era::Legacy);
        assert_eq!(place.authenticator.sessions(), left, "{era:?}: what is left is bob's");
        assert!(within(ada.request("tools/list", json!({}))).await.is_err(), "{era:?}");
        assert_eq!(seen(&bob).await, "b__t - +", "{era:?}");
        let open: Vec<_> =
            place.authenticator.counts().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(open, [Arc::<str>::from("bob")]);
        place.fleet.close().await;
    }
}
