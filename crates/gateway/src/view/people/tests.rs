//! Two people before a server that shows each of them something else.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use switchboard_net::bridge::Children;
use switchboard_net::client::{Client, ClientOptions, ListenFilter};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::http::listen::{self, ListenOptions};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{ServerTarget, Strategy, Target};
use switchboard_proto::revision::Era;
use switchboard_testkit::within;
use tokio::net::TcpListener;

use super::*;
use crate::authenticator::Authenticator;
use crate::fleet::{Fleet, FleetOptions};
use crate::plan::{Edit, Plan, ServerPlan, ToolSearch};
use crate::policy::{Access, KeyHash, Principal};
use crate::view::tests::front::SERVER;
use house::House;

mod crowd;
mod house;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// A gateway in front of a house and of a server that is the same for all.
struct Place {
    house: Arc<House>,
    fleet: Arc<Fleet>,
    views: Arc<Views>,
    address: SocketAddr,
}

fn fetch() -> Fetch {
    Fetch::new(FetchOptions::default()).unwrap()
}

/// `ada` and `bob`, each with a key of the same name.
fn access() -> Access {
    let principal = |name: &str| {
        let keys = vec![KeyHash::compute(name.as_bytes())];
        Arc::new(Principal { name: name.to_owned(), keys, ..Principal::default() })
    };
    Access { principals: ["ada", "bob"].map(principal).into(), anonymous: None, tokens: None }
}

fn plan(house: SocketAddr) -> Plan {
    let command = Command::new("sh").args(&["-c".to_owned(), SERVER.to_owned()]);
    let url = format!("http://{house}/mcp").parse().unwrap();
    let target = Target::Url { url, strategy: Strategy::HttpOnly, headers: HeaderMap::new() };
    let mut house = ServerPlan::new("house", target);
    house.process = Children::Shared;
    house.credentials.pass = vec![HeaderName::from_static("x-tenant")];
    let all = ServerPlan::new("all", Target::Command(command));
    let servers = [all, house].map(|plan| (plan.name.clone(), plan));
    Plan { servers: servers.into(), ..Plan::default() }
}

async fn open(
    era: Era,
    ttl: Option<u64>,
    bounds: PersonBounds,
    edit: impl FnOnce(&mut Plan),
) -> Place {
    let (house, address) = House::open(era, ttl).await;
    let mut plan = plan(address);
    edit(&mut plan);
    let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
    let environment: Vec<_> = path.into_iter().collect();
    let server = move |plan: &ServerPlan| plan.server(environment.clone(), fetch(), None);
    let options = FleetOptions { people: bounds, ..FleetOptions::default() };
    let fleet = Fleet::start(&plan, options, server).unwrap();
    let authenticator = Authenticator::new(access(), 100);
    let views = Views::new(&fleet, fleet.names(), None, &authenticator);
    let backend = Arc::clone(&views);
    let gate = Some(authenticator.gate(Some(crate::gateway::Place::All)));
    let site = Site::new(backend, SiteOptions::default().authenticator(gate));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(listen::serve(listener, site, ListenOptions::default(), std::future::pending()));
    let mut changes = fleet.roster.changes();
    while plan.servers.contains_key("all") && !fleet.roster.is_ready("all") {
        within(changes.next()).await.unwrap();
    }
    Place { house, fleet, views, address }
}

async fn usual(era: Era) -> Place {
    open(era, None, PersonBounds::default(), |_| {}).await
}

impl Place {
    async fn client(&self, key: &str, tenant: &str, options: ClientOptions) -> Client {
        let headers = HeaderMap::from_iter([
            (HeaderName::from_static("x-api-key"), HeaderValue::from_str(key).unwrap()),
            (HeaderName::from_static("x-tenant"), HeaderValue::from_str(tenant).unwrap()),
        ]);
        let url = format!("http://{}/mcp", self.address).parse().unwrap();
        let server = ServerTarget::url(url, Strategy::HttpOnly, headers, fetch());
        within(options.connect(server)).await.unwrap()
    }

    /// Ada, who is red, and bob, who is blue.
    async fn both(&self, era: Era) -> [Client; 2] {
        let options = || ClientOptions::default().era(era);
        [self.client("ada", "red", options()).await, self.client("bob", "blue", options()).await]
    }
}

async fn names(client: &Client) -> Vec<String> {
    let tools = within(client.tools()).await.unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Lists until they are these.
async fn until_listed(client: &Client, expected: &[&str]) {
    within(async {
        while names(client).await != expected {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// wire: CACHE-3
#[tokio::test]
async fn each_sees_and_calls_what_is_theirs_although_we_are_not_let_in_ourselves() {
    for (server, era) in [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(s, c)| (ERAS[s], ERAS[c])) {
        let place = usual(server).await;
        let [ada, bob] = place.both(era).await;
        until_listed(&ada, &["all__t", "house__red"]).await;
        until_listed(&bob, &["all__t", "house__blue"]).await;
        for (client, own, other) in [(&ada, "red", "blue"), (&bob, "blue", "red")] {
            let called = within(client.call_tool(&format!("house__{own}"), json!({}))).await;
            let called = called.unwrap();
            assert_eq!(text(&called), format!("{own} of {own}"), "{server:?}, {era:?}");
            let called = within(client.call_tool(&format!("house__{other}"), json!({}))).await;
            assert_eq!(called.unwrap()["isError"], true, "{server:?}, {era:?}");
            let list = within(client.request("tools/list", json!({}))).await.unwrap();
            assert_eq!(list["_meta"].get("switchboard/deferred"), None, "{list}");
        }
        let states = place.fleet.states();
        let (_, state) = states.iter().find(|(name, _)| &**name == "house").unwrap();
        assert!(place.fleet.is_open_to_people("house", state), "{state:?}");
        assert_eq!(place.fleet.ready_people("house"), Some(2));
        assert!(place.fleet.has_tool("house", "red"));
        assert!(!place.fleet.has_tool("house", "green"));
        place.fleet.close().await;
    }
}

#[tokio::test]
async fn a_change_for_one_is_told_to_that_one_alone() {
    for (server, era) in [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(s, c)| (ERAS[s], ERAS[c])) {
        let place = usual(server).await;
        let told = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&told);
        let options = ClientOptions::default().era(era);
        let ada = place.client("ada", "red", options.clone()).await;
        let options = options.on_notification(move |_| _ = counts.fetch_add(1, Ordering::SeqCst));
        let bob = place.client("bob", "blue", options).await;
        until_listed(&ada, &["all__t", "house__red"]).await;
        until_listed(&bob, &["all__t", "house__blue"]).await;
        let filter = || ListenFilter { tools: true, ..ListenFilter::default() };
        let mut listening = within(ada.listen(filter())).await.unwrap();
        let _bobs = within(bob.listen(filter())).await.unwrap();
        let before = told.load(Ordering::SeqCst);
        place.house.change("red", &["red", "rose"]);
        // Until those who listen at the house on ada's behalf do.
        let heard = within(async {
            loop {
                place.house.tell("red");
                let next = tokio::time::timeout(Duration::from_millis(100), listening.next());
                if let Ok(heard) = next.await {
                    return heard.unwrap();
                }
            }
        });
        assert_eq!(heard.await.method, "notifications/tools/list_changed");
        assert_eq!(names(&ada).await, ["all__t", "house__red", "house__rose"]);
        assert_eq!(names(&bob).await, ["all__t", "house__blue"]);
        assert_eq!(told.load(Ordering::SeqCst), before, "{server:?}, {era:?}");
        place.fleet.close().await;
    }
}

/// A house that says how long its lists may be kept, and nothing more.
async fn silent(ttl: u64) -> (Place, Client) {
    let edit = |plan: &mut Plan| _ = plan.servers.remove("all");
    let place = open(Era::Modern, Some(ttl), PersonBounds::default(), edit).await;
    let [ada, bob] = place.both(Era::Modern).await;
    until_listed(&ada, &["house__red"]).await;
    until_listed(&bob, &["house__blue"]).await;
    (place, ada)
}

/// wire: CACHE-2, CACHE-3
#[tokio::test]
async fn a_list_is_kept_for_each_as_long_as_its_server_says() {
    let (place, ada) = silent(60_000).await;
    place.house.change("red", &["ruby"]);
    assert_eq!(names(&ada).await, ["house__red"]);
    let list = within(ada.request("tools/list", json!({}))).await.unwrap();
    let left = list["ttlMs"].as_u64().unwrap();
    assert!(left > 0 && left <= 60_000, "{list}");
    assert_eq!(list["cacheScope"], "private", "whatever its server says");
    let reads = ["red", "blue"].map(|tenant| place.house.reads(tenant));
    assert_eq!(reads, [1, 1], "each was asked once for each");
    place.fleet.close().await;
}

/// wire: CACHE-5
#[tokio::test]
async fn a_list_that_is_too_old_is_shown_while_it_is_read_again() {
    let (place, ada) = silent(0).await;
    place.house.change("red", &["ruby"]);
    place.house.shut(true);
    let asked_again = async {
        while place.house.reads("red") == 1 {
            assert_eq!(names(&ada).await, ["house__red"]);
        }
    };
    within(asked_again).await;
    assert_eq!(names(&ada).await, ["house__red"], "nobody waits for it");
    place.house.shut(false);
    until_listed(&ada, &["house__ruby"]).await;
    assert_eq!(place.house.reads("blue"), 1, "nobody has asked for bob's");
    place.fleet.close().await;
}

#[tokio::test]
async fn who_calls_without_having_listed_is_understood() {
    for era in ERAS {
        let place = open(Era::Legacy, None, PersonBounds::default(), |plan| {
            let house = plan.servers.get_mut("house").unwrap();
            let name = Some("paint".to_owned());
            house.tool_edits.insert("red".to_owned(), Edit { name, ..Edit::default() });
        });
        let place = place.await;
        place.house.shut(true);
        let options = ClientOptions::default().era(era);
        let ada = place.client("ada", "red", options).await;
        let list = within(ada.request("tools/list", json!({}))).await.unwrap();
        let late = json!([{"server": "house", "state": "starting", "cached": false}]);
        assert_eq!(list["_meta"]["switchboard/deferred"], late, "{era:?}");
        let filter = ListenFilter { tools: true, ..ListenFilter::default() };
        let mut listening = within(ada.listen(filter)).await.unwrap();

        let call = |client: Client| async move {
            client.call_tool("house__paint", json!({})).await.unwrap()
        };
        let mut calling = tokio::spawn(call(ada.clone()));
        let given_up = tokio::spawn(call(ada.clone()));
        // It waits, while whoever knows better is called.
        let failed = within(ada.call_tool("all__t", json!({}))).await.unwrap_err();
        assert!(failed.to_string().contains("no"), "{failed}");
        let waiting = async |count: usize| {
            let waiting = |front: &Arc<Front>| front.waiting_calls();
            while place.views.each().iter().map(waiting).sum::<usize>() != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(waiting(2)).await;
        given_up.abort();
        within(waiting(1)).await;
        let moment = Duration::from_millis(20);
        assert!(tokio::time::timeout(moment, &mut calling).await.is_err(), "{era:?}");
        place.house.shut(false);
        let result = within(calling).await.unwrap();
        assert_eq!(text(&result), "red of red", "{era:?}");
        assert_eq!(place.house.calls(), 1, "{era:?}: what was given up is not called");
        let heard = within(listening.next()).await.unwrap();
        assert_eq!(heard.method, "notifications/tools/list_changed");
        assert_eq!(names(&ada).await, ["all__t", "house__paint"]);
        place.fleet.close().await;
    }
}

#[tokio::test]
async fn who_searches_finds_what_is_theirs() {
    let place = open(Era::Modern, None, PersonBounds::default(), |plan| {
        plan.search = ToolSearch::Always;
    });
    let place = place.await;
    for era in ERAS {
        for (client, own, other) in place
            .both(era)
            .await
            .iter()
            .zip([("red", "blue"), ("blue", "red")])
            .map(|(c, n)| (c, n.0, n.1))
        {
            let search = json!({"query": format!("{own} {other}")});
            let found = within(async {
                loop {
                    let found = client.call_tool("find_tools", search.clone()).await.unwrap();
                    let found = text(&found).to_owned();
                    if found.contains("house__") {
                        return found;
                    }
                }
            });
            let found = found.await;
            assert!(found.contains(own) && !found.contains(other), "{era:?}: {found}");
            let call = json!({"name": format!("house__{own}")});
            let called = within(client.call_tool("call_tool", call)).await.unwrap();
            assert_eq!(text(&called), format!("{own} of {own}"), "{era:?}");
        }
    }
    place.fleet.close().await;
}

#[tokio::test]
async fn nothing_is_left_of_those_who_are_gone() {
    let idle = Duration::from_millis(100);
    let bounds = PersonBounds { idle, ..PersonBounds::default() };
    let place = open(Era::Legacy, None, bounds, |_| {}).await;
    for era in ERAS {
        let [ada, bob] = place.both(era).await;
        let filter = ListenFilter { tools: true, ..ListenFilter::default() };
        let listening = within(ada.listen(filter)).await.unwrap();
        until_listed(&ada, &["all__t", "house__red"]).await;
        until_listed(&bob, &["all__t", "house__blue"]).await;
        bob.close().await;
        let gone = async |left: usize| {
            while place.views.people() != left || place.fleet.people.count() != left {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within(gone(1)).await;
        // Who listens, or has a session, is here.
        assert_eq!(names(&ada).await, ["all__t", "house__red"]);
        drop(listening);
        ada.close().await;
        within(gone(0)).await;
    }
    place.fleet.close().await;
}

#[tokio::test]
async fn who_was_here_longest_ago_makes_room_for_another() {
    for bounds in [
        PersonBounds { most: 1, ..PersonBounds::default() },
        PersonBounds { bytes: 1, ..PersonBounds::default() },
    ] {
        let place = open(Era::Legacy, None, bounds, |_| {}).await;
        let [ada, bob] = place.both(Era::Modern).await;
        until_listed(&ada, &["all__t", "house__red"]).await;
        until_listed(&bob, &["all__t", "house__blue"]).await;
        assert_eq!(place.views.people(), 1, "{bounds:?}");
        // Who comes again begins anew.
        until_listed(&ada, &["all__t", "house__red"]).await;
        place.fleet.close().await;
    }
}

#[tokio::test]
async fn sessions_live_on_when_a_server_begins_to_tell_people_apart_and_when_it_does_so_no_more() {
    let place = usual(Era::Legacy).await;
    let with = |process: Children| {
        let mut plan = plan(place.address);
        plan.servers.remove("house");
        plan.servers.get_mut("all").unwrap().process = process;
        place.fleet.change(&plan).unwrap();
        place.views.change(&place.fleet.names());
    };
    with(Children::Shared);
    let [ada, _bob] = place.both(Era::Legacy).await;
    until_listed(&ada, &["all__t"]).await;
    assert_eq!(place.views.people(), 0);
    with(Children::PerUser);
    assert_eq!(place.views.people(), 2);
    until_listed(&ada, &["all__t"]).await;
    with(Children::Shared);
    until_listed(&ada, &["all__t"]).await;
    place.fleet.close().await;
}

/// However few calls a server gets at once.
#[tokio::test]
async fn lists_take_no_turn_from_calls_nor_wait_for_one() {
    let place = open(Era::Legacy, None, PersonBounds::default(), |plan| {
        let house = plan.servers.get_mut("house").unwrap();
        house.calls = std::num::NonZeroUsize::MIN;
    });
    let place = place.await;
    let ada = place.client("ada", "red", ClientOptions::default()).await;
    until_listed(&ada, &["all__t", "house__red"]).await;
    place.house.hold(true);
    let calling = tokio::spawn(async move { ada.call_tool("house__red", json!({})).await });
    let is_called = async {
        while place.house.calls() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(is_called).await;
    let bob = place.client("bob", "blue", ClientOptions::default()).await;
    until_listed(&bob, &["all__t", "house__blue"]).await;
    place.house.hold(false);
    let result = within(calling).await.unwrap().unwrap();
    assert_eq!(text(&result), "red of red");
    place.fleet.close().await;
}

#[tokio::test]
async fn what_the_plan_hides_is_hidden_from_each_and_shown_again() {
    for era in ERAS {
        let place = usual(Era::Legacy).await;
        let ada = &place.both(era).await[0];
        until_listed(ada, &["all__t", "house__red"]).await;
        let plan = place
            .fleet
            .running_servers()
            .values()
            .map(|it| ServerPlan::clone(&it.plan))
            .collect::<Vec<_>>();
        let hide = |never: &[&str]| {
            let mut plan = plan.clone();
            let house = plan.iter_mut().find(|plan| plan.name == "house").unwrap();
            house.tools.never = never.iter().map(|name| (*name).to_owned()).collect();
            let servers = plan.into_iter().map(|plan| (plan.name.clone(), plan)).collect();
            place.fleet.change(&Plan { servers, ..Plan::default() }).unwrap();
            place.views.change(&place.fleet.names());
        };
        hide(&["red"]);
        until_listed(ada, &["all__t"]).await;
        place.house.change("red", &["red", "rose"]);
        hide(&["r*d"]);
        until_listed(ada, &["all__t", "house__rose"]).await;
        hide(&[]);
        until_listed(ada, &["all__t", "house__red", "house__rose"]).await;
        place.fleet.close().await;
    }
}
