//! One principal that speaks for many, and another that speaks for one.

use super::*;
use crate::view::people::FOOTPRINT;

fn modern() -> ClientOptions {
    ClientOptions::default().era(Era::Modern)
}

/// Bob, who is blue, has come and has called.
async fn bob(place: &Place) -> Client {
    let bob = place.client("bob", "blue", modern()).await;
    until_listed(&bob, &["all__t", "house__blue"]).await;
    within(bob.call_tool("house__blue", json!({}))).await.unwrap();
    bob
}

/// Ada comes as each of so many tenants, and sees what is that one's.
async fn come_as(place: &Place, count: usize) {
    for tenant in (0..count).map(|number| format!("t{number}")) {
        place.house.change(&tenant, &[&tenant]);
        let ada = place.client("ada", &tenant, modern()).await;
        until_listed(&ada, &["all__t", &format!("house__{tenant}")]).await;
    }
}

/// Nobody but who is kept awake is connected, and nobody else is connected again.
#[tokio::test]
async fn those_who_are_gone_rest_and_their_lists_are_kept() {
    let bounds = PersonBounds { awake: 2, connections: 8, ..PersonBounds::default() };
    let place = open(Era::Legacy, None, bounds, |_| {}).await;
    let bob = bob(&place).await;
    come_as(&place, 12).await;
    assert_eq!(place.views.people(), 13, "all are remembered");
    let connections = place.fleet.running("house").unwrap().bridge.connections();
    assert!(connections <= 8, "{connections}");
    let before = place.house.all_greetings();
    assert_eq!(before, 13, "once for each");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(place.house.all_greetings(), before, "nobody wants anything");
    // Whoever comes back is shown what is theirs, and is asked for again.
    let first = place.client("ada", "t0", modern()).await;
    assert_eq!(names(&first).await, ["all__t", "house__t0"]);
    place.house.change("t0", &["t0", "more"]);
    until_listed(&first, &["all__t", "house__t0", "house__more"]).await;
    let called = within(bob.call_tool("house__blue", json!({}))).await.unwrap();
    assert_eq!(text(&called), "blue of blue");
    assert_eq!(place.house.greetings("blue"), 1, "his session is there");
    place.fleet.close().await;
}

#[tokio::test]
async fn who_speaks_for_many_is_forgotten_before_who_speaks_for_one() {
    for bounds in [
        PersonBounds { most: 4, ..PersonBounds::default() },
        // Enough for what three are shown and for pages of it, of whom one is just coming.
        PersonBounds { bytes: 3 * FOOTPRINT + 1000, ..PersonBounds::default() },
    ] {
        let place = open(Era::Legacy, None, bounds, |_| {}).await;
        let _bob = bob(&place).await;
        come_as(&place, 8).await;
        let of = |name: &str| {
            let seen = lock(&place.views.people);
            seen.people.iter().filter(|one| one.who.name() == name).count()
        };
        assert_eq!(of("bob"), 1, "{bounds:?}");
        assert!((1..8).contains(&of("ada")), "{bounds:?}");
        place.fleet.close().await;
    }
}

#[tokio::test]
async fn what_is_passed_on_counts_and_has_a_bound() {
    let place = usual(Era::Legacy).await;
    let long = "r".repeat(15 << 10);
    let ada = place.client("ada", &long, modern()).await;
    until_listed(&ada, &["all__t"]).await;
    let weight = lock(&place.views.people).people[0].front.weight();
    assert!(weight > FOOTPRINT + (15 << 10), "{weight}");
    let headers = HeaderMap::from_iter([
        (HeaderName::from_static("x-api-key"), HeaderValue::from_static("ada")),
        (HeaderName::from_static("x-tenant"), HeaderValue::from_str(&long.repeat(2)).unwrap()),
    ]);
    let url = format!("http://{}/mcp", place.address).parse().unwrap();
    let server = ServerTarget::url(url, Strategy::HttpOnly, headers, fetch());
    let refused = within(modern().connect(server)).await.unwrap_err();
    assert!(refused.to_string().contains("passed on to servers"), "{refused}");
    place.fleet.close().await;
}

#[tokio::test]
async fn tasks_end_with_the_users_they_are_for_although_no_server_changes() {
    let idle = Duration::from_millis(100);
    let bounds = PersonBounds { idle, connections: 4, ..PersonBounds::default() };
    let place = open(Era::Legacy, None, bounds, |plan| {
        // The house lets us in too: a server that is tried again and again changes.
        let house = plan.servers.get_mut("house").unwrap();
        let Target::Url { headers, .. } = &mut house.target else { unreachable!() };
        headers.insert("x-caretaker", HeaderValue::from_static("gateway"));
    });
    let place = place.await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let until = async |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let nobody = || place.views.people() == 0 && place.fleet.people.count() == 0;
    come_as(&place, 1).await;
    within(until(&nobody)).await;
    let before = tasks();
    come_as(&place, 20).await;
    // Connections that are pooled or on their way down are a few, however many users there were.
    within(until(&|| nobody() && tasks() < before + 10)).await;
    place.fleet.close().await;
}
